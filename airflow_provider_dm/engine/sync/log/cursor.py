"""Where a log is to be read on."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_dm.engine.binlog.open_places import OpenPlace
from airflow_provider_dm.engine.binlog.xa import Prepared
from airflow_provider_dm.engine.mysql.location import Location


@dataclass(frozen=True)
class Cursor:
    """A place of a log, with all that has to be known to read on from there."""

    place: Location
    prepared: tuple[Prepared, ...] = ()
    """The XA transactions that are prepared at `place`."""
    open_places: tuple[OpenPlace, ...] = ()
    """Places ahead that are known in the log of their own server only."""

    def __str__(self) -> str:
        return str(self.place)
