"""`relay.meta`: up to which location a sub-directory's files are complete and on disk, in DM's three TOML keys.

The last line, a comment in TOML, has the CRC32 of the three; in DM's files, which lack it, an empty set counts as
unknown. The file is a hint: everything before `binlog-pos` of `binlog-name` was forced to disk, `binlog-pos` is a
transaction boundary, and `binlog-gtid` is the set committed up to it. If it is missing or invalid, the binlog files are
read instead.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zlib import crc32

from airflow_provider_dm.engine.mysql.errors import InvalidGtidSet, InvalidLocation
from airflow_provider_dm.engine.mysql.gtid import GtidSet
from airflow_provider_dm.engine.mysql.location import BinlogFile
from airflow_provider_dm.engine.relay.durable import write_durably

META: Final = "relay.meta"
_CHECKSUM: Final = "# crc32 "


@dataclass(frozen=True)
class RelayMeta:
    """The content of relay.meta. `binlog_pos` in bytes, 64 bits."""

    binlog_name: str
    binlog_pos: int
    binlog_gtid: str = ""

    @classmethod
    def parse(cls, text: str) -> RelayMeta | None:
        """Parse a relay.meta; None for anything but a complete one.

        >>> RelayMeta.parse('binlog-name = "mysql-bin.000010"\\nbinlog-pos = 63083620\\nbinlog-gtid = "0-1-7"\\n')
        RelayMeta(binlog_name='mysql-bin.000010', binlog_pos=63083620, binlog_gtid='0-1-7')
        """
        body, ours, checksum = text.partition(_CHECKSUM)
        if (ours and checksum != f"{crc32(body.encode()):08x}\n") or "#" in body:
            return None
        try:
            values = tomllib.loads(body)
        except tomllib.TOMLDecodeError:
            return None
        name, position, gtid = (values.get(key) for key in ("binlog-name", "binlog-pos", "binlog-gtid"))
        if not isinstance(name, str) or not isinstance(position, int) or not isinstance(gtid, str) or position < 4:
            return None
        try:
            BinlogFile.parse(name)
            GtidSet.of_text(gtid)
        except (InvalidLocation, InvalidGtidSet):
            return None
        if not gtid and not ours:
            return None
        return cls(name, position, gtid)

    def format(self) -> str:
        """Format a relay.meta: names and GTID sets contain no character that TOML would escape."""
        body = (
            f'binlog-name = "{self.binlog_name}"\nbinlog-pos = {self.binlog_pos}\nbinlog-gtid = "{self.binlog_gtid}"\n'
        )
        return f"{body}{_CHECKSUM}{crc32(body.encode()):08x}\n"

    @classmethod
    def read(cls, folder: Path) -> RelayMeta | None:
        """Read the relay.meta of `folder`; None if it is missing or invalid."""
        try:
            return cls.parse((folder / META).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            return None

    def write(self, folder: Path) -> None:
        """Write relay.meta into `folder`, atomically and durably. Raises RelayDiskFull or RelayDiskFailed."""
        write_durably(folder / META, self.format().encode("utf-8"))
