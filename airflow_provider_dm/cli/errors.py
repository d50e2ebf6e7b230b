"""The errors of the command line."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from airflow_provider_dm.engine.errors import DmError, DownstreamError, UpstreamError


class RowsDiffer(DownstreamError):
    tables: str

    code = "DM-9040"
    what = "source and target differ although no source was written to since: {tables}."
    hint = (
        "With --json the answer has the keys of rows that differ. Check whether another program writes to the target; "
        "otherwise please report it."
    )


class SourcesNotQuiet(UpstreamError):
    rounds: int
    moved: str

    code = "DM-9041"
    what = "{rounds} comparisons were invalid because of concurrent writes to the sources: {moved}."
    hint = "All changes are synced. Run it again without writes to the sources, or use --no-verify."


class Interrupted(DmError):
    command: str
    result: dict[str, Any] = field(default_factory=dict)
    """The result of the running app up to the interrupt."""

    code = "DM-9050"
    what = "{command} was interrupted; all applied changes are saved."
    hint = "Run the same command again to continue."


class UsageError(Exception):
    """A wrong command line. The arguments are the verb's usage and the problem."""
