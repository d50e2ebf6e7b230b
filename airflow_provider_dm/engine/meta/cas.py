"""Compare-and-set: a write that names the version it has read, and that must have hit exactly one row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Table, and_, insert, select, update

from airflow_provider_dm.engine.errors import DmError, Reaction
from airflow_provider_dm.engine.meta.clock import db_now
from airflow_provider_dm.engine.mysql.location import Location


class LostRace(DmError):
    """Somebody else wrote first. The only repair is to read again and to decide again."""

    what_row: str
    expected: str

    code = "DM-8004"
    reaction = Reaction.RETRY
    what = "{what_row} was changed by somebody else: expected {expected}."
    hint = "Run the same again: it reads what the other one wrote."


def must_hit_one(rowcount: int, row: str, expected: str) -> None:
    """Check that a write has matched one row. Raises LostRace."""
    if rowcount != 1:
        raise LostRace(row, expected)


def put(
    connection: Connection,
    table: Table,
    key: Mapping[str, str],
    values: Mapping[str, Any],
    *,
    at_first: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Set columns of the row, or make it; `version` is counted here. `at_first`: columns of a new row only.

    The row is read under a lock and written against its version. Two first writers meet in an IntegrityError, after
    which `Database.write` runs the body again. Raises LostRace."""
    put_over(connection, table, key, read_for_update(connection, table, key), values, at_first=at_first)


def put_over(
    connection: Connection,
    table: Table,
    key: Mapping[str, str],
    found: Row[Any] | None,
    values: Mapping[str, Any],
    *,
    at_first: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Do the same over the row that the transaction has read, for values that follow from it. Raises LostRace."""
    if found is None:
        connection.execute(insert(table).values({**key, **at_first, **values, "version": 1}))
        return
    statement = update(table).where(matching(table, key), table.c.version == found.version)
    result = connection.execute(statement.values(**values, version=found.version + 1))
    must_hit_one(result.rowcount, f"{table.name} {dict(key)}", f"version {found.version}")


def read_for_update(connection: Connection, table: Table, key: Mapping[str, str]) -> Row[Any] | None:
    """Return the row, locked until the transaction ends (SQLite: the whole database, by BEGIN IMMEDIATE)."""
    return connection.execute(select(table).where(matching(table, key)).with_for_update()).one_or_none()


def read_with_now(connection: Connection, table: Table, *conditions: ColumnElement[bool]) -> list[Row[Any]]:
    """Return rows with a further column `now`: the DB's clock while reading."""
    return list(connection.execute(select(table, db_now().label("now")).where(*conditions)))


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
