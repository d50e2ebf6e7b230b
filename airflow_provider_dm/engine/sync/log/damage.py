"""Verification of log files: every event is complete and has the right checksum.

Planning reads headers, and decoding verifies the events that it decodes, so normal reading does not need this. It is
used after an error, to find out whether the file is damaged or whole again.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_dm.engine.binlog.boundary import opened_log, verify_events
from airflow_provider_dm.engine.binlog.errors import MalformedEvent
from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.binlog.xa import PreparedXa, file_of
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE, Location


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
