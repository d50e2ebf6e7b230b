"""The decision on one event of a dump stream: pure, from its header and the state of the file.

Positions are 64 bits, counted from event sizes; the 32 bits in an event must agree with them. Events that the dump
thread generates (fake rotate, heartbeat, a second format description, anything flagged artificial) are in no file of
the upstream, so they are never written to ours.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum

from airflow_provider_dm.engine.binlog.events import FORMAT_DESCRIPTION, ROTATE, START_ENCRYPTION
from airflow_provider_dm.engine.binlog.header import ARTIFICIAL_FLAG, HEADER_SIZE, EventHeader
from airflow_provider_dm.engine.mysql.errors import InvalidLocation
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE, BinlogFile
from airflow_provider_dm.engine.relay.errors import PacketsBroken, UpstreamLogDiffers
from airflow_provider_dm.engine.relay.kinds import HEARTBEATS


def _binlog_name_refused(name: str) -> PacketsBroken:
    return PacketsBroken(
        f"the upstream names its next binlog {name!r}",
        "That is not the name of a binlog file: check which program answers at this address.",
    )


def _stream_has_hole(file: str, position: int, next_position: int) -> PacketsBroken:
    return PacketsBroken(
        f"{file} continues at {next_position} where {position} was expected: the upstream has omitted events",
        "Check that nothing filters the binlog between upstream and relay.",
    )


def header_of(event: memoryview) -> EventHeader:
    """Parse the header of a complete event. Raises PacketsBroken if it is invalid."""
    if len(event) < HEADER_SIZE:
        raise PacketsBroken(f"an event of {len(event)} bytes")
    header = EventHeader.parse(event)
    if header.size != len(event):
        raise PacketsBroken(f"an event with size {header.size} in its header has {len(event)} bytes")
    return header


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """A position in the stream: upstream position `cursor` of `file`, of which we have `size` bytes (0: no file)."""

    file: BinlogFile
    cursor: int
    size: int


class FileAction(Enum):
    """The action on the relay's file for one event of the stream; its value is the reason."""

    DROP = "it is in no file of the upstream"
    CREATE = "it is the format description that begins a new file"
    APPEND = "it is the next part of the file"
    COMPARE = "the file already contains its bytes"


@dataclass(frozen=True, slots=True)
class Rotation:
    """A rotate event: the next events begin at `position` of `file`."""

    file: BinlogFile
    position: int


Decision = FileAction | Rotation


def decide(header: EventHeader, body: bytes, at: StreamPosition) -> Decision:
    """Decide on an event. `body`: its bytes after the header, without checksum; only needed for rotate events.

    Raises PacketsBroken, UpstreamLogDiffers.
    """
    if header.code == ROTATE and (header.flags & ARTIFICIAL_FLAG or header.log_position == 0 or header.timestamp == 0):
        return _rotation(body, at)
    if header.flags & ARTIFICIAL_FLAG or header.code in HEARTBEATS:
        return FileAction.DROP
    if header.code == START_ENCRYPTION and header.log_position == 0:
        return FileAction.DROP  # MariaDB repeats it after the repeated format description
    if header.code == FORMAT_DESCRIPTION and (header.log_position == 0 or at.cursor != BINLOG_HEADER_SIZE):
        return FileAction.DROP  # the dump began later in the file; the event describes the format of the following ones
    if header.log_position and header.log_position != (at.cursor + header.size) & 0xFFFF_FFFF:
        raise _stream_has_hole(str(at.file), at.cursor, header.log_position - header.size)
    if at.cursor < at.size:
        return FileAction.COMPARE
    if at.size == 0:
        return _first_event(header, at)
    if at.cursor > at.size:
        raise _stream_has_hole(str(at.file), at.size, at.cursor)
    return FileAction.APPEND


def _first_event(header: EventHeader, at: StreamPosition) -> Decision:
    if header.code != FORMAT_DESCRIPTION or at.cursor != BINLOG_HEADER_SIZE:
        raise _stream_has_hole(str(at.file), BINLOG_HEADER_SIZE, at.cursor)
    return FileAction.CREATE


def _rotation(body: bytes, at: StreamPosition) -> Rotation:
    file, position = named_by(body)
    if file not in (at.file, at.file.next()) or (file != at.file and not at.size):
        raise UpstreamLogDiffers(f"{at.file} or the file after it", f"the upstream continues with {file}")
    return Rotation(file, position)


def named_by(body: bytes) -> tuple[BinlogFile, int]:
    """Parse the file and position in the body of a rotate. Raises PacketsBroken."""
    name = body[8:].decode("ascii", "replace")
    try:
        (position,) = struct.unpack_from("<Q", body)
        file = BinlogFile.parse(name)
    except (InvalidLocation, struct.error):
        raise _binlog_name_refused(name[:200]) from None
    if str(file) != name or name.startswith("."):
        raise _binlog_name_refused(name[:200])
    return file, position
