"""What dmctl prints, and how it ends.

Answers go to stdout: with --json exactly one JSON object in DM's shape (`result`, `msg`, then the rest). Without it
DM's verbs print that object indented, also where they are refused; on a terminal they print tables (tables.py), and an
error alone. Our own verbs print text. Progress, warnings and errors for people go to stderr, so that stdout can be
piped.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from airflow_provider_dm.engine.errors import DmError, Reaction, ReportedError, reported_by

if TYPE_CHECKING:
    from airflow_provider_dm.launch.narration import Audience

TERMINAL_EVERY_SECONDS: Final = 1.0
"""How often the line of progress changes on a terminal."""


class Exit(IntEnum):
    """The exit codes; `dmctl --help` lists them as well."""

    DONE = 0
    FAILED = 1  # failed: by a typed error, or a bug with its traceback
    USAGE = 2  # the command line is wrong
    TAKEN_OVER = 3  # another run has taken the task over
    DIFFERENT = 4  # everything ran, and source and target differ
    PRECHECK = 5  # the precheck found what has to be changed first
    WAITING = 6  # done but for DDL of merged tables, which waits for other shards; the same command continues
    INTERRUPTED = 130  # interrupted; the same command continues


class Output:
    """The place where a command prints. `as_json`: the answer is for a program."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._people = Console(stderr=True, highlight=False, soft_wrap=True)
        self._status: Status | None = None

    def say(self, text: str) -> None:
        """Print a line for people, on stderr."""
        self._people.print(text, markup=False)

    def audience(self) -> Audience:
        """Return where progress is shown: one line that changes on a terminal, elsewhere a line every ten seconds."""
        from airflow_provider_dm.launch.narration import Audience

        if not self._people.is_terminal:
            return Audience(self.say, self.say)
        return Audience(self._change_line, self.say, TERMINAL_EVERY_SECONDS)

    def _change_line(self, text: str) -> None:
        if self._status is None:
            self._status = self._people.status("")
            self._status.start()
        self._status.update(escape(text))

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
        """Print an answer whose keys, and their order, are DM's; return how the command ends, by its `result`.

        A person at a terminal gets tables of the same content.
        """
        if self._on_terminal:
            self._show(body)
        else:
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
        if self.as_json or (document and not self._on_terminal):
            self.document({"result": False, "msg": str(said), "error": said.to_json(), **(body or {})})
        self.say(f"error {said}")

    @property
    def _on_terminal(self) -> bool:
        return not self.as_json and sys.stdout.isatty()

    def _show(self, body: Mapping[str, Any]) -> None:
        """Print a document as tables, of which no cell is cut off."""
        from airflow_provider_dm.cli.tables import tables_of

        console = Console(highlight=False)
        for one in tables_of(body):
            console.print(one)


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
