"""What dmctl prints, and how it ends.

Answers go to stdout: with --json exactly one JSON object in DM's shape (`result`, `msg`, then the rest). Without it
DM's verbs print that object indented, also where they are refused, and our own verbs print text. Progress, warnings and
errors for people go to stderr, so that stdout can be piped.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from airflow_provider_dm.engine.errors import DmError, Reaction, ReportedError, reported_by
from airflow_provider_dm.engine.sync.progress import progress_line

LINE_EVERY_SECONDS: Final = 5.0
"""Progress as lines, where stderr is no terminal."""


class Exit(IntEnum):
    """The exit codes; `dmctl --help` lists them as well."""

    DONE = 0
    FAILED = 1  # by a typed error (or a bug, with its traceback)
    USAGE = 2  # the command line is wrong
    TAKEN_OVER = 3  # another run has taken the task over
    DIFFERENT = 4  # everything ran, and source and target differ
    PRECHECK = 5  # something has to be changed first
    WAITING = 6  # all is done but for DDL of merged tables, which waits for other shards; the same command goes on
    INTERRUPTED = 130  # the same command continues


class Output:
    """The place where a command prints. `as_json`: the answer is for a program."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._people = Console(stderr=True, highlight=False, soft_wrap=True)
        self._status: Status | None = None
        self._line_at = 0.0

    def say(self, text: str) -> None:
        """Print a line for people, on stderr."""
        self._people.print(text, markup=False)

    def progress(self, phase: str, progress: Mapping[str, Any]) -> None:
        """Show where a phase stands: one line that changes on a terminal, a line now and then elsewhere."""
        text = f"{phase}: {_of_sources(progress)}"
        if self._people.is_terminal:
            if self._status is None:
                self._status = self._people.status("")
                self._status.start()
            self._status.update(escape(text))
        elif time.monotonic() >= self._line_at:
            self._line_at = time.monotonic() + LINE_EVERY_SECONDS
            self.say(f"  {text}")

    def settle(self) -> None:
        """End the progress of a phase that is over: nothing changes on the terminal any more."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def answer(self, body: Mapping[str, Any], text: str) -> None:
        """Print the one answer of a command that succeeded: `body` for a program, `text` for people."""
        if self.as_json:
            print(json.dumps({"result": True, "msg": "", **body}, default=str), flush=True)
        else:
            print(text, flush=True)

    def document(self, body: Mapping[str, Any]) -> Exit:
        """Print an answer whose keys, and their order, are DM's; return how the command ends, by its `result`."""
        print(json.dumps(body, indent=None if self.as_json else 4, default=str), flush=True)
        return Exit.DONE if body["result"] else Exit.FAILED

    def sources(self, op: str | None, answers: Sequence[Mapping[str, Any]], msg: str = "") -> Exit:
        """Print DM's document of what an operation did at each source (`source_answer`); `msg`: why there are none."""
        result = not msg and all(one["result"] for one in answers)
        body = {"op": op, "result": result, "msg": msg, "sources": answers}
        return self.document({key: value for key, value in body.items() if value is not None})

    def failure(self, error: DmError, body: Mapping[str, Any] | None = None, *, document: bool = False) -> None:
        """Print a typed error: as one paragraph, and with --json or for a `document` as DM's answer as well."""
        # One that an app or a relay has reported is shown as itself, not as our report of it.
        said = reported_by(error) or ReportedError.of(error)
        if self.as_json or document:
            self.document({"result": False, "msg": str(said), "error": said.to_json(), **(body or {})})
        self.say(f"error {said}")


def source_answer(source: str, worker: str, trouble: str = "") -> dict[str, Any]:
    """Return DM's answer about one source. `worker`: the host that works on it; `trouble`: why it has failed."""
    return {"result": not trouble, "msg": trouble, "source": source, "worker": worker}


def exit_code_of(error: DmError) -> Exit:
    return Exit.TAKEN_OVER if error.reaction is Reaction.FENCED else Exit.FAILED


def log_to_stderr(*, verbose: bool) -> None:
    """Send warnings of the engine (all of its log with --verbose) to where people read."""
    import logging

    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if verbose else logging.WARNING,
        format="%(levelname)s %(name)s: %(message)s" if verbose else "%(levelname)s: %(message)s",
        force=True,
    )


def _of_sources(progress: Mapping[str, Any]) -> str:
    """Return the progress of an app's sources, those that sync in words."""
    syncing = {name: one for name, one in progress.items() if isinstance(one, Mapping) and "lag_seconds" in one}
    if not syncing:
        return _short(progress)
    return "; ".join(f"{name} {progress_line(one)}" for name, one in syncing.items())


def _short(progress: Mapping[str, Any], prefix: str = "") -> str:
    """Return the numbers and words of nested progress, in one line."""
    parts = []
    for key, value in progress.items():
        match value:
            case Mapping():
                parts.append(_short(value, prefix if key == "sources" else f"{prefix}{key} "))
            case "" | None:
                continue
            case bool() | str():
                parts.append(f"{prefix}{key} {value}")
            case int():
                parts.append(f"{prefix}{key} {value:,}")
            case float():
                parts.append(f"{prefix}{key} {value:,.1f}")
            case _:
                continue
    return ", ".join(part for part in parts if part)
