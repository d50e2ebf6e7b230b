"""An immutable model of an upstream's tables at one location of its log, to which DDL statements are applied.

    tracker = Tracker.of(server, {t: "CREATE TABLE `t` (…)"}, {"shop": "utf8mb4_bin"})
    tracker.after(parse("ALTER TABLE t ADD a INT FIRST", 0, "shop"), session).table(t)  ─▶  a is the first column

If the effect of a statement on the format of rows is uncertain, the statement is refused (CannotTrack). Single
partitions, the next AUTO_INCREMENT and privileges are not tracked, as no row depends on them. Of views only the names
are tracked: a table cannot have the name of a view.

Names of schemas and tables are compared as in the server (lower_case_table_names), names of columns and keys
case-insensitively.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.ddl.apply_alter import altered_table
from airflow_provider_dm.engine.ddl.collations import Collation, collation_named
from airflow_provider_dm.engine.ddl.constraints import with_references, with_table_name
from airflow_provider_dm.engine.ddl.errors import CannotTrack, NotKnown, Unreadable
from airflow_provider_dm.engine.ddl.keys import without_hash
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.resolve import Context, created, settled, table_collation
from airflow_provider_dm.engine.ddl.server import STRICT_ALL_TABLES, Server, SessionDefaults
from airflow_provider_dm.engine.ddl.stored_names import stored_name
from airflow_provider_dm.engine.ddl.table_of import table_of
from airflow_provider_dm.engine.ddl.write import create_table_sql
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.model import Table

_Tables: TypeAlias = dict[TableName, tuple[TableName, ddl.TableDefinition]]
"""Name and definition of each table, by its folded name."""
AS_SHOWN: Final = SessionDefaults(sql_mode=STRICT_ALL_TABLES, explicit_timestamp_defaults=True)
"""The session for the text of SHOW CREATE TABLE, which names everything that a session could decide."""


def _new_names(specs: Iterable[ddl.Spec]) -> dict[str, str]:
    """Return the new names of renamed columns, by their old names in lower case."""
    found: dict[str, str] = {}
    for spec in specs:
        match spec:
            case ddl.RenameColumn(old, new):
                found[old.lower()] = new
            case ddl.ChangeColumn(old, column):
                found[old.lower()] = column.name
    return {old: new for old, new in found.items() if old != new.lower()}


@dataclass(frozen=True)
class Tracker:
    """The tables, and the default collations of their schemas."""

    server: Server
    _tables: _Tables = field(default_factory=dict)
    _collations: dict[str, str] = field(default_factory=dict)
    """The default collation of each schema, by its folded name."""
    _views: frozenset[TableName] = frozenset()
    """The views, by their folded names."""

    @classmethod
    def of(
        cls,
        server: Server,
        tables: Mapping[TableName, str],
        collations: Mapping[str, str],
        views: Collection[TableName] = (),
    ) -> Tracker:
        """Return the tables of these SHOW CREATE TABLE texts. `collations`: the default of each schema.

        Raises CannotTrack for a text that cannot be parsed.
        """
        found = cls(server)
        found = replace(
            found,
            _collations={found._folded(name): collation for name, collation in collations.items()},
            _views=frozenset(map(found._key, views)),
        )
        for name, text in tables.items():
            found = found.with_table(name, text)
        return found

    # Content

    def names(self) -> frozenset[TableName]:
        """Return the tables' names as the server stores them."""
        return frozenset(name for name, _ in self._tables.values())

    def definition(self, name: TableName) -> ddl.TableDefinition:
        """Return the resolved definition. Raises KeyError."""
        return self._tables[self._key(name)][1]

    def table(self, name: TableName) -> Table:
        """Return the table as the server's catalogue shows it. Raises KeyError."""
        return table_of(self.server, *self._tables[self._key(name)])

    def create_sql(self, name: TableName) -> str:
        """Return the table as canonical CREATE TABLE, for `of` and `with_table`. Raises KeyError."""
        return create_table_sql(*self._tables[self._key(name)])

    def collations(self) -> dict[str, str]:
        """Return the known default collation of each schema, for `of`."""
        return dict(self._collations)

    def views(self) -> frozenset[TableName]:
        """Return the known views, for `of`."""
        return self._views

    def is_view(self, name: TableName) -> bool:
        return self._key(name) in self._views

    # Other tables

    def with_table(self, name: TableName, create_sql: str) -> Tracker:
        """Return the tables with this one added or replaced. Raises CannotTrack."""
        try:
            statement = parse(create_sql, 0, name.schema)
        except Unreadable as error:
            raise CannotTrack(f"the definition of {name} is not understood: {error}") from error
        if not isinstance(statement, ddl.CreateTable):
            raise CannotTrack(f"the definition of {name} is not a CREATE TABLE")
        context = self._context(name, AS_SHOWN)
        return self._with(name, created(context, statement.definition, shown=True))

    def without(self, names: Collection[TableName]) -> Tracker:
        """Return the tables without these; unknown names are ignored."""
        gone = {self._key(name) for name in names}
        return replace(self, _tables={key: table for key, table in self._tables.items() if key not in gone})

    # Statements

    def after(self, statement: ddl.Statement, session: SessionDefaults) -> Tracker:
        """Return the tables after a statement that the server has executed. Raises CannotTrack."""
        match statement:
            case ddl.CreateTable() | ddl.CreateTableLike() | ddl.CreateTableSelect():
                return self._after_create(statement, session)
            case ddl.AlterTable(table, specs, if_exists):
                return self._after_alter(table, specs, session, if_exists=if_exists)
            case ddl.CreateIndex(table, key, if_not_exists, or_replace):
                drop: tuple[ddl.Spec, ...] = (ddl.DropKey(str(key.name), if_exists=True),) if or_replace else ()
                return self._after_alter(table, (*drop, ddl.AddConstraint(key, if_not_exists)), session)
            case ddl.DropIndex(table, name, if_exists):
                return self._after_alter(table, (ddl.DropKey(name, if_exists),), session)
            case ddl.DropTables(tables, if_exists, sequences):
                for table in tables:
                    if not (if_exists or sequences):
                        self._known(table)
                return self.without(tables)
            case ddl.RenameTables(pairs, if_exists):
                found = self
                for old, new in pairs:
                    exists = found._has(old) or found.is_view(old)
                    found = found._renamed(old, new) if exists or not if_exists else found
                return found
            case ddl.TruncateTable(table):
                self._known(table)
                return self
            case ddl.CreateSequence(table, _, _, or_replace):
                return self.without([table]) if or_replace else self
            case ddl.CreateDatabase() | ddl.AlterDatabase() | ddl.DropDatabase():
                return self._after_database(statement, session)
            case ddl.ViewStatement(created, dropped):
                gone = frozenset(map(self._key, dropped))
                return replace(self, _views=self._views - gone | frozenset(map(self._key, created)))
            case ddl.AlterSequence() | ddl.IrrelevantStatement():
                return self

    def _after_create(
        self, statement: ddl.CreateTable | ddl.CreateTableLike | ddl.CreateTableSelect, session: SessionDefaults
    ) -> Tracker:
        name = statement.table
        if statement.if_not_exists and (self._has(name) or self.is_view(name)):
            return self
        if self._has(name) and not statement.or_replace:
            raise CannotTrack(f"{name} is created, but exists already")
        match statement:
            case ddl.CreateTable(_, given):
                return self._with(name, created(self._context(name, session), given))
            case ddl.CreateTableLike(_, like):
                return self._with(name, self._like(like, name))
            case ddl.CreateTableSelect():
                raise CannotTrack(f"the columns of {name} come from a query")

    def _like(self, like: TableName, name: TableName) -> ddl.TableDefinition:
        """Return the definition for CREATE TABLE … LIKE: without foreign keys; MySQL gives all CHECKs new names."""
        _, definition = self._known(like)
        keys = tuple(
            without_hash(self.server, one) for one in definition.constraints if isinstance(one, ddl.KeyDefinition)
        )
        checks = [constraint for constraint in definition.constraints if isinstance(constraint, ddl.CheckConstraint)]
        if not self.server.mariadb:
            checks = [replace(check, constraint=None) for check in checks]
        options = tuple(option for option in definition.options if not option[0].endswith("DIRECTORY"))
        empty = replace(definition, constraints=keys, options=options)
        return settled(self._context(name, AS_SHOWN), empty, checks)

    def _after_alter(
        self, table: TableName, specs: tuple[ddl.Spec, ...], session: SessionDefaults, *, if_exists: bool = False
    ) -> Tracker:
        if if_exists and not self._has(table):
            return self
        name, old = self._known(table)
        definition = altered_table(self._context(name, session), old, specs)
        found = self._with(name, definition)._with_updated_references(name, name, _new_names(specs))
        for spec in specs:
            match spec:
                case ddl.PartitionToTable(_, new):
                    found = found._with(new, replace(definition, partitioning=None))
                case ddl.TableToPartition(gone, _):
                    found = found.without([gone])
                case ddl.RenameTo(new):
                    found = found._renamed(name, new)
                    name = new
        return found

    def _after_database(
        self, statement: ddl.CreateDatabase | ddl.AlterDatabase | ddl.DropDatabase, session: SessionDefaults
    ) -> Tracker:
        key = self._folded(statement.name)
        if isinstance(statement, ddl.DropDatabase):
            others = {name: one for name, one in self._collations.items() if name != key}
            return replace(self._without_schema(key), _collations=others)
        current: str | None = self._collations.get(key)
        found = self
        if isinstance(statement, ddl.CreateDatabase):
            if current is not None and statement.if_not_exists:
                return self
            found = self._without_schema(key) if statement.or_replace else self
            current = session.server_collation
        collation = self._schema_collation(statement, session, current)
        return found if collation is None else replace(found, _collations={**self._collations, key: collation})

    def _schema_collation(
        self, statement: ddl.CreateDatabase | ddl.AlterDatabase, session: SessionDefaults, current: str | None
    ) -> str | None:
        """Return the schema's default after the statement; None if unknown."""
        given = tuple(option for option in statement.options if option[0] in ("CHARSET", "COLLATE"))
        named = None if current is None else collation_named(self.server, current)
        of_server = session.server_collation
        default = None if of_server is None else collation_named(self.server, of_server)
        if not given:
            return current
        context = Context(self.server, session, TableName(statement.name, ""), default)
        return table_collation(context, given, named).name

    def _renamed(self, old: TableName, new: TableName) -> Tracker:
        if self.is_view(old):
            return self.after(ddl.ViewStatement(created=(new,), dropped=(old,)), AS_SHOWN)
        name, definition = self._known(old)
        if self._has(new) and self._key(new) != self._key(old):
            raise CannotTrack(f"{old} is renamed to {new}, which exists already")
        moved = self.without([old])._with(new, with_table_name(self.server, definition, name, new))
        return moved._with_updated_references(name, self._stored(new), {})

    def _with_updated_references(self, table: TableName, renamed: TableName, columns: Mapping[str, str]) -> Tracker:
        """Return the tables with updated foreign keys after a table or its columns were renamed."""
        if table == renamed and not columns:
            return self
        pointing = {
            key: (name, with_references(definition, table, renamed, columns))
            for key, (name, definition) in self._tables.items()
        }
        return replace(self, _tables=pointing)

    # Names

    def _context(self, name: TableName, session: SessionDefaults) -> Context:
        collation = self._collations.get(self._folded(name.schema))
        known: Collation | None = None if collation is None else collation_named(self.server, collation)
        return Context(self.server, session, self._stored(name), known)

    def _with(self, name: TableName, definition: ddl.TableDefinition) -> Tracker:
        key = self._key(name)
        tables = {**self._tables, key: (self._stored(name), definition)}
        return replace(self, _tables=tables, _views=self._views - {key})

    def _without_schema(self, schema: str) -> Tracker:
        """Return the tracker without a schema, given by its folded name."""
        tables = {key: table for key, table in self._tables.items() if key.schema != schema}
        return replace(self, _tables=tables, _views=frozenset(view for view in self._views if view.schema != schema))

    def _known(self, name: TableName) -> tuple[TableName, ddl.TableDefinition]:
        if not self._has(name):
            raise NotKnown(f"{name} is not known")
        return self._tables[self._key(name)]

    def _has(self, name: TableName) -> bool:
        return self._key(name) in self._tables

    def _folded(self, name: str) -> str:
        return name.lower() if self.server.lower_case_table_names else name

    def _key(self, name: TableName) -> TableName:
        return TableName(*map(self._folded, name))

    def _stored(self, name: TableName) -> TableName:
        return stored_name(name, self.server)


def difference_of_copy(
    tracker: Tracker, real: TableName, created: ddl.CreateTable, session: SessionDefaults
) -> str | None:
    """Describe the first difference in columns or unique keys between `real` and a table that a statement creates, as
    pt-online-schema-change does by the text of SHOW CREATE TABLE; None if there is none."""
    try:
        made, known = tracker.after(created, session).table(created.table), tracker.table(real)
    except (CannotTrack, KeyError) as error:
        return f"a part that is not known ({error})"
    if [one.name.lower() for one in made.columns] != [one.name.lower() for one in known.columns]:
        return "its columns, or their order"
    for ours, theirs in zip(made.columns, known.columns, strict=True):
        if replace(ours, name=theirs.name) != theirs or ours.expression != theirs.expression:
            return f"the column {ours.name}"
    return None if made.unique_keys == known.unique_keys else "its unique keys"
