"""Subtasks: what each task is doing on each source, and from where on it still needs the source's log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Row, delete, update

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta import tables
from airflow_provider_dm.engine.meta.cas import (
    from_text,
    location_from,
    location_text,
    matching,
    put,
    read_with_now,
    to_text,
)
from airflow_provider_dm.engine.meta.clock import db_now, moment
from airflow_provider_dm.engine.meta.database import Database
from airflow_provider_dm.engine.meta.model import Json, Stage, SubtaskStatus, Unit
from airflow_provider_dm.engine.mysql.location import Location, Order, compare


class UnrelatedNeeds(DmError):
    """Two tasks need places in unrelated histories of one source: none of them is the older."""

    source: str
    one: str
    other: str

    code = "DM-8009"
    what = "tasks on source {source!r} need {one} and {other}, of which none is before the other."
    hint = "Finish or remove the task that belongs to the source's former log."


def put_status(
    database: Database,
    task: str,
    source: str,
    *,
    unit: Unit,
    stage: Stage,
    needed: Location | None,
    applied: Location | None,
) -> None:
    """Replace what was known of this subtask, its error included. The desired stage is left alone."""
    values = {
        "unit": unit.value,
        "stage": stage.value,
        "needed": location_text(needed),
        "applied": location_text(applied),
        "updated_at": db_now(),
        "error": None,
        "error_at": None,
    }
    database.write(lambda tx: put(tx, tables.subtask, {"task": task, "source": source}, values))


def put_paused(database: Database, task: str, source: str, *, error: Json | None, at: Location | None) -> None:
    """Say that the subtask is Paused, and by what; what else is known stays. `error` None: somebody wants it so."""
    values = {
        "stage": Stage.PAUSED.value,
        "error": to_text(error),
        "error_at": location_text(at),
        "updated_at": db_now(),
    }
    _update(database, task, source, values)


def set_desired(database: Database, task: str, source: str, stage: Stage) -> None:
    """Write the stage that people want. The subtask's own report is left alone."""
    _update(database, task, source, {"desired": stage.value})


def _update(database: Database, task: str, source: str, values: dict[str, Any]) -> None:
    """Set columns of a subtask. Nothing happens to one that is not known."""
    key = matching(tables.subtask, {"task": task, "source": source})
    statement = update(tables.subtask).where(key).values(**values, version=tables.subtask.c.version + 1)
    database.write(lambda tx: tx.execute(statement).rowcount)


def forget(database: Database, task: str, source: str) -> None:
    """Drop the subtask and what was to be done at places of its log: it needs nothing any more."""
    key = {"task": task, "source": source}

    def body(tx: Connection) -> None:
        for table in (tables.subtask, tables.binlog_operator):
            tx.execute(delete(table).where(matching(table, key)))

    database.write(body)


def list_of(database: Database, *, task: str | None, source: str | None) -> list[SubtaskStatus]:
    """Return the subtasks by task and source."""
    wanted = {name: value for name, value in (("task", task), ("source", source)) if value is not None}
    conditions = [tables.subtask.c[name] == value for name, value in wanted.items()]
    rows = database.read(lambda tx: read_with_now(tx, tables.subtask, *conditions))
    return sorted((_status(row) for row in rows), key=lambda status: (status.task, status.source))


def oldest_needed(statuses: Iterable[SubtaskStatus]) -> Location | None:
    """Return the oldest need of one source's subtasks, whatever their stage, except Finished. Raises UnrelatedNeeds."""
    oldest: Location | None = None
    for status in statuses:
        if status.stage is Stage.FINISHED or status.needed is None:
            continue
        if oldest is None:
            oldest = status.needed
            continue
        match compare(status.needed, oldest):
            case Order.BEFORE:
                oldest = status.needed
            case Order.UNRELATED:
                raise UnrelatedNeeds(status.source, str(oldest), str(status.needed))
            case Order.SAME | Order.AFTER:
                pass
    return oldest


def _status(row: Row[Any]) -> SubtaskStatus:
    return SubtaskStatus(
        task=row.task,
        source=row.source,
        unit=Unit(row.unit),
        stage=Stage(row.stage),
        needed=location_from(row.needed),
        applied=location_from(row.applied),
        updated_at=moment(row.updated_at),
        error=from_text(row.error),
        error_at=location_from(row.error_at),
        desired=Stage(row.desired) if row.desired else None,
    )
