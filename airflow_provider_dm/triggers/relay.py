"""Triggers that wait until a relay has caught up, and that watch the relay of a deferred task."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_provider_dm.launch.awaited import Awaited, Met
from airflow_provider_dm.triggers.base import AwaitTrigger, MetadataTrigger, TriggerData

if TYPE_CHECKING:
    from airflow_provider_dm.engine.meta.records import RelayStatus, Stage
    from airflow_provider_dm.engine.meta.store import MetaStore
    from airflow_provider_dm.engine.mysql.location import Location
    from airflow_provider_dm.engine.relay.health import RelayStart

RELAY_STOP_SECONDS: Final = 10.0
"""The time that a triggerer waits for the metadata DB to store the request to stop a relay."""
POLLS_LOG_SECONDS: Final = 300.0


@dataclass(kw_only=True, eq=False, repr=False)
class RelayCatchUpTrigger(AwaitTrigger):
    """A trigger that fires when the relay log of a source has reached a location or can no longer reach it, and at
    the deadline.

    :param source_id: the source
    :param goal: ``FILE:POSITION``, or a `hooks.relay.goal_text`
    :param deadline: when to give up, in seconds since the epoch
    :param end_from_trigger: end the task here, instead of resuming it on a worker
    :param dm_meta_conn_id: connection of the metadata DB; None: ``[dm] metadata_conn_id``
    :param poll_interval: seconds between two polls

    Events: ``{"status": "met", "value": location}``, ``{"status": "broken" | "timeout", "message", "locks"}``,
    ``{"status": "error", "message"}``.
    """

    source_id: str
    goal: str

    def state(self, store: MetaStore) -> Awaited:
        """Return the relay's progress."""
        from airflow_provider_dm.hooks.relay import goal_of, progress_to

        return progress_to(store.relay_status(self.source_id), goal_of(self.goal))


@dataclass(kw_only=True, eq=False, repr=False)
class RelayWatchTrigger(MetadataTrigger):
    """A trigger that watches the relay of a deferred `DmRelayOperator`, and fires when a worker must act.

    A running relay needs no action, even if it reports that it is paused, cannot reach its source, or has no disk
    space.

    :param source_id: the source
    :param goal: a `hooks.relay.goal_text` at which the task ends; None: the task ends when the relay is stopped
    :param stop_on_kill: the relay was started for this task, and ends when a user ends the deferred task
    :param began_at: the start of this relay process, in seconds since the epoch
    :param deaths: the number of successive crashes before this start
    :param dm_meta_conn_id: connection of the metadata DB; None: ``[dm] metadata_conn_id``
    :param poll_interval: seconds between two polls

    Events have ``status`` and ``source``: ``stopped``, ``caught-up``, ``failed`` with ``error``, ``gone`` with
    ``message``, ``deaths`` and ``goal``; ``error`` with ``message``.
    """

    source_id: str
    goal: str | None
    stop_on_kill: bool
    began_at: float
    deaths: int

    async def on_kill(self) -> None:
        """Ask the relay to stop after a user has ended the deferred task, unless another attempt watches it already.

        Airflow also calls this after a triggerer was unreachable and its triggers were moved to another triggerer.
        """
        from airflow_provider_dm.engine.meta.records import Stage

        if not self.stop_on_kill:
            self.log.info("the relay of %s was not started by this task and continues", self.source_id)
            return
        if (state := await self._task_state()) in ("deferred", "running"):
            self.log.info("another attempt of the task is %s; the relay of %s continues", state, self.source_id)
            return
        await self._set_desired(Stage.STOPPED)
        self.log.info("asked the relay of %s to stop, as the task is %s now", self.source_id, state)
        if await self._task_state() in ("deferred", "running"):  # the next attempt has started, and needs the relay
            await self._set_desired(Stage.RUNNING)

    async def _set_desired(self, stage: Stage) -> None:
        await asyncio.wait_for(
            self._with_store(lambda store: store.set_relay_desired(self.source_id, stage)), RELAY_STOP_SECONDS
        )

    async def _wait(self) -> TriggerData:
        from airflow_provider_dm.engine.relay.health import RelayStart, doing
        from airflow_provider_dm.hooks.relay import goal_of

        goal = goal_of(self.goal) if self.goal else None
        life = RelayStart(self.began_at, self.deaths)
        log_at = 0.0
        async for row in self._polls(
            lambda store: (store.relay_status(self.source_id), store.relay_desired(self.source_id))
        ):
            if row is None:
                continue
            event = next_event(*row, goal, life, time.time(), ours=self.stop_on_kill)
            if event is not None:
                return {**event, "source": self.source_id, "goal": self.goal}
            status = row[0]
            if status is not None and time.monotonic() >= log_at:
                log_at = time.monotonic() + POLLS_LOG_SECONDS
                line = "the relay of %s, process %s on %s: %s"
                self.log.info(line, self.source_id, status.pid, status.host, doing(status))
        raise AssertionError("the loop has no end")


def next_event(
    status: RelayStatus | None,
    desired: Stage | None,
    goal: Location | None,
    life: RelayStart,
    now: float,
    *,
    ours: bool,
) -> TriggerData | None:
    """Return the event for a worker; None to continue watching. Pure. `ours`: the relay was started for this task."""
    from airflow_provider_dm.engine.relay import health
    from airflow_provider_dm.hooks.relay import progress_to

    if goal is not None and isinstance(progress_to(status, goal), Met):
        return {"status": "caught-up"}
    match health.relay_state(status, desired):
        case health.RelayAlive():
            return None
        case health.AskedToStop():
            return {"status": "stopped"}
        case health.RelayFailure(error) if ours:
            return {"status": "failed", "error": error}
        case health.RelayFailure(error):  # with another configuration, perhaps
            return {"status": "gone", "message": health.error_text(error), "deaths": 0}
        case health.RelayCaughtUp():  # a relay that was started with its own goal
            return {"status": "gone", "message": "it ended at its goal", "deaths": 0}
        case health.RelayGone(why):
            ended_at = now - (health.age_of(status) if status is not None else 0.0)
            return {"status": "gone", "message": why, "deaths": health.deaths_after(life, ended_at)}
