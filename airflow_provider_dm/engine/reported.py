"""How a process tells its launcher what ended it: an exit code, and one line on stderr if that was an error.

0     finished
2     an error: the line is the mark and a ReportedError as JSON
3     an error as well: somebody newer has taken over
143   ended by SIGTERM, or by another wish for its end
else  died without a word

DM-ERROR {"ErrCode": "DM-4022", "ErrScope": "upstream", "Message": "…", "Reaction": "stop", …}

Its result is in the metadata DB. Where that does not take it, another line has it: `DM-RESULT {…}`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from airflow_provider_dm.engine.errors import ReportedError, describe

EXIT_FINISHED, EXIT_ERROR, EXIT_FENCED, EXIT_STOPPED = 0, 2, 3, 143
MARK: Final = "DM-ERROR "
RESULT_MARK: Final = "DM-RESULT "


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
