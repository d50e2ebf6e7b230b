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
- MySQL without GTIDs: `FLUSH TABLES WITH READ LOCK` waits for the commits under way and blocks new ones, for the time
  of one statement; bounded by lock_wait_timeout and tried again. It needs RELOAD.

`high_watermark`, for the end, may simply ask: a row that a SELECT has shown was in the binlog before (of transactional
engines; others are refused when the copy is planned).

`table_snapshot` is for tables without a key: a connection whose open transaction shows the table exactly as it was at a
location, no transaction more or less. MariaDB: the statement above. MySQL: `LOCK TABLES t READ` waits until nobody has
uncommitted changes in t (metadata locks last until the commit is complete), then a second connection takes its snapshot
and the position is read before the lock goes."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Final, TypeVar

import pymysql

from airflow_provider_dm.engine.errors import DmError, NotSupportedYet, Reaction, Scope
from airflow_provider_dm.engine.mysql.binlog_status import current_location
from airflow_provider_dm.engine.mysql.connection import Connection, connect, connected, query, server_info, text
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.error_numbers import ACCESS_DENIED
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location

log = logging.getLogger(__name__)

OWNED_WAIT_SECONDS: Final = 30
LOCK_WAIT_SECONDS: Final = 5
LOCK_ATTEMPTS: Final = 6
LOCK_PAUSE_SECONDS: Final = 2.0

_LOCK_WAIT_TIMEOUT: Final = 1205

T = TypeVar("T")


class WatermarkBlocked(DmError):
    """Commits or long statements on the source did not let us take a safe location in time."""

    source: str
    waited_for: str
    seconds: float

    code = "DM-7001"
    scope = Scope.UPSTREAM
    reaction = Reaction.RETRY
    what = "{source}: no safe binlog location in {seconds:.0f} s, waiting for {waited_for}."
    hint = "Look for transactions that hang in commit, and for long-running statements or locks."


class WatermarkNotPermitted(DmError):
    """The account may not take the short lock that this source needs."""

    source: str
    privilege: str
    reason: str

    code = "DM-7002"
    scope = Scope.UPSTREAM
    what = "{source}: the privilege {privilege} is missing ({reason})."
    hint = "Grant it to the replication account, or set gtid_mode=ON where only the location is needed."


def low_watermark(endpoint: Endpoint) -> Location:
    """Return a location before which everything is visible to all SELECTs from now on (module docstring).

    Raises WatermarkBlocked (retry), WatermarkNotPermitted, and what connecting raises.
    """
    with connected(endpoint) as connection:
        if server_info(connection).capabilities.snapshots_are_located:
            return _mariadb_snapshot(connection)
        if _gtid_mode_on(connection):
            return _after_owned_gtids(connection, endpoint.name)
        return _under_global_lock(connection, endpoint.name)


def high_watermark(endpoint: Endpoint) -> Location:
    """Return a location behind everything that any SELECT has shown so far."""
    with connected(endpoint) as connection:
        return current_location(connection)


@contextmanager
def table_snapshot(endpoint: Endpoint, table: TableName) -> Iterator[tuple[Connection, Location]]:
    """Yield a connection in a read transaction that shows `table` exactly as of the location that comes with it.

    Raises WatermarkBlocked (retry), WatermarkNotPermitted.
    """
    with connected(endpoint) as connection:
        if server_info(connection).capabilities.snapshots_are_located:
            yield connection, _mariadb_snapshot(connection)
        else:
            yield connection, _mysql_table_snapshot(connection, endpoint, table)


def _mariadb_snapshot(connection: Connection) -> Location:
    query(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    found = {
        text(name).lower(): text(value) for name, value in query(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'")
    }
    file, position = found.get("binlog_snapshot_file", ""), found.get("binlog_snapshot_position", "")
    if not file:
        raise NotSupportedYet("a copy from a server without a binlog", "binlog_snapshot_file is empty", "Set log_bin.")
    ((gtid_set,),) = query(connection, "SELECT BINLOG_GTID_POS(%s, %s)", (file, int(position)))
    server_uuid = server_info(connection).server_uuid
    return Location(file, int(position), text(gtid_set or b""), server_uuid=server_uuid)


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


def _under_global_lock(connection: Connection, source: str) -> Location:
    def locked() -> Location:
        query(connection, "FLUSH TABLES WITH READ LOCK")
        try:
            return current_location(connection)
        finally:
            query(connection, "UNLOCK TABLES")

    return _with_short_lock(connection, source, "RELOAD", locked)


def _mysql_table_snapshot(reader: Connection, endpoint: Endpoint, table: TableName) -> Location:
    with closing(connect(endpoint)) as locker:

        def locked() -> Location:
            query(locker, f"LOCK TABLES {table.quoted()} READ")
            try:
                query(reader, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
                return current_location(locker)
            finally:
                query(locker, "UNLOCK TABLES")

        return _with_short_lock(locker, endpoint.name, "LOCK TABLES", locked)


def _with_short_lock(connection: Connection, source: str, privilege: str, body: Callable[[], T]) -> T:
    """Call `body`, which takes a lock. Our wait for it makes others wait behind us: so wait briefly, let them go on,
    and try again. Raises WatermarkBlocked, WatermarkNotPermitted.
    """
    query(connection, "SET SESSION lock_wait_timeout = %s", (LOCK_WAIT_SECONDS,))
    began = time.monotonic()
    for attempt in range(1, LOCK_ATTEMPTS + 1):
        try:
            return body()
        except pymysql.err.MySQLError as error:
            number, reason = (*error.args, 0, "")[:2]
            if number in ACCESS_DENIED:
                raise WatermarkNotPermitted(source, privilege, str(reason)) from error
            if number != _LOCK_WAIT_TIMEOUT:
                raise
            log.warning("%s: lock not granted in %d s, attempt %d", source, LOCK_WAIT_SECONDS, attempt)
            time.sleep(LOCK_PAUSE_SECONDS)
    raise WatermarkBlocked(source, f"a short lock ({privilege})", time.monotonic() - began)
