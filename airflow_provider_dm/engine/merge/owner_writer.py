"""Writes the rows of one owner into a merged table, inside the transaction that moves its frontier or its chunk.

Each row of an owner is in the target, or waits in dm_contested_row. So a row that its log deletes or changes is in one
of the two, and a row that its log or a page of its load inserts is in neither. An INSERT that fails with
a duplicate key is bisected down to the colliding rows (the server undoes only the statement), and these rows wait.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider_dm.engine.downstream.contested_row import (
    RowOwner,
    change_contested,
    contest,
    count_waiting,
    lock_contested,
    withdraw,
    withdraw_without_image,
)
from airflow_provider_dm.engine.downstream.errors import DuplicateInTarget
from airflow_provider_dm.engine.downstream.row_key import row_key
from airflow_provider_dm.engine.downstream.row_statements import (
    Dialect,
    Literals,
    SqlStatement,
    Verb,
    count_rows,
    delete_rows,
    write_rows,
)
from airflow_provider_dm.engine.downstream.session import count, execute
from airflow_provider_dm.engine.errors import InvariantBroken
from airflow_provider_dm.engine.merge.errors import TooManyContested
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.reading.text_rows import TextCells, rows
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.model import Index

MOST_WHILE_COPYING: Final = 1_000
MOST_WHILE_SYNCING: Final = 10_000
"""Maximum waiting rows of one owner in one table. Shards that exchange rows have far fewer."""


def _select(connection: Connection, sql: bytes) -> list[TextCells]:
    return [row for batch in rows(connection, sql) for row in batch.rows]


@dataclass(frozen=True)
class TargetAccess:
    """The functions that execute statements in the target. The model test replaces them with functions over SQLite."""

    dialect: Dialect
    execute: Callable[[Connection, SqlStatement], int] = execute
    count: Callable[[Connection, SqlStatement], int] = count
    select: Callable[[Connection, bytes], list[TextCells]] = _select
    """Returns the rows of a SELECT, with cells as the server sends them."""

    def delete_rows(self, connection: Connection, mapping: TableMapping, keys: Iterable[Literals]) -> int:
        """Delete rows by identity key. Return how many existed."""
        return sum(self.execute(connection, row) for row in delete_rows(mapping, keys, dialect=self.dialect))

    def count_rows(self, connection: Connection, mapping: TableMapping, keys: Iterable[Literals]) -> int:
        """Lock the rows with these identity keys, and return how many exist."""
        return sum(self.count(connection, row) for row in count_rows(mapping, keys, dialect=self.dialect))

    def write_rows(self, connection: Connection, mapping: TableMapping, rows: Iterable[Literals], verb: Verb) -> int:
        """Write rows. Return the number of affected rows, as the server counts them for `verb`."""
        return sum(self.execute(connection, row) for row in write_rows(mapping, rows, verb, dialect=self.dialect))


@dataclass(frozen=True)
class OwnerRows:
    """Rows of one owner, in the column order of its writer's mapping: their values, literals and keys."""

    values: Sequence[Row]
    literals: Sequence[Literals]
    keys: Sequence[bytes]

    def where(self, keep: Callable[[bytes], bool]) -> OwnerRows:
        """Return the rows whose key `keep` accepts."""
        return self.pick([number for number, key in enumerate(self.keys) if keep(key)])

    def pick(self, numbers: Sequence[int]) -> OwnerRows:
        return OwnerRows(
            [self.values[number] for number in numbers],
            [self.literals[number] for number in numbers],
            [self.keys[number] for number in numbers],
        )


@dataclass(frozen=True)
class OwnerWriter:
    """One owner in one target table."""

    owner: RowOwner
    mapping: TableMapping
    """Rows are in the column order of `mapping.source`, which is the owner's table or one with the same types."""
    access: TargetAccess
    most_waiting: int
    own_order: tuple[int, ...] | None = None
    """The positions of the owner's own columns in these rows; None: in the same order."""

    def key_literals(self, rows: OwnerRows) -> list[Literals]:
        places = self.mapping.key_places
        return [tuple([row[place] for place in places]) for row in rows.literals]

    def rows(self, values: Sequence[Row], literals: Sequence[Literals]) -> OwnerRows:
        places = self.mapping.key_places
        keys = [row_key([row[place] or b"" for place in places]) for row in values]  # an identity key has no NULL
        return OwnerRows(values, literals, keys)

    def withdraw(self, connection: Connection, waiting: Collection[bytes], rows: OwnerRows) -> OwnerRows:
        """Delete the waiting ones of these rows from dm_contested_row. Return the others, to delete in the target."""
        here = self._locked(connection, waiting, rows.keys)
        withdraw(connection, self.owner, here)
        return rows.where(lambda key: key not in here) if here else rows

    def change(
        self, connection: Connection, waiting: Collection[bytes], changed: OwnerRows
    ) -> tuple[OwnerRows, OwnerRows]:
        """Give waiting rows their new images. Return the rows to change in the target, and those to insert there: rows
        that waited without an image."""
        here = self._locked(connection, waiting, changed.keys)
        if not here:
            return changed, changed.pick(())
        again = withdraw_without_image(connection, self.owner, here)
        change_contested(connection, self.owner, self._images(changed.where((here - again).__contains__)))
        return changed.where(lambda key: key not in here), changed.where(again.__contains__)

    def insert_new(self, connection: Connection, waiting: Collection[bytes], new: OwnerRows) -> int:
        """Insert new rows. Return how many of them have to wait.

        Raises InvariantBroken if one of them waits already, and TooManyContested.
        """
        if self._locked(connection, waiting, new.keys):
            raise InvariantBroken(
                f"a row that {self.owner} inserts is new", f"it waits already, for {self.mapping.target.name}"
            )
        return self.insert(connection, waiting, new)

    def insert(self, connection: Connection, waiting: Collection[bytes], new: OwnerRows) -> int:
        """Insert rows that are neither in the target nor wait. Return how many of them have to wait.

        Raises TooManyContested.
        """
        taken, owner, target = self.insert_if_free(connection, new), self.owner, self.mapping.target.name
        if taken:
            free = self.most_waiting - len(taken)
            if len(waiting) > free and count_waiting(connection, owner) > free:
                raise TooManyContested(owner.ref.source, str(owner.table), str(target), self.most_waiting)
            contest(connection, owner, target, self._images(new.pick(taken)))
        return len(taken)

    def insert_if_free(self, connection: Connection, new: OwnerRows) -> list[int]:
        """Insert the rows whose keys are free. Return the indices of the other rows."""
        taken: list[int] = []

        def insert(numbers: Sequence[int]) -> None:
            literals = [new.literals[number] for number in numbers]
            at = 0
            for statement in write_rows(self.mapping, literals, Verb.INSERT, dialect=self.access.dialect):
                some = numbers[at : at + statement.rows]
                at += statement.rows
                try:
                    self.access.execute(connection, statement)
                except DuplicateInTarget:
                    if len(some) == 1:
                        taken.append(some[0])
                    else:
                        half = len(some) // 2
                        insert(some[:half])
                        insert(some[half:])

        insert(range(len(new.keys)))
        return taken

    def _locked(self, connection: Connection, waiting: Collection[bytes], keys: Collection[bytes]) -> set[bytes]:
        if not waiting:
            return set()
        return lock_contested(connection, self.owner, [key for key in keys if key in waiting])

    def _images(self, rows: OwnerRows) -> Iterator[tuple[bytes, Row]]:
        order, pairs = self.own_order, zip(rows.keys, rows.values, strict=True)
        if order is None:
            return pairs
        return ((key, tuple([row[place] for place in order])) for key, row in pairs)


def unique_positions(mapping: TableMapping, index: Index) -> tuple[int, ...] | None:
    """Return the positions of a unique key's values in a source row; None if it has other parts than whole columns."""
    ours = mapping.source.by_name
    if index.expression or any(index.prefixes) or any(name.lower() not in ours for name in index.columns):
        return None
    return tuple(ours[name.lower()].position for name in index.columns)
