"""Length-encoded integers, and bytes read from left to right, never past their end."""

from __future__ import annotations

from typing import Final

from airflow_provider_dm.engine.binlog.errors import MalformedEvent

_SIZES: Final = {0xFC: 2, 0xFD: 3, 0xFE: 8}


class Lengths:
    """One pass over `data`, which is `what` of the event at `at`. Raises MalformedEvent where its bytes are too few."""

    def __init__(self, data: bytes | memoryview, at: str, what: str) -> None:
        self._data = memoryview(data)
        self._end = len(data)
        self._at = at
        self._what = what
        self.position = 0

    @property
    def left(self) -> int:
        return self._end - self.position

    def take(self, size: int) -> memoryview:
        start = self.position
        if start + size > self._end:
            raise MalformedEvent(self._at, f"{self._what} lacks {start + size - self._end} bytes")
        self.position = start + size
        return self._data[start : self.position]

    def rest(self) -> memoryview:
        return self.take(self.left)

    def number(self) -> int:
        """Read an integer of 1, 3, 4 or 9 bytes, as lengths are written."""
        first = self.take(1)[0]
        if first < 0xFB:
            return first
        if first not in _SIZES:
            raise MalformedEvent(self._at, f"{self._what} has a length that begins with {first:#x}")
        return int.from_bytes(self.take(_SIZES[first]), "little")
