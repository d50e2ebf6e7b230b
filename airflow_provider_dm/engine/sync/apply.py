"""One wave of an epoch onto the target: batches of buckets, each one transaction behind the frontier.

The transaction's first statement is the frontier's (target/frontier.py); then, per table, deletes before writes. In
exact mode every count is checked: a row that should be there and is not means that somebody else writes to the target
or that the log does not belong to it, and stops the task instead of being written over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, wait
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import ClassVar

from airflow_provider_dm.engine.errors import DmError, Scope
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Flavour
from airflow_provider_dm.engine.schema.codec import Row, codec_for, row_literals
from airflow_provider_dm.engine.sync.causality import TableWork, Wave
from airflow_provider_dm.engine.sync.plan import SyncPlan, TargetPart
from airflow_provider_dm.engine.target.frontier import Act, Step, Transactions, fenced_transaction
from airflow_provider_dm.engine.target.session import count, execute, run_transaction, target_dialect
from airflow_provider_dm.engine.target.statements import (
    Dialect,
    Literals,
    Statement,
    Verb,
    count_rows,
    delete_image,
    delete_rows,
    write_rows,
)

BATCH_ROWS = 1_000
"""A transaction takes whole buckets until it has so many rows."""


@dataclass(eq=False)
class MissingRow(DmError):
    """The log changes or deletes rows that the target does not have. Key values are left out on purpose."""

    table: str
    operation: str
    expected: int
    found: int
    lo: str
    hi: str

    code: ClassVar[str] = "DM-6021"
    scope: ClassVar[Scope] = Scope.DOWNSTREAM
    what: ClassVar[str] = (
        "{operation} on {table} should have met {expected} rows and met {found} (log from {lo} to {hi}). "
        "The transaction was rolled back."
    )
    hint: ClassVar[str] = "Somebody else changes the target's rows, or they were never copied: run verify to see which."


@dataclass(frozen=True)
class Target:
    """How transactions and statements reach the target. The model test has another one, over SQLite."""

    transactions: Transactions
    execute: Callable[[Connection, Statement], int]
    count: Callable[[Connection, Statement], int]
    dialect: Callable[[], Dialect]

    @classmethod
    def at(cls, endpoint: Endpoint) -> Target:
        """The real one: the calling thread's connection to `endpoint`."""
        return cls(partial(run_transaction, endpoint), execute, count, partial(target_dialect, endpoint))


@dataclass(frozen=True)
class WaveWriter:
    """Writes the waves of one epoch. `pool` runs batches side by side; None: one after another."""

    plan: SyncPlan
    target: Target
    step: Step
    catch_up: bool
    pool: Executor | None = None

    def release(self, wave: Wave) -> None:
        """Wave 1: only buckets that have something to delete. Raises the errors of `fenced_transaction`, MissingRow."""
        self._write(wave, sorted(wave), Act.RELEASE)

    def advance(self, wave: Wave, buckets: Sequence[int]) -> None:
        """Wave 2, for all of `buckets`, as each of them moves on even if it has no rows."""
        self._write(wave, buckets, Act.ADVANCE)

    def _write(self, wave: Wave, buckets: Sequence[int], act: Act) -> None:
        batches = list(_batches(wave, buckets))
        if self.pool is None or len(batches) == 1:
            for batch in batches:
                self._write_batch(wave, batch, act)
        else:
            # All of them end before this does, also when one fails: what is still running is not left behind.
            writes = [self.pool.submit(self._write_batch, wave, batch, act) for batch in batches]
            wait(writes)
            for write in writes:
                write.result()

    def _write_batch(self, wave: Wave, batch: Sequence[int], act: Act) -> None:
        try:
            self._transaction(wave, batch, act, careful=False)
        except _CountsDiffer:
            # Rolled back. Once more, now asking which rows are there before they are written over.
            self._transaction(wave, batch, act, careful=True)

    def _transaction(self, wave: Wave, batch: Sequence[int], act: Act, *, careful: bool) -> None:
        # Made before the transaction begins, so that locks are held for writing only.
        ready = self._table_writes(wave, batch)

        def body(connection: Connection, buckets: Sequence[int]) -> None:
            for writes in ready if len(buckets) == len(batch) else self._table_writes(wave, buckets):
                self._run(connection, writes, careful=careful)

        fenced_transaction(self.target.transactions, self.step, act, batch, body)

    def _table_writes(self, wave: Wave, buckets: Iterable[int]) -> list[_TableWrites]:
        merged: dict[int, list[TableWork]] = {}
        for bucket in buckets:
            for table, work in wave.get(bucket, {}).items():
                merged.setdefault(table, []).append(work)
        dialect = self.target.dialect()
        return [_TableWrites.of(self.plan.targets[table], works, dialect) for table, works in merged.items()]

    def _run(self, connection: Connection, writes: _TableWrites, *, careful: bool) -> None:
        strict = not self.catch_up or writes.part.key is None
        if strict and careful:
            for statement in writes.present():
                self._check(writes.part, statement, self.target.count(connection, statement), statement.rows)
        for statement in writes.statements:
            affected = self.target.execute(connection, statement)
            if strict and statement.verb is Verb.DELETE:
                self._check(writes.part, statement, affected, statement.rows)
            elif strict and statement.verb is Verb.UPSERT and affected != 2 * statement.rows and not careful:
                raise _CountsDiffer

    def _check(self, part: TargetPart, statement: Statement, found: int, expected: int) -> None:
        if found != expected:
            operation = "DELETE" if statement.verb is Verb.DELETE else "UPDATE"
            raise MissingRow(str(part.name), operation, expected, found, self.step.lo, self.step.hi)


@dataclass(frozen=True)
class _TableWrites:
    """What one transaction does to one table, as SQL."""

    part: TargetPart
    statements: tuple[Statement, ...]
    changed: tuple[Row, ...]
    key: Callable[[Row], Literals]

    @classmethod
    def of(cls, part: TargetPart, works: Sequence[TableWork], dialect: Dialect) -> _TableWrites:
        mapping, sql = part.mapping, _row_sql(part, dialect.flavour)
        deleted = (sql.key(row) for work in works for row in work.delete)
        removed = ((sql.row(image), count) for work in works for image, count in work.remove)
        rows = {
            Verb.INSERT: (sql.row(row) for work in works for row in work.insert),
            Verb.UPSERT: (sql.row(row) for work in works for row in work.change),
            Verb.REPLACE: (sql.row(row) for work in works for row in work.replace),
        }
        statements = (
            *(delete_rows(mapping, deleted) if part.key is not None else ()),
            *(delete_image(mapping, image, count) for image, count in removed),
            *(statement for verb in rows for statement in write_rows(mapping, rows[verb], verb, dialect=dialect)),
        )
        return cls(part, statements, tuple(row for work in works for row in work.change), sql.key)

    def present(self) -> Iterator[Statement]:
        """Counts the rows that UPSERTs have to find."""
        if self.changed:
            yield from count_rows(self.part.mapping, (self.key(row) for row in self.changed))


@dataclass(frozen=True)
class _RowSql:
    """Rows of one part to literals: whole, or the identity key in the order of its columns."""

    row: Callable[[Row], Literals]
    key: Callable[[Row], Literals]


@lru_cache(maxsize=1024)
def _row_sql(part: TargetPart, target: Flavour) -> _RowSql:
    source = part.mapping.source
    writers = [(number, codec_for(source.name, source.columns[number]).literal(target)) for number in part.key or ()]

    def key(row: Row) -> Literals:
        # Columns of an identity key are not null.
        return tuple([write(row[number] or b"") for number, write in writers])

    return _RowSql(row_literals(source, target), key)


def _batches(wave: Wave, buckets: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Neighbouring buckets, together until they have BATCH_ROWS rows."""
    batch: list[int] = []
    rows = 0
    for bucket in buckets:
        batch.append(bucket)
        rows += sum(work.rows() for work in wave.get(bucket, {}).values())
        if rows >= BATCH_ROWS:
            yield tuple(batch)
            batch, rows = [], 0
    if batch:
        yield tuple(batch)


@dataclass(eq=False)
class _CountsDiffer(DmError):
    """An UPSERT did not change exactly its rows. Rolls the transaction back."""

    code: ClassVar[str] = "DM-6022"
    what: ClassVar[str] = "an upsert changed fewer rows than it was given"
