"""Rows that are read under a lock, and written by the same transaction: no other writer changes them in between."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Row, Table, and_, insert, select, update

from airflow_provider_dm.engine.meta.clock import db_now
from airflow_provider_dm.engine.meta.database import Database
from airflow_provider_dm.engine.mysql.location import Location


class StorePart:
    """A part of MetaStore: the statements for one kind of row."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def _rows(
        self,
        table: Table,
        *conditions: ColumnElement[bool],
        newest_by: Column[Any] | None = None,
        limit: int | None = None,
    ) -> list[Row[Any]]:
        """Return rows with a further column `now`: the DB's clock while reading. `newest_by`: newest first."""
        return self._database.read(lambda tx: read_rows(tx, table, *conditions, newest_by=newest_by, limit=limit))

    def _row(self, table: Table, key: Mapping[str, str]) -> Row[Any] | None:
        """Return the row of a key, with `now`."""
        rows = self._rows(table, matching(table, key))
        return rows[0] if rows else None


def put(
    connection: Connection,
    table: Table,
    key: Mapping[str, str],
    values: Mapping[str, Any],
    *,
    at_first: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Update columns of the row, or insert it. `at_first`: columns of a new row only.

    Of two concurrent inserts one fails with an IntegrityError, and `Database.write` runs its body again."""
    put_over(connection, table, key, read_for_update(connection, table, key), values, at_first=at_first)


def put_over(
    connection: Connection,
    table: Table,
    key: Mapping[str, str],
    row: Row[Any] | None,
    values: Mapping[str, Any],
    *,
    at_first: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Do the same as `put` after `read_for_update`, whose result is `row`, if the values depend on it."""
    if row is None:
        connection.execute(insert(table).values({**key, **at_first, **values}))
    else:
        connection.execute(update(table).where(matching(table, key)).values(**values))


def read_for_update(connection: Connection, table: Table, key: Mapping[str, str]) -> Row[Any] | None:
    """Return the row of a key, with `now`, locked as by `read_rows`."""
    return next(iter(read_rows(connection, table, matching(table, key), lock=True)), None)


def read_rows(
    connection: Connection,
    table: Table,
    *conditions: ColumnElement[bool],
    newest_by: Column[Any] | None = None,
    limit: int | None = None,
    lock: bool = False,
) -> list[Row[Any]]:
    """Return rows with a further column `now`: the DB's clock while reading. `newest_by`: newest first.

    `lock`: lock them until the transaction ends. SQLite has locked the whole database by BEGIN IMMEDIATE.
    """
    statement = select(table, db_now().label("now")).where(*conditions).limit(limit)
    statement = statement if newest_by is None else statement.order_by(newest_by.desc())
    return list(connection.execute(statement.with_for_update() if lock else statement))


def matching(table: Table, key: Mapping[str, str]) -> ColumnElement[bool]:
    return and_(*(table.c[column] == value for column, value in key.items()))


def to_text(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, default=str)


def from_text(text: str | None) -> dict[str, Any] | None:
    return None if text is None else dict(json.loads(text))


def location_text(location: Location | None) -> str | None:
    return to_text(location.to_json()) if location else None


def location_from(text: str | None) -> Location | None:
    return Location.from_json(json.loads(text)) if text else None
