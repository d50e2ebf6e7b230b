"""The actions of the page, which are the verbs of `dmctl`.

Each request names what the person saw: the number of a DDL, the place of a statement, or the first file that stays.
If that has changed since, the action is refused.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.model import OperatorKind, Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.relay.purge import BeforeFile, HeldFile, Inactive, PurgePlan, PurgeRequest
from airflow_provider_dm.engine.relay.purge_files import plan_by_hand, purge_by_hand
from airflow_provider_dm.engine.shard.lock import Action
from airflow_provider_dm.launch.binlog_operators import At, accepted, set_operators
from airflow_provider_dm.launch.ddl_locks import unlock
from airflow_provider_dm.launch.task_control import chosen_subtasks, control, live_run

Json = dict[str, Any]


class RelayLogElsewhere(DmError):
    source: str
    host: str
    here: str

    code = "DM-4059"
    what = "the relay log of {source} is on {host}, and Airflow's API server is on {here}."
    hint = "Run `dmctl purge-relay -s SOURCE --inactive` on the machine of the relay log, with `--dry-run` first."


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Wish(_Body):
    """The wish that a task, or one source of it, is paused or resumed."""

    task: str
    source: str | None = None


class Decision(_Body):
    """A decision about one DDL of a lock. `owner`: whose DDL is run."""

    lock: str
    number: int
    action: Action
    owner: str | None = None
    force: bool = False


class AtStatement(_Body):
    """What happens at the DDL statement that a source is paused at: `place` is the place that the person saw."""

    task: str
    source: str
    place: str
    kind: Literal["skip", "replace"]
    sql: str = ""


class Purge(_Body):
    """Relay files to remove: everything before the first file that stays."""

    source: str
    sub_dir: str
    file: str


def set_stage(store: MetaStore, wish: Wish, stage: Stage) -> str:
    """Pause or resume sources of a task; return when they have obeyed.

    Raises TaskUnknown, ControlRefused, ControlNotObeyed.
    """
    done = control(store, wish.task, [wish.source] if wish.source else [], stage)
    return f"{', '.join(done)}: {'paused' if stage is Stage.PAUSED else 'resumed'}."


def decide(store: MetaStore, decision: Decision) -> str:
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
    """Store what happens at the statement, and resume the source if a run is at work.

    Raises BinlogPosInvalid where the source has passed the place, OperatorSqlRefused, and as `set_stage`.
    """
    sqls = [order.sql] if order.sql.strip() else []
    (subtask,) = chosen_subtasks(store, order.task, [order.source])
    # A text names no sub-directory of the relay log, and the task may stand in front of another one.
    at = At() if order.place == str(subtask.error_at) else At(order.place)
    accepted(set_operators(store, order.task, [order.source], at, OperatorKind(order.kind), sqls))
    if live_run(store, order.task) is None:
        return "The decision is stored. No run of the task is at work: clear its task in Airflow, or start it again."
    return set_stage(store, Wish(task=order.task, source=order.source), Stage.RUNNING)


def purge_preview(store: MetaStore, source: str) -> Json:
    """Return the files that no task needs, and the first one that stays. Raises RelayLogElsewhere, and as a purge."""
    plan = _plan(store, source, Inactive())
    stays = plan.kept[0].file if plan.kept else None
    return {
        "files": [{"sub_dir": str(one.sub_dir), "file": str(one.file), "bytes": one.size} for one in plan.delete],
        "stays": {"sub_dir": str(stays.sub_dir), "file": str(stays.file)} if stays is not None else None,
        "because": plan.held_by,
    }


def purge(store: MetaStore, wanted: Purge) -> str:
    """Remove the files of the preview, except those that a task needs by now. Raises as `purge_preview`."""
    purged = purge_by_hand(store, _plan(store, wanted.source, BeforeFile(wanted.file, wanted.sub_dir)))
    return f"{len(purged.deleted)} files were removed, {purged.size:,} bytes." + _kept(purged.returned)


def _kept(returned: tuple[HeldFile, ...]) -> str:
    return f" {returned[0]} stays: a task needs it by now." if returned else ""


def _plan(store: MetaStore, source: str, request: PurgeRequest) -> PurgePlan:
    status, here = store.relay_status(source), socket.gethostname()
    if status is None or status.host != here or not status.directory:
        raise RelayLogElsewhere(source, status.host if status is not None else "no known machine", here)
    return plan_by_hand(store, source, Path(status.directory), request)
