"""Locations in one server's log that must be passed before reading continues in another server's log.

Information that refers to a location is valid in that log only: where half an epoch ends, which statement was executed,
up to where a table is copied. After a failover the same transactions are repeated at other locations, which cannot be
matched. So such a location is *open* until reading has reached it, and reading must not leave its log before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_dm.engine.binlog.errors import OldLogNotHeld
from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.mysql.location import Location, missing_at


@dataclass(frozen=True)
class OpenPlace:
    """A location and the information that refers to it. `what`: "half an epoch ends there".

    `within`: a location at or after it whose GTID set is known. A reader that has all of that set has passed both, even
    if the log does not reach the location (the file was rotated, and nothing followed).
    """

    source: str
    place: Location
    what: str
    within: Location | None = None

    def is_open(self, here: Location) -> bool:
        """Return True if a reader at `here`, before another server's log, has not passed the location."""
        if self.place.sort_key <= here.sort_key:
            return False
        known = self.within
        return known is None or not (known.gtid_set and here.gtid_set) or bool(missing_at(here, known))


def half_epoch(source: str, edge: Location) -> OpenPlace:
    """Return the end of an epoch that some buckets have applied (frontier rule 1)."""
    return OpenPlace(source, edge, "some of the rows up to there are written")


def first_open(places: Sequence[OpenPlace], here: Location, suffix: int) -> OpenPlace | None:
    """Return the first open location after `here` in a sub-directory before the one of this number."""
    places_left = (place for place in places if place.place.suffix < suffix and place.is_open(here))
    return min(places_left, key=lambda place: place.place.sort_key, default=None)


def check_passed(places: Sequence[OpenPlace], here: Location, newer: LogFile) -> None:
    """Check that no location is open at `here`, the end of a log that continues in the file `newer`.

    Raises OldLogNotHeld.
    """
    lost = first_open(places, here, newer.suffix)
    if lost is not None:
        raise OldLogNotHeld(lost.source, str(here), str(lost.place), lost.what, str(newer))
