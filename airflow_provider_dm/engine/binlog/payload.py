"""TRANSACTION_PAYLOAD: a complete transaction in one event, usually compressed, read like a small file.

    body   = field … END, payload          field = number, length, value: all as length-encoded integers
    fields : SIZE (bytes of the payload), COMPRESSION (zstd or none), UNCOMPRESSED_SIZE (for zstd)
    payload: the transaction's events from BEGIN to its end, concatenated, without checksums

(MySQL `libs/mysql/binlog/event/codecs/binary.cpp`.) The GTID event precedes it, outside.

A window over the events keeps only the last bytes read, so its memory does not depend on the transaction's size. The
size in the header is a limit and is checked against the output: fewer bytes, or one more, are damage. So is an unknown
field, because it could change how the rest is read.
"""

from __future__ import annotations

import threading
from typing import Final, Protocol

import zstandard

from airflow_provider_dm.engine.binlog.byte_reader import ByteReader
from airflow_provider_dm.engine.binlog.errors import EventTooLarge, MalformedEvent
from airflow_provider_dm.engine.binlog.header import LARGEST_UNPACKED

_END, _SIZE, _COMPRESSION, _UNCOMPRESSED_SIZE = range(4)
_ZSTD, _NONE = 0, 255

_LARGEST_WINDOW: Final = 128 << 20
"""The window of zstd's highest level; the maximum memory of one stream."""
_PIECE: Final = 4 << 20
"""Memory grows with the output, not with the claimed size."""


def open_payload(body: bytes | memoryview, at: str) -> PayloadWindow:
    """Open the events of a TRANSACTION_PAYLOAD whose bytes between header and checksum are `body`.

    `at` is the event's location; errors of inner events name it with their offset (`inner_place`).
    Raises MalformedEvent.
    """
    reader = ByteReader(body, at, "the header of its payload")
    fields: dict[int, int] = {}
    while (field := reader.number()) != _END:
        value = ByteReader(reader.take(reader.number()), at, f"field {field} of its payload")
        if field not in (_SIZE, _COMPRESSION, _UNCOMPRESSED_SIZE) or field in fields:
            raise MalformedEvent(at, f"field {field} in the header of a compressed transaction")
        fields[field] = value.number()
        if value.left:
            raise MalformedEvent(at, f"field {field} of a compressed transaction is too long")
    payload = reader.rest()
    if fields.get(_SIZE) != len(payload):
        raise MalformedEvent(at, f"{len(payload)} compressed bytes where {fields.get(_SIZE)} are announced")
    compression = fields.get(_COMPRESSION)
    if compression == _NONE:
        size = fields.get(_UNCOMPRESSED_SIZE, len(payload))
    elif compression == _ZSTD and _UNCOMPRESSED_SIZE in fields:
        size = fields[_UNCOMPRESSED_SIZE]
    else:
        raise MalformedEvent(at, f"a transaction in compression {compression}, or of unknown size")
    return PayloadWindow(payload, size, at, compressed=compression == _ZSTD)


def inner_place(at: str, offset: int | str) -> str:
    """Return the location in errors of an event inside the payload at `at`; for offset "", the common prefix."""
    return f"{at}+{offset}"


class _Stream(Protocol):
    def read(self, size: int, /) -> bytes: ...


class PayloadWindow:
    """The inner events as `Bytes`: positions count from 0, the first inner event.

    Made for reading forwards; going back restarts the decompression.
    """

    def __init__(self, payload: memoryview, claimed: int, at: str, *, compressed: bool) -> None:
        self.at = at
        self.size = claimed
        self._payload = payload
        self._compressed = compressed
        self._stream = self._open()
        self._buffer = b""
        self._start = 0  # position of the buffer's first byte
        self._reached = 0  # position of the stream's next byte

    def read(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes; fewer only at the end. Raises MalformedEvent, EventTooLarge."""
        if size > LARGEST_UNPACKED:
            raise EventTooLarge(inner_place(self.at, position), size)
        size = min(size, self.size - position)
        if size <= 0:
            return b""
        if position < self._start:
            self._stream, self._buffer, self._start, self._reached = self._open(), b"", 0, 0
        while self._reached < position:
            self._start, self._buffer = self._reached, self._next(min(_PIECE, position - self._reached))
        pieces = [self._buffer[position - self._start :]]
        while self._reached < position + size:
            pieces.append(self._next(min(_PIECE, position + size - self._reached)))
        self._buffer, self._start = b"".join(pieces) if len(pieces) > 1 else pieces[0], position
        return self._buffer if len(self._buffer) == size else self._buffer[:size]

    def _next(self, size: int) -> bytes:
        """Read the stream's next `size` bytes, all of them."""
        try:
            piece = self._stream.read(size)
            too_many = self._reached + size == self.size and bool(self._stream.read(1))
        except zstandard.ZstdError as error:
            raise MalformedEvent(self.at, f"a compressed transaction that cannot be read ({error})") from error
        self._reached += len(piece)
        if len(piece) < size or too_many:
            found = "more" if too_many else self._reached
            raise MalformedEvent(self.at, f"a transaction of {self.size} bytes has {found} when uncompressed")
        return piece

    def _open(self) -> _Stream:
        if not self._compressed:
            return _Plain(self._payload)
        if self.size <= _PIECE and (events := _at_once(self._payload, self.size)) is not None:
            return _Plain(memoryview(events))
        decompressor = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
        return decompressor.stream_reader(self._payload, read_across_frames=True)


class _OfThread(threading.local):
    """Decompressors cost more than a small transaction, and are not thread-safe: one is kept per thread."""

    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)


_of_thread: Final = _OfThread()


def _at_once(payload: memoryview, size: int) -> bytes | None:
    """Return the contents of one frame of exactly `size` bytes.

    None if the payload is anything else, which the stream then reads or reports.
    """
    try:
        if zstandard.frame_content_size(payload) != size:
            return None
        events = _of_thread.decompressor.decompress(payload, max_output_size=size, allow_extra_data=False)
    except zstandard.ZstdError:
        return None
    return events if len(events) == size else None


class _Plain:
    """A stream reader over bytes that are not compressed."""

    def __init__(self, payload: memoryview) -> None:
        self._left = payload

    def read(self, size: int, /) -> bytes:
        piece, self._left = self._left[:size], self._left[size:]
        return bytes(piece)
