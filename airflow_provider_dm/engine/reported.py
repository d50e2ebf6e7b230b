"""How a process tells its launcher what ended it: an exit code, and one line on stderr if that was an error.

0     finished
2     an error: the line is the mark and a ReportedError as JSON
3     an error as well: somebody newer has taken over
143   ended by SIGTERM, or by another wish for its end
else  died without a word

DM-ERROR {"ErrCode": "DM-4022", "ErrScope": "upstream", "Message": "…", "Reaction": "stop", …}

Its result is in the metadata DB. Where that does not take it, another line has it: `DM-RESULT {…}`.

Its log records are lines of one form (`LogFormatter`), by which the launcher distinguishes them from the output of
Spark and its JVM: time, level, logger, and one line of the message. The lines of a traceback have no such beginning.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_dm.engine.errors import ReportedError, describe

EXIT_FINISHED, EXIT_ERROR, EXIT_FENCED, EXIT_STOPPED = 0, 2, 3, 143
MARK: Final = "DM-ERROR "
RESULT_MARK: Final = "DM-RESULT "
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
    """The formatter of a child process: each line of a message has the record's time, level and logger."""

    def format(self, record: logging.LogRecord) -> str:
        head = f"{self.formatTime(record)} {record.levelname} {record.name}: "
        text = "\n".join(head + line for line in record.getMessage().splitlines() or [""])
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def log_line_in(line: str) -> LogLine | None:
    """Return the log record's line that a line of output holds; None where it is no record of our code.

    >>> log_line_in("2026-11-24 03:00:00,123 WARNING spark_apps.app: no beat")
    LogLine(level=30, name='spark_apps.app', message='no beat')
    >>> log_line_in("26/11/24 03:00:00 WARN NativeCodeLoader: Unable to load native-hadoop library")
    """
    found = _LOG_LINE.fullmatch(line)
    if found is None or not found["name"].startswith(_OURS):
        return None
    return LogLine(logging.getLevelNamesMapping()[found["level"]], found["name"], found["message"])


def report(error: BaseException) -> None:
    """Print the line to stderr."""
    print(f"{MARK}{json.dumps(describe(error))}", file=sys.stderr, flush=True)


def report_result(result: Mapping[str, Any]) -> None:
    """Print what a process has come to, which the metadata DB does not know."""
    print(f"{RESULT_MARK}{json.dumps(result)}", file=sys.stderr, flush=True)


def result_in(line: str) -> dict[str, Any] | None:
    """Return the result that a line has; None without one, or where it was cut off."""
    with suppress(ValueError):
        said = json.loads(line.removeprefix(RESULT_MARK)) if line.startswith(RESULT_MARK) else None
        return said if isinstance(said, dict) else None
    return None


def reported_in(text: str) -> ReportedError | None:
    """Return the error in the last such line of a text; None without one, or where it was cut off."""
    for line in reversed(text.splitlines()):
        if line.startswith(MARK):
            try:
                said = json.loads(line.removeprefix(MARK))
            except ValueError:
                return None
            return ReportedError.read(said) if isinstance(said, dict) else None
    return None
