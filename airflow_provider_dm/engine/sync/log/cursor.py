"""The cursor of a log reader."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_dm.engine.binlog.open_places import OpenPlace
from airflow_provider_dm.engine.binlog.xa import PreparedXa
from airflow_provider_dm.engine.mysql.location import Location


@dataclass(frozen=True)
class Cursor:
    """A location of a log, with the state that is needed to continue reading there."""

    place: Location
    prepared: tuple[PreparedXa, ...] = ()
    """The XA transactions that are prepared at `place`."""
    open_places: tuple[OpenPlace, ...] = ()
    """Later locations that are valid in the log of their own server only."""

    def __str__(self) -> str:
        return str(self.place)
