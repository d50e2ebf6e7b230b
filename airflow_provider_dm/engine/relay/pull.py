"""The pull loop of one connection: events from the stream to the writer, until it is stopped.

Runs of plain events are written in one call; all other events are handled one by one by `decide.decide`. After a
reconnect the stream starts before the end of the file; the bytes that the file already has are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never
from zlib import crc32

from airflow_provider_dm.engine.binlog.errors import ChecksumMismatch
from airflow_provider_dm.engine.binlog.events import FORMAT_DESCRIPTION, ROTATE
from airflow_provider_dm.engine.binlog.format import BinlogFormat
from airflow_provider_dm.engine.binlog.header import CHECKSUM_SIZE, HEADER_SIZE, EventHeader
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES
from airflow_provider_dm.engine.mysql.gtid import GtidSet
from airflow_provider_dm.engine.relay.decide import FileAction, Rotation, StreamPosition, decide, header_of
from airflow_provider_dm.engine.relay.errors import TransactionsMissing, UpstreamLogDiffers
from airflow_provider_dm.engine.relay.event_runs import RunTaker
from airflow_provider_dm.engine.relay.gtid_tracker import HEAD_SIZE
from airflow_provider_dm.engine.relay.kinds import ACTIONS, CARRIED
from airflow_provider_dm.engine.relay.packets import CRC_RESIDUE, GTID
from airflow_provider_dm.engine.relay.protocol import DumpStream
from airflow_provider_dm.engine.relay.writer import RelayWriter


@dataclass
class Puller:
    """One stream and one writer. `cursor`: the upstream's position of the next event in the writer's file."""

    stream: DumpStream
    writer: RelayWriter
    cursor: int
    take: RunTaker = field(default_factory=RunTaker)
    checksums: bool = field(init=False, default=True)
    _format_known: bool = field(init=False, default=False)

    def run(self, tick: Callable[[], bool]) -> None:
        """Pull until `tick` (called after every receive, at least four times a second) returns False.

        Raises the errors of the stream, of `decide` and of the disk.
        """
        while tick():
            if self.stream.receive():
                self._drain()

    def _drain(self) -> None:
        """Take all complete events from the receive buffer."""
        while True:
            if self._format_known and self.cursor == self.writer.size:
                self._take_run()
            event = self.stream.event()
            if event is None:
                return
            self._one(event)

    def _take_run(self) -> None:
        run = self.take(self.stream.buffer, self.cursor, checksums=self.checksums)
        if not run.pieces:
            return
        self.writer.append(run.pieces)
        self.cursor = run.cursor
        if run.gtid_heads:
            self.writer.begin_transactions(run.gtid_heads, run.begun)

    def _one(self, event: memoryview) -> None:
        header = header_of(event)
        body = self._checked_body(event, header)
        match decide(header, body, StreamPosition(self.writer.file, self.cursor, self.writer.size)):
            case FileAction.DROP:
                if header.code == FORMAT_DESCRIPTION:
                    self._check_same_file(event)
                    self._read_format(event)
            case Rotation() as turn:
                self._turn(turn)
            case FileAction.CREATE:
                self._read_format(event)
                self.writer.create(bytes(event))
                self.cursor += header.size
            case FileAction.APPEND:
                begun = self.cursor
                self.writer.append([event])
                self._advance(event, header, body, begun)
            case FileAction.COMPARE:
                self._compare(event, header, body)
            case other:
                assert_never(other)

    def _checked_body(self, event: memoryview, header: EventHeader) -> bytes:
        """Return the bytes after the header, without checksum; empty for kinds whose body is not needed. Raises
        ChecksumMismatch.

        A fake rotate precedes the format description, so whether it has a checksum is determined from its bytes.
        """
        right = crc32(event) == CRC_RESIDUE
        unsure = header.code == ROTATE and header.log_position == 0
        if not right and not unsure and self._must_have_checksum(event, header):
            stored = int.from_bytes(event[-CHECKSUM_SIZE:], "little")
            computed = crc32(event[:-CHECKSUM_SIZE])
            raise ChecksumMismatch(f"{self.writer.file}:{self.cursor}", stored, computed)
        has_checksum = right if unsure else self.checksums
        # Bodies of large events are not needed, and so not copied.
        if header.code not in CARRIED and header.code != ROTATE:
            return b""
        return bytes(event[HEADER_SIZE : len(event) - (CHECKSUM_SIZE if has_checksum else 0)])

    def _must_have_checksum(self, event: memoryview, header: EventHeader) -> bool:
        """Return True if an event must have a valid checksum.

        A format description always has one, except if the server changes its fields for a start later in the file:
        then it keeps the old checksum if the file has no checksums.
        """
        if header.code == FORMAT_DESCRIPTION:
            return header.log_position != 0 or event[-CHECKSUM_SIZE - 1] != 0
        return self.checksums

    def _check_same_file(self, event: memoryview) -> None:
        """Raise UpstreamLogDiffers if the file was replaced by another of the same name: its first event differs."""
        if self.writer.size and not self.writer.has_first_event(bytes(event[:HEADER_SIZE])):
            raise UpstreamLogDiffers(f"{self.writer.file}:{self.cursor}", "the upstream has another file of that name")

    def _read_format(self, event: memoryview) -> None:
        self.checksums = BinlogFormat.parse(bytes(event), f"{self.writer.file}:{self.cursor}").checksum
        self._format_known = True

    def _turn(self, turn: Rotation) -> None:
        if turn.file == self.writer.file:
            self.cursor = turn.position
            return
        if self.cursor < self.writer.size:
            held = f"{self.writer.file}:{self.writer.size}"
            raise UpstreamLogDiffers(held, f"the upstream continues with {turn.file} after {self.cursor}")
        self.writer.rotate_to(turn.file)
        self.cursor, self._format_known, self.checksums = turn.position, False, True

    def _compare(self, event: memoryview, header: EventHeader, body: bytes) -> None:
        if not self.writer.holds(self.cursor, event):
            raise UpstreamLogDiffers(f"{self.writer.file}:{self.cursor}", "the upstream has other bytes there")
        if header.code == FORMAT_DESCRIPTION:
            self._read_format(event)
        self._advance(event, header, body, self.cursor)

    def _advance(self, event: memoryview, header: EventHeader, body: bytes, begun: int) -> None:
        self.cursor += header.size
        if ACTIONS[header.code] == GTID:
            self.writer.begin_transactions([bytes(event[:HEAD_SIZE])], begun)
        elif (parse_stated_set := CARRIED.get(header.code)) is not None:
            before = parse_stated_set(body, f"{self.writer.file}:{begun}")
            self._check_nothing_is_missing(before)
            self.writer.tracker.restart(before)

    def _check_nothing_is_missing(self, before: GtidSet) -> None:
        """Raise TransactionsMissing unless all transactions that a file states as committed before it were received.

        After a crash a server begins a new file, and the truncated transaction was never committed; a damaged file
        looks the same, except for this. MySQL's set may have been edited (gtid_purged), so only MariaDB's is checked.
        """
        ours = self.writer.tracker.settled
        if CAPABILITIES[self.writer.flavour].stated_gtids_are_complete and ours and (missing := before.minus(ours)):
            raise TransactionsMissing(str(self.writer.file), str(missing))
