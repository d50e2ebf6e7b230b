"""The actions of the page, which are the verbs of `dmctl`.

Each request names the object that the page showed: the number of a DDL, the location of a statement, or the first file
that is kept. If the object has changed since, the action is refused.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from airflow_provider_dm.engine.meta.records import OperatorKind, Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.relay.purge import BeforeFile, Inactive
from airflow_provider_dm.engine.relay.purge_order import PurgeOrder
from airflow_provider_dm.engine.shard.lock import Action
from airflow_provider_dm.launch.binlog_operators import RequestedPlace, set_operators
from airflow_provider_dm.launch.ddl_locks import unlock
from airflow_provider_dm.launch.relay_purge import purge_relay_log
from airflow_provider_dm.launch.task_control import chosen_subtasks, control, live_run

Json = dict[str, Any]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StageRequest(_Body):
    """The request to pause or resume a task, or one source of it."""

    task: str
    source: str | None = None


class LockDecision(_Body):
    """A decision about one DDL of a lock. `owner`: the source whose DDL is executed."""

    lock: str
    number: int
    action: Action
    owner: str | None = None
    force: bool = False


class StatementDecision(_Body):
    """Skip or replace the DDL statement at which a source is paused; `place`: its location, as the page showed it."""

    task: str
    source: str
    place: str
    kind: Literal["skip", "replace"]
    sql: str = ""


class PurgeRequest(_Body):
    """Relay files to remove: all before the first file that is kept."""

    source: str
    sub_dir: str
    file: str


def set_stage(store: MetaStore, request: StageRequest, stage: Stage) -> str:
    """Pause or resume sources of a task, and wait until they have reported it.

    Raises TaskUnknown, InvalidInput, ControlNotObeyed.
    """
    done = control(store, request.task, [request.source] if request.source else [], stage)
    return f"{', '.join(done)}: {'paused' if stage is Stage.PAUSED else 'resumed'}."


def decide_lock(store: MetaStore, decision: LockDecision) -> str:
    """Store a decision about a DDL lock. Raises LockRefuses."""
    lock = unlock(
        store, decision.lock, owner=decision.owner, action=decision.action, force=decision.force, number=decision.number
    )
    return f"{lock.owner} carries out the decision when it next reads the lock: now, or in the task's next run."


def decide_statement(store: MetaStore, decision: StatementDecision) -> str:
    """Store the decision, and resume the source if a run is working.

    Raises InvalidInput, also if the source has passed the location, and the errors of `set_stage`.
    """
    sqls = [decision.sql] if decision.sql.strip() else []
    (subtask,) = chosen_subtasks(store, decision.task, [decision.source])
    # The text does not name the sub-directory of the relay log, and the task may be in an earlier sub-directory.
    at = RequestedPlace() if decision.place == str(subtask.error_at) else RequestedPlace(decision.place)
    set_operators(store, decision.task, [decision.source], at, OperatorKind(decision.kind), sqls)
    if live_run(store, decision.task) is None:
        return "The decision is stored. No run of the task is working: clear its task in Airflow, or start it again."
    return set_stage(store, StageRequest(task=decision.task, source=decision.source), Stage.RUNNING)


def purge_preview(store: MetaStore, source: str) -> Json:
    """Return the files that no task needs, and the first file that is kept. Raises the errors of `purge_relay_log`."""
    report = purge_relay_log(store, source, PurgeOrder(Inactive(), preview=True))
    return {
        "files": [{"sub_dir": file.sub_dir, "file": file.filename, "bytes": file.size} for file in report.files],
        "stays": {"sub_dir": report.stays.sub_dir, "file": report.stays.filename} if report.stays else None,
        "because": report.kept,
    }


def purge_previewed_files(store: MetaStore, request: PurgeRequest) -> str:
    """Remove the files of the preview, except files that a task needs now. Raises the errors of `purge_relay_log`."""
    report = purge_relay_log(store, request.source, PurgeOrder(BeforeFile(request.file, request.sub_dir)))
    return f"Removed: {report}. {report.kept}".rstrip()
