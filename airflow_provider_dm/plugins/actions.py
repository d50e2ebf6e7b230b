"""The actions of the page, which are the verbs of `dmctl`.

Each request names what the person saw: the number of a DDL, the place of a statement, or the first file that stays.
If that has changed since, the action is refused.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from airflow_provider_dm.engine.meta.model import OperatorKind, Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.relay.purge import BeforeFile, Inactive
from airflow_provider_dm.engine.relay.purge_order import PurgeOrder
from airflow_provider_dm.engine.shard.lock import Action
from airflow_provider_dm.launch.binlog_operators import At, accepted, set_operators
from airflow_provider_dm.launch.ddl_locks import unlock
from airflow_provider_dm.launch.relay_purge import purge_relay_log
from airflow_provider_dm.launch.task_control import chosen_subtasks, control, live_run

Json = dict[str, Any]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Wish(_Body):
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


class AtStatement(_Body):
    """The treatment of the DDL statement at which a source is paused; `place`: as the person saw it."""

    task: str
    source: str
    place: str
    kind: Literal["skip", "replace"]
    sql: str = ""


class Purge(_Body):
    """Relay files to remove: all before the first file that is kept."""

    source: str
    sub_dir: str
    file: str


def set_stage(store: MetaStore, wish: Wish, stage: Stage) -> str:
    """Pause or resume sources of a task; return when they have obeyed.

    Raises TaskUnknown, InvalidInput, ControlNotObeyed.
    """
    done = control(store, wish.task, [wish.source] if wish.source else [], stage)
    return f"{', '.join(done)}: {'paused' if stage is Stage.PAUSED else 'resumed'}."


def decide_lock(store: MetaStore, decision: LockDecision) -> str:
    """Store a decision about a DDL lock. Raises LockRefuses."""
    lock = unlock(
        store,
        decision.lock,
        owner=decision.owner,
        action=decision.action,
        force=decision.force,
        number=decision.number,
    )
    return f"{lock.owner} carries it out at its next look; if no run of the task is at work, its next run does."


def at_statement(store: MetaStore, order: AtStatement) -> str:
    """Store the treatment of the statement, and resume the source if a run is working.

    Raises InvalidInput, also where the source has passed the place, and as `set_stage`.
    """
    sqls = [order.sql] if order.sql.strip() else []
    (subtask,) = chosen_subtasks(store, order.task, [order.source])
    # The text has no sub-directory of the relay log, and the task may be before another one.
    at = At() if order.place == str(subtask.error_at) else At(order.place)
    accepted(set_operators(store, order.task, [order.source], at, OperatorKind(order.kind), sqls))
    if live_run(store, order.task) is None:
        return "The decision is stored. No run of the task is at work: clear its task in Airflow, or start it again."
    return set_stage(store, Wish(task=order.task, source=order.source), Stage.RUNNING)


def purge_preview(store: MetaStore, source: str) -> Json:
    """Return the files that no task needs, and the first one that stays. Raises as `purge_relay_log`."""
    report = purge_relay_log(store, source, PurgeOrder(Inactive(), preview=True))
    return {
        "files": [{"sub_dir": one.sub_dir, "file": one.filename, "bytes": one.size} for one in report.files],
        "stays": {"sub_dir": report.stays.sub_dir, "file": report.stays.filename} if report.stays else None,
        "because": report.kept,
    }


def purge_previewed(store: MetaStore, wanted: Purge) -> str:
    """Remove the files of the preview, except those that a task needs by now. Raises as `purge_relay_log`."""
    report = purge_relay_log(store, wanted.source, PurgeOrder(BeforeFile(wanted.file, wanted.sub_dir)))
    return f"Removed: {report}. {report.kept}".rstrip()
