"""dm_contested_row: rows of merged tables that could not be inserted, since another row has their key.

A row of a source table is either in the target or here, never in both. It is inserted here by the transaction that
would have written it, and changed and removed here by the log of its owner (its source table); when the key is free it
is moved into the target (`merge/settling.py`). Rows appear and disappear concurrently, so a transaction that needs them
reads the keys first and then locks the relevant rows: only the owner's own transactions add any.

A row has no image if its source has changed or deleted it since, and the log of its owner is held
(`merge/contests.py`): it is not moved, not examined, and no DDL waits for it. The next event of the row in the held log
gives it another image or deletes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.meta_rows import OF_TABLE, OF_TARGET, MetaRows, marks_for, name_of
from airflow_provider_dm.engine.downstream.row_key import decode_row, encode_row
from airflow_provider_dm.engine.mysql.connection import Connection, query, text
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.codec import Row

_ROWS: Final = MetaRows("dm_contested_row")
_HAS_IMAGE: Final = "LENGTH(image) > 0"
"""An image has at least four bytes."""


@dataclass(frozen=True)
class RowOwner:
    """A source table whose rows are routed to a merged table."""

    ref: SubtaskRef
    table: TableName

    def __str__(self) -> str:
        return f"{self.ref.source}:{self.table}"


@dataclass(frozen=True)
class ContestedRow:
    """A waiting row. `row` is in the column order of the source table."""

    id: int
    source: str
    table: TableName
    target: TableName
    key: bytes
    row: Row


@dataclass(frozen=True)
class WaitingRows:
    """The number of rows of one source table that wait for a key in one target table.

    `since`: the time from which the oldest has waited, by the target's clock, in seconds since 1970.
    """

    source: str
    table: TableName
    target: TableName
    rows: int
    since: float


def contested_keys(connection: Connection, ref: SubtaskRef, target: TableName) -> dict[TableName, set[bytes]]:
    """Return by source table the keys of all rows of this source that wait for `target`. Locks nothing."""
    found: defaultdict[TableName, set[bytes]] = defaultdict(set)
    for schema, table, key in _ROWS.select(connection, ref, "table_schema, table_name, row_key", OF_TARGET, target):
        found[name_of(schema, table)].add(bytes(key))
    return dict(found)


def lock_contested(connection: Connection, owner: RowOwner, keys: Collection[bytes]) -> set[bytes]:
    """Lock the waiting rows with these keys until the transaction ends, and return their keys."""
    return _waiting_keys(connection, owner, keys, tail="FOR UPDATE")


def contest(connection: Connection, owner: RowOwner, target: TableName, rows: Iterable[tuple[bytes, Row]]) -> None:
    """Insert rows, by key, that wait from now on."""
    columns = "table_schema, table_name, target_schema, target_name, row_key, image"
    values = [(*owner.table, *target, key, encode_row(row)) for key, row in rows]
    _ROWS.put(connection, owner.ref, columns, values, now="since", verb="INSERT")


def change_contested(connection: Connection, owner: RowOwner, rows: Iterable[tuple[bytes, Row]]) -> None:
    """Replace the images of waiting rows. Their time is kept, so that rows that change often are examined too."""
    for key, row in rows:
        where = (*owner.table, key)
        _ROWS.update(connection, owner.ref, "image = %s", (encode_row(row),), f"{OF_TABLE} AND row_key = %s", where)


def forget_image(connection: Connection, ref: SubtaskRef, number: int) -> None:
    """Remove the image of a waiting row, as the next event of the row in its owner's log does not need it."""
    _ROWS.update(connection, ref, "image = ''", (), "id = %s", (number,))


def assign_to_dropped(connection: Connection, ref: SubtaskRef, table: TableName, known_as: TableName) -> None:
    """Assign waiting rows of a source table to a held shard that was dropped (`shard.group.name_of_dropped`).

    Its source cannot be queried for them any more, so they have no image until the held log gives them one.
    """
    _ROWS.update(connection, ref, "table_schema = %s, table_name = %s, image = ''", known_as, OF_TABLE, table)


def withdraw_without_image(connection: Connection, owner: RowOwner, keys: Collection[bytes]) -> set[bytes]:
    """Remove the rows with these keys that have no image. Return their keys."""
    found = _waiting_keys(connection, owner, keys, f"NOT ({_HAS_IMAGE})")
    withdraw(connection, owner, found)
    return found


def forget_without_image(
    connection: Connection, ref: SubtaskRef, of_tables: Callable[[TableName, TableName], bool]
) -> None:
    """Remove the rows of this source without an image that are of such tables (source table, target table)."""
    columns = "id, table_schema, table_name, target_schema, target_name"
    rows = _ROWS.select(connection, ref, columns, f"NOT ({_HAS_IMAGE})")
    if ids := [int(number) for number, *names in rows if of_tables(name_of(*names[:2]), name_of(*names[2:]))]:
        remove_rows(connection, ref, ids)


def waiting_targets(connection: Connection, ref: SubtaskRef) -> set[TableName]:
    """Return the target tables for which rows of this source wait, with an image or without."""
    rows = _ROWS.select(connection, ref, "DISTINCT target_schema, target_name")
    return {name_of(schema, name) for schema, name in rows}


def count_waiting(connection: Connection, owner: RowOwner) -> int:
    """Count an owner's waiting rows."""
    ((count,),) = _ROWS.select(connection, owner.ref, "COUNT(*)", f"{OF_TABLE} AND {_HAS_IMAGE}", owner.table)
    return int(count)


def withdraw(connection: Connection, owner: RowOwner, keys: Collection[bytes]) -> None:
    """Remove waiting rows that no longer exist at their source."""
    if keys:
        where = f"{OF_TABLE} AND row_key IN ({marks_for(keys)})"
        _ROWS.delete(connection, owner.ref, where, (*owner.table, *keys))


def withdraw_all(connection: Connection, ref: SubtaskRef, tables: Collection[TableName] | None = None) -> None:
    """Remove all waiting rows of these source tables (None: of all)."""
    if tables is None:
        _ROWS.delete(connection, ref)
    for table in tables or ():
        _ROWS.delete(connection, ref, OF_TABLE, table)


def lock_rows(connection: Connection, ref: SubtaskRef, ids: Sequence[int]) -> list[ContestedRow]:
    """Lock the rows that still wait until the transaction ends; return them, the oldest first."""
    rows = query(
        connection,
        f"SELECT {_COLUMNS} FROM {ref.table(_ROWS.table)} WHERE id IN ({marks_for(ids)}) AND {_HAS_IMAGE} "
        "ORDER BY id FOR UPDATE",
        tuple(ids),
    )
    return [_row(row) for row in rows]


def remove_rows(connection: Connection, ref: SubtaskRef, ids: Sequence[int]) -> None:
    """Remove rows by their ids."""
    query(connection, f"DELETE FROM {ref.table(_ROWS.table)} WHERE id IN ({marks_for(ids)})", tuple(ids))


def ids_after(connection: Connection, ref: SubtaskRef, after: int, most: int) -> list[int]:
    """Return the ids, above `after`, of a task's next waiting rows of all sources, in order. Locks nothing."""
    rows = query(
        connection,
        f"SELECT id FROM {ref.table(_ROWS.table)} WHERE task = %s AND id > %s AND {_HAS_IMAGE} ORDER BY id LIMIT %s",
        (ref.task, after, most),
    )
    return [int(number) for (number,) in rows]


def oldest_rows(
    connection: Connection, ref: SubtaskRef, *, seconds: float, after: int, most: int
) -> list[ContestedRow]:
    """Return the next rows of a source, by id, that have waited for `seconds` by the target's clock. Locks nothing."""
    where = f"id > %s AND {_HAS_IMAGE} AND since <= UTC_TIMESTAMP(6) - INTERVAL %s SECOND ORDER BY id LIMIT %s"
    return [_row(row) for row in _ROWS.select(connection, ref, _COLUMNS, where, (after, seconds, most))]


def waiting(connection: Connection, ref: SubtaskRef) -> list[WaitingRows]:
    """Count the waiting rows of all sources of the task."""
    rows = query(
        connection,
        "SELECT source, table_schema, table_name, target_schema, target_name, COUNT(*), "
        f"UNIX_TIMESTAMP(MIN(since)) + 0e0 FROM {ref.table(_ROWS.table)} "
        f"WHERE task = %s AND {_HAS_IMAGE} GROUP BY 1, 2, 3, 4, 5",
        (ref.task,),
    )
    return [
        WaitingRows(text(source), name_of(schema, table), name_of(to_schema, to_table), int(count), float(since))
        for source, schema, table, to_schema, to_table, count, since in rows
    ]


_COLUMNS: Final = "id, source, table_schema, table_name, target_schema, target_name, row_key, image"


def _row(row: tuple[Any, ...]) -> ContestedRow:
    number, source, schema, table, to_schema, to_table, key, image = row
    return ContestedRow(
        int(number), text(source), name_of(schema, table), name_of(to_schema, to_table), bytes(key), decode_row(image)
    )


def _waiting_keys(
    connection: Connection, owner: RowOwner, keys: Collection[bytes], which: str = "TRUE", tail: str = ""
) -> set[bytes]:
    if not keys:
        return set()
    where = f"{OF_TABLE} AND row_key IN ({marks_for(keys)}) AND {which}"
    rows = _ROWS.select(connection, owner.ref, "row_key", where, (*owner.table, *keys), tail)
    return {bytes(key) for (key,) in rows}
