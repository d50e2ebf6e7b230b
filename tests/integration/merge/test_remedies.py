"""The remedies of errors about merged tables, carried out literally."""

from typing import Any

import pytest

from airflow_provider_dm.engine.downstream.removal import remove_progress
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.rules.errors import RulesChanged
from tests.integration.merge.conftest import PESSIMISTIC, PLAIN, Shops
from tests.integration.merge.sharding import locks
from tests.jobs import endpoint


def test_rules_that_leave_a_shard_out_wait_for_the_end_of_its_ddl(one_source: Shops) -> None:
    (source,) = one_source.sources
    one_source.task = PESSIMISTIC
    one_source.create(PLAIN, f"{source}:o_1", f"{source}:o_2", f"{source}:other")
    one_source.load()
    one_source.write(source, "ALTER TABLE o_1 ADD COLUMN c int", "INSERT INTO o_1 VALUES (1, 'held', 1)")
    one_source.sync()

    def task(kind: str, *tables: str) -> dict[str, Any]:
        listed = [{"db-name": one_source.schema, "tbl-name": table} for table in tables]
        return {**PESSIMISTIC, "block-allow-list": {source: {"do-dbs": [one_source.schema], kind: listed}}}

    one_source.task = changed = task("ignore-tables", "o_1")
    one_source.stops(RulesChanged, match="Change the rules back")
    one_source.task = PESSIMISTIC
    one_source.write(source, "ALTER TABLE o_2 ADD COLUMN c int")
    one_source.sync()
    assert locks(one_source) == []
    one_source.task = changed
    one_source.write(source, "INSERT INTO o_1 VALUES (2, 'left out', 2)", "INSERT INTO o_2 VALUES (3, 'taken', 3)")
    one_source.sync()
    assert one_source.rows() == [(1, "held", 1), (3, "taken", 3)]

    one_source.task = PESSIMISTIC
    one_source.stops(RulesChanged, match="exclude all source tables of its target table, empty that, and migrate them")
    one_source.task = task("ignore-tables", "o_1", "o_2")
    one_source.sync()
    one_source.target.sql("DELETE FROM o", database=one_source.schema)
    one_source.task = task("do-tables", "o_1", "o_2") | {"name": "again"}
    one_source.load()
    assert one_source.rows() == [(1, "held", 1), (2, "left out", 2), (3, "taken", 3)]


def test_sources_of_a_merged_table_are_forgotten_together(one_pair: Shops) -> None:
    one_pair.create(PLAIN, "a:o_1", "b:o_2")
    one_pair.write("a", "INSERT INTO o_1 VALUES (1, 'one')")
    one_pair.load()

    def forget(*sources: str) -> list[str]:
        target = endpoint("target", one_pair.target)
        return remove_progress(one_pair.store, target, one_pair.meta, "test", sources, who="test")

    with pytest.raises(InvalidInput, match="Remove -s"):
        forget("a")
    assert forget("a", "b") == ["a", "b"]
    one_pair.target.sql("DELETE FROM o", database=one_pair.schema)
    one_pair.load()
    assert one_pair.rows() == [(1, "one")]
