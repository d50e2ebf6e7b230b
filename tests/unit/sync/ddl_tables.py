"""Tables with a shape and rows, to which DDL and rows come one after the other: the source of the model of DDL.

Shapes are the engine's own model of tables (`ddl.tracker`), which is held against real servers elsewhere.
"""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

import pymysql

from airflow_provider_dm.engine.ddl.server import Server, SessionDefaults
from airflow_provider_dm.engine.ddl.statements import (
    AddColumn,
    AddConstraint,
    AlterTable,
    CreateTable,
    CreateTableLike,
    DropColumn,
    DropKey,
    DropTables,
    KeyDefinition,
    KeyKind,
    RenameColumn,
    RenameTables,
    RenameTo,
    Spec,
    Statement,
    TableDefinition,
    TruncateTable,
)
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName

SERVER: Final = Server(Flavour.MYSQL, (9, 7, 0))
SESSION: Final = SessionDefaults(explicit_timestamp_defaults=True)
Row: TypeAlias = dict[str, str | None]


@dataclass
class Tables:
    """Tables with their rows, to which DDL and rows are applied."""

    tracker: Tracker
    rows: dict[TableName, list[Row]] = field(default_factory=dict)

    def columns(self, name: TableName) -> list[str]:
        return [column.name for column in self.tracker.definition(name).columns]

    def has(self, name: TableName) -> bool:
        return name in self.tracker.names()

    def run(self, statement: Statement) -> None:
        """Execute DDL. Raises the driver's error for what is there already, or is not there."""
        self._check(statement)
        if isinstance(statement, CreateTable | CreateTableLike):
            if self.has(statement.table):
                return
            self.rows[statement.table] = []
        before = self.tracker
        self.tracker = before.after(statement, SESSION)
        match statement:
            case AlterTable(name, specs):
                for spec in specs:
                    self._alter(self.rows[name], spec)
                for new in (spec.table for spec in specs if isinstance(spec, RenameTo)):
                    self.rows[new] = self.rows.pop(name)
            case RenameTables(pairs):
                for old, new in pairs:
                    self.rows[new] = self.rows.pop(old)
            case TruncateTable(name):
                self.rows[name].clear()
            case DropTables(names):
                for name in names:
                    self.rows.pop(name, None)

    @staticmethod
    def _alter(rows: list[Row], spec: object) -> None:
        for row in rows:
            match spec:
                case AddColumn(column):
                    row[column.name] = column.default
                case DropColumn(name):
                    del row[name]
                case RenameColumn(name, to):
                    row[to] = row.pop(name)

    def _check(self, statement: Statement) -> None:
        match statement:
            case CreateTable() | CreateTableLike() if self.has(statement.table) and not statement.if_not_exists:
                raise pymysql.err.OperationalError(1050, "there already")
            case AlterTable(name) | TruncateTable(name) if not self.has(name):
                raise pymysql.err.ProgrammingError(1146, f"no table {name}")
            case AlterTable(name, specs):
                for spec in specs:
                    _check_spec(self.tracker.definition(name), spec)
                    if isinstance(spec, RenameTo) and self.has(spec.table):
                        raise pymysql.err.OperationalError(1050, "there already")
            case RenameTables(pairs):
                names = set(self.tracker.names())
                for old, new in pairs:
                    if old not in names:
                        raise pymysql.err.ProgrammingError(1146, f"no table {old}")
                    if new in names:
                        raise pymysql.err.OperationalError(1050, "there already")
                    names = names - {old} | {new}


def _check_spec(definition: TableDefinition, spec: Spec) -> None:
    columns = [one.name for one in definition.columns]
    keys = [one for one in definition.constraints if isinstance(one, KeyDefinition)]
    primary = any(one.kind is KeyKind.PRIMARY for one in keys)
    match spec:
        case AddColumn(column) if column.name in columns:
            raise pymysql.err.OperationalError(1060, "a column twice")
        case RenameColumn(_, to) if to in columns:
            raise pymysql.err.OperationalError(1060, "a column twice")
        case RenameColumn(name) if name not in columns:
            raise pymysql.err.OperationalError(1054, "no such column")
        case DropColumn(name) if name not in columns:
            raise pymysql.err.OperationalError(1091, "no such column")
        case AddConstraint(KeyDefinition(kind=KeyKind.PRIMARY)) if primary:
            raise pymysql.err.OperationalError(1068, "a primary key twice")
        case AddConstraint(KeyDefinition(name=name)) if name is not None and any(one.name == name for one in keys):
            raise pymysql.err.OperationalError(1061, "a key twice")
        case DropKey(name) if not (primary if name == "PRIMARY" else any(one.name == name for one in keys)):
            raise pymysql.err.OperationalError(1091, "no such key")
