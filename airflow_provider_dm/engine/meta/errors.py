"""The errors of the metadata DB, its leases and its runs."""

from __future__ import annotations

from airflow_provider_dm.engine.errors import DmError, Reaction


class MetaUnreachable(DmError):
    url: str
    reason: str

    code = "DM-8002"
    reaction = Reaction.RETRY
    what = "the metadata DB {url} cannot be used: {reason}."
    hint = "Check that it runs, and the dm_meta connection."


class LostRace(DmError):
    """Another process has written first. The only remedy is to read and decide again."""

    what_row: str
    expected: str

    code = "DM-8004"
    reaction = Reaction.RETRY
    what = "{what_row} was changed by another process: expected {expected}."
    hint = "Run it again: it then reads the other process's values."


class LeaseHeld(DmError):
    task: str
    source: str
    holder: str
    host: str
    age_seconds: float
    """Time since it was acquired."""
    remaining_seconds: float
    """Time until it expires, unless renewed."""

    code = "DM-8005"
    reaction = Reaction.RETRY
    what = (
        "task {task!r} on source {source!r} is held by {holder} on {host} for {age_seconds:.0f} s; "
        "its lease expires in {remaining_seconds:.1f} s unless it is renewed."
    )
    hint = "Stop that run (`dmctl stop-task TASK`), or wait until it has ended."


class LeaseLost(DmError):
    """Another run holds the lease with a newer generation: this process must end."""

    task: str
    source: str
    generation: int
    newer: int | None

    code = "DM-8006"
    reaction = Reaction.FENCED
    what = (
        "the lease of task {task!r} on source {source!r} with generation {generation} is lost "
        "(current generation: {newer})."
    )
    hint = "Another run has taken over the task: check that run. Nothing was written twice."


class RunUnknown(DmError):
    run_id: str

    code = "DM-8007"
    what = "the metadata DB has no run {run_id!r}."
    hint = "Check that all processes use the same metadata DB (--meta-url, DM_META_URL, dm_meta)."


class RunTaken(DmError):
    run_id: str
    holder: str

    code = "DM-8008"
    what = "the run {run_id!r} belongs to {holder}."
    hint = "Start it again: every attempt gets its own id. If the error recurs, please report it."


class UnrelatedNeeds(DmError):
    source: str
    one: str
    other: str

    code = "DM-8009"
    what = "tasks on source {source!r} need {one} and {other}, neither of which precedes the other."
    hint = "Finish or remove the task that belongs to the source's earlier log."


class MetaSchemaDiffers(DmError):
    url: str
    found: str
    wanted: str

    code = "DM-8010"
    what = "the metadata DB {url} has schema version {found}, this release needs {wanted}."
    hint = (
        "If it has none, run `dmctl meta migrate`. Otherwise another release has created it: use that release, or "
        "an empty metadata DB. With an empty one tasks continue from the checkpoints in their targets, and decisions "
        "by `dmctl binlog` must be made again."
    )


class MetaRefused(DmError):
    """A statement that cannot succeed: a value does not fit, or a privilege is missing."""

    url: str
    reason: str

    code = "DM-8011"
    what = "the metadata DB {url} rejects a statement: {reason}."
    hint = "Grant its account all privileges on its tables; if a value does not fit, please report it."


class RunOvertaken(DmError):
    """Another run claimed the subtask after this one was launched, and has ended: this one was suspended, or slower.

    It is unknown which of the two was launched last, so a new attempt is right; it cannot harm a running one.
    """

    task: str
    source: str
    holder: str
    generation: int
    launched_after: int

    code = "DM-8013"
    reaction = Reaction.RETRY
    what = (
        "task {task!r} on source {source!r}: this run was launched after generation {launched_after}, and {holder} "
        "has claimed generation {generation} since."
    )
    hint = "This run has written nothing. Start it again if there is work left."
