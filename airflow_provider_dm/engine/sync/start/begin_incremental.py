"""The start of an incremental task: the `meta` of its source, which is verified before it is stored.

A task with a load starts at the location of the load. An incremental task starts at the configured `meta`, which may be
wrong. So the start is committed only after the log, as the sync will read it, is found to have the beginning of a
transaction there. Until changes are applied, a corrected `meta` replaces the previous one. Without `meta` and
checkpoint the task is refused.

Rows are decoded by the schema at the start, which past.py determines, and later DDL is executed. The target's rows may
be newer than the start, for example if a user has copied them: up to the current end of the log, and for some log
time after it, changes overwrite existing rows (sync/safe_mode). With `safe-mode-duration: 0s` the start is exact.

The sources of one run start together, before any of them applies a change, so that the target has the list of source
tables of each merged table.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from airflow_provider_dm.engine.binlog.errors import LocationNotInLog
from airflow_provider_dm.engine.binlog.planned import EpochLimits, Planned
from airflow_provider_dm.engine.binlog.xa import PreparedXa
from airflow_provider_dm.engine.config.task import SubtaskConfig, TaskMode
from airflow_provider_dm.engine.ddl.server import Server, server_of
from airflow_provider_dm.engine.downstream.contested_row import withdraw_all
from airflow_provider_dm.engine.downstream.copy_progress import load_chunks
from airflow_provider_dm.engine.downstream.dm_checkpoint import read_checkpoint, to_take_over
from airflow_provider_dm.engine.downstream.frontier import FrontierRow, extent, read_whole_frontier
from airflow_provider_dm.engine.downstream.online_ddl_memory import save as save_online_ddls
from airflow_provider_dm.engine.downstream.session import run_transaction, target_connection
from airflow_provider_dm.engine.downstream.subtask import UNIT_SYNC, Subtask, begin_subtask, read_subtask
from airflow_provider_dm.engine.downstream.table_definitions import (
    Definition,
    Definitions,
    begin_definitions,
    load_definitions,
)
from airflow_provider_dm.engine.downstream.table_schema import TableSchema, save_table_schemas
from airflow_provider_dm.engine.errors import DmError, InvalidInput
from airflow_provider_dm.engine.meta.records import Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.binlog_status import BinlogSize, current_location, list_binlogs
from airflow_provider_dm.engine.mysql.connection import Connection, connected
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location, reached
from airflow_provider_dm.engine.reading.errors import NotBegunYet
from airflow_provider_dm.engine.reading.logged_ddl import private_log_plans, statements_between
from airflow_provider_dm.engine.relay.places import find_place
from airflow_provider_dm.engine.relay.reader import RelayReader
from airflow_provider_dm.engine.rules.block_allow import select
from airflow_provider_dm.engine.rules.online_ddl.memory import OnlineDdls
from airflow_provider_dm.engine.schema.catalogue import existing_tables, list_tables, read_tables
from airflow_provider_dm.engine.sync.errors import StartNotInLog
from airflow_provider_dm.engine.sync.log.locations import LOCATION_POLL_SECONDS, Cursor, in_relay
from airflow_provider_dm.engine.sync.log.tail import Tail
from airflow_provider_dm.engine.sync.progress import SyncProgress
from airflow_provider_dm.engine.sync.safe_mode.states import log_seconds
from airflow_provider_dm.engine.sync.start.before_ddl import LoggedStatement
from airflow_provider_dm.engine.sync.start.dm_import import DmExtent, DmStart, DmTables, keyless_of
from airflow_provider_dm.engine.sync.start.past import KnownTable, TablesToday, read_log, tables_of_target
from airflow_provider_dm.engine.sync.sync_source import SyncSource

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LogNeedReporter:
    """Reports the oldest log location that a subtask needs to the metadata DB, before the log is read, for the purge.

    Each report is made inside a transaction that checks the generation in the target, so a replaced run reports
    nothing.
    """

    source: SyncSource
    store: MetaStore
    unit: Unit = Unit.SYNC

    def report(self, applied: Location | None, needed: Location | None = None, *, again: bool = False) -> None:
        """Report that the log is needed from `needed`, by default from `applied`; None: all of it may be needed.

        `again`: it was reported before, possibly to another metadata DB, so an unreachable one does not stop the start.
        Raises Fenced, and the errors of the store.
        """

        def write() -> None:
            try:
                key = self.source.fence.ref.key
                place = needed or applied
                self.store.put_subtask(*key, unit=self.unit, stage=Stage.RUNNING, needed=place, applied=applied)
            except DmError as error:
                if not again:
                    raise
                log.warning("the needed location %s was not reported to the metadata DB: %s", needed or applied, error)

        self._as_holder(write)

    def withdraw_report(self) -> None:
        """Delete the report: nothing is needed. Raises Fenced, and the errors of the store."""
        self._as_holder(lambda: self.store.forget_subtask(*self.source.fence.ref.key))

    def _as_holder(self, write: Callable[[], None]) -> None:
        def body(connection: Connection) -> None:
            self.source.fence.check(connection)
            write()

        run_transaction(self.source.target, body)


def is_to_begin(
    config: SubtaskConfig, subtask: Subtask | None, frontier: Sequence[FrontierRow], *, copied: bool
) -> bool:
    """Return True if the subtask must begin at `meta`: it has not begun, or nothing is applied and `meta` was changed.

    `copied`: the task has had a full load, which determines the start.
    """
    if subtask is None or subtask.start is None:
        return True
    start, wanted = subtask.start, config.start
    if copied or wanted is None or (wanted.file, wanted.position) == (start.file, start.position):
        return False
    return bool(frontier) and set(extent(frontier)) == {start.sort_key}


def begin_incremental(sources: Iterable[SyncSource], *, store: MetaStore, stop: threading.Event) -> None:
    """Set the starts of the sources that have no start yet, or a corrected `meta`.

    Raises InvalidInput, StartNotInLog, NotBegunYet (retry), Fenced, and the errors of reading the log and the schemas.
    Then the failed source and the sources after it are unchanged in the target.
    """
    waiting = [beginning for source in sources for beginning in _beginnings(source, store)]
    for beginning in waiting:
        beginning.need_reporter.report(None)
    try:
        read = [beginning.read_source() for beginning in waiting]
        proven = []
        for one in read:
            start = one.verified_start(stop)
            proven.append((one.at(start, stop), start))
        for here, start in proven:
            here.begin(start)
            waiting.pop(0)
    except DmError:
        for beginning in waiting:
            beginning.withdraw()
        raise


def _beginnings(source: SyncSource, store: MetaStore) -> list[_StartingSource]:
    config, ref = source.config, source.fence.ref
    connection = target_connection(source.target)
    subtask, frontier = read_subtask(connection, ref), read_whole_frontier(connection, ref)
    checkpoint = to_take_over(connection, ref, config.mode, subtask)
    if checkpoint is not None:
        by_gtid = source.spec.config.enable_gtid
        start = DmStart.of(checkpoint, source.upstream, by_gtid=by_gtid)
        log.info("%s: DM's checkpoint in %s is taken over: %s", ref.source, checkpoint.table, checkpoint.point)
        return [_StartingSource(source, start.configured(), None, LogNeedReporter(source, store), start)]
    if config.mode is not TaskMode.INCREMENTAL:
        return []
    if not is_to_begin(config, subtask, frontier, copied=bool(load_chunks(connection, ref))):
        return []
    if subtask is not None and subtask.start is not None and read_checkpoint(connection, ref) is not None:
        return []  # it began at DM's checkpoint, so `meta` does not apply
    if config.start is None:
        with connected(source.upstream) as upstream:
            raise InvalidInput(
                f"task {ref.task}, source {ref.source}: task-mode incremental needs a start, and there is neither a "
                f"checkpoint nor `meta`. The source's binlog ends at {current_location(upstream)} now.",
                "Add `meta` to the source's entry in mysql-instances: `meta: {binlog-name: FILE, binlog-pos: "
                "POSITION}`. Use the location at which the target's rows were read: from the dump, or from SHOW MASTER "
                "STATUS (MySQL from 8.2 on: SHOW BINARY LOG STATUS).",
            )
    before = subtask.start if subtask is not None else None
    return [_StartingSource(source, config.start, before, LogNeedReporter(source, store))]


@dataclass(frozen=True)
class _StartingSource:
    """A source that is about to begin. `before`: its previous start, after which nothing is applied."""

    source: SyncSource
    configured: Location
    before: Location | None
    need_reporter: LogNeedReporter
    dm: DmStart | None = None
    """The start by DM's checkpoint; None: the start is `meta`."""

    def read_source(self) -> _StartingSourceState:
        """Read the source's tables and the extent of its log."""
        rules = self.source.rules
        with connected(self.source.upstream) as connection:
            today = in_relay(current_location(connection), connection, self.source.spec)
            binlogs = list_binlogs(connection)
            tables = read_tables(connection, select(list_tables(connection), rules.block_allow))
            definitions = Definitions.read(connection, tables, rules.block_allow.allows_schema)
            server = server_of(connection)
        known = {name: KnownTable(table, definitions.tables[name]) for name, table in tables.items()}
        one = self if self.dm is None else replace(self, dm=self.dm.for_tables(tables, rules.block_allow.allows))
        return _StartingSourceState(one, today, tuple(binlogs), self._schemas(known), definitions, server)

    def _schemas(self, tables: Mapping[TableName, KnownTable]) -> tuple[TableSchema, ...]:
        """Return these tables with their targets."""
        return tuple(TableSchema.routed(table.table, self.source.rules.router) for table in tables.values())

    def tail(self) -> Tail:
        """Return the log that the sync will read."""
        return Tail.of(self.source.job, self.source.config.source_id, self.need_reporter.store, SyncProgress())

    def by_hand(self) -> dict[TableName, Definition]:
        """Return the definitions that users have set because the task could not begin without them."""
        definitions = load_definitions(target_connection(self.source.target), self.source.fence.ref)
        return {name: definition for name, definition in definitions.items() if definition.by_hand}

    def withdraw(self) -> None:
        """Restore the report to the metadata DB, as the source does not begin. Raises Fenced, and the errors of the
        store."""
        if self.before is None:
            self.need_reporter.withdraw_report()
        else:
            self.need_reporter.report(self.before)


@dataclass(frozen=True)
class _StartingSourceState:
    """The state of a source that is about to begin."""

    beginning: _StartingSource
    today: Location
    binlogs: tuple[BinlogSize, ...]
    schemas: tuple[TableSchema, ...]
    definitions: Definitions
    server: Server
    dm_extent: DmExtent | None = None
    """The changes after the start that DM may have applied; None: the start is not by DM's checkpoint."""

    def at(self, start: Location, stop: threading.Event) -> _StartingSourceState:
        """Return a copy with the tables as they were at the start. If that needs the DDL since the start, wait until
        the log reaches `today`. Raises DefinitionNeeded, NotBegunYet, and the errors of reading the log.
        """
        one, rules = self.beginning, self.beginning.source.rules
        if reached(start, self.today) and one.dm is None:
            return self
        target = target_connection(one.source.target)
        source = {it.table.name: KnownTable(it.table, self.definitions.tables[it.table.name]) for it in self.schemas}
        in_target = tables_of_target(target, source.keys(), self.definitions.collations.keys(), rules)
        servers, collations = (self.server, server_of(target)), self.definitions.collations
        today = TablesToday(source, in_target, servers, one.by_hand().keys(), collations)
        name = one.source.config.source_id
        if one.dm is not None:
            given = DmTables.of(one.dm.checkpoint, today)
            tables = given.tables_at(name, today, lambda: self._ddl_since(start, stop))
        else:
            tables = today.at_start(name, self._ddl_since(start, stop))
        log.info("%s: %d tables at %s, determined from the log and the target", name, len(tables), start)
        definitions = replace(self.definitions, tables={name: known.create for name, known in tables.items()})
        return replace(self, schemas=one._schemas(tables), definitions=definitions).with_dm_extent(start)

    def _ddl_since(self, start: Location, stop: threading.Event) -> Sequence[LoggedStatement]:
        """Read the DDL of the log between `start` and today."""
        source = self.beginning.source
        name, bounded = source.config.source_id, not source.spec.config.enable_relay
        with closing(self.beginning.tail()) as tail:

            def plans(here: Location, prepared: tuple[PreparedXa, ...]) -> Planned:
                """Return the plan of the whole log, from event headers only."""
                return tail.plan(Cursor(here, prepared), EpochLimits(goal=self.today))

            def idle(here: Location, seconds: float) -> None:
                tail.idle(Cursor(here), seconds)

            held = private_log_plans(tail.local, self.today) if bounded else plans
            statements = statements_between(held, idle, start, self.today, stop, source=name, bounded=bounded)
            return read_log(statements, self.server)

    def with_dm_extent(self, start: Location) -> _StartingSourceState:
        """Return a copy with the changes after the start that DM may have applied. Raises KeylessUncertain,
        CheckpointUnusable."""
        one = self.beginning
        if one.dm is None:
            return self
        extent = one.dm.extent(start, self.today)
        schemas = extent.skipping(one.dm.checkpoint, self.schemas)
        connection = target_connection(one.source.target)
        targets = read_tables(connection, existing_tables(connection, {it.target for it in schemas}))
        extent.check_keys(one.source.config.source_id, start, keyless_of(schemas, targets))
        return replace(self, schemas=schemas, dm_extent=extent)

    def verified_start(self, stop: threading.Event) -> Location:
        """Return the verified start with its GTID set. Waits until the log reaches it. Raises StartNotInLog,
        NotBegunYet."""
        one = self.beginning
        try:
            verified = self._verified(one.configured, stop)
        except StartNotInLog:
            if one.dm is None or not one.dm.by_gtid or not one.dm.checkpoint.point.gtid_set:
                raise
        else:
            if one.dm is None or one.dm.is_at_checkpoint(verified):
                return verified
        return self._verified(find_place(one.dm.endpoint, after=one.dm.checkpoint.point.gtid_set), stop)

    def _verified(self, place: Location, stop: threading.Event) -> Location:
        """Verify that a location is between two transactions of the log, and return it with its GTID set."""
        place = replace(place, suffix=self.today.suffix, server_uuid=self.today.server_uuid)
        self._check_size(place)
        began = time.monotonic()
        try:
            with closing(self.beginning.tail()) as tail:
                while (gtid_set := tail.gtid_set_at(place)) is None:
                    tail.idle(Cursor(place), time.monotonic() - began)
                    if stop.wait(LOCATION_POLL_SECONDS):
                        task, source = self.beginning.source.fence.ref.key
                        raise NotBegunYet(
                            f"task {task}, source {source}: nothing was begun, because the log has not reached {place} "
                            "yet.",
                            "Run the task again. If the log still does not reach the location, check the relay of the "
                            "source (`dmctl query-status`).",
                        )
        except LocationNotInLog as error:
            raise self._refused(place, error.reason) from error
        return replace(place, gtid_set=gtid_set)

    def _check_size(self, place: Location) -> None:
        """Raise StartNotInLog for a location that neither the source nor the relay log can have."""
        size = next((binlog.size for binlog in self.binlogs if binlog.name == place.file), None)
        if size is not None and size < place.position:
            raise self._refused(place, f"that file ends at {size}")
        if size is None and not self._is_held(place):
            held = f"{self.binlogs[0].name} to {self.binlogs[-1].name}" if self.binlogs else "no binlog"
            raise self._refused(place, f"the source has {held}, and the relay log does not have that file either")

    def _is_held(self, place: Location) -> bool:
        try:
            return bool(RelayReader(Path(self.beginning.source.spec.relay_dir)).files(place))
        except DmError:
            return False

    def _refused(self, place: Location, reason: str) -> StartNotInLog:
        return StartNotInLog(*self.beginning.source.fence.ref.key, str(place), reason)

    def begin(self, start: Location) -> None:
        """Begin the subtask, in one transaction."""
        source, by_hand, dm = self.beginning.source, self.beginning.by_hand(), self.dm_extent
        is_exact = source.config.syncer.safe_mode_duration == 0  # so a user has declared `meta`
        until = dm.until if dm is not None else None if is_exact else self.today

        def body(connection: Connection) -> None:
            begin_subtask(
                connection,
                source.fence,
                unit=UNIT_SYNC,
                start=start,
                overwrite_until=until,
                safe_mode_seconds=log_seconds(source.config.syncer, exit_is_known=dm is not None and dm.exit_is_known),
            )
            if self.beginning.dm is not None:
                flush_interval = source.config.syncer.checkpoint_flush_interval
                self.beginning.dm.check_still(connection, source.fence.ref, flush_interval)
            withdraw_all(connection, source.fence.ref)  # left from a deleted task with the same name
            save_table_schemas(connection, source.fence.ref, self.schemas)
            begin_definitions(connection, source.fence.ref, self.definitions, by_hand)
            save_online_ddls(connection, source.fence.ref, OnlineDdls())

        run_transaction(source.target, body)
