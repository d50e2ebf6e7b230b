"""A dump stream as bytes: the receive buffer, its packets, and runs of plain events. No socket here.

A packet is a 3-byte length, a sequence number and a payload: 0x00 and one event, 0xff and an error, or 0xfe, the end.
An event of 16 MiB or more comes in several packets (all but the last have length 0xffffff) with one status byte.

`take_run` is the fast path: in one pass it unpacks packet and event headers, checks the CRC32 and collects slices of
the receive buffer, while events are plain: complete, in one packet, in order, and of a kind of which only the bytes
matter. It stops at any other packet without judging it; `whole_packet` then returns that packet in one piece, and the
pull loop decides. The slow path accepts everything that `take_run` accepts.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from zlib import crc32

from airflow_provider_dm.engine.binlog.header import ARTIFICIAL_FLAG, HEADER_SIZE
from airflow_provider_dm.engine.relay.errors import PacketsBroken

CRC_RESIDUE: Final = 0x2144DF1C
"""CRC32 of any data followed by its own little-endian CRC32."""

_PACKET_AND_HEADER: Final = struct.Struct("<IBIBIIIH")
_FULL: Final = 0xFFFFFF
_CAPACITY: Final = 1 << 22

PLAIN, GTID, SPECIAL = 0, 1, 2
"""The pull loop's action by kind of event: only bytes; bytes whose head is kept; handled by the slow path."""


def _event_too_large(size: int, limit: int) -> PacketsBroken:
    return PacketsBroken(
        f"the upstream sends a binlog event of {size} bytes; the limit is {limit}",
        "No MySQL or MariaDB writes such an event: check which program answers at this address.",
    )


class PacketRun(NamedTuple):
    """Consecutive plain events, as slices of the receive buffer: to be used before the next `free`."""

    pieces: list[memoryview]
    cursor: int
    """The upstream's position after the last event."""
    gtid_heads: list[bytes]
    begun: int
    """Position of the last GTID event of the run; -1 without one."""


@dataclass
class ReceiveBuffer:
    """Received bytes that were not taken yet. Memory: `capacity`, more only while a larger packet is in it."""

    event_limit: int = (1 << 30) + (1 << 16)
    capacity: int = _CAPACITY
    start: int = 0
    end: int = 0
    view: memoryview = field(init=False)

    def __post_init__(self) -> None:
        self.view = memoryview(bytearray(self.capacity))

    def free(self) -> memoryview:
        """Return the space to receive into, at least one byte. Invalidates slices taken before."""
        if self.start == self.end:
            self.start = self.end = 0
            if len(self.view) > self.capacity:
                self.view = memoryview(bytearray(self.capacity))
        elif len(self.view) - self.end < self.capacity // 4:
            self._move(len(self.view))
        return self.view[self.end :]

    def received(self, count: int) -> None:
        self.end += count

    def taken(self, up_to: int) -> None:
        """Continue at `up_to`, after a run was taken from the buffer."""
        self.start = up_to

    def missing(self) -> int:
        """Return the number of missing bytes of the next packet; 0 if unknown."""
        if self.end - self.start < 4:
            return 0
        length = int.from_bytes(self.view[self.start : self.start + 3], "little")
        return max(0, self.start + 4 + length - self.end)

    def _move(self, size: int) -> None:
        held = self.end - self.start
        view = self.view if size == len(self.view) else memoryview(bytearray(size))
        view[:held] = self.view[self.start : self.end]
        self.view, self.start, self.end = view, 0, held

    def whole_packet(self) -> memoryview | None:
        """Take the next payload, status byte first, fragments joined; None if more bytes must be received.

        Raises PacketsBroken.
        """
        at, length, fragments = self.start, _FULL, 0
        while length == _FULL:
            if self.end - at < 4:
                self._expect(at + 4)
                return None
            length = int.from_bytes(self.view[at : at + 3], "little")
            fragments += 1
            at += 4 + length
            if fragments > 1 or length == _FULL:
                self._judge_size(at - self.start - 4 * fragments, last=length != _FULL)
        if at > self.end:
            self._expect(at)
            return None
        payload = self._joined(at)
        self.start = at
        return payload

    def _judge_size(self, announced: int, *, last: bool) -> None:
        """Check the size of a fragmented packet as soon as its event header has arrived.

        `announced`: bytes of payload in the fragments so far. Endless fragments must not fill the memory.
        """
        payload = self.start + 4
        if self.end - payload < 1 + HEADER_SIZE:
            return
        if self.view[payload] != 0:
            raise PacketsBroken(
                f"a packet of several fragments begins with {self.view[payload]:#04x}, not with an event"
            )
        size = int.from_bytes(self.view[payload + 10 : payload + 14], "little")
        if size > self.event_limit:
            raise _event_too_large(size, self.event_limit)
        if announced > 1 + size or (last and announced < 1 + size):
            raise PacketsBroken(f"the size of an event is {size}, but its fragments have {announced - 1} bytes")

    def _expect(self, until: int) -> None:
        """Make room for everything up to offset `until`, and for the next packet's header."""
        wanted = until - self.start
        if wanted > self.event_limit + self.event_limit // 64 + self.capacity:
            raise _event_too_large(wanted, self.event_limit)
        if until + 4 > len(self.view):
            # Doubling: a packet of many fragments is moved a few times, not once for each fragment.
            self._move(max(len(self.view), self.capacity, min(2 * wanted, wanted + (64 << 20)) + 4))

    def _joined(self, end: int) -> memoryview:
        first = int.from_bytes(self.view[self.start : self.start + 3], "little")
        begin = self.start + 4
        if first != _FULL:
            return self.view[begin:end]
        sequence, write, at = self.view[self.start + 3], begin + first, begin + first
        while at < end:
            length = int.from_bytes(self.view[at : at + 3], "little")
            sequence = (sequence + 1) & 0xFF
            if self.view[at + 3] != sequence:
                raise PacketsBroken(f"fragment {self.view[at + 3]} where {sequence} was expected")
            self.view[write : write + length] = self.view[at + 4 : at + 4 + length]
            write, at = write + length, at + 4 + length
        return self.view[begin:write]

    def take_run(self, cursor: int, actions: bytes, *, checksums: bool) -> PacketRun:
        """Consume plain events from upstream position `cursor` on. `actions[type]` is PLAIN, GTID or SPECIAL."""
        unpack, crc, view, end, at = _PACKET_AND_HEADER.unpack_from, crc32, self.view, self.end, self.start
        pieces: list[memoryview] = []
        heads: list[bytes] = []
        begun = -1
        while end - at >= 24:
            packet, status, _time, kind, _server, size, low, flags = unpack(view, at)
            stop = at + 5 + size
            if stop > end or packet & _FULL != size + 1 or size + 1 == _FULL or status or flags & ARTIFICIAL_FLAG:
                break  # a packet of full length is continued by the next one, even an empty one
            action = actions[kind]
            if action == SPECIAL:
                break
            after = cursor + size
            if low != after & 0xFFFFFFFF and low:
                break
            piece = view[at + 5 : stop]
            if checksums and crc(piece) != CRC_RESIDUE:
                break
            if action:
                begun = cursor
                heads.append(bytes(piece[:128]))
            pieces.append(piece)
            cursor, at = after, stop
        self.start = at
        return PacketRun(pieces, cursor, heads, begun)
