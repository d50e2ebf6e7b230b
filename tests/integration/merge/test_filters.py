"""DM's own advice for archives of shards: merged tables keep what their sources delete, truncate and drop."""

import pytest

from airflow_provider_dm.engine.merge.errors import RowsCollide
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


def test_columns_that_shards_drop_are_kept(shops: Shops) -> None:
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


def test_a_row_that_waits_is_inserted_again_after_a_delete_that_is_filtered(one_pair: Shops) -> None:
    filtered(one_pair, events=["delete"])
    one_pair.create(COLUMNS, "a:o_0", "b:o_2")
    one_pair.write("a", "INSERT INTO o_0 VALUES (1, 'a')")
    one_pair.write("b", "INSERT INTO o_2 VALUES (2, 'b')")
    one_pair.load()
    one_pair.write(
        "b", "INSERT INTO o_2 VALUES (1, 'b')", "DELETE FROM o_2 WHERE id = 1", "INSERT INTO o_2 VALUES (1, 'c')"
    )
    one_pair.write("a", "UPDATE o_0 SET id = 3")
    one_pair.sync("b", size=EACH_TRANSACTION)
    assert (one_pair.rows(), one_pair.meta_rows("dm_contested_row")) == ([(1, "a"), (2, "b")], 1)
    one_pair.sync()

    assert one_pair.rows() == [(1, "c"), (2, "b"), (3, "a")]
    assert one_pair.meta_rows("dm_contested_row") == 0


@pytest.mark.parametrize("safe_mode", [False, True])
def test_rows_of_shards_overwrite_each_other_where_filters_ignore_inserts(one_pair: Shops, *, safe_mode: bool) -> None:
    """As in DM, a change is about the row with its key, whichever shard wrote it; also a row that waits at the load."""
    filtered(one_pair, events=["insert"])
    one_pair.task["mysql-instances"][1].pop("filter-rules")
    if safe_mode:
        one_pair.task["syncers"] = {"safe": {"safe-mode": True}}
        for one in one_pair.task["mysql-instances"]:
            one["syncer-config-name"] = "safe"
    one_pair.create(COLUMNS, "a:o_0", "a:o_1", "b:o_2")
    one_pair.write("a", "INSERT INTO o_0 VALUES (1, 'a'), (5, 'a'); INSERT INTO o_1 VALUES (5, 'a1'), (7, 'a1')")
    one_pair.write("b", "INSERT INTO o_2 VALUES (2, 'b'), (3, 'b')")
    one_pair.load()
    one_pair.write("a", "INSERT INTO o_0 VALUES (2, 'left out'), (4, 'left out')", "UPDATE o_0 SET v = 'changed'")
    one_pair.write("a", "UPDATE o_1 SET v = 'later' WHERE id = 5")
    one_pair.sync()
    assert one_pair.rows() == [(1, "changed"), (2, "changed"), (3, "b"), (5, "later"), (7, "a1")]
    one_pair.write(
        "b", "UPDATE o_2 SET v = 'b again'", "DELETE FROM o_2 WHERE id = 3", "INSERT INTO o_2 VALUES (5, 'b')"
    )
    one_pair.sync()
    assert one_pair.rows() == [(1, "changed"), (2, "b again"), (5, "b"), (7, "a1")]
    assert one_pair.meta_rows("dm_contested_row") == 0


@pytest.mark.parametrize("way", ["filter", "loader"])
def test_a_row_that_waits_replaces_the_other_when_rows_may_overwrite_each_other(one_pair: Shops, way: str) -> None:
    filtered(one_pair, events=["none"])
    one_pair.create(COLUMNS, "a:o_0", "b:o_2")
    one_pair.write("a", "INSERT INTO o_0 VALUES (1, 'a')")
    one_pair.write("b", "INSERT INTO o_2 VALUES (2, 'b')")
    one_pair.load()
    one_pair.write("b", "INSERT INTO o_2 VALUES (1, 'b')")
    one_pair.stops(RowsCollide)
    assert one_pair.meta_rows("dm_contested_row") == 1
    if way == "filter":
        filtered(one_pair, events=["update"])
    else:
        for one in one_pair.task["mysql-instances"]:
            one["loader"] = {"on-duplicate-logical": "replace"}
    one_pair.write("b", "INSERT INTO o_2 VALUES (3, 'b')")
    one_pair.sync()
    assert one_pair.rows() == [(1, "b"), (2, "b"), (3, "b")]
    assert one_pair.meta_rows("dm_contested_row") == 0


def test_a_load_into_a_target_with_a_further_unique_key_may_have_filters(one_pair: Shops) -> None:
    filtered(one_pair, events=["insert", "update"])
    one_pair.create(COLUMNS, "a:o_0", "b:o_2")
    one_pair.write("a", "INSERT INTO o_0 VALUES (1, 'a'), (2, 'a2')")
    one_pair.write("b", "INSERT INTO o_2 VALUES (11, 'b')")
    one_pair.target.sql(f"CREATE DATABASE {one_pair.schema}")
    one_pair.target.sql(f"CREATE TABLE o ({COLUMNS}, UNIQUE KEY (v))", database=one_pair.schema)
    one_pair.load()
    one_pair.write("a", "INSERT INTO o_0 VALUES (3, 'a')", "UPDATE o_0 SET v = 'x' WHERE id = 2", "DELETE FROM o_0")
    one_pair.write("b", "DELETE FROM o_2", "INSERT INTO o_2 VALUES (12, 'b')")
    one_pair.sync()
    assert one_pair.rows() == []
