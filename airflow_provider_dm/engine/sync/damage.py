"""Whether a piece of a log file is what its server wrote: every event whole and with the right checksum.

Planning walks over headers and decoding verifies what it decodes, so ordinary reading needs none of this. It is asked
when something is in doubt: may an error be due to a flipped bit, is a damaged file whole again.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_dm.engine.binlog.boundary import opened, read_format, verify_events
from airflow_provider_dm.engine.binlog.errors import MalformedEvent
from airflow_provider_dm.engine.binlog.header import HEADER_SIZE, START, verify_checksum
from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.binlog.window import Window
from airflow_provider_dm.engine.binlog.xa import Prepared, file_of
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE, Location


def check_events(file: LogFile, at: Location) -> None:
    """Check the events of a file that reading from `at` on comes to, up to the end of what is published.

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
    """Check the bytes of prepared transactions, as far as these files have them.

    Raises MalformedEvent, ChecksumMismatch, UnsupportedFormat or OSError.
    """
    for group in prepared:
        file = file_of(group, files)
        if file is None:
            continue
        with opened(file.path, file.size, file.name) as log:
            if log is not None:
                verify_events(log, group.at.position, group.end)
