"""Runs: one row for each execution of an app, with its stage, heartbeat, progress and outcome."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, Row

from airflow_provider_dm.engine.meta import tables
from airflow_provider_dm.engine.meta.clock import SECOND, db_now, moment
from airflow_provider_dm.engine.meta.errors import LostRace, RunTaken, RunUnknown
from airflow_provider_dm.engine.meta.locked_rows import StorePart, from_text, put_over, read_for_update, to_text
from airflow_provider_dm.engine.meta.records import Json, Run, Stage
from airflow_provider_dm.engine.processes import Holder


class Runs(StorePart):
    def start_run(self, run_id: str, *, task: str, app: str, holder: Holder) -> None:
        """Insert a new Running row, or reset the row if it has the same identity. Raises RunTaken."""
        values: dict[str, Any] = {
            "task": task,
            "app": app,
            **asdict(holder),
            "stage": Stage.RUNNING.value,
            "progress": "{}",
            "result": None,
            "error": None,
            "started_at": db_now(),
            "heartbeat_at": db_now(),
            "finished_at": None,
        }

        def body(tx: Connection) -> None:
            row = read_for_update(tx, tables.run, {"run_id": run_id})
            if row is not None and row.identity != holder.identity:
                raise RunTaken(run_id, str(Holder(row.identity, row.attempt, row.host)))
            put_over(tx, tables.run, {"run_id": run_id}, row, values)

        self._database.write(body)

    def heartbeat_run(self, run_id: str, progress: Json) -> None:
        """Write a heartbeat; `progress` replaces the last one. Raises RunUnknown, LostRace (the run has ended)."""

        def body(tx: Connection) -> None:
            row = _found(tx, run_id)
            if row.stage != Stage.RUNNING:
                raise LostRace(f"the run {run_id!r}", f"stage Running, found {row.stage}")
            values = {"heartbeat_at": db_now(), "progress": to_text(progress)}
            put_over(tx, tables.run, {"run_id": run_id}, row, values)

        self._database.write(body)

    def finish_run(self, run_id: str, *, stage: Stage, result: Json | None = None, error: Json | None = None) -> None:
        """Write the outcome, once. Repeating the same outcome has no effect. Raises RunUnknown, LostRace (another
        outcome exists).
        """
        outcome = {"stage": stage.value, "result": to_text(result), "error": to_text(error)}

        def body(tx: Connection) -> None:
            row = _found(tx, run_id)
            if row.finished_at is None:
                put_over(tx, tables.run, {"run_id": run_id}, row, {**outcome, "finished_at": db_now()})
            elif {name: getattr(row, name) for name in outcome} != outcome:
                raise LostRace(f"the run {run_id!r}", f"no outcome yet, found {row.stage}")

        self._database.write(body)

    def get_run(self, run_id: str) -> Run | None:
        row = self._row(tables.run, {"run_id": run_id})
        return None if row is None else _run(row)

    def list_runs(
        self, *, task: str | None = None, identity: str | None = None, but: str | None = None, limit: int | None = None
    ) -> list[Run]:
        """Return runs, the newest first. None: of all tasks, of all holders. `but`: except runs of this app."""
        conditions = [tables.run.c.task == task] if task is not None else []
        if but is not None:
            conditions.append(tables.run.c.app != but)
        if identity is not None:
            conditions.append(tables.run.c.identity == identity)
        rows = self._rows(tables.run, *conditions, newest_by=tables.run.c.started_at, limit=limit)
        # The database may ignore case.
        return [_run(row) for row in rows if identity is None or row.identity == identity]


def _found(tx: Connection, run_id: str) -> Row[Any]:
    row = read_for_update(tx, tables.run, {"run_id": run_id})
    if row is None:
        raise RunUnknown(run_id)
    return row


def _run(row: Row[Any]) -> Run:
    return Run(
        run_id=row.run_id,
        task=row.task,
        app=row.app,
        holder=Holder(row.identity, row.attempt, row.host, row.process),
        stage=Stage(row.stage),
        started_at=moment(row.started_at),
        heartbeat_at=moment(row.heartbeat_at),
        heartbeat_age_seconds=(row.now - row.heartbeat_at) / SECOND,
        finished_at=moment(row.finished_at) if row.finished_at is not None else None,
        progress=from_text(row.progress) or {},
        result=from_text(row.result),
        error=from_text(row.error),
    )
