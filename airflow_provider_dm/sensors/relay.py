"""A sensor that waits until a relay log has reached a location of its source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException

from airflow_provider_dm.sensors.base import MetadataSensor

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_dm.triggers.base import AwaitTrigger


class RelayBroken(AirflowException):
    """The relay has ended with an error and will not catch up."""


class RelayCatchUpSensor(MetadataSensor):
    """A sensor that waits until the relay log of a source holds everything up to a location.

    The default is the end of the source's binlog at the sensor's start, so the sensor also ends while applications
    write. With ``deferrable`` it uses no worker slot. If the relay switches to another server, the default goal is
    compared by its GTID set; a given ``min_location`` then refers to the binlog of the new server.

    The sensor waits for a relay that is paused, cannot reach its source, or has no disk space, because it can continue
    later. A relay that has ended with an error fails the sensor.

    :param source_id: the source
    :param min_location: ``FILE:POSITION`` of the source; None: the end of its binlog when the sensor starts
    :param source_conn_id: Airflow connection of the source, to read the end of its binlog; None: the connection whose
        id is the source-id
    :param dm_meta_conn_id: Airflow connection of the metadata DB; None: ``[dm] metadata_conn_id``
    :param deferrable: wait in the triggerer
    :param end_from_trigger: let the triggerer end the task, which saves a worker slot at the end too; not used with
        ``outlets``, which only a worker handles
    :param poke_interval: seconds between two polls

    Returns the relay's location.
    """

    broken = RelayBroken
    template_fields: Sequence[str] = ("source_id", "min_location", "source_conn_id", "dm_meta_conn_id")

    def __init__(
        self,
        *,
        source_id: str,
        min_location: str | None = None,
        source_conn_id: str | None = None,
        dm_meta_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(dm_meta_conn_id=dm_meta_conn_id, **kwargs)
        self.source_id = source_id
        self.min_location = min_location
        self.source_conn_id = source_conn_id

    def _page_parameters(self, context: Context) -> dict[str, str]:
        return {"source": self.source_id}

    def _trigger(self, context: Context, **common: Any) -> AwaitTrigger:
        from airflow_provider_dm.triggers.relay import RelayCatchUpTrigger

        goal = self._goal_of(context, self.min_location, self.source_id, self.source_conn_id)
        return RelayCatchUpTrigger(source_id=self.source_id, goal=goal, **common)
