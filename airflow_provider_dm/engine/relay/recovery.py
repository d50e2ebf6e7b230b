"""Recovery of a relay file after a crash: it is cut at the last transaction boundary before the first invalid byte.

The file is the truth; `relay.meta` only saves time: everything up to its position was forced to disk, so verification
begins there. Every later event is checked (length, CRC32); the file is cut before the first invalid one, and then at
the last boundary, found by the same scan as the sync planner's. If the server writes no checksums, only the part up to
the position in `relay.meta` is kept; the rest is pulled again. A file without a complete format description is damaged,
and set aside.
"""

from __future__ import annotations

import logging
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from airflow_provider_dm.engine.binlog.boundary import last_boundary, opened_log, scan_log
from airflow_provider_dm.engine.binlog.errors import MalformedEvent
from airflow_provider_dm.engine.binlog.events import FORMAT_DESCRIPTION
from airflow_provider_dm.engine.binlog.format import MAGIC, BinlogFormat
from airflow_provider_dm.engine.binlog.header import HEADER_SIZE, EventHeader
from airflow_provider_dm.engine.binlog.transaction import ScannedRange
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.errors import InvalidGtidSet
from airflow_provider_dm.engine.mysql.gtid import GtidSet
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE, BinlogFile
from airflow_provider_dm.engine.relay.directory import RelayDirectory, RelayFile, SubDir
from airflow_provider_dm.engine.relay.durable import disk_errors, sync_folder
from airflow_provider_dm.engine.relay.kinds import ACTIONS
from airflow_provider_dm.engine.relay.meta import RelayMeta
from airflow_provider_dm.engine.relay.packets import CRC_RESIDUE, GTID

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Recovered:
    """The last file of a sub-directory, ending at a transaction boundary."""

    file: BinlogFile
    size: int
    begun: int
    """The start of its last transaction. The relay pulls from there, and compares the file with the upstream."""
    gtid_set: GtidSet


@dataclass(frozen=True)
class _Verified:
    end: int
    """All events before this position are complete and have valid checksums."""
    begins: tuple[int, int]
    """The starts of the last two transactions; the start of the check if there are fewer."""


def recover(directory: RelayDirectory, sub_dir: SubDir, flavour: Flavour) -> Recovered | None:
    """Recover the last file for the writer, under its lock; None if the sub-directory has no file.

    Raises RelayDiskFailed, and UnsupportedFormat for a file that no known server wrote.
    """
    folder = directory.folder(sub_dir)
    for leftover in folder.glob(".*.new"):
        leftover.unlink()
    while files := directory.files(sub_dir):
        recovered = _recover_file(files, flavour, _of_flavour(RelayMeta.read(folder), flavour))
        if recovered is not None:
            return recovered
        _set_aside(directory, sub_dir, files[-1])
    return None


def _set_aside(directory: RelayDirectory, sub_dir: SubDir, damaged: RelayFile) -> None:
    """Rename a file without a complete format description: files are created with one, so it is damaged.

    It is pulled again if the upstream still has it; otherwise a user may want to examine it.
    """
    aside = directory.root / f"{sub_dir}.{damaged.path.name}.damaged"
    log.error("%s has no complete format description; it is now %s", damaged.path, aside)
    damaged.path.replace(aside)
    sync_folder(directory.folder(sub_dir))
    sync_folder(directory.root)


def _of_flavour(hint: RelayMeta | None, flavour: Flavour) -> RelayMeta | None:
    """Return the hint; None if its GTID set is of the other flavour."""
    try:
        return hint if hint is not None and GtidSet.parse(hint.binlog_gtid, flavour) is not None else None
    except InvalidGtidSet:
        return None


def boundary_after(path: Path, start: int) -> int:
    """Return the last transaction boundary at or after `start`, which is a boundary. Raises UnsupportedFormat."""
    return _scanned(path, start).end


def _scanned(path: Path, start: int) -> ScannedRange:
    size = path.stat().st_size
    with opened_log(str(path), size, path.name) as log:
        if log is None:
            return ScannedRange(start, start)
        try:
            return scan_log(log, start, cut=size + 1, apply=False)
        except MalformedEvent:  # there is no complete transaction after `start`
            return ScannedRange(start, start)


def _recover_file(files: Sequence[RelayFile], flavour: Flavour, hint: RelayMeta | None) -> Recovered | None:
    held = files[-1]
    first = _first_event(held.path)
    if first is None:
        return None
    checksums = BinlogFormat.parse(first, str(held.path)).checksum
    first_end = start = BINLOG_HEADER_SIZE + len(first)
    known = GtidSet.empty(flavour)
    if hint is not None and _names_event_boundary(hint, held, start, checksums=checksums):
        start, known = hint.binlog_pos, GtidSet.parse(hint.binlog_gtid, flavour)
    # Without checksums, zeros within an event after a power failure would be undetectable.
    verified = _verify(held.path, start) if checksums else _Verified(start, (start, start))
    _cut(held, verified.end)
    scanned = _scanned(held.path, start)
    _cut(held, scanned.end)
    if scanned.end == first_end and len(files) > 1:
        known = _gtid_set_at_end(files[-2], flavour, hint)
    begun = max((begin for begin in verified.begins if begin < scanned.end), default=start)
    gtid_set = GtidSet.parse(scanned.trail.added_to(str(known), flavour), flavour)
    return Recovered(held.file, scanned.end, begun, gtid_set)


def _gtid_set_at_end(finished: RelayFile, flavour: Flavour, hint: RelayMeta | None) -> GtidSet:
    """Return the GTID set at the end of a finished file, for a next file that does not contain it yet."""
    if hint is not None and (hint.binlog_name, hint.binlog_pos) == (str(finished.file), finished.size):
        return GtidSet.parse(hint.binlog_gtid, flavour)  # written when the file was finished
    tail = last_boundary(str(finished.path), finished.size)
    return GtidSet.parse(tail.gtid_set, flavour) if tail is not None else GtidSet.empty(flavour)


def _names_event_boundary(hint: RelayMeta, held: RelayFile, first_end: int, *, checksums: bool) -> bool:
    """Return True if relay.meta names a position in this file at which an event begins, or the file ends."""
    if hint.binlog_name != str(held.file) or not first_end <= hint.binlog_pos <= held.size:
        return False
    if not checksums:  # the next event cannot be verified
        return _verify(held.path, first_end, checksums=False, stop=hint.binlog_pos).end == hint.binlog_pos
    at_end = hint.binlog_pos == held.size
    return at_end or _verify(held.path, hint.binlog_pos, most=1).end > hint.binlog_pos


def _first_event(path: Path) -> bytes | None:
    """Return the format description event; None if it is incomplete, or magic number or CRC are wrong."""
    with open(path, "rb") as file:
        magic, head = file.read(len(MAGIC)), file.read(HEADER_SIZE)
        if magic != MAGIC or len(head) < HEADER_SIZE:
            return None
        header = EventHeader.parse(head)
        event = head + file.read(min(header.size, 1 << 16) - HEADER_SIZE) if header.size > HEADER_SIZE else head
    whole = header.code == FORMAT_DESCRIPTION and len(event) == header.size and crc32(event) == CRC_RESIDUE
    return event if whole else None


def _verify(
    path: Path, start: int, *, checksums: bool = True, most: int | None = None, stop: int | None = None
) -> _Verified:
    """Check events from `start` to `stop` (at most `most`), until one is incomplete or has a wrong checksum."""
    at, begins, left = start, (start, start), most if most is not None else -1
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        end = size if stop is None else min(size, stop)
        if end <= start:
            return _Verified(end, begins)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
            while end - at >= HEADER_SIZE and left != 0:
                size = int.from_bytes(view[at + 9 : at + 13], "little")
                if size < HEADER_SIZE or at + size > end or (checksums and not _has_right_checksum(view, at, size)):
                    break
                if ACTIONS[view[at + 4]] == GTID:
                    begins = (begins[1], at)
                at, left = at + size, left - 1
    return _Verified(at, begins)


def _has_right_checksum(view: memoryview, at: int, size: int) -> bool:
    with view[at : at + size] as event:
        return crc32(event) == CRC_RESIDUE


def _cut(held: RelayFile, size: int) -> None:
    with disk_errors(held.path), open(held.path, "r+b") as file:
        now = os.fstat(file.fileno()).st_size
        if size < now:
            log.warning("%s: cut off %d bytes after %d, an incomplete transaction", held.path, now - size, size)
            os.ftruncate(file.fileno(), size)
            os.fsync(file.fileno())
