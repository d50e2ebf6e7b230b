"""Decides whether a DDL statement in the log affects the task, by its kind (`engine.ddl`) and its tables.

A statement that affects the task is followed (schema_change.py), or stops the task. Skipped are statements of a kind
that changes no migrated row or table, statements whose tables the rules exclude, and statements that changed nothing at
the source: CREATE TABLE IF NOT EXISTS of an existing table, DROP TABLE IF EXISTS of a missing one. The task's tables
show which tables exist, as it follows all statements that create and drop them.

A statement that cannot be parsed with certainty (an unknown first word, an undecodable text, a name with an unknown
character) stops the task, unless its default schema is excluded and it cannot name another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider_dm.engine.binlog.planned import DdlStatement
from airflow_provider_dm.engine.ddl.errors import NotRead, Unreadable
from airflow_provider_dm.engine.ddl.first_words import first_words
from airflow_provider_dm.engine.ddl.lexer import tokens
from airflow_provider_dm.engine.ddl.statements import (
    AlterDatabase,
    CreateDatabase,
    CreateSequence,
    CreateTable,
    CreateTableLike,
    CreateTableSelect,
    DropDatabase,
    DropTables,
    IrrelevantStatement,
    RenameTables,
    Statement,
    ViewStatement,
)
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.event_filter import EventAction, EventFilter
from airflow_provider_dm.engine.rules.online_ddl.outcomes import SkipDdl
from airflow_provider_dm.engine.schema.charsets import UNSURE
from airflow_provider_dm.engine.sync.errors import CannotFollow, DdlNotSupported

_ON_TABLES: Final = re.compile(
    r"\s*(?:CREATE|ALTER|DROP|TRUNCATE|RENAME)\s+(?:OR\s+REPLACE\s+)?TABLES?\s", re.IGNORECASE
)


@dataclass(frozen=True)
class RelevantDdl:
    """The verdict that the statement changes, or may change, something of the task.

    `statement`: None if it cannot be parsed completely, which stops the task.
    """

    why: str
    statement: Statement | None = None


Verdict = SkipDdl | RelevantDdl


@dataclass(frozen=True)
class _Ours:
    """The task's rules, and its tables that exist at this location of the log."""

    rules: BlockAllowRules
    tables: frozenset[TableName]

    def concerns(self, table: TableName) -> bool:
        """Return True if the table belongs to the task, or may do so because its name has unknown characters."""
        schema, name = table
        if UNSURE in schema:
            return True
        return self.rules.allows_schema(schema) and (UNSURE in name or self.rules.allows(table))

    def certainly_lacks(self, table: TableName) -> bool:
        """Return True if it is not a table of the task, whether or not the server's names are case-sensitive."""
        return not any(_folded(table) == _folded(one) for one in self.tables) and UNSURE not in str(table)


def _folded(table: TableName) -> TableName:
    return TableName(table.schema.casefold(), table.table.casefold())


def judge_ddl(
    statement: Statement | NotRead | Unreadable, ddl: DdlStatement, rules: BlockAllowRules, tables: Iterable[TableName]
) -> Verdict:
    """Return the verdict about a statement of the log. `statement`: as parsed, or the parser's error.

    `tables`: the task's tables that exist at this location.
    """
    ours = _Ours(rules, frozenset(tables))
    if isinstance(statement, NotRead):
        return _of_tables(statement.about.tables, ours, if_not_exists=statement.about.if_not_exists)
    if isinstance(statement, Unreadable):
        if _stays_in_excluded_schema(ddl, rules):
            return SkipDdl(f"its default schema {ddl.schema} is excluded, and it names no other")
        return RelevantDdl(str(statement))
    return _judge(statement, ours)


def is_ignored_by_filter(statement: Statement | NotRead | Unreadable, ddl: DdlStatement, rules: EventFilter) -> bool:
    """Return True if a filter rule ignores a statement that cannot be parsed, because of its text: a rule for all
    tables, or for the statement's tables as far as these are known."""
    known = EventAction.DO
    if isinstance(statement, NotRead):
        known = rules.of_ddl(statement.about.tables, (), ddl.sql)
    return ddl.undecoded is None and EventAction.IGNORE in (known, rules.of_text(ddl.sql))


def stop_error(ddl: DdlStatement, why: str, remedy: str = CannotFollow.remedy) -> DdlNotSupported:
    """Return the error for a statement that is not executed. `why`: the reason."""
    return DdlNotSupported(
        feature=f"DDL in the log ({first_words(ddl.sql)} …: {why})",
        where=f"at {ddl.at}, default schema {ddl.schema!r}",
        remedy=remedy,
    )


def _stays_in_excluded_schema(ddl: DdlStatement, rules: BlockAllowRules) -> bool:
    """Return True if the statement can only affect its default schema, and the rules exclude that schema.

    A text without a dot names no table of another schema: in no charset is the byte of a dot part of another character.
    """
    if not ddl.schema or rules.allows_schema(ddl.schema):
        return False
    if "." not in ddl.sql and _ON_TABLES.match(ddl.sql):
        return True
    if ddl.undecoded is not None or UNSURE in ddl.sql:
        return False
    try:
        return not any(rules.allows_schema(token.name) for token in tokens(ddl.sql, ddl.sql_mode) if token.name)
    except Unreadable:
        return False


def _judge(statement: Statement, ours: _Ours) -> Verdict:
    match statement:
        case IrrelevantStatement(what):
            return SkipDdl(what)
        case ViewStatement(created, dropped):
            if any(ours.rules.allows_schema(name.schema) for name in (*created, *dropped)):
                return RelevantDdl("no table has the name of a view", statement)
            return SkipDdl("the rules exclude the schema of the view")
        case CreateDatabase(name) | AlterDatabase(name):
            if UNSURE not in name and not ours.rules.allows_schema(name):
                return SkipDdl("the rules exclude the schema")
            return RelevantDdl(f"it sets the defaults of the schema {name}", statement)
        case DropDatabase(name):
            if UNSURE not in name and not ours.rules.allows_schema(name):
                return SkipDdl("the rules exclude the schema")
            return RelevantDdl(f"it drops the schema {name}", statement)
        case DropTables(tables, if_exists):
            existing = [table for table in tables if not (if_exists and ours.certainly_lacks(table))]
            return _of_tables(existing, ours, statement)
        case RenameTables(pairs, if_exists):
            return _of_tables(_renamed(pairs, ours) if if_exists else statement.tables, ours, statement)
        case CreateTable() | CreateTableLike() | CreateTableSelect() | CreateSequence():
            return _of_tables(statement.tables, ours, statement, if_not_exists=statement.if_not_exists)
        case _:
            return _of_tables(statement.tables, ours, statement)


def _renamed(pairs: Iterable[tuple[TableName, TableName]], ours: _Ours) -> list[TableName]:
    """Return the tables of the pairs in RENAME … IF EXISTS that may have been executed."""
    tables: list[TableName] = []
    for old, new in pairs:
        before = map(_folded, tables)  # a name that an earlier pair has created exists
        if not (ours.rules.allows(old) and ours.certainly_lacks(old) and _folded(old) not in before):
            tables += (old, new)
    return tables


def _of_tables(
    tables: Sequence[TableName], ours: _Ours, statement: Statement | None = None, *, if_not_exists: bool = False
) -> Verdict:
    if not tables:
        return SkipDdl("none of its tables belongs to the task")
    if if_not_exists and ours.tables.issuperset(tables):
        return SkipDdl(f"{tables[0]} exists")
    concerned = [table for table in tables if ours.concerns(table)]
    if concerned:
        return RelevantDdl(f"it affects {', '.join(str(table) for table in concerned)}", statement)
    return SkipDdl(f"the rules exclude {', '.join(str(table) for table in tables)}")
