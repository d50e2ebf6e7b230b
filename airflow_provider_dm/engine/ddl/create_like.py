"""The schemas and tables that a full migration creates in a target, like those of a source.

A table's SHOW CREATE TABLE is never sent unchanged. It is parsed, and its parts become those of the target's table as
in a CREATE TABLE of the log (`target_definitions`): an unknown part raises CannotCreateTarget, and a user creates the
table. Each column gets the collation that the source's catalogue shows for it, as defaults differ between servers and
decide equality.

A collation that the target's family lacks is replaced by the closest one in equality of characters and in the treatment
of trailing spaces, or by code points (`dialects`), which is reported, as ORDER BY and `=` may differ. With `strict`,
DM's `collation_compatible: strict`, it raises an error instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from airflow_provider_dm.engine.ddl.dialects import charset_of, collation_for, replaced
from airflow_provider_dm.engine.ddl.errors import CannotCreateTarget, NotCopyable, Unreadable
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import (
    ColumnDefinition,
    CreateTable,
    ForeignKey,
    KeyDefinition,
    KeyKind,
    TableDefinition,
)
from airflow_provider_dm.engine.ddl.target_definitions import ConversionContext, TableConverter
from airflow_provider_dm.engine.ddl.write import definition_sql
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote
from airflow_provider_dm.engine.schema.model import Table


@dataclass(frozen=True)
class ServerPair:
    """The servers between which definitions are converted.

    `strict`: no collation is replaced; a schema gets the source's, which the target rejects if it lacks it.
    `cascades_are_logged`: the source's log has the rows that its foreign keys change.
    """

    source: Flavour
    target: Flavour
    strict: bool = False
    cascades_are_logged: bool = False


@dataclass(frozen=True)
class NewTable:
    """A table for the target. `notes`: differences from the source that a user may want to know."""

    name: TableName
    definition: TableDefinition
    notes: tuple[str, ...] = ()
    keyless: bool = False
    """True if it has no primary key."""
    postponed: tuple[KeyDefinition, ...] = ()
    """Indexes that are dropped for the time of a load."""

    @property
    def sql(self) -> str:
        """The CREATE TABLE statement."""
        return f"CREATE TABLE {self.name.quoted()} {definition_sql(self.definition)}"

    @property
    def parents(self) -> frozenset[TableName]:
        """The tables to which its foreign keys refer."""
        own = (one.references.table for one in self.definition.constraints if isinstance(one, ForeignKey))
        of_columns = (column.references.table for column in self.definition.columns if column.references is not None)
        return frozenset((*own, *of_columns))

    def postponing(self) -> NewTable:
        """Return the table with all indexes postponed that no row depends on: neither UNIQUE nor of AUTO_INCREMENT."""
        numbered = {column.name for column in self.definition.columns if column.auto_increment}
        keys = (one for one in self.definition.constraints if isinstance(one, KeyDefinition))
        plain = (key for key in keys if key.kind is KeyKind.PLAIN and key.parts[0].column not in numbered)
        return replace(self, postponed=tuple(plain))


@dataclass(frozen=True)
class Spread:
    """The bits by which a new table in TiDB spreads later rows over the regions of the cluster; 0: as TiDB does.

    Only for a BIGINT AUTO_INCREMENT that is the whole primary key; TiDB has session variables for other tables.
    """

    auto_random: int = 0
    pre_split_regions: int = 0

    def over(self, definition: TableDefinition, source: Table) -> TableDefinition:
        """Return the definition with these bits."""
        primary = next((key.columns for key in source.unique_keys if key.primary), ())
        columns = tuple(self._random(column) if primary == (column.name,) else column for column in definition.columns)
        spread = columns != definition.columns and self.pre_split_regions
        split = (("PRE_SPLIT_REGIONS", str(self.pre_split_regions)),) if spread else ()
        return replace(definition, columns=columns, options=(*definition.options, *split))

    def _random(self, column: ColumnDefinition) -> ColumnDefinition:
        if not (self.auto_random and column.auto_increment and column.type.name == "bigint"):
            return column
        option = ("AUTO_RANDOM", str(self.auto_random))
        return replace(column, auto_increment=False, options=(*column.options, option))


@dataclass(frozen=True)
class NewSchema:
    """A schema for the target. `collation`: its default in the target's family; None: the target's own default.

    `strict`: the server rejects the statement if it lacks this collation.
    """

    name: str
    collation: str | None
    notes: tuple[str, ...] = ()
    strict: bool = False

    def sql(self) -> str:
        """Return the CREATE DATABASE statement; the collation's name begins with the charset."""
        plain = f"CREATE DATABASE IF NOT EXISTS {quote(self.name)}"
        if self.collation is None:
            return plain
        return f"{plain} CHARACTER SET {charset_of(self.collation)} COLLATE {self.collation}"


def create_schema_like(name: str, collation: str, servers: ServerPair) -> NewSchema:
    """Return a schema whose tables get the same default collation as the source's, or its replacement."""
    if servers.strict:
        return NewSchema(name, collation, strict=True)
    if charset_of(collation) == "gb18030" and not CAPABILITIES[servers.target].gb18030:
        return NewSchema(name, None, (f"the target has no {collation}; the schema has the target's default",))
    becomes = collation_for(collation, servers.source, servers.target)
    return NewSchema(name, becomes, () if becomes == collation else (replaced(collation, becomes),))


def create_table_like(
    statement: str,
    source: Table,
    target: TableName,
    servers: ServerPair,
    *,
    collation: str,
    parent: Callable[[TableName], TableName | None] = lambda _: None,
    spread: Spread = Spread(),
) -> NewTable:
    """Return the target's CREATE TABLE. `statement`: the source's own; `collation`: the source table's default; ""
    if it is not needed. `parent`: the target table of a table that a foreign key refers to; None: it is not migrated.

    Raises CannotCreateTarget.
    """
    notes: list[str] = []
    try:
        definition = _definition(statement, source.name.schema)
        columns = {column.name: column for column in definition.columns}

        def resolve(_: TableName, name: str) -> ColumnDefinition | None:
            shown, known = columns[name], source.by_name.get(name.lower())
            if known is None or known.collation is None:  # the catalogue shows none for ENUM … CHARACTER SET binary
                return shown
            return replace(shown, type=replace(shown.type, charset=known.charset, collation=known.collation))

        way = ConversionContext(
            sql_mode=0,
            source=servers.source,
            target_can=CAPABILITIES[servers.target],
            route=lambda name: parent(name) or name,
            allows=lambda name: parent(name) is not None,
            resolve=resolve,
            collation=lambda _: collation or None,
            cascades_are_logged=servers.cascades_are_logged,
            strict_collations=servers.strict,
        )
        made = TableConverter(way, source.name, notes).definition(definition)
        if way.target_can.spreads_rows:
            made = spread.over(made, source)
    except NotCopyable as error:
        raise CannotCreateTarget(str(source.name), str(target), str(error)) from None
    keyless = not any(key.primary for key in source.unique_keys)
    return NewTable(target, made, tuple(notes), keyless)


def _definition(statement: str, schema: str) -> TableDefinition:
    try:
        created = parse(statement, 0, schema)
    except Unreadable as error:
        raise NotCopyable(f"a text that cannot be parsed: {error}") from None
    if not isinstance(created, CreateTable) or created.if_not_exists or created.or_replace:
        raise NotCopyable(f"the statement {statement[:40]!r}…")
    return created.definition
