"""Rows of DDL locks: one for each DDL of one merged table of one task.

The meaning of a lock and its changes are a pure value elsewhere (engine.shard.lock); this module stores it as JSON. A
change is a function from the stored value to the new value, called while the row is locked: of two concurrent changes
the second one's function gets the result of the first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from sqlalchemy import Connection, delete

from airflow_provider_dm.engine.meta import tables
from airflow_provider_dm.engine.meta.clock import db_now
from airflow_provider_dm.engine.meta.locked_rows import (
    StorePart,
    from_text,
    matching,
    put_over,
    read_for_update,
    to_text,
)
from airflow_provider_dm.engine.meta.records import Json

LockChange = Callable[[Json | None], Json | None]
"""Stored value -> new value (None: no lock). May be called again."""


class DdlLocks(StorePart):
    def change_ddl_lock(self, task: str, lock: str, number: int, change: LockChange) -> Json | None:
        """Change the lock with this id and number; return the new value. Raises the errors of `change`; nothing is
        changed then.
        """
        key = {"task": task, "lock_key": lock_key(lock, number)}

        def body(tx: Connection) -> Json | None:
            row = read_for_update(tx, tables.ddl_lock, key)
            before = None if row is None else from_text(row.body)
            after = change(before)
            if after == before:
                return after
            if after is None:
                tx.execute(delete(tables.ddl_lock).where(matching(tables.ddl_lock, key)))
                return None
            values = {"lock_id": lock, "number": number, "body": to_text(after)}
            put_over(tx, tables.ddl_lock, key, row, values, at_first={"created_at": db_now()})
            return after

        return self._database.write(body)

    def ddl_locks(self, task: str | None = None) -> list[tuple[Json, float]]:
        """Return the locks of a task (None: of all) as JSON, each with its age in seconds, by task, id and number."""
        rows = self._rows(tables.ddl_lock, *(() if task is None else (tables.ddl_lock.c.task == task,)))
        ordered = sorted(rows, key=lambda row: (row.task, row.lock_id, row.number))
        return [(from_text(row.body) or {}, max(0.0, (row.now - row.created_at) / 1e6)) for row in ordered]


def lock_key(lock: str, number: int) -> str:
    """Return a key of bounded length: table names may be longer than a server can index."""
    return hashlib.sha256(f"{number} {lock}".encode()).hexdigest()
