"""Writing the rows of one owner into a merged table, inside the transaction that moves its frontier or its chunk.

Three states tell what has to be done with a row, and each is found out in a way of its own:

    exact      the log says what was there: what it deletes or changes waits, or is in the target and must be found
    catch-up   the log overlaps the copy: dm_row_owner says which rows are this owner's; all others are let alone
    copy       rows come from the source's tables: what is not there yet is inserted

An INSERT that meets another row is bisected down to the rows that do: the server undoes only the statement. During copy
and catch-up the other row may be this owner's own, of another moment (a value was handed over between two pages). Then
it goes: the change that took the value away is still ahead in the log and brings what is right (`_evict`). It is what
REPLACE does where a table has one owner, confined to that owner's rows.

Example, catch-up of `b` in a table with the key k: the log deletes 2 and writes 3. dm_row_owner has 3 for `b`, not 2.
Row 2 in the target is another's, or not there, so nothing happens to it; row 3 is deleted, inserted as it is now,
recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from airflow_provider_dm.engine.errors import DmError, InvariantBroken, Reaction, Scope
from airflow_provider_dm.engine.merge.recorded_key import check_recorded_key
from airflow_provider_dm.engine.mysql.connection import Connection, query
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import quote
from airflow_provider_dm.engine.mysql.literals import NULL
from airflow_provider_dm.engine.reading.text_rows import Cells, rows
from airflow_provider_dm.engine.rules.mapping import TableMapping, value_signature
from airflow_provider_dm.engine.schema.codec import Row, codec_for
from airflow_provider_dm.engine.schema.model import Index
from airflow_provider_dm.engine.target.contested_row import (
    change_contested,
    contest,
    lock_contested,
    rows_that_wait,
    withdraw,
    withdraw_without_image,
)
from airflow_provider_dm.engine.target.errors import DuplicateInTarget
from airflow_provider_dm.engine.target.row_key import row_key
from airflow_provider_dm.engine.target.row_owner import RowOwner
from airflow_provider_dm.engine.target.session import count, execute
from airflow_provider_dm.engine.target.statements import (
    Dialect,
    Literals,
    Statement,
    Verb,
    count_rows,
    delete_rows,
    write_rows,
)

ROWS_OF_A_STATEMENT: Final = 1_000
MOST_WHILE_COPYING: Final = 1_000
MOST_WHILE_SYNCING: Final = 10_000
"""Rows of one owner that may wait for their places in one table. Shards that move rows to each other stay far below."""


class TooManyContested(DmError):
    """Rows that find their places taken, so many that something else than moving rows must be going on."""

    source: str
    table: str
    target: str
    most: int

    code = "DM-6023"
    scope = Scope.UPSTREAM
    reaction = Reaction.RETRY
    what = (
        "{source}: more than {most} rows of {table} have a key that a row of another table has in {target}, and wait "
        "for it to go."
    )
    hint = (
        "If rows were moved between the tables, let the other sources catch up first. If the tables share keys, make "
        "the keys distinct, or route to different tables."
    )


def _select(connection: Connection, sql: bytes) -> list[Cells]:
    return [row for batch in rows(connection, sql) for row in batch.rows]


@dataclass(frozen=True)
class Access:
    """The way in which statements reach the target. The model test has another one, over SQLite."""

    dialect: Dialect
    execute: Callable[[Connection, Statement], int] = execute
    count: Callable[[Connection, Statement], int] = count
    select: Callable[[Connection, bytes], list[Cells]] = _select
    """Rows of a SELECT, cells as the server sends them."""

    def delete_rows(self, connection: Connection, mapping: TableMapping, keys: Iterable[Literals]) -> int:
        """Delete rows by identity key. Return how many there were."""
        return sum(self.execute(connection, one) for one in delete_rows(mapping, keys, dialect=self.dialect))

    def count_rows(self, connection: Connection, mapping: TableMapping, keys: Iterable[Literals]) -> int:
        """Lock the rows with these identity keys, and return how many there are."""
        return sum(self.count(connection, one) for one in count_rows(mapping, keys, dialect=self.dialect))

    def write_rows(self, connection: Connection, mapping: TableMapping, rows: Iterable[Literals], verb: Verb) -> int:
        """Write rows. Return how many were affected, as `verb` counts them."""
        return sum(self.execute(connection, one) for one in write_rows(mapping, rows, verb, dialect=self.dialect))


@dataclass(frozen=True)
class Rows:
    """Rows of one owner in the column order of its writer's mapping: as values, as literals, and their keys."""

    values: Sequence[Row]
    literals: Sequence[Literals]
    keys: Sequence[bytes]

    def where(self, keep: Callable[[bytes], bool]) -> Rows:
        """Return those whose key `keep` wants."""
        return self.pick([number for number, key in enumerate(self.keys) if keep(key)])

    def pick(self, numbers: Sequence[int]) -> Rows:
        return Rows(
            [self.values[number] for number in numbers],
            [self.literals[number] for number in numbers],
            [self.keys[number] for number in numbers],
        )


@dataclass(frozen=True)
class OwnerWriter:
    """One owner in one target table."""

    owner: RowOwner
    mapping: TableMapping
    """Rows are in the column order of `mapping.source`, which is the owner's table or one of the same types."""
    access: Access
    most: int
    own_order: tuple[int, ...] | None = None
    """Where the owner's own columns stand in these rows; None: in the same order."""

    # Identity

    @cached_property
    def key(self) -> tuple[int, ...]:
        """The positions of a row's identity values."""
        return self.mapping.key_places

    def check_key(self, connection: Connection) -> None:
        """Check that records of the owner are by this key. Raises RecordedKeyChanged."""
        if self.owner.number:
            check_recorded_key(connection, self.owner, self.mapping.target)

    def key_literals(self, found: Rows) -> list[Literals]:
        key = self.key
        return [tuple([row[position] for position in key]) for row in found.literals]

    def key_of(self, row: Row) -> bytes:
        return row_key([row[position] or b"" for position in self.key])  # columns of an identity key are not null

    def rows(self, values: Sequence[Row], literals: Sequence[Literals]) -> Rows:
        return Rows(values, literals, list(map(self.key_of, values)))

    # Exact

    def withdraw(self, connection: Connection, waiting: Collection[bytes], gone: Rows) -> Rows:
        """Withdraw rows that vanish: those that wait need nothing but to be forgotten. Return the others."""
        here = self._locked(connection, waiting, gone.keys)
        withdraw(connection, self.owner, here)
        return gone.where(lambda key: key not in here) if here else gone

    def change(self, connection: Connection, waiting: Collection[bytes], changed: Rows) -> tuple[Rows, Rows]:
        """Change rows that have a new image: those that wait go on waiting with it. Return those that are in the
        target, and those that had no image and are to be inserted now."""
        here = self._locked(connection, waiting, changed.keys)
        if not here:
            return changed, changed.pick(())
        again = withdraw_without_image(connection, self.owner, here)
        change_contested(connection, self.owner, self._images(changed.where((here - again).__contains__)))
        return changed.where(lambda key: key not in here), changed.where(again.__contains__)

    def insert_new(self, connection: Connection, waiting: Collection[bytes], new: Rows) -> int:
        """Insert rows that were not there. Return how many of them have to wait.

        Raises InvariantBroken where one of them waits already, and TooManyContested.
        """
        if self._locked(connection, waiting, new.keys):
            raise InvariantBroken(
                f"a row that {self.owner} inserts was not there before", f"one that waits for a place in {self.target}"
            )
        return self.insert(connection, waiting, new)

    def insert(self, connection: Connection, waiting: Collection[bytes], new: Rows, *, evict: bool = False) -> int:
        """Insert rows that are neither in the target nor wait. Return how many of them have to wait. `evict`: rows of
        this owner that hold their places go.

        Raises TooManyContested.
        """
        taken = self.place(connection, new, evict=evict)
        if taken:
            most = self.most - len(taken)
            if len(waiting) > most and rows_that_wait(connection, self.owner) > most:
                raise TooManyContested(self.owner.ref.source, str(self.owner.table), str(self.target), self.most)
            contest(connection, self.owner, self.mapping.target.name, self._images(new.pick(taken)))
        if self.owner.number:
            left_out = set(taken)
            placed = [key for number, key in enumerate(new.keys) if number not in left_out] if taken else new.keys
            self.owner.record(connection, placed)
        return len(taken)

    # Catch-up and copy

    def clear(self, connection: Connection, waiting: Collection[bytes], gone: Rows, written: Rows) -> Rows:
        """Make room: what this owner has at these keys goes. Return the rows of `written` that have to be inserted; the
        others wait, and have their new images. Raises RecordedKeyChanged.
        """
        self.check_key(connection)
        keys = {*gone.keys, *written.keys}
        here = self._locked(connection, waiting, keys)
        withdraw(connection, self.owner, here.intersection(gone.keys))
        change_contested(connection, self.owner, self._images(written.where(here.__contains__)))
        mine = self.owner.recorded(connection, keys - here)
        literals = self._literals_by_key(gone) | self._literals_by_key(written)
        doomed = {key: literals[key] for key in mine}
        self.access.delete_rows(connection, self.mapping, doomed.values())
        self.owner.forget(connection, mine)
        return written.where(lambda key: key not in here)

    def put(self, connection: Connection, waiting: Collection[bytes], written: Rows) -> int:
        """Insert what `clear` gave, and record it. Return how many rows have to wait. Raises TooManyContested."""
        return self.insert(connection, waiting, written, evict=True)

    def copy(self, connection: Connection, waiting: Collection[bytes], copied: Rows) -> int:
        """Insert rows as a page of the copy has found them. Return how many have to wait. Raises TooManyContested and
        RecordedKeyChanged.

        A key comes once, unless the target has another key than the source.
        """
        self.check_key(connection)
        here = self._locked(connection, waiting, copied.keys)
        change_contested(connection, self.owner, self._images(copied.where(here.__contains__)))
        return self.put(connection, waiting, copied.where(lambda key: key not in here) if here else copied)

    # Placing

    @property
    def target(self) -> object:
        return self.mapping.target.name

    def place(self, connection: Connection, new: Rows, *, evict: bool) -> list[int]:
        """Insert what finds its place. Return the numbers of the others."""
        taken: list[int] = []

        def insert(numbers: Sequence[int], *, evict: bool) -> None:
            literals = [new.literals[number] for number in numbers]
            at = 0
            statements = write_rows(
                self.mapping, literals, Verb.INSERT, dialect=self.access.dialect, max_rows=ROWS_OF_A_STATEMENT
            )
            for statement in statements:
                some = numbers[at : at + statement.rows]
                at += statement.rows
                several = statement.computing is not None  # it may be run as several (`session.execute`)
                if several:
                    query(connection, "SAVEPOINT dm_placing")
                try:
                    self.access.execute(connection, statement)
                except DuplicateInTarget:
                    if several:
                        query(connection, "ROLLBACK TO SAVEPOINT dm_placing")
                    if evict and self._evict(connection, new.pick(some)):
                        insert(some, evict=False)
                    elif len(some) == 1:
                        taken.append(some[0])
                    else:
                        half = len(some) // 2
                        insert(some[:half], evict=False)
                        insert(some[half:], evict=False)

        insert(range(len(new.keys)), evict=evict)
        return taken

    def _evict(self, connection: Connection, new: Rows) -> bool:
        """Delete those rows of this owner that hold a place of `new`. Tell whether there were any."""
        same = self._literals_by_key(new)
        others = self._holders(connection, new)
        mine = self.owner.recorded(connection, same.keys() | others.keys())
        doomed = {key: literals for key, literals in (same | others).items() if key in mine}
        self.access.delete_rows(connection, self.mapping, doomed.values())
        self.owner.forget(connection, mine)
        return bool(doomed)

    def _holders(self, connection: Connection, new: Rows) -> dict[bytes, Literals]:
        """Lock the rows in the target that have a further unique value of one of `new`; return their keys."""
        found: dict[bytes, Literals] = {}
        for index in self.mapping.target.unique_keys:
            places = unique_positions(self.mapping, index)
            if places is not None and places != self.key:
                values = {tuple([row[place] for place in places]) for row in new.literals}
                found |= self._standing_at(connection, index, [value for value in values if NULL not in value])
        return found

    def _standing_at(self, connection: Connection, index: Index, values: Sequence[Literals]) -> dict[bytes, Literals]:
        """Lock the rows in the target with these values of a unique key until the transaction ends; return their keys.

        Nothing where a key that is read there may look other than the one that was written.
        """
        if self._identity_reader is None or not values:
            return {}
        select, read = self._identity_reader
        columns = ",".join(quote(name) for name in index.columns)
        listed = b",".join([b"(" + b",".join(value) + b")" for value in values])
        sql = f"{select} WHERE ({columns}) IN (".encode() + listed + b") FOR UPDATE"
        return dict(map(read, self.access.select(connection, sql)))

    @cached_property
    def _identity_reader(self) -> tuple[str, Callable[[Cells], tuple[bytes, Literals]]] | None:
        """The head of a SELECT of identity keys of the target, and what to make of its rows; None where a key that is
        read there may look other than the one that was written."""
        return identity_reader(self.mapping, self.access.dialect.server.flavour)

    # Helpers

    def _literals_by_key(self, found: Rows) -> dict[bytes, Literals]:
        return dict(zip(found.keys, self.key_literals(found), strict=True))

    def _locked(self, connection: Connection, waiting: Collection[bytes], keys: Collection[bytes]) -> set[bytes]:
        if not waiting:
            return set()
        return lock_contested(connection, self.owner, [key for key in keys if key in waiting])

    def _images(self, found: Rows) -> Iterator[tuple[bytes, Row]]:
        order, pairs = self.own_order, zip(found.keys, found.values, strict=True)
        if order is None:
            return pairs
        return ((key, tuple([row[place] for place in order])) for key, row in pairs)

    def unrecorded(self) -> OwnerWriter:
        """Return this writer without a look at dm_row_owner: where the log is exact and nobody else needs to know."""
        return replace(self, owner=replace(self.owner, number=0)) if self.owner.number else self


def unique_positions(mapping: TableMapping, index: Index) -> tuple[int, ...] | None:
    """Return where a unique key's values of the target stand in a source row. None: they are not whole columns."""
    ours = mapping.source.by_name
    if index.expression or any(index.prefixes) or any(name.lower() not in ours for name in index.columns):
        return None
    return tuple(ours[name.lower()].position for name in index.columns)


def identity_reader(
    mapping: TableMapping, target: Flavour
) -> tuple[str, Callable[[Cells], tuple[bytes, Literals]]] | None:
    """Return `SELECT … FROM …` of the identity keys of the target's rows, and the function from such a row to the key,
    as `row_key` has it and as literals. None where the two servers may show one value in two ways.
    """
    identity = mapping.target.identity
    assert identity is not None
    columns = [mapping.target.column(name) for name in identity.columns]
    if any(value_signature(one) != value_signature(mapping.source.column(one.name)) for one in columns):
        return None
    codecs = [codec_for(mapping.target.name, column) for column in columns]
    selected = ", ".join(codec.select(quote(column.name)) for codec, column in zip(codecs, columns, strict=True))
    converts = [codec.from_text or bytes for codec in codecs]
    literals = [codec.literal(target) for codec in codecs]

    def read(cells: Cells) -> tuple[bytes, Literals]:
        values = [convert(cell or b"") for convert, cell in zip(converts, cells, strict=True)]
        return row_key(values), tuple([literal(value) for literal, value in zip(literals, values, strict=True)])

    return f"SELECT {selected} FROM {mapping.target.name.quoted()}", read
