"""The base of the triggers that wait for a state in the metadata DB.

A trigger has connection ids, resolves them in the triggerer, and polls the metadata DB in a thread, with one short
transaction per poll. The first poll is made after ten seconds: a trigger that fires while its task is still being
deferred can make the task fail (Airflow issues 71580, 72716). A deadline is absolute, so a restart of the triggerer
does not extend it. If the metadata DB does not answer, the next poll tries again.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.triggers.base import BaseTrigger, TaskSuccessEvent, TriggerEvent

from airflow_provider_dm.launch.awaited import UNKNOWN, Awaited, Broken, Met, NotYet

if TYPE_CHECKING:
    from airflow_provider_dm.engine.meta.store import MetaStore
    from airflow_provider_dm.engine.mysql.endpoint import Secret

TriggerData = dict[str, Any]
T = TypeVar("T")

FIRST_DELAY_SECONDS: Final = 10.0
"""The time for Airflow to record that the task is deferred."""
STORES: Final = 8
"""Maximum number of open metadata DBs. A changed password is a new URL, and so a new entry."""


_LOOKUPS: Final[set[asyncio.Future[Secret]]] = set()
"""The lookups of connections that are under way."""


def _forget(lookup: asyncio.Future[Secret]) -> None:
    """Remove a lookup, and retrieve its error, which asyncio would log otherwise."""
    _LOOKUPS.discard(lookup)
    if not lookup.cancelled():
        lookup.exception()


@lru_cache(maxsize=STORES)
def _store_of(url: Secret) -> MetaStore:
    """Return the store that all triggers of this process share, with a few connections. Raises the errors of
    `MetaStore.open`; the next call then tries again.
    """
    from airflow_provider_dm.engine.meta.store import MetaStore

    return MetaStore.open(url)


@dataclass(kw_only=True, eq=False, repr=False)
class MetadataTrigger(BaseTrigger):
    """The base of triggers that poll the metadata DB. Each is a dataclass of its arguments."""

    dm_meta_conn_id: str | None
    poll_interval: float

    def __post_init__(self) -> None:
        super().__init__()

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments, none of which is secret."""
        kind = type(self)
        return f"{kind.__module__}.{kind.__qualname__}", {one.name: getattr(self, one.name) for one in fields(self)}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event, then end."""
        try:
            event = await self._wait()
        except Exception as error:  # noqa: BLE001  it reaches the task's log as the reason of its failure
            event = {"status": "error", "message": f"{type(error).__name__}: {error}"}
        yield self._as_event(event)

    @abstractmethod
    async def _wait(self) -> TriggerData:
        """Poll until the trigger fires, and return its event."""

    async def _task_state(self) -> str | None:
        """Return the state of this trigger's task instance; None if it does not exist (any more)."""
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        ti = self.task_instance
        if ti is None:
            return None
        mapped = ti.map_index if ti.map_index >= 0 else None
        rows = await asyncio.to_thread(
            RuntimeTaskInstance.get_task_states,
            dag_id=ti.dag_id,
            task_ids=[ti.task_id],
            run_ids=[ti.run_id],
            map_index=mapped,
        )
        states = rows.get(ti.run_id) or {}
        state = states.get(ti.task_id if mapped is None else f"{ti.task_id}_{mapped}")
        return None if state is None else str(getattr(state, "value", state))

    def _as_event(self, event: TriggerData) -> TriggerEvent:
        return TriggerEvent(event)

    async def _polls(self, read: Callable[[MetaStore], T], *, deadline: float = math.inf) -> AsyncIterator[T | None]:
        """Yield the result of each poll, at intervals of `poll_interval`, until a poll after the deadline (in seconds
        since the epoch). None: the metadata DB does not answer.
        """
        delay = FIRST_DELAY_SECONDS
        while True:
            await asyncio.sleep(max(0.0, min(delay, deadline - time.time())))
            delay = self.poll_interval * random.uniform(0.9, 1.1)
            yield await self._with_store(read)

    async def _with_store(self, use: Callable[[MetaStore], T]) -> T | None:
        """Return the result of `use`, called in a thread. None: the metadata DB does not answer."""
        from airflow_provider_dm.engine.errors import TransientErrorsLogged

        with TransientErrorsLogged(self.log.warning):
            lookup = asyncio.ensure_future(self._url())
            _LOOKUPS.add(lookup)  # the event loop keeps only a weak reference
            lookup.add_done_callback(_forget)
            # Cancelled inside, asgiref would drop the message by which Airflow knows that a user ended the task.
            url = await asyncio.shield(lookup)
            return await asyncio.to_thread(lambda: use(_store_of(url)))
        return None

    async def _url(self) -> Secret:
        """Return what `DmMetadataHook.url` returns, without blocking the event loop."""
        from airflow_provider_dm.hooks import settings
        from airflow_provider_dm.hooks.metadata import url_of, url_without_connection

        conn_id = self.dm_meta_conn_id or settings.option("metadata_conn_id")
        try:
            return url_of(await BaseHook.aget_connection(conn_id))
        except AirflowNotFoundException:
            return url_without_connection(conn_id)


@dataclass(kw_only=True, eq=False, repr=False)
class AwaitTrigger(MetadataTrigger):
    """The base of the triggers of sensors: fires when the awaited condition is met, when a user has to act first,
    and at the deadline.

    A failure is raised by a worker, because the kind of the error decides about Airflow's retries.
    """

    deadline: float
    end_from_trigger: bool

    @abstractmethod
    def state(self, store: MetaStore) -> Awaited:
        """Return the present state. Raises the errors of reading."""

    async def _wait(self) -> TriggerData:
        async for found in self._polls(self.state, deadline=self.deadline):
            match found or UNKNOWN:
                case Met(value):
                    return {"status": "met", "value": value}
                case Broken(why, locks):
                    return {"status": "broken", "message": why, "locks": list(locks)}
                case NotYet(why, locks) if time.time() >= self.deadline:
                    return {"status": "timeout", "message": why, "locks": list(locks)}
                case NotYet(why):
                    self.log.info("%s", why)
        raise AssertionError("the loop has no end")

    def _as_event(self, event: TriggerData) -> TriggerEvent:
        if self.end_from_trigger and event["status"] == "met":
            return TaskSuccessEvent(xcoms={"return_value": event["value"]})
        return TriggerEvent(event)
