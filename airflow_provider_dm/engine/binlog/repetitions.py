"""Repeated transactions in a log that continues in another server's files.

    <uuid of A>.000001  … a7 a8 a9 | b's first file repeats a5 … a9, in its own order, and continues
    <uuid of B>.000002             | a5 a6 a8 a7 a9 b1 b2 …

`cross` goes from one sub-directory to the next: all that was committed before the new file must be in the older ones,
otherwise there is a gap. After it `Repetitions` divides a file into runs of applied and new transactions, until all
applied transactions were found. That costs a header scan of those events; if nothing can be repeated (in the first
sub-directory, or if everything applied was committed before the file or the location), it costs nothing, or one read of
the file's head.

The contents of repeated transactions are not read: they may be DDL, or events that cannot be applied.
"""

from __future__ import annotations

import bisect
from pathlib import Path
from typing import Final, NamedTuple

from airflow_provider_dm.engine.binlog import events as codes
from airflow_provider_dm.engine.binlog.applied import FROM_THE_NEW_SERVER, Remaining, history_diverged, not_numbered
from airflow_provider_dm.engine.binlog.boundary import OpenLog, list_transactions, opened_log, scan_log
from airflow_provider_dm.engine.binlog.errors import FailoverNotFollowed, LocationNotInLog
from airflow_provider_dm.engine.binlog.gtid_events import gtid_list, previous_gtids
from airflow_provider_dm.engine.binlog.header import HEADER_SIZE, START, verify_checksum
from airflow_provider_dm.engine.binlog.hopping import hopper_for
from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.binlog.transaction import ScannedRange
from airflow_provider_dm.engine.mysql.gtid import GtidSet, MariadbGtidSet, MysqlGtidSet
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE, Location

_PIECE: Final = 4 << 20
"""Bytes that are sorted in one step."""
_BEFORE_NAMES: Final = frozenset({codes.FORMAT_DESCRIPTION, codes.START_ENCRYPTION})


class Section(NamedTuple):
    """Transactions up to boundary `end`: either all of them are applied already (`repeated`), or none."""

    end: int
    repeated: bool


class Repetitions:
    """Results of one reader's plans about its log, so that the next plan need not repeat the work. Mutable.

    All of it can be computed again from the log and a location.
    """

    def __init__(self) -> None:
        self._sorter: _Sorter | None = None
        self._ordinary: Location | None = None
        """After this location, in its sub-directory, nothing is repeated."""

    def run_behind(self, file: LogFile, log: OpenLog, here: Location, *, goal: int) -> Section | None:
        """Return the run after `here` in `file`.

        It ends at `here` if nothing complete follows. None: nothing is repeated.
        `goal`: do not go beyond the first boundary at or after it.
        Raises FailoverNotFollowed, LocationNotInLog, MalformedEvent.
        """
        if file.suffix == 1 or not here.gtid_set or self._is_ordinary(here):
            return None
        sorter = self._sorter
        if sorter is None or not sorter.holds(file, here.position):
            self._sorter = sorter = _Sorter.at(file, log, here)
        run = sorter.run_behind(log, here.position, goal)
        if run is not None and run.repeated and run.end > goal:
            return Section(_scanned(log, here.position, goal).end, repeated=True)
        if run is None and not sorter.left:
            self._ordinary, self._sorter = here, None
            return None
        return run or Section(here.position, repeated=True)

    def _is_ordinary(self, here: Location) -> bool:
        start = self._ordinary
        return start is not None and start.suffix == here.suffix and start.sort_key <= here.sort_key


class _Sorter:
    """One file, sorted from the boundary `begin` up to the last requested position."""

    def __init__(self, file: LogFile, begin: int, left: Remaining) -> None:
        self.left = left
        self._file = (file.suffix, file.path)
        self._begin = self._end = begin
        self._runs: list[Section] = []

    @classmethod
    def at(cls, file: LogFile, log: OpenLog, here: Location) -> _Sorter:
        read = held_before(log, here.position)
        applied = GtidSet.parse(here.gtid_set, log.format.flavour)
        return cls(file, here.position, Remaining.of(applied, read, file.server_uuid))

    def holds(self, file: LogFile, position: int) -> bool:
        return self._file == (file.suffix, file.path) and self._begin <= position <= self._end

    def run_behind(self, log: OpenLog, position: int, goal: int) -> Section | None:
        """Return the run after `position`; None without one. Raises the errors of `Repetitions.run_behind`."""
        if position == self._end and self.left:
            self._sort(log, min(position + _PIECE, goal))
        index = bisect.bisect_right(self._runs, position, key=lambda run: run.end)
        return self._runs[index] if index < len(self._runs) else None

    def _sort(self, log: OpenLog, cut: int) -> None:
        """Sort up to `cut`, or to a transaction that cannot be sorted: an error only if it is the first one."""
        start = self._end
        listed, end = list_transactions(log, start, cut=cut)
        for gtid, behind in listed:
            if not self.left:
                return
            try:
                if gtid is None:
                    raise not_numbered(f"the transaction that ends at {log.name}:{behind}")
                repeated = self.left.take(gtid, f"{log.name}:{behind}")
            except FailoverNotFollowed:
                if self._end == start:
                    raise
                return
            self._note(behind, repeated=repeated)
        if end > self._end:  # events after the last transaction, without changes
            self._note(end, repeated=bool(self._runs) and self._runs[-1].repeated)

    def _note(self, end: int, *, repeated: bool) -> None:
        if self._runs and self._runs[-1].repeated == repeated:
            self._runs.pop()
        self._runs.append(Section(end, repeated))
        self._end = end


def cross(here: Location, file: LogFile | None, following: LogFile) -> Location | None:
    """Return the beginning of the next sub-directory, which continues the log. None if its first file does not contain
    the earlier set yet.

    `here`: the end of the older sub-directory, whose newest file is `file` (None: it no longer exists).
    Raises FailoverNotFollowed, LocationNotInLog, UnsupportedFormat, MalformedEvent.
    """
    before = named_before(following)
    if before is None:
        return None
    known = before.parse_text(here.gtid_set)
    if file is not None:
        known = known.union(_read_before(here, file))
    missing = before.minus(known)
    if missing:
        older = str(file) if file is not None else f"sub-directory {here.suffix:06d}, which no longer exists"
        raise FailoverNotFollowed(
            f"the relay log in {Path(following.path).parent.parent} continues with {following}, before which "
            f"the transactions {missing} were committed; {older} does not contain them (it is read up to {here}).",
            "They were written to the new server only, or purged there. If it still has the files with them, "
            f"remove the newer sub-directory and start the relay again; otherwise: {FROM_THE_NEW_SERVER}",
        )
    if isinstance(before, MariadbGtidSet) and isinstance(known, MariadbGtidSet):
        for gtid in before.last.values():
            if (mine := known.last[gtid.domain]).sequence == gtid.sequence and mine != gtid:
                raise history_diverged(f"{following}:{BINLOG_HEADER_SIZE}", str(gtid), str(mine))
    return Location(following.name, BINLOG_HEADER_SIZE, str(known), following.suffix, following.server_uuid)


def _read_before(here: Location, file: LogFile) -> GtidSet:
    """Return the set from the log itself.

    Needed if `here` has no set, and for transactions that a busy server may have omitted from the new file's head.
    """
    with opened_log(file.path, file.size, file.name) as log:
        if log is None:
            raise LocationNotInLog(str(here), f"{file.name} has no complete format description")
        return held_before(log, here.position, numbered=not here.gtid_set)


def held_before(log: OpenLog, position: int, *, numbered: bool = False) -> GtidSet:
    """Return everything committed before this boundary according to this server's log, by reading the file up to it.

    `numbered`: a transaction without an id is an error, because the result lacks it.
    Raises LocationNotInLog if it is not a boundary, FailoverNotFollowed, MalformedEvent.
    """
    before, flavour = _named_before(log), log.format.flavour
    if position <= BINLOG_HEADER_SIZE:
        return before if before is not None else GtidSet.empty(flavour)
    scanned = _scanned(log, BINLOG_HEADER_SIZE, position)
    if scanned.end != position:
        next_one = f", the next one is at {scanned.end}" if scanned.end > position else ""
        raise LocationNotInLog(f"{log.name}:{position}", f"no transaction begins there{next_one}")
    held = GtidSet.parse(scanned.trail.added_to("", flavour), flavour)
    held = held if before is None else held.union(before)
    if numbered and isinstance(held, MysqlGtidSet):
        own = held if before is None else held.minus(before)
        assert isinstance(own, MysqlGtidSet)
        if sum(interval.last - interval.first + 1 for _, interval in own.flat()) < scanned.transactions:
            raise not_numbered(f"a transaction in {log.name}, before {position},")
    return held


def _scanned(log: OpenLog, start: int, cut: int) -> ScannedRange:
    return scan_log(log, start, cut=cut, apply=False, hopper=hopper_for(log.format))


def named_before(file: LogFile) -> GtidSet | None:
    """Return the set that the head of a file states as committed before it; None while the head is incomplete.

    Raises UnsupportedFormat, MalformedEvent, ChecksumMismatch; FailoverNotFollowed if the file does not have the set.
    """
    with opened_log(file.path, file.size, file.name) as log:
        return None if log is None else _named_before(log, must=True)


def _named_before(log: OpenLog, *, must: bool = False) -> GtidSet | None:
    window, log_format, name = log
    position = BINLOG_HEADER_SIZE
    while len(head := window.read(position, HEADER_SIZE)) == HEADER_SIZE:
        code, size = START.unpack_from(head)[1], START.unpack_from(head)[3]
        if code in (codes.PREVIOUS_GTIDS, codes.MARIADB_GTID_LIST):
            event = window.read(position, size)
            if len(event) < size:
                return None
            if log_format.checksum:
                verify_checksum(event, f"{name}:{position}")
            body = event[HEADER_SIZE : size - log_format.trailer_size]
            named = previous_gtids if code == codes.PREVIOUS_GTIDS else gtid_list
            return named(body, f"{name}:{position}")
        if code not in _BEFORE_NAMES or size < HEADER_SIZE:
            if must:
                raise not_numbered(f"what was committed before {name}")
            return None
        position += size
    return None
