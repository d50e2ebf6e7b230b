"""The binlog event filter decides as DM's does; the examples of DM's tests and documents are here."""

import pickle
from typing import Any

import pytest
from pydantic import ValidationError

from airflow_provider_dm.engine.config.rule_models import FilterRule
from airflow_provider_dm.engine.ddl.keys import Columns
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.server import Server
from airflow_provider_dm.engine.ddl.statements import AlterTable
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.ddl_events import join_parts, parts_of
from airflow_provider_dm.engine.rules.event_filter import ROW_EVENTS, EventAction, EventFilter

PROCEDURES = [r"^DROP\s+PROCEDURE", r"^CREATE\s+PROCEDURE"]
DM = (
    {
        "schema-pattern": "Test_1_*",
        "table-pattern": "abc*",
        "events": ["delete", "insert", "create index", "drop index", "drop view"],
        "sql-pattern": PROCEDURES,
        "action": "Ignore",
    },
    {"schema-pattern": "xxx_*", "table-pattern": "abc_*", "events": ["all dml", "none ddl"], "action": "Ignore"},
    {"schema-pattern": "yyy_*", "table-pattern": "abc_*", "events": ["ALL DML"], "action": "Do"},
    {"schema-pattern": "cdc", "table-pattern": "t1", "events": ["rebase auto id"], "action": "Ignore"},
)
MORE = (
    *DM,
    {
        "schema-pattern": "test_*",
        "table-pattern": "ab*",
        "events": ["insert", "all ddl"],
        "sql-pattern": [r"^DROP\s+PROCEDURE"],
        "action": "Do",
    },
)
EVERYTHING = ({"schema-pattern": "*", "sql-pattern": ["^FLUSH"], "action": "Ignore"},)
EVERY_TABLE = ({"schema-pattern": "*", "table-pattern": "*", "sql-pattern": ["^FLUSH"], "action": "Ignore"},)
SKIPS = (
    {"schema-pattern": "*", "events": ["drop table"], "sql-pattern": [r"^drop\s+table"], "action": "Ignore"},
    {"schema-pattern": "foo*", "events": ["create table"], "sql-pattern": [r"^create\s+table"], "action": "Do"},
    {
        "schema-pattern": "foo*",
        "table-pattern": "bar*",
        "events": ["create table"],
        "sql-pattern": [r"^create\s+table"],
        "action": "Ignore",
    },
)
"""The rules of DM's own tests (pkg/binlog-filter/filter_test.go, dm/syncer/filter_test.go)."""
SHARDS = {"schema-pattern": "test_*", "table-pattern": "t_*"}
SCHEMAS = {"schema-pattern": "test_*"}
NO_DELETIONS = (
    {**SHARDS, "events": ["truncate table", "drop table", "delete"], "action": "Ignore"},
    {**SCHEMAS, "events": ["drop database"], "action": "Ignore"},
)
ONLY_ROWS = (
    {**SHARDS, "events": ["create table", "all dml"], "action": "Do"},
    {**SCHEMAS, "events": ["create database"], "action": "Do"},
)
NOT_FOR_TIDB = (
    {"schema-pattern": "*", "sql-pattern": [r"^DROP\s+PROCEDURE", r"^CREATE\s+PROCEDURE"], "action": "Ignore"},
)
NO_PARTITIONS = (
    {
        "schema-pattern": "*",
        "table-pattern": "*",
        "sql-pattern": [r"ALTER\s+TABLE[\s\S]*ADD\s+PARTITION", r"ALTER\s+TABLE[\s\S]*DROP\s+PARTITION"],
        "action": "Ignore",
    },
)
TEMPLATE = (
    {**SHARDS, "events": ["truncate table", "drop table"], "action": "Ignore"},
    {**SCHEMAS, "events": ["all dml"], "action": "Do"},
)
INCOMPATIBLE = ({"schema-pattern": "*", "events": ["incompatible DDL changes"], "action": "Error"},)
"""The rules of DM's documents (dm-binlog-event-filter, shard merge)."""


def rules(*given: dict[str, Any], case_sensitive: bool = False) -> EventFilter:
    return EventFilter.from_config(map(FilterRule.model_validate, given), case_sensitive=case_sensitive)


def verdict(of: EventFilter, schema: str, table: str, event: str, sql: str = "") -> str:
    name = TableName(schema, table)
    if event in ROW_EVENTS:
        return of.of_rows(name, event).value
    return of.of_ddl([name], (event,) if event else (), sql).value


@pytest.mark.parametrize(
    ("given", "schema", "table", "event", "sql", "action"),
    [
        (DM, "test_1_a", "abc1", "delete", "", "Ignore"),
        (DM, "test_1_a", "abc1", "insert", "", "Ignore"),
        (DM, "test_1_a", "abc1", "update", "", "Do"),
        (DM, "test_1_a", "abc1", "create index", "", "Ignore"),
        (DM, "test_1_a", "abc1", "rename table", "", "Do"),
        (DM, "test_1_a", "abc1", "", "drop procedure abc", "Ignore"),
        (DM, "test_1_a", "abc1", "", "create procedure abc", "Ignore"),
        (DM, "test_1_a", "abc1", "", "create function abc", "Do"),
        (DM, "xxx_1", "abc_1", "", "create function abc", "Do"),
        (DM, "xxx_1", "abc_1", "insert", "", "Ignore"),
        (DM, "xxx_1", "abc_1", "create index", "", "Do"),
        (DM, "yyy_1", "abc_1", "insert", "", "Do"),
        (DM, "yyy_1", "abc_1", "create index", "", "Ignore"),
        (DM, "test_1_a", "abc1", "drop view", "", "Ignore"),
        (DM, "cdc", "t1", "rebase auto id", "", "Ignore"),
        (DM, "xxx_a", "", "insert", "", "Do"),
        (MORE, "test_1_a", "abc1", "update", "", "Ignore"),
        (MORE, "test_1_a", "abc1", "rename table", "", "Do"),
        (MORE, "test_1_a", "abc1", "", "create function abc", "Ignore"),
        (EVERYTHING, "db", "tbl", "", "FLUSH ENGINE LOGS", "Ignore"),
        (EVERYTHING, "db", "", "", "FLUSH ENGINE LOGS", "Ignore"),
        (EVERYTHING, "", "tbl", "", "FLUSH ENGINE LOGS", "Ignore"),
        (EVERY_TABLE, "db", "tbl", "", "FLUSH ENGINE LOGS", "Ignore"),
        (EVERY_TABLE, "", "", "", "FLUSH ENGINE LOGS", "Ignore"),
        (SKIPS, "tx", "test", "drop table", "drop table tx.test", "Ignore"),
        (SKIPS, "foo", "test", "create table", "create table foo.test (id int)", "Do"),
        (SKIPS, "foo", "bar", "create table", "create table foo.bar (id int)", "Ignore"),
        (NO_DELETIONS, "test_1", "t_1", "delete", "", "Ignore"),
        (NO_DELETIONS, "test_1", "t_1", "drop table", "DROP TABLE t_1", "Ignore"),
        (NO_DELETIONS, "test_1", "t_1", "insert", "", "Do"),
        (NO_DELETIONS, "test_1", "other", "delete", "", "Do"),
        (NO_DELETIONS, "test_1", "", "drop database", "DROP DATABASE test_1", "Ignore"),
        (NO_DELETIONS, "prod", "t_1", "truncate table", "TRUNCATE t_1", "Do"),
        # The schema rule is about the tables in it as well, which nothing but `create database` then passes.
        (ONLY_ROWS, "test_1", "", "create database", "CREATE DATABASE test_1", "Do"),
        (ONLY_ROWS[:1], "test_1", "t_1", "update", "", "Do"),
        (ONLY_ROWS[:1], "test_1", "t_1", "create table", "CREATE TABLE t_1 (a int)", "Do"),
        (ONLY_ROWS[:1], "test_1", "t_1", "alter table", "ALTER TABLE t_1 ADD a int", "Ignore"),
        (ONLY_ROWS[:1], "test_1", "other", "alter table", "ALTER TABLE other ADD a int", "Do"),
        (NOT_FOR_TIDB, "test_1", "", "", "create  procedure x() select 1", "Ignore"),
        (NOT_FOR_TIDB, "test_1", "t_1", "create table", "CREATE TABLE t_1 (a int)", "Do"),
        (NO_PARTITIONS, "test", "t", "drop table partition", "ALTER TABLE t\nDROP PARTITION p", "Ignore"),
        (NO_PARTITIONS, "test", "t", "alter table", "ALTER TABLE t ADD c int", "Do"),
        (TEMPLATE, "test_1", "t_1", "insert", "", "Do"),
        (TEMPLATE, "test_1", "t_1", "drop table", "DROP TABLE t_1", "Ignore"),
        (TEMPLATE, "test_1", "t_1", "alter table", "ALTER TABLE t_1 ADD a int", "Ignore"),
        (TEMPLATE, "prod", "t_1", "alter table", "ALTER TABLE t_1 ADD a int", "Do"),
        (INCOMPATIBLE, "any", "t", "value range decrease", "ALTER TABLE t MODIFY a tinyint", "Error"),
        (INCOMPATIBLE, "any", "t", "alter table", "ALTER TABLE t ADD a int", "Do"),
    ],
)
def test_the_cases_of_dms_tests_and_documents(
    given: tuple[dict[str, Any], ...], schema: str, table: str, event: str, sql: str, action: str
) -> None:
    assert verdict(rules(*given), schema, table, event, sql) == action


@pytest.mark.parametrize("event", ["delete", "update", "create index"])
def test_patterns_are_case_sensitive_if_configured(event: str) -> None:
    assert verdict(rules(*DM, case_sensitive=True), "test_1_a", "abc1", event) == "Do"


def test_an_unreadable_text_matches_rules_for_all_tables_only() -> None:
    assert rules(*EVERYTHING).of_text(" flush logs") is EventAction.IGNORE
    assert rules(*EVERY_TABLE).of_text("FLUSH LOGS") is EventAction.IGNORE
    assert rules(*DM).of_text("drop procedure abc") is EventAction.DO


@pytest.mark.parametrize(
    ("events", "event", "action"),
    [
        (["all"], "insert", "Ignore"),
        (["all ddl"], "insert", "Do"),
        (["none", "insert"], "insert", "Do"),
        (["insert", "none"], "insert", "Ignore"),
        (["none dml", "all"], "delete", "Do"),
        (["none dml", "all"], "drop table", "Ignore"),
        (["incompatible ddl changes"], "drop column", "Ignore"),
        (["incompatible ddl changes"], "truncate table", "Ignore"),
        (["incompatible ddl changes"], "create table", "Do"),
        (["incompatible ddl changes"], "alter table", "Do"),
        (["incompatible ddl changes"], "delete", "Do"),
        (["alter table"], "drop column", "Do"),
        (["drop schema"], "drop database", "Ignore"),
        ([], "insert", "Do"),
    ],
)
def test_the_first_word_of_a_list_that_fits_decides(events: list[str], event: str, action: str) -> None:
    given = {"schema-pattern": "*", "events": events, "action": "Ignore"}
    assert verdict(rules(given), "s", "t", event) == action


def test_ignore_goes_before_error_and_both_before_do() -> None:
    error = {"schema-pattern": "s", "events": ["drop table", "delete"], "action": "Error"}
    ignore = {"schema-pattern": "s", "table-pattern": "t", "events": ["drop table"], "action": "ignore"}
    assert verdict(rules(error, ignore), "s", "t", "drop table") == "Ignore"
    assert verdict(rules(error, ignore), "s", "t", "delete") == "Error"
    assert verdict(rules(error, ignore), "s", "t", "insert") == "Do"


def test_a_second_event_type_is_not_a_member_of_the_group() -> None:
    """DM calls ADD COLUMN `alter table`, which is compatible; its list has `add column` as incompatible."""
    group = rules({"schema-pattern": "*", "events": ["incompatible ddl changes"], "action": "Ignore"})
    name = rules({"schema-pattern": "*", "events": ["add column"], "action": "Ignore"})
    for of, expected in ((group, EventAction.DO), (name, EventAction.IGNORE)):
        assert of.of_ddl([TableName("s", "t")], ("alter table", "add column"), "") is expected


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"events": ["insret"], "action": "Do"}, "there is no event 'insret'; did you mean 'insert'"),
        ({"events": ["insert"], "action": "Skip"}, "'Do', 'Ignore' or 'Error'"),
        ({"sql-pattern": ["("], "action": "Do"}, "not a regular expression"),
    ],
)
def test_invalid_filters_that_dm_only_logs_are_refused(rule: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        FilterRule.model_validate({"schema-pattern": "s", **rule})


def test_rules_are_picklable() -> None:
    assert verdict(pickle.loads(pickle.dumps(rules(*DM))), "test_1_a", "abc1", "delete") == "Ignore"


TABLE = """CREATE TABLE t (id int PRIMARY KEY AUTO_INCREMENT, a int unsigned, d decimal(10,2),
    v varchar(20) DEFAULT 'x', c char(10), e enum('p','q'), b binary(4), dt datetime(3), x text,
    KEY k (a), UNIQUE u (v)) DEFAULT CHARSET=latin1"""
NAME = TableName("s", "t")


def columns_around(sql: str) -> tuple[Columns, Columns]:
    from airflow_provider_dm.engine.ddl.server import SessionDefaults

    before = Tracker.of(Server(Flavour.MYSQL, (9, 7, 0)), {NAME: TABLE}, {"s": "latin1_swedish_ci"})
    after = before.after(parse(sql, 0, "s"), SessionDefaults())
    first, second = ({c.name.lower(): c for c in one.definition(NAME).columns} for one in (before, after))
    return first, second


@pytest.mark.parametrize(
    ("clause", "event"),
    [
        ("ADD COLUMN n int", "alter table"),
        ("DROP COLUMN a", "drop column"),
        ("RENAME COLUMN a TO aa", "rename column"),
        ("CHANGE a aa int unsigned", "rename column"),
        ("MODIFY a bigint unsigned", "alter table"),
        ("MODIFY a smallint unsigned", "value range decrease"),
        ("MODIFY a int", "precision decrease"),
        ("MODIFY a bigint", "value range decrease"),
        ("MODIFY a varchar(9)", "modify column"),
        ("MODIFY d decimal(10,3)", "precision decrease"),
        ("MODIFY v varchar(10) DEFAULT 'x'", "value range decrease"),
        ("MODIFY v varchar(30) DEFAULT 'x'", "alter table"),
        ("MODIFY v varchar(20) DEFAULT 'y'", "modify default value"),
        ("MODIFY v varchar(20) CHARACTER SET utf8mb4 DEFAULT 'x'", "modify charset"),
        ("MODIFY v varchar(20) COLLATE latin1_bin DEFAULT 'x'", "modify collation"),
        ("MODIFY v varchar(20) DEFAULT 'x' FIRST", "modify columns order"),
        ("MODIFY v char(20) DEFAULT 'x'", "modify column"),
        ("MODIFY e enum('p','q','r')", "alter table"),
        ("MODIFY e enum('q','p')", "value range decrease"),
        ("MODIFY b binary(8)", "precision decrease"),
        ("MODIFY dt datetime", "value range decrease"),
        ("MODIFY x mediumtext", "alter table"),
        ("MODIFY x tinytext", "modify column"),
        ("MODIFY id int", "remove auto increment"),
        ("ALTER a SET DEFAULT 3", "modify default value"),
        ("ADD INDEX (d)", "modify constraint"),
        ("ADD UNIQUE (d)", "modify constraint"),
        ("DROP INDEX k", "drop index"),
        ("RENAME INDEX k TO l", "rename index"),
        ("CONVERT TO CHARACTER SET utf8mb4", "modify charset"),
        ("COLLATE latin1_bin", "modify collation"),
        ("ENGINE=InnoDB", "modify storage engine"),
        ("COMMENT 'x'", "alter table"),
    ],
)
def test_a_clause_has_dms_name(clause: str, event: str) -> None:
    sql = f"ALTER TABLE t {clause}"
    (part,) = parts_of(parse(sql, 0, "s"), *columns_around(sql))
    assert part.events[0] == event


@pytest.mark.parametrize(
    ("sql", "parts"),
    [
        ("DROP TABLE a, b", [("drop table", "s.a"), ("drop table", "s.b")]),
        ("RENAME TABLE a TO b, c TO d", [("rename table", "s.a s.b"), ("rename table", "s.c s.d")]),
        ("ALTER TABLE a ADD n int, DROP COLUMN m", [("alter table", "s.a"), ("drop column", "s.a")]),
        ("ALTER TABLE a RENAME TO b", [("rename table", "s.a s.b")]),
        ("ALTER TABLE a DROP PRIMARY KEY", [("drop primary key", "s.a")]),
        ("ALTER TABLE a TRUNCATE PARTITION p", [("truncate table partition", "s.a")]),
        ("ALTER TABLE a REORGANIZE PARTITION p INTO (PARTITION q VALUES LESS THAN (3))",
         [("reorganize table partition", "s.a")]),
        ("TRUNCATE a", [("truncate table", "s.a")]),
        ("CREATE INDEX i ON a (b)", [("create index", "s.a")]),
        ("DROP INDEX i ON a", [("drop index", "s.a")]),
        ("CREATE TABLE a LIKE b", [("create table", "s.a")]),
        ("CREATE SCHEMA n", [("create database", "n.")]),
        ("DROP DATABASE n", [("drop database", "n.")]),
        ("ALTER DATABASE n CHARSET utf8mb4", [("alter database", "n.")]),
    ],
)  # fmt: skip
def test_a_statement_is_judged_part_by_part(sql: str, parts: list[tuple[str, str]]) -> None:
    statement = parse(sql, 0, "s")
    found = parts_of(statement, {}, {})
    assert [(part.events[0], " ".join(f"{s}.{t}" for s, t in part.names)) for part in found] == parts
    assert join_parts([part.statement for part in found]) == statement


def test_parts_that_are_left_out_leave_the_others_together() -> None:
    first, second, third = parts_of(parse("ALTER TABLE a ADD n int, DROP COLUMN m, ADD o int", 0, "s"), {}, {})
    found = join_parts([first.statement, third.statement])
    assert isinstance(found, AlterTable)
    assert found == parse("ALTER TABLE a ADD n int, ADD o int", 0, "s")
    assert join_parts([second.statement]) == parse("ALTER TABLE a DROP COLUMN m", 0, "s")
    assert join_parts([]) is None
