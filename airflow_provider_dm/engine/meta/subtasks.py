"""Subtasks: the status of each task on each source, and the location from which on it needs the source's log."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, case, delete, null, update

from airflow_provider_dm.engine.meta import tables
from airflow_provider_dm.engine.meta.clock import db_now, moment
from airflow_provider_dm.engine.meta.errors import UnrelatedNeeds
from airflow_provider_dm.engine.meta.locked_rows import (
    StorePart,
    from_text,
    location_from,
    location_text,
    matching,
    put,
    to_text,
)
from airflow_provider_dm.engine.meta.records import Json, Stage, SubtaskStatus, Unit
from airflow_provider_dm.engine.mysql.location import Location, Order, compare


class Subtasks(StorePart):
    def put_subtask(
        self,
        task: str,
        source: str,
        *,
        unit: Unit,
        stage: Stage,
        needed: Location | None = None,
        applied: Location | None = None,
    ) -> None:
        """Replace the recorded status of this subtask, including its error; the relay keeps everything from `needed`
        on. The desired stage is not changed.
        """
        values = {
            "unit": unit.value,
            "stage": stage.value,
            "needed": location_text(needed),
            "applied": location_text(applied),
            "updated_at": db_now(),
            "error": None,
            "error_at": None,
        }
        self._database.write(lambda tx: put(tx, tables.subtask, {"task": task, "source": source}, values))

    def put_subtask_error(self, task: str, source: str, error: Json | None, *, at: Location | None = None) -> None:
        """Record that an error paused the subtask; keep the other columns. `at`: the transaction whose DDL failed, if
        the cause was a DDL.

        A desired stage Running is cleared: a user who resumes the subtask writes a new one.
        """
        desired = tables.subtask.c.desired
        values = {
            "desired": case((desired == Stage.RUNNING.value, null()), else_=desired),
            "stage": Stage.PAUSED.value,
            "error": to_text(error),
            "error_at": location_text(at),
            "updated_at": db_now(),
        }
        self._update_subtask(task, source, values)

    def put_subtask_paused(self, task: str, source: str) -> None:
        """Record that the subtask is Paused at a user's request."""
        self.put_subtask_error(task, source, None)

    def set_subtask_desired(self, task: str, source: str, stage: Stage) -> None:
        """Write the stage that a user requests. The subtask's own report is not changed."""
        self._update_subtask(task, source, {"desired": stage.value})

    def _update_subtask(self, task: str, source: str, values: dict[str, Any]) -> None:
        """Set columns of a subtask. No effect if the subtask has no row."""
        key = matching(tables.subtask, {"task": task, "source": source})
        statement = update(tables.subtask).where(key).values(**values)
        self._database.write(lambda tx: tx.execute(statement).rowcount)

    def forget_subtask(self, task: str, source: str) -> None:
        """Delete the subtask and its binlog operators: it needs no log any more."""
        key = {"task": task, "source": source}

        def body(tx: Connection) -> None:
            for table in (tables.subtask, tables.binlog_operator):
                tx.execute(delete(table).where(matching(table, key)))

        self._database.write(body)

    def list_subtasks(self, *, task: str | None = None, source: str | None = None) -> list[SubtaskStatus]:
        """Return the subtasks by task and source."""
        wanted = {name: value for name, value in (("task", task), ("source", source)) if value is not None}
        rows = self._rows(tables.subtask, *(tables.subtask.c[name] == value for name, value in wanted.items()))
        return sorted(map(_status, rows), key=lambda status: (status.task, status.source))

    def oldest_needed(self, source: str) -> Location | None:
        """Return the oldest location that a source's subtasks need, in any stage except Finished. Raises
        UnrelatedNeeds.
        """
        oldest: Location | None = None
        for status in self.list_subtasks(source=source):
            if status.stage is Stage.FINISHED or status.needed is None:
                continue
            match Order.BEFORE if oldest is None else compare(status.needed, oldest):
                case Order.BEFORE:
                    oldest = status.needed
                case Order.UNRELATED:
                    raise UnrelatedNeeds(source, str(oldest), str(status.needed))
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
