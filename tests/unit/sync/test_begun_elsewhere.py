"""DDL that was begun by another server's log goes on in the new one's only if all of it says the same."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from airflow_provider_dm.engine.binlog.open_places import OldLogNotHeld
from airflow_provider_dm.engine.binlog.planned import DdlStatement
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.rules.mapping import map_table
from airflow_provider_dm.engine.sync.ddl.begun_elsewhere import Journal
from airflow_provider_dm.engine.sync.following import untouched
from airflow_provider_dm.engine.sync.plan.plan_parts import target_part
from airflow_provider_dm.engine.target.ddl_execution import REFUSED, TargetDdl
from airflow_provider_dm.engine.target.ddl_journal import IN_FRONT, Entry
from airflow_provider_dm.engine.target.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.target.table_schema import TableSchema
from tests.unit.sync.histories import TARGETS
from tests.unit.sync.loop_world import PLAN

OLD = Location("a.000001", 500)
AT = Location("b.000001", 200, "0-1-7", suffix=2)
DDL = DdlStatement(AT, Location("b.000001", 300, "0-1-8", suffix=2), "s", "ALTER TABLE t ADD (a int, b int)", 0)
FIRST = TargetDdl("ALTER 1", (), parts=("PART 1", "PART 2"))
SECOND = TargetDdl("ALTER 2 int(11)", (), alike="ALTER 2 int")
INJECTED = TargetDdl("UPDATE", ())


def journal(position: str, *noted: tuple[int, str]) -> Journal:
    fence = Fence(SubtaskRef("dm_meta", "t", "s"), 1)
    entries = {number: Entry(number, sql, {}, done=False) for number, sql in noted}
    return Journal(cast("Endpoint", None), fence, DDL, position, entries)


@pytest.mark.parametrize(
    ("noted", "same"),
    [
        ([], True),
        ([(0, "ALTER 1")], True),
        ([(0, "part 2: PART 2")], True),
        ([(0, "ALTER 1"), (1, "ALTER 2 int")], True),
        ([(0, "ALTER 1"), (1, "ALTER 2 int(11)")], True),
        ([(IN_FRONT, "UPDATE"), (0, "ALTER 1")], True),
        ([(0, REFUSED + "what a person gave instead")], True),
        ([(-1, "")], False),
        ([(0, "what a person gave instead")], False),
        ([(0, "ALTER 2 int")], False),
        ([(2, "ALTER 3")], False),
        ([(IN_FRONT, "another"), (0, "ALTER 1")], False),
        ([(IN_FRONT + 1, "UPDATE")], False),
    ],
)
def test_all_that_is_noted_is_about_what_follows(noted: list[tuple[int, str]], same: bool) -> None:
    journal(DDL.end.sort_key, *noted).check_same([INJECTED], [FIRST, SECOND])  # in its own log: the journal's matter
    elsewhere = journal(OLD.sort_key, *noted)
    if same:
        elsewhere.check_same([INJECTED], [FIRST, SECOND])
        return
    with pytest.raises(OldLogNotHeld) as caught:
        elsewhere.check_same([INJECTED], [FIRST, SECOND])
    assert "000001:500" in caught.value.place


@pytest.mark.parametrize(
    ("at", "end", "own"),
    [
        ("0-1-7", "0-1-8", "0-1-8"),
        ("0-1-7,1-1-3", "0-1-7,1-2-4", "1-2-4"),
        ("", "0-1-8", ""),
        ("0-1-7", "", ""),
        ("0-1-7", "0-1-7", ""),
    ],
)
def test_a_statement_is_known_by_what_it_adds(at: str, end: str, own: str) -> None:
    begin, behind = Location("b.000001", 200, at), Location("b.000001", 300, end)
    assert DdlStatement(begin, behind, "s", "", 0).own_set == own


def test_only_what_a_statement_may_have_changed_is_read_again() -> None:
    """What it alters, what the target has executed for it, and what a person had done in front of it, and took back."""
    plan = replace(PLAN, targets=tuple(target_part(map_table(one, one)) for one in TARGETS))
    altered, executed, injected, *left = names = [one.name for one in TARGETS]
    assert left
    noted = replace(journal(DDL.end.sort_key), entries={IN_FRONT: Entry(IN_FRONT, "UPDATE", {injected: None}, True)})

    found = untouched(plan, [TableSchema(TARGETS[0], altered)], [TargetDdl("ALTER", (executed,))], noted)

    assert list(found) == left
    assert untouched(plan, [], [], journal(DDL.end.sort_key)).keys() == {*names}
