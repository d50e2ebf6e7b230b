"""The target's session while rows are written: the user's settings, and warnings, all of which are read."""

from dataclasses import replace

from airflow_provider_dm.engine.downstream.errors import TargetLimit, TargetRefused
from airflow_provider_dm.engine.errors import InvalidInput
from testbed import Server
from tests.integration.copy.migrations import Migration, assert_same

MORE = {"long_query_time": "5", "time_zone": "Asia/Shanghai"}
DM_SAMPLE = {"sql_mode": "ANSI_QUOTES,NO_ZERO_IN_DATE,NO_ZERO_DATE"}


def test_dms_own_sample_of_a_session_is_exact(source: Server, target: Server, schema: str) -> None:
    source.sql(
        'CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, `a"b` VARCHAR(9), u INT UNIQUE, m TIMESTAMP NULL);'
        "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO';"
        "INSERT INTO t VALUES (0, '\"', 1, '2026-01-01'), (-1, '\\\\', 2, NULL), (5, 'it''s', NULL, NULL)",
        database=schema,
    )
    migration = Migration.of(target, source, schema, session=DM_SAMPLE | MORE)
    migration.finish()
    assert_same(source, target, schema, "t")
    assert target.sql("SELECT id FROM t ORDER BY id", database=schema) == [(-1,), (0,), (5,)]


def test_a_stricter_sql_mode_of_the_user_stops_the_copy(source: Server, target: Server, schema: str) -> None:
    """The user has set NO_ZERO_DATE: such a row stops the copy instead of arriving with another value."""
    source.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, d DATE); SET sql_mode = ''; INSERT INTO t VALUES (1, '0000-00-00')",
        database=schema,
    )
    migration = Migration.of(target, source, schema, session=DM_SAMPLE)
    migration.stops(TargetRefused, match="1292")
    replace(migration, session={}).finish()
    assert_same(source, target, schema, "t")


def test_an_unsafe_setting_is_named_before_anything_is_written(source: Server, target: Server, schema: str) -> None:
    source.sql("CREATE TABLE t (id INT PRIMARY KEY)", database=schema)
    session = {"unique_checks": "0"}
    migration = Migration.of(target, source, schema, session=session)
    migration.stops(InvalidInput, match=r"target \(root@.*unique_checks to '0'.*accept a duplicate")
    assert target.sql("SHOW DATABASES LIKE %s", [f"{schema}%"]) == []


def test_warnings_that_are_not_shown_stop(source: Server, mysql_target: Server, schema: str) -> None:
    """An account that may raise max_error_count sees them all; for any other one, what is hidden may be a change."""
    source.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a')); SET sql_mode = ''; INSERT INTO t VALUES (1, 0), (2, 'a')",
        database=schema,
    )
    mysql_target.create_user("dm_plain", "", privileges="SELECT, INSERT, UPDATE, DELETE, CREATE")
    there = replace(mysql_target, user="dm_plain")
    migration = Migration.of(there, source, schema)
    mysql_target.sql("SET GLOBAL max_error_count = 0")
    try:
        migration.stops(TargetLimit, match="shows only 0 of them")
        replace(migration, target=mysql_target).finish()
    finally:
        mysql_target.sql("SET GLOBAL max_error_count = 1024")
    assert_same(source, mysql_target, schema, "t")
