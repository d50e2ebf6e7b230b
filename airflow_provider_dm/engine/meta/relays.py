"""Relays: what each source's relay process says of itself, and the stage that people want it to have."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row

from airflow_provider_dm.engine.meta import tables
from airflow_provider_dm.engine.meta.cas import (
    StorePart,
    from_text,
    location_from,
    location_text,
    put,
    to_text,
)
from airflow_provider_dm.engine.meta.clock import SECOND, db_now, moment
from airflow_provider_dm.engine.meta.model import RelayStatus, Stage

_NOTHING_SAID = {"sub_dir": "", "caught_up": False, "host": "", "process": "", "task": ""}


class Relays(StorePart):
    def put_relay_status(self, status: RelayStatus) -> None:
        """Write the relay's report, stamped with the DB's clock. The desired stage is left alone.

        So is the sub-directory that was known, where a relay does not know yet which one it writes: the statement does
        not name that column then. What nobody remembers of a log would have to be guessed.
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
        self._database.write(lambda tx: put(tx, tables.relay, key, values, at_first=_NOTHING_SAID))

    def set_relay_desired(self, source: str, stage: Stage) -> None:
        """Write the stage that people want. The relay's own report is left alone."""
        values = {"desired": stage.value}
        self._database.write(lambda tx: put(tx, tables.relay, {"source": source}, values, at_first=_NOTHING_SAID))

    def relay_desired(self, source: str) -> Stage | None:
        """Return the stage that people want; None: nobody has said anything."""
        row = self._row(tables.relay, {"source": source})
        return Stage(row.desired) if row is not None and row.desired else None

    def relay_status(self, source: str) -> RelayStatus | None:
        """Return the relay's last report; None: no relay has ever reported."""
        row = self._row(tables.relay, {"source": source})
        return None if row is None else _status(row)

    def list_relays(self) -> list[RelayStatus]:
        """Return the last report of every relay, by source."""
        found = [status for row in self._rows(tables.relay) if (status := _status(row)) is not None]
        return sorted(found, key=lambda status: status.source)


def _status(row: Row[Any]) -> RelayStatus | None:
    """Return the report of a row; None: people have asked for something, and no relay has reported."""
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
