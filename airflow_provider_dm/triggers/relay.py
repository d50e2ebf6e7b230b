"""What a deferred `RelayCatchUpSensor` runs in the triggerer.

It holds connection ids, resolves them where it runs, and looks at the metadata DB in a thread, one short transaction
at a time. The first look comes after ten seconds: a trigger that fires while its task is still being deferred can get
the task failed (Airflow issues 71580, 72716). The deadline is absolute, so a triggerer that restarts extends nothing.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.triggers.base import BaseTrigger, TaskFailedEvent, TaskSuccessEvent, TriggerEvent

if TYPE_CHECKING:
    from airflow_provider_dm.engine.mysql.endpoint import Secret
    from airflow_provider_dm.hooks.relay import RelayProgress

FIRST_DELAY_SECONDS: Final = 10.0


class RelayCatchUpTrigger(BaseTrigger):
    """Fire when the relay log of a source has reached a location, will not reach it, or the time is over.

    :param source_id: the source
    :param goal: ``FILE:POSITION``
    :param dm_meta_conn_id: connection of the metadata DB
    :param poll_interval: seconds between two looks
    :param deadline: when to give up, in seconds since the epoch
    :param end_from_trigger: end the task here, instead of resuming it on a worker
    :param first_delay: seconds before the first look

    Events: ``{"status": "caught-up", "location"}``, ``{"status": "broken" | "timeout" | "error", "message"}``.
    """

    def __init__(
        self,
        *,
        source_id: str,
        goal: str,
        dm_meta_conn_id: str | None,
        poll_interval: float,
        deadline: float,
        end_from_trigger: bool,
        first_delay: float = FIRST_DELAY_SECONDS,
    ) -> None:
        super().__init__()
        self.source_id = source_id
        self.goal = goal
        self.dm_meta_conn_id = dm_meta_conn_id
        self.poll_interval = poll_interval
        self.deadline = deadline
        self.end_from_trigger = end_from_trigger
        self.first_delay = first_delay

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Path and arguments, none of them secret."""
        return (
            "airflow_provider_dm.triggers.relay.RelayCatchUpTrigger",
            {
                "source_id": self.source_id,
                "goal": self.goal,
                "dm_meta_conn_id": self.dm_meta_conn_id,
                "poll_interval": self.poll_interval,
                "deadline": self.deadline,
                "end_from_trigger": self.end_from_trigger,
                "first_delay": self.first_delay,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event, then the end."""
        try:
            event = await self._wait()
        except Exception as error:  # noqa: BLE001  it reaches the task's log as the reason of its failure
            event = {"status": "error", "message": f"{type(error).__name__}: {error}"}
        yield self._as_event(event)

    async def _wait(self) -> dict[str, Any]:
        from airflow_provider_dm.hooks.relay import Behind, Broken, CaughtUp

        url = await self._url()
        delay = self.first_delay
        while True:
            await asyncio.sleep(max(0.0, min(delay, self.deadline - time.time())))
            delay = self.poll_interval * random.uniform(0.9, 1.1)
            match await asyncio.to_thread(look, url, self.source_id, self.goal):
                case CaughtUp(at):
                    return {"status": "caught-up", "location": str(at)}
                case Broken(why):
                    return {"status": "broken", "message": why}
                case Behind(why) if time.time() >= self.deadline:
                    return {"status": "timeout", "message": f"the relay of {self.source_id} did not catch up: {why}"}
                case Behind(why):
                    self.log.info("%s", why)

    def _as_event(self, event: dict[str, Any]) -> TriggerEvent:
        if not self.end_from_trigger:
            return TriggerEvent(event)
        if event["status"] == "caught-up":
            return TaskSuccessEvent(xcoms={"return_value": event["location"]})
        self.log.error("%s", event["message"])
        return TaskFailedEvent()

    async def _url(self) -> Secret:
        """As `DmMetadataHook.url`, without blocking the loop."""
        from airflow_provider_dm.hooks import settings
        from airflow_provider_dm.hooks.metadata import url_of, url_without_connection

        conn_id = self.dm_meta_conn_id or settings.metadata_conn_id()
        try:
            return url_of(await BaseHook.aget_connection(conn_id))
        except AirflowNotFoundException:
            return url_without_connection(conn_id)


def look(url: Secret, source_id: str, goal: str) -> RelayProgress:
    """One look at the metadata DB, in a connection of its own: an older one might not see what is new."""
    from airflow_provider_dm.engine.meta.store import MetaStore
    from airflow_provider_dm.engine.mysql.location import Location
    from airflow_provider_dm.hooks.relay import judge

    with MetaStore.open(url) as store:
        return judge(store.relay_status(source_id), Location.parse(goal))
