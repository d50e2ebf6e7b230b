"""The independent equality checker: it must see every difference, and none where there is none."""

import pytest

from testbed import Server
from testbed.equality import Comparison, Place, compare, compare_table
from tests.conftest import FreshSchema

NASTY = """CREATE TABLE t (
    id INT PRIMARY KEY, f FLOAT, d DOUBLE, name VARCHAR(20) CHARACTER SET latin1, raw VARBINARY(20), at DATETIME(6),
    z INT(8) ZEROFILL, bits BIT(12))"""
ROWS = (
    "INSERT INTO t VALUES (1, 0.1, 0.1, 'café', x'00ff', '2020-01-01 00:00:00.000001', 7, b'101'),"
    "(2, -0e0, 1e-300, '', '', NULL, NULL, NULL), (3, NULL, NULL, NULL, NULL, NULL, 0, 0)"
)


def place(server: Server, table: str) -> Place:
    return Place(server.client_config(), table)


def test_equal_tables_are_equal(source: Server, target: Server, fresh_schema: FreshSchema) -> None:
    schema = fresh_schema(source, target)
    for server in (source, target):
        server.sql(NASTY, database=schema)
        server.sql(ROWS, database=schema)
    target.sql("ALTER TABLE t MODIFY name VARCHAR(20) CHARACTER SET utf8mb4 AFTER id", database=schema)

    report = compare([Comparison((place(source, f"{schema}.t"),), place(target, f"{schema}.t"))])

    assert report.equal, report
    assert report.rows == 3


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE t SET d = 0.10000000000000002 WHERE id = 1",
        "UPDATE t SET f = 0e0 + 1e-40 WHERE id = 2",
        "UPDATE t SET name = NULL WHERE id = 2",
        "UPDATE t SET name = 'café ' WHERE id = 1",
        "UPDATE t SET at = '2020-01-01 00:00:00.000002' WHERE id = 1",
        "DELETE FROM t WHERE id = 3",
        "INSERT INTO t (id) VALUES (4)",
    ],
)
def test_one_damaged_row_is_found_and_shown(mariadb_target: Server, fresh_schema: FreshSchema, damage: str) -> None:
    schema = fresh_schema(mariadb_target)
    mariadb_target.sql(NASTY, database=schema)
    mariadb_target.sql(ROWS, database=schema)
    mariadb_target.sql("CREATE TABLE copy LIKE t; INSERT INTO copy SELECT * FROM t", database=schema)
    mariadb_target.sql(damage.replace(" t ", " copy "), database=schema)

    report = compare_table(Comparison((place(mariadb_target, f"{schema}.t"),), place(mariadb_target, f"{schema}.copy")))

    assert not report.equal
    assert len({row.row["id"] for row in report.differing}) == 1


def test_shards_add_up_and_duplicates_do_not_cancel_out(mariadb_target: Server, fresh_schema: FreshSchema) -> None:
    """{A, A} and {B, B} have the same count and the same XOR; here they differ."""
    schema = fresh_schema(mariadb_target)
    for table, rows in {"a": "(1), (1)", "b": "(2)", "sum": "(1), (1), (2)", "wrong": "(2), (2), (2)"}.items():
        mariadb_target.sql(f"CREATE TABLE {table} (v INT); INSERT INTO {table} VALUES {rows}", database=schema)
    shards = (place(mariadb_target, f"{schema}.a"), place(mariadb_target, f"{schema}.b"))

    good = compare_table(Comparison(shards, place(mariadb_target, f"{schema}.sum")))
    bad = compare_table(Comparison(shards, place(mariadb_target, f"{schema}.wrong")))

    assert good.equal
    assert good.target_rows == 3
    assert not bad.equal
    assert {(row.row["v"], row.in_sources, row.in_target) for row in bad.differing} == {("'1'", 2, 0), ("'2'", 1, 3)}


def test_other_columns_and_a_missing_table_are_differences(mariadb_target: Server, fresh_schema: FreshSchema) -> None:
    schema = fresh_schema(mariadb_target)
    mariadb_target.sql("CREATE TABLE a (v INT); CREATE TABLE b (w INT)", database=schema)
    a, b, c = (place(mariadb_target, f"{schema}.{name}") for name in "abc")

    assert "columns differ" in compare_table(Comparison((a,), b)).problem
    assert "does not exist" in compare_table(Comparison((a,), c)).problem
