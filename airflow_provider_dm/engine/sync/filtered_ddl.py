"""What the binlog event filter leaves of a DDL statement for the target."""

from __future__ import annotations

from airflow_provider_dm.engine.ddl.statements import AlterTable, ChangeColumn, Statement
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.rules.ddl_events import Columns, parts_of, together
from airflow_provider_dm.engine.rules.event_filter import Verdict
from airflow_provider_dm.engine.sync.statement_parts import new_name, shown
from airflow_provider_dm.engine.sync.subtask_tables import RefusedByFilter, Surroundings


def left_by_filter(statement: Statement, before: Tracker, around: Surroundings) -> tuple[Statement | None, list[str]]:
    """Return what of a statement is for the target (None: nothing), and notes of what is left out.

    `before`: the tables in front of it. Raises RefusedByFilter.
    """
    rules = around.rules.events
    if not rules.rules:
        return statement, []
    kept, notes = [], []
    for part in parts_of(statement, *_columns(statement, before, around)):
        names = ", ".join(map(shown, part.names))
        match rules.of_ddl(part.names, part.events, around.sql):
            case Verdict.DO:
                kept.append(part.statement)
            case Verdict.ERROR:
                raise RefusedByFilter(f"{part.shown()} of {names}")
            case Verdict.IGNORE:
                notes.append(f"a filter rule leaves out: {part.shown()} of {names}")
    return together(kept), notes


def _columns(statement: Statement, before: Tracker, around: Surroundings) -> tuple[Columns, Columns]:
    """Return the columns in front of an ALTER TABLE that changes some, and behind it; else they do not matter."""
    if not (isinstance(statement, AlterTable) and any(isinstance(one, ChangeColumn) for one in statement.specs)):
        return {}, {}
    behind = before.after(statement, around.session)
    pairs = ((before, statement.table), (behind, new_name(statement)))
    old, new = ({c.name.lower(): c for c in one.definition(name).columns} for one, name in pairs)
    return old, new
