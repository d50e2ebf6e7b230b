"""What to apply next: an epoch of complete transactions as byte ranges, or a DDL statement, or nothing.

A plan starts at a location between two transactions and is made of header scans only (boundary.py). It costs what it
covers: nothing before `lo` is read but the format event of its file. Positions are sums of event sizes, 64 bits; the
server's own `end_log_pos` wraps at 4 GiB and is not trusted. A finished file leads to the next one; a transaction cut
off at the end of a finished file was never committed (its source died) and is dropped, with a warning.

Ranges are decoded apart from each other, so each names every table that it has rows of. A range starts at a transaction
or, where one is larger than a range, at a seam inside it: behind the last rows event of a statement (its flag says so),
as the next statement names its tables anew. What is not cut is a statement and a compressed transaction. An epoch
always ends with a transaction.

`gtid_set` of a location: where `lo` does not say one it stays unknown ("") until the next file names what came before
it; an incomplete set would be taken for a complete one.

Where the source failed over to another server, the next sub-directory repeats transactions of the older one. A
transaction whose id is in the location's GTID set is passed over, whatever it holds (repetitions.py). An epoch ends in
front of such ones, and the next begins behind them, so the bytes of its ranges are always to be applied.

A prepared XA transaction is left out where it lies, and its range comes where its commit does (xa.py): from this plan,
from an earlier one that left it `prepared`, or, where nobody knows it, by a look back into the log that is held.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeAlias

from airflow_provider_dm.engine.binlog.boundary import list_xa, read_format, scan, verify_events
from airflow_provider_dm.engine.binlog.errors import BrokenFileChain, LocationNotInLog, MalformedEvent
from airflow_provider_dm.engine.binlog.format import BinlogFormat
from airflow_provider_dm.engine.binlog.gtid_events import GtidTrail
from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.binlog.repetitions import Repetitions, cross
from airflow_provider_dm.engine.binlog.session_variables import Session
from airflow_provider_dm.engine.binlog.transaction import (
    NOWHERE,
    Ended,
    FoundDdl,
    FoundEnd,
    FoundPrepared,
    Seam,
    Stretch,
)
from airflow_provider_dm.engine.binlog.window import Window
from airflow_provider_dm.engine.binlog.xa import Held, Prepared, XaNotSeen, XaRowsGone, Xid, file_of
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE, BinlogFile, Location, reached

__all__ = ["ByteRange", "DdlStatement", "Epoch", "LogFile", "Planned", "UpToDate", "plan_epoch"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ByteRange:
    """Bytes `start` to `end` of a file, to be decoded without anything before them: whole transactions, or statements.

    `data`: those bytes, where they travel with the range; else they are read from `path`. `inside`: `start` is a seam,
    the first rows belong to a transaction that began before. `closes`: where the last transaction ends when that is
    behind `end`, which then is a seam; 0 when `end` is a boundary. There is no boundary between `end` and `closes`.
    `counts_at`: the sort key of the place where these rows count, if that is another one: the commit of a prepared
    transaction.
    """

    path: str
    file: str
    suffix: int
    start: int
    end: int
    format: BinlogFormat
    data: bytes | None = None
    inside: bool = False
    closes: int = 0
    counts_at: str = ""

    @property
    def last_boundary(self) -> int:
        """The place where the last transaction of the range ends, in it or behind it."""
        return self.closes or self.end

    def cut(self, seams: Sequence[Seam]) -> tuple[ByteRange, ...]:
        """Return the same bytes as several ranges, cut at those of these seams that lie inside it."""
        closes = {seam.position: seam.closes for seam in seams if self.start < seam.position < self.end}
        return tuple(
            replace(self, start=start, end=end, inside=start in closes, closes=closes.get(end, 0))
            for start, end in pairwise((self.start, *closes, self.end))
        )


@dataclass(frozen=True)
class Epoch:
    """Transactions between two locations. `newest_timestamp`: seconds since 1970, of the newest commit in it.

    `bytes`: of its ranges and between them. `prepared`: what is prepared and has not ended at `hi`; None: what was so
    at `lo`.
    """

    lo: Location
    hi: Location
    ranges: tuple[ByteRange, ...]
    transactions: int
    bytes: int
    newest_timestamp: int
    prepared: tuple[Prepared, ...] | None = None


@dataclass(frozen=True)
class DdlStatement:
    """A statement that is not about rows. `at` is where its transaction begins, `end` where it ends.

    `sql`: with UNSURE (client_charsets) for characters that are not known.
    `undecoded`: the statement's bytes, where its charset could not be read; `sql` is then only for people.
    `rows`: its transaction, if that holds rows as well, maybe of other tables (CREATE TABLE … SELECT, or DROP TEMPORARY
    TABLE between changes): executing it, or passing over it, is not all of it. `seams`: where `rows` may be cut.
    `session`: what the statement ran with, as far as its event says.
    """

    at: Location
    end: Location
    schema: str
    sql: str
    timestamp: int
    undecoded: bytes | None = None
    rows: ByteRange | None = None
    sql_mode: int = 0
    session: Session = field(default_factory=Session)
    seams: tuple[Seam, ...] = ()

    def rows_epoch(self) -> Epoch | None:
        """Return the rows of its transaction, to be applied like any others; None where it has none."""
        if self.rows is None:
            return None
        size = self.rows.end - self.rows.start
        return Epoch(self.at, self.end, self.rows.cut(self.seams), 1, size, self.timestamp)


@dataclass(frozen=True)
class UpToDate:
    """Nothing complete lies behind `at`, which may be past `lo` by events that change nothing."""

    at: Location


Planned: TypeAlias = Epoch | DdlStatement | UpToDate


def plan_epoch(
    files: Sequence[LogFile],
    lo: Location,
    *,
    goal: Location | None,
    max_bytes: int,
    range_bytes: int,
    repetitions: Repetitions | None = None,
    prepared: Sequence[Prepared] = (),
    held: Held | None = None,
    bounds_only: bool = False,
    until_time: int | None = None,
) -> Planned:
    """Plan the next piece of the log behind `lo`.

    `files`: from lo's file on, in order; if its sub-directory is gone, from the next one on. `goal`: go to the first
    boundary at or behind it. `max_bytes`: end the epoch with the transaction that crosses it; `range_bytes`: start a
    new range with the transaction or statement behind it. `repetitions`: what the plans before this one, of the same
    log, have found out. `prepared`: what is prepared and has not ended at `lo`. `held`: lists the files in which
    prepared transactions lie that `files` do not have. `bounds_only`: nobody asks for the rows of prepared ones.
    `until_time`: end the epoch with the first transaction that has committed then or later, in seconds since 1970.
    Raises LocationNotInLog, BrokenFileChain, UnsupportedFormat, HistoryGap, HistoryDiverged, NotNumbered, XaRowsGone,
    XaNotSeen, and what `boundary.scan` raises if it is the first thing found.
    """
    if goal is not None and reached(lo, goal):
        return UpToDate(lo)
    xa = _Xa({group.xid: group for group in prepared}, files, held, bounds_only)
    plan = _Plan(lo, goal, max_bytes, range_bytes, repetitions or Repetitions(), xa, until_time)
    first = _index_of(files, lo)
    if first is None and not plan.cross(None, files[0]):
        return UpToDate(lo)
    for index in range(first or 0, len(files)):
        following = files[index + 1] if index + 1 < len(files) else None
        try:
            if not plan.take(files[index], following):
                break
        except DmError:
            if not plan.transactions:
                raise
            break  # first what lies before it; the next plan begins with it
    return plan.result()


def _index_of(files: Sequence[LogFile], lo: Location) -> int | None:
    """Return the index of lo's file; None where all files are of later sub-directories. Raises LocationNotInLog."""
    for index, file in enumerate(files):
        if (file.suffix, file.name) == (lo.suffix, lo.file):
            return index
    if files and lo.gtid_set and files[0].suffix > lo.suffix:
        return None
    known = f"{files[0].name} to {files[-1].name}" if files else "none"
    raise LocationNotInLog(str(lo), f"the files are {known}")


class _Plan:
    """An epoch while it grows. `here` is the last boundary reached; `known`: its GTID set is, even if it is empty."""

    def __init__(
        self,
        lo: Location,
        goal: Location | None,
        max_bytes: int,
        range_bytes: int,
        repetitions: Repetitions,
        xa: _Xa,
        until_time: int | None,
    ) -> None:
        self.lo = lo
        self.goal = goal
        self.max_bytes = max_bytes
        self.range_bytes = range_bytes
        self.repetitions = repetitions
        self.xa = xa
        self.until_time = until_time
        self.here = replace(lo, position=max(lo.position, BINLOG_HEADER_SIZE))
        self.ranges: list[ByteRange] = []
        self.transactions = 0
        self.bytes = 0
        self.walked = 0
        self.newest_timestamp = 0
        self.ddl: DdlStatement | None = None
        self.known = False

    def take(self, file: LogFile, following: LogFile | None) -> bool:
        """Scan one file from `here`; True when the plan goes on in the next."""
        if self.here.suffix == file.suffix and not self.here.server_uuid:
            self.here = replace(self.here, server_uuid=file.server_uuid)
        if self.here.position > file.size:
            if file.last:
                return False  # the relay has not come so far (again)
            if following is not None and following.suffix != file.suffix and self.here.gtid_set:
                # Read elsewhere, ahead of this relay, when its source died: what counts is what the next one repeats.
                return self.cross(None, following) and not self._full()
            raise LocationNotInLog(str(self.here), f"{file.name} ends at {file.size}")
        with Window(file.path, file.size) as window:
            log_format = read_format(window, file.name)
            if log_format is None:
                self._check_dropped(file, window, Ended.TORN, following, None)
            elif not self._scan_file(file, window, log_format, following):
                return False
        return self._step_over(file, following)

    def _scan_file(self, file: LogFile, window: Window, log_format: BinlogFormat, following: LogFile | None) -> bool:
        """Scan a file from `here`; True when it is read to its end."""
        while not self._full():
            start = self.here.position
            room = self._room(file)
            run = self.repetitions.run_behind(file, window, log_format, self.here, goal=self._goal_in(file))
            if run is not None and run.repeated and run.end > start:
                if self.transactions:
                    return False
                self.here = replace(self.here, position=run.end)
                continue
            if run is not None:
                room = max(1, min(room, run.end - start))
            apply = run is None or not run.repeated  # else only whether something is begun and not complete
            found = self._scan_in_time(file, window, log_format, start + room, apply=apply)
            try:
                self._add(file, log_format, found)
            except _NoRows as error:
                if error.position == start:
                    raise error.why from error
                self._add(file, log_format, self._scan(file, window, log_format, error.position, apply=apply))
                return False
            match found.ended:
                case Ended.CUT:
                    continue
                case Ended.DDL | Ended.EVENT:
                    if found.ddl is not None and not self.transactions:
                        self.ddl = self._statement(file, window, found.ddl, found.ddl_trail, log_format)
                    return False
                case Ended.FILE | Ended.INSIDE | Ended.TORN:
                    self._check_dropped(file, window, found.ended, following, log_format)
                    return True
        return False

    def _scan(self, file: LogFile, window: Window, log_format: BinlogFormat, cut: int, *, apply: bool) -> Stretch:
        part, start = max(self.range_bytes, 1), self.here.position
        return scan(window, start, cut=cut, log_format=log_format, name=file.name, apply=apply, part=part)

    def _scan_in_time(
        self, file: LogFile, window: Window, log_format: BinlogFormat, cut: int, *, apply: bool
    ) -> Stretch:
        """Scan up to `cut`, or to the end of the transaction at which the time has come."""
        start = self.here.position
        found = self._scan(file, window, log_format, cut, apply=apply)
        while found.transactions > 1 and self._is_time(found.newest_timestamp):
            end = found.end
            found = self._scan(file, window, log_format, start + max(1, (end - start) // 2), apply=apply)
            if found.end == end:  # the middle lies in the last transaction
                found = self._scan(file, window, log_format, start + 1, apply=apply)
        return found

    def _is_time(self, timestamp: int) -> bool:
        return self.until_time is not None and timestamp >= self.until_time

    def _full(self) -> bool:
        return (
            max(self.bytes, self.walked) >= self.max_bytes
            or (self.goal is not None and reached(self.here, self.goal))
            or (self.transactions > 0 and self._is_time(self.newest_timestamp))
        )

    def _room(self, file: LogFile) -> int:
        """Return the bytes until the next cut: a range is full, the epoch is full, or the goal is there."""
        room = min(self.range_bytes, self.max_bytes - max(self.bytes, self.walked))
        return max(min(room, self._goal_in(file) - self.here.position), 1)

    def _goal_in(self, file: LogFile) -> int:
        if self.goal is not None and (self.goal.suffix, self.goal.file) == (file.suffix, file.name):
            return self.goal.position
        return NOWHERE

    def _add(self, file: LogFile, log_format: BinlogFormat, found: Stretch) -> None:
        """Take in what was scanned. Raises _NoRows, and then it is as if nothing had been."""
        stretch = ByteRange(file.path, file.name, file.suffix, found.start, found.end, log_format)
        ranges = self.xa.ranges(file, stretch, found) if found.xa else stretch.cut(found.seams)
        self.here = self._moved(found.end, found.trail, log_format)
        if not found.transactions:
            return
        self.ranges += ranges
        self.transactions += found.transactions
        self.walked += found.end - found.start
        self.bytes += sum(one.end - one.start for one in ranges)
        self.newest_timestamp = max(self.newest_timestamp, found.newest_timestamp)

    def _moved(self, position: int, trail: GtidTrail, log_format: BinlogFormat) -> Location:
        here = self.here
        self.known = self.known or bool(here.gtid_set) or here.position == BINLOG_HEADER_SIZE
        gtid_set = trail.added_to(here.gtid_set, log_format.flavour) if self.known else ""
        return replace(here, position=position, gtid_set=gtid_set)

    def _statement(
        self, file: LogFile, window: Window, found: FoundDdl, trail: GtidTrail, log_format: BinlogFormat
    ) -> DdlStatement:
        if not found.rows:  # else decoding them checks all events
            verify_events(window, found.start, found.end, log_format=log_format, name=file.name)
        text = found.query.text()
        rows = ByteRange(file.path, file.name, file.suffix, found.start, found.end, log_format)
        return DdlStatement(
            at=replace(self.here, position=found.start),
            end=self._moved(found.end, trail, log_format),
            schema=found.query.schema_name,
            sql=found.query.sql.decode("utf-8", "backslashreplace") if text is None else text,
            timestamp=found.timestamp,
            undecoded=found.query.sql if text is None else None,
            rows=rows if found.rows else None,
            sql_mode=found.query.session.sql_mode or 0,
            session=found.query.session,
            seams=found.seams,
        )

    def _check_dropped(
        self, file: LogFile, window: Window, ended: Ended, following: LogFile | None, log_format: BinlogFormat | None
    ) -> None:
        """Check what is left over at the end of a finished file: nothing, or events of which each is right."""
        if following is None or ended is Ended.FILE:
            return
        if ended is Ended.TORN or log_format is None:
            raise MalformedEvent(str(self.here), f"{file.name} is finished and ends inside of an event")
        verify_events(window, self.here.position, file.size, log_format=log_format, name=file.name)
        log.warning("the transaction at %s was never completed by its source; it is dropped", self.here)

    def _step_over(self, file: LogFile, following: LogFile | None) -> bool:
        """Go to the beginning of the next file, if there is one; True when the plan goes on there."""
        if following is None:
            return False
        if file.suffix != following.suffix:
            return self.cross(file, following) and not self._full()
        _check_chain(file, following)
        self.here = replace(self.here, file=following.name, position=BINLOG_HEADER_SIZE)
        return not self._full()

    def cross(self, file: LogFile | None, following: LogFile) -> bool:
        """Go to the beginning of the next sub-directory, if it is known already what was committed before it."""
        there = cross(self.here, file, following)
        self.here = there or self.here
        return there is not None

    def result(self) -> Planned:
        if self.ddl is not None:
            return self.ddl
        if not self.transactions:
            return UpToDate(self.here)
        prepared = tuple(self.xa.prepared.values()) if self.xa.changed else None
        return Epoch(
            self.lo, self.here, tuple(self.ranges), self.transactions, self.bytes, self.newest_timestamp, prepared
        )


class _NoRows(Exception):
    """The rows of a prepared transaction, whose commit is at `position`, cannot be had, and why."""

    def __init__(self, position: int, why: DmError) -> None:
        super().__init__(position, why)
        self.position = position
        self.why = why


class _Xa:
    """XA transactions that are prepared where a growing plan ends. Mutable; `changed`: it is not what it began with."""

    def __init__(
        self, prepared: dict[Xid, Prepared], files: Sequence[LogFile], held: Held | None, bounds_only: bool
    ) -> None:
        self.prepared = prepared
        self.changed = False
        self._files = files
        self._held = held
        self._bounds_only = bounds_only

    def ranges(self, file: LogFile, stretch: ByteRange, found: Stretch) -> tuple[ByteRange, ...]:
        """Return what of a stretch is to be applied, in its order. Raises _NoRows, and then nothing has changed."""
        ranges: list[ByteRange] = []
        prepared, start = dict(self.prepared), stretch.start
        left_out: FoundPrepared | None = None  # the last one, as long as nothing is known of what follows

        def flush(end: int, behind: int) -> None:
            nonlocal start
            if end > start:
                ranges.extend(replace(stretch, start=start, end=end).cut(found.seams))
            start = behind

        for one in found.xa:
            if isinstance(one, FoundEnd) and one.committed and left_out is not None and not left_out.seams:
                if (one.xid, one.start) == (left_out.xid, left_out.end):  # nothing in between: it counts where it lies
                    del prepared[one.xid]
                    left_out = None
                    continue
            if left_out is not None:
                flush(left_out.start, left_out.end)
                left_out = None
            # The server takes no name twice: one that is prepared again has ended, without a trace in the log.
            known = prepared.pop(one.xid, None)
            if isinstance(one, FoundPrepared):
                at = Location(file.name, one.start, "", file.suffix, file.server_uuid)
                prepared[one.xid] = Prepared(one.xid, at, one.end, one.rows, one.seams)
                left_out = one
            elif one.committed and not self._bounds_only:
                rows = self._rows_of(one.xid, known, file, one.start)
                if rows:
                    flush(one.start, one.start)
                    ranges += rows
        if left_out is not None:
            flush(left_out.start, left_out.end)
        flush(stretch.end, stretch.end)
        self.prepared, self.changed = prepared, True
        return tuple(ranges)

    def _rows_of(self, xid: Xid, known: Prepared | None, file: LogFile, position: int) -> tuple[ByteRange, ...]:
        """Return the ranges of a prepared transaction that is committed at `position` of `file`. Raises _NoRows."""
        if known is not None and not known.rows:
            return ()
        commit = Location(file.name, position, "", file.suffix, file.server_uuid)
        its_file = file_of(known, self._files) if known is not None else None
        if known is not None and its_file is None and self._held is not None:
            its_file = file_of(known, self._held())
        if known is None or its_file is None:
            try:
                looked_up = look_back(xid, commit, (*self._files, *(self._held() if self._held is not None else ())))
            except OSError as error:
                log.warning("the log before %s could not be searched for %s: %s", commit, xid, error)
                looked_up = None
            if looked_up is None or (known is not None and looked_up[0].prepared_at < known.prepared_at):
                why = XaNotSeen(str(commit), str(xid)) if known is None else _gone(commit, known)
                raise _NoRows(position, why)
            known, its_file = looked_up
            log.info("the XA transaction %s, committed at %s, was prepared at %s", xid, commit, known.at)
        with Window(its_file.path, its_file.size) as window:
            log_format = read_format(window, its_file.name)
        if log_format is None:
            raise _NoRows(position, _gone(commit, known))
        whole = ByteRange(its_file.path, its_file.name, its_file.suffix, known.at.position, known.end, log_format)
        cut = whole.cut([Seam(*seam) for seam in known.seams])
        return tuple(replace(one, counts_at=commit.sort_key) for one in cut)


def _gone(commit: Location, known: Prepared) -> XaRowsGone:
    return XaRowsGone(str(commit), str(known.xid), str(known.at))


def look_back(xid: Xid, commit: Location, files: Sequence[LogFile]) -> tuple[Prepared, LogFile] | None:
    """Find the transaction of that name that was prepared last before `commit`; None where the files do not say.

    They are read from the newest on, up to the first gap: what is missing may have ended it. Raises OSError.
    """
    place = end = (commit.suffix, BinlogFile.parse(commit.file).number)
    order = {(one.suffix, BinlogFile.parse(one.name).number): one for one in reversed(files)}
    for suffix, number in sorted((one for one in order if one <= end), reverse=True):
        if suffix == place[0] and number < place[1] - 1:
            return None
        place = suffix, number
        file = order[place]
        until = commit.position if place == end else file.size
        with Window(file.path, min(until, file.size)) as window:
            try:
                log_format = read_format(window, file.name)
                listed = (
                    list_xa(window, BINLOG_HEADER_SIZE, end=until, log_format=log_format, name=file.name)
                    if log_format is not None
                    else []
                )
            except DmError as error:
                log.warning("%s was not searched for %s: %s", file, xid, error)
                return None
        for found in reversed(listed):
            if found.xid == xid:
                if not isinstance(found, FoundPrepared):
                    return None  # it had ended: what is committed was prepared by nobody
                at = Location(file.name, found.start, "", file.suffix, file.server_uuid)
                return Prepared(xid, at, found.end, found.rows), file
    return None


def _check_chain(file: LogFile, following: LogFile) -> None:
    expected = BinlogFile.parse(file.name).next()
    if BinlogFile.parse(following.name) != expected:
        raise BrokenFileChain(file.name, str(expected), following.name)
