"""DDL statements as frozen values: the content of a statement, independent of its spelling.

`tables` of a statement are the tables whose definition, name, rows or existence it changes, in the order of its text.
Tables that it only reads (LIKE, a query, REFERENCES, UNION) are fields. Names are as written, without quotes; a table
is always schema-qualified.

`Code` is SQL as written in the statement, to be read under the sql_mode of that statement: expressions, defaults,
partitions, queries. To apply a statement to a model of the tables, none of it is needed to know how rows are encoded.

Two values are equal if the statements mean the same in the same order: `INT(11)` equals `integer(11)`, and `BOOL`
equals `tinyint(1)`, as both servers replace them when parsing. What a server decides later (the charset of a column
without one, the name of an index without one) is None here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, TypeAlias

from airflow_provider_dm.engine.mysql.identifiers import TableName

Code: TypeAlias = str
Options: TypeAlias = tuple[tuple[str, str], ...]
"""(name in upper case, value) in the order of the text. CHARACTER SET is CHARSET; strings are without quotes."""


# Components of tables


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A type under the name in the catalogue, `int` or `varchar`. `arguments`: lengths, or an ENUM's members.

    Two decisions depend on charset and flavour and are made later: the size of BLOB(n) and TEXT(n), and that JSON of
    MariaDB is `longtext`.
    """

    name: str
    arguments: tuple[str, ...] = ()
    unsigned: bool = False
    zerofill: bool = False
    charset: str | None = None
    collation: str | None = None
    binary: bool = False
    """The attribute BINARY: the collation is the charset's binary one."""


class KeyKind(Enum):
    """The kind of a key."""

    PRIMARY = "primary"
    UNIQUE = "unique"
    PLAIN = "plain"
    FULLTEXT = "fulltext"
    SPATIAL = "spatial"
    VECTOR = "vector"


@dataclass(frozen=True, slots=True)
class KeyPart:
    """A part of a key: a column, or an expression instead of it."""

    column: str | None
    prefix: int | None = None
    descending: bool = False
    expression: Code | None = None


@dataclass(frozen=True, slots=True)
class KeyDefinition:
    """A key of a table. `constraint`: the name after CONSTRAINT, which the server uses if `name` is None."""

    kind: KeyKind
    parts: tuple[KeyPart, ...]
    name: str | None = None
    constraint: str | None = None
    options: Options = ()


@dataclass(frozen=True, slots=True)
class Reference:
    """The table and columns that a foreign key refers to. `actions`: ("ON DELETE", "CASCADE") and the like."""

    table: TableName
    columns: tuple[str, ...] = ()
    actions: Options = ()


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key. `name`: the name of its index, if given."""

    columns: tuple[str, ...]
    references: Reference
    name: str | None = None
    constraint: str | None = None


@dataclass(frozen=True, slots=True)
class CheckConstraint:
    """A CHECK constraint."""

    expression: Code
    constraint: str | None = None
    enforced: bool = True


Constraint: TypeAlias = KeyDefinition | ForeignKey | CheckConstraint


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column as a statement defines it; None is an attribute that the statement does not define."""

    name: str
    type: ColumnType
    nullable: bool | None = None
    default: Code | None = None
    on_update: Code | None = None
    auto_increment: bool = False
    key: KeyKind | None = None
    """An inline key over this column alone: PRIMARY or UNIQUE."""
    generated: Code | None = None
    stored: bool = False
    invisible: bool = False
    comment: str | None = None
    checks: tuple[CheckConstraint, ...] = ()
    references: Reference | None = None
    options: Options = ()
    """SRID, COMPRESSED, COLUMN_FORMAT and other storage options."""


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A table as CREATE TABLE defines it."""

    columns: tuple[ColumnDefinition, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    options: Options = ()
    partitioning: Code | None = None


# Clauses of ALTER TABLE


@dataclass(frozen=True, slots=True)
class First:
    """The position before all columns."""


@dataclass(frozen=True, slots=True)
class After:
    """The position after a column."""

    column: str


Place: TypeAlias = First | After | None
"""None: after all others or, for an existing column, unchanged."""


@dataclass(frozen=True, slots=True)
class _Dropped:
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class _Renamed:
    name: str
    to: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AddColumn:
    column: ColumnDefinition
    place: Place = None
    if_not_exists: bool = False


class DropColumn(_Dropped):
    """A column that is dropped."""


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """CHANGE or, if the name stays the same, MODIFY."""

    name: str
    column: ColumnDefinition
    place: Place = None
    if_exists: bool = False


class RenameColumn(_Renamed):
    """RENAME COLUMN."""


@dataclass(frozen=True, slots=True)
class SetDefault:
    """ALTER COLUMN … SET DEFAULT, or DROP DEFAULT if `default` is None."""

    name: str
    default: Code | None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class SetColumnVisibility:
    name: str
    invisible: bool


@dataclass(frozen=True, slots=True)
class AddConstraint:
    constraint: Constraint
    if_not_exists: bool = False


class DropKey(_Dropped):
    """A key that is dropped; the name of the primary key is PRIMARY."""


class DropForeignKey(_Dropped):
    """A foreign key that is dropped."""


class DropConstraint(_Dropped):
    """A constraint of any kind that is dropped: a CHECK, a foreign key or a unique key."""


class RenameKey(_Renamed):
    """RENAME KEY."""


@dataclass(frozen=True, slots=True)
class SetKeyVisibility:
    name: str
    invisible: bool


@dataclass(frozen=True, slots=True)
class EnforceCheck:
    name: str
    enforced: bool


@dataclass(frozen=True, slots=True)
class RenameTo:
    table: TableName


@dataclass(frozen=True, slots=True)
class ConvertCharset:
    """CONVERT TO CHARACTER SET, which converts all text columns; `charset` None: the schema's default."""

    charset: str | None
    collation: str | None = None


@dataclass(frozen=True, slots=True)
class SetOptions:
    options: Options


@dataclass(frozen=True, slots=True)
class DropPartitions:
    """Partitions that are dropped with their rows."""

    names: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class TruncatePartitions:
    """Partitions whose rows are deleted; no name: all partitions."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExchangePartition:
    """Rows that are exchanged with those of another table."""

    partition: str
    table: TableName


@dataclass(frozen=True, slots=True)
class PartitionToTable:
    """MariaDB's CONVERT PARTITION … TO TABLE."""

    partition: str
    table: TableName


@dataclass(frozen=True, slots=True)
class TableToPartition:
    """MariaDB's CONVERT TABLE … TO PARTITION."""

    table: TableName
    partition: Code


@dataclass(frozen=True, slots=True)
class Repartition:
    """Partitions that are created, merged, moved or maintained without a change of rows."""

    what: Code


@dataclass(frozen=True, slots=True)
class MaintenanceClause:
    """A clause that changes neither definition nor rows: ENABLE KEYS, FORCE, ALGORITHM, LOCK, ORDER BY, …"""

    what: Code


@dataclass(frozen=True, slots=True)
class SwapTablespace:
    """DISCARD or IMPORT TABLESPACE: rows disappear or appear without being logged."""

    what: Code


Spec: TypeAlias = (
    AddColumn | DropColumn | ChangeColumn | RenameColumn | SetDefault | SetColumnVisibility
    | AddConstraint | DropKey | DropForeignKey | DropConstraint | RenameKey | SetKeyVisibility | EnforceCheck
    | RenameTo | ConvertCharset | SetOptions
    | DropPartitions | TruncatePartitions | ExchangePartition | PartitionToTable | TableToPartition | Repartition
    | MaintenanceClause | SwapTablespace
)  # fmt: skip


# Statements


@dataclass(frozen=True, slots=True)
class _OfOneTable:
    table: TableName

    @property
    def tables(self) -> tuple[TableName, ...]:
        return (self.table,)


@dataclass(frozen=True, slots=True)
class CreateTable(_OfOneTable):
    definition: TableDefinition
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True, slots=True)
class CreateTableLike(_OfOneTable):
    like: TableName
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True, slots=True)
class CreateTableSelect(_OfOneTable):
    """A table with the defined columns and those of a query, which only the source knows."""

    definition: TableDefinition
    query: Code
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True, slots=True)
class CreateSequence(_OfOneTable):
    """MariaDB's CREATE SEQUENCE, which makes a table of one row. `options`: as written."""

    options: Code = ""
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True, slots=True)
class AlterTable(_OfOneTable):
    specs: tuple[Spec, ...] = ()
    if_exists: bool = False

    @property
    def tables(self) -> tuple[TableName, ...]:
        return (self.table, *(table for spec in self.specs for table in further_tables(spec)))


@dataclass(frozen=True, slots=True)
class AlterSequence(_OfOneTable):
    options: Code
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateIndex(_OfOneTable):
    key: KeyDefinition
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True, slots=True)
class DropIndex(_OfOneTable):
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropTables:
    """DROP TABLE and, in MariaDB, DROP SEQUENCE."""

    tables: tuple[TableName, ...]
    if_exists: bool = False
    sequences: bool = False


@dataclass(frozen=True, slots=True)
class RenameTables:
    """RENAME TABLE: pairs (old, new), renamed one after the other."""

    pairs: tuple[tuple[TableName, TableName], ...]
    if_exists: bool = False

    @property
    def tables(self) -> tuple[TableName, ...]:
        return tuple(table for pair in self.pairs for table in pair)


@dataclass(frozen=True, slots=True)
class TruncateTable(_OfOneTable):
    """TRUNCATE TABLE."""


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    name: str
    options: Options = ()
    if_not_exists: bool = False
    or_replace: bool = False
    tables: ClassVar[tuple[TableName, ...]] = ()


@dataclass(frozen=True, slots=True)
class AlterDatabase:
    """New defaults for future tables."""

    name: str
    options: Options = ()
    tables: ClassVar[tuple[TableName, ...]] = ()


@dataclass(frozen=True, slots=True)
class DropDatabase:
    """A schema that is dropped with all its tables, which the statement does not name."""

    name: str
    if_exists: bool = False
    tables: ClassVar[tuple[TableName, ...]] = ()


@dataclass(frozen=True, slots=True)
class ViewStatement:
    """CREATE VIEW or DROP VIEW. Views and tables share one namespace, so no table has the name of a view."""

    created: tuple[TableName, ...] = ()
    dropped: tuple[TableName, ...] = ()
    tables: ClassVar[tuple[TableName, ...]] = ()


@dataclass(frozen=True, slots=True)
class IrrelevantStatement:
    """A statement that changes no table, no row and no view's name: triggers, accounts, …"""

    what: str
    tables: ClassVar[tuple[TableName, ...]] = ()


Statement: TypeAlias = (
    CreateTable | CreateTableLike | CreateTableSelect | CreateSequence | AlterTable | AlterSequence | CreateIndex
    | DropIndex | DropTables | RenameTables | TruncateTable | CreateDatabase | AlterDatabase | DropDatabase
    | ViewStatement | IrrelevantStatement
)  # fmt: skip


def further_tables(spec: Spec) -> tuple[TableName, ...]:
    """Return the tables that a clause of ALTER TABLE changes besides the altered table."""
    match spec:
        case RenameTo(table) | ExchangePartition(_, table) | PartitionToTable(_, table) | TableToPartition(table, _):
            return (table,)
        case _:
            return ()
