"""Reports the position of a sync to the target, to DM's checkpoint table and to the metadata DB."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import Final

from airflow_provider_dm.engine.binlog.planned import Epoch
from airflow_provider_dm.engine.downstream.frontier import Transactions
from airflow_provider_dm.engine.downstream.prepared_xa import forget_ended, note_prepared
from airflow_provider_dm.engine.downstream.subtask import note_location
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.records import Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.shard.group import needed_with
from airflow_provider_dm.engine.sync.checkpoint import CheckpointPoints, DmPoints
from airflow_provider_dm.engine.sync.loop_state import LoopState, prepared_after
from airflow_provider_dm.engine.sync.shard_ddl.source_shards import Shards

log = logging.getLogger(__name__)

NOTE_SECONDS: Final = 2.0


@dataclass
class SyncNotes:
    """The reports of one sync. `points` None: DM's checkpoint table is not written. `unit`: the unit that is reported,
    LOAD while a load applies the log between its rounds."""

    transactions: Transactions
    store: MetaStore
    shards: Shards
    points: DmPoints | None
    unit: Unit = Unit.SYNC
    _noted_at: float = field(default=0.0, init=False)

    @property
    def due(self) -> bool:
        """True if the last report is at least NOTE_SECONDS old."""
        return time.monotonic() - self._noted_at >= NOTE_SECONDS

    def begins(self) -> None:
        """Record that the log that follows may be applied in part from now on. Raises Fenced, TargetWentBack."""
        if self.points is not None:
            self.points.begins()

    def tables_changed(self) -> None:
        """Make the next write of DM's checkpoint include the current table definitions."""
        if self.points is not None:
            self.points.tables_changed()

    def in_target(self, state: LoopState, stage: Stage) -> None:
        """Write the GTID set next to the frontier, and DM's checkpoint if that is due or the sync ends.

        Raises Fenced, TargetWentBack.
        """
        fence, at, exact = state.fence, state.applied, state.safe_mode.until is None
        self.transactions(lambda connection: note_location(connection, fence, at, exact=exact))
        ends = stage is Stage.STOPPED
        if self.points is not None and (ends or self.points.is_due()):
            self.points.write(self._points(state), (state.edge or at) if ends else None)

    def exit_point(self, state: LoopState) -> None:
        """Write the end of the log that may be applied into DM's checkpoint, for a sync that ends by an error.

        An error of the target is logged only.
        """
        if self.points is None:
            return
        furthest = state.furthest or state.edge or state.applied
        try:
            self.points.write(self._points(state), furthest)
        except DmError as error:
            log.info("DM's checkpoint is not written at the end of the sync: %s", error)

    def elsewhere(self, state: LoopState, stage: Stage) -> None:
        """Report the stage, the position and the oldest log location that is still needed to the metadata DB."""
        ref, applied = state.fence.ref, state.applied
        self.shards.locks.report_pending()
        needed = needed_with(state.needed, self.shards.groups.values())
        try:
            reported = applied if self.unit is Unit.SYNC else None
            if self.unit is Unit.LOAD and stage is Stage.STOPPED:
                stage = Stage.RUNNING  # the load continues
            self.store.put_subtask(*ref.key, unit=self.unit, stage=stage, needed=needed, applied=reported)
        except DmError as error:
            log.warning("the position %s was not reported to the metadata DB: %s", applied, error)
        self._noted_at = time.monotonic()

    def _points(self, state: LoopState) -> CheckpointPoints:
        at, groups = state.applied, self.shards.groups.values()
        return CheckpointPoints.of(at, state.needed, groups, uncertain=state.uncertain)


def note_xa(transactions: Transactions, state: LoopState, epoch: Epoch) -> None:
    """Record in the target which XA transactions the epoch prepares and ends, before any of its rows are applied.

    Raises Fenced, TargetWentBack.
    """
    still_prepared = prepared_after(state.prepared, epoch)
    began = [transaction for transaction in still_prepared if transaction not in state.prepared]
    ended = [transaction for transaction in state.prepared if transaction not in still_prepared]
    if began or ended:
        hi = epoch.hi.sort_key
        transactions(lambda connection: note_prepared(connection, state.fence, began=began, ended=ended, hi=hi))


def forget_xa(transactions: Transactions, state: LoopState, epoch: Epoch) -> None:
    """Delete the records of XA transactions that the epoch has ended, once all buckets have applied it.

    `state`: the state before the epoch.

    Raises Fenced, TargetWentBack.
    """
    still_prepared = prepared_after(state.prepared, epoch)
    if any(transaction not in still_prepared for transaction in state.prepared):
        transactions(lambda connection: forget_ended(connection, state.fence, epoch.hi.sort_key))
