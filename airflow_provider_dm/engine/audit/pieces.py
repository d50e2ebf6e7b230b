"""Plans an audit of a relay directory: a part of the log as byte ranges that can be decoded independently.

An audit covers all row changes between two locations; changes that a new server's log repeats after a failover are read
once. If the directory does not hold that part of the log completely, an error is raised. The directory is neither
locked nor changed; the relay may continue, and later events belong to the next audit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.binlog.located import Events
from airflow_provider_dm.engine.binlog.planned import ByteRange, DdlStatement, Epoch, EpochLimits, UpToDate
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.binlog.repetitions import Repetitions
from airflow_provider_dm.engine.binlog.xa import PreparedXa
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.mysql.errors import InvalidLocation
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE, BinlogFile, Location, reached
from airflow_provider_dm.engine.relay.directory import RelayDirectory, SubDir
from airflow_provider_dm.engine.relay.errors import RelayDirectoryUnusable
from airflow_provider_dm.engine.relay.reader import RelayReader

PIECE_BYTES: Final = 16 << 20


@dataclass(frozen=True)
class LogPiece:
    """A byte range of a file. `gtid`: that of the transaction in which it begins, if it begins inside a transaction."""

    range: ByteRange
    sub_dir: str
    gtid: str | None = None


def audit_pieces(
    root: Path, *, start: str | None = None, end: str | None = None, piece_bytes: int = PIECE_BYTES
) -> list[LogPiece]:
    """Return the pieces from `start` (default: the first file) to `end` (default: the last complete transaction).

    Locations are `FILE:POSITION` or `SUB-DIRECTORY/FILE:POSITION`; `start` has to be between two transactions.
    Raises InvalidLocation, InvalidInput, RelayDirectoryUnusable, RelayStartsTooLate, RelayFileGone, and the errors of
    the planner.
    """
    directory = RelayDirectory(root)
    lo = _first(directory) if start is None else _located(directory, start)
    hi = None if end is None else _located(directory, end)
    names = {sub_dir.suffix: str(sub_dir) for sub_dir in directory.sub_dirs()}
    ranges = _ranges(root, RelayReader(root), lo, hi, piece_bytes)
    gtids = _gtids_of_seams(ranges)
    return [LogPiece(part, names[part.suffix], gtid) for part, gtid in zip(ranges, gtids, strict=True)]


def _first(directory: RelayDirectory) -> Location:
    for sub_dir in directory.sub_dirs():
        for file in directory.files(sub_dir):
            return Location(str(file.file), BINLOG_HEADER_SIZE, "", sub_dir.suffix)
    raise RelayDirectoryUnusable(str(directory.root), "it contains no binlog file")


def _located(directory: RelayDirectory, text: str) -> Location:
    """Return the location that a user has given as text."""
    named, slash, rest = text.rpartition("/")
    location = Location.parse(rest)
    if slash:
        sub_dir = directory.by_suffix(SubDir.parse(named).suffix)
        if sub_dir is None or str(sub_dir) != named:
            raise InvalidLocation(text)
        return replace(location, suffix=sub_dir.suffix)
    file = BinlogFile.parse(location.file)
    holding = [one for one in directory.sub_dirs() if any(held.file == file for held in directory.files(one))]
    if len(holding) != 1:
        raise InvalidInput(
            f"the relay directory has {location.file} in these sub-directories: "
            f"{', '.join(tuple(map(str, holding)) or ('none',))}.",
            "Write the location as SUB-DIRECTORY/FILE:POSITION; sub-directories are in server-uuid.index.",
        )
    return replace(location, suffix=holding[0].suffix)


def _ranges(root: Path, reader: RelayReader, lo: Location, hi: Location | None, piece_bytes: int) -> list[ByteRange]:
    """Return the ranges between two locations. Small ranges that only a DDL statement divides are joined."""
    ranges: list[ByteRange] = []
    files, here, passed, repetitions = reader.files(lo), lo, None, Repetitions()
    prepared: tuple[PreparedXa, ...] = ()
    while True:
        planned = plan_epoch(
            files,
            here,
            EpochLimits(goal=hi, range_bytes=piece_bytes),
            repetitions=repetitions,
            prepared=prepared,
            held=reader.held,
        )
        match planned:
            case UpToDate(at):
                if hi is not None and not reached(at, hi):
                    raise InvalidInput(
                        f"the log up to {hi} is needed, but the relay log in {root} ends with {at}.",
                        "Wait for the relay, or give an earlier end.",
                    )
                return ranges
            case Epoch():
                _append(ranges, planned.ranges, passed, piece_bytes)
                here, passed = planned.hi, None
                prepared = prepared if planned.prepared is None else planned.prepared
            case DdlStatement():
                rows = planned.rows_epoch()
                if rows is not None:
                    ranges += rows.ranges
                passed = (planned.at.position, planned.end.position) if rows is None else None
                here = planned.end


def _append(
    ranges: list[ByteRange], scanned: Sequence[ByteRange], passed: tuple[int, int] | None, piece_bytes: int
) -> None:
    """Add ranges; `passed`: begin and end of a DDL statement between the existing ranges and these."""
    if not scanned:
        return
    first, *others = scanned
    last = ranges[-1] if ranges else None
    if last is not None and passed == (last.end, first.start) and not (last.closes or first.inside):
        if last.path == first.path and first.end - last.start <= piece_bytes:
            ranges[-1] = replace(first, start=last.start, inside=last.inside)
            ranges += others
            return
    ranges += scanned


def _gtids_of_seams(ranges: Sequence[ByteRange]) -> list[str | None]:
    """Return, for each range that begins inside a transaction, the GTID from an earlier range; None for the others."""
    gtids: list[str | None] = []
    for index, part in enumerate(ranges):
        if not part.inside:
            gtids.append(None)
            continue
        with Events(ranges[index - 1], gtids[-1]) as before:
            gtids.append(before.last_gtid())
    return gtids
