"""What a DDL statement changes, seen from the sync: names, columns, single changes."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_dm.engine.ddl.copyable import NotCopyable
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
)
from airflow_provider_dm.engine.ddl.target_alter import one_by_one
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.mapping import family_of


def shown(name: TableName) -> str:
    """Return how a table, or a schema, is called in messages."""
    return str(name) if name.table else name.schema


def new_name(statement: AlterTable | CreateIndex | DropIndex) -> TableName:
    """Return how the table is called behind the statement."""
    specs = statement.specs if isinstance(statement, AlterTable) else ()
    return next((spec.table for spec in reversed(specs) if isinstance(spec, RenameTo)), statement.table)


def without_widths(statement: Statement) -> Statement:
    """Return the statement without the display widths of numbers, which some servers add and others drop."""
    if not isinstance(statement, AlterTable):
        return statement

    def bare(spec: Spec) -> Spec:
        if not isinstance(spec, AddColumn | ChangeColumn):
            return spec
        kind = spec.column.type
        if kind.zerofill or family_of(kind.name) != "integer":
            return spec
        return replace(spec, column=replace(spec.column, type=replace(kind, arguments=())))

    return replace(statement, specs=tuple(bare(one) for one in statement.specs))


def renames_columns(statement: AlterTable | CreateIndex | DropIndex) -> bool:
    """Tell whether columns get other names."""
    specs = statement.specs if isinstance(statement, AlterTable) else ()
    return any(
        (isinstance(spec, RenameColumn) and spec.name != spec.to)
        or (isinstance(spec, ChangeColumn) and spec.name != spec.column.name)
        for spec in specs
    )


def single_changes(statement: Statement) -> tuple[Statement, ...]:
    """Return the statement as several, each of which changes one thing; none where no order of them does the same."""
    if isinstance(statement, AlterTable) and len(statement.specs) > 1:
        try:
            return tuple(replace(statement, specs=(spec,)) for spec in one_by_one(statement.specs))
        except NotCopyable:
            return ()
    return (statement,)


def renames(statement: Statement) -> tuple[tuple[TableName, TableName], ...]:
    """Return the tables that get other names."""
    if isinstance(statement, RenameTables):
        return tuple(statement.pairs)
    if isinstance(statement, AlterTable) and new_name(statement) != statement.table:
        return ((statement.table, new_name(statement)),)
    return ()
