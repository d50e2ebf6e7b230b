"""MariaDB's compressed events (log_bin_compress): an event with a zlib tail, and the plain event that it represents.

    QUERY_COMPRESSED : post-header, status variables, schema, NUL | tail: the statement
    rows, compressed : table, flags (V2: extra data), columns, bitmaps | tail: the row images

    tail = 0x80 | algorithm << 4 | n, the size when uncompressed (n bytes, big-endian), data

(MariaDB `sql/log_event.cc`, `binlog_buf_uncompress` and its callers.) The claimed size is checked before the
allocation, limits the uncompressed data, and must be met exactly.
"""

from __future__ import annotations

import zlib
from typing import Final

from airflow_provider_dm.engine.binlog import events as codes
from airflow_provider_dm.engine.binlog.byte_reader import ByteReader
from airflow_provider_dm.engine.binlog.errors import EventTooLarge, MalformedEvent
from airflow_provider_dm.engine.binlog.header import LARGEST_UNPACKED
from airflow_provider_dm.engine.binlog.splitting import HAS_EXTRA, OPERATION, OPERATIONS, UPDATES

PLAIN_ROWS: Final = {
    codes.WRITE_ROWS_V1_COMPRESSED: codes.WRITE_ROWS_V1,
    codes.UPDATE_ROWS_V1_COMPRESSED: codes.UPDATE_ROWS_V1,
    codes.DELETE_ROWS_V1_COMPRESSED: codes.DELETE_ROWS_V1,
    codes.WRITE_ROWS_COMPRESSED: codes.WRITE_ROWS,
    codes.UPDATE_ROWS_COMPRESSED: codes.UPDATE_ROWS,
    codes.DELETE_ROWS_COMPRESSED: codes.DELETE_ROWS,
}
"""Compressed rows event -> plain rows event."""

ROWS_HEAD: Final = 2048
"""The number of bytes sufficient for table, columns and bitmaps (of 4096 columns), and the size after them."""
_TABLE_AND_FLAGS: Final = 8
_QUERY_FIXED: Final = 13
_HEAD_MASK, _ZLIB, _SIZE_MASK = 0xF8, 0x80, 0x07


def uncompressed_query(body: bytes | memoryview, at: str) -> bytes:
    """Return the body of a QUERY event for that of a QUERY_COMPRESSED event.

    Raises MalformedEvent, EventTooLarge.
    """
    reader = ByteReader(body, at, "a compressed statement")
    fixed = reader.take(_QUERY_FIXED)
    reader.take(int.from_bytes(fixed[11:13], "little") + fixed[8] + 1)
    return _with_plain_tail(reader, body, at)


def claimed_rows_size(code: int, head: bytes) -> int:
    """Return the size that a compressed rows event claims for its row images; 0 if it is unreadable.

    `head`: the first ROWS_HEAD bytes of the event's body, or all of it. The decoder will report errors in it.
    """
    try:
        reader = _behind_bitmaps(code, head, "")
        digits = reader.take(1)[0] & _SIZE_MASK
        return min(int.from_bytes(reader.take(digits), "big"), LARGEST_UNPACKED)
    except MalformedEvent:
        return 0


def uncompressed_rows(code: int, body: bytes | memoryview, at: str) -> tuple[int, bytes]:
    """Return (code, body) of the plain rows event that a compressed one (codes 166 to 171) represents.

    Raises MalformedEvent, EventTooLarge.
    """
    return PLAIN_ROWS[code], _with_plain_tail(_behind_bitmaps(code, body, at), body, at)


def _behind_bitmaps(code: int, body: bytes | memoryview, at: str) -> ByteReader:
    """Return a reader of a compressed rows event's body, positioned before its tail. Raises MalformedEvent."""
    operation = OPERATIONS[PLAIN_ROWS[code]]
    reader = ByteReader(body, at, "a compressed rows event")
    reader.take(_TABLE_AND_FLAGS)
    if operation & HAS_EXTRA:
        reader.take(max(reader.fixed(2) - 2, 0))  # it counts itself
    bitmap = (reader.number() + 7) // 8
    reader.take(bitmap * (2 if operation & OPERATION == UPDATES else 1))
    return reader


def _with_plain_tail(reader: ByteReader, body: bytes | memoryview, at: str) -> bytes:
    """Return the part that the reader has passed, and the rest uncompressed."""
    head = body[: reader.position]
    first = reader.take(1)[0]
    digits = first & _SIZE_MASK
    if first & _HEAD_MASK != _ZLIB or not 1 <= digits <= 4:
        raise MalformedEvent(at, f"a compressed part that begins with {first:#04x}")
    size = int.from_bytes(reader.take(digits), "big")
    if size > LARGEST_UNPACKED:
        raise EventTooLarge(at, size)
    inflating = zlib.decompressobj()
    try:
        tail = inflating.decompress(reader.rest(), size + 1)  # memory grows with the output, not with the claimed size
    except zlib.error as error:
        raise MalformedEvent(at, f"a compressed part that cannot be read ({error})") from error
    if len(tail) != size or not inflating.eof or inflating.unused_data:
        raise MalformedEvent(at, f"a compressed part of {size} bytes that has others")
    return b"".join((head, tail))
