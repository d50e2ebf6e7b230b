"""What a copy does about merged tables, beside writing its pages: it looks after the rows that wait for their places.

Before a source is handed over, rows of it that wait are looked into. Where two source tables hold them both, the copy
ends here. Else they go along to the sync: what holds their places is a row that another source has moved or deleted
since it was copied, and only its log says so. Task-mode full reads no log, so there nothing may be left. With
`safe-mode: true` all of them go along, as the sync will write them over what holds their places
(sync/safe_mode/last_wins.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from airflow_provider_dm.engine.config.task import TaskMode
from airflow_provider_dm.engine.copy.loading import Loading, Source
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.merge.contests import Contests, WrittenToMeanwhile
from airflow_provider_dm.engine.merge.overwritable import can_be_written_over
from airflow_provider_dm.engine.merge.records import Records
from airflow_provider_dm.engine.merge.servers import Servers
from airflow_provider_dm.engine.merge.writer import MOST_WHILE_COPYING, TooManyContested
from airflow_provider_dm.engine.mysql.endpoint import Endpoint


@dataclass(frozen=True)
class Sharing:
    """The contests of those sources of one run that are being copied and have merged tables."""

    target: Endpoint
    contests: dict[str, Contests]
    stop: Callable[[], bool]

    @classmethod
    def of(
        cls, target: Endpoint, loadings: Iterable[Loading], sources: Iterable[Source], stop: Callable[[], bool]
    ) -> Sharing:
        """Return the contests of a run. `sources`: all of the run, as rows of any of them may be asked for."""
        sources = list(sources)
        endpoints = {source.id: source.endpoint for source in sources}
        routers = {source.id: source.rules.router for source in sources}

        def contests(source: Source) -> Contests:
            servers = Servers(target, source.fence.ref, endpoints, routers)
            found = Contests(source.fence, servers, MOST_WHILE_COPYING)
            if source.subtask.syncer.safe_mode and source.subtask.mode is not TaskMode.FULL:
                found.spares = can_be_written_over
            return found

        shared = (loading.source for loading in loadings if any(loading.numbers.values()))
        return cls(target, {source.id: contests(source) for source in shared}, stop)

    def look(self) -> None:
        """Look at the contests between two rounds. Raises RowsCollide and what else `Contests.look` raises."""
        for contests in self.contests.values():
            contests.look()

    def explain(self, error: DmError) -> None:
        """Say which rows collide, if a round has failed by that. Raises RowsCollide."""
        if isinstance(error, TooManyContested):
            for contests in self.contests.values():
                contests.confirm(self._wait)

    def finish(self, loading: Loading) -> int:
        """Confirm the contests once all is copied. Returns how many rows of this source go along to the sync.

        Raises RowsCollide and WrittenToMeanwhile.
        """
        source = loading.source
        contests = self.contests.get(source.id)
        if contests is None:
            return 0
        left = contests.confirm(self._wait)
        if left and source.subtask.mode is TaskMode.FULL:
            why = "rows were moved between the source tables or deleted there while they were copied"
            raise WrittenToMeanwhile(source.id, left, why)
        return left

    def remove_records(self, loading: Loading) -> None:
        """Forget whose the rows of a source are, at the end of task-mode full."""
        if loading.source.id in self.contests:
            contests = self.contests[loading.source.id]
            Records(contests.fence, contests.around, full=True).remove_all()

    def _wait(self, seconds: float) -> bool:
        time.sleep(seconds)
        return self.stop()
