"""Reconstructs the definition of a table before the DDL in a part of the log, from today's definitions. Pure.

    the first clause about a column or a key       before the DDL
    none, or only renames                          as in the source's table of today, under its old name
    it adds the column or the key                  it did not exist
    any other, also ADD … IF NOT EXISTS            as in the target's table

The order of columns is the target's or, if that does not fit, today's of the source; the same for keys. A definition is
accepted only if the DDL transforms it into the source's table of today. A table that the source no longer has cannot be
verified: its definition is the target's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

from airflow_provider_dm.engine.ddl.column_types import CHARACTER_TYPES, MEMBERS
from airflow_provider_dm.engine.ddl.dialects import COLLATIONS, column_for
from airflow_provider_dm.engine.ddl.errors import CannotTrack, NotCopyable
from airflow_provider_dm.engine.ddl.server import Server, SessionDefaults
from airflow_provider_dm.engine.ddl.statements import (
    AddColumn,
    AddConstraint,
    AlterTable,
    ChangeColumn,
    ColumnDefinition,
    ConvertCharset,
    CreateIndex,
    CreateTable,
    CreateTableLike,
    CreateTableSelect,
    DropColumn,
    DropDatabase,
    DropIndex,
    DropKey,
    DropTables,
    KeyDefinition,
    KeyKind,
    Options,
    RenameColumn,
    RenameKey,
    RenameTables,
    SetOptions,
    Spec,
    Statement,
    TableDefinition,
)
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.ddl.write import create_table_sql
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.rules.mapping import value_signature
from airflow_provider_dm.engine.schema.model import Column
from airflow_provider_dm.engine.sync.ddl.statement_parts import renames
from airflow_provider_dm.engine.sync.errors import Undecided

_PRIMARY: Final = "primary"


@dataclass(frozen=True)
class LoggedStatement:
    """A statement of the log, with table names as the server stores them.

    `at`: the begin of its transaction. `statement`: None if it cannot be parsed completely. `tables`: the tables that
    it changes. `session`: the session that executed it.
    """

    at: Location
    statement: Statement | None
    tables: tuple[TableName, ...]
    session: SessionDefaults


@dataclass(frozen=True)
class ShownTable:
    """A table as one server shows it today."""

    server: Server
    name: TableName
    definition: TableDefinition


@dataclass(frozen=True)
class TableHistory:
    """The statements about one table, reduced to this table. `last`: its name today; None: dropped."""

    name: TableName
    parts: tuple[tuple[Statement, SessionDefaults], ...]
    last: TableName | None

    @classmethod
    def of(cls, name: TableName, log: Iterable[LoggedStatement]) -> TableHistory:
        """Return the history of the table that had this name before the log. Raises Undecided."""
        parts: list[tuple[Statement, SessionDefaults]] = []
        current = name
        for one in log:
            if one.statement is None:
                if current in one.tables:
                    raise Undecided("a statement about it is not understood")
                continue
            if _replaces(one.statement, current):
                return cls(name, tuple(parts), None)
            for part in _alone(one.statement, current):
                parts.append((part, one.session))
                current = dict(renames(part)).get(current, current)
        return cls(name, tuple(parts), current)

    def specs(self) -> Iterator[tuple[Spec, ...]]:
        """Yield the clauses of each statement; CREATE INDEX and DROP INDEX as clauses of ALTER TABLE."""
        for statement, _ in self.parts:
            match statement:
                case AlterTable(_, specs):
                    yield specs
                case CreateIndex(_, key, if_not_exists):
                    yield (AddConstraint(key, if_not_exists),)
                case DropIndex(_, name, if_exists):
                    yield (DropKey(name, if_exists),)

    def applied_to(self, shown: ShownTable, collations: Mapping[str, str]) -> tuple[Tracker, TableName]:
        """Apply the statements to a table; return the tracker and the table's name after them. Raises CannotTrack."""
        text = create_table_sql(self.name, shown.definition)
        tracker, current = Tracker.of(shown.server, {self.name: text}, collations), self.name
        for statement, session in self.parts:
            tracker = tracker.after(statement, session)
            current = dict(renames(statement)).get(current, current)
        return tracker, current


def definition_before(
    server: Server, history: TableHistory, today: ShownTable | None, target: ShownTable, collations: Mapping[str, str]
) -> TableDefinition:
    """Return a table's definition before its history, as the source's server would show it.

    `today`: the source's table under its last name; None: the source has none. `target`: the target's, under the
    table's first name. `collations`: the default collation of each schema of the source. Raises Undecided.
    """
    statements = list(history.specs())
    existed, had_key = _first_clauses(statements, _names_of), _first_clauses(statements, _key_names_of)
    converted = any(isinstance(spec, ConvertCharset) for specs in statements for spec in specs)
    now = {} if today is None else {one.name.lower(): one for one in today.definition.columns}
    first, altered = _first_names(statements, _names_of)
    kept = {
        first.get(name, name): one
        for name, one in now.items()
        if first.get(name, name) not in altered and not (converted and one.type.name in CHARACTER_TYPES)
    }
    columns: dict[str, ColumnDefinition] = {}
    for one in target.definition.columns:
        name = one.name.lower()
        if name in kept:
            columns[name] = kept[name] if kept[name] is now.get(name) else replace(kept[name], name=one.name)
        elif existed.get(name, today is None or name in now):
            columns[name] = _as_column_of(server, target.server, one)
    theirs = [key for key in _keys(target) if had_key.get(_key_name(key), True) and _fits(key, columns)]
    if today is None:
        return TableDefinition(tuple(columns.values()), tuple(theirs), _options(server, target))
    changed = {name for specs in statements for one in specs if isinstance(one, SetOptions) for name, _ in one.options}
    defaults = converted or not changed.isdisjoint(("CHARSET", "COLLATE"))
    options = _options(server, target) if defaults else today.definition.options
    in_target = set(map(_key_name, theirs))
    first_keys, _ = _first_names(statements, _key_names_of)
    first_keys = {key: one for key, one in first_keys.items() if one or key in in_target or not had_key[key]}  # rebuilt
    ours = [key for one in _keys(today) if (key := _under_first_names(one, first_keys, first)) and _fits(key, columns)]
    others = [one for one in today.definition.constraints if not isinstance(one, KeyDefinition)]
    names = set(map(_key_name, ours))
    named = [key for key in theirs if _key_name(key) in had_key and _key_name(key) not in names]
    order_now = [str(first.get(name, name)) for name in now]
    reason = "the DDL since then does not produce the source's table of today"
    for order, keys in product((list(columns), _as_ordered(list(columns), order_now)), (theirs, ours + named)):
        definition = replace(
            today.definition,
            columns=tuple(columns[name] for name in order),
            constraints=(*keys, *others),
            options=options,
        )
        candidate = ShownTable(server, history.name, definition)
        try:
            tracker, last = history.applied_to(candidate, collations)
            if same_rows(ShownTable(server, last, tracker.definition(last)), today):
                return definition
        except CannotTrack as error:
            reason = str(error)
    raise Undecided(reason)


def same_rows(one: ShownTable, other: ShownTable) -> bool:
    """Return True if two tables have the same columns in the same order and the same named keys. Raises CannotTrack."""
    return _forms(one) == _forms(other) and key_names(one) == key_names(other)


def row_form(column: Column) -> tuple[object, ...]:
    """Return the properties that are needed to decode a column's value, and that a table map may lack."""
    numbered = column.data_type.lower() in MEMBERS  # a row image has the numbers of ENUM and SET members
    return (*value_signature(column), column.column_type if numbered else "")


def key_names(shown: ShownTable) -> set[tuple[object, ...]]:
    """Return the keys as (name, columns…), in lower case."""
    return {(str(key.name).lower(), *(str(part.column).lower() for part in key.parts)) for key in _keys(shown)}


def _forms(shown: ShownTable) -> list[tuple[object, ...]]:
    text = create_table_sql(shown.name, shown.definition)
    columns = Tracker.of(shown.server, {shown.name: text}, {}).table(shown.name).columns
    return [(column.name.lower(), *row_form(column)) for column in columns]


# Statements


def _replaces(statement: Statement, table: TableName) -> bool:
    """Return True if a statement drops or replaces a table."""
    match statement:
        case DropTables(tables):
            return table in tables
        case DropDatabase(name):
            return name == table.schema
        case CreateTable(name) | CreateTableLike(name) | CreateTableSelect(name):
            return name == table and statement.or_replace
    return False


def _alone(statement: Statement, table: TableName) -> Iterator[Statement]:
    """Yield the parts of a statement that change the definition or the name of one table."""
    match statement:
        case AlterTable(name) | CreateIndex(name) | DropIndex(name) if name == table:
            yield statement
        case RenameTables(pairs):
            for old, new in pairs:
                if old == table:
                    yield RenameTables(((old, new),))
                    table = new


# Columns and keys


def _first_clauses(
    statements: Iterable[Sequence[Spec]], names_of: Callable[[Spec], tuple[list[str], list[str]]]
) -> dict[str, bool]:
    """Return for each name in the clauses, in lower case, whether it existed before them.

    `names_of`: the names that a clause uses, and those that it makes. A clause uses the names before its statement.
    """
    existed: dict[str, bool] = {}
    for specs in statements:
        names = [names_of(spec) for spec in specs]
        for used, _ in names:
            existed = {**dict.fromkeys((name.lower() for name in used), True), **existed}
        for _, made in names:
            existed = {**dict.fromkeys((name.lower() for name in made), False), **existed}
    return existed


def _first_names(
    statements: Iterable[Sequence[Spec]], names_of: Callable[[Spec], tuple[list[str], list[str]]]
) -> tuple[dict[str, str | None], set[str | None]]:
    """Return for each name that the clauses make the first name of what has it, None for what they add; and the first
    names of what clauses other than renames use. All in lower case.
    """
    first: dict[str, str | None] = {}
    altered: set[str | None] = {None}
    for specs in statements:
        made: dict[str, str | None] = {}
        for spec in specs:
            used, new = names_of(spec)
            before = [first.get(name.lower(), name.lower()) for name in used]
            made |= dict.fromkeys((name.lower() for name in new), before[0] if before else None)
            if not isinstance(spec, RenameColumn | RenameKey):
                altered |= set(before)
        first |= made
    return first, altered


def _under_first_names(
    key: KeyDefinition, names: Mapping[str, str | None], columns: Mapping[str, str | None]
) -> KeyDefinition | None:
    """Return a key of today under its first name, with the first names of its columns; None if it was added."""
    own = _key_name(key)
    first = names.get(own, own)
    if first is None:
        return None
    parts = tuple(replace(part, column=columns.get(str(part.column).lower()) or part.column) for part in key.parts)
    return replace(key, name=key.name if first == own else first, parts=parts)


def _names_of(spec: Spec) -> tuple[list[str], list[str]]:
    match spec:
        case DropColumn(name):
            return [name], []
        case ChangeColumn(name, column):
            return [name], [column.name]
        case RenameColumn(name, to):
            return [name], [to]
        case AddColumn(column, if_not_exists=maybe):
            return ([column.name], []) if maybe else ([], [column.name])
    return [], []


def _key_names_of(spec: Spec) -> tuple[list[str], list[str]]:
    match spec:
        case DropKey(name):
            return [name], []
        case RenameKey(name, to):
            return [name], [to]
        case AddConstraint(KeyDefinition() as key, if_not_exists=maybe):
            return ([_key_name(key)], []) if maybe else ([], [_key_name(key)])
        case AddColumn(column) | ChangeColumn(_, column) if column.key is not None:
            return [], [_PRIMARY if column.key is KeyKind.PRIMARY else column.name]
    return [], []


def _as_ordered(names: Sequence[str], today: Sequence[str]) -> list[str]:
    """Return the names in today's order, each of the others after the name that precedes it in `names`."""
    order = [name for name in today if name in names]
    for number, name in enumerate(names):
        if name not in order:
            order.insert(order.index(names[number - 1]) + 1 if number else 0, name)
    return order


def _options(server: Server, target: ShownTable) -> Options:
    swaps = COLLATIONS.get((target.server.flavour, server.flavour), {})
    return tuple(
        (name, swaps.get(value, value) if name == "COLLATE" else value) for name, value in target.definition.options
    )


def _as_column_of(server: Server, shown_by: Server, column: ColumnDefinition) -> ColumnDefinition:
    """Translate a column of one server's table to the flavour of another server. Raises Undecided."""
    if server.mariadb is shown_by.mariadb:
        return column
    if [check.expression for check in column.checks] == [f"(json_valid({quote(column.name)}))"]:  # MariaDB's JSON
        return replace(column, type=replace(column.type, name="json", charset=None, collation=None), checks=())
    try:
        column = column_for(column, shown_by.flavour, CAPABILITIES[server.flavour], lambda _: None)
    except NotCopyable as error:
        raise Undecided(f"the source has no counterpart of the target's column {column.name}: {error}") from None
    collation = column.type.collation
    swapped = COLLATIONS.get((shown_by.flavour, server.flavour), {}).get(collation or "", collation)
    return replace(column, type=replace(column.type, collation=swapped), checks=())


def _keys(shown: ShownTable) -> list[KeyDefinition]:
    return [constraint for constraint in shown.definition.constraints if isinstance(constraint, KeyDefinition)]


def _fits(key: KeyDefinition, columns: Mapping[str, ColumnDefinition]) -> bool:
    return all(part.column is None or part.column.lower() in columns for part in key.parts)


def _key_name(key: KeyDefinition) -> str:
    if key.kind is KeyKind.PRIMARY:
        return _PRIMARY
    return str(key.name or key.constraint or key.parts[0].column).lower()
