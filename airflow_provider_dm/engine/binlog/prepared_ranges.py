"""The ranges of XA transactions: skipped where they are prepared, included where they are committed.

A prepared transaction is known from this plan, from an earlier one that left it `prepared`, or, if neither has it, by a
search back through the log that is held.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from airflow_provider_dm.engine.binlog.boundary import opened_log, scan_xa
from airflow_provider_dm.engine.binlog.errors import ChangeNotInLog, NoRows, XaRowsGone
from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.binlog.planned import ByteRange
from airflow_provider_dm.engine.binlog.transaction import FoundXaEnd, FoundXaPrepare, ScannedRange, Seam
from airflow_provider_dm.engine.binlog.xa import PreparedXa, Xid, file_of
from airflow_provider_dm.engine.errors import CONTINUE_AFTER, MIGRATE_AGAIN, DmError
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE, BinlogFile, Location

logger = logging.getLogger(__name__)

ListLogFiles = Callable[[], Sequence[LogFile]]
"""Lists all readable files of the log, possibly of several directories, in the order of preference."""


class PreparedRanges:
    """XA transactions that are prepared at the end of a growing plan. Mutable; `changed`: not as at the start."""

    def __init__(
        self, prepared: dict[Xid, PreparedXa], files: Sequence[LogFile], held: ListLogFiles | None, *, bounds_only: bool
    ) -> None:
        self.prepared = prepared
        self.changed = False
        self._files = files
        self._held = held
        self._bounds_only = bounds_only

    def ranges(self, file: LogFile, scanned: ByteRange, transactions: ScannedRange) -> tuple[ByteRange, ...]:
        """Return the parts of a range that are to be applied, in order. If NoRows is raised, nothing has changed."""
        ranges: list[ByteRange] = []
        prepared, start = dict(self.prepared), scanned.start
        left_out: FoundXaPrepare | None = None  # the last transaction, until the next one is known

        def flush(end: int, behind: int) -> None:
            nonlocal start
            if end > start:
                ranges.extend(replace(scanned, start=start, end=end).cut(transactions.seams))
            start = behind

        for one in transactions.xa:
            if isinstance(one, FoundXaEnd) and one.committed and left_out is not None and not left_out.seams:
                if (one.xid, one.start) == (left_out.xid, left_out.end):  # adjacent: the rows are applied in place
                    del prepared[one.xid]
                    left_out = None
                    continue
            if left_out is not None:
                flush(left_out.start, left_out.end)
                left_out = None
            # A name is unique on the server: if it is prepared again, the earlier transaction has ended unlogged.
            known = prepared.pop(one.xid, None)
            if isinstance(one, FoundXaPrepare):
                at = Location(file.name, one.start, "", file.suffix, file.server_uuid)
                prepared[one.xid] = PreparedXa(one.xid, at, one.end, one.rows, one.seams)
                left_out = one
            elif one.committed and not self._bounds_only:
                rows = self._rows_of(one.xid, known, file, one.start)
                if rows:
                    flush(one.start, one.start)
                    ranges += rows
        if left_out is not None:
            flush(left_out.start, left_out.end)
        flush(scanned.end, scanned.end)
        self.prepared, self.changed = prepared, True
        return tuple(ranges)

    def _rows_of(self, xid: Xid, known: PreparedXa | None, file: LogFile, position: int) -> tuple[ByteRange, ...]:
        """Return the ranges of a prepared transaction that is committed at `position` of `file`. Raises NoRows."""
        if known is not None and not known.rows:
            return ()
        commit = Location(file.name, position, "", file.suffix, file.server_uuid)
        its_file = None if known is None else file_of(known, self._every_file())
        if known is None or its_file is None:
            try:
                looked_up = look_back(xid, commit, tuple(self._every_file()))
            except OSError as error:
                logger.warning("the log before %s could not be searched for %s: %s", commit, xid, error)
                looked_up = None
            if looked_up is None or (known is not None and looked_up[0].prepared_at < known.prepared_at):
                why = _not_seen(xid, commit) if known is None else _gone(commit, known)
                raise NoRows(position, why)
            known, its_file = looked_up
            logger.info("the XA transaction %s, committed at %s, was prepared at %s", xid, commit, known.at)
        with opened_log(its_file.path, its_file.size, its_file.name) as log:
            if log is None:
                raise NoRows(position, _gone(commit, known))
        whole = ByteRange(its_file.path, its_file.name, its_file.suffix, known.at.position, known.end, log.format)
        cut = whole.cut([Seam(*seam) for seam in known.seams])
        return tuple(replace(part, counts_at=commit.sort_key) for part in cut)

    def _every_file(self) -> Iterator[LogFile]:
        """Yield the files of the plan, and then the held files, which must be listed first."""
        yield from self._files
        if self._held is not None:
            yield from self._held()


def _not_seen(xid: Xid, commit: Location) -> ChangeNotInLog:
    return ChangeNotInLog(
        str(commit),
        f"the XA transaction {xid} is committed at {commit}, but was prepared before the beginning of the existing "
        "log, so its rows are unknown.",
        "It was prepared before the task began. Begin again while the source has no prepared transaction (`XA RECOVER` "
        f"shows them; XA COMMIT or XA ROLLBACK ends them): {MIGRATE_AGAIN}. Or, since everything before it is applied, "
        f"make its changes by hand and {CONTINUE_AFTER}.",
    )


def _gone(commit: Location, known: PreparedXa) -> XaRowsGone:
    return XaRowsGone(str(commit), str(known.xid), str(known.at))


def look_back(xid: Xid, commit: Location, files: Sequence[LogFile]) -> tuple[PreparedXa, LogFile] | None:
    """Find the last transaction of this name that was prepared before `commit`; None if the files do not have it.

    They are read from the newest on, up to the first gap: a missing file may contain its end. Raises OSError.
    """
    place = end = (commit.suffix, BinlogFile.parse(commit.file).number)
    order = {(one.suffix, BinlogFile.parse(one.name).number): one for one in reversed(files)}
    for suffix, number in sorted((key for key in order if key <= end), reverse=True):
        if suffix == place[0] and number < place[1] - 1:
            return None
        place = suffix, number
        file = order[place]
        until = commit.position if place == end else file.size
        try:
            with opened_log(file.path, min(until, file.size), file.name) as log:
                listed = [] if log is None else scan_xa(log, BINLOG_HEADER_SIZE, cut=until).xa
        except DmError as error:
            logger.warning("%s was not searched for %s: %s", file, xid, error)
            return None
        for prepared in reversed(listed):
            if prepared.xid == xid:
                if not isinstance(prepared, FoundXaPrepare):
                    return None  # it had ended before, so the committed one is unknown
                at = Location(file.name, prepared.start, "", file.suffix, file.server_uuid)
                return PreparedXa(xid, at, prepared.end, prepared.rows), file
    return None
