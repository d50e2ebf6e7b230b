"""The report of a process's end to its launcher: an exit code and, after an error, one line on stderr.

0     finished
2     an error: the line is the mark and a ReportedError as JSON
3     fenced, with the same line: a newer process has taken over
143   ended by SIGTERM or by a request to stop
else  ended without a report

DM-ERROR {"ErrCode": "DM-4022", "ErrScope": "upstream", "Message": "…", "Reaction": "stop", …}

The result of a process is in the metadata DB.

Log records are lines of one format (`LogFormatter`): time, level, logger, and one line of the message. By this
format the launcher distinguishes them from the output of Spark and its JVM. Lines of a traceback have no such prefix.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from dataclasses import dataclass
from typing import Final

from airflow_provider_dm.engine.errors import ReportedError, describe

EXIT_FINISHED, EXIT_ERROR, EXIT_FENCED, EXIT_STOPPED = 0, 2, 3, 143
MARK: Final = "DM-ERROR "
_OURS: Final = ("airflow_provider_dm.", "spark_apps.", "__main__")
_LOG_LINE: Final = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<name>\S+): (?P<message>.*)"
)


@dataclass(frozen=True)
class LogLine:
    """One line of a log record of a child process."""

    level: int
    name: str
    message: str


class LogFormatter(logging.Formatter):
    """The formatter of a child process: each line of a message begins with time, level and logger."""

    def format(self, record: logging.LogRecord) -> str:
        head = f"{self.formatTime(record)} {record.levelname} {record.name}: "
        text = "\n".join(head + line for line in record.getMessage().splitlines() or [""])
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def log_line_in(line: str) -> LogLine | None:
    """Parse a line of output as a line of a log record; None if it is not a log record of this package.

    >>> log_line_in("2026-11-24 03:00:00,123 WARNING spark_apps.app: no beat")
    LogLine(level=30, name='spark_apps.app', message='no beat')
    >>> log_line_in("26/11/24 03:00:00 WARN NativeCodeLoader: Unable to load native-hadoop library")
    """
    match = _LOG_LINE.fullmatch(line)
    if match is None or not match["name"].startswith(_OURS):
        return None
    return LogLine(logging.getLevelNamesMapping()[match["level"]], match["name"], match["message"])


def report(error: BaseException) -> None:
    """Print the error's line to stderr."""
    print(f"{MARK}{json.dumps(describe(error))}", file=sys.stderr, flush=True)


def reported_in(text: str) -> ReportedError | None:
    """Return the error in the last such line of a text; None if there is none or it is cut off."""
    for line in reversed(text.splitlines()):
        if line.startswith(MARK):
            try:
                document = json.loads(line.removeprefix(MARK))
            except ValueError:
                return None
            return ReportedError.read(document) if isinstance(document, dict) else None
    return None
