"""The scan's fast path for ordinary transactions: calls `kernels.headers` with the types of `transaction`."""

from __future__ import annotations

from typing import Any, Final

from airflow_provider_dm.engine.binlog.compressed import PLAIN_ROWS
from airflow_provider_dm.engine.binlog.events import ROLES, EventRole
from airflow_provider_dm.engine.binlog.format import BinlogFormat
from airflow_provider_dm.engine.binlog.kernels import build
from airflow_provider_dm.engine.binlog.transaction import ScannedRange
from airflow_provider_dm.engine.mysql.endpoint import Flavour

_IDS: Final = 256  # runs of ids in one hop
_HOPPED: Final = bytes(EventRole.STOP if code in PLAIN_ROWS else do for code, do in enumerate(ROLES))
"""ROLES, except that transactions with compressed rows are left to the scan, which counts their unpacked size."""


class Hopper:
    """Skips the ordinary transactions of one scan."""

    def __init__(self, log_format: BinlogFormat) -> None:
        import numpy as np  # imported here: the relay scans too, and never hops

        from airflow_provider_dm.engine.binlog.kernels.headers import hop

        self._hop = hop
        self._mariadb = log_format.flavour is Flavour.MARIADB
        self._trailer = log_format.trailer_size
        self._from_bytes = np.frombuffer
        self._do = np.frombuffer(_HOPPED, np.uint8)
        self._ids: Any = np.empty((_IDS, 4), np.uint64)

    def hop(self, scanned: ScannedRange, position: int, buffer: bytes, base: int, *, cut: int, before: int) -> int:
        """Add the ordinary transactions from the boundary `position` on, in `buffer` (which begins at `base`).

        Stops after the transaction that ends at or after `cut`, and before one that does not end before `before`.
        Returns the beginning of the next transaction.
        """
        data = self._from_bytes(buffer, self._do.dtype)
        limit = max(0, min(len(data), before - 1 - base))
        end, transactions, newest, count = self._hop(
            data, position - base, limit, cut - base, self._trailer, self._mariadb, self._do, self._ids
        )
        if not transactions:
            return position
        scanned.end = base + end
        scanned.transactions += transactions
        scanned.newest_timestamp = max(scanned.newest_timestamp, newest)
        for first, second, low, high in self._ids[:count].tolist():
            if self._mariadb:
                scanned.trail.add((first, second, high))
            else:
                uuid = first.to_bytes(8, "little") + second.to_bytes(8, "little")
                scanned.trail.add_run(uuid, low, high)
        return scanned.end


def hopper_for(log_format: BinlogFormat) -> Hopper | None:
    """Return a hopper if the kernels are ready."""
    return Hopper(log_format) if build.ready() else None
