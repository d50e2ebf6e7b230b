"""How a process tells its launcher what ended it: an exit code, and one line on stderr if that was an error.

0     finished
2     an error: the line is the mark and a ReportedError as JSON
3     an error as well: somebody newer has taken over
143   ended by SIGTERM, or by another wish for its end
else  died without a word

DM-ERROR {"ErrCode": "DM-4022", "ErrScope": "upstream", "Message": "…", "Reaction": "stop", …}
"""

from __future__ import annotations

import json
import sys
from typing import Final

from airflow_provider_dm.engine.errors import ReportedError, describe

EXIT_FINISHED, EXIT_ERROR, EXIT_FENCED, EXIT_STOPPED = 0, 2, 3, 143
MARK: Final = "DM-ERROR "


def report(error: BaseException) -> None:
    """Print the line to stderr."""
    print(f"{MARK}{json.dumps(describe(error))}", file=sys.stderr, flush=True)


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
