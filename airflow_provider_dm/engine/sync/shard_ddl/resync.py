"""Re-sync: apply the rows of shards that were held back, with a frontier of their own (a lane).

The sync has passed a part of the log in which it skipped the rows of the held shards. The re-sync reads this part
again, with its own log reader, and folds and writes the rows like any others, under the same fence; but it moves the
buckets of the lane. So after a crash it repeats the same epoch, and applies no row twice (frontier rule 1).

Each shard's held-back rows have a beginning (the end of its DDL) and an end (its next DDL, or the position of the
sync). An epoch ends at each of these locations, so that its tables are the same throughout. Rows of other tables and
all DDL in this part are processed already, and skipped.

The lane has a plan for each part between two such locations. The plan's fingerprint is saved before the first write: a
half-applied epoch is completed by the plan that began it (frontier rule 6), even if the configuration has changed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import assert_never

from airflow_provider_dm.engine.binlog.open_places import OpenPlace, half_epoch
from airflow_provider_dm.engine.binlog.planned import UNLIMITED, DdlStatement, Epoch, EpochLimits, UpToDate
from airflow_provider_dm.engine.downstream.frontier import read_whole_frontier
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.downstream.session import run_transaction, target_connection
from airflow_provider_dm.engine.downstream.shard_groups import note_resync, resync_fence
from airflow_provider_dm.engine.downstream.subtask import Subtask, read_subtask
from airflow_provider_dm.engine.downstream.table_schema import TableSchema, load_table_schemas
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.location import Location, Order, compare, has_passed, reached
from airflow_provider_dm.engine.relay.reader import RelayReader
from airflow_provider_dm.engine.shard.group import Group, HeldRows
from airflow_provider_dm.engine.sync.epoch import EpochApplier
from airflow_provider_dm.engine.sync.log.locations import Cursor, with_gtid_set
from airflow_provider_dm.engine.sync.log.tail import Tail
from airflow_provider_dm.engine.sync.loop_state import LoopState
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.ports import SourceLog
from airflow_provider_dm.engine.sync.progress import SyncProgress
from airflow_provider_dm.engine.sync.safe_mode.last_wins import check_waiting
from airflow_provider_dm.engine.sync.start.opening import applied_and_edge, plan_for, plan_to_begin_with, with_safe_mode
from airflow_provider_dm.engine.sync.sync_source import SyncSource
from airflow_provider_dm.engine.sync.write.apply import ApplyResult

log = logging.getLogger(__name__)

WAIT_SECONDS = 0.2
"""Seconds between two reads of a log that a relay is pulling again."""


def tail_of_held(source: SyncSource, store: MetaStore) -> Tail:
    """Return the log reader of the lane. It needs no fallback, as the sync has read this part of the log before."""
    return replace(Tail.of(source.job, source.config.source_id, store, SyncProgress()), upstream=None)


@dataclass
class Resyncing:
    """The re-sync of one group; for the thread of its sync. `on_applied` is called after each epoch."""

    applier: EpochApplier
    store: MetaStore
    stop: threading.Event
    at: LoopState
    """The state of the sync, which waits during the re-sync."""
    on_applied: Callable[[ApplyResult], None]
    group: Group

    def run(self) -> bool:
        """Apply all held-back rows of the group. Return False if a stop was requested before the end.

        Raises EarlierLogMissing, RulesChanged, and what reading and applying raise.
        """
        resync = self.group.resync
        assert resync is not None
        if not resync.pieces:
            return True
        subtask, lo, edge = self._extent(resync.lo)
        begun = replace(subtask, plan=resync.plan)
        log.info("applying the held-back rows of %s, from %s to %s", self.group.target, lo, resync.stops()[-1])
        with closing(tail_of_held(self.source, self.store)) as tail:
            for stop in resync.stops(*self.at.safe_mode.ends):
                if reached(lo, stop):
                    continue
                pieces = resync.before(stop)
                plan = self._plan(pieces, lo)
                first = plan_to_begin_with(plan, begun, lo, edge)
                lane = _Lane(self, tail, LoopState(self.fence, lo, lo, edge, stop, plan, first, self.at.safe_mode))
                if not pieces:
                    lane.advance(stop)
                elif not lane.run():
                    return False
                lo, edge = lane.state.here, None
        return True

    @property
    def source(self) -> SyncSource:
        return self.applier.source

    @property
    def fence(self) -> Fence:
        return resync_fence(self.source.fence, self.group)

    def _extent(self, known: Location) -> tuple[Subtask, Location, Location | None]:
        connection, ref = target_connection(self.source.target), self.source.fence.ref
        subtask, frontier = read_subtask(connection, ref), read_whole_frontier(connection, self.fence.ref)
        assert subtask is not None
        reader, begun = RelayReader(Path(self.source.spec.relay_dir)), replace(subtask, location=known, start=None)
        lo, edge = applied_and_edge(frontier, begun, reader.base_of)
        # Its GTID set is needed to skip repeated transactions after a failover.
        lo = with_gtid_set(lo, begun, reader, by_gtid=self.source.spec.config.enable_gtid)
        return subtask, lo, edge

    def _plan(self, pieces: Sequence[HeldRows], lo: Location) -> SyncPlan:
        connection: Connection = target_connection(self.source.target)
        known = {schema.table.name: schema for schema in load_table_schemas(connection, self.source.fence.ref)}
        schemas = [
            replace(known.get(piece.shard) or TableSchema(piece.table, self.group.target), table=piece.table)
            for piece in pieces
        ]
        plan = plan_for(self.source, schemas, self.at.plan.buckets, also_merged={self.group.target})
        check_waiting(connection, self.source.fence.ref, plan)
        newest = {piece.table.name: piece.shard for piece in pieces if piece.shard != piece.table.name}
        sources = tuple(replace(source, shard=newest.get(source.table.name)) for source in plan.sources)
        plan = with_safe_mode(self.source, plan, overwrites=self.at.safe_mode.is_lenient(lo))
        return replace(plan, alone=True, sources=sources)

    def note(self, plan: SyncPlan) -> None:
        """Save a plan's fingerprint before the first write by it. Raises Fenced, TargetWentBack."""
        resync, fingerprint = self.group.resync, plan.fingerprint()
        assert resync is not None
        if resync.plan == fingerprint:
            return
        after, fence, target = replace(resync, plan=fingerprint), self.source.fence, self.group.target
        run_transaction(self.source.target, partial(note_resync, fence=fence, target=target, resync=after))
        self.group = replace(self.group, resync=after)


@dataclass
class _Lane:
    """The re-sync of the log up to one stop, which is the goal of `state`."""

    of: Resyncing
    tail: SourceLog
    state: LoopState
    moved_at: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._take_plan()

    def run(self) -> bool:
        """Apply the log up to the goal; return False if a stop was requested before."""
        while not self.state.at_goal:
            if self.of.stop.is_set():
                return False
            edge, goal, size = self.state.edge, self.state.goal, self.of.applier.size
            assert goal is not None
            max_bytes = UNLIMITED if edge is not None else size.limit
            limits = EpochLimits(edge or goal, max_bytes, size.range_bytes(self.of.applier.runner.slots))
            match planned := self.tail.plan(self._cursor(goal), limits):
                case Epoch(hi=hi) if edge is None or compare(hi, edge) is Order.SAME:
                    self._epoch(planned)
                case Epoch():
                    self._wait(goal)  # the half-applied epoch is longer: the relay has not pulled all of it again
                case DdlStatement():
                    rows = planned.rows_epoch()
                    if rows is not None:
                        self._epoch(rows)
                    elif compare(self.state.applied, planned.end) is not Order.SAME:
                        self.advance(planned.end)
                case UpToDate(at) if has_passed(at, goal):
                    self.advance(goal)
                case UpToDate():
                    self._wait(goal)  # a relay with an empty directory is pulling the log again
                case _:
                    assert_never(planned)
        return True

    def _cursor(self, stop: Location) -> Cursor:
        """Return the cursor. Its open places require the log of the same server, as the ends have no GTID sets."""
        end = OpenPlace(self.of.source.fence.ref.source, stop, "rows up to there were held back")
        edge = self.state.edge
        places = (end,) if edge is None else (half_epoch(end.source, edge), end)
        return Cursor(self.state.here, self.state.prepared, places)

    def _wait(self, stop: Location) -> None:
        """Wait for the log. Raises RelaySilent if no relay pulls it, and RelayFileGone."""
        self.of.stop.wait(WAIT_SECONDS)
        self.tail.idle(self._cursor(stop), time.monotonic() - self.moved_at)

    def _epoch(self, epoch: Epoch) -> None:
        applied = self.of.applier.apply(epoch, self.state)
        self._moved(self.state.after(epoch))
        self.of.on_applied(applied)

    def advance(self, hi: Location) -> None:
        """Move all buckets to `hi`: the log in between has no changes."""
        self.of.applier.advance(self.state, hi)
        self._moved(replace(self.state.at(hi), edge=None))

    def _moved(self, to: LoopState) -> None:
        self.state, self.moved_at = to, time.monotonic()
        self._take_plan()

    def _take_plan(self) -> None:
        """Write the next epoch by the current plan, unless an epoch is half applied by another plan."""
        plan = self.state.plan
        if self.state.edge is not None:
            return
        self.of.note(plan)
        self.state = replace(self.state, written_by=plan)
