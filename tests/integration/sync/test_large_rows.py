"""A target that takes small statements only, and a log with large rows."""

import logging
from collections.abc import Iterator

import pytest

from airflow_provider_dm.engine.downstream.errors import RowTooLarge
from testbed import Server
from tests.integration.copy.migrations import Migration
from tests.integration.sync.conftest import NewKit, SyncKit

LIMIT = 256 << 10


@pytest.fixture
def small_kit(kit: SyncKit) -> Iterator[SyncKit]:
    ((usual,),) = kit.target.sql("SELECT @@GLOBAL.max_allowed_packet")
    kit.target.sql(f"SET GLOBAL max_allowed_packet = {LIMIT}")
    _ = kit.first_file
    for server in (kit.source, kit.target):
        server.sql(
            "CREATE TABLE t (id INT PRIMARY KEY, b LONGTEXT); CREATE TABLE keyless (id INT, b LONGTEXT)",
            database=kit.schema,
        )
    kit.tables = ("t", "keyless")
    kit.begin()
    yield kit
    kit.target.sql(f"SET GLOBAL max_allowed_packet = {usual}")


def test_rows_are_split_below_the_limit_of_the_target(small_kit: SyncKit) -> None:
    for table in small_kit.tables:
        rows = ", ".join(f"({n}, REPEAT('{n % 10}', {n * 4000 % 90_000}))" for n in range(60))
        small_kit.write(f"INSERT INTO {table} VALUES {rows}")
    small_kit.sync_and_compare()
    for table in small_kit.tables:
        small_kit.write(
            f"UPDATE {table} SET b = CONCAT(b, 'y') WHERE id % 3 = 0", f"DELETE FROM {table} WHERE id % 3 = 1"
        )
    small_kit.sync_and_compare()


@pytest.mark.parametrize("table", ["t", "keyless"])
def test_one_row_that_is_too_large_is_named_at_once(
    small_kit: SyncKit, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    small_kit.write(f"INSERT INTO {table} VALUES (1, 'a'), (2, REPEAT('x', {LIMIT}))")
    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(RowTooLarge, match=f"{small_kit.schema}.{table} takes") as caught,
    ):
        small_kit.sync()
    assert LIMIT < caught.value.bytes < LIMIT + 500
    assert caught.value.key == {"t": "`id` = 2", "keyless": ""}[table]
    assert "retrying" not in caplog.text
    assert small_kit.target.sql(f"SELECT COUNT(*) FROM {small_kit.schema}.{table}") == [(0,)]


def test_a_row_above_tidbs_limit_is_named_by_its_key(
    mysql_source: Server, tidb_target: Server, new_kit: NewKit
) -> None:
    """Among others of its statement, and even if its text is much shorter than the value that TiDB stores."""
    ((usual,),) = tidb_target.sql("SELECT @@GLOBAL.tidb_txn_entry_size_limit")
    tidb_target.sql(f"SET GLOBAL tidb_txn_entry_size_limit = {LIMIT}")
    try:
        kit = new_kit(SyncKit, mysql_source, tidb_target)
        kit.close()  # a session has the limit with which it began
        kit.both("CREATE TABLE t (a VARCHAR(9), b JSON, n INT, PRIMARY KEY (n, a))")
        kit.tables = ("t",)
        kit.begin()
        large = f"CONCAT('[1', REPEAT(',1', {LIMIT // 13}), ']')"
        kit.write(f"INSERT INTO t VALUES ('a', '[]', 1), ('b', {large}, 2), ('c', '[]', 3)")
        caught = kit.stops(RowTooLarge, match=rf"less than {LIMIT} \(tidb_txn_entry_size_limit\)")
        kit.source.sql("CREATE TABLE s LIKE t; INSERT INTO s SELECT * FROM t", database=kit.schema)
        rules = {"one": {"do-dbs": [kit.schema], "do-tables": [{"db-name": kit.schema, "tbl-name": "s"}]}}
        copied = Migration.of(tidb_target, mysql_source, kit.schema, task={"block-allow-list": rules}).stops(
            RowTooLarge
        )
    finally:
        tidb_target.sql(f"SET GLOBAL tidb_txn_entry_size_limit = {usual}")
    for table, error in (("t", caught), ("s", copied)):
        assert (error.table, error.key) == (f"{kit.schema}.{table}", "`n` = 2, `a` = 'b'")
        assert error.bytes > LIMIT
        assert "1,1" not in str(error)


def test_a_row_image_that_is_too_large_to_search_for_is_reported(small_kit: SyncKit) -> None:
    large = f"REPEAT('x', {LIMIT // 2})"
    for server in (small_kit.source, small_kit.target):
        unlogged = "" if server.flavour == "tidb" else "SET sql_log_bin = 0; "
        server.sql(f"{unlogged}INSERT INTO keyless VALUES (1, {large}), (2, {large})", database=small_kit.schema)
    small_kit.write("DELETE FROM keyless WHERE id = 1")  # half of the limit: found
    small_kit.sync_and_compare()
    with small_kit.source.connect(database=small_kit.schema) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute("ALTER TABLE keyless ADD INDEX (id)")
        cursor.execute(f"UPDATE keyless SET b = REPEAT('y', {LIMIT}) WHERE id = 2")
    small_kit.write("DELETE FROM keyless WHERE id = 2")
    small_kit.stops(RowTooLarge, match=f"{small_kit.schema}.keyless takes")
