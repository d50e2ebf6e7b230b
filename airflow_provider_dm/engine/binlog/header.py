"""The 19 bytes that every event begins with, and the checksum that it may end with."""

from __future__ import annotations

import struct
import zlib
from typing import Final, NamedTuple

from airflow_provider_dm.engine.binlog.errors import ChecksumMismatch
from airflow_provider_dm.engine.binlog.events import FORMAT_DESCRIPTION

HEADER_SIZE: Final = 19
CHECKSUM_SIZE: Final = 4
LARGEST_EVENT: Final = 1 << 30
"""No server sends or takes a bigger one (max_allowed_packet ends here), so nothing bigger is read into memory."""
LARGEST_UNPACKED: Final = 128 << 20
"""What a compressed event, or one event of a compressed transaction, may unpack to: a small file must stay cheap."""
ARTIFICIAL_FLAG: Final = 0x20
"""Made up by the dump thread for one connection (a fake ROTATE); in no file of the source."""
IN_USE_FLAG: Final = 0x01
"""In a FORMAT_DESCRIPTION: the file was not closed. No checksum covers this bit."""

_HEADER: Final = struct.Struct("<IBIIIH")
START: Final = struct.Struct("<IBII")
"""timestamp, code, server id, size: what a scan needs of a header."""
_CODE_AT: Final = 4
_FLAGS_AT: Final = 17


class EventHeader(NamedTuple):
    """The header of an event. `size` counts the header and the checksum.

    `log_position` is the server's word for the event's end: 32 bits, so that it wraps at 4 GiB, and it may be 0;
    positions are computed from sizes instead.
    """

    timestamp: int
    code: int
    server_id: int
    size: int
    log_position: int
    flags: int

    @classmethod
    def parse(cls, data: bytes | memoryview, offset: int = 0) -> EventHeader:
        """Parse the header at `offset`. Raises struct.error for fewer than 19 bytes."""
        return cls._make(_HEADER.unpack_from(data, offset))


def verify_checksum(event: bytes | memoryview, at: str) -> None:
    """Check the CRC32 of a whole event, header to checksum. Raises ChecksumMismatch; `at` names the place in it."""
    stored, computed = checksums(event)
    if computed != stored:
        raise ChecksumMismatch(at, stored, computed)


def checksums(event: bytes | memoryview) -> tuple[int, int]:
    """Return the CRC32 that a whole event ends with, and the one that it should end with."""
    if event[_CODE_AT] == FORMAT_DESCRIPTION:  # the checksum does not cover the in-use flag
        covered = bytearray(event)
        covered[_FLAGS_AT] &= ~IN_USE_FLAG
        event = bytes(covered)
    return int.from_bytes(event[-CHECKSUM_SIZE:], "little"), zlib.crc32(event[:-CHECKSUM_SIZE])
