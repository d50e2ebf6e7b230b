"""Verification of log files: every event is complete and has the right checksum.

Planning reads headers, and decoding verifies the events that it decodes, so normal reading does not need this. It is
used after an error, to find out whether the file is damaged or whole again.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_dm.engine.binlog.boundary import opened_log, read_format, verify_events
from airflow_provider_dm.engine.binlog.errors import MalformedEvent
from airflow_provider_dm.engine.binlog.header import HEADER_SIZE, START, verify_checksum
from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.binlog.window import Window
from airflow_provider_dm.engine.binlog.xa import Prepared, file_of
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE, Location


def check_events(file: LogFile, at: Location) -> None:
    """Check the events of a file from `at` (or, in a later file, from its beginning) up to its published size.

    Raises MalformedEvent, ChecksumMismatch, UnsupportedFormat or OSError.
    """
    begins = (file.suffix, file.name) == (at.suffix, at.file)
    position = max(at.position, BINLOG_HEADER_SIZE) if begins else BINLOG_HEADER_SIZE
    with Window(file.path, file.size) as window:
        log_format = read_format(window, file.name)
        if log_format is None:
            raise MalformedEvent(f"{file.name}:{BINLOG_HEADER_SIZE}", "no whole format description")
        while position < file.size:
            place, head = f"{file.name}:{position}", window.read(position, HEADER_SIZE)
            size = START.unpack_from(head)[3] if len(head) == HEADER_SIZE else HEADER_SIZE
            if position + size > file.size:
                raise MalformedEvent(place, f"{file.name} ends inside of it")
            if size < HEADER_SIZE:
                raise MalformedEvent(place, f"a size of {size} bytes")
            if log_format.checksum:
                verify_checksum(window.read(position, size), place)
            position += size


def check_prepared(files: Sequence[LogFile], prepared: Sequence[Prepared]) -> None:
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
