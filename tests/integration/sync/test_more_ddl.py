"""Statements of MySQL's and MariaDB's own test scripts that the sync once stopped at: real servers, one life each."""

from collections.abc import Sequence

import pytest

from airflow_provider_dm.engine.downstream.errors import DdlRefused
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.sync.errors import DdlNotSupported
from testbed import Server
from tests.integration.sync.conftest import SyncKit
from tests.integration.sync.test_follows_ddl import begin, check_equal

IN_ONE_FAMILY: dict[str, Sequence[str]] = {
    "partitions by moments": (
        "SET time_zone = '+05:30'",
        (
            "CREATE TABLE p (id int NOT NULL, t timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (id, t)) "
            "PARTITION BY RANGE (UNIX_TIMESTAMP(t)) "
            "(PARTITION p0 VALUES LESS THAN (UNIX_TIMESTAMP('2024-07-01 00:00:00')),"
            " PARTITION p1 VALUES LESS THAN (UNIX_TIMESTAMP('2025-01-01 00:00:00')))"
        ),
        "INSERT INTO p VALUES (1, '2024-06-30 23:30:00'), (2, '2024-07-01 00:30:00')",
        "ALTER TABLE p ADD PARTITION (PARTITION p2 VALUES LESS THAN (UNIX_TIMESTAMP('2025-07-01 00:00:00')))",
        (
            "ALTER TABLE p REORGANIZE PARTITION p0, p1 INTO "
            "(PARTITION p01 VALUES LESS THAN (UNIX_TIMESTAMP('2025-01-01 00:00:00')))"
        ),
        "INSERT INTO p VALUES (3, '2025-03-03 00:30:00')",
        "ALTER TABLE p TRUNCATE PARTITION p01",
    ),
    "numbers that begin at one": (
        "CREATE TABLE m (id varchar(9) PRIMARY KEY)",
        "INSERT INTO m VALUES ('a'), ('b')",
        "ALTER TABLE m ADD c int AUTO_INCREMENT UNIQUE, AUTO_INCREMENT = 1000",
    ),
    "reorganized partitions": (
        (
            "CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id) "
            "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20), "
            "PARTITION pm VALUES LESS THAN MAXVALUE)"
        ),
        "INSERT INTO p VALUES (1), (11), (21)",
        "ALTER TABLE p REORGANIZE PARTITION p0, p1 INTO (PARTITION q VALUES LESS THAN (20))",
        (
            "ALTER TABLE p REORGANIZE PARTITION pm INTO (PARTITION q2 VALUES LESS THAN (30) COMMENT = 'a', "
            "PARTITION qm VALUES LESS THAN MAXVALUE)"
        ),
        "CREATE TABLE h (id int PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 3",
        "INSERT INTO h VALUES (1), (2), (3)",
        "ALTER TABLE h REORGANIZE PARTITION",
        "ALTER TABLE h ADD PARTITION PARTITIONS 2",
        "ALTER TABLE h COALESCE PARTITION 1",
        "ALTER TABLE p TRUNCATE PARTITION q",
        "ALTER TABLE p DROP PARTITION q2",
    ),
    "references to what is not unique": (
        "CREATE TABLE parent (id int PRIMARY KEY, v int, KEY v (v))",
        "/*!80400 SET SESSION restrict_fk_on_non_standard_key = OFF */",
        "CREATE TABLE child (id int PRIMARY KEY, v int, FOREIGN KEY f (v) REFERENCES parent (v))",
        "INSERT INTO parent VALUES (1, 1), (2, 1)",
        "INSERT INTO child VALUES (1, 1)",
    ),
    "keys over casts": (
        "CREATE TABLE c (id int PRIMARY KEY, j json)",
        "/*!80017 ALTER TABLE c ADD KEY f ((CAST(j->>'$.a' AS CHAR(10)))) */",
        (
            "/*!80017 CREATE TABLE d (id int PRIMARY KEY, v varchar(20), KEY g ((CAST(v AS UNSIGNED))), "
            "KEY h ((CAST(v AS DATE)))) */"
        ),
        'INSERT INTO c VALUES (1, \'{"a": "x"}\')',
    ),
}

EVERYWHERE: dict[str, Sequence[str]] = {
    "backslashes that escape nothing": (
        "SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
        "CREATE TABLE \"a\" (\"id\" int PRIMARY KEY, \"v \"\"q\" enum('x\\', 'y''z') DEFAULT 'x\\') COMMENT 'c\\'",
        "INSERT INTO a (id) VALUES (1)",
        "ALTER TABLE a ADD w enum('\\''', '\\') DEFAULT '\\''' COMMENT 'q\"'",
        "INSERT INTO a (id) VALUES (2)",
        "CREATE TABLE b LIKE a",
        "INSERT INTO b (id) VALUES (3)",
    ),
    "a union": (
        "CREATE TABLE u (id int PRIMARY KEY) UNION=()",
        "ALTER TABLE u UNION=(), ADD v int",
        "INSERT INTO u VALUES (1, 2)",
    ),
}

OF_MARIADB: dict[str, Sequence[str]] = {
    "alter ignore": (
        "CREATE TABLE a (id int PRIMARY KEY, v int)",
        "INSERT INTO a VALUES (1, 1)",
        "ALTER IGNORE TABLE a ADD w int",
        "UPDATE a SET w = 5",
    ),
    "rename if exists": (
        "CREATE TABLE a (id int PRIMARY KEY)",
        "INSERT INTO a VALUES (1)",
        "RENAME TABLE IF EXISTS a TO b, nothing TO c",
        "RENAME TABLE IF EXISTS nothing TO b",
        "INSERT INTO b VALUES (2)",
        "CREATE TABLE nothing (id int PRIMARY KEY)",
        "RENAME TABLE IF EXISTS nothing TO d, nothing TO e, d TO f",
        "INSERT INTO f VALUES (2)",
        "ALTER TABLE IF EXISTS nothing RENAME TO g",
    ),
    "temporary tables with another name": (
        "CREATE TABLE a (id int PRIMARY KEY)",
        "CREATE TEMPORARY TABLE x (id int)",
        "RENAME TABLE x TO y",
        "ALTER TABLE y ADD more int",
        "ALTER TABLE y RENAME TO z",
        "DROP TEMPORARY TABLE z",
        "INSERT INTO a VALUES (1)",
    ),
    "create or replace": (
        "CREATE OR REPLACE TABLE a (id int PRIMARY KEY)",
        "INSERT INTO a VALUES (1)",
        "CREATE OR REPLACE TABLE a (id varchar(9) PRIMARY KEY, v int)",
        "INSERT INTO a VALUES ('a', 1)",
        "CREATE TABLE b LIKE a",
        "INSERT INTO b VALUES ('b', 1)",
        "CREATE OR REPLACE TABLE b LIKE a",
        "INSERT INTO b VALUES ('bb', 1)",
        "CREATE OR REPLACE TABLE a SELECT id, v FROM b",
        "CREATE OR REPLACE TABLE a (id int PRIMARY KEY) SELECT 7 AS id",
    ),
}

OF_MYSQL: dict[str, Sequence[str]] = {
    "generated primary keys": (
        "SET sql_generate_invisible_primary_key = ON",
        "CREATE TABLE g (v int)",
        "INSERT INTO g VALUES (1), (2)",
        "ALTER TABLE g ADD w int DEFAULT 3 FIRST",
        "INSERT INTO g VALUES (3, 3)",
        "UPDATE g SET v = 9 WHERE v = 2",
        "CREATE TABLE h LIKE g",
        "INSERT INTO h VALUES (1, 1)",
        "CREATE TABLE k (id int PRIMARY KEY)",
    )
}


def live(kit: SyncKit, statements: Sequence[str]) -> None:
    begin(kit)
    with kit.source.connect(database=kit.schema, autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    kit.sync()
    check_equal(kit)


_PARTITIONS = (
    "SELECT table_name, partition_name, partition_method, partition_description FROM information_schema.partitions "
    "WHERE table_schema = %s ORDER BY 1, partition_ordinal_position"
)


def partitions_of(kit: SyncKit, server: Server) -> list[tuple[object, ...]]:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(_PARTITIONS, (kit.schema,))
        return list(cursor.fetchall())


@pytest.mark.every_pair
@pytest.mark.parametrize("life", IN_ONE_FAMILY)
def test_statements_within_one_family(kit: SyncKit, life: str) -> None:
    if kit.source.flavour == kit.target.flavour:
        live(kit, IN_ONE_FAMILY[life])
        assert partitions_of(kit, kit.source) == partitions_of(kit, kit.target)


@pytest.mark.parametrize("life", EVERYWHERE)
def test_statements_that_every_flavour_supports(kit: SyncKit, life: str) -> None:
    live(kit, EVERYWHERE[life])


@pytest.mark.parametrize("life", OF_MARIADB)
def test_from_mariadb(mariadb11_kit: SyncKit, life: str) -> None:
    live(mariadb11_kit, OF_MARIADB[life])


def test_literal_defaults_of_long_columns_are_left_out_in_tidb(mariadb11_kit: SyncKit) -> None:
    kit = mariadb11_kit
    if kit.target.flavour != "tidb":
        return
    long = "t text DEFAULT 'é', j json DEFAULT '{}', b blob NOT NULL DEFAULT x'00'"
    live(
        kit,
        (
            f"CREATE TABLE d (id int PRIMARY KEY, {long})",
            "INSERT INTO d (id) VALUES (1), (2)",
            "ALTER TABLE d ADD n mediumtext NOT NULL DEFAULT '', MODIFY t longtext DEFAULT 'ü'",
            "ALTER TABLE d ALTER n SET DEFAULT 'x', ALTER t DROP DEFAULT",
            "INSERT INTO d (id) VALUES (3)",
        ),
    )
    kit.target.sql("INSERT INTO d (id, n, b) VALUES (9, '', '')", database=kit.schema)
    assert kit.target.sql("SELECT t, j FROM d WHERE id = 9", database=kit.schema) == [(None, None)]
    kit.write("ALTER TABLE d ADD x text DEFAULT 'x'")
    kit.stops(DdlNotSupported, match="the default 'x' of `x` for existing rows")


@pytest.mark.parametrize("life", OF_MYSQL)
def test_from_mysql(mysql_kit: SyncKit, life: str) -> None:
    live(mysql_kit, OF_MYSQL[life])


def test_a_temporary_table_that_hides_one_of_the_task_stops_it(mariadb11_kit: SyncKit) -> None:
    begin(mariadb11_kit)
    with (
        mariadb11_kit.source.connect(database=mariadb11_kit.schema, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        for statement in (
            "CREATE TABLE a (id int PRIMARY KEY)",
            "CREATE TEMPORARY TABLE a (other int)",
            "RENAME TABLE a TO z",
            "INSERT INTO a VALUES (1)",
        ):
            cursor.execute(statement)
    stopped = mariadb11_kit.stops(DmError)
    assert stopped.code == "DM-6030"


def test_rows_dropped_by_alter_ignore_stop_the_task_until_the_target_lacks_them(mariadb11_kit: SyncKit) -> None:
    """The target runs it without IGNORE: MariaDB's log does not show which rows were dropped."""
    begin(mariadb11_kit)
    mariadb11_kit.write("CREATE TABLE a (id int PRIMARY KEY, v int)", "INSERT INTO a VALUES (1, 1), (2, 1)")
    mariadb11_kit.write("ALTER IGNORE TABLE a ADD UNIQUE u (v)", "INSERT INTO a VALUES (3, 3)")
    for _ in range(2):  # the second run begins after the first one's attempt
        mariadb11_kit.stops(DdlRefused, match=r"DM-6033.*1062 DUP_ENTRY")
    assert mariadb11_kit.source.sql(f"SELECT id FROM `{mariadb11_kit.schema}`.a ORDER BY id") == [(1,), (3,)]
    mariadb11_kit.target.sql("DELETE FROM a WHERE id = 2", database=mariadb11_kit.schema)
    mariadb11_kit.sync()
    check_equal(mariadb11_kit)
