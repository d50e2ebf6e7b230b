"""The 19 bytes that every event begins with, and the checksum that it may end with."""

from __future__ import annotations

import struct
import zlib
from typing import Final, NamedTuple

from airflow_provider_dm.engine.binlog.errors import ChecksumMismatch

HEADER_SIZE: Final = 19
CHECKSUM_SIZE: Final = 4
ARTIFICIAL_FLAG: Final = 0x20
"""Made up by the dump thread for one connection (a fake ROTATE); in no file of the source."""
IN_USE_FLAG: Final = 0x01
"""In a FORMAT_DESCRIPTION: the file was not closed. No checksum covers this bit."""

_HEADER: Final = struct.Struct("<IBIIIH")
START: Final = struct.Struct("<IBII")
"""timestamp, code, server id, size: what a scan needs of a header."""


class EventHeader(NamedTuple):
    """`size` counts the header and the checksum. `log_position` is the server's word for the event's end: 32 bits, so
    that it wraps at 4 GiB, and it may be 0; positions are computed from sizes instead."""

    timestamp: int
    code: int
    server_id: int
    size: int
    log_position: int
    flags: int

    @classmethod
    def parse(cls, data: bytes | memoryview, offset: int = 0) -> EventHeader:
        """Raises struct.error for fewer than 19 bytes."""
        return cls._make(_HEADER.unpack_from(data, offset))


def verify_checksum(event: bytes | memoryview, at: str) -> None:
    """CRC32 of a whole event, header to checksum. Raises ChecksumMismatch; `at` names the place in it."""
    computed = zlib.crc32(event[:-CHECKSUM_SIZE])
    stored = int.from_bytes(event[-CHECKSUM_SIZE:], "little")
    if computed != stored:
        raise ChecksumMismatch(at, stored, computed)
