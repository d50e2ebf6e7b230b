"""Determines whether a waiting row can still get its key, by querying the sources.

The key of a waiting row is held by another row of the target, the holder. If the source table of the waiting row still
has that row, and another source table has the holder, the target cannot have both: that is a collision, and a user
decides. If only one of the two still exists, the other one is a past state, which its own log will change. If no source
table has the holder, either a log that is not applied yet deletes it, or it is a foreign row.

Sources are queried one after the other, while rows may move. So the waiting row is queried twice, before and after the
holder, and the result has to be confirmed some time later (`contests`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from airflow_provider_dm.engine.downstream.contested_row import ContestedRow
from airflow_provider_dm.engine.downstream.table_schema import Feeder
from airflow_provider_dm.engine.merge.errors import ColumnDropped, RowsCollide
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote
from airflow_provider_dm.engine.reading.text_rows import TextCells
from airflow_provider_dm.engine.rules.mapping import TableMapping, value_signature
from airflow_provider_dm.engine.schema.codec import Row, Value, codec_for
from airflow_provider_dm.engine.schema.model import Index, Table

LONGEST_VALUE: Final = 60
"""Maximum characters of a key value in a message."""


KeyValues = dict[str, Value]
"""Column name -> canonical value, never None."""


@dataclass(frozen=True)
class KeyHolder:
    """A row of the target that holds the key of another row: its identity and its values of the unique key."""

    key: Index
    identity: KeyValues
    values: KeyValues


class CollisionQueries(Protocol):
    def holders(self, row: ContestedRow, mapping: TableMapping) -> list[KeyHolder]:
        """Return the rows in the target that have a unique value of this row."""
        ...

    def has(self, source: str, table: TableName, values: KeyValues, typed: Table) -> bool | None:
        """Return True if a source table has a row with these values now; None if the source cannot be queried.

        The values are canonical for the columns of `typed`. Raises ColumnDropped.
        """
        ...


class CollisionVerdict(Enum):
    WAITS = "its own log, or that of the holder, will change one of the two"
    FOREIGN = "no source table has the row that holds its key"
    UNKNOWN = "a source that may have that row is not part of this run"
    PAST = "its source has changed or deleted it since, and its own log contains that"


@dataclass(frozen=True)
class Collides:
    """Both rows exist at their sources now."""

    row: ContestedRow
    other: Feeder
    holder: KeyHolder

    def error(self, more: Sequence[Collides]) -> RowsCollide:
        """Return the error for this and other collisions of the same two tables and the same key."""
        subject = (self.row.source, self.row.table, self.other, self.holder.key)
        alike = [one for one in more if (one.row.source, one.row.table, one.other, one.holder.key) == subject]
        return RowsCollide(
            self.row.source,
            str(self.row.table),
            self.other.source,
            str(self.other.table),
            str(self.row.target),
            self.holder.key.name,
            self.holder.key.columns,
            tuple(f"({', '.join(shown_values(verdict.holder.values.values()))})" for verdict in alike),
        )


def verdict_on(
    row: ContestedRow, mapping: TableMapping, feeders: Collection[Feeder], queries: CollisionQueries
) -> CollisionVerdict | Collides:
    """Return the verdict on a waiting row. `mapping`: the mapping of its source table; `feeders`: all source tables of
    its target."""
    holders = queries.holders(row, mapping)
    if not holders:
        # find_holders cannot query a key over an expression
        may_be_missed = any(key.expression for key in mapping.target.unique_keys)
        return CollisionVerdict.FOREIGN if may_be_missed else CollisionVerdict.WAITS
    verdicts = [_verdict_on_holder(row, one, mapping, feeders, queries) for one in holders]
    collision = next((verdict for verdict in verdicts if isinstance(verdict, Collides)), None)
    return collision or next(verdict for verdict in _PRECEDENCE if verdict in verdicts)


_PRECEDENCE: Final = (CollisionVerdict.PAST, CollisionVerdict.WAITS, CollisionVerdict.UNKNOWN, CollisionVerdict.FOREIGN)
"""Verdicts by precedence, if several rows hold keys of one row."""


def _verdict_on_holder(
    row: ContestedRow, holder: KeyHolder, mapping: TableMapping, feeders: Collection[Feeder], queries: CollisionQueries
) -> CollisionVerdict | Collides:
    own = _without_constants(row_identity(row.row, mapping) | values_of(row.row, mapping, holder.key), mapping)
    try:
        here = queries.has(row.source, row.table, own, mapping.source)
    except ColumnDropped:
        return CollisionVerdict.PAST
    if not here:
        return CollisionVerdict.WAITS if here is None else CollisionVerdict.PAST
    others = [one for one in feeders if (one.source, one.table) != (row.source, row.table)]
    if not _is_same_row(row, holder, mapping):  # a collation may treat two rows of one source table as equal
        others = list(feeders)
    answers = {one: _has_holder(one, holder, mapping, queries) for one in others}
    for feeder, has_holder in answers.items():
        if has_holder:
            still = queries.has(row.source, row.table, own, mapping.source)
            return Collides(row, feeder, holder) if still else CollisionVerdict.WAITS
    return CollisionVerdict.UNKNOWN if None in answers.values() else CollisionVerdict.FOREIGN


def _has_holder(feeder: Feeder, holder: KeyHolder, mapping: TableMapping, queries: CollisionQueries) -> bool | None:
    """Return True if a source table has the holder; None if its source cannot be queried.

    A table that lacks a column of the key has no colliding row.
    """
    try:
        return queries.has(feeder.source, feeder.table, holder.identity | holder.values, mapping.target)
    except ColumnDropped:
        return False


def _without_constants(values: KeyValues, mapping: TableMapping) -> KeyValues:
    """Return the values without those of columns that routing adds, which the source's table lacks."""
    return {name: value for name, value in values.items() if mapping.source.column(name).constant is None}


def _is_same_row(row: ContestedRow, holder: KeyHolder, mapping: TableMapping) -> bool:
    """Return True if the holder has the identity of the waiting row, as far as it can be compared."""
    columns = [mapping.target.column(name) for name in holder.identity]
    comparable = all(value_signature(one) == value_signature(mapping.source.column(one.name)) for one in columns)
    mine = [row.row[mapping.source.column(name).position] for name in holder.identity]
    return mine == list(holder.identity.values()) or not comparable


def row_identity(row: Row, mapping: TableMapping) -> KeyValues:
    """Return the identity values of a row, by the names of their columns."""
    return {mapping.source.columns[position].name: row[position] for position in mapping.key_places}


def values_of(row: Row, mapping: TableMapping, key: Index) -> KeyValues:
    """Return the values of a unique key in a row, by the names of their columns."""
    columns = [mapping.source.column(name) for name in key.columns]
    return {column.name: row[column.position] for column in columns}


def find_holders(
    row: ContestedRow,
    mapping: TableMapping,
    connection: Connection,
    select: Callable[[Connection, bytes], list[TextCells]],
) -> list[KeyHolder]:
    """Query the target for the rows that hold this row's keys. A unique key over an expression is left out."""
    identity = mapping.target.identity
    assert identity is not None
    holders = []
    for key in mapping.target.unique_keys:
        if key.expression:
            continue
        values = values_of(row.row, mapping, key)
        if None in values.values():
            continue
        names = list(dict.fromkeys((*identity.columns, *key.columns)))
        prefixes = {name.lower(): length for name, length in key.parts if length is not None}
        sql = select_rows(mapping.target, names, condition(mapping.source, values, prefixes))
        for cells in select(connection, sql):
            known = dict(zip(names, canonical(mapping.target, names, cells), strict=True))
            holders.append(
                KeyHolder(
                    key, {name: known[name] for name in identity.columns}, {name: known[name] for name in key.columns}
                )
            )
    return holders


def select_rows(table: Table, names: Sequence[str], where: bytes) -> bytes:
    """Return a SELECT of these columns, with the expressions that their codecs need."""
    columns = [table.column(name) for name in names]
    selected = ", ".join(codec_for(table.name, column).select(quote(column.name)) for column in columns)
    return f"SELECT {selected} FROM {table.name.quoted()} WHERE ".encode() + where


def canonical(table: Table, names: Sequence[str], cells: TextCells) -> list[Value]:
    """Return a row of `select_rows` as canonical values."""
    converts = [codec_for(table.name, table.column(name)).from_text for name in names]
    return [
        cell if convert is None or cell is None else convert(cell)
        for convert, cell in zip(converts, cells, strict=True)
    ]


def condition(table: Table, values: KeyValues, prefixes: dict[str, int] | None = None) -> bytes:
    """Return `a = 1 AND b = 'x'` for canonical values of columns of `table`."""
    parts = []
    for name, value in values.items():
        column = table.column(name)
        literal, quoted = codec_for(table.name, column).literal()(value or b""), quote(column.name).encode()
        length = (prefixes or {}).get(name.lower())
        if length is None:
            parts.append(quoted + b" = " + literal)
        else:
            parts.append(b"LEFT(%b, %d) = LEFT(%b, %d)" % (quoted, length, literal, length))
    return b" AND ".join(parts)


def shown_values(values: Iterable[Value]) -> tuple[str, ...]:
    """Return the values of a key for messages, cut short."""
    texts = ((value or b"").decode("utf-8", "backslashreplace") for value in values)
    plain = ("".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in text) for text in texts)
    return tuple(text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…" for text in plain)
