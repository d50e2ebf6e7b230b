"""Triggers of asset-driven DAGs, which fire for each new state.

    RelayAdvancedEventTrigger   a relay log has received more of its source's binlog
    CaughtUpEventTrigger        a task's sync has applied more, up to the end of every source's binlog
    DdlLockEventTrigger         shards have executed different DDL, or a DDL lock is older than a limit

The last state for which a trigger has fired is kept in Airflow's asset state store, so changes while no triggerer runs
are not missed. It is written after the event: if the triggerer dies in between, the trigger fires again for the same
state. Use each trigger for one asset only, because the state is stored per asset.
"""

from __future__ import annotations

import asyncio
import math
from abc import abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_dm.triggers.base import MetadataTrigger, TriggerData

if TYPE_CHECKING:
    from airflow_provider_dm.engine.meta.store import MetaStore

FIRED_FOR_KEY: Final = "dm_fired_for"


@dataclass(kw_only=True, eq=False, repr=False)
class MetadataEventTrigger(MetadataTrigger, BaseEventTrigger):
    """The base of the event triggers: polls a state, and yields an event for each new state."""

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield an event for each new state, without an end."""
        fired_for = None if self.asset_state_store is None else await self.asset_state_store.aget(FIRED_FOR_KEY)
        async for event in self._polls(self._event):
            if not event or event["state"] == fired_for:
                continue
            yield TriggerEvent(event)
            fired_for = event["state"]
            if self.asset_state_store is not None:
                await self.asset_state_store.aset(FIRED_FOR_KEY, fired_for)

    async def _wait(self) -> TriggerData:
        await asyncio.Event().wait()  # run() never ends
        raise AssertionError("an event trigger has no last event")

    @abstractmethod
    def _event(self, store: MetaStore) -> TriggerData | None:
        """Return the event of the current state, with the key ``state``; None: no event."""


@dataclass(kw_only=True, eq=False, repr=False)
class RelayAdvancedEventTrigger(MetadataEventTrigger):
    """A trigger that fires when the relay log of a source has grown, once for each location that it polls.

    :param source_id: the source
    :param dm_meta_conn_id: connection of the metadata DB; None: ``[dm] metadata_conn_id``
    :param poll_interval: seconds between two polls

    Events: ``{"source", "location", "state"}``.
    """

    source_id: str

    def _event(self, store: MetaStore) -> TriggerData | None:
        status = store.relay_status(self.source_id)
        if status is None or status.relay is None:
            return None
        return {"source": self.source_id, "location": str(status.relay), "state": status.relay.sort_key}


@dataclass(kw_only=True, eq=False, repr=False)
class CaughtUpEventTrigger(MetadataEventTrigger):
    """A trigger that fires when a task's sync has applied everything that its sources had written, and holds nothing
    back; and again when it has applied more.

    :param task_name: the task's name
    :param dm_meta_conn_id: connection of the metadata DB; None: ``[dm] metadata_conn_id``
    :param poll_interval: seconds between two polls

    Events: ``{"task", "locations": {source: location}, "state"}``.
    """

    task_name: str

    def _event(self, store: MetaStore) -> TriggerData | None:
        from airflow_provider_dm.launch.status import last_run, progress_of

        run, known = last_run(store, self.task_name), store.list_subtasks(task=self.task_name)
        if not known or not all(subtask.applied and progress_of(subtask, run).get("caught_up") for subtask in known):
            return None
        locations = {subtask.source: str(subtask.applied) for subtask in known}
        return {"task": self.task_name, "locations": locations, "state": locations}


@dataclass(kw_only=True, eq=False, repr=False)
class DdlLockEventTrigger(MetadataEventTrigger):
    """A trigger that fires when DDL locks need attention: shards have executed different DDL, or a lock is older than a
    limit. It fires again when the set of these locks has changed and is not empty.

    :param task_name: the task's name; None: all tasks
    :param older_than_seconds: the age from which a waiting lock needs attention; None: only locks with different DDL
    :param dm_meta_conn_id: connection of the metadata DB; None: ``[dm] metadata_conn_id``
    :param poll_interval: seconds between two polls

    Events: ``{"locks": [lock, as dmctl shard-ddl-lock shows it], "state"}``.
    """

    task_name: str | None = None
    older_than_seconds: float | None = None

    def _event(self, store: MetaStore) -> TriggerData | None:
        from airflow_provider_dm.launch.ddl_locks import lock_json, overdue_locks

        limit = math.inf if self.older_than_seconds is None else self.older_than_seconds
        locks = [lock_json(lock, age) for lock, age in overdue_locks(store, self.task_name, limit)]
        if not locks:
            return None
        return {"locks": locks, "state": sorted(f"{lock['ID']} {lock['number']} {lock['phase']}" for lock in locks)}
