"""The tables of the target that are read again after a DDL statement."""

from dataclasses import replace

from airflow_provider_dm.engine.downstream.ddl_execution import TargetDdl
from airflow_provider_dm.engine.downstream.ddl_journal import IN_FRONT, JournalEntry
from airflow_provider_dm.engine.downstream.table_schema import TableSchema
from airflow_provider_dm.engine.rules.mapping import map_table
from airflow_provider_dm.engine.sync.following import untouched
from airflow_provider_dm.engine.sync.plan.plan_parts import target_part
from tests.unit.sync.loop_world import PLAN
from tests.unit.sync.target_tables import TARGETS


def test_only_what_a_statement_may_have_changed_is_read_again() -> None:
    """What it alters, what the target has executed for it, and what a user had done before it, and took back."""
    plan = replace(PLAN, targets=tuple(target_part(map_table(one, one)) for one in TARGETS))
    altered, executed, injected, *left = names = [one.name for one in TARGETS]
    assert left
    noted = {IN_FRONT: JournalEntry(IN_FRONT, "UPDATE", {injected: None}, True)}

    found = untouched(plan, [TableSchema(TARGETS[0], altered)], [TargetDdl("ALTER", (executed,))], noted)

    assert list(found) == left
    assert untouched(plan, [], [], {}).keys() == {*names}
