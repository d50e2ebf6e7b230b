"""Where a sync reports its position: the target, DM's checkpoint, and the metadata DB."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import Final

from airflow_provider_dm.engine.downstream.frontier import Transactions
from airflow_provider_dm.engine.downstream.subtask import note_location
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.model import Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.shard.group import needed_with
from airflow_provider_dm.engine.sync.checkpoint import DmPoints, Points
from airflow_provider_dm.engine.sync.shard_ddl.shards import Shards
from airflow_provider_dm.engine.sync.standing import Standing

log = logging.getLogger(__name__)

NOTE_SECONDS: Final = 2.0


@dataclass
class Notes:
    """The notes that one sync makes, and when it last did. `points` None: DM's checkpoint table is not
    written. `unit`: the one that is reported, also for a load during which the log is applied."""

    transactions: Transactions
    store: MetaStore
    shards: Shards
    points: DmPoints | None
    unit: Unit = Unit.SYNC
    _noted_at: float = field(default=0.0, init=False)

    @property
    def due(self) -> bool:
        """True if the last notes are old."""
        return time.monotonic() - self._noted_at >= NOTE_SECONDS

    def begins(self) -> None:
        """Note that what follows may be applied in part from now on. Raises Fenced, TargetWentBack."""
        if self.points is not None:
            self.points.begins()

    def tables_changed(self) -> None:
        """Have DM's checkpoint written with the tables' definitions as they are now."""
        if self.points is not None:
            self.points.tables_changed()

    def in_target(self, standing: Standing, stage: Stage) -> None:
        """Keep the GTID set beside the frontier, and DM's checkpoint where that is due, or the sync ends.

        Raises Fenced, TargetWentBack.
        """
        fence, at, exact = standing.fence, standing.applied, standing.safe_mode.until is None
        self.transactions(lambda connection: note_location(connection, fence, at, exact=exact))
        ends = stage is Stage.STOPPED
        if self.points is not None and (ends or self.points.is_due()):
            self.points.write(self._points(standing), (standing.edge or at) if ends else None)

    def exit_point(self, standing: Standing) -> None:
        """Write into DM's checkpoint how far the sync may have come that ends by an error, if the target takes it."""
        if self.points is None:
            return
        furthest = standing.furthest or standing.edge or standing.applied
        try:
            self.points.write(self._points(standing), furthest)
        except DmError as error:
            log.info("DM's checkpoint does not show where the sync has ended: %s", error)

    def elsewhere(self, standing: Standing, stage: Stage) -> None:
        """Tell the metadata DB which log is still needed."""
        ref, applied = standing.fence.ref, standing.applied
        self.shards.locks.report_pending()
        needed = needed_with(standing.needed, self.shards.groups.values())
        try:
            reported = applied if self.unit is Unit.SYNC else None
            if self.unit is Unit.LOAD and stage is Stage.STOPPED:
                stage = Stage.RUNNING  # the load goes on
            self.store.put_subtask(*ref.key, unit=self.unit, stage=stage, needed=needed, applied=reported)
        except DmError as error:
            log.warning("the metadata DB does not know that the sync has reached %s: %s", applied, error)
        self._noted_at = time.monotonic()

    def _points(self, standing: Standing) -> Points:
        at, groups = standing.applied, self.shards.groups.values()
        return Points.of(at, standing.needed, groups, uncertain=standing.uncertain)
