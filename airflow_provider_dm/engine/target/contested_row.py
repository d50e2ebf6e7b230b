"""dm_contested_row: rows of merged tables that could not go to their place, since another row holds it.

A row of a source table is in the target or here, never in both. It is put here in the transaction that would have
written it, and changed and removed here by its own log; once the place is free it is moved into the target
(`merge/settling.py`). Rows come and go while others are at work, so who needs to know that a row is here reads the keys
first and then locks those that it is about: nobody but the owner's own transactions adds any.

A row may be here without an image, for its owner's log alone: it is not moved, not looked into, and no DDL waits for
it. The next that its log says of it is an image again, or that it is gone. It is one of two:

    set aside   (`sync/giving_way.py`) its owner's log, as far as it is held back, gives it another image or takes it
                away before anybody needs it
    lost        (`sync/taking_over.py`) another row has taken its place, as the user wishes. Whose it was nobody knows,
                so all owners have lost what they had there, also those who had nothing
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_dm.engine.mysql.connection import Connection, query, text
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.target.identity import SubtaskRef
from airflow_provider_dm.engine.target.row_key import decode_row, encode_row
from airflow_provider_dm.engine.target.row_owner import RowOwner

_TABLE: Final = "dm_contested_row"
_LOST: Final = b"-"
"""In the place of an image, which has four bytes at least. Of what is set aside it is empty."""
_HAS_IMAGE: Final = "LENGTH(image) > 1"
_IS_LOST: Final = "LENGTH(image) = 1"
_OWNER: Final = "task = %s AND source = %s AND table_schema = %s AND table_name = %s"


@dataclass(frozen=True)
class ContestedRow:
    """One row that waits. `row` is in the column order of the source table."""

    id: int
    source: str
    table: TableName
    target: TableName
    key: bytes
    row: Row


@dataclass(frozen=True)
class Waiting:
    """The number of rows of one source table that wait for places in one target table."""

    source: str
    table: TableName
    target: TableName
    rows: int


def contested_keys(connection: Connection, ref: SubtaskRef, target: TableName) -> dict[TableName, set[bytes]]:
    """Return by source table the keys of all rows of this source that wait for a place in `target`. Locks nothing."""
    found: defaultdict[TableName, set[bytes]] = defaultdict(set)
    for schema, table, key in query(
        connection,
        f"SELECT table_schema, table_name, row_key FROM {ref.table(_TABLE)} "
        "WHERE task = %s AND source = %s AND target_schema = %s AND target_name = %s",
        (*ref.key, *target),
    ):
        found[TableName(text(schema), text(table))].add(bytes(key))
    return dict(found)


def lock_contested(connection: Connection, owner: RowOwner, keys: Collection[bytes]) -> set[bytes]:
    """Lock those of `keys` whose rows wait, until the transaction ends, and return them."""
    if not keys:
        return set()
    rows = query(
        connection,
        f"SELECT row_key FROM {owner.ref.table(_TABLE)} WHERE {_OWNER} AND row_key IN ({_marks(keys)}) FOR UPDATE",
        (*_names(owner), *keys),
    )
    return {bytes(key) for (key,) in rows}


def contest(connection: Connection, owner: RowOwner, target: TableName, rows: Iterable[tuple[bytes, Row]]) -> None:
    """Insert rows, by key, that wait from now on."""
    for key, row in rows:
        _insert(connection, owner, target, key, encode_row(row))


def _insert(connection: Connection, owner: RowOwner, target: TableName, key: bytes, image: bytes) -> None:
    query(
        connection,
        f"INSERT INTO {owner.ref.table(_TABLE)} (task, source, table_schema, table_name, target_schema, "
        "target_name, row_key, image, since) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, UTC_TIMESTAMP(6))",
        (*_names(owner), *target, key, image),
    )


def change_contested(connection: Connection, owner: RowOwner, rows: Iterable[tuple[bytes, Row]]) -> None:
    """Replace the images of rows that wait. They wait since when they did: what changes often is looked at, too."""
    for key, row in rows:
        _write_image(connection, owner, key, encode_row(row))


def _write_image(connection: Connection, owner: RowOwner, key: bytes, image: bytes) -> None:
    query(
        connection,
        f"UPDATE {owner.ref.table(_TABLE)} SET image = %s WHERE {_OWNER} AND row_key = %s",
        (image, *_names(owner), key),
    )


def set_aside(connection: Connection, owner: RowOwner, keys: Collection[bytes]) -> tuple[list[bytes], int]:
    """Set those of an owner's rows aside that wait. Return the keys at which none waits, nor is set aside already, and
    how many have been set aside now.
    """
    rows = query(
        connection,
        f"SELECT row_key, {_HAS_IMAGE} FROM {owner.ref.table(_TABLE)} "
        f"WHERE {_OWNER} AND row_key IN ({_marks(keys)}) FOR UPDATE",
        (*_names(owner), *keys),
    )
    known = {bytes(key): bool(has_image) for key, has_image in rows}
    for key, has_image in known.items():
        if has_image:
            _write_image(connection, owner, key, b"")
    return [key for key in keys if key not in known], sum(known.values())


def take_aside(connection: Connection, owner: RowOwner, target: TableName, keys: Iterable[bytes]) -> None:
    """Insert rows that are set aside, which the transaction has taken out of the target."""
    for key in keys:
        _insert(connection, owner, target, key, b"")


def set_aside_of(connection: Connection, ref: SubtaskRef) -> dict[TableName, int]:
    """Count the rows of this source that are set aside, by source table."""
    rows = query(
        connection,
        f"SELECT table_schema, table_name, COUNT(*) FROM {ref.table(_TABLE)} "
        "WHERE task = %s AND source = %s AND LENGTH(image) = 0 GROUP BY 1, 2",
        ref.key,
    )
    return {_name(schema, table): int(count) for schema, table, count in rows}


def lose(connection: Connection, owners: Iterable[RowOwner], target: TableName, key: bytes) -> None:
    """Note that the row at `key` is nobody's of these: in a transaction beside which no other source writes
    (`target/standstill.py`). What waits for that place, or is set aside, goes on doing so."""
    for owner in owners:
        known = query(
            connection,
            f"SELECT 1 FROM {owner.ref.table(_TABLE)} WHERE {_OWNER} AND row_key = %s FOR UPDATE",
            (*_names(owner), key),
        )
        if not known:
            _insert(connection, owner, target, key, _LOST)


def withdraw_without_image(
    connection: Connection, owner: RowOwner, keys: Collection[bytes], *, lost: bool = False
) -> set[bytes]:
    """Remove those of these rows that are here without an image (`lost`: those that are lost). Return their keys."""
    which = _IS_LOST if lost else f"NOT ({_HAS_IMAGE})"
    rows = query(
        connection,
        f"SELECT row_key FROM {owner.ref.table(_TABLE)} WHERE {_OWNER} AND row_key IN ({_marks(keys)}) AND {which}",
        (*_names(owner), *keys),
    )
    found = {bytes(key) for (key,) in rows}
    withdraw(connection, owner, found)
    return found


def lost_rows(connection: Connection, ref: SubtaskRef, target: TableName) -> int:
    """Count what is lost in a target table, of all sources of the task."""
    rows = query(
        connection,
        f"SELECT COUNT(*) FROM {ref.table(_TABLE)} "
        f"WHERE task = %s AND target_schema = %s AND target_name = %s AND {_IS_LOST}",
        (ref.task, *target),
    )
    return int(rows[0][0])


def forget_lost(connection: Connection, ref: SubtaskRef) -> None:
    """Forget what this source has lost, as from here on it takes what stands at its keys for its own."""
    query(connection, f"DELETE FROM {ref.table(_TABLE)} WHERE task = %s AND source = %s AND {_IS_LOST}", ref.key)


def rows_that_wait(connection: Connection, owner: RowOwner) -> int:
    """Count an owner's rows that wait."""
    rows = query(
        connection, f"SELECT COUNT(*) FROM {owner.ref.table(_TABLE)} WHERE {_OWNER} AND {_HAS_IMAGE}", _names(owner)
    )
    return int(rows[0][0])


def withdraw(connection: Connection, owner: RowOwner, keys: Collection[bytes]) -> None:
    """Remove rows that wait, as they are gone."""
    if keys:
        query(
            connection,
            f"DELETE FROM {owner.ref.table(_TABLE)} WHERE {_OWNER} AND row_key IN ({_marks(keys)})",
            (*_names(owner), *keys),
        )


def withdraw_all(connection: Connection, ref: SubtaskRef, tables: Collection[TableName] | None = None) -> None:
    """Remove all rows of these source tables (None: of any) that wait."""
    where = "task = %s AND source = %s"
    for table in [None] if tables is None else tables:
        named = " AND table_schema = %s AND table_name = %s" if table else ""
        query(connection, f"DELETE FROM {ref.table(_TABLE)} WHERE {where}{named}", (*ref.key, *(table or ())))


def lock_rows(connection: Connection, ref: SubtaskRef, ids: Sequence[int]) -> list[ContestedRow]:
    """Lock those of the rows that still wait, until the transaction ends; return them, the oldest first."""
    rows = query(
        connection,
        f"SELECT {_COLUMNS} FROM {ref.table(_TABLE)} WHERE id IN ({_marks(ids)}) AND {_HAS_IMAGE} "
        "ORDER BY id FOR UPDATE",
        tuple(ids),
    )
    return [_row(row) for row in rows]


def remove_rows(connection: Connection, ref: SubtaskRef, ids: Sequence[int]) -> None:
    """Remove rows that are in the target now."""
    query(connection, f"DELETE FROM {ref.table(_TABLE)} WHERE id IN ({_marks(ids)})", tuple(ids))


def ids_behind(connection: Connection, ref: SubtaskRef, behind: int, most: int) -> list[int]:
    """Return the ids of a task's next rows that wait, of all its sources, in order. Locks nothing."""
    rows = query(
        connection,
        f"SELECT id FROM {ref.table(_TABLE)} WHERE task = %s AND id > %s AND {_HAS_IMAGE} ORDER BY id LIMIT %s",
        (ref.task, behind, most),
    )
    return [int(number) for (number,) in rows]


def oldest_rows(
    connection: Connection, ref: SubtaskRef, *, seconds: float, behind: int, most: int
) -> list[ContestedRow]:
    """Return the next rows of a source, by id, that have waited for so long by the target's clock. Locks nothing."""
    rows = query(
        connection,
        f"SELECT {_COLUMNS} FROM {ref.table(_TABLE)} WHERE task = %s AND source = %s AND id > %s "
        f"AND {_HAS_IMAGE} AND since <= UTC_TIMESTAMP(6) - INTERVAL %s SECOND ORDER BY id LIMIT %s",
        (*ref.key, behind, seconds, most),
    )
    return [_row(row) for row in rows]


def rows_for(
    connection: Connection, ref: SubtaskRef, target: TableName, *, behind: int, most: int
) -> list[ContestedRow]:
    """Return the next rows, by id, of all sources of the task that wait for places in a target table. Locks nothing."""
    rows = query(
        connection,
        f"SELECT {_COLUMNS} FROM {ref.table(_TABLE)} "
        f"WHERE task = %s AND target_schema = %s AND target_name = %s AND id > %s AND {_HAS_IMAGE} "
        "ORDER BY id LIMIT %s",
        (ref.task, *target, behind, most),
    )
    return [_row(row) for row in rows]


def waiting(connection: Connection, ref: SubtaskRef) -> list[Waiting]:
    """Count the rows that wait, of all sources of the task."""
    rows = query(
        connection,
        "SELECT source, table_schema, table_name, target_schema, target_name, COUNT(*) "
        f"FROM {ref.table(_TABLE)} WHERE task = %s AND {_HAS_IMAGE} GROUP BY 1, 2, 3, 4, 5",
        (ref.task,),
    )
    return [
        Waiting(text(source), _name(schema, table), _name(to_schema, to_table), int(count))
        for source, schema, table, to_schema, to_table, count in rows
    ]


_COLUMNS: Final = "id, source, table_schema, table_name, target_schema, target_name, row_key, image"


def _row(row: tuple[Any, ...]) -> ContestedRow:
    number, source, schema, table, to_schema, to_table, key, image = row
    return ContestedRow(
        int(number), text(source), _name(schema, table), _name(to_schema, to_table), bytes(key), decode_row(image)
    )


def _name(schema: object, table: object) -> TableName:
    return TableName(text(schema), text(table))


def _names(owner: RowOwner) -> tuple[str, ...]:
    return (*owner.ref.key, *owner.table)


def _marks(values: Collection[object]) -> str:
    return ",".join(["%s"] * len(values))
