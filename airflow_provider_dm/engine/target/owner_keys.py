"""dm_owner_key: of which columns of the target the keys in dm_row_owner are, by the number of their owner.

Records are values of the key that told the target's rows apart when they were made. By another key they would name
other rows, of other owners; so whoever reads records holds this against the key as it is now (merge/recorded_key.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_dm.engine.mysql.connection import Connection, query, text
from airflow_provider_dm.engine.target.identity import SubtaskRef

_TABLE = "dm_owner_key"


def save_owner_keys(connection: Connection, ref: SubtaskRef, keys: Mapping[int, str]) -> None:
    """Note the keys of these numbers, whose rows are recorded by them from here on."""
    for number, key in keys.items():
        query(connection, f"REPLACE INTO {ref.table(_TABLE)} (number, identity) VALUES (%s, %s)", (number, key))


def noted_key(connection: Connection, ref: SubtaskRef, number: int) -> str | None:
    """Return the key by which the rows of an owner are recorded; None: the number was removed."""
    rows = query(connection, f"SELECT identity FROM {ref.table(_TABLE)} WHERE number = %s", (number,))
    return text(rows[0][0]) if rows else None


def forget_owner_keys(connection: Connection, ref: SubtaskRef, where: str, values: tuple[str, ...]) -> None:
    """Remove the keys of those numbers in dm_owner that `where` finds, before these."""
    numbers = f"SELECT ABS(number) FROM {ref.table('dm_owner')} WHERE {where}"
    query(connection, f"DELETE FROM {ref.table(_TABLE)} WHERE number IN ({numbers})", values)
