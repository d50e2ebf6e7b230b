"""The location before which everything is visible: where the copy starts, and where it has surely ended.

The law. `low_watermark` gives a location P0 such that every transaction *before* P0 is seen by every SELECT that begins
after the function returned. What a chunk read after P0 does not show, the binlog from P0 on does: nothing is lost.

Why not ask for the position and then read? A commit writes the binlog first and becomes visible in the storage engine
a moment later. A transaction in that moment lies before the position, and the SELECT misses it (gh-ost lost rows so).

What makes each way right:
- MariaDB: `START TRANSACTION WITH CONSISTENT SNAPSHOT` opens the engine's snapshot under the lock that orders commits,
  and `binlog_snapshot_file/position` is the place in the binlog of that very snapshot. What one snapshot sees, every
  later one sees.
- MySQL with gtid_mode=ON, no lock: read the position P, *then* `@@gtid_owned`. A transaction takes its GTID before it
  writes the binlog, and gives it back only after it has become visible in the engine. So whatever lies before P and was
  not visible is among the owned; wait until `gtid_executed` holds all of those.
- MySQL without GTIDs: a momentary read lock on the tables (snapshot.py) is granted when the commits under way
  have ended.

`high_watermark`, for the end, may simply ask: a row that a SELECT has shown was in the binlog before (of transactional
engines; others are refused when the copy is planned)."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from airflow_provider_dm.engine.copy.snapshot import ReadUnderLock, WatermarkBlocked, located_snapshot, read_under_lock
from airflow_provider_dm.engine.mysql.binlog_status import current_location, location_at
from airflow_provider_dm.engine.mysql.connection import Connection, connected, query, server_info, text
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location

OWNED_WAIT_SECONDS: Final = 30


def low_watermark(endpoint: Endpoint, tables: Collection[TableName]) -> ReadUnderLock[Location]:
    """Return a location before which everything in `tables` is visible to all SELECTs from now on (module docstring).

    Raises WatermarkBlocked (retry), WatermarkNotPermitted, and what connecting raises.
    """
    with connected(endpoint) as connection:
        if server_info(connection).capabilities.snapshots_are_located:
            return ReadUnderLock(location_at(connection, located_snapshot(connection)))
        if _gtid_mode_on(connection):
            return ReadUnderLock(_after_owned_gtids(connection, endpoint.name))
    return read_under_lock(endpoint, tables, lambda held: current_location(held.connection))


def high_watermark(endpoint: Endpoint) -> Location:
    """Return a location behind everything that any SELECT has shown so far."""
    with connected(endpoint) as connection:
        return current_location(connection)


def _gtid_mode_on(connection: Connection) -> bool:
    return text(query(connection, "SELECT @@GLOBAL.gtid_mode")[0][0]).upper() == "ON"


def _after_owned_gtids(connection: Connection, source: str) -> Location:
    location = current_location(connection)
    owned = plain_gtid_set(text(query(connection, "SELECT @@GLOBAL.gtid_owned")[0][0]))
    if owned:
        ((timed_out,),) = query(connection, "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)", (owned, OWNED_WAIT_SECONDS))
        if timed_out:
            raise WatermarkBlocked(source, "transactions in commit", OWNED_WAIT_SECONDS)
    return location


def plain_gtid_set(owned: str) -> str:
    """Return `@@gtid_owned` (`uuid:4#11:5#12`, number#thread) as a GTID set.

    >>> plain_gtid_set("3e11fa47-71ca-11e1-9e33-c80aa9429562:4#11:5#12")
    '3e11fa47-71ca-11e1-9e33-c80aa9429562:4:5'
    """
    return re.sub(r"#\d+", "", owned).strip()
