"""Columns that routing fills from names: in the copy, in the log after it, in a comparison of every row."""

import pytest

from airflow_provider_dm.engine.errors import NotSupportedYet
from airflow_provider_dm.engine.meta.records import Operator, OperatorKind, SqlPattern
from airflow_provider_dm.engine.rules.errors import ExtractNotPossible, RulesChanged
from airflow_provider_dm.engine.sync.runner import LocalRunner
from airflow_provider_dm.engine.verify.verification import verify
from tests.integration.merge.conftest import EACH_TRANSACTION, Shops

COLUMNS = "id int NOT NULL PRIMARY KEY, v varchar(20)"
TARGET = (
    "CREATE TABLE o (v varchar(20), c_source varchar(8) NOT NULL, id int NOT NULL, c_table int NOT NULL, "
    "c_schema varchar(64) CHARACTER SET latin1 NOT NULL, PRIMARY KEY (id, c_table, c_source)) COLLATE utf8mb4_bin"
)


def extracting(shops: Shops) -> None:
    """Shards that share keys, distinguished by their names."""
    route = {
        "schema-pattern": shops.schema,
        "table-pattern": "o_*",
        "target-schema": shops.schema,
        "target-table": "o",
        "extract-table": {"table-regexp": "o_(.*)", "target-column": "c_table"},
        "extract-schema": {"schema-regexp": "^(.).*$", "target-column": "c_schema"},
        "extract-source": {"source-regexp": "(.)", "target-column": "c_source"},
    }
    shops.task["routes"] = {"merge": route}
    shops.create(COLUMNS, "a:o_0", "a:o_1", "b:o_0")
    shops.write("a", "INSERT INTO o_0 VALUES (1, 'a0'), (2, 'a0'); INSERT INTO o_1 VALUES (1, 'a1')")
    shops.write("b", "INSERT INTO o_0 VALUES (1, 'b0')")


def test_shards_with_equal_keys_are_merged_if_another_column_distinguishes_them(shops: Shops) -> None:
    extracting(shops)
    shops.target.sql(f"CREATE DATABASE IF NOT EXISTS `{shops.schema}`")
    shops.target.sql(TARGET, database=shops.schema)
    shops.load(copied=lambda: shops.write("b", "UPDATE o_0 SET v = 'while copied'", "INSERT INTO o_0 VALUES (3, 'b0')"))
    shops.sync()
    shops.write("a", "UPDATE o_0 SET id = 7 WHERE id = 2", "DELETE FROM o_1", "INSERT INTO o_1 VALUES (5, 'é')")
    shops.write("b", "DELETE FROM o_0 WHERE id = 3", "INSERT INTO o_0 VALUES (7, 'b0')")
    shops.sync(size=EACH_TRANSACTION)

    s = shops.schema[0]
    assert shops.rows() == sorted(
        [
            ("a0", "a", 1, 0, s),
            ("a0", "a", 7, 0, s),
            ("é", "a", 5, 1, s),
            ("while copied", "b", 1, 0, s),
            ("b0", "b", 7, 0, s),
        ]
    )
    spec = shops.migration().spec.model_copy(update={"app": "verify"})
    assert verify(spec, LocalRunner(2))["verified"]
    shops.target.sql("UPDATE o SET c_schema = 'x' WHERE id = 5", database=shops.schema)
    assert not verify(spec, LocalRunner(2))["verified"]


def test_a_missing_column_is_reported_before_anything_is_done(one_pair: Shops) -> None:
    extracting(one_pair)
    with pytest.raises(ExtractNotPossible, match="the target has no such column"):
        one_pair.load()
    assert not one_pair.target.sql("SHOW DATABASES LIKE %s", [one_pair.schema])


def test_a_new_name_that_changes_extracted_values_stops_until_the_rows_have_them(one_pair: Shops) -> None:
    extracting(one_pair)
    one_pair.target.sql(f"CREATE DATABASE {one_pair.schema}; USE {one_pair.schema}; {TARGET}")
    one_pair.load()
    one_pair.write("a", "RENAME TABLE o_0 TO o_9", "UPDATE o_9 SET v = 'a9' WHERE id = 1")
    with pytest.raises(NotSupportedYet, match=r"would need c_table = '9' instead of '0'.* Update these columns"):
        one_pair.sync("a")
    one_pair.target.sql("UPDATE o SET c_table = 9 WHERE c_table = 0 AND c_source = 'a'", database=one_pair.schema)
    one_pair.store.put_operators([Operator("test", "a", OperatorKind.SKIP, SqlPattern("RENAME"))])
    one_pair.sync("a")
    rows = {(v, source, table) for v, source, _, table, _ in one_pair.rows()}
    assert rows == {("a9", "a", 9), ("a0", "a", 9), ("a1", "a", 1), ("b0", "b", 0)}


def test_routes_that_give_other_values_later_are_refused(one_pair: Shops) -> None:
    extracting(one_pair)
    one_pair.target.sql(f"CREATE DATABASE {one_pair.schema}; USE {one_pair.schema}; {TARGET}")
    one_pair.load()
    before = one_pair.task["routes"]["merge"]
    other = {"schema-regexp": "^.(.)", "target-column": "c_schema"}
    one_pair.task["routes"] = {"merge": {**before, "extract-schema": other}}
    one_pair.stops(RulesChanged, match="c_schema = 't'.* give .*c_schema = '_'.* Change the routes back")
    one_pair.task["routes"] = {"merge": before}
    one_pair.write("a", "INSERT INTO o_0 VALUES (9, 'a9')")
    one_pair.sync()
    assert len(one_pair.rows()) == 5
