"""Compare-and-set: a write names the row version that was read, and must change exactly one row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Delete, Row, Table, Update, and_, insert, select, update

from airflow_provider_dm.engine.meta.clock import db_now
from airflow_provider_dm.engine.meta.database import Database
from airflow_provider_dm.engine.meta.errors import LostRace
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
        return self._database.read(lambda tx: read_with_now(tx, table, *conditions, newest_by=newest_by, limit=limit))

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
    """Update columns of the row, or insert it, and increment `version`. `at_first`: columns of a new row only.

    The row is read under a lock and written against its version. Of two concurrent inserts one fails with an
    IntegrityError, and `Database.write` runs its body again. Raises LostRace."""
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
    """Do the same as `put` for a row that the transaction has read, if the values depend on it. Raises LostRace."""
    if row is None:
        connection.execute(insert(table).values({**key, **at_first, **values, "version": 1}))
        return
    changed = update(table).values(**values, version=row.version + 1)
    write_over(connection, table, key, row, changed)


def write_over(
    connection: Connection, table: Table, key: Mapping[str, str], row: Row[Any], statement: Update | Delete
) -> None:
    """Run a statement on the row that was read, if its version has not changed. Raises LostRace."""
    result = connection.execute(statement.where(matching(table, key), table.c.version == row.version))
    if result.rowcount != 1:
        raise LostRace(f"{table.name} {dict(key)}", f"version {row.version}")


def read_for_update(connection: Connection, table: Table, key: Mapping[str, str]) -> Row[Any] | None:
    """Return the row with `now`, locked until the transaction ends (SQLite: the whole database, by BEGIN IMMEDIATE)."""
    statement = select(table, db_now().label("now")).where(matching(table, key))
    return connection.execute(statement.with_for_update()).one_or_none()


def read_with_now(
    connection: Connection,
    table: Table,
    *conditions: ColumnElement[bool],
    newest_by: Column[Any] | None = None,
    limit: int | None = None,
) -> list[Row[Any]]:
    """Return rows with a further column `now`: the DB's clock while reading. `newest_by`: newest first."""
    statement = select(table, db_now().label("now")).where(*conditions).limit(limit)
    return list(connection.execute(statement if newest_by is None else statement.order_by(newest_by.desc())))


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
