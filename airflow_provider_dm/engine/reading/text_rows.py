"""Reads rows of a SELECT as bytes, from the socket in large blocks: several times faster than PyMySQL's own reader.

A result in the text protocol: column count, column definitions, EOF, rows, EOF. A packet is a 3-byte length, a sequence
number and a body; a row is a sequence of cells, each a length and bytes, or 0xfb for NULL. PyMySQL sends the statement
and reads the head of the result; the rows are split here. Nothing is decoded.

A result must be read to its end, or the connection closed: `rows` closes it if its consumer stops early or an error
occurs.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pymysql
from pymysql.constants import COMMAND

from airflow_provider_dm.engine.mysql.connection import Connection

TextCells = tuple[bytes | None, ...]

BLOCK_BYTES: Final = 1 << 18
LARGEST_PACKET: Final = 0xFFFFFF
"""A packet of this size continues in the next one."""

_NULL: Final = 0xFB
_WIDE: Final = {0xFC: 2, 0xFD: 3, 0xFE: 8}
_EOF: Final = 0xFE
_ERROR: Final = 0xFF


class RowBatch(NamedTuple):
    """Rows that arrived together, and their size in bytes."""

    rows: list[TextCells]
    bytes: int


def rows(connection: Connection, sql: bytes) -> Generator[RowBatch, None, None]:
    """Yield the rows of one SELECT as they arrive, in batches of about BLOCK_BYTES, or one larger row.

    Raises pymysql's errors. Closes the connection unless all rows are read.
    """
    packed = packed_rows(connection, sql)
    with closing(packed):
        for width, packets in packed:
            yield RowBatch([split_row(packet, width) for packet in packets], sum(map(len, packets)))


def packed_rows(connection: Connection, sql: bytes) -> Generator[tuple[int, list[bytes]], None, None]:
    """Yield rows as received: (number of columns, packets). Equal packets are equal rows, NULLs included."""
    finished = False
    try:
        width = begin_reading(connection, sql)
        for packets in _packets(connection):
            finished = is_eof(packets[-1])
            complete = packets[:-1] if finished else packets
            if complete:
                yield width, complete
    finally:
        if not finished:
            connection._force_close()  # type: ignore[attr-defined]


def split_row(packet: bytes, width: int) -> TextCells:
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


def begin_reading(connection: Any, sql: bytes) -> int:
    """Send the statement and read up to the first row; return the number of columns."""
    connection._execute_command(COMMAND.COM_QUERY, sql)
    head = connection._read_packet()
    width = int(head.read_length_encoded_integer())
    for _ in range(width + 1):  # definitions, EOF
        connection._read_packet()
    return width


@dataclass
class ReceivedBytes:
    """The bytes of a result. The next block begins with the bytes of an incomplete packet that `keep` has recorded."""

    file: Any
    _kept: list[bytes] = field(default_factory=list)
    _missing: int = 0

    def more(self) -> bytes:
        """Return at least one complete packet, or some bytes if its length is not known yet."""
        while True:
            block = self.file.read1(BLOCK_BYTES)
            if not block:
                raise pymysql.err.OperationalError(2013, "Lost connection to server during query")
            self._kept.append(block)
            self._missing -= len(block)
            if self._missing <= 0:
                return self._kept[0] if len(self._kept) == 1 else b"".join(self._kept)

    def keep(self, data: bytes, at: int) -> None:
        self._kept = [data[at:]] if at < len(data) else []
        self._missing = _missing(data, at)


def _packets(connection: Any) -> Iterator[list[bytes]]:
    """Yield bodies of packets in batches; the last body of the last batch is the EOF packet."""
    arriving, parts = ReceivedBytes(connection._rfile), list[bytes]()
    while True:
        data = arriving.more()
        bodies, at = split_packets(data, parts)
        arriving.keep(data, at)
        if bodies:
            yield bodies
            if is_eof(bodies[-1]):
                return


def _missing(data: bytes, at: int) -> int:
    """Return the number of missing bytes of the packet that begins at `at`; 1 if its length is still incomplete."""
    if len(data) - at < 4:
        return 1
    return 4 + int.from_bytes(data[at : at + 3], "little") - (len(data) - at)


def split_packets(data: bytes, parts: list[bytes]) -> tuple[list[bytes], int]:
    """Return the bodies of the complete packets, and the start of the rest. `parts`: those of a packet above 16 MiB.

    Raises the error of an error packet.
    """
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
    if bodies and bodies[-1][0] == _ERROR:
        pymysql.err.raise_mysql_exception(bodies[-1])
    return bodies, at


def is_eof(body: bytes) -> bool:
    return body[0] == _EOF and len(body) < 9
