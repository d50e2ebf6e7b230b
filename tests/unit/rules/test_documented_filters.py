"""The sets of rules that DM's documents give (dm-binlog-event-filter, shard merge), and what they do."""

from __future__ import annotations

from typing import Any, Final

import pytest

from airflow_provider_dm.engine.config.rule_models import FilterRule
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.event_filter import ROW_EVENTS, EventFilter

SHARDS: Final = {"schema-pattern": "test_*", "table-pattern": "t_*"}
SCHEMAS: Final = {"schema-pattern": "test_*"}

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


@pytest.mark.parametrize(
    ("rules", "schema", "table", "event", "sql", "action"),
    [
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
def test_the_documented_rules(
    rules: tuple[dict[str, Any], ...], schema: str, table: str, event: str, sql: str, action: str
) -> None:
    of = EventFilter.from_config(map(FilterRule.model_validate, rules), case_sensitive=False)
    name = TableName(schema, table)
    if event in ROW_EVENTS:
        assert of.of_rows(name, event).value == action  # type: ignore[arg-type]
    else:
        assert of.of_ddl([name], (event,) if event else (), sql).value == action
