"""The load of one source: its sync, whose coverage grows in rounds.

For each source table the target has exactly the source's rows at the frontier F, restricted to the covered keys. At the
beginning no key is covered, at the end all are.

    FOLLOW   the ordinary sync moves F, DDL included; changes of keys that are not covered are ignored
    ROUND    F rests at a location L, and readers with snapshots at exactly L copy rows

    F:   F0 ── follow ── L1 ────(rests)────┐ follow, DDL ┌─ L2 ─(rests)─┐ … all covered
         round 1: snapshots, pages, close  └─────────────┘  round 2     └─ …

In a round the readers are started and open their snapshots under one momentary lock (gather.py). Then the log is
applied up to L in this process (the readers use the slots), the round is opened (downstream/rounds.py), pages are
copied, and the round is closed. A load that takes less time than ROUND_SECONDS is one round. A table is read in a round
if it was not altered during the wait for the lock (its birth, see reading/births.py, is unchanged), and if its columns
and key at L are those with which its log is decoded.

Without a log (task-mode full) F is set to L. Rows of earlier rounds are then older than F, which is reported.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any, Final, TypeVar

from airflow_provider_dm.engine.copy.begin_load import Loading, source_moved
from airflow_provider_dm.engine.copy.errors import NotGathered, SnapshotLost, TablesWait
from airflow_provider_dm.engine.copy.gather import Gathered, Gathering, gathering
from airflow_provider_dm.engine.copy.keyless import remove_leftovers
from airflow_provider_dm.engine.copy.read_round import ReadRound
from airflow_provider_dm.engine.downstream.contested_row import waiting
from airflow_provider_dm.engine.downstream.copy_progress import ChunkProgress, load_chunks
from airflow_provider_dm.engine.downstream.frontier import (
    EpochRange,
    FrontierMove,
    extent,
    fenced_transaction,
    read_whole_frontier,
)
from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.postponed_indexes import build_postponed
from airflow_provider_dm.engine.downstream.rounds import Round, close_round, open_round
from airflow_provider_dm.engine.downstream.session import run_transaction
from airflow_provider_dm.engine.downstream.shard_groups import held_tables
from airflow_provider_dm.engine.downstream.subtask import BUCKETS, complete_load, note_location
from airflow_provider_dm.engine.downstream.table_schema import load_table_schemas
from airflow_provider_dm.engine.errors import DmError, Reaction
from airflow_provider_dm.engine.merge.contests import Contests, IsExempt
from airflow_provider_dm.engine.merge.errors import TooManyContested, WrittenDuringCopy
from airflow_provider_dm.engine.mysql.binlog_status import NOT_SHOWN
from airflow_provider_dm.engine.mysql.connection import Connection, connected, server_info
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.reading.births import Births, read_births, settled_births
from airflow_provider_dm.engine.reading.errors import SchemaChangedDuringCopy
from airflow_provider_dm.engine.rules.mapping import value_signature
from airflow_provider_dm.engine.schema.catalogue import existing_tables, read_tables
from airflow_provider_dm.engine.schema.errors import TableNotFound
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.sync.errors import GoalLost
from airflow_provider_dm.engine.sync.log.locations import in_relay
from airflow_provider_dm.engine.sync.runner import Runner
from airflow_provider_dm.engine.sync.sync_source import SyncSource

log = logging.getLogger(__name__)

ROUND_SECONDS: Final = 600.0
"""The maximum time that the readers of a round read: the source keeps old row versions for their snapshots."""
SHORT_ROUND_SECONDS: Final = 60.0
"""The maximum if there are not enough slots for all sources of the run."""
ROUND_POLL_SECONDS: Final = 0.2
WAITING_SECONDS: Final = 2.0
"""The interval of checks for rows of other sources that wait for the frontier of this one."""
MOST_WAITING: Final = 1_000
ROUND_IDLE_SECONDS: Final = 1.0
ROUND_FAILURES: Final = 6
"""The maximum number of consecutive rounds that fail with a transient error and without a row."""

WAITS_SECONDS: Final = 600.0
"""The maximum time that a load waits for the end of DDL."""


T = TypeVar("T")
Json = dict[str, Any]

NO_BIRTHS: Final = Births({}, frozenset())
_numbers: Final = count(1)
"""Numbers for rounds: unique in this process, and so in the generation that it holds of each subtask."""

Follow = Callable[[Location | None], bool]
"""Applies the log of the source in this process, up to a location or (None) to its end. Returns False if a stop was
requested before that."""


@dataclass
class SourceLoad:
    """The load of one source, in one thread. `readers`: the maximum at once; `short`: other sources wait for slots."""

    loading: Loading
    runner: Runner
    follow: Follow
    contests: Callable[[], Contests]
    """Returns the waiting rows, for one use: DDL between two rounds changes the definitions that it reads."""
    is_exempt: IsExempt
    """Returns True for waiting rows that will overwrite other rows when the log continues."""
    stop: Callable[[], bool]
    readers: int
    short: bool = False
    waiting_since: float | None = field(default=None, init=False)
    """The time since which no table could be read because of pending DDL; None: it does not wait."""
    rounds: int = field(default=0, init=False)
    blocked_seconds: float = field(default=0.0, init=False)
    longest_seconds: float = field(default=0.0, init=False)
    locations: set[str] = field(default_factory=set, init=False)
    """Locations of the rounds; unknown locations of two rounds count as two."""

    @property
    def source(self) -> SyncSource:
        return self.loading.source

    def run(self) -> bool:
        """Load until all keys are covered. Return False if a stop was requested before.

        Raises every DmError that stops a load.
        """
        failures = 0
        while not self.stop():
            before = self._rows()
            try:
                # From here on the target rejects pages of earlier rounds, even from a reader that is still alive.
                run_transaction(self.source.target, lambda tx: close_round(tx, self.source.fence))
                remove_leftovers(self.source.target, self.source.fence)
                if not self._follow():
                    return False
                if all(chunk.done for chunk in self._chunks()):
                    return self._complete()
                lost = self._round()
                if lost and self._rows() <= before:
                    raise SnapshotLost(self.source.id, lost)
                failures = 0
            except DmError as error:
                failures = 0 if self._rows() > before else failures + 1
                if error.reacts() is not Reaction.RETRY or failures >= ROUND_FAILURES:
                    raise
                self._explain(error)
                log.warning("%s: the load continues after: %s", self.source.id, error)
                self._sleep(min(30.0, 2.0**failures / 2))
        return False

    def to_json(self) -> Json:
        """Return the report of this run's rounds."""
        return {
            "rounds": self.rounds,
            "writers_blocked_seconds": round(self.blocked_seconds, 3),
            "longest_round_seconds": round(self.longest_seconds, 3),
            "written_to_meanwhile": not self.source.reads_log and len(self.locations) > 1,
        }

    # Between rounds

    def _follow(self) -> bool:
        return not self.source.reads_log or self.follow(None)

    def _complete(self) -> bool:
        """Hand the source over to sync. Raises RowsCollide, WrittenDuringCopy, and the errors of `build_postponed`."""
        source = self.source
        contests = self.contests()
        left = contests.confirm(self._sleeps, self.is_exempt) if contests.check(self.is_exempt) else 0
        if left and not source.reads_log:
            raise WrittenDuringCopy(source.id, left)
        build_postponed(source.target, source.fence, at_once=self._most_readers())
        run_transaction(source.target, lambda tx: complete_load(tx, source.fence))
        return True

    def _explain(self, error: DmError) -> None:
        """Raise RowsCollide, which names the rows, if colliding rows are the cause of the error."""
        if isinstance(error, TooManyContested):
            self.contests().confirm(self._sleeps, self.is_exempt)

    def _wait_for_ddl(self, why: str) -> str:
        """Wait ROUND_IDLE_SECONDS, as no table can be read before its DDL is complete. Raises TablesWait."""
        if self.waiting_since is None:
            log.info("%s: %s", self.source.id, why)
            self.waiting_since = time.monotonic()
        if time.monotonic() - self.waiting_since > WAITS_SECONDS:
            left = sorted({chunk.table for chunk in self._chunks() if not chunk.done})
            raise TablesWait(self.source.id, ", ".join(map(str, left)))
        self._sleep(ROUND_IDLE_SECONDS)
        return ""

    # A round

    def _round(self) -> str:
        """Copy rows in one round, if any table can be read. Return why readers have lost their snapshots, or "".

        Raises TablesWait, SchemaChangedDuringCopy, and the errors of a gather and a reader.
        """
        source, left = self.source, self._to_read()
        before = settled_births(source.upstream, source.rules.block_allow) if left else NO_BIRTHS
        if not source.reads_log and (missing := set(left) - before.tables.keys()):
            raise SchemaChangedDuringCopy(source.id, str(min(missing)), "it was dropped or renamed, and no log is read")
        tables = [table for table in left if table in before.tables and table not in before.young]
        if not tables:
            return self._wait_for_ddl("no table can be read now")
        with connected(source.upstream) as connection:
            existing = sorted(existing_tables(connection, tables))
            try:
                definitions = read_tables(connection, existing)
            except TableNotFound as dropped:
                return self._wait_for_ddl(f"{dropped.table} was dropped before its definition was read")
        wanted = max(1, min(sum(not chunk.done for chunk in self._chunks()), self._most_readers()))
        number = next(_numbers)
        with (
            ThreadPoolExecutor(wanted, thread_name_prefix="reader") as pool,  # leaving the block waits for the readers
            gathering(
                source.upstream, source.config.mydumper.consistency, wanted, reads_log=source.reads_log
            ) as gathered,
        ):
            task = ReadRound(gathered.group, source.fence, source.config, number, source.upstream, self.source.target)
            readers = [pool.submit(self.runner.run, task, [one]) for one in range(gathered.group.readers)]
            found = self._gather(gathered, existing, readers)
            began = time.monotonic()
            self.blocked_seconds = max(self.blocked_seconds, found.blocked_seconds)
            at = self._in_log(found.location)
            after = read_births(source.upstream, source.rules.block_allow)
            same = [
                one
                for one in existing
                if one in found.tables and before.same(after, [one]) and before.tables[one].server == at.server_uuid
            ]
            if not self._go_to(at):
                return ""
            births = {name: str(before.tables[name]) for name in self._tables_as_logged(same, definitions)}
            if not births:
                return self._wait_for_ddl(
                    f"every table was altered after its definition was read, so none is copied at {at}"
                )
            opened = Round(number, births)
            run_transaction(self.source.target, lambda tx: open_round(tx, source.fence, at.sort_key, opened))
            self.waiting_since = None
            self.rounds += 1
            self.locations.add(f"round {self.rounds}" if at.file == NOT_SHOWN.name else at.sort_key)
            log.info("%s: a round at %s; readers: %d", source.id, at, len(found.readers))
            try:
                gathered.open()
                return self._wait_for(readers, gathered)
            finally:
                self.longest_seconds = max(self.longest_seconds, time.monotonic() - began)

    def _gather(
        self, gathered: Gathering, tables: Collection[TableName], readers: Sequence[Future[list[str]]]
    ) -> Gathered:
        """Open the snapshots. Raises the error of a reader, else SnapshotLost if a reader has lost its own, else the
        error of `gather`.
        """
        try:
            return gathered.gather(tables, lambda: all(reader.done() for reader in readers))
        except NotGathered:
            if lost := _lost([reader for reader in readers if reader.done()]):
                raise SnapshotLost(self.source.id, lost) from None
            raise

    def _wait_for(self, readers: Sequence[Future[list[str]]], gathered: Gathering) -> str:
        """Wait until all readers have ended, or end the round. Return why some have lost their snapshots, or "".

        The time of a round begins when its readers may copy. Otherwise a source whose log takes longer to apply would
        have rounds without a page. Raises the error of a reader.
        """
        began = checked = time.monotonic()
        left = set(readers)
        while left:
            done, left = wait(left, timeout=ROUND_POLL_SECONDS, return_when=FIRST_EXCEPTION)
            failed = [reader for reader in done if reader.exception() is not None]
            now = time.monotonic()
            if failed or self.stop() or now - began > (SHORT_ROUND_SECONDS if self.short else ROUND_SECONDS):
                break
            if now - checked > WAITING_SECONDS:
                checked = now
                if self._others_wait():
                    log.info("%s: the round ends early, as rows of other sources wait", self.source.id)
                    break
        gathered.close()
        wait(readers)
        return _lost(readers)

    def _others_wait(self) -> bool:
        return sum(rows.rows for rows in self._read(waiting) if rows.source != self.source.id) > MOST_WAITING

    def _go_to(self, at: Location) -> bool:
        """Move the frontier to a location. Return False if that is not possible, so that no round can be opened."""
        source = self.source
        if source.reads_log:
            try:
                if not self.follow(at):
                    return False
            except GoalLost as lost:  # another server with another log has taken over
                log.info("%s", lost)
                return False
        else:
            self._set_to(at)
        lowest, furthest = extent(self._read(read_whole_frontier))
        if (lowest, furthest) != (at.sort_key, at.sort_key):
            log.info("%s: the log is applied up to %s, but the snapshots are at %s", source.id, furthest, at)
            return False
        return True

    def _set_to(self, at: Location) -> None:
        """Move the frontier of a source without a log."""
        fence = self.source.fence
        lo, _ = extent(self._read(read_whole_frontier))
        if lo == at.sort_key:
            return

        def body(connection: Connection, _buckets: object) -> None:
            note_location(connection, fence, at)

        transactions, step = partial(run_transaction, self.source.target), EpochRange(fence, lo, at.sort_key)
        fenced_transaction(transactions, step, FrontierMove.ADVANCE, range(BUCKETS), body)

    def _in_log(self, location: Location) -> Location:
        """Return a location given by the source as a location of the log that is read."""
        source = self.source
        if not source.reads_log:
            return replace(location, suffix=self.loading.start.suffix)
        with connected(source.upstream) as connection:
            now = server_info(connection).server_uuid
            if now != location.server_uuid:
                raise source_moved(source.id, location.server_uuid, now)
            return in_relay(location, connection, source.spec, otherwise=self.loading.start.suffix)

    # Tables and chunks

    def _read(self, read: Callable[[Connection, SubtaskRef], T]) -> T:
        """Return the result of a function that reads the state of the subtask in the target."""
        return run_transaction(self.source.target, lambda tx: read(tx, self.source.fence.ref))

    def _chunks(self) -> list[ChunkProgress]:
        return self._read(load_chunks)

    def _rows(self) -> int:
        return sum(chunk.rows_copied + chunk.done for chunk in self._chunks() if not chunk.is_unresumable)

    def _most_readers(self) -> int:
        subtask = self.source.config
        return min(self.readers, subtask.mydumper.threads, subtask.loader.pool_size)

    def _to_read(self) -> list[TableName]:
        """Return the tables that are not covered, except those whose rows are held back for a DDL."""
        held = self._read(held_tables)
        return sorted({chunk.table for chunk in self._chunks() if not chunk.done} - held)

    def _tables_as_logged(self, names: Collection[TableName], definitions: dict[TableName, Table]) -> list[TableName]:
        """Return the tables of `names` that still have to be read, by the definitions that result from the log.

        Raises SchemaChangedDuringCopy for a table that differs from that.
        """
        wanted = set(self._to_read())
        logged = {one.table.name: one.table for one in self._read(load_table_schemas)}
        left = [one for one in names if one in wanted and one in logged]
        for name in left:
            if _row_format(definitions[name]) != _row_format(logged[name]):
                why = "its columns or its key differ from the result of its log"
                raise SchemaChangedDuringCopy(self.source.id, str(name), why)
        return left

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.stop():
            time.sleep(min(ROUND_POLL_SECONDS, seconds))

    def _sleeps(self, seconds: float) -> bool:
        self._sleep(seconds)
        return self.stop()


def _lost(readers: Sequence[Future[list[str]]]) -> str:
    """Return why ended readers lost their snapshots, or "". Raises the error of one of them."""
    return "; ".join(sorted({why for reader in readers for why in reader.result() if why}))


def _row_format(table: Table) -> object:
    """Return the properties that determine how rows are decoded: columns in order, and key."""
    columns = [(column.name.lower(), value_signature(column)) for column in table.columns]
    return columns, table.identity and [name.lower() for name in table.identity.columns]
