"""dm_row_owner: which rows a source table has put into a merged table.

It is kept while that cannot be told by the log: a full load overlaps the log, so what the log says a row was before
need not be what this source table has in the target. Each source table has a number, and records under it; nobody's
records are another one's business, so sources do not wait for each other here. When every source table of the target
table has passed its catch-up, records are removed and the number is given up (`owner_numbers`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from airflow_provider_dm.engine.mysql.connection import Connection, query
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.target.identity import SubtaskRef
from airflow_provider_dm.engine.target.row_key import LONGEST

KEYS: Final = 1_000
"""The keys that one statement names."""


@dataclass(frozen=True)
class RowOwner:
    """A source table of one subtask. `number` 0: which rows are its is not recorded."""

    ref: SubtaskRef
    table: TableName
    number: int = 0

    def __str__(self) -> str:
        return f"{self.ref.source}:{self.table}"

    @property
    def _table(self) -> str:
        return self.ref.table("dm_row_owner")

    def recorded(self, connection: Connection, keys: Collection[bytes]) -> set[bytes]:
        """Return those of `keys` whose rows this owner has put into the target."""
        return _recorded(connection, self._table, [self.number], keys)

    def record(self, connection: Connection, keys: Sequence[bytes]) -> None:
        """Record that the target has these rows now, and that they are this owner's."""
        for some in _pieces(keys):
            rows = ",".join([f"({self.number},x'{key.hex()}')" for key in some])
            query(connection, f"REPLACE INTO {self._table} (owner, row_key) VALUES {rows}")

    def forget(self, connection: Connection, keys: Collection[bytes]) -> None:
        """Remove the records of rows that the target has no more."""
        for some in _pieces(keys):
            query(connection, f"DELETE FROM {self._table} WHERE owner = {self.number} AND row_key IN ({_listed(some)})")


def some_recorded(connection: Connection, ref: SubtaskRef, owner: int, most: int) -> list[bytes]:
    """Return up to `most` keys of an owner whose values are in them (`row_key.key_values`), locked."""
    short = "owner = %s AND LENGTH(row_key) <= %s LIMIT %s FOR UPDATE"
    rows = query(connection, f"SELECT row_key FROM {ref.table('dm_row_owner')} WHERE {short}", (owner, LONGEST, most))
    return [bytes(key) for (key,) in rows]


def is_any_recorded(connection: Connection, ref: SubtaskRef, owner: int) -> bool:
    """Tell whether an owner has a record."""
    return bool(query(connection, f"SELECT 1 FROM {ref.table('dm_row_owner')} WHERE owner = %s LIMIT 1", (owner,)))


def forget_some(connection: Connection, ref: SubtaskRef, owner: int, most: int) -> int:
    """Remove up to `most` records of an owner, whichever; return how many there were."""
    with connection.cursor() as cursor:
        return int(cursor.execute(f"DELETE FROM {ref.table('dm_row_owner')} WHERE owner = %s LIMIT %s", (owner, most)))


def _recorded(connection: Connection, table: str, owners: Collection[int], keys: Collection[bytes]) -> set[bytes]:
    if not owners:
        return set()
    numbers = ",".join(map(str, owners))
    return {
        bytes(key)
        for some in _pieces(keys)
        for (key,) in query(
            connection,
            f"SELECT row_key FROM {table} WHERE owner IN ({numbers}) AND row_key IN ({_listed(some)})",
        )
    }


def _pieces(keys: Collection[bytes]) -> Iterator[list[bytes]]:
    left = iter(keys)
    while some := list(islice(left, KEYS)):
        yield some


def _listed(keys: Collection[bytes]) -> str:
    return ",".join([f"x'{key.hex()}'" for key in keys])
