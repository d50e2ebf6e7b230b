"""Transactions that are already applied when reading continues in another server's log.

A new sub-directory begins with a complete file, so it repeats transactions of the older one. They are recognized
individually by their ids: a replica may have committed independent transactions in another order. `Remaining` has the
applied transactions that were not found in this log yet; while any are left, each transaction is checked against it,
and after the last one the log is read normally.

A transaction that is not applied, before one that is, was reordered by a replica with parallel workers; but only if it
comes from the same servers as the applied ones, and only if the server has the others too. Otherwise two servers were
written to at the same time, and no order of their changes is correct: an error, before that transaction.
"""

from __future__ import annotations

import bisect
from abc import ABC, abstractmethod
from typing import cast
from uuid import UUID

from airflow_provider_dm.engine.binlog.errors import FailoverNotFollowed
from airflow_provider_dm.engine.binlog.gtid_events import Gtid, gtid_text
from airflow_provider_dm.engine.errors import MIGRATE_AGAIN, InvariantBroken
from airflow_provider_dm.engine.mysql.gtid import GtidSet, Interval, MariadbGtid, MariadbGtidSet, MysqlGtidSet, Sid

FROM_THE_NEW_SERVER = f"From the new server, with a new relay-dir, {MIGRATE_AGAIN}."


def history_diverged(at: str, gtid: str, left: str) -> FailoverNotFollowed:
    return FailoverNotFollowed(
        f"the transaction {gtid} at {at} was committed by a server that lacked applied transactions ({left}).",
        "The old and the new server were written to independently, so their changes have no common order. "
        + FROM_THE_NEW_SERVER,
    )


def not_numbered(at: str) -> FailoverNotFollowed:
    return FailoverNotFollowed(
        f"after a failover every transaction needs a GTID, but {at} has none.",
        f"Both servers must have had gtid_mode=ON since before the failover. {FROM_THE_NEW_SERVER}",
    )


class Remaining(ABC):
    """The applied transactions that were not found yet in the log that is read.

    Mutable; true while any are left.
    """

    @staticmethod
    def of(applied: GtidSet, read: GtidSet, server_uuid: str) -> Remaining:
        """Return the applied transactions that the log repeats.

        `read`: everything before the location where reading begins, in this server's log.
        """
        if isinstance(applied, MysqlGtidSet) and isinstance(read, MysqlGtidSet):
            return _MysqlLeft(applied, read, server_uuid)
        if isinstance(applied, MariadbGtidSet) and isinstance(read, MariadbGtidSet):
            return _MariadbLeft(applied, read, server_uuid)
        raise InvariantBroken("GTID sets of one source are of one family", f"{applied!r} and {read!r}")

    @abstractmethod
    def __bool__(self) -> bool: ...

    @abstractmethod
    def __str__(self) -> str: ...

    @abstractmethod
    def take(self, gtid: Gtid, at: str) -> bool:
        """Take the next transaction of the log, which ends at `at`; return True if it is applied.

        Raises FailoverNotFollowed.
        """


class _MysqlLeft(Remaining):
    """The exact set, with gaps and tags: transaction numbers of one server may come in any order."""

    def __init__(self, applied: MysqlGtidSet, read: MysqlGtidSet, server_uuid: str) -> None:
        self._left: dict[tuple[bytes, str], list[tuple[int, int]]] = {}
        for sid, interval in applied.minus(read).flat():
            self._left.setdefault((UUID(sid.uuid).bytes, sid.tag), []).append((interval.first, interval.last))
        self._origins = {UUID(sid.uuid).bytes for sid in applied.intervals if sid.uuid != server_uuid.lower()}

    def __bool__(self) -> bool:
        return bool(self._left)

    def __str__(self) -> str:
        left = ((Sid(str(UUID(bytes=uuid)), tag), intervals) for (uuid, tag), intervals in self._left.items())
        return str(MysqlGtidSet.of((sid, Interval(*interval)) for sid, intervals in left for interval in intervals))

    def take(self, gtid: Gtid, at: str) -> bool:
        uuid, number, *rest = gtid
        assert isinstance(uuid, bytes)
        tag = str(rest[0]) if rest else ""
        if self._take(uuid, tag, number):
            return True
        if uuid not in self._origins:
            raise history_diverged(at, gtid_text(gtid), str(self))
        return False

    def _take(self, uuid: bytes, tag: str, number: int) -> bool:
        intervals = self._left.get((uuid, tag))
        if intervals is None:
            return False
        index = bisect.bisect_right(intervals, (number, 1 << 64)) - 1
        if index < 0 or intervals[index][1] < number:
            return False
        first, last = intervals[index]
        intervals[index : index + 1] = [
            part for part in ((first, number - 1), (number + 1, last)) if part[0] <= part[1]
        ]
        if not intervals:
            del self._left[uuid, tag]
        return True


class _MariadbLeft(Remaining):
    """The set by domain: within a domain the order is the same on all servers, so the last sequence number suffices."""

    def __init__(self, applied: MariadbGtidSet, read: MariadbGtidSet, server_uuid: str) -> None:
        self._last: dict[int, MariadbGtid] = {gtid.domain: gtid for gtid in read.unreached(applied)}
        self._reached = {domain: gtid.sequence for domain, gtid in read.last.items()}
        number = server_uuid.rpartition("-")[2]  # `<gtid_domain_id>-<server_id>`
        self._server = int(number) if number.isdigit() else None

    def __bool__(self) -> bool:
        return bool(self._last)

    def __str__(self) -> str:
        return ",".join(map(str, self._last.values()))

    def take(self, gtid: Gtid, at: str) -> bool:
        domain, server, sequence = cast("tuple[int, int, int]", gtid)
        last = self._last.get(domain)
        if last is None and server != self._server:
            return False
        if (
            last is None
            or not self._reached.get(domain, 0) < sequence <= last.sequence
            or (sequence == last.sequence and server != last.server_id)
        ):
            raise history_diverged(at, gtid_text(gtid), str(self))
        if sequence == last.sequence:
            del self._last[domain]
        self._reached[domain] = sequence
        return True
