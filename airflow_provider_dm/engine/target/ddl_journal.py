"""dm_ddl: what a subtask is about to do, or has done, to the target's tables because of one DDL statement of its log.

DDL commits by itself, so it cannot be one transaction with the frontier. So each statement for the target is noted
before it is executed, together with how its tables looked then, and again when it is done; the frontier moves in the
transaction that removes these notes. A run that dies anywhere in between leaves a place of the log where the next one
finds the same statement, and here what has happened to it:

    nothing noted              not begun                          -> note, execute
    noted, tables as noted     not executed, or without effect    -> execute
    noted, tables changed      executed, its end was not noted    -> done
    noted as done              executed                           -> next
    noted as refused           not executed, as the target said   -> execute
    noted with other SQL       another, that a person gave for it -> as if nothing were noted

That is right as long as nobody else alters these tables, and no statement of a run that was replaced is still under
way: see the lock in ddl_execution.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from airflow_provider_dm.engine.mysql.connection import Connection, text
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.target.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.target.meta_rows import MetaRows

JOURNAL: Final = MetaRows("dm_ddl", lane=True)
COMMITTED: Final = -1
"""The number of the note that says that everything but the statement's rows is committed."""
IN_FRONT: Final = 500_000
"""The number of the first note of what a person has executed in front of a DDL statement: it may be given when that has
been begun, and must not shift its numbers."""
INJECTED: Final = 1_000_000
"""The number of the first note of what is injected in front of rows: a DDL statement may end at that place."""
_HOLDER: Final = "!"
"""Begins the place of the note of a connection that may hold the lock. It is in front of any place of a log."""
Looks: TypeAlias = Mapping[TableName, str | None]
"""The CREATE TABLE of each table, None of one that is not there."""


@dataclass(frozen=True)
class Entry:
    """One statement for the target. `before`: how its tables looked when it was noted."""

    number: int
    sql: str
    before: Looks
    done: bool


def read_entries(connection: Connection, ref: SubtaskRef, position: str) -> dict[int, Entry]:
    """Return what is noted of the DDL at this place (`Location.sort_key`), by number. Raises AnswerCut."""
    where, columns = "position = %s", "number, statement, looks, done"
    rows = JOURNAL.read(connection, ref, columns, where, (position,), "ORDER BY number")
    return {
        int(number): Entry(int(number), text(sql), _looks(text(looks)), bool(int(done)))
        for number, sql, looks, done in rows
    }


def tables_under_way(connection: Connection, ref: SubtaskRef, place: str) -> frozenset[TableName]:
    """Return the target's tables that DDL behind this place is altering, or has altered.

    How they look there is not how rows of this place are written. Raises AnswerCut.
    """
    where = "position > %s AND number < %s"
    rows = JOURNAL.read(connection, ref, "position, number, looks", where, (place, INJECTED))
    committed = {text(position) for position, number, _ in rows if int(number) == COMMITTED}
    return frozenset(
        name for position, _, looks in rows if text(position) not in committed for name in _looks(text(looks))
    )


def statements_under_way(connection: Connection, ref: SubtaskRef, place: str) -> list[tuple[str, str]]:
    """Return the DDL behind this place that was begun: where it ends (or begins what it is injected in front of), and
    its first statement. Raises AnswerCut."""
    order = "ORDER BY position, number DESC"
    rows = JOURNAL.read(connection, ref, "position, statement", "position > %s", (place,), order)
    return list({text(position): text(sql) for position, sql in rows}.items())


def note_intent(connection: Connection, fence: Fence, position: str, number: int, sql: str, before: Looks) -> None:
    """Note, as a transaction of its own, that a statement is about to be executed. Raises Fenced or TargetWentBack."""
    fence.check(connection)
    looks = json.dumps([[*name, look] for name, look in before.items()], ensure_ascii=False)
    row = (position, number, sql, looks, False)
    JOURNAL.put(connection, fence.ref, "position, number, statement, looks, done", [row], now="updated_at")


def note_done(connection: Connection, fence: Fence, position: str, number: int) -> None:
    """Note, as a transaction of its own, that a statement was executed. Raises Fenced or TargetWentBack."""
    fence.check(connection)
    changes = "done = 1, updated_at = UTC_TIMESTAMP(6)"
    JOURNAL.update(connection, fence.ref, changes, (), "position = %s AND number = %s", (position, number))


def note_holder(connection: Connection, fence: Fence, holder: int) -> list[int]:
    """Note, as a transaction of its own, that a connection is going to take the lock of this lane.

    Return the connections that were noted so before. Raises Fenced, TargetWentBack or AnswerCut.
    """
    fence.check(connection)
    rows = JOURNAL.read(connection, fence.ref, "statement", "position LIKE %s", (f"{_HOLDER}%",))
    row = (f"{_HOLDER}{holder}", 0, str(holder), "[]", False)
    JOURNAL.put(connection, fence.ref, "position, number, statement, looks, done", [row], now="updated_at")
    return [int(noted) for (noted,) in rows]


def forget_entries(connection: Connection, ref: SubtaskRef, position: str) -> None:
    """Remove, in the transaction that moves the frontier over it, what is noted up to this place."""
    JOURNAL.delete(connection, ref, "position <= %s", (position,))


def _looks(value: str) -> dict[TableName, str | None]:
    return {TableName(schema, table): look for schema, table, look in json.loads(value)}
