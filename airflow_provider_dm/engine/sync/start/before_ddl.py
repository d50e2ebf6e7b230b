"""Reconstructs the definition of a table before the DDL in a part of the log, from today's definitions. Pure.

    the first clause about a column        the column before the DDL
    none, or a rename                      the source's column of today, under its old name
    DROP, MODIFY, CHANGE, CONVERT TO …     the target's column
    ADD                                    no column

Keys and the order of columns are taken from the target or, if those do not fit, from the source's table of today. A
definition is accepted only if the DDL transforms it into the source's table of today. A table that the source no longer
has cannot be verified: its definition is the target's. IF EXISTS is evaluated with the target's columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
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
    Constraint,
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
    RenameTo,
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
                current = _name_after(part, current)
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
            current = _name_after(statement, current)
        return tracker, current


def definition_before(
    server: Server, history: TableHistory, today: ShownTable | None, target: ShownTable, collations: Mapping[str, str]
) -> TableDefinition:
    """Return a table's definition before its history, as the source's server would show it.

    `today`: the source's table under its last name; None: the source has none. `target`: the target's, under the
    table's first name. `collations`: the default collation of each schema of the source. Raises Undecided.
    """
    theirs = _as_of(server, target)
    trace = _Trace.of(history, {*theirs.columns, *map(_key_name, theirs.keys)})
    if today is None:
        columns = {name: one() for name, one in theirs.columns.items() if name not in trace.added}
        keys = tuple(key for key in theirs.keys if _fits(key, columns) and trace.had_key(key))
        return TableDefinition(tuple(columns.values()), keys, theirs.options)
    columns = _columns_before(trace, today, theirs)
    options = theirs.options if trace.defaults else today.definition.options
    reason = "the DDL since then does not produce the source's table of today"
    for order in _orders(trace, columns, today, theirs):
        for constraints in _constraints(trace, columns, today, theirs):
            definition = replace(today.definition, columns=order, constraints=constraints, options=options)
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
    keys = [constraint for constraint in shown.definition.constraints if isinstance(constraint, KeyDefinition)]
    return {(str(key.name).lower(), *(str(part.column).lower() for part in key.parts)) for key in keys}


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


def _name_after(statement: Statement, table: TableName) -> TableName:
    match statement:
        case RenameTables(((_, new),)):
            return new
        case AlterTable(_, specs):
            return next((spec.table for spec in specs if isinstance(spec, RenameTo)), table)
    return table


# Columns and keys


@dataclass
class _Trace:
    """The columns and keys before a history, as far as its clauses name them. All names are in lower case."""

    theirs: Collection[str]
    """The columns and keys of the target."""
    altered: set[str] = field(default_factory=set)
    """The first names of the columns that were altered or dropped since."""
    added: set[str] = field(default_factory=set)
    """The names that no column had before the history."""
    first: dict[str, str | None] = field(default_factory=dict)
    """The first name of each column that the clauses name; None: the column was added since."""
    keys: dict[str, str | None] = field(default_factory=dict)
    """The same for keys."""
    converted: bool = False
    """True if all text columns were altered (CONVERT TO CHARACTER SET)."""
    defaults: bool = False
    """True if the table's default charset or collation was changed."""

    @classmethod
    def of(cls, history: TableHistory, theirs: Collection[str]) -> _Trace:
        statements = list(history.specs())
        clauses = [spec for specs in statements for spec in specs]
        converted = any(isinstance(clause, ConvertCharset) for clause in clauses)
        names = {name for clause in clauses if isinstance(clause, SetOptions) for name, _ in clause.options}
        defaults = converted or not names.isdisjoint(("CHARSET", "COLLATE"))
        trace = cls(theirs, converted=converted, defaults=defaults)
        for specs in statements:
            trace._columns(specs)
            trace._keys(specs)
        return trace

    def had_key(self, key: KeyDefinition) -> bool:
        """Return True unless the first clause about a key of this name adds it."""
        return self.keys.get(_key_name(key), "") is not None

    def origin(self, name: str) -> str | None:
        """Return the first name of a column by its current name; None for a column that was added since."""
        return self.first.setdefault(name.lower(), name.lower())

    def _lacks(self, column: str) -> bool:
        """Return True if a column does not exist according to the previous clauses and the target."""
        name = column.lower()
        return self.first[name] is None if name in self.first else name not in self.theirs

    def _columns(self, specs: Sequence[Spec]) -> None:
        replaced: set[str] = set()
        made: dict[str, str | None] = {}
        for one in specs:  # all clauses use the column names before the statement
            if not isinstance(one, DropColumn | ChangeColumn | RenameColumn) or (
                one.if_exists and self._lacks(one.name)
            ):
                continue
            first = self.origin(one.name)
            replaced.add(one.name.lower())
            if first is not None and not isinstance(one, RenameColumn):
                self.altered.add(first)
            if isinstance(one, ChangeColumn):
                made[one.column.name.lower()] = first
            elif isinstance(one, RenameColumn):
                made[one.to.lower()] = first
        for one in specs:
            if isinstance(one, AddColumn) and (not one.if_not_exists or self._lacks(one.column.name)):
                made[one.column.name.lower()] = None
        self.added |= {name for name in made if name not in self.first}
        self.first |= dict.fromkeys(replaced) | made

    def _keys(self, specs: Sequence[Spec]) -> None:
        for spec in specs:
            match spec:
                case DropKey(name):
                    self.keys.setdefault(name.lower(), name.lower())
                case RenameKey(name, to):
                    self.keys[to.lower()] = self.keys.setdefault(name.lower(), name.lower())
                case AddConstraint(KeyDefinition() as key, if_not_exists) if (
                    not if_not_exists or _key_name(key) not in self.theirs
                ):
                    self.keys.setdefault(_key_name(key), None)
                case AddColumn(column) | ChangeColumn(_, column) if column.key is not None:
                    primary = column.key is KeyKind.PRIMARY
                    self.keys.setdefault(_PRIMARY if primary else column.name.lower(), None)


@dataclass(frozen=True)
class _Theirs:
    """The target's table, translated to the source's flavour. `columns`: functions by name in lower case, which raise
    Undecided if the source's flavour has no such column type."""

    columns: Mapping[str, Callable[[], ColumnDefinition]]
    keys: tuple[KeyDefinition, ...]
    options: Options

    def column(self, name: str) -> ColumnDefinition:
        """Return a column by its name in lower case. Raises Undecided."""
        if name not in self.columns:
            raise Undecided(f"the target has no column {name}")
        return self.columns[name]()


def _as_of(server: Server, target: ShownTable) -> _Theirs:
    definition = target.definition
    columns = {one.name.lower(): partial(_as_column_of, server, target.server, one) for one in definition.columns}
    keys = tuple(constraint for constraint in definition.constraints if isinstance(constraint, KeyDefinition))
    swaps = COLLATIONS.get((target.server.flavour, server.flavour), {})
    options = tuple(
        (name, swaps.get(value, value) if name == "COLLATE" else value) for name, value in definition.options
    )
    return _Theirs(columns, keys, options)


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


def _columns_before(trace: _Trace, today: ShownTable, theirs: _Theirs) -> dict[str, ColumnDefinition]:
    """Return the columns by their first names: columns that the source still has, then the others. Raises Undecided."""
    columns: dict[str, ColumnDefinition] = {}
    for column in today.definition.columns:
        first = trace.origin(column.name)
        if first is None:
            continue
        if first in trace.altered or (trace.converted and column.type.name in CHARACTER_TYPES):
            columns[first] = theirs.column(first)
        else:
            columns[first] = column if column.name.lower() == first else replace(column, name=first)
    return columns | {first: theirs.column(first) for first in sorted(trace.altered - columns.keys())}


def _orders(
    trace: _Trace, columns: Mapping[str, ColumnDefinition], today: ShownTable, theirs: _Theirs
) -> Iterator[tuple[ColumnDefinition, ...]]:
    """Yield the possible orders of the columns: the target's; then today's order of the source, with each dropped
    column after the column that precedes it in the target."""
    of_target = [name for name in theirs.columns if name in columns]
    if len(of_target) == len(columns):
        yield tuple(columns[name] for name in of_target)
    firsts = (trace.origin(column.name) for column in today.definition.columns)
    order = [first for first in firsts if first is not None]
    for number, name in enumerate(of_target):
        if name not in order:
            order.insert(order.index(of_target[number - 1]) + 1 if number else 0, name)
    yield tuple(columns[name] for name in order)


def _constraints(
    trace: _Trace, columns: Mapping[str, ColumnDefinition], today: ShownTable, theirs: _Theirs
) -> Iterator[tuple[Constraint, ...]]:
    """Yield the possible keys, each time with the source's other constraints: the target's keys; then the source's keys
    of today that were not added since, and the target's keys that were dropped."""
    others = tuple(one for one in today.definition.constraints if not isinstance(one, KeyDefinition))
    fitting = [key for key in theirs.keys if _fits(key, columns) and trace.had_key(key)]
    yield (*fitting, *others)
    names = {now: first for now, first in trace.first.items() if first is not None}
    kept = [
        replace(
            one,
            name=one.name if one.kind is KeyKind.PRIMARY else trace.keys.get(_key_name(one), one.name),
            parts=tuple(replace(part, column=names.get(str(part.column).lower(), part.column)) for part in one.parts),
        )
        for one in today.definition.constraints
        if isinstance(one, KeyDefinition) and trace.had_key(one)
    ]
    kept_names = set(map(_key_name, kept))
    dropped = [one for one in fitting if _key_name(one) in trace.keys and _key_name(one) not in kept_names]
    yield (*(one for one in kept if _fits(one, columns)), *dropped, *others)


def _fits(key: KeyDefinition, columns: Mapping[str, ColumnDefinition]) -> bool:
    return all(part.column is None or part.column.lower() in columns for part in key.parts)


def _key_name(key: KeyDefinition) -> str:
    if key.kind is KeyKind.PRIMARY:
        return _PRIMARY
    return str(key.name or key.constraint or key.parts[0].column).lower()
