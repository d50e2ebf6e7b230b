"""One run of the demo's DAG in a world: started, watched, and judged by a comparison of every row."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from demo.locks import LockWatch
from demo.world import DAG_ID, META_SCHEMA, World
from demo.writer import Writer
from testbed.airflow_api import FINISHED, TaskState
from testbed.equality import Report

RUN_TIMEOUT_SECONDS: Final = 1800
DAG_SEEN_SECONDS: Final = 300
_POLL_SECONDS: Final = 2.0
_SYNC_TASKS: Final = ("incremental_sync", "drain")

Say = Callable[[str], None]


def say(text: str) -> None:
    """Print progress for people to stderr; stdout's last line is for machines."""
    print(text, file=sys.stderr, flush=True)


@dataclass
class Outcome:
    """The results of a run."""

    state: str
    report: Report | None
    changes_written: int
    changes_applied: int
    deadlocks: int
    """Transactions of the writers that a server rolled back, and that were repeated."""
    schema_changes: int
    ddl_applied: int
    ddl_locks: list[dict[str, Any]]
    """Each with its life, as it was seen meanwhile."""
    tasks: list[TaskState]
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def verified(self) -> bool:
        """True if the DAG succeeded and an independent comparison found every column and row equal."""
        return self.state == "success" and self.report is not None and self.report.equal


def run_dag(
    world: World, *, writes_per_second: int, during: Callable[[World, str], None] | None = None, tell: Say = say
) -> Outcome:
    """Trigger the DAG while writers write; wait for its end and compare. `during(world, run_id)` runs beside it."""
    api = world.airflow.api
    api.wait_for_dag(DAG_ID, seconds=DAG_SEEN_SECONDS)
    writers = world.writers(per_second=writes_per_second)
    for writer in writers:
        writer.start()
    try:
        began = time.monotonic()
        run_id = api.trigger(DAG_ID)
        tell(f"DAG {DAG_ID}, run {run_id}: {world.airflow.url}/dags/{DAG_ID}/runs/{run_id}")
        if during is not None:
            during(world, run_id)
        # One source makes the DDL of the orders as soon as it may, the other when the first is seen to wait for it.
        with LockWatch(world.metadata, DAG_ID, tell, writers[-1].begin_agreeing) as locks:
            state = _watch(world, run_id, writers, tell)
        seconds = {"dag": round(time.monotonic() - began, 1)}
    finally:
        for writer in writers:
            writer.abandon()
    for writer in writers:
        if writer.error is not None:
            raise writer.error
    tasks = api.tasks(DAG_ID, run_id)
    report = None
    if state == "success":
        began = time.monotonic()
        report = world.compare()
        seconds["comparison"] = round(time.monotonic() - began, 1)
    return Outcome(
        state=state,
        report=report,
        changes_written=sum(writer.changes for writer in writers),
        changes_applied=_applied(world, run_id, "changes_applied") if state == "success" else 0,
        deadlocks=sum(writer.deadlocks for writer in writers),
        schema_changes=sum(writer.schema_changes for writer in writers),
        ddl_applied=_applied(world, run_id, "ddl_applied") if state == "success" else 0,
        ddl_locks=locks.to_json(),
        tasks=tasks,
        seconds=seconds,
    )


def _applied(world: World, run_id: str, what: str) -> int:
    summaries: list[dict[str, Any]] = [world.airflow.api.xcom(DAG_ID, run_id, task) for task in _SYNC_TASKS]
    return sum(int(summary[what]) for summary in summaries)


def _watch(world: World, run_id: str, writers: Sequence[Writer], tell: Say) -> str:
    """Wait until the run has ended: a line whenever a task changes its state, and now and then how far the data is."""
    api = world.airflow.api
    seen: dict[tuple[str, int], str | None] = {}
    deadline = time.monotonic() + RUN_TIMEOUT_SECONDS
    began = last_line = time.monotonic()
    while time.monotonic() < deadline:
        for task in api.tasks(DAG_ID, run_id):
            key = (task.task_id, task.map_index)
            if task.state is not None and seen.get(key) != task.state:
                seen[key] = task.state
                tell(f"{time.monotonic() - began:6.1f} s  {_named(task):32} {task.state}")
                last_line = time.monotonic()
                if (task.task_id, task.state) == ("full_migration", "success"):
                    writers[0].begin_agreeing()
                    for writer in writers:
                        writer.begin_altering()
        state = api.run_state(DAG_ID, run_id)
        if state in FINISHED:
            return state
        if time.monotonic() - last_line > 5:
            tell(f"{time.monotonic() - began:6.1f} s  {_progress(world, writers)}")
            last_line = time.monotonic()
        time.sleep(_POLL_SECONDS)
    return "timeout"


def _named(task: TaskState) -> str:
    return task.task_id if task.map_index < 0 else f"{task.task_id}[{task.map_index}]"


def _progress(world: World, writers: Sequence[Writer]) -> str:
    written = sum(writer.changes for writer in writers)
    return f"{copied_rows(world):,} rows copied; the writers have made {written:,} changes"


def copied_rows(world: World) -> int:
    """Count the rows that the full migration has committed in the target so far."""
    exists = world.target.sql(
        "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = 'dm_copy_chunk'",
        [META_SCHEMA],
    )
    if not exists:
        return 0
    ((rows,),) = world.target.sql(f"SELECT COALESCE(SUM(rows_copied), 0) FROM {META_SCHEMA}.dm_copy_chunk")
    return int(rows)
