"""DM's own advice for archives of shards: merged tables keep what their sources delete, truncate and drop."""

from __future__ import annotations

import pytest

from airflow_provider_dm.engine.errors import NotSupportedYet
from tests.integration.merge.conftest import EACH_TRANSACTION, Shops

COLUMNS = "id int NOT NULL PRIMARY KEY, v varchar(20)"


def filtered(shops: Shops, **rule: object) -> None:
    """Give all sources the rule."""
    named = {"schema-pattern": shops.schema, "table-pattern": "o_*", "action": "Ignore", **rule}
    shops.task["filters"] = {"sale": named}
    shops.task["mysql-instances"] = [
        {"source-id": name, "block-allow-list": name, "route-rules": ["merge"], "filter-rules": ["sale"]}
        for name in shops.sources
    ]


def test_what_shards_take_away_stays(shops: Shops) -> None:
    filtered(shops, events=["truncate table", "drop table", "delete"])
    shops.create(COLUMNS, "a:o_0", "a:o_1", "b:o_2")
    shops.write("a", "INSERT INTO o_0 VALUES (1, 'a0'), (2, 'a0'); INSERT INTO o_1 VALUES (11, 'a1')")
    shops.write("b", "INSERT INTO o_2 VALUES (21, 'b2')")
    shops.load(copied=lambda: shops.write("a", "INSERT INTO o_0 VALUES (3, 'new')", "DELETE FROM o_0 WHERE id = 3"))
    shops.write("a", "UPDATE o_0 SET v = 'changed' WHERE id = 2", "DELETE FROM o_0", "INSERT INTO o_0 VALUES (4, 'a0')")
    shops.sources["a"].sql("TRUNCATE TABLE o_0", database=shops.schema)
    shops.sources["a"].sql("DROP TABLE o_1", database=shops.schema)
    shops.write("b", "UPDATE o_2 SET id = 22; DELETE FROM o_2; INSERT INTO o_2 VALUES (23, 'b2')")
    shops.sync(size=EACH_TRANSACTION)

    kept = [(1, "a0"), (2, "changed"), (3, "new"), (4, "a0"), (11, "a1"), (22, "b2"), (23, "b2")]
    assert shops.rows() == kept
    assert shops.meta_rows("dm_contested_row") == 0


def test_inserts_that_are_left_out_of_a_merged_table_are_refused_before_the_copy(one_pair: Shops) -> None:
    """An UPDATE of a row that never came could find another shard's."""
    filtered(one_pair, events=["insert"])
    one_pair.create(COLUMNS, "a:o_0", "b:o_2")
    with pytest.raises(NotSupportedYet, match="merged table"):
        one_pair.load()


def test_filtered_rows_of_a_merged_table_may_overwrite_each_other(one_pair: Shops) -> None:
    """The remedy of the refusal above is DM's own way: a change is about the row with its key, whosever it is."""
    shops = one_pair
    filtered(shops, events=["insert"])
    shops.create(COLUMNS, "a:o_0", "b:o_2")
    shops.write("a", "INSERT INTO o_0 VALUES (1, 'a')")
    shops.write("b", "INSERT INTO o_2 VALUES (2, 'b'), (3, 'b')")
    for one in shops.task["mysql-instances"]:
        one["loader"] = {"on-duplicate-logical": "replace"}
    shops.load()
    shops.write("a", "INSERT INTO o_0 VALUES (2, 'left out'), (4, 'left out')", "UPDATE o_0 SET v = 'changed'")
    shops.write("b", "INSERT INTO o_2 VALUES (1, 'left out')", "DELETE FROM o_2 WHERE id IN (1, 3)")
    shops.sync()
    assert shops.rows() == [(2, "changed")]
