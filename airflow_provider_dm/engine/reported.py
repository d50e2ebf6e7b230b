"""The error that ends a process, as it tells its launcher: one line on stderr, the mark and `errors.describe` as JSON.

DM-ERROR {"ErrCode": "DM-4022", "ErrScope": "upstream", "Message": "…", "Reaction": "stop", …}
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Final, TextIO

from airflow_provider_dm.engine.errors import describe

MARK: Final = "DM-ERROR "
_TAIL_BYTES: Final = 1 << 16


def report(error: BaseException, to: TextIO | None = None) -> None:
    """Print the line, to stderr if nothing else is said."""
    print(f"{MARK}{json.dumps(describe(error))}", file=to or sys.stderr, flush=True)


def reported_by(line: str) -> dict[str, Any] | None:
    """Return the error that a line tells; None where it is another line, or one that was cut off."""
    if not line.startswith(MARK):
        return None
    try:
        found = json.loads(line.removeprefix(MARK))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def reported_in(text: str) -> dict[str, Any] | None:
    """Return the error in the last such line of a text; None without one that is whole."""
    lines = (line for line in reversed(text.splitlines()) if line.startswith(MARK))
    return reported_by(next(lines, ""))


def reported_at_the_end_of(path: Path) -> dict[str, Any] | None:
    """Return the error that a log file ends with; None without one. Raises OSError."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            return reported_in(file.read().decode("utf-8", "replace"))
    except FileNotFoundError:
        return None
