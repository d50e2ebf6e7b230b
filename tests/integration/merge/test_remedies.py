"""The remedies of errors about merged tables, carried out literally."""

from __future__ import annotations

import pytest

from airflow_provider_dm.engine.downstream.removal import remove_progress
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.rules.errors import RulesChanged
from tests.integration.copy.migrations import endpoint
from tests.integration.merge.conftest import Shops
from tests.integration.merge.sharding import PESSIMISTIC, PLAIN, locks


def test_rules_that_leave_a_shard_out_wait_for_the_end_of_its_ddl(one_source: Shops) -> None:
    shops = one_source
    (source,) = shops.sources
    shops.task = PESSIMISTIC
    shops.create(PLAIN, f"{source}:o_1", f"{source}:o_2")
    shops.load()
    shops.write(source, "ALTER TABLE o_1 ADD COLUMN c int", "INSERT INTO o_1 VALUES (1, 'held', 1)")
    shops.sync()
    without = {"do-dbs": [shops.schema], "ignore-tables": [{"db-name": shops.schema, "tbl-name": "o_1"}]}
    changed = {**PESSIMISTIC, "block-allow-list": {source: without}}
    shops.task = changed
    with pytest.raises(RulesChanged, match="Change the rules back"):
        shops.sync()
    shops.task = PESSIMISTIC
    shops.write(source, "ALTER TABLE o_2 ADD COLUMN c int")
    shops.sync()
    assert locks(shops) == []
    shops.task = changed
    shops.write(source, "INSERT INTO o_1 VALUES (2, 'left out', 2)", "INSERT INTO o_2 VALUES (3, 'taken', 3)")
    shops.sync()
    assert shops.rows() == [(1, "held", 1), (3, "taken", 3)]


def test_sources_of_a_merged_table_are_forgotten_together(one_pair: Shops) -> None:
    shops = one_pair
    shops.create(PLAIN, "a:o_1", "b:o_2")
    shops.write("a", "INSERT INTO o_1 VALUES (1, 'one')")
    shops.load()

    def forget(*sources: str) -> list[str]:
        target = endpoint("target", shops.target)
        return remove_progress(shops.store, target, shops.meta, "test", sources, who="test")

    with pytest.raises(InvalidInput, match="Remove -s"):
        forget("a")
    assert forget("a", "b") == ["a", "b"]
    shops.target.sql("DELETE FROM o", database=shops.schema)
    shops.load()
    assert shops.rows() == [(1, "one")]
