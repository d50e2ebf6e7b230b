"""Transaction boundaries: one scan over event headers, for the planner and for the relay's recovery.

The scan goes from event to event by their sizes. It reads the bodies of only a few types: GTID, QUERY (BEGIN, COMMIT or
another statement), PREVIOUS_GTIDS, GTID_LIST and TRANSACTION_PAYLOAD. A boundary is a position between transactions;
everything up to it is complete. transaction.py has the effect of each event; this module has the loop, which handles
the events of ordinary transactions itself.

The scan stops before DDL, at `cut`, or at the end of the bytes. It decodes no row. An error is raised only if it is the
first thing found; otherwise the scan ends before it.

Checksums: the decoder of a range's rows checks every event. In addition, the scan checks the events whose bodies it
reads, since they may not be read again: statements, compressed transactions, events between transactions.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from airflow_provider_dm.engine.binlog import events as codes
from airflow_provider_dm.engine.binlog.compressed import PLAIN_ROWS, ROWS_HEAD, claimed_rows_size
from airflow_provider_dm.engine.binlog.errors import EventTooLarge, MalformedEvent, UnsupportedFormat
from airflow_provider_dm.engine.binlog.events import ROLES, EventRole
from airflow_provider_dm.engine.binlog.format import MAGIC, BinlogFormat
from airflow_provider_dm.engine.binlog.gtid_events import (
    MARIADB_GTID,
    MYSQL_GTID,
    NUMBERS_END,
    STANDALONE,
    UNUSUAL,
    Gtid,
    alters_nothing,
)
from airflow_provider_dm.engine.binlog.header import (
    CHECKSUM_SIZE,
    HEADER_SIZE,
    LARGEST_EVENT,
    LARGEST_UNPACKED,
    START,
    checksums,
    verify_checksum,
)
from airflow_provider_dm.engine.binlog.hopping import Hopper, hopper_for
from airflow_provider_dm.engine.binlog.payload import inner_place, open_payload
from airflow_provider_dm.engine.binlog.transaction import (
    BEGUN,
    NOWHERE,
    OPENED,
    OUTSIDE,
    ScanEnd,
    ScannedRange,
    ScanState,
    Seam,
    handle_event,
    reject_or_skip,
)
from airflow_provider_dm.engine.binlog.window import CHUNK_SIZE, Bytes, Window
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE

_STOP, _PASS, _MAP, _ROWS, _PAYLOAD = (int(EventRole[name]) for name in ("STOP", "PASS", "MAP", "ROWS", "PAYLOAD"))
_XID, _GTID, _ANONYMOUS, _MARIADB_GTID = codes.XID, codes.GTID, codes.ANONYMOUS_GTID, codes.MARIADB_GTID
_QUERY = codes.QUERY
_BODY_OF_QUERY: Final = 13
_MYSQL_ID: Final = struct.Struct("<x16sQ")  # MYSQL_GTID without its flags
_FORMAT_READ_SIZE: Final = 4096
_STATEMENT_ENDS: Final = 1
_ROWS_FLAGS: Final = HEADER_SIZE + 6
_ROWS_HEAD: Final = _ROWS_FLAGS + 2


@dataclass(frozen=True)
class FileTail:
    """The end of the last complete transaction of a file, and the GTID set up to there (as text)."""

    position: int
    gtid_set: str


class OpenLog(NamedTuple):
    """A file of the log for reading: its bytes, its format, and its name in errors."""

    window: Bytes
    format: BinlogFormat
    name: str

    @property
    def created(self) -> int:
        """The time of the first event, in seconds since 1970: it distinguishes the file from another of its name."""
        return int.from_bytes(self.window.read(BINLOG_HEADER_SIZE, 4), "little")


class Numbered(NamedTuple):
    """A complete transaction: its id (None: it has none) and the boundary after it."""

    gtid: Gtid | None
    end: int


def last_boundary(path: str, size: int) -> FileTail | None:
    """Return the last boundary in the first `size` bytes of a file with any kind of events.

    For the relay, which also stores unknown events. None if the format event is incomplete.
    Raises MalformedEvent, UnsupportedFormat.
    """
    with opened_log(path, size, path) as log:
        if log is None:
            return None
        scanned = scan_log(log, BINLOG_HEADER_SIZE, cut=size + 1, apply=False)
        if scanned.ended is ScanEnd.EVENT:  # damage: raise the error for its location
            scan_log(log, scanned.end, cut=size + 1, apply=False)
        return FileTail(scanned.end, scanned.trail.added_to("", log.format.flavour))


@contextmanager
def opened_log(path: str, size: int, name: str) -> Iterator[OpenLog | None]:
    """Open the first `size` bytes of a file; None while its format event is incomplete.

    Raises UnsupportedFormat, OSError.
    """
    with Window(path, size) as window:
        log_format = read_format(window, name)
        yield None if log_format is None else OpenLog(window, log_format, name)


def read_format(window: Bytes, name: str) -> BinlogFormat | None:
    """Read the format event of a file; None while it is incomplete. Raises UnsupportedFormat."""
    head = window.read(0, _FORMAT_READ_SIZE)
    if len(head) < BINLOG_HEADER_SIZE + HEADER_SIZE:
        return None
    if head[:BINLOG_HEADER_SIZE] != MAGIC:
        raise UnsupportedFormat(name, f"its first bytes are {head[:BINLOG_HEADER_SIZE].hex()}")
    size = START.unpack_from(head, BINLOG_HEADER_SIZE)[3]
    if size > _FORMAT_READ_SIZE - BINLOG_HEADER_SIZE:
        raise UnsupportedFormat(name, f"a first event of {size} bytes")
    if len(head) < BINLOG_HEADER_SIZE + size:
        return None
    return BinlogFormat.parse(head[BINLOG_HEADER_SIZE : BINLOG_HEADER_SIZE + size], f"{name}:{BINLOG_HEADER_SIZE}")


def scan_log(
    log: OpenLog, start: int, *, cut: int, apply: bool = True, part: int = NOWHERE, hopper: Hopper | None = None
) -> ScannedRange:
    """Scan from `start`, the beginning of an event outside of a transaction, to the first boundary at or after `cut`.
    Compressed data counts with its unpacked size if it is to be applied, so that the boundary may be before `cut`.

    `apply=False`: events that cannot be applied, and DDL, are skipped, and XA transactions are not recorded. `part`:
    look for seams after this many bytes since the start or the last seam. `hopper`: the compiled fast path, which is
    always used with `apply` if it is ready; the relay does not load it.
    Raises UnknownEvent, MalformedEvent, ChangeNotInLog, EventTooLarge or ChecksumMismatch at the
    first event that causes it, unless complete transactions precede it.
    """
    scan = ScanState(
        f"{log.name}:", ScannedRange(start, start), apply, log.format.flavour, records_xa=apply, opened_at=start
    )
    hopper = hopper_for(log.format) if apply else hopper
    try:
        scan.scanned.ended = _scan(scan, log.window, cut, log.format.trailer_size, part, hopper)
    except DmError:
        if not scan.scanned.transactions:
            raise
        scan.scanned.ended = ScanEnd.EVENT
    return scan.scanned


def list_transactions(log: OpenLog, start: int, *, cut: int) -> tuple[list[Numbered], int]:
    """Return each transaction from boundary `start` to the first boundary at or after `cut`, and that boundary.

    Transactions with any content are listed, also if it cannot be applied.
    Raises MalformedEvent, if it is the first thing found.
    """
    scanned = ScannedRange(start, start)
    listed: list[Numbered] = []

    def record(gtid: Gtid | None) -> None:
        while len(listed) + 1 < scanned.transactions:
            listed.append(Numbered(None, scanned.end))  # earlier transactions without an id
        listed.append(Numbered(gtid, scanned.end))

    scanned.trail.add = record
    scan = ScanState(f"{log.name}:", scanned, False, log.format.flavour, opened_at=start)
    try:
        _scan(scan, log.window, cut, log.format.trailer_size)
    except MalformedEvent:
        if not scanned.transactions:
            raise
    if len(listed) < scanned.transactions:
        record(None)
    return listed, scanned.end


def scan_xa(log: OpenLog, start: int, *, cut: int, state: int = OUTSIDE) -> ScannedRange:
    """Scan for XA transactions from `start` to the first boundary at or after `cut`; other contents are ignored.

    `state`: BEGUN if `start` is a seam, and the first boundary the end of that transaction. Raises MalformedEvent.
    """
    scan = ScanState(
        f"{log.name}:", ScannedRange(start, start), False, log.format.flavour, state, records_xa=True, opened_at=start
    )
    _scan(scan, log.window, cut, log.format.trailer_size, hopper=hopper_for(log.format))
    return scan.scanned


def verify_events(log: OpenLog, start: int, end: int) -> None:
    """Check that every event from `start`, the beginning of one, to `end` is complete and has the right checksum.

    Raises MalformedEvent, ChecksumMismatch.
    """
    while start < end:
        at, head = f"{log.name}:{start}", log.window.read(start, HEADER_SIZE)
        size = START.unpack_from(head)[3] if len(head) == HEADER_SIZE else HEADER_SIZE
        if start + size > end:
            raise MalformedEvent(at, f"{log.name} ends inside of it")
        if size < HEADER_SIZE:
            raise MalformedEvent(at, f"a size of {size} bytes")
        if log.format.checksum:
            verify_checksum(log.window.read(start, size), at)
        start += size


def _scan(
    scan: ScanState, window: Bytes, cut: int, trailer: int, part: int = NOWHERE, hopper: Hopper | None = None
) -> ScanEnd:
    """Scan the headers. One long loop, because function calls would take most of its time.

    `hopper` takes ordinary transactions, as long as they end before a possible seam.
    """
    scanned, file_size, unpack, do_of = scan.scanned, window.size, START.unpack_from, ROLES
    mysql_gtid, mariadb_gtid, add_id = _MYSQL_ID.unpack_from, MARIADB_GTID.unpack_from, scanned.trail.add
    smallest = HEADER_SIZE + trailer
    mysql = scan.flavour is Flavour.MYSQL
    position = base = limit = scanned.start
    buffer = b""
    state = scan.state  # the loop's own copy
    next_seam, seam = position + part, 0  # where to look for the next seam; a seam that is not followed by a statement
    unpacked = 0  # of the open transaction
    while scanned.end < cut and scanned.ddl is None:
        if position + HEADER_SIZE > limit:
            buffer, base = window.read(position, CHUNK_SIZE), position
            limit = position + len(buffer)
            scanned.trail.fold()
            if len(buffer) < HEADER_SIZE:
                return _ended_at_end_of_bytes(state, bytes_left=len(buffer))
        if hopper is not None and state == OUTSIDE:
            hopped = hopper.hop(scanned, position, buffer, base, cut=cut, before=next_seam)
            if hopped != position:
                position = hopped
                continue
        offset = position - base
        timestamp, code, server_id, size = unpack(buffer, offset)
        event_end = position + size
        if size < smallest:
            raise MalformedEvent(scan.at(position), f"a size of {size} bytes")
        if event_end > limit:  # an event inside the buffer is neither incomplete nor too large
            if size > (LARGEST_UNPACKED if scan.inside_payload else LARGEST_EVENT) and scan.apply:
                raise EventTooLarge(scan.at(position), size)
            if event_end > file_size:
                return ScanEnd.TORN
        do = do_of[code]
        if do >= _MAP and do != _PAYLOAD:
            if state != BEGUN:
                raise MalformedEvent(scan.at(position), "rows outside of a transaction")
            scan.rows = True
            if code in PLAIN_ROWS and scan.apply:
                head = window.read(position + HEADER_SIZE, min(ROWS_HEAD, size - HEADER_SIZE))
                more = max(0, claimed_rows_size(code, head) - size)
                unpacked, next_seam = unpacked + more, next_seam - more
            if event_end >= next_seam:
                if do == _ROWS:
                    seam = event_end if _ends_statement(window, position, size, buffer, offset) else 0
                elif seam:
                    scan.seams.append(seam)
                    next_seam, seam = seam + part, 0
        elif do == _PASS and state != OUTSIDE:
            pass
        elif do == _STOP:
            if code == codes.START_ENCRYPTION and not mysql and state == OUTSIDE and trailer and scan.apply:
                verify_checksum(window.read(position, size), scan.at(position))
                decrypted = _has_valid_checksum(window, event_end)
                if decrypted is None:
                    return ScanEnd.FILE if event_end == file_size else ScanEnd.TORN
                if decrypted:
                    scan.skip_event(event_end)
                    position = event_end
                    continue
            reject_or_skip(scan, position, event_end, timestamp, code)
            state = scan.state
        else:
            if event_end > limit:
                buffer, base, offset = window.read(position, max(CHUNK_SIZE, size)), position, 0
                limit = position + len(buffer)
                if event_end > limit:  # the file is shorter than its published size
                    return ScanEnd.TORN
            body = offset + HEADER_SIZE
            if code == _XID and state == BEGUN and scan.ddl is None:
                scanned.end = event_end
                scanned.transactions += 1
                if timestamp > scanned.newest_timestamp:
                    scanned.newest_timestamp = timestamp
                if scan.pending is not None:
                    add_id(scan.pending)
                    scan.pending = None
                if scan.seams:
                    scanned.seams += [Seam(one, event_end) for one in scan.seams]
                    scan.seams.clear()
                scan.state = state = OUTSIDE
                seam = 0
            elif code == _GTID and mysql and state == OUTSIDE and size >= smallest + MYSQL_GTID.size:
                scan.pending = uuid, number = mysql_gtid(buffer, body)
                if not 0 < number < NUMBERS_END:
                    raise MalformedEvent(scan.at(position), f"the id {uuid.hex()}:{number}")
                scan.opened_at, scan.rows = position, False
                scan.state = state = OPENED
            elif code == _ANONYMOUS and mysql and state == OUTSIDE and size >= smallest + MYSQL_GTID.size:
                scan.pending = None
                scan.opened_at, scan.rows = position, False
                scan.state = state = OPENED
            elif code == _MARIADB_GTID and not mysql and state == OUTSIDE and size >= smallest + MARIADB_GTID.size:
                sequence, domain, flags = mariadb_gtid(buffer, body)
                if flags & UNUSUAL:
                    scan.void = alters_nothing(buffer[body : offset + size - trailer])
                scan.pending = (domain, server_id, sequence)
                scan.opened_at, scan.rows = position, False
                scan.state = state = OPENED if flags & STANDALONE else BEGUN
            elif code == _QUERY and state == OPENED and _is_begin(buffer, body, offset + size - trailer):
                scan.state = state = BEGUN
            else:
                event = memoryview(buffer)[offset : offset + size]
                if trailer and scan.apply:
                    verify_checksum(event, scan.at(position))
                if do == _PAYLOAD:
                    unpacked += _walk_payload(scan, position, event_end, timestamp, event[HEADER_SIZE : size - trailer])
                else:
                    handle_event(scan, position, event_end, timestamp, code, bytes(event[HEADER_SIZE : size - trailer]))
                if scanned.ended is ScanEnd.DDL:
                    return ScanEnd.DDL
                state = scan.state
                if state == OUTSIDE:
                    seam = 0
        position = event_end
        if unpacked and state == OUTSIDE:
            scanned.unpacked, cut, unpacked = scanned.unpacked + unpacked, cut - unpacked, 0
    return ScanEnd.CUT if scanned.ddl is None else ScanEnd.DDL


def _has_valid_checksum(window: Bytes, position: int) -> bool | None:
    """Return True if the event at `position` has a valid checksum; None if it is incomplete.

    After MariaDB's START_ENCRYPTION, this distinguishes a log that the server sent decrypted from a copy of its file,
    in which only the sizes are readable.
    """
    head = window.read(position, HEADER_SIZE)
    if len(head) < HEADER_SIZE:
        return None
    size = START.unpack_from(head)[3]
    if not HEADER_SIZE + CHECKSUM_SIZE <= size <= LARGEST_EVENT:
        return False
    event = window.read(position, size)
    if len(event) < size:
        return None
    stored, computed = checksums(event)
    return stored == computed


def _walk_payload(scan: ScanState, position: int, event_end: int, timestamp: int, body: memoryview) -> int:
    """Scan a compressed transaction, whose events have the same effect as uncompressed ones. Return the bytes by which
    it grows when unpacked; 0 if it is not to be applied.
    """
    at = scan.at(position)
    if scan.inside_payload or scan.state != OPENED:
        raise MalformedEvent(at, "a compressed transaction inside another one, or without its id")
    if not scan.records_xa:
        scan.close(event_end, timestamp)
        return 0
    window = open_payload(body, at)
    place = inner_place(at, "")
    inner = ScanState(place, ScannedRange(0, 0), scan.apply, scan.flavour, OPENED, inside_payload=True, records_xa=True)
    ended = _scan(inner, window, 1, 0)
    end = inner.scanned.end if inner.scanned.ddl is None else inner.scanned.ddl.end
    if ended not in (ScanEnd.CUT, ScanEnd.DDL) or end != window.size:
        raise MalformedEvent(at, f"its {window.size} bytes are not one transaction")
    scan.add_payload(inner, event_end)
    return max(0, window.size - len(body)) if scan.apply else 0


def _ends_statement(window: Bytes, position: int, size: int, buffer: bytes, offset: int) -> bool:
    """Return True if a rows event is the last of its statement: the next statement names its tables again."""
    if offset + _ROWS_HEAD > len(buffer):
        buffer, offset = window.read(position, _ROWS_HEAD), 0
    return min(size, len(buffer) - offset) >= _ROWS_HEAD and bool(buffer[offset + _ROWS_FLAGS] & _STATEMENT_ENDS)


def _is_begin(buffer: bytes, body: int, end: int) -> bool:
    """Return True if the QUERY event with this body is exactly BEGIN; all others take the slow path."""
    if end - body <= _BODY_OF_QUERY:
        return False
    text = body + _BODY_OF_QUERY + buffer[body + 8] + (buffer[body + 11] | buffer[body + 12] << 8) + 1
    return buffer[text:end] == b"BEGIN"


def _ended_at_end_of_bytes(state: int, bytes_left: int) -> ScanEnd:
    if bytes_left:
        return ScanEnd.TORN
    return ScanEnd.FILE if state == OUTSIDE else ScanEnd.INSIDE
