"""Sequential reading of the published bytes of a binlog file in large pieces.

`mmap` would be as fast, but if the file is truncated meanwhile (by the relay's recovery) the process would be killed.
"""

from __future__ import annotations

import os
from typing import Final, Protocol

CHUNK_SIZE: Final = 1 << 20
"""Small enough that the allocator reuses the same memory: fresh pages cost more than reading into them."""


class Bytes(Protocol):
    """The readable bytes of a file: everything before position `size`."""

    @property
    def size(self) -> int: ...

    def read(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes; fewer only at the end."""


class MemoryWindow:
    """A part of a file in memory: its bytes from `start` on."""

    def __init__(self, data: bytes, start: int, size: int | None = None) -> None:
        self._data = data
        self._start = start
        self.size = start + len(data) if size is None else size

    def read(self, position: int, size: int) -> bytes:
        first = position - self._start
        return self._data[first : max(first, min(first + size, self.size - self._start))]

    def up_to(self, size: int) -> MemoryWindow:
        return MemoryWindow(self._data, self._start, min(size, self.size))


class Window:
    """One open file of `size` bytes. `read` returns bytes at a position, fewer at the end."""

    def __init__(self, path: str, size: int, descriptor: int | None = None) -> None:
        self.path = path
        self.size = size
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if descriptor is None else descriptor

    def read(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes; fewer only at the end of the published bytes, or if the file is shorter."""
        pieces = []
        left = min(size, self.size - position)
        while left > 0:
            piece = os.pread(self._descriptor, left, position)
            if not piece:
                break
            pieces.append(piece)
            position, left = position + len(piece), left - len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def up_to(self, size: int) -> Window:
        """Return the same open file, ending earlier; valid until this window is closed."""
        return Window(self.path, min(size, self.size), self._descriptor)

    def __enter__(self) -> Window:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
