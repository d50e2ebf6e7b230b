"""The output of dmctl, and its exit codes.

Answers go to stdout: with --json exactly one JSON object in DM's format (`result`, `msg`, then the rest). Without it
DM's verbs print that object indented, even if they are refused; on a terminal they print tables (tables.py), or only
the error. Other verbs print text. Progress, warnings and errors for users go to stderr, so that stdout can be piped.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from airflow_provider_dm.engine.errors import DmError, Reaction, ReportedError

if TYPE_CHECKING:
    from airflow_provider_dm.launch.progress_report import ReportOutput

TERMINAL_EVERY_SECONDS: Final = 1.0
"""The interval in which the line of progress changes on a terminal."""


class Exit(IntEnum):
    """The exit codes; `dmctl --help` lists them as well."""

    DONE = 0
    FAILED = 1  # failed: by a typed error, or a bug with its traceback
    USAGE = 2  # the command line is wrong
    TAKEN_OVER = 3  # another run has taken over the task
    DIFFERENT = 4  # everything ran, but source and target differ
    PRECHECK = 5  # the precheck failed
    WAITING = 6  # done except for DDL of merged tables, which waits for other shards; repeat the command to continue
    INTERRUPTED = 130  # interrupted; repeat the command to continue


class Output:
    """The output of a command. `as_json`: the answer is for a program."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._people = Console(stderr=True, highlight=False, soft_wrap=True)
        self._status: Status | None = None

    def print_line(self, text: str) -> None:
        """Print a line for users, on stderr."""
        self._people.print(text, markup=False)

    def report_output(self) -> ReportOutput:
        """Return the output of progress: one changing line on a terminal, otherwise a line every ten seconds."""
        from airflow_provider_dm.launch.progress_report import ReportOutput

        if not self._people.is_terminal:
            return ReportOutput(self.print_line, self.print_line)
        return ReportOutput(self._change_line, self.print_line, TERMINAL_EVERY_SECONDS)

    def _change_line(self, text: str) -> None:
        if self._status is None:
            self._status = self._people.status("")
            self._status.start()
        self._status.update(escape(text))

    def end_progress(self) -> None:
        """End the progress of a finished phase: its line does not change any more."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def answer(self, body: Mapping[str, Any], text: str) -> None:
        """Print the only answer of a successful command: `body` for a program, `text` for users."""
        if self.as_json:
            _print(json.dumps({"result": True, "msg": "", **body}, default=str))
        else:
            _print(text)

    def document(self, body: Mapping[str, Any]) -> Exit:
        """Print an answer with DM's keys in DM's order; return the exit code according to its `result`.

        On a terminal the same content is printed as tables.
        """
        if self.on_terminal:
            self._show(body)
        else:
            _print(json.dumps(body, indent=None if self.as_json else 4, default=str))
        return Exit.DONE if body["result"] else Exit.FAILED

    def sources(self, op: str | None, answers: Sequence[Mapping[str, Any]], msg: str = "") -> Exit:
        """Print DM's document about an operation on sources (`source_answer`); `msg`: the reason if `answers` is
        empty."""
        result = not msg and all(answer["result"] for answer in answers)
        body = {"op": op, "result": result, "msg": msg, "sources": answers}
        return self.document({key: value for key, value in body.items() if value is not None})

    def failure(self, error: DmError, body: Mapping[str, Any] | None = None, *, document: bool = False) -> None:
        """Print a typed error: as a paragraph, and with --json or for a `document` as DM's answer as well."""
        shown = ReportedError.of(error)
        if self.as_json or (document and not self.on_terminal):
            self.document({"result": False, "msg": str(shown), "error": shown.to_json(), **(body or {})})
        self.print_line(f"error {shown}")

    @property
    def on_terminal(self) -> bool:
        """Return True if answers are tables and texts for a user."""
        return not self.as_json and sys.stdout.isatty()

    def _show(self, body: Mapping[str, Any]) -> None:
        """Print a document as tables, without cutting cells."""
        from airflow_provider_dm.cli.tables import tables_of

        console = Console(highlight=False)
        for table in tables_of(body):
            console.print(table)


def _print(text: str) -> None:
    """Print to stdout. The rest is discarded if its reader has ended, as in `dmctl … | head`."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python's exit writes it again, and fails


def source_answer(source: str, worker: str, trouble: str = "") -> dict[str, Any]:
    """Return DM's answer about one source. `worker`: the host that works on it; `trouble`: the failure."""
    return {"result": not trouble, "msg": trouble, "source": source, "worker": worker}


def exit_code_of(error: DmError) -> Exit:
    return Exit.TAKEN_OVER if error.reaction is Reaction.FENCED else Exit.FAILED


def log_to_stderr(*, verbose: bool) -> None:
    """Log the engine's warnings (everything with --verbose) to stderr."""
    import logging

    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if verbose else logging.WARNING,
        format="%(levelname)s %(name)s: %(message)s" if verbose else "%(levelname)s: %(message)s",
        force=True,
    )
