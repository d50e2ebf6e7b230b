"""The phases of `dmctl run`, and the condition under which a run counts as verified.

    precheck           nothing is changed before it passes
    full migration     task-mode full and all, until every source is loaded according to the target
    incremental sync   task-mode incremental and all, until caught up, a location, or forever
    verify             by default if the run ends caught up: every row of source and target

Differing rows after a catch-up mean one of two things. If a source was written to after the synced location, the
comparison was not valid: sync and compare again, up to a few rounds. If no source was written to, rows are missing or
wrong, and that is the result. A source with continuous writes cannot be verified this way, which is reported.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, assert_never

from airflow_provider_dm.cli.app_phase import RunContext, run_app
from airflow_provider_dm.cli.errors import Interrupted, RowsDiffer, SourcesNotQuiet
from airflow_provider_dm.engine.config.job import UNTIL_CAUGHT_UP
from airflow_provider_dm.engine.config.task import TaskConfig, TaskMode
from airflow_provider_dm.engine.downstream.subtask import UNIT_SYNC, Subtask, begun_subtasks
from airflow_provider_dm.engine.mysql.binlog_status import current_location
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.location import Location, reached
from airflow_provider_dm.engine.shard.lock import WAITING_FOR_LOCK
from airflow_provider_dm.engine.verify.errors import DataDiffers
from airflow_provider_dm.launch.errors import SparkAppFailed
from airflow_provider_dm.launch.inputs import Inputs
from airflow_provider_dm.launch.job import AppName

COMPARISON_ROUNDS: Final = 4
"""The number of comparisons of sources with concurrent writes before giving up."""
TABLES_NAMED: Final = 5


def phases(mode: TaskMode, *, until: str, unneeded: Collection[AppName]) -> tuple[AppName, ...]:
    """Return the apps that are still to run. `unneeded`: not wanted, or done already."""
    left: dict[AppName, bool] = {
        "full_migration": mode is not TaskMode.INCREMENTAL,
        "incremental_sync": mode is not TaskMode.FULL,
        "verify": until == UNTIL_CAUGHT_UP or mode is TaskMode.FULL,
    }
    return tuple(app for app, wanted in left.items() if wanted and app not in unneeded)


# The result


def moved_since(synced: Mapping[str, Location], now: Mapping[str, Location]) -> dict[str, str]:
    """Return the sources that were written to after the target's location, name -> "from A to B".

    Differences found by a comparison are then not significant.
    """
    return {
        source: f"from {synced.get(source, 'an unknown location')} to {end}"
        for source, end in now.items()
        # The upstream does not know the relay sub-directory of its files.
        if source not in synced or not reached(synced[source], replace(end, suffix=synced[source].suffix))
    }


def differing_tables(result: Mapping[str, Any]) -> tuple[str, ...]:
    """Return descriptions of the first few tables that differ."""
    names = [
        f"{table['target']} "
        f"({table.get('why') or '{source_rows} rows in the sources, {target_rows} in the target'.format_map(table)})"
        for table in result.get("tables", ())
        if not table["equal"]
    ]
    more = [f"and {len(names) - TABLES_NAMED} more"] if len(names) > TABLES_NAMED else []
    return (*names[:TABLES_NAMED], *more)


# The run


@dataclass
class Summary:
    """The results of a run so far."""

    rows: int = 0
    changes_applied: int = 0
    verified: bool | None = None
    """None: not compared."""
    unresolved_groups: dict[str, Any] = field(default_factory=dict)
    """Merged tables whose shards wait for each other's DDL (DM's unresolvedGroups), by source."""
    seconds: dict[str, float] = field(default_factory=dict)
    """The time of each app, including the precheck."""
    locations: dict[str, Location] = field(default_factory=dict)
    differing: dict[str, Any] = field(default_factory=dict)
    """Rows that differ, by target table: at most twenty of each, with their keys."""

    @property
    def waiting(self) -> str:
        """Describe rows that are held until other shards have executed a DDL; "" if there are none."""
        groups = ((source, group) for source, groups in self.unresolved_groups.items() for group in groups)
        waiting = [f"{source} holds back rows of {one['target']}, and waits {one['waits']}" for source, one in groups]
        return f"{WAITING_FOR_LOCK}: {'; '.join(waiting)}" if waiting else ""

    def add_sync(self, result: Mapping[str, Any]) -> None:
        """Add the result of an incremental sync."""
        self.changes_applied += int(result.get("changes_applied", 0))
        self.unresolved_groups = dict(result.get("unresolved_groups", {}))
        for source, state in result.get("sources", {}).items():
            self.locations[source] = Location.parse(state["location"])

    def to_json(self, task: TaskConfig) -> dict[str, Any]:
        return {
            "task": task.name,
            "verified": self.verified,
            "rows": self.rows,
            "changes_applied": self.changes_applied,
            "seconds": {phase: round(spent, 2) for phase, spent in self.seconds.items()},
            "unresolved_groups": self.unresolved_groups,
            "sources": {source: {"location": str(location)} for source, location in self.locations.items()},
            **({"differing": self.differing} if self.differing else {}),
        }


def run_phases(context: RunContext, summary: Summary, *, until: str, verify: bool) -> None:
    """Run all phases after the precheck, and fill in `summary`.

    Raises RowsDiffer, SourcesNotQuiet, and the errors of `run_app`.
    """
    inputs = context.supervisor.inputs
    task, target = inputs.task, inputs.target
    unneeded: list[AppName] = [] if verify else ["verify"]
    if _loaded(task, _subtasks(target, task)):
        unneeded.append("full_migration")
    for phase in phases(task.task_mode, until=until, unneeded=unneeded):
        match phase:
            case "full_migration":
                summary.rows = int(_run(context, summary, phase, UNTIL_CAUGHT_UP).get("rows", 0))
            case "incremental_sync":
                _sync(context, summary, until)
            case "verify":
                _verify(context, summary, until)
            case _:
                assert_never(phase)


def _verify(context: RunContext, summary: Summary, until: str) -> None:
    inputs = context.supervisor.inputs
    task = inputs.task
    can_sync = task.task_mode is not TaskMode.FULL
    if not can_sync:  # the copy has the rows that the sources had at its start
        begun = _subtasks(inputs.target, task)
        summary.locations = {subtask.source: subtask.start for subtask in begun if subtask.start is not None}
    moved: Mapping[str, str] = {}
    for round_number in range(1, COMPARISON_ROUNDS + 1):
        if summary.unresolved_groups:  # which the last sync may have added
            context.output.print_line("the comparison is skipped, because rows are held back")
            return
        result = _compare(context, summary, until)
        summary.rows = int(result.get("rows", summary.rows))
        if result.get("verified"):
            summary.verified = True
            return
        moved = moved_since(summary.locations, _ends_of(inputs))
        if not moved:
            summary.verified = False
            summary.differing = {one["target"]: one["differing"] for one in result["tables"] if not one["equal"]}
            raise RowsDiffer(", ".join(differing_tables(result)))
        if not can_sync or round_number == COMPARISON_ROUNDS:
            break
        for source, how in moved.items():
            context.output.print_line(f"source {source} was written to during the comparison ({how}): syncing again")
        _sync(context, summary, until)
    summary.verified = False
    raise SourcesNotQuiet(round_number, "; ".join(f"{source} moved {how}" for source, how in moved.items()))


def _compare(context: RunContext, summary: Summary, until: str) -> Mapping[str, Any]:
    """Return a comparison's result, also for differing rows, which the app reports as an error."""
    try:
        return _run(context, summary, "verify", until)
    except SparkAppFailed as failed:
        run = context.supervisor.store.get_run(failed.run_id)
        if failed.reported.code != DataDiffers.code or run is None or run.result is None:
            raise
        return run.result


def _sync(context: RunContext, summary: Summary, until: str) -> None:
    if (idle := context.supervisor.idle(until)) is not None:
        _, result = idle
        summary.seconds.setdefault("incremental_sync", result["seconds"])
        summary.add_sync(result)
        return
    try:
        result = _run(context, summary, "incremental_sync", until)
    except Interrupted as interrupted:  # the normal end of `--until forever`, so its results count
        summary.add_sync(interrupted.result)
        raise
    summary.add_sync(result)


def _run(context: RunContext, summary: Summary, app: AppName, until: str) -> dict[str, Any]:
    context.output.print_line(f"{app} …")
    began = time.monotonic()
    try:
        return run_app(context, app, until)
    finally:
        context.output.end_progress()
        spent = time.monotonic() - began
        summary.seconds[app] = summary.seconds.get(app, 0.0) + spent


def _ends_of(inputs: Inputs) -> dict[str, Location]:
    ends = {}
    for source, endpoint in inputs.pairs:
        with connected(endpoint) as connection:
            ends[source.source_id] = current_location(connection)
    return ends


def _subtasks(target: Endpoint, task: TaskConfig) -> list[Subtask]:
    """Return the task's subtasks in the target; none if the task has never run."""
    with connected(target) as connection:
        return list(begun_subtasks(connection, task.meta_schema, task.name, task.source_ids).values())


def _loaded(task: TaskConfig, subtasks: Sequence[Subtask]) -> bool:
    return {subtask.source for subtask in subtasks if subtask.unit == UNIT_SYNC} == set(task.source_ids)
