"""Writes one wave of an epoch to the target: batches of buckets, each in one fenced transaction.

The transaction first advances the frontier (downstream/frontier.py); then, per table, it deletes and then writes rows.
With the policy EXACT every count is verified: a missing row means that another program writes to the target or that the
log does not belong to it, and stops the task. merged.py writes merged tables, sync/safe_mode/overwriting.py rows that
may collide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, wait
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Final, TypeAlias, TypeVar

from airflow_provider_dm.engine.downstream.errors import DuplicateInTarget
from airflow_provider_dm.engine.downstream.frontier import EpochRange, FrontierMove, Transactions, fenced_transaction
from airflow_provider_dm.engine.downstream.row_statements import (
    Literals,
    Verb,
    count_rows,
    delete_image,
    delete_rows,
    in_pieces,
)
from airflow_provider_dm.engine.downstream.session import run_transaction
from airflow_provider_dm.engine.downstream.tuples import write_tuple_cells, write_values
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.merge.overwritable import is_overwritable
from airflow_provider_dm.engine.merge.owner_writer import TargetAccess
from airflow_provider_dm.engine.merge.servers import target_access
from airflow_provider_dm.engine.merge.settling import known_literals
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Flavour
from airflow_provider_dm.engine.schema.codec import Row, codec_for, row_literals
from airflow_provider_dm.engine.sync.errors import CountsDiffer, MissingRow
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan, WritePolicy
from airflow_provider_dm.engine.sync.plan.plan_parts import TargetPart
from airflow_provider_dm.engine.sync.safe_mode.overwriting import Collision, OverwritingWrites, has_one_feeder
from airflow_provider_dm.engine.sync.write.causality import TableWork, Wave, rows_in_waves
from airflow_provider_dm.engine.sync.write.encoded import CellRows
from airflow_provider_dm.engine.sync.write.in_order import WritesInOrder
from airflow_provider_dm.engine.sync.write.merged import MergedWrites, OwnerWork, as_logged, check_changed, check_found

SMALL_BATCH: Final = 1_000
BATCH_ROWS: Final = 20_000
BATCH_BYTES: Final = 16 << 20
"""Without the key `batch` a transaction takes whole buckets: about its connection's share of the rows, at least about
SMALL_BATCH, and hardly more than BATCH_ROWS or BATCH_BYTES of log. Measured: transactions of 1,000 rows cost the
target a fifth more CPU. Transactions whose rows may collide with other rows, or have to be named, stay small."""


@dataclass(frozen=True)
class Target:
    """The access to the target's transactions and statements. The model test has another one, for SQLite."""

    transactions: Transactions
    access: Callable[[], TargetAccess]

    @classmethod
    def at(cls, endpoint: Endpoint) -> Target:
        """Return the access by the calling thread's connection to `endpoint`."""
        return cls(partial(run_transaction, endpoint), partial(target_access, endpoint))


@dataclass(frozen=True)
class ApplyResult:
    """The result of a task: the logged changes, the rows written or deleted in the target, the new contested rows, the
    collisions in safe mode, and the rows of the largest bucket (which is never divided among transactions)."""

    changes: int = 0
    rows: int = 0
    contested: int = 0
    collisions: tuple[Collision, ...] = ()
    largest: int = 0

    def __add__(self, other: ApplyResult) -> ApplyResult:
        return ApplyResult(
            self.changes + other.changes,
            self.rows + other.rows,
            self.contested + other.contested,
            self.collisions + other.collisions,
            max(self.largest, other.largest),
        )


T = TypeVar("T")


def with_careful_retry(transaction: Callable[..., T], *, safe: bool) -> T:
    """Return the result of a transaction, which is rolled back and repeated if its rows do not match those expected.

    It is repeated `careful`: before each upsert it checks that the row exists. In safe mode it is repeated once more
    with the collision as `met`, to overwrite the rows.
    """
    try:
        try:
            return transaction(careful=False)
        except CountsDiffer:
            return transaction(careful=True)
    except (MissingRow, DuplicateInTarget) as error:
        if not safe:
            raise
        return transaction(careful=True, met=error)


@dataclass(frozen=True)
class WaveWriter:
    """The writer of the waves of one epoch. `pool`: runs batches concurrently; None: one after the other.

    `batch`: the most rows of a transaction; None: see BATCH_ROWS. `multiple_rows`: a statement may write several rows.
    """

    plan: SyncPlan
    target: Target
    step: EpochRange
    pool: Executor | None = None
    batch: int | None = None
    multiple_rows: bool = True
    connections: int = 1
    """The number of batches that `pool` runs concurrently."""
    log_bytes: int = 0
    """The size of the log of the waves."""
    collisions: list[Collision] = field(default_factory=list)
    """The collisions so far."""

    def release(self, wave: Wave) -> int:
        """Write wave 1, in the buckets that have deletes. Return the number of new contested rows, which is 0.

        Raises the errors of `fenced_transaction`, MissingRow.
        """
        return self._write([wave], sorted(wave), FrontierMove.RELEASE)

    def advance(self, wave: Wave, buckets: Sequence[int], later: Sequence[Wave] = ()) -> int:
        """Write wave 2 and, in the same transactions, the later waves. All `buckets` advance, also those without rows.
        Return the number of new contested rows."""
        return self._write([wave, *later], buckets, FrontierMove.ADVANCE)

    def _write(self, waves: Sequence[Wave], buckets: Sequence[int], act: FrontierMove) -> int:
        batches = self._batches(waves, buckets)
        if self.pool is None or len(batches) == 1:
            return sum(self._write_batch(waves, batch, act) for batch in batches)
        # Wait for all batches, also if one fails: no transaction may be running after this returns.
        writes = [self.pool.submit(self._write_batch, waves, batch, act) for batch in batches]
        wait(writes)
        return sum(write.result() for write in writes)

    def _batches(self, waves: Sequence[Wave], buckets: Sequence[int]) -> list[tuple[int, ...]]:
        """Divide neighbouring buckets into batches, as many and with about as many rows for each connection."""
        sizes = [rows_in_waves(waves, bucket) for bucket in buckets]
        rows = sum(sizes)
        count = -(-rows // (self.batch or self._share(rows)))
        if count > 1:
            count = -(-count // self.connections) * self.connections
        return list(_in_batches(buckets, sizes, count, self.batch or rows))

    def _share(self, rows: int) -> int:
        """Return about how many of so many rows a transaction takes."""
        if self.plan.safe or self.plan.merged:
            return min(SMALL_BATCH, BATCH_ROWS)
        most = min(max(SMALL_BATCH, -(-rows // self.connections)), BATCH_ROWS)
        most_bytes = min(BATCH_BYTES, self.target.access().dialect.transaction_bytes)
        return min(most, max(1, rows * most_bytes // max(1, self.log_bytes)))

    def _write_batch(self, waves: Sequence[Wave], batch: Sequence[int], act: FrontierMove) -> int:
        return with_careful_retry(partial(self._transaction, waves, batch, act), safe=self.plan.safe)

    def _transaction(
        self,
        waves: Sequence[Wave],
        batch: Sequence[int],
        act: FrontierMove,
        *,
        careful: bool,
        met: DmError | None = None,
    ) -> int:
        # Build the statements before the transaction begins, to hold locks for a short time.
        ready = self._table_writes(waves, batch)
        written = ApplyResult()

        def body(connection: Connection, buckets: Sequence[int]) -> None:
            nonlocal written
            tables = ready if len(buckets) == len(batch) else self._table_writes(waves, buckets)
            written = self._run_all(connection, tables, careful=careful, met=met)

        fenced_transaction(self.target.transactions, self.step, act, batch, body)
        self.collisions.extend(written.collisions)
        return written.contested

    def write_inside(
        self, connection: Connection, waves: Sequence[Wave], *, careful: bool, met: DmError | None = None
    ) -> ApplyResult:
        """Write waves one after the other, inside a transaction that has advanced the frontier.

        Raises CountsDiffer (the caller retries with `careful`), MissingRow and DuplicateInTarget (in safe mode the
        caller retries with the error as `met`), and what statements raise.
        """
        tables = self._table_writes(waves, range(self.plan.buckets))
        return self._run_all(connection, tables, careful=careful, met=met)

    def _run_all(
        self, connection: Connection, tables: Sequence[_Writes], *, careful: bool, met: DmError | None
    ) -> ApplyResult:
        """Run the writes. `met`: the collision of the first attempt; rows that collide are overwritten now.

        Raises `met` if another source writes to such a table, as reported before its first row.
        """
        contested = 0
        collisions: list[Collision] = []
        for writes in tables:
            over = [] if met is None else _over(writes)
            if met is None or not over:
                contested += writes.run(connection, careful=careful)
                continue
            if not (over[0].by or has_one_feeder(connection, self.step.fence.ref, over[0].part.name)):
                raise met
            collisions += [check.run(connection) for check in over]
        met_rows = tuple(one for one in collisions if one.missing or one.present)
        return ApplyResult(contested=contested, collisions=met_rows)

    def _table_writes(self, waves: Sequence[Wave], buckets: Sequence[int]) -> list[_Writes]:
        access = self.target.access()
        if not self.multiple_rows:
            access = replace(access, dialect=replace(access.dialect, most_rows=1))
        return [writes for wave in waves for writes in self._writes_of(wave, buckets, access)]

    def _writes_of(self, wave: Wave, buckets: Iterable[int], access: TargetAccess) -> Iterator[_Writes]:
        by_target: dict[int, dict[int, list[TableWork]]] = {}
        for bucket in buckets:
            for source, work in wave.get(bucket, {}).items():
                by_target.setdefault(self.plan.sources[source].target, {}).setdefault(source, []).append(work)
        return (self._table_write(works, access) for works in by_target.values())

    def _table_write(self, works: dict[int, list[TableWork]], access: TargetAccess) -> _Writes:
        """Return the writes to one target table. `works`: by source table."""
        part = self.plan.part(next(iter(works)))
        changes = [change for some in works.values() for work in some for change in work.in_order]
        if changes:
            sql = _row_sql(part, access.dialect.server.flavour)
            return WritesInOrder(part, access, tuple(changes), sql.row, sql.key)
        policies = {self.plan.policies[source] for source in works}
        if policies != {WritePolicy.WAIT}:
            by_table = {str(self.plan.sources[source].table.name): some for source, some in works.items()}
            policy = WritePolicy.UNCOUNTED if WritePolicy.UNCOUNTED in policies else policies.pop()
            return _TableWrites(part, access, by_table, policy, shared=all(map(self.plan.is_merged, works)))
        literals = _row_sql(part, access.dialect.server.flavour).row
        owners = [OwnerWork.of(self.plan, source, some, self.step, access, literals) for source, some in works.items()]
        return MergedWrites(self.step, owners)


Works: TypeAlias = Mapping[str, Sequence[TableWork]]
"""The work on one target table, by source table (the lead)."""


@dataclass
class _TableWrites:
    """The statements of one transaction for one table, as SQL. The constructor makes them."""

    part: TargetPart
    access: TargetAccess
    works: Works
    policy: WritePolicy
    shared: bool
    """True if the target is merged, and rows of other tables are overwritten."""

    def __post_init__(self) -> None:
        works = [work for some in self.works.values() for work in some]
        mapping, dialect = self.part.mapping, self.access.dialect
        self.sql = sql = _row_sql(self.part, dialect.server.flavour)
        deleted = (sql.key(row) for work in works for row in work.delete)
        transient = [sql.key(row) for work in works for row in work.transient]
        # Deletes that must not find a row.
        self.transient = tuple(delete_rows(mapping, transient, dialect=dialect)) if transient else ()
        removed = ((sql.row(image), count) for work in works for image, count in work.remove)
        rows = {
            Verb.INSERT: [row for work in works for row in work.insert],
            Verb.UPSERT: [row for work in works for row in work.change],
        }
        self.statements = (
            *(delete_rows(mapping, deleted, dialect=dialect) if self.part.key is not None else ()),
            *(
                delete_image(mapping, image, together)
                for image, count in removed
                for together in in_pieces(count, dialect.most_rows)
            ),
            *(
                statement
                for verb, some in rows.items()
                for statement in write_values(mapping, some, verb, sql.row, dialect=dialect)
            ),
        )
        cells = {Verb.INSERT: [work.inserts for work in works], Verb.UPSERT: [work.changes for work in works]}
        self.statements += tuple(
            statement
            for verb, some_cells in cells.items()
            for one in CellRows.together([part for part in some_cells if part is not None])
            for statement in write_tuple_cells(mapping, one.cells, one.numbers, verb, dialect)
        )

    def run(self, connection: Connection, *, careful: bool) -> int:
        """See `MergedWrites.run`; return 0. Raises DuplicateInTarget if a row exists that was deleted according to the
        log."""
        counted = self.policy is not WritePolicy.UNCOUNTED or self.part.key is None
        if any(self.access.execute(connection, statement) for statement in self.transient):
            raise DuplicateInTarget(str(self.part.name), ", ".join(self.part.key_columns))
        # An upsert can update a row of another table that has one of its unique values, with the same count.
        if counted and (careful or (self.shared and self.part.unique)):
            self._check_existing(connection)

        for statement in self.statements:
            number = self.access.execute(connection, statement)
            if counted and statement.verb is Verb.DELETE:
                check_found(statement, number)
            elif counted and statement.verb is Verb.UPSERT and not careful:
                check_changed(statement, number)
        return 0

    def _check_existing(self, connection: Connection) -> None:
        """Check that the rows to change exist. Raises MissingRow."""
        works = [work for some in self.works.values() for work in some]
        if keys := [self.sql.key(row) for work in works for row in work.changed()]:  # a table without a key has none
            for statement in count_rows(self.part.mapping, keys, dialect=self.access.dialect):
                check_found(statement, self.access.count(connection, statement))


_Writes: TypeAlias = _TableWrites | MergedWrites | WritesInOrder


def _over(writes: _Writes) -> list[OverwritingWrites]:
    """Return the writes as overwrites, one for each source table; [] if they cannot be overwritten."""
    if not isinstance(writes, _TableWrites) or not is_overwritable(writes.part.mapping):
        return []
    row, key = writes.sql.row, writes.sql.key
    return [
        OverwritingWrites(
            writes.part,
            writes.access,
            delete=[key(one) for work in works for one in work.delete],
            transient=[key(one) for work in works for one in work.transient],
            insert=[row(one) for work in works for one in work.inserted()],
            change=[row(one) for work in works for one in work.changed()],
            unsure=writes.policy is WritePolicy.UNCOUNTED,
            by=table if writes.shared else "",
        )
        for table, works in writes.works.items()
    ]


@dataclass(frozen=True)
class _RowSql:
    """The functions from rows of one part to literals: whole, or the identity key in the order of its columns."""

    row: Callable[[Row], Literals]
    key: Callable[[Row], Literals]


@lru_cache(maxsize=1024)
def _row_sql(part: TargetPart, target: Flavour) -> _RowSql:
    source = part.mapping.source
    writers = [(number, codec_for(source.name, source.columns[number]).literal(target)) for number in part.key or ()]

    def key(row: Row) -> Literals:
        # Columns of an identity key are not null.
        return tuple([write(row[number] or b"") for number, write in writers])

    if not part.left_out:
        return _RowSql(row_literals(source, target), key)
    logged, literals = as_logged(part), known_literals(source, target)
    return _RowSql(lambda row: literals(logged(row)), key)


def _in_batches(buckets: Sequence[int], sizes: Sequence[int], count: int, most: int) -> Iterator[tuple[int, ...]]:
    """Yield about `count` batches of neighbouring buckets with about the same number of rows: at most `most`, or one
    bucket, as a bucket is never divided. `sizes`: the rows of each bucket."""
    total, passed, number = sum(sizes), 0, 1
    batch: list[int] = []
    rows = 0
    for bucket, more in zip(buckets, sizes, strict=True):
        if batch and (rows + more > most or (passed + more / 2) * count > total * number):
            yield tuple(batch)
            batch, rows, number = [], 0, number + 1
        batch.append(bucket)
        rows += more
        passed += more
    if batch:
        yield tuple(batch)
