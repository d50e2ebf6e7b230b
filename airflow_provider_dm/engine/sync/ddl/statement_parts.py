"""Analysis of a DDL statement for the sync: its parts, the parts that cannot be followed, and the event filter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.ddl.conversions import chosen_otherwise, column_pairs, computed, numbers_of
from airflow_provider_dm.engine.ddl.errors import NotCopyable
from airflow_provider_dm.engine.ddl.keys import Columns
from airflow_provider_dm.engine.ddl.lexer import TokenKind, all_tokens
from airflow_provider_dm.engine.ddl.statements import (
    AddColumn,
    AlterTable,
    ChangeColumn,
    CreateIndex,
    DropIndex,
    RenameColumn,
    RenameTables,
    RenameTo,
    Spec,
    Statement,
    TableDefinition,
)
from airflow_provider_dm.engine.ddl.target_alter import one_by_one
from airflow_provider_dm.engine.ddl.target_code import is_moment
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.ddl.write import statement_sql
from airflow_provider_dm.engine.ddl.zones import ZoneNeed, need_of_alter
from airflow_provider_dm.engine.mysql.capabilities import Capabilities
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.sql_modes import mode_names
from airflow_provider_dm.engine.rules.ddl_events import join_parts, parts_of
from airflow_provider_dm.engine.rules.event_filter import EventAction
from airflow_provider_dm.engine.rules.mapping import type_family
from airflow_provider_dm.engine.sync.ddl.subtask_tables import DdlContext
from airflow_provider_dm.engine.sync.errors import CannotFollow, RefusedByFilter, ValuesDiffer


def new_name(statement: AlterTable | CreateIndex | DropIndex) -> TableName:
    """Return the table's name after the statement."""
    specs = statement.specs if isinstance(statement, AlterTable) else ()
    return next((spec.table for spec in reversed(specs) if isinstance(spec, RenameTo)), statement.table)


def without_rename(statement: Statement | None) -> AlterTable | None:
    """Return an ALTER TABLE without its RENAME part; None if it has no other part."""
    assert isinstance(statement, AlterTable)
    specs = tuple(spec for spec in statement.specs if not isinstance(spec, RenameTo))
    return replace(statement, specs=specs) if specs else None


def same_for_same_changes(statement: Statement, sql_mode: int, flavour: Flavour) -> str:
    """Return the statement's text without display widths, which only some servers write, and with names in lower case.

    >>> from airflow_provider_dm.engine.ddl.parse import parse
    >>> print(same_for_same_changes(parse("alter table t add C int(11)", 0, "shop"), 0, Flavour.MYSQL))
    ALTER TABLE `shop`.`t` ADD COLUMN `c` int
    """
    tokens = all_tokens(statement_sql(_without_widths(statement), sql_mode, flavour), sql_mode)
    return "".join(token.raw.lower() if token.kind is TokenKind.NAME else token.raw for token in tokens)


def _without_widths(statement: Statement) -> Statement:
    if not isinstance(statement, AlterTable):
        return statement

    def bare(spec: Spec) -> Spec:
        if not isinstance(spec, AddColumn | ChangeColumn):
            return spec
        kind = spec.column.type
        if kind.zerofill or type_family(kind.name) != "integer":
            return spec
        return replace(spec, column=replace(spec.column, type=replace(kind, arguments=())))

    return replace(statement, specs=tuple(bare(spec) for spec in statement.specs))


def renames_columns(statement: AlterTable) -> bool:
    """Return True if the statement renames columns."""
    return any(
        (isinstance(spec, RenameColumn) and spec.name != spec.to)
        or (isinstance(spec, ChangeColumn) and spec.name != spec.column.name)
        for spec in statement.specs
    )


def single_changes(statement: Statement) -> tuple[Statement, ...]:
    """Split the statement into statements with one change each; () if no order of them has the same effect."""
    if isinstance(statement, AlterTable) and len(statement.specs) > 1:
        try:
            return tuple(replace(statement, specs=(spec,)) for spec in one_by_one(statement.specs))
        except NotCopyable:
            return ()
    return (statement,)


def renames(statement: Statement) -> tuple[tuple[TableName, TableName], ...]:
    """Return the tables that the statement renames, as (old, new)."""
    if isinstance(statement, RenameTables):
        return tuple(statement.pairs)
    if isinstance(statement, AlterTable) and new_name(statement) != statement.table:
        return ((statement.table, new_name(statement)),)
    return ()


def check_same_everywhere(
    statement: Statement, before: TableDefinition, after: TableDefinition, sql_mode: int, source: Capabilities
) -> None:
    """Raise CannotFollow if the statement gives existing rows different values in each shard.

    The target executes the statement once, for the rows of all shards. Affected are columns that are filled with the
    current time or with AUTO_INCREMENT numbers: a new column is filled with its default; NULL in a TIMESTAMP that
    becomes NOT NULL is replaced by the current time, whatever the default, except where a strict mode rejects such
    rows. `source`: the server.
    """
    specs = statement.specs if isinstance(statement, AlterTable) else ()
    strict = not source.nulls_become_now and any(name.startswith("STRICT_") for name in mode_names(sql_mode))
    for was, column in column_pairs(before, after, specs):
        if column.auto_increment and (was is None or not was.auto_increment):
            raise CannotFollow(f"each shard assigns its own AUTO_INCREMENT numbers in {column.name}")
        if was is None:
            filled = column.default is not None and is_moment(column.default, sql_mode)
        else:
            nulls_end = was.nullable is not False and column.nullable is False
            filled = nulls_end and column.type.name.lower() == "timestamp" and not strict
        if filled:
            raise CannotFollow(f"each shard fills {column.name} with its own current time")


def check_shows(name: TableName, before: TableDefinition, after: TableDefinition) -> None:
    """Raise CannotFollow if columns swap names and positions, so that the definition is the same before and after.

    After a crash, the next run could not see that the statement was executed, and would execute it again, which undoes
    it (downstream/ddl_journal.py).
    """
    if before.columns == after.columns:
        raise CannotFollow(f"columns of {name} swap names and positions, so the definition does not show the change")


def zone_of_rows(wanted: Statement, before: Tracker, context: DdlContext) -> ZoneNeed:
    """Return how the values of the altered table's rows depend on the session's time zone.

    `wanted`: the statement for the target. Raises ValuesDiffer if the target may compute other values than the source.
    """
    assert isinstance(wanted, AlterTable | CreateIndex | DropIndex)
    specs = wanted.specs if isinstance(wanted, AlterTable) else ()
    old, session = before.definition(wanted.table), context.session
    new = before.after(wanted, session).definition(new_name(wanted))
    pairs = column_pairs(old, new, specs) if context.unlike else ()
    numbers = None if context.target.computes_as_sources else numbers_of(new)
    needs = [computed(pair, strict=session.strict, numbers=numbers) for pair in pairs]
    if context.unlike and not context.target.computes_as_sources:
        needs.append(chosen_otherwise(old, specs))
    differing = [why for why in needs if why is not None]
    if differing:
        raise ValuesDiffer(f"{'; '.join(differing)}, for which {context.unlike} may compute different values")
    return need_of_alter(old, new, specs, session.sql_mode)


def left_by_filter(statement: Statement, before: Tracker, context: DdlContext) -> tuple[Statement | None, list[str]]:
    """Return the part of a statement that the event filter keeps (None: no part), and notes about skipped parts.

    `before`: the tables before the statement. Raises RefusedByFilter.
    """
    rules = context.rules.events
    if not rules.rules:
        return statement, []
    kept, notes = [], []
    for part in parts_of(statement, *_columns(statement, before, context)):
        names = ", ".join(str(name) if name.table else name.schema for name in part.names)
        match rules.of_ddl(part.names, part.events, context.sql):
            case EventAction.DO:
                kept.append(part.statement)
            case EventAction.ERROR:
                raise RefusedByFilter(f"{part.shown()} of {names}")
            case EventAction.IGNORE:
                notes.append(f"a filter rule skips: {part.shown()} of {names}")
    return join_parts(kept), notes


def _columns(statement: Statement, before: Tracker, context: DdlContext) -> tuple[Columns, Columns]:
    """Return the columns before and after an ALTER TABLE that changes columns; for other statements {}, {}."""
    if not (isinstance(statement, AlterTable) and any(isinstance(spec, ChangeColumn) for spec in statement.specs)):
        return {}, {}
    after = before.after(statement, context.session)
    pairs = ((before, statement.table), (after, new_name(statement)))
    old, new = ({c.name.lower(): c for c in one.definition(name).columns} for one, name in pairs)
    return old, new


Named: TypeAlias = tuple[TableName, str]
"""A table and its column in lower case; "": the table itself."""


def newly_made(statement: ddl.Statement, dropped: set[Named]) -> tuple[Named, ...]:
    """Return the tables and columns that the statement creates, except names in `dropped`.

    `dropped`: the names that earlier statements dropped; the names that this statement drops are added.
    """
    made: set[Named] = set()
    taken: set[Named] = set()
    match statement:
        case ddl.CreateTable(table):
            made.add((table, ""))
        case ddl.DropTables(tables):
            taken |= {(table, "") for table in tables}
        case ddl.AlterTable(table, specs):
            released, given = changed_columns(specs)
            taken |= {(table, name) for name in released}
            made |= {(table, name) for name in given}
    dropped |= taken
    return tuple(sorted(made - dropped))


def changed_columns(specs: Iterable[object]) -> tuple[set[str], set[str]]:
    """Return the column names that clauses release, and those that they give to columns, in lower case."""
    released, given = set[str](), set[str]()
    for spec in specs:
        match spec:
            case AddColumn(column):
                given.add(column.name.lower())
            case ddl.DropColumn(name):
                released.add(name.lower())
            case ChangeColumn(old, ddl.ColumnDefinition(new)) | RenameColumn(old, new) if old.lower() != new.lower():
                released.add(old.lower())
                given.add(new.lower())
    return released, given
