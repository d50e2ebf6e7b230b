"""The files of a log: whether they contain a location, where one ends, how many bytes are left, and whether every event
is complete and has the right checksum.

Planning reads headers, and decoding verifies the events that it decodes, so normal reading does not check all events.
They are checked after an error, to find out whether the file is damaged, or complete again.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_dm.engine.binlog.boundary import opened_log, verify_events
from airflow_provider_dm.engine.binlog.errors import MalformedEvent
from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.binlog.xa import PreparedXa, file_of
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE, BinlogFile, Location
from airflow_provider_dm.engine.relay.errors import UpstreamLogDiffers
from airflow_provider_dm.engine.relay.reader import RelayReader
from airflow_provider_dm.engine.relay.spool import LogPosition


def reaches(files: Sequence[LogFile], lo: Location) -> bool:
    """Return True if the log has the location, or continues after it: at the end of an older server's log, the log of
    the next server suffices."""
    if not files:
        return False
    first = files[0]
    if lo.gtid_set and files[-1].suffix > lo.suffix:
        return True  # the location was read from another log; the next server's log repeats its transactions
    return first.suffix > lo.suffix or (first.name == lo.file and first.size >= lo.position)


def left_bytes(reader: RelayReader, here: Location, goal: Location | None, master: Location | None) -> int | None:
    """Return how many bytes lie between `here` and `goal`, or the source's end; None: unknown.

    An estimate for display: an error of reading means unknown.
    """
    try:
        files = reader.files(here)
    except (DmError, OSError):
        return None
    if not files:
        return None
    if goal is not None:
        files = [file for file in files if (file.suffix, file.name) <= (goal.suffix, goal.file)]
    left = sum(file.size for file in files)
    if files and (files[0].suffix, files[0].name) == (here.suffix, here.file):
        left -= here.position
    end = goal or master
    if end is not None and files:
        last = files[-1]
        there = (last.suffix, last.name) == (end.suffix, end.file)
        left += end.position - last.size if there else end.position
    return max(0, left)


def not_begun(goal: Location | None, master: Location | None) -> str:
    """Return the message that the goal is in a file that the source has not begun; "" if it has, or if unknown.

    >>> not_begun(Location("bin.000099", 4), Location("bin.000003", 500))
    'the goal bin.000099:4 is after the newest file of the source, bin.000003'
    >>> not_begun(Location("bin.000003", 900), Location("bin.000003", 500)), not_begun(None, None)
    ('', '')
    """
    if goal is None or master is None or goal.suffix != master.suffix:
        return ""
    if BinlogFile.parse(goal.file).number <= BinlogFile.parse(master.file).number:
        return ""
    return f"the goal {goal.file}:{goal.position} is after the newest file of the source, {master.file}"


def end_place(file: LogFile) -> LogPosition:
    return LogPosition(file.suffix, BinlogFile.parse(file.name).number, file.size)


def check_same_file(file: LogFile, at: Location) -> None:
    """Check that a location's file is the one that was read up to there, as far as that is known.

    Raises UpstreamLogDiffers, MalformedEvent, ChecksumMismatch, UnsupportedFormat or OSError.
    """
    if not at.created or (file.suffix, file.name) != (at.suffix, at.file):
        return
    with opened_log(file.path, file.size, file.name) as log:
        if log is not None and log.created != at.created:
            raise UpstreamLogDiffers(str(at), "the upstream has another file of that name")


def check_events(file: LogFile, at: Location) -> None:
    """Check the events of a file from `at` (or, in a later file, from its beginning) up to its published size.

    Raises MalformedEvent, ChecksumMismatch, UnsupportedFormat or OSError.
    """
    begins = (file.suffix, file.name) == (at.suffix, at.file)
    with opened_log(file.path, file.size, file.name) as log:
        if log is None:
            raise MalformedEvent(f"{file.name}:{BINLOG_HEADER_SIZE}", "no whole format description")
        verify_events(log, max(at.position, BINLOG_HEADER_SIZE) if begins else BINLOG_HEADER_SIZE, file.size)


def check_prepared(files: Sequence[LogFile], prepared: Sequence[PreparedXa]) -> None:
    """Check the events of prepared XA transactions, as far as these files contain them.

    Raises MalformedEvent, ChecksumMismatch, UnsupportedFormat or OSError.
    """
    for group in prepared:
        file = file_of(group, files)
        if file is None:
            continue
        with opened_log(file.path, file.size, file.name) as log:
            if log is not None:
                verify_events(log, group.at.position, group.end)
