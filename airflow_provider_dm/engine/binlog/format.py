"""The FORMAT_DESCRIPTION event: the server that wrote a file, and the format of its events.

It is the first event of every file, at offset 4. It always has a checksum, even if the other events of the file have
none; in that case a server that sends it for a dump from a later position keeps the old checksum although it changes
fields (the event's own position becomes 0). Servers older than checksums are refused: a damaged version field would
make us read without checksums.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider_dm.engine.binlog.errors import UnsupportedFormat
from airflow_provider_dm.engine.binlog.events import FORMAT_DESCRIPTION, TABLE_MAP
from airflow_provider_dm.engine.binlog.header import CHECKSUM_SIZE, HEADER_SIZE, EventHeader, verify_checksum
from airflow_provider_dm.engine.mysql.endpoint import Flavour

MAGIC: Final = b"\xfebin"
_BODY: Final = struct.Struct("<H50sIB")
_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_CHECKSUM_SINCE: Final = {Flavour.MYSQL: (5, 6, 1), Flavour.MARIADB: (5, 3, 0)}
_NO_CHECKSUM, _CRC32 = 0, 1


@dataclass(frozen=True)
class BinlogFormat:
    """The format of one file."""

    flavour: Flavour
    checksum: bool

    @property
    def trailer_size(self) -> int:
        """Bytes after an event's body."""
        return CHECKSUM_SIZE if self.checksum else 0

    def without_checksum(self) -> BinlogFormat:
        """Return the format of the events inside a TRANSACTION_PAYLOAD: the outer event's checksum covers them."""
        return replace(self, checksum=False)

    @classmethod
    def parse(cls, event: bytes, at: str) -> BinlogFormat:
        """Parse the complete event, header included; `at` is its location in errors.

        Raises UnsupportedFormat, ChecksumMismatch.
        """
        if len(event) < HEADER_SIZE + _BODY.size or EventHeader.parse(event).code != FORMAT_DESCRIPTION:
            raise UnsupportedFormat(at, "it does not begin with a FORMAT_DESCRIPTION event")
        header = EventHeader.parse(event)
        version, server, _created, header_size = _BODY.unpack_from(event, HEADER_SIZE)
        if version != 4 or header_size != HEADER_SIZE:
            raise UnsupportedFormat(at, f"version {version}, event headers of {header_size} bytes")
        server_version = server.split(b"\0", 1)[0].decode("ascii", "replace")
        flavour = Flavour.MARIADB if "mariadb" in server_version.lower() else Flavour.MYSQL
        if _version(server_version) < _CHECKSUM_SINCE[flavour]:
            raise UnsupportedFormat(at, f"its server has the version {server_version!r}")
        sizes = event[HEADER_SIZE + _BODY.size :]
        if len(sizes) <= CHECKSUM_SIZE:
            raise UnsupportedFormat(at, "its FORMAT_DESCRIPTION event is too short")
        algorithm = sizes[-CHECKSUM_SIZE - 1]
        if algorithm != _NO_CHECKSUM or header.log_position:
            verify_checksum(event, at)
        if algorithm not in (_NO_CHECKSUM, _CRC32):
            raise UnsupportedFormat(at, f"checksum algorithm {algorithm}")
        sizes = sizes[: -CHECKSUM_SIZE - 1]
        if len(sizes) < TABLE_MAP or sizes[TABLE_MAP - 1] != _TABLE_MAP_POST_HEADER:
            raise UnsupportedFormat(at, f"server {server_version} has another event format")
        return cls(flavour, algorithm == _CRC32)


_TABLE_MAP_POST_HEADER: Final = 8


def _version(text: str) -> tuple[int, ...]:
    match = _VERSION.match(text)
    return tuple(int(part) for part in match.groups()) if match else ()
