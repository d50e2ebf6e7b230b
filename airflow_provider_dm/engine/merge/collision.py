"""Determines whether a waiting row can still get its key, by querying the sources.

The key of a waiting row is held by another row of the target, the holder. If the source table of the waiting row still
has that row, and another source table has the holder, the target cannot have both: that is a collision, and a user
decides. If only one of the two still exists, the other one is a past state, which its own log will change. If no source
table has the holder, either a log that is not applied yet deletes it, or it is a foreign row.

Sources are queried one after the other, while rows may move. So the waiting row is queried twice, before and after the
holder, and the result has to be confirmed some time later (`contests`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from airflow_provider_dm.engine.downstream.contested_row import ContestedRow
from airflow_provider_dm.engine.downstream.table_schema import Feeder
from airflow_provider_dm.engine.merge.errors import ColumnDropped, RowsCollide
from airflow_provider_dm.engine.merge.servers import ContestServers, KeyHolder, KeyValues, values_of
from airflow_provider_dm.engine.rules.mapping import TableMapping, value_signature
from airflow_provider_dm.engine.schema.codec import Row, Value

LONGEST_VALUE: Final = 60
"""Maximum characters of a key value in a message."""


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
    row: ContestedRow, mapping: TableMapping, feeders: Collection[Feeder], servers: ContestServers
) -> CollisionVerdict | Collides:
    """Return the verdict on a waiting row. `mapping`: the mapping of its source table; `feeders`: all source tables of
    its target."""
    holders = servers.holders(row, mapping)
    if not holders:
        # find_holders cannot query a key over an expression
        may_be_missed = any(key.expression for key in mapping.target.unique_keys)
        return CollisionVerdict.FOREIGN if may_be_missed else CollisionVerdict.WAITS
    verdicts = [_verdict_on_holder(row, one, mapping, feeders, servers) for one in holders]
    collision = next((verdict for verdict in verdicts if isinstance(verdict, Collides)), None)
    return collision or next(verdict for verdict in _PRECEDENCE if verdict in verdicts)


_PRECEDENCE: Final = (CollisionVerdict.PAST, CollisionVerdict.WAITS, CollisionVerdict.UNKNOWN, CollisionVerdict.FOREIGN)
"""Verdicts by precedence, if several rows hold keys of one row."""


def _verdict_on_holder(
    row: ContestedRow, holder: KeyHolder, mapping: TableMapping, feeders: Collection[Feeder], servers: ContestServers
) -> CollisionVerdict | Collides:
    own = _without_constants(row_identity(row.row, mapping) | values_of(row.row, mapping, holder.key), mapping)
    try:
        here = servers.has(row.source, row.table, own, mapping.source)
    except ColumnDropped:
        return CollisionVerdict.PAST
    if not here:
        return CollisionVerdict.WAITS if here is None else CollisionVerdict.PAST
    others = [one for one in feeders if (one.source, one.table) != (row.source, row.table)]
    if not _is_same_row(row, holder, mapping):  # a collation may treat two rows of one source table as equal
        others = list(feeders)
    answers = {one: _has_holder(one, holder, mapping, servers) for one in others}
    for feeder, has_holder in answers.items():
        if has_holder:
            still = servers.has(row.source, row.table, own, mapping.source)
            return Collides(row, feeder, holder) if still else CollisionVerdict.WAITS
    return CollisionVerdict.UNKNOWN if None in answers.values() else CollisionVerdict.FOREIGN


def _has_holder(feeder: Feeder, holder: KeyHolder, mapping: TableMapping, servers: ContestServers) -> bool | None:
    """Return True if a source table has the holder; None if its source cannot be queried.

    A table that lacks a column of the key has no colliding row.
    """
    try:
        return servers.has(feeder.source, feeder.table, holder.identity | holder.values, mapping.target)
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


def shown_values(values: Iterable[Value]) -> tuple[str, ...]:
    """Return the values of a key for messages, cut short."""
    texts = ((value or b"").decode("utf-8", "backslashreplace") for value in values)
    plain = ("".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in text) for text in texts)
    return tuple(text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…" for text in plain)
