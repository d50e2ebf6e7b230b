"""Planning of the next work: an epoch of complete transactions as byte ranges, a DDL statement, or nothing.

A plan starts at a location between two transactions and is made by header scans only (boundary.py). Its cost depends on
its size: before `lo`, only the format event of the file is read. Positions are sums of event sizes, 64 bits; the
server's own `end_log_pos` wraps at 4 GiB and is not used. A finished file is continued by the next one; an incomplete
transaction at the end of a finished file was never committed (its source crashed) and is dropped, with a warning.

`gtid_set` of a location: if `lo` has none, it remains unknown ("") until the next file contains the set committed
before it; an incomplete set would be mistaken for a complete one.

After a failover to another server, the next sub-directory repeats transactions of the older one. A transaction whose id
is in the location's GTID set is skipped, with any content (repetitions.py). An epoch ends before such transactions,
and the next begins after them, so all bytes of an epoch's ranges are to be applied.

A prepared XA transaction is skipped at its own location, and its range follows at its commit (prepared_ranges.py).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from airflow_provider_dm.engine.binlog.boundary import OpenLog, opened_log, scan_log, verify_events
from airflow_provider_dm.engine.binlog.errors import (
    BrokenFileChain,
    LocationNotInLog,
    MalformedEvent,
    NoRows,
    OldLogNotHeld,
)
from airflow_provider_dm.engine.binlog.format import BinlogFormat
from airflow_provider_dm.engine.binlog.gtid_events import GtidTrail
from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.binlog.open_places import OpenPlace, check_passed
from airflow_provider_dm.engine.binlog.planned import (
    NO_LIMITS,
    ByteRange,
    DdlStatement,
    Epoch,
    EpochLimits,
    Planned,
    UpToDate,
)
from airflow_provider_dm.engine.binlog.prepared_ranges import ListLogFiles, PreparedRanges
from airflow_provider_dm.engine.binlog.repetitions import Repetitions, cross
from airflow_provider_dm.engine.binlog.transaction import NOWHERE, FoundDdl, ScanEnd, ScannedRange
from airflow_provider_dm.engine.binlog.xa import PreparedXa
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE, BinlogFile, Location, reached

logger = logging.getLogger(__name__)


def plan_epoch(
    files: Sequence[LogFile],
    lo: Location,
    limits: EpochLimits = NO_LIMITS,
    *,
    repetitions: Repetitions | None = None,
    prepared: Sequence[PreparedXa] = (),
    held: ListLogFiles | None = None,
    bounds_only: bool = False,
    open_places: Sequence[OpenPlace] = (),
) -> Planned:
    """Plan the next part of the log after `lo`.

    `files`: from lo's file on, in order; if its sub-directory no longer exists, from the next one on. `repetitions`:
    the results of earlier plans of the same log. `prepared`: XA transactions that are prepared at `lo`. `held`: lists
    the files of prepared transactions that are not in `files`. `bounds_only`: rows of prepared transactions are not
    needed. `open_places`: locations to be passed in their own log. Raises LocationNotInLog, BrokenFileChain,
    UnsupportedFormat, FailoverNotFollowed, XaRowsGone, ChangeNotInLog, OldLogNotHeld, and the errors of
    `boundary.scan_log` if they are the first thing found.
    """
    if limits.goal is not None and reached(lo, limits.goal):
        return UpToDate(lo)
    xa = PreparedRanges({group.xid: group for group in prepared}, files, held, bounds_only=bounds_only)
    plan = _Plan(lo, limits, repetitions or Repetitions(), xa, open_places)
    first = _index_of(files, lo)
    if first is None and not plan.cross(None, files[0]):
        return UpToDate(lo)
    for index in range(first or 0, len(files)):
        following = files[index + 1] if index + 1 < len(files) else None
        try:
            if not plan.take(files[index], following):
                break
        except DmError as error:
            if not plan.transactions or isinstance(error, OldLogNotHeld):  # an epoch must not be incomplete
                raise
            break  # transactions before it come first; the next plan begins with the error
    return plan.result()


def _index_of(files: Sequence[LogFile], lo: Location) -> int | None:
    """Return the index of lo's file; None if all files are in later sub-directories. Raises LocationNotInLog."""
    for index, file in enumerate(files):
        if (file.suffix, file.name) == (lo.suffix, lo.file):
            return index
    if files and lo.gtid_set and files[0].suffix > lo.suffix:
        return None
    known = f"{files[0].name} to {files[-1].name}" if files else "none"
    raise LocationNotInLog(str(lo), f"the files are {known}")


@dataclass
class _Plan:
    """A growing epoch. `here` is the last boundary reached; `known`: its GTID set is known, even if it is empty."""

    lo: Location
    limits: EpochLimits
    repetitions: Repetitions
    xa: PreparedRanges
    open_places: Sequence[OpenPlace]
    here: Location = field(init=False)
    ranges: list[ByteRange] = field(default_factory=list, init=False)
    transactions: int = field(default=0, init=False)
    bytes: int = field(default=0, init=False)
    walked: int = field(default=0, init=False)
    unpacked: int = field(default=0, init=False)
    newest_timestamp: int = field(default=0, init=False)
    ddl: DdlStatement | None = field(default=None, init=False)
    known: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.here = replace(self.lo, position=max(self.lo.position, BINLOG_HEADER_SIZE))

    def take(self, file: LogFile, following: LogFile | None) -> bool:
        """Scan one file from `here`; return True if the plan continues in the next file."""
        if self.here.suffix == file.suffix and not self.here.server_uuid:
            self.here = replace(self.here, server_uuid=file.server_uuid)
        if self.here.position > file.size:
            if file.last:
                return False  # the relay has not reached the location yet
            if following is not None and following.suffix != file.suffix and self.here.gtid_set:
                # It was read elsewhere, ahead of this relay, before the source crashed: the next file repeats it.
                return self.cross(None, following) and not self._full()
            raise LocationNotInLog(str(self.here), f"{file.name} ends at {file.size}")
        with opened_log(file.path, file.size, file.name) as log:
            if log is None:
                self._check_dropped(file, None, ScanEnd.TORN, following)
            else:
                self.here = replace(self.here, created=log.created)
                if not self._scan_file(file, log, following):
                    return False
        return self._step_over(file, following)

    def _scan_file(self, file: LogFile, log: OpenLog, following: LogFile | None) -> bool:
        """Scan a file from `here`; return True at its end."""
        while not self._full():
            start = self.here.position
            room = self._room(file)
            run = self.repetitions.run_behind(file, log, self.here, goal=self._goal_in(file))
            if run is not None and run.repeated and run.end > start:
                if self.transactions:
                    return False
                self.here = replace(self.here, position=run.end)
                continue
            if run is not None:
                room = max(1, min(room, run.end - start))
            apply = run is None or not run.repeated  # otherwise only find out whether a transaction is incomplete
            scanned = self._scan_in_time(log, start + room, apply=apply)
            try:
                self._add(file, log.format, scanned)
            except NoRows as error:
                if error.position == start:
                    raise error.why from error
                self._add(file, log.format, self._scan(log, error.position, apply=apply))
                return False
            match scanned.ended:
                case ScanEnd.CUT:
                    continue
                case ScanEnd.DDL | ScanEnd.EVENT:
                    if scanned.ddl is not None and not self.transactions:
                        self.ddl = self._statement(file, log, scanned.ddl, scanned.ddl_trail)
                    return False
                case ScanEnd.FILE | ScanEnd.INSIDE | ScanEnd.TORN:
                    self._check_dropped(file, log, scanned.ended, following)
                    return True
        return False

    def _scan(self, log: OpenLog, cut: int, *, apply: bool) -> ScannedRange:
        return scan_log(log, self.here.position, cut=cut, apply=apply, part=max(self.limits.range_bytes, 1))

    def _scan_in_time(self, log: OpenLog, cut: int, *, apply: bool) -> ScannedRange:
        """Scan up to `cut`, or to the end of the first transaction at or after `until_time`."""
        start = self.here.position
        scanned = self._scan(log, cut, apply=apply)
        while scanned.transactions > 1 and self._is_time(scanned.newest_timestamp):
            end = scanned.end
            scanned = self._scan(log, start + max(1, (end - start) // 2), apply=apply)
            if scanned.end == end:  # the middle is in the last transaction
                scanned = self._scan(log, start + 1, apply=apply)
        return scanned

    def _is_time(self, timestamp: int) -> bool:
        until = self.limits.until_time
        return until is not None and timestamp >= until

    def _full(self) -> bool:
        return (
            self._size() >= self.limits.max_bytes
            or (self.limits.goal is not None and reached(self.here, self.limits.goal))
            or (self.transactions > 0 and self._is_time(self.newest_timestamp))
        )

    def _size(self) -> int:
        return max(self.bytes, self.walked) + self.unpacked

    def _room(self, file: LogFile) -> int:
        """Return the number of bytes until the next cut: the range or the epoch is full, or the goal is reached."""
        room = min(self.limits.range_bytes, self.limits.max_bytes - self._size())
        return max(min(room, self._goal_in(file) - self.here.position), 1)

    def _goal_in(self, file: LogFile) -> int:
        goal = self.limits.goal
        if goal is not None and (goal.suffix, goal.file) == (file.suffix, file.name):
            return goal.position
        return NOWHERE

    def _add(self, file: LogFile, log_format: BinlogFormat, found: ScannedRange) -> None:
        """Add a scanned range. If NoRows is raised, nothing has changed."""
        scanned = ByteRange(file.path, file.name, file.suffix, found.start, found.end, log_format)
        ranges = self.xa.ranges(file, scanned, found) if found.xa else scanned.cut(found.seams)
        self.here = self._moved(found.end, found.trail, log_format)
        if not found.transactions:
            return
        self.ranges += ranges
        self.transactions += found.transactions
        self.walked += found.end - found.start
        self.unpacked += found.unpacked
        self.bytes += sum(range_.end - range_.start for range_ in ranges)
        self.newest_timestamp = max(self.newest_timestamp, found.newest_timestamp)

    def _moved(self, position: int, trail: GtidTrail, log_format: BinlogFormat) -> Location:
        here = self.here
        self.known = self.known or bool(here.gtid_set) or here.position == BINLOG_HEADER_SIZE
        gtid_set = trail.added_to(here.gtid_set, log_format.flavour) if self.known else ""
        return replace(here, position=position, gtid_set=gtid_set)

    def _statement(self, file: LogFile, log: OpenLog, statement: FoundDdl, trail: GtidTrail) -> DdlStatement:
        if not statement.rows:  # otherwise the decoder will check all events
            verify_events(log, statement.start, statement.end)
        text = statement.query.text()
        rows = ByteRange(file.path, file.name, file.suffix, statement.start, statement.end, log.format)
        return DdlStatement(
            at=replace(self.here, position=statement.start),
            end=self._moved(statement.end, trail, log.format),
            schema=statement.query.schema_name,
            sql=statement.query.sql.decode("utf-8", "backslashreplace") if text is None else text,
            timestamp=statement.timestamp,
            undecoded=statement.query.sql if text is None else None,
            rows=rows if statement.rows else None,
            sql_mode=statement.query.session.sql_mode or 0,
            session=statement.query.session,
            seams=statement.seams,
        )

    def _check_dropped(self, file: LogFile, log: OpenLog | None, ended: ScanEnd, following: LogFile | None) -> None:
        """Check the rest at the end of a finished file: no bytes, or events with valid checksums."""
        if following is None or ended is ScanEnd.FILE:
            return
        if ended is ScanEnd.TORN or log is None:
            raise MalformedEvent(str(self.here), f"{file.name} is finished but ends within an event")
        verify_events(log, self.here.position, file.size)
        logger.warning("the transaction at %s was never completed by its source; it is dropped", self.here)

    def _step_over(self, file: LogFile, following: LogFile | None) -> bool:
        """Go to the beginning of the next file, if there is one; return True if the plan continues there."""
        if following is None:
            return False
        if file.suffix != following.suffix:
            return self.cross(file, following) and not self._full()
        _check_chain(file, following)
        self.here = replace(self.here, file=following.name, position=BINLOG_HEADER_SIZE, created=0)
        return not self._full()

    def cross(self, file: LogFile | None, following: LogFile) -> bool:
        """Go to the beginning of the next sub-directory, if the set committed before it is known.

        Raises OldLogNotHeld, and the errors of `repetitions.cross`.
        """
        there = cross(self.here, file, following)
        if there is not None:
            check_passed(self.open_places, self.here, following)
        self.here = there or self.here
        return there is not None

    def result(self) -> Planned:
        if self.ddl is not None:
            return self.ddl
        if not self.transactions:
            return UpToDate(self.here)
        prepared = tuple(self.xa.prepared.values()) if self.xa.changed else None
        return Epoch(
            self.lo,
            self.here,
            tuple(self.ranges),
            self.transactions,
            self.bytes,
            self.newest_timestamp,
            prepared,
            self.unpacked,
        )


def _check_chain(file: LogFile, following: LogFile) -> None:
    expected = BinlogFile.parse(file.name).next()
    if BinlogFile.parse(following.name) != expected:
        raise BrokenFileChain(file.name, str(expected), following.name)
