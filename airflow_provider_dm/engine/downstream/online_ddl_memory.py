"""dm_online_ddl: the state of a subtask's running online DDL, in the target, with its location in the log.

A row is a ghost table and its changes, or the current name of a table of the task that was renamed away and not
replaced yet. It is written by the transaction that moves the frontier past the statement: if a run crashes or is fenced
before, both are unchanged, and the statement is read again. Unchanged rows are not written, so `updated_at` shows
leftover ghosts.
"""

from __future__ import annotations

import json
from typing import Final

from pydantic import TypeAdapter

from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.meta_rows import MetaRows, name_of
from airflow_provider_dm.engine.mysql.connection import Connection, text
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.online_ddl.memory import GhostState, OnlineDdls

_ROWS: Final = MetaRows("dm_online_ddl")
_GHOST: Final = TypeAdapter(GhostState)
_COLUMNS: Final = "ghost_schema, ghost_table, statements"


def load(connection: Connection, ref: SubtaskRef) -> OnlineDdls:
    """Return the stored state; empty if there is none. Raises IncompleteResult."""
    memory = OnlineDdls()
    for name, value in _rows(connection, ref).items():
        if away := json.loads(value).get("away"):
            memory = memory.with_away(name, TableName(*away))
        else:
            memory = memory.with_ghost(name, _GHOST.validate_json(value))
    return memory


def save(connection: Connection, ref: SubtaskRef, memory: OnlineDdls) -> None:
    """Store `memory`, inside a transaction whose first statement has checked the generation.

    Raises IncompleteResult.
    """
    old, new = _rows(connection, ref), _values(memory)
    for name in old.keys() - new.keys():
        _ROWS.delete(connection, ref, "ghost_schema = %s AND ghost_table = %s", name)
    changed = [(*name, value) for name, value in new.items() if old.get(name) != value]
    _ROWS.put(connection, ref, _COLUMNS, changed, now="updated_at")


def _rows(connection: Connection, ref: SubtaskRef) -> dict[TableName, str]:
    rows = _ROWS.read(connection, ref, _COLUMNS, tail="ORDER BY 1, 2")
    return {name_of(schema, table): text(value) for schema, table, value in rows}


def _values(memory: OnlineDdls) -> dict[TableName, str]:
    away = {trash: json.dumps({"away": real}) for trash, real in memory.away.items()}
    return away | {name: _GHOST.dump_json(ghost).decode() for name, ghost in memory.ghosts.items()}
