"""The points of DM's checkpoint: their order, and the location of the global point in the source's log.

Without heavy imports, because launchers need the start location before the app starts (launch/starts.py).
"""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_dm.engine.downstream.dm_checkpoint import DmCheckpoint, DmPoint
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.gtid import GtidSet
from airflow_provider_dm.engine.mysql.location import BinlogFile, Location
from airflow_provider_dm.engine.relay.places import find_place


def place_to_begin(checkpoint: DmCheckpoint, endpoint: Endpoint, *, by_gtid: bool) -> Location:
    """Return the location from which the source's log is needed, as known before that log is read.

    `by_gtid`: the source's `enable-gtid`. Raises PlaceNotFound, CheckpointUnusable, InvalidGtidSet, and the errors of
    querying the source.
    """
    point = checkpoint.point
    if point.gtid_set and (by_gtid or point.place is None):
        return find_place(endpoint, after=point.gtid_set)
    if point.place is None:
        raise checkpoint.unusable("its global point names no file")
    return replace(point.place, suffix=1, gtid_set=point.gtid_set)


def is_after(point: DmPoint, other: DmPoint, *, by_gtid: bool) -> bool | None:
    """Return True if `point` is after `other` in the log, False if it is not, None if the order is unknown.

    If the GTID sets are equal, the position decides: inside a transaction the set may be that of the transaction's
    beginning.
    """
    if by_gtid and point.gtid_set and other.gtid_set:
        here, there = GtidSet.of_text(point.gtid_set), GtidSet.of_text(other.gtid_set)
        if here.contains(there) and there.contains(here):
            return _is_further(point, other) or False  # positions of two servers have no order: the sets are equal
        return False if there.contains(here) else True if here.contains(there) else None
    return _is_further(point, other)


def _is_further(point: DmPoint, other: DmPoint) -> bool | None:
    if point.place is None or other.place is None:
        return None
    mine, theirs = (BinlogFile.parse(one.file) for one in (point.place, other.place))
    suffixes = point.place.suffix, other.place.suffix
    if same_suffix(*suffixes):
        if mine.base != theirs.base:
            return None
        return (mine.number, point.place.position) > (theirs.number, other.place.position)
    return suffixes[0] > suffixes[1] if all(suffixes) else None


def same_suffix(one: int, other: int) -> bool:
    """Return True if two relay sub-directory numbers of DM mean the same log; 0: the upstream's log, no relay."""
    return one == other or {one, other} == {0, 1}
