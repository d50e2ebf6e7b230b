"""How far a log reaches: whether a place is in it, where a file ends, how much is left."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.location import BinlogFile, Location
from airflow_provider_dm.engine.relay.reader import RelayReader
from airflow_provider_dm.engine.relay.spool import Place


def reaches(files: Sequence[LogFile], lo: Location) -> bool:
    """Tell whether the log has the location; where that is the end of an older server's log, the next one's will do."""
    if not files:
        return False
    first = files[0]
    if lo.gtid_set and files[-1].suffix > lo.suffix:
        return True  # what was read elsewhere, ahead of it, the next server's log repeats
    return first.suffix > lo.suffix or (first.name == lo.file and first.size >= lo.position)


def left_bytes(reader: RelayReader, here: Location, goal: Location | None, master: Location | None) -> int | None:
    """Return how many bytes lie between `here` and `goal`, or the source's end; None: unknown.

    An estimate for display: if the log cannot be read, for whatever reason, it is unknown and nothing stops.
    """
    try:
        files = reader.files(here)
    except (DmError, OSError):
        return None
    if not files:
        return None
    if goal is not None:
        files = [one for one in files if (one.suffix, one.name) <= (goal.suffix, goal.file)]
    left = sum(one.size for one in files)
    if files and (files[0].suffix, files[0].name) == (here.suffix, here.file):
        left -= here.position
    end = goal or master
    if end is not None and files:
        last = files[-1]
        there = (last.suffix, last.name) == (end.suffix, end.file)
        left += end.position - last.size if there else end.position
    return max(0, left)


def not_begun(goal: Location | None, master: Location | None) -> str:
    """Return the message that the goal lies in a file that the source has not begun; "" if it has, or if unknown.

    >>> not_begun(Location("bin.000099", 4), Location("bin.000003", 500))
    'the goal bin.000099:4 lies behind the newest file of the source, bin.000003'
    >>> not_begun(Location("bin.000003", 900), Location("bin.000003", 500)), not_begun(None, None)
    ('', '')
    """
    if goal is None or master is None or goal.suffix != master.suffix:
        return ""
    if BinlogFile.parse(goal.file).number <= BinlogFile.parse(master.file).number:
        return ""
    return f"the goal {goal.file}:{goal.position} lies behind the newest file of the source, {master.file}"


def end_of(file: LogFile) -> Place:
    return Place(file.suffix, BinlogFile.parse(file.name).number, file.size)
