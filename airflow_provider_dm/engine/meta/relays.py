"""Relays: the last report of each source's relay process, the stage that users request for it, and ordered purges."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row

from airflow_provider_dm.engine.meta import tables
from airflow_provider_dm.engine.meta.clock import SECOND, db_now, moment
from airflow_provider_dm.engine.meta.locked_rows import (
    StorePart,
    from_text,
    location_from,
    location_text,
    put,
    put_over,
    read_for_update,
    to_text,
)
from airflow_provider_dm.engine.meta.records import Json, RelayStatus, Stage

_BEFORE_REPORT = {"sub_dir": "", "caught_up": False, "host": "", "process": "", "task": ""}


class RelayRows(StorePart):
    def put_relay_status(self, status: RelayStatus) -> None:
        """Write the relay's report, with the DB's time. The desired stage is not changed.

        Nor is the recorded sub-directory, if the relay does not know yet into which one it will write: otherwise the
        log's origin would be lost.
        """
        values = {
            "stage": status.stage.value,
            "master": location_text(status.master),
            "relay": location_text(status.relay),
            "caught_up": status.caught_up,
            "error": to_text(status.error),
            "pid": status.pid,
            "host": status.host,
            "process": status.process,
            "directory": status.directory,
            "task": status.task,
            "heartbeat_at": db_now(),
        }
        if status.sub_dir:
            values["sub_dir"] = status.sub_dir
        key = {"source": status.source}
        self._database.write(lambda tx: put(tx, tables.relay, key, values, at_first=_BEFORE_REPORT))

    def set_relay_desired(self, source: str, stage: Stage) -> None:
        """Write the stage that a user requests. The relay's own report is not changed."""
        values = {"desired": stage.value}
        self._database.write(lambda tx: put(tx, tables.relay, {"source": source}, values, at_first=_BEFORE_REPORT))

    def relay_desired(self, source: str) -> Stage | None:
        """Return the stage that users request; None without a request."""
        row = self._row(tables.relay, {"source": source})
        return Stage(row.desired) if row is not None and row.desired else None

    def order_purge(self, source: str, number: str, order: Json) -> None:
        """Order a purge of the relay's process. `number` identifies the order; an earlier one is replaced."""
        values = {"purge": to_text({"number": number, "order": order})}
        self._database.write(lambda tx: put(tx, tables.relay, {"source": source}, values, at_first=_BEFORE_REPORT))

    def ordered_purge(self, source: str) -> tuple[str, Json] | None:
        """Return the order that waits at the relay, with its number."""
        purge = self._purge(source)
        return (purge["number"], purge["order"]) if purge is not None and "report" not in purge else None

    def report_purge(self, source: str, number: str, report: Json) -> None:
        """Write the report of an order, unless another order has replaced it."""
        self._replace_purge(source, number, {"number": number, "report": report})

    def withdraw_purge(self, source: str, number: str) -> None:
        """Withdraw an order, unless another one has replaced it."""
        self._replace_purge(source, number, None)

    def purge_report(self, source: str, number: str) -> Json | None:
        """Return the report of this order; None while there is none."""
        purge = self._purge(source)
        return purge.get("report") if purge is not None and purge["number"] == number else None

    def _purge(self, source: str) -> Json | None:
        row = self._row(tables.relay, {"source": source})
        return None if row is None else from_text(row.purge)

    def _replace_purge(self, source: str, number: str, purge: Json | None) -> None:
        key = {"source": source}

        def replace(tx: Connection) -> None:
            row = read_for_update(tx, tables.relay, key)
            if row is not None and (from_text(row.purge) or {}).get("number") == number:
                put_over(tx, tables.relay, key, row, {"purge": to_text(purge)})

        self._database.write(replace)

    def relay_status(self, source: str) -> RelayStatus | None:
        """Return the relay's last report; None if no relay has ever reported."""
        row = self._row(tables.relay, {"source": source})
        return None if row is None else _status(row)

    def list_relays(self) -> list[RelayStatus]:
        """Return the last report of every relay, by source."""
        relays = [status for row in self._rows(tables.relay) if (status := _status(row)) is not None]
        return sorted(relays, key=lambda status: status.source)


def _status(row: Row[Any]) -> RelayStatus | None:
    """Return the report in a row; None if the row only has a request of a user."""
    if row.stage is None:
        return None
    return RelayStatus(
        source=row.source,
        stage=Stage(row.stage),
        master=location_from(row.master),
        relay=location_from(row.relay),
        sub_dir=row.sub_dir,
        caught_up=bool(row.caught_up),
        error=from_text(row.error),
        pid=row.pid,
        host=row.host,
        process=row.process,
        directory=row.directory or "",
        task=row.task,
        heartbeat_at=moment(row.heartbeat_at),
        heartbeat_age_seconds=(row.now - row.heartbeat_at) / SECOND,
    )
