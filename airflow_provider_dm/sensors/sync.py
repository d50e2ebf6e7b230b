"""Sensors that wait until the sync of a task has a small lag, has passed a location, or holds no rows back."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_dm.sensors.base import MetadataSensor

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_dm.launch.sync_state import Condition
    from airflow_provider_dm.operators.inputs import Document
    from airflow_provider_dm.triggers.base import AwaitTrigger

WAITS_SINCE_KEY: Final = "dm_waits_since"


class SyncBroken(AirflowFailException):
    """The sync has ended with an error that a user must resolve; a retry would find the same error."""


class _SyncSensor(MetadataSensor):
    """The base of this module's sensors, which read the state of a sync until it meets a condition."""

    broken = SyncBroken
    template_fields: Sequence[str] = ("task", "dm_meta_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"task": "json"}

    def __init__(self, *, task: Document, dm_meta_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(dm_meta_conn_id=dm_meta_conn_id, **kwargs)
        self.task = task
        self._began_waiting_at: float | None = None

    @abstractmethod
    def _condition(self, context: Context) -> Condition:
        """Return the condition to wait for."""

    @abstractmethod
    def _sources(self) -> list[str]:
        """Return the sources to wait for; []: all."""

    def _waits_since(self, context: Context) -> float:
        """Return when this attempt began to wait, in seconds since the epoch. Earlier errors are ignored."""
        if self._began_waiting_at is None:
            self._began_waiting_at = float(self._once_per_attempt(context, WAITS_SINCE_KEY, lambda: str(time.time())))
        return self._began_waiting_at

    def _page_parameters(self, context: Context) -> dict[str, str]:
        return {"task": self._name_of(self.task, context)}

    def _trigger(self, context: Context, **common: Any) -> AwaitTrigger:
        from airflow_provider_dm.launch.sync_state import condition_json
        from airflow_provider_dm.triggers.sync import SyncStateTrigger

        return SyncStateTrigger(
            task_name=self._name_of(self.task, context),
            sources=self._sources(),
            condition=condition_json(self._condition(context)),
            began_at=self._waits_since(context),
            **common,
        )


class _SourcesSensor(_SyncSensor):
    """The base of the sensors that wait for several sources."""

    template_fields: Sequence[str] = (*_SyncSensor.template_fields, "sources")

    def __init__(
        self, *, task: Document, sources: Sequence[str] | None = None, dm_meta_conn_id: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(task=task, dm_meta_conn_id=dm_meta_conn_id, **kwargs)
        self.sources = sources

    def _sources(self) -> list[str]:
        from airflow_provider_dm.operators.arguments import texts

        return list(texts(self.sources, "sources"))


class SyncLagSensor(_SourcesSensor):
    """A sensor that waits until the lag of a task's sync is small on every source.

    The lag is the age of the oldest commit of the source whose rows may be missing in the target, including held-back
    rows. It grows while no run is working. A sync that an error has ended fails the sensor.

    :param task: the task's name, the path of its ``task.yaml`` (relative: to the DAG file), or a dictionary with its
        keys
    :param max_lag: the largest lag, in seconds if it is a number
    :param sources: source-ids; None: all sources that a run has reported
    :param dm_meta_conn_id: Airflow connection of the metadata DB; None: ``[dm] metadata_conn_id``
    :param deferrable: wait in the triggerer
    :param end_from_trigger: let the triggerer end the task, which saves a worker slot at the end too; not used with
        ``outlets``, which only a worker handles
    :param poke_interval: seconds between two polls

    Returns the lag in seconds, by source.
    """

    def __init__(
        self,
        *,
        task: Document,
        max_lag: timedelta | float = 10.0,
        sources: Sequence[str] | None = None,
        dm_meta_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(task=task, sources=sources, dm_meta_conn_id=dm_meta_conn_id, **kwargs)
        self.max_lag = max_lag

    def _condition(self, context: Context) -> Condition:
        from airflow_provider_dm.launch.sync_state import LagAtMost

        return LagAtMost(self.max_lag.total_seconds() if isinstance(self.max_lag, timedelta) else float(self.max_lag))


class CheckpointPassedSensor(_SyncSensor):
    """A sensor that waits until a task has applied everything before a location of one source's log.

    Rows that are held back for other shards may still be missing: see :class:`NoRowsHeldBackSensor`. If the source
    fails over while the sensor waits, the default goal is compared by its GTID set; a given ``location`` then
    refers to the binlog of the new server. A sync that an error has ended fails the sensor.

    :param task: the task's name, the path of its ``task.yaml`` (relative: to the DAG file), or a dictionary with its
        keys
    :param source_id: the source
    :param location: ``FILE:POSITION`` of the source; None: the end of its binlog when the sensor starts
    :param source_conn_id: Airflow connection of the source, to read the end of its binlog; None: the connection whose
        id is the source-id
    :param dm_meta_conn_id: Airflow connection of the metadata DB; None: ``[dm] metadata_conn_id``
    :param deferrable: wait in the triggerer
    :param end_from_trigger: let the triggerer end the task, which saves a worker slot at the end too; not used with
        ``outlets``, which only a worker handles
    :param poke_interval: seconds between two polls

    Returns the location that is applied, by source.
    """

    template_fields: Sequence[str] = (*_SyncSensor.template_fields, "source_id", "location", "source_conn_id")

    def __init__(
        self,
        *,
        task: Document,
        source_id: str,
        location: str | None = None,
        source_conn_id: str | None = None,
        dm_meta_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(task=task, dm_meta_conn_id=dm_meta_conn_id, **kwargs)
        self.source_id = source_id
        self.location = location
        self.source_conn_id = source_conn_id

    def _sources(self) -> list[str]:
        return [self.source_id]

    def _condition(self, context: Context) -> Condition:
        from airflow_provider_dm.launch.sync_state import Passed

        return Passed(self._goal_of(context, self.location, self.source_id, self.source_conn_id))


class NoRowsHeldBackSensor(_SourcesSensor):
    """A sensor that waits until a task's sync holds no row back on any source.

    Rows are held back after a DDL that not all shards of a merged table have executed, and while another row of the
    merged table has the same key or unique value. A comparison of source and target reports such rows as missing. A
    sync that an error has ended fails the sensor.

    :param task: the task's name, the path of its ``task.yaml`` (relative: to the DAG file), or a dictionary with its
        keys
    :param sources: source-ids; None: all sources that a run has reported
    :param dm_meta_conn_id: Airflow connection of the metadata DB; None: ``[dm] metadata_conn_id``
    :param deferrable: wait in the triggerer
    :param end_from_trigger: let the triggerer end the task, which saves a worker slot at the end too; not used with
        ``outlets``, which only a worker handles
    :param poke_interval: seconds between two polls

    Returns a mapping from each source to null.
    """

    def _condition(self, context: Context) -> Condition:
        from airflow_provider_dm.launch.sync_state import NothingHeld

        return NothingHeld()
