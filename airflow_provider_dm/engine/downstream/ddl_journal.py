"""dm_ddl: the journal of the statements that a subtask is about to execute, or has executed, in the target for a DDL
of its log.

DDL commits implicitly, so it cannot be one transaction with the frontier. So each statement for the target is recorded
before it is executed, together with its tables' definitions at that time, and again when it is done; the transaction
that moves the frontier removes these entries. If a run crashes in between, the next run reads the same statement from
the log, and its entries show how far it was executed:

    no entry                          not started                        -> record, execute
    entry, tables as recorded         not executed, or without effect    -> execute
    entry, tables changed             executed, its end not recorded     -> done
    entry marked as done              executed                           -> next
    entry marked as refused           not executed, the target refused   -> execute
    entry with other SQL              replaced by a user                 -> as without an entry

This is correct as long as no other session alters these tables, and no statement of a replaced run is still running:
see the lock in ddl_execution.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.meta_rows import MetaRows
from airflow_provider_dm.engine.mysql.connection import Connection, text
from airflow_provider_dm.engine.mysql.identifiers import TableName

JOURNAL: Final = MetaRows("dm_ddl", lane=True)
COMMITTED: Final = -1
"""The number of the entry that states that everything but the statement's rows is committed."""
IN_FRONT: Final = 500_000
"""The number of the first entry for statements that a user executes before a DDL statement: they may be added when
that has started, and must not change its numbers."""
INJECTED: Final = 1_000_000
"""The number of the first entry for statements injected before rows: a DDL statement may end at that location."""
_HOLDER: Final = "!"
"""Prefix of the position of entries for connections that may hold the lock. It sorts before any location of a log."""
CreateTexts: TypeAlias = Mapping[TableName, str | None]
"""The CREATE TABLE of each table; None if it does not exist."""


@dataclass(frozen=True)
class JournalEntry:
    """One statement for the target. `before`: its tables' definitions when it was recorded."""

    number: int
    sql: str
    before: CreateTexts
    done: bool


def read_entries(connection: Connection, ref: SubtaskRef, position: str) -> dict[int, JournalEntry]:
    """Return the entries of the DDL at this location (`Location.sort_key`), by number. Raises IncompleteResult."""
    where, columns = "position = %s", "number, statement, looks, done"
    rows = JOURNAL.read(connection, ref, columns, where, (position,), "ORDER BY number")
    return {
        int(number): JournalEntry(int(number), text(sql), _looks(text(looks)), bool(int(done)))
        for number, sql, looks, done in rows
    }


def tables_under_way(connection: Connection, ref: SubtaskRef, place: str) -> frozenset[TableName]:
    """Return the target's tables that DDL after this location is altering, or has altered.

    Their current definitions do not apply to rows before this location. Raises IncompleteResult.
    """
    where = "position > %s AND number < %s"
    rows = JOURNAL.read(connection, ref, "position, number, looks", where, (place, INJECTED))
    committed = {text(position) for position, number, _ in rows if int(number) == COMMITTED}
    return frozenset(
        name for position, _, looks in rows if text(position) not in committed for name in _looks(text(looks))
    )


def statements_under_way(connection: Connection, ref: SubtaskRef, place: str) -> list[tuple[str, str]]:
    """Return the started DDL after this location: its end (or the location before which it is injected), and its first
    statement. Raises IncompleteResult."""
    order = "ORDER BY position, number DESC"
    rows = JOURNAL.read(connection, ref, "position, statement", "position > %s", (place,), order)
    return list({text(position): text(sql) for position, sql in rows}.items())


def note_intent(
    connection: Connection, fence: Fence, position: str, number: int, sql: str, before: CreateTexts
) -> None:
    """Record, in a transaction of its own, that a statement will be executed. Raises Fenced or TargetWentBack."""
    fence.check(connection)
    looks = json.dumps([[*name, look] for name, look in before.items()], ensure_ascii=False)
    row = (position, number, sql, looks, False)
    JOURNAL.put(connection, fence.ref, "position, number, statement, looks, done", [row], now="updated_at")


def note_done(connection: Connection, fence: Fence, position: str, number: int) -> None:
    """Record, in a transaction of its own, that a statement was executed. Raises Fenced or TargetWentBack."""
    fence.check(connection)
    changes = "done = 1, updated_at = UTC_TIMESTAMP(6)"
    JOURNAL.update(connection, fence.ref, changes, (), "position = %s AND number = %s", (position, number))


def note_holder(connection: Connection, fence: Fence, holder: int) -> list[int]:
    """Record, in a transaction of its own, that a connection will request the lock of this lane.

    Return the connections that were recorded before. Raises Fenced, TargetWentBack or IncompleteResult.
    """
    fence.check(connection)
    rows = JOURNAL.read(connection, fence.ref, "statement", "position LIKE %s", (f"{_HOLDER}%",))
    row = (f"{_HOLDER}{holder}", 0, str(holder), "[]", False)
    JOURNAL.put(connection, fence.ref, "position, number, statement, looks, done", [row], now="updated_at")
    return [int(noted) for (noted,) in rows]


def forget_entries(connection: Connection, ref: SubtaskRef, position: str) -> None:
    """Remove the entries up to this location, in the transaction that moves the frontier past it."""
    JOURNAL.delete(connection, ref, "position <= %s", (position,))


def _looks(value: str) -> dict[TableName, str | None]:
    return {TableName(schema, table): look for schema, table, look in json.loads(value)}
