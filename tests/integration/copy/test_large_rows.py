"""A target that takes small statements only: rows are split by their bytes, one that is too large is named at once."""

import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest

from airflow_provider_dm.engine.downstream.errors import RowTooLarge
from airflow_provider_dm.engine.mysql.errors import PacketTooLarge
from testbed import Server
from tests.integration.copy.migrations import Migration, assert_same

LIMIT = 256 << 10
USER = "dm_small"


@pytest.fixture
def small(target: Server) -> Iterator[Server]:
    """The target, with an account of its own: sessions keep the limit that they began with."""
    target.create_user(USER, "")
    ((usual,),) = target.sql("SELECT @@GLOBAL.max_allowed_packet")
    target.sql(f"SET GLOBAL max_allowed_packet = {LIMIT}")
    yield replace(target, user=USER)
    target.sql(f"SET GLOBAL max_allowed_packet = {usual}; DROP USER {USER}")


@pytest.mark.parametrize(("count", "largest"), [(60, 120_000), (200, 14_000)], ids=["literals", "bound"])
def test_rows_are_split_below_the_limit_of_the_target(
    source: Server, small: Server, schema: str, count: int, largest: int
) -> None:
    rows = ", ".join(f"({n}, REPEAT('{n % 10}', {n * 4000 % largest}), REPEAT('é', 5))" for n in range(count))
    source.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, b LONGBLOB, e VARCHAR(9), UNIQUE KEY (id, e));"
        f"CREATE TABLE keyless (id INT, b LONGTEXT, e VARCHAR(9));"
        f"INSERT INTO t VALUES {rows}; INSERT INTO keyless VALUES {rows}",
        database=schema,
    )
    result = Migration.of(small, source, schema).finish()
    assert result["rows"] == 2 * count
    assert_same(source, small, schema, "t", "keyless")


@pytest.mark.parametrize("key", ["PRIMARY KEY", "NULL"])
def test_one_row_that_is_too_large_is_named_at_once(
    source: Server, small: Server, schema: str, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    source.sql(
        f"CREATE TABLE t (id INT {key}, b LONGTEXT); INSERT INTO t VALUES (1, 'a'), (2, REPEAT('x', {LIMIT}))",
        database=schema,
    )
    migration = Migration.of(small, source, schema)
    with caplog.at_level(logging.WARNING), pytest.raises(RowTooLarge) as caught:
        migration.go()
    assert (caught.value.table, caught.value.key) == (f"{schema}.t", "`id` = 2" if key == "PRIMARY KEY" else "")
    assert LIMIT < caught.value.bytes < LIMIT + 500
    assert f"less than {LIMIT} (max_allowed_packet)" in str(caught.value)
    assert "retrying" not in caplog.text
    assert small.sql(f"SELECT COUNT(*) FROM {schema}.t") == [(0,)]


def test_a_row_of_ours_that_is_too_large_is_named(source: Server, small: Server, schema: str) -> None:
    """A table so wide that its description does not fit."""
    columns = ", ".join(f"c{'olumn' * 4}_{n} INT" for n in range(980))
    source.sql(f"CREATE TABLE t (id INT PRIMARY KEY, {columns})", database=schema)
    migration = Migration.of(small, source, schema)
    caught = migration.stops(PacketTooLarge, match=rf"REPLACE INTO `{schema}_meta`.`dm_table_schema` …")
    assert caught.limit == LIMIT
