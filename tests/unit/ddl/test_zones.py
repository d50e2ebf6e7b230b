"""Statements that depend on their session's time zone."""

import pytest

from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.server import Server, SessionDefaults
from airflow_provider_dm.engine.ddl.statements import AlterTable, CreateTable
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.ddl.zones import AT_ITS_SECOND, NO_ZONE, ZoneNeed, need_of_alter, need_of_create
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName

NAME = TableName("s", "t")
SESSION = SessionDefaults(0, None, True)
TABLE = "CREATE TABLE t (id int PRIMARY KEY, d datetime, t timestamp NULL, m time, v varchar(9))"


def need(sql: str) -> ZoneNeed:
    before = Tracker.of(Server(Flavour.MYSQL, (9, 7)), {NAME: TABLE}, {"s": "utf8mb4_bin"})
    statement = parse(sql, 0, "s")
    if isinstance(statement, CreateTable):
        return need_of_create(before.without([NAME]).after(statement, SESSION).definition(NAME), 0)
    assert isinstance(statement, AlterTable)
    behind = before.after(statement, SESSION)
    return need_of_alter(before.definition(NAME), behind.definition(NAME), statement.specs, 0)


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE t ADD i int, MODIFY v varchar(20), ADD KEY (t)",
        "ALTER TABLE t MODIFY t timestamp(3) NULL, MODIFY d datetime(3) DEFAULT now(3)",
        "ALTER TABLE t ADD u timestamp DEFAULT now() ON UPDATE now(), ADD w timestamp NULL DEFAULT NULL",
        "ALTER TABLE t ADD u timestamp NOT NULL DEFAULT '0000-00-00 00:00:00', ADD w timestamp NOT NULL DEFAULT 0",
        "ALTER TABLE t ADD x datetime DEFAULT '2024-07-01 12:00:00', CHANGE t u timestamp NULL",
        "ALTER TABLE t ADD x varchar(9) DEFAULT 't', ADD y int DEFAULT (id + 1)",
        "ALTER TABLE t DROP COLUMN t, ADD COLUMN t datetime",
        "CREATE TABLE t (id int, d datetime DEFAULT now(), t timestamp DEFAULT now())",
    ],
)
def test_statements_that_do_not_depend_on_the_time_zone(sql: str) -> None:
    assert need(sql) == NO_ZONE


def test_the_moment_of_the_statement() -> None:
    assert need("ALTER TABLE t ADD x datetime DEFAULT CURRENT_TIMESTAMP, ADD i int") == AT_ITS_SECOND
    assert need("ALTER TABLE t MODIFY m datetime") == AT_ITS_SECOND  # on the day of the statement
    assert need("ALTER TABLE t ADD g datetime AS (CAST(m AS datetime)) STORED") == AT_ITS_SECOND
    assert need("ALTER TABLE t ADD x datetime DEFAULT (m)") == AT_ITS_SECOND


def test_local_times() -> None:
    times = frozenset({"2024-07-01 12:00:00", "2024-01-01"})
    columns = "x timestamp DEFAULT '2024-07-01 12:00:00.5', {} y timestamp NULL DEFAULT '2024-01-01'"
    assert need(f"ALTER TABLE t ADD {columns.format('ADD')}") == ZoneNeed(local_times=times)
    assert need(f"CREATE TABLE t ({columns.format('')})") == ZoneNeed(local_times=times)
    end = "UNIX_TIMESTAMP('2024-07-01 12:00:00')"
    pieces = f"PARTITION BY RANGE (UNIX_TIMESTAMP(t)) (PARTITION p VALUES LESS THAN ({end}))"
    assert need(f"ALTER TABLE t {pieces}") == ZoneNeed(local_times=frozenset({"2024-07-01 12:00:00"}))
    assert need("ALTER TABLE t " + pieces.replace("'", '"')) == need(f"ALTER TABLE t {pieces}")
    assert need("ALTER TABLE t " + pieces.replace(end, "UNIX_TIMESTAMP(20240701)")).rules


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE t MODIFY d timestamp NULL",
        "ALTER TABLE t CHANGE t u datetime",
        "ALTER TABLE t MODIFY t varchar(40)",
        "ALTER TABLE t MODIFY m timestamp NULL",
        "ALTER TABLE t ADD g date AS (date(t)) STORED",
        "ALTER TABLE t ADD x datetime DEFAULT (t)",
        "ALTER TABLE t ADD g timestamp AS (d) STORED",
        "ALTER TABLE t ADD x varchar(40) DEFAULT (concat(`T`, 'x')), ADD i int",
        "ALTER TABLE t ADD x timestamp DEFAULT 20240701120000",
        "ALTER TABLE t MODIFY v datetime",
        "ALTER TABLE t ADD x datetime DEFAULT '2024-07-01 12:00:00+05:30'",
        "CREATE TABLE t (id int, x datetime DEFAULT '2024-07-01 12:00:00.5-05:30')",
    ],
)
def test_the_rules_of_the_zone(sql: str) -> None:
    assert need(sql).rules
