"""The lines of a launcher about a run: progress every ten seconds, and a table at the end.

`dmctl run` and the operators print the same lines. Progress is read from the run's row in the metadata DB, which the
app writes every two seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.records import RESUMES_IN_SECONDS, Run, Stage, SubtaskStatus
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.relay.health import error_text
from airflow_provider_dm.engine.sync.progress import Meter, duration, progress_line, seconds_left

LINE_EVERY_SECONDS: Final = 10.0
PHASES: Final = {"full_migration": "full migration", "incremental_sync": "incremental sync", "verify": "verify"}

Json = Mapping[str, Any]


@dataclass(frozen=True)
class ReportOutput:
    """The output of a progress report: `progress` may replace the previous line, `line` always adds a line."""

    progress: Callable[[str], object]
    line: Callable[[str], object]
    every_seconds: float = LINE_EVERY_SECONDS


@dataclass
class ProgressReporter:
    """Reports the progress of one run; the launcher's loop calls it."""

    app: str
    task: str
    run_id: str
    store: MetaStore
    report_output: ReportOutput
    _began_at: float = field(default_factory=time.monotonic)
    _shown_at: float = field(default_factory=time.monotonic)
    _meter: Meter = field(default_factory=Meter)
    _since: dict[str, float] = field(default_factory=dict)

    def report_if_due(self, now: float | None = None, *, run: Run | None = None) -> None:
        """Print a line of progress if it is due. `now`: the monotonic clock; `run`: the row, if it was just read."""
        now = time.monotonic() if now is None else now
        if now - self._shown_at < self.report_output.every_seconds:
            return
        self._shown_at = now
        try:
            run, subtasks = run or self.store.get_run(self.run_id), self.store.list_subtasks(task=self.task)
        except DmError as error:
            doing, reasons = "", [f"the metadata DB is not reachable ({error.code})"]
        else:
            doing, reasons = self._doing(run, now), pauses(run, subtasks)
        # Only current reasons are kept, so a reason that returns later counts from then.
        self._since = {reason: self._since.get(reason, now) for reason in reasons}
        waits = [f"waits for {duration(now - since)}: {reason}" for reason, since in self._since.items()]
        self.report_output.progress(f"{PHASES[self.app]}: {', '.join(filter(None, [doing, *waits]))}")

    def end(self, result: Json) -> None:
        """Print the table of results."""
        for line in closing_table(self.app, result):
            self.report_output.line(line)

    def _doing(self, run: Run | None, now: float) -> str:
        if run is None:
            return f"starting Spark, {duration(now - self._began_at)}"
        parts = [part for part in run.progress.values() if isinstance(part, Mapping) and part]
        syncing = {name: one for name, one in run.progress.items() if isinstance(one, Mapping) and "lag_seconds" in one}
        if syncing:
            return "; ".join(f"{name} {progress_line(shown)}" for name, shown in syncing.items())
        if not parts:
            return f"preparing, {duration(now - self._began_at)}"
        return chunks_line(parts, self._meter, now)


def pauses(run: Run | None, subtasks: Sequence[SubtaskStatus]) -> list[str]:
    """Return why sources of the run are paused: by a user, or by an error that a user must resolve."""
    reasons = []
    for subtask in subtasks:
        if run is None or subtask.source not in run.progress or subtask.stage is not Stage.PAUSED:
            continue
        if subtask.desired is Stage.PAUSED:
            reasons.append(f"{subtask.source} is paused by a user; `dmctl resume-task {subtask.task}` resumes it")
        elif subtask.error and RESUMES_IN_SECONDS not in subtask.error:
            reasons.append(f"{subtask.source} is paused by an error: {error_text(subtask.error)}")
    return reasons


def chunks_line(parts: Sequence[Json], meter: Meter, now: float | None = None) -> str:
    """Return the progress of work in parts: chunks of a load, tasks of a comparison.

    >>> meter = Meter()
    >>> _ = chunks_line([{"rows": 0, "chunks": 10, "chunks_done": 0}], meter, 0.0)
    >>> chunks_line([{"rows": 4000, "chunks": 10, "chunks_done": 4, "contested_rows": 2}], meter, 20.0)
    '4,000 rows (200/s), 4 of 10 chunks (40 %), 30 s left, 2 contested rows'
    >>> chunks_line([{"pieces": 8, "pieces_done": 2}], Meter(), 0.0)
    '2 of 8 pieces (25 %)'
    """

    def total(key: str) -> int:
        return sum(int(part.get(key) or 0) for part in parts)

    phases = [str(part["phase"]) for part in parts if part.get("phase")]
    name = "chunks" if any("chunks" in part for part in parts) else "pieces"
    whole, done = total(name), total(f"{name}_done")
    speeds = meter.record({"rows": total("rows"), "done": done}, now)
    shown = list(dict.fromkeys(phases))
    if any("rows" in part for part in parts):
        shown.append(f"{total('rows'):,} rows ({speeds['rows'].recent:,.0f}/s)")
    if whole:
        shown.append(f"{done:,} of {whole:,} {name} ({100 * done // whole} %)")
        left = seconds_left(whole - done, speeds["done"].recent)
        shown += [f"{duration(left)} left"] if left else []
    if waiting := total("contested_rows"):
        shown.append(f"{waiting:,} contested rows")
    return ", ".join(shown)


def closing_table(app: str, result: Json) -> list[str]:
    """Return the summary of a run: totals, and one row for each source or table."""
    match app:
        case "verify":
            verdict, lines = _compared(result)
        case "incremental_sync":
            verdict, lines = _synced(result)
        case _:
            verdict, lines = _copied(result)
    seconds = result.get("seconds")
    spent = "" if seconds is None else f" in {duration(float(seconds))}"
    return [f"{PHASES[app]}: {verdict}{spent}", *(f"  {line}" for line in lines)]


def _compared(result: Json) -> tuple[str, list[str]]:
    verdict = "every row is equal" if result.get("verified") else "source and target differ"
    rows = [
        (
            str(one["target"]),
            *(_number(one[side]) for side in ("source_rows", "target_rows")),
            "yes" if one["equal"] else "NO",
        )
        for one in result.get("tables", ())
    ]
    return verdict, table(("table", "source rows", "target rows", "equal"), rows)


def _synced(result: Json) -> tuple[str, list[str]]:
    held = result.get("unresolved_groups", {})
    rows = [
        (
            source,
            str(one.get("location")),
            *(_number(one.get(key)) for key in ("changes_applied", "transactions", "ddl_applied")),
            ", ".join(group["target"] for group in held.get(source, ())) or "-",
        )
        for source, one in result.get("sources", {}).items()
    ]
    verdict = f"{result.get('status', 'stopped')}, {_number(result.get('changes_applied'))} changes"
    return verdict, table(("source", "location", "changes", "transactions", "DDL", "rows held in"), rows)


def _copied(result: Json) -> tuple[str, list[str]]:
    rows = [
        (source, *(_number(one.get(key)) for key in ("rows", "tables")), str(one.get("start", "-")))
        for source, one in result.get("sources", {}).items()
    ]
    return f"{_number(result.get('rows'))} rows", table(("source", "rows", "tables", "copied as of"), rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as aligned lines below their headings; no lines without rows.

    >>> print(*table(("source", "rows"), [("one", "12,000"), ("replica_02", "7")]), sep=chr(10))
    source      rows
    one         12,000
    replica_02  7
    """
    if not rows:
        return []
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (head, *rows)
    ]


def _number(value: Any) -> str:
    return f"{int(value or 0):,}"
