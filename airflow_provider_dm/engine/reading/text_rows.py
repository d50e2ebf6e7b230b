"""Rows of a SELECT as bytes, read off the socket in large blocks: PyMySQL's own reader costs several times as much.

The text protocol of a result: column count, column definitions, EOF, rows, EOF. A packet is a 3-byte length, a sequence
number and a body; a row is its cells one after the other, each a length and bytes, 0xfb for NULL. The statement is sent
and the head of the answer is read by PyMySQL; the rows are split here. Nothing is decoded.

A result must be read to its end, or the connection closed: `rows` does the latter when its consumer stops early or
anything goes wrong in between.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any, Final, NamedTuple

import pymysql
from pymysql.constants import COMMAND

from airflow_provider_dm.engine.mysql.connection import Connection

Cells = tuple[bytes | None, ...]

BLOCK_BYTES: Final = 1 << 18
LARGEST_PACKET: Final = 0xFFFFFF
"""A packet of this size goes on in the next one."""

_NULL: Final = 0xFB
_WIDE: Final = {0xFC: 2, 0xFD: 3, 0xFE: 8}
_EOF: Final = 0xFE
_ERROR: Final = 0xFF


class Batch(NamedTuple):
    """Rows as they arrived together, and their bytes."""

    rows: list[Cells]
    bytes: int


def rows(connection: Connection, sql: bytes) -> Generator[Batch, None, None]:
    """Yield the rows of one SELECT in batches of about BLOCK_BYTES (a larger row comes almost alone), as they arrive.

    Raises pymysql's errors. Left before its end, it closes the connection.
    """
    found = packed_rows(connection, sql)
    with closing(found):
        for width, packets in found:
            yield Batch([split_row(packet, width) for packet in packets], sum(map(len, packets)))


def packed_rows(connection: Connection, sql: bytes) -> Generator[tuple[int, list[bytes]], None, None]:
    """Yield rows as they travel: (number of columns, packets). Equal packets are equal rows, NULLs included."""
    finished = False
    try:
        width = _begin(connection, sql)
        for packets in _packets(connection):
            finished = _is_eof(packets[-1])
            found = packets[:-1] if finished else packets
            if found:
                yield width, found
    finally:
        if not finished:
            connection._force_close()  # type: ignore[attr-defined]


def split_row(packet: bytes, width: int) -> Cells:
    r"""Split one row into its cells.

    >>> split_row(b"\x021\x32\xfb\x00", 3)
    (b'12', None, b'')
    """
    cells: list[bytes | None] = []
    at = 0
    for _ in range(width):
        length = packet[at]
        at += 1
        if length >= _NULL:
            if length == _NULL:
                cells.append(None)
                continue
            size = _WIDE[length]
            length = int.from_bytes(packet[at : at + size], "little")
            at += size
        cells.append(packet[at : at + length])
        at += length
    return tuple(cells)


def _begin(connection: Any, sql: bytes) -> int:
    """Send the statement and read up to the first row; return the number of columns."""
    connection._execute_command(COMMAND.COM_QUERY, sql)
    head = connection._read_packet()
    width = int(head.read_length_encoded_integer())
    for _ in range(width + 1):  # definitions, EOF
        connection._read_packet()
    return width


def _packets(connection: Any) -> Iterator[list[bytes]]:
    """Yield bodies of packets in batches; the last body of the last batch is the EOF packet."""
    file = connection._rfile
    pending: list[bytes] = []  # blocks of a packet that has not arrived whole
    waiting, parts = 0, list[bytes]()
    while True:
        block = file.read1(BLOCK_BYTES)
        if not block:
            raise pymysql.err.OperationalError(2013, "Lost connection to server during query")
        pending.append(block)
        waiting -= len(block)
        if waiting > 0:
            continue
        data = pending[0] if len(pending) == 1 else b"".join(pending)
        bodies, at = _split_packets(data, parts)
        pending = [data[at:]] if at < len(data) else []
        waiting = _missing(data, at)
        if bodies:
            if bodies[-1][0] == _ERROR:
                pymysql.err.raise_mysql_exception(bodies[-1])
            yield bodies
            if _is_eof(bodies[-1]):
                return


def _missing(data: bytes, at: int) -> int:
    """Count the bytes still to come of the packet that begins at `at`; 1 where even its length is still to come."""
    if len(data) - at < 4:
        return 1
    return 4 + int.from_bytes(data[at : at + 3], "little") - (len(data) - at)


def _split_packets(data: bytes, parts: list[bytes]) -> tuple[list[bytes], int]:
    """Return the whole packets and where the rest begins. `parts` keeps the pieces of a packet above 16 MiB."""
    bodies: list[bytes] = []
    at, size = 0, len(data)
    while size - at >= 4:
        length = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        end = at + 4 + length
        if end > size:
            break
        body = data[at + 4 : end]
        at = end
        if parts or length == LARGEST_PACKET:
            parts.append(body)
            if length == LARGEST_PACKET:
                continue
            body = b"".join(parts)
            parts.clear()
        bodies.append(body)
    return bodies, at


def _is_eof(body: bytes) -> bool:
    return body[0] == _EOF and len(body) < 9
