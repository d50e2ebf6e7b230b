"""Rows that move while their shards make DDL: which of them are set aside, so that the DDL can be run.

A DDL of a merged table is run when no row waits for its place there: one that waits has the form in front of it. But a
row may have moved from a shard that had made the DDL to one that had not:

    t1 (held)    ALTER        DELETE k (held back)
    t2                        INSERT k (waits: k is t1's in the target)        ALTER

The place becomes free behind the DDL, which waits for the row. So the row of t1 goes out of the way. That is no guess:
what was held back of t1 has been read, and in the end its row is not at that place any more. What t1 has at k is in the
target or waits, never both (engine.merge); from here on it waits, *set aside*: without an image, since the first event
of t1's log at k, which comes with the re-sync, says what becomes of it. The same is done with a row that waits and
goes on itself, so that nobody need make room for it.

Who waits for whom ends: where two rows want one place, and all logs are read up to their ends, either both are there
still, which is a collision that a person has to decide (DM-6027), or one of them has given it up, and is set aside.

Only of rows whose identity is told in front of the DDL as behind it: `keys_stay`.

Values only. Who reads the log, and who writes, is in engine.sync.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.rules.mapping import value_signature
from airflow_provider_dm.engine.schema.codec import Value
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.shard.group import Member, Piece

Values: TypeAlias = Mapping[str, Value]
"""Column name in lower case -> canonical value."""


class Fate(NamedTuple):
    """A row where its shard was held and where its log has been read to: its values in unique keys; None: not there."""

    first: Values | None
    last: Values | None

    def then(self, last: Values | None) -> Fate:
        """Return this fate after one more event."""
        return Fate(self.first, last)


def gives_up(fate: Fate, places: Iterable[Collection[str]]) -> bool:
    """Tell whether a row that was there has given up all of these places: the columns, in lower case, of unique keys.

    >>> gives_up(Fate({"id": b"1"}, None), [("id",)])
    True
    >>> gives_up(Fate({"id": b"1", "u": b"5"}, {"id": b"1", "u": b"6"}), [("u",)])
    True
    >>> gives_up(Fate({"id": b"1", "u": b"5"}, {"id": b"1", "u": b"6"}), [("id",), ("u",)])
    False
    >>> gives_up(Fate(None, None), [("id",)])
    False
    """
    first, last = fate
    if first is None:
        return False  # it was not there: what is at that place in the target is not this shard's
    if last is None:
        return True
    return all(any(name in last and first.get(name) != last[name] for name in columns) for columns in places)


def keys_stay(member: Member, columns: Collection[str]) -> bool:
    """Tell whether no DDL that a shard has made changes what tells rows apart, or which of them exclude each other.

    `columns`: of the target's unique keys, in lower case, those that the shard has.
    """
    return all(_keys(item.table, columns) == _keys(member.base, columns) for item in member.items)


def _keys(table: Table, more: Collection[str]) -> object:
    keys = sorted(table.unique_keys, key=lambda key: key.name)
    names = {name.lower() for key in keys for name in key.columns}.union(more)
    return (
        [(key.name, tuple(name.lower() for name in key.columns), key.prefixes, key.expression) for key in keys],
        {one.name.lower(): (value_signature(one), one.nullable) for one in table.columns if one.name.lower() in names},
    )


def held_pieces(member: Member, here: Location) -> list[Piece]:
    """Return the rows of a shard that are held back so far, form by form. `here`: up to where they were passed over."""
    ends = [*(item.at for item in member.items[1:]), here]
    return [piece for item, until in zip(member.items, ends, strict=True) for piece in item.rows_until(until)]
