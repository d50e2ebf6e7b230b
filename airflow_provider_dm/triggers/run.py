"""The trigger that watches the run of a deferred task."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_provider_dm.triggers.base import MetadataTrigger, TriggerData

if TYPE_CHECKING:
    from airflow_provider_dm.engine.errors import DmError
    from airflow_provider_dm.engine.meta.records import Run
    from airflow_provider_dm.engine.meta.store import MetaStore
    from airflow_provider_dm.launch.submit import AppOutcome

STOP_SECONDS: Final = 25.0
"""Maximum time for which the request to stop is repeated, after a kill and at the deadline."""
PAUSE_SECONDS: Final = 3.0
"""The time in which a launcher reads a pause request before a stop request replaces it. The launcher restores the pause
after the stop."""
_ENDING: Final[set[asyncio.Future[None]]] = set()
"""Requests to stop that are in progress."""


@dataclass(kw_only=True, eq=False, repr=False)
class RunWatchTrigger(MetadataTrigger):
    """A trigger that fires when a run has ended, or at its deadline. A paused run has not ended.

    At the deadline, or when a user ends the deferred task, the run is asked to stop.

    :param task_name: the task's name
    :param sources: the sources that the run works on
    :param app: the run's app
    :param run_id: the run
    :param launcher: identity of the process that launched it
    :param launched_at: when it was launched, in seconds since the epoch
    :param deadline: when it is asked to stop, in seconds since the epoch; None: never
    :param dm_meta_conn_id: connection of the metadata DB; None: ``[dm] metadata_conn_id``
    :param poll_interval: seconds between two polls

    Events: ``{"status": "ended" | "timeout", "run_id"}``, ``{"status": "gone", "run_id", "message"}``,
    ``{"status": "error", "message"}``.
    """

    task_name: str
    sources: list[str]
    app: str
    run_id: str
    launcher: str
    launched_at: float
    deadline: float | None

    async def on_kill(self) -> None:
        """Ask the run to stop after a user has ended the deferred task, unless another attempt watches it already.

        Airflow cancels this call after about a second; the request continues in the triggerer's event loop.
        """
        ending = asyncio.ensure_future(self._end())
        _ENDING.add(ending)  # the event loop keeps only a weak reference
        ending.add_done_callback(_ENDING.discard)
        await asyncio.shield(ending)

    async def _end(self) -> None:
        if (state := await self._task_state()) in ("deferred", "running"):
            self.log.info("another attempt of the task is %s; run %s continues", state, self.run_id)
            return
        self.log.info("asking run %s to stop, as the task is %s now", self.run_id, state)
        await self._stop(time.time() + STOP_SECONDS)

    async def _wait(self) -> TriggerData:
        from airflow_provider_dm.launch.errors import RunLost
        from airflow_provider_dm.launch.progress_report import ProgressReporter, ReportOutput

        reporter: ProgressReporter | None = None

        def read(store: MetaStore) -> AppOutcome | DmError | None:
            nonlocal reporter
            run, state = self._run_in(store)
            report_output = ReportOutput(self.log.info, self.log.info)
            reporter = reporter or ProgressReporter(self.app, self.task_name, self.run_id, store, report_output)
            reporter.report_if_due(run=run)
            return state

        silent = False
        async for state in self._polls(read):
            if self.deadline is not None and time.time() >= self.deadline:
                await self._stop(time.time() + STOP_SECONDS)
                return {"status": "timeout", "run_id": self.run_id}
            match state:
                case None:
                    silent = False
                case RunLost(reason=why) if silent:
                    return {"status": "gone", "run_id": self.run_id, "message": why}
                case RunLost():  # poll again: after an outage the metadata DB first shows old reports
                    silent = True
                case _:
                    return {"status": "ended", "run_id": self.run_id}
        raise AssertionError("the loop has no end")

    async def _stop(self, deadline: float) -> None:
        """Ask the run to stop, repeatedly until it has ended: a source can be asked only after its first report."""
        from airflow_provider_dm.engine.meta.records import Stage

        paused_since: dict[str, float] = {}

        def ask(store: MetaStore) -> bool:
            if self._run_in(store)[1] is not None:
                return True
            for one in store.list_subtasks(task=self.task_name):
                if one.source not in self.sources or one.desired is Stage.STOPPED:
                    continue
                now = time.monotonic()
                if one.desired is not Stage.PAUSED or now - paused_since.setdefault(one.source, now) > PAUSE_SECONDS:
                    store.set_subtask_desired(self.task_name, one.source, Stage.STOPPED)
            return False

        while True:
            if await self._with_store(ask) or time.time() >= deadline:
                return
            await asyncio.sleep(1.0)

    def _run_in(self, store: MetaStore) -> tuple[Run | None, AppOutcome | DmError | None]:
        """Return the run's row and its state."""
        from airflow_provider_dm.engine.processes import has_ended
        from airflow_provider_dm.launch.run_state import run_end

        ended = has_ended(self.launcher)  # before the row is read, as a launcher writes the outcome before it ends
        waited = time.time() - self.launched_at
        run = store.get_run(self.run_id)
        return run, run_end(self.run_id, self.app, run, launcher_ended=ended, waited_seconds=waited)
