"""Reads integers and byte strings of an event from left to right, never beyond its end."""

from __future__ import annotations

from typing import Final

from airflow_provider_dm.engine.binlog.errors import MalformedEvent

_SIZES: Final = {0xFC: 2, 0xFD: 3, 0xFE: 8}


class ByteReader:
    """A position in `data`, a part of the event at `at`. `what`: the name of the part in errors.

    Methods raise MalformedEvent if fewer bytes are left than they read.
    """

    def __init__(self, data: bytes | memoryview, at: str, what: str) -> None:
        self.at = at
        self.what = what
        self.position = 0
        self._data = memoryview(data)
        self._end = len(data)

    @property
    def left(self) -> int:
        return self._end - self.position

    def take(self, size: int) -> memoryview:
        start = self.position
        if start + size > self._end:
            raise MalformedEvent(self.at, f"{self.what} lacks {start + size - self._end} bytes")
        self.position = start + size
        return self._data[start : self.position]

    def rest(self) -> memoryview:
        return self.take(self.left)

    def fixed(self, size: int) -> int:
        """Read an integer of `size` bytes."""
        return int.from_bytes(self.take(size), "little")

    def prefixed(self) -> bytes:
        """Read a string after one byte with its length."""
        return bytes(self.take(self.fixed(1)))

    def number(self) -> int:
        """Read a length-encoded integer of 1, 3, 4 or 9 bytes."""
        first = self.take(1)[0]
        if first < 0xFB:
            return first
        if first not in _SIZES:
            raise MalformedEvent(self.at, f"{self.what} has a length that begins with {first:#x}")
        return self.fixed(_SIZES[first])
