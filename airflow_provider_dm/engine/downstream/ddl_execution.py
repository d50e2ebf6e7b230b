"""Execute each DDL statement exactly once in the target, even if the driver or the target crashes.

    lock        GET_LOCK on the connection that will execute; another holder is killed
    fence       the generation is checked while the lock is held
    journal     the recorded entries decide what is left to do (ddl_journal.py)
    execute     with the session variables of the source's statement

A run that was replaced may still be about to send a statement, or the server may still execute a statement after its
client has disconnected. Both happen on the connection that holds the lock, and a lock ends with its connection. So the
holder of the lock knows that no statement of another run is running, and that a later holder finds a newer generation
and ends. For servers that do not show the holder of a lock (`names_lock_holders`), each connection is recorded before
it requests the lock.

In TiDB a DDL statement is a job (`ddl_jobs`), which outlives the connection and the server that accepted it. So the
result of a started statement is examined only when no job of its tables is left.

A table may already be in the state that the statement would produce: a user, or another shard, has changed it before.
Servers report this by the errors in `_ALREADY`. Then the parts of the statement are recorded and executed one by one,
and a part that is refused with such an error counts as done. A part that adds a column or renames a key counts only if
the target has the result (already.py). The caller checks afterwards whether the table fits the source's rows.

A final refusal of the target is recorded as refused: the statement had no effect, so a later change of the tables was
made by a user to remove the cause. The same holds for an entry with other SQL than the statement's: a user has
replaced the statement. A TRUNCATE is not visible in a table's definition: an entry of it that is not marked as done is
executed again, which is harmless while the frontier is before it.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import re
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pymysql

from airflow_provider_dm.engine.downstream.already import has_result
from airflow_provider_dm.engine.downstream.ddl_journal import (
    CreateTexts,
    JournalEntry,
    note_done,
    note_holder,
    note_intent,
    read_entries,
)
from airflow_provider_dm.engine.downstream.errors import (
    DdlRefused,
    TargetDdlUnderWay,
    message_of,
    number_of,
    redacted,
    translate,
)
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.downstream.meta_rows import name_of
from airflow_provider_dm.engine.downstream.required_keys import check_keyless
from airflow_provider_dm.engine.downstream.session import (
    fresh_target,
    run_transaction,
    target_connection,
    target_dialect,
)
from airflow_provider_dm.engine.errors import DmError, Reaction
from airflow_provider_dm.engine.mysql.connection import Connection, query, server_info, text
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.pinned import Setting
from airflow_provider_dm.engine.mysql.pinning import set_all
from airflow_provider_dm.engine.mysql.sql_modes import mode_bits
from airflow_provider_dm.engine.schema.catalogue import create_statement_if_exists

log = logging.getLogger(__name__)

DDL_LOCK_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 2
_ALREADY: Final = frozenset({1007, 1008, 1050, 1051, 1060, 1061, 1068, 1091, 1146, 1176, 1517, 1826, 3821, 3822, 3940})
"""The object to create exists, or the object to drop does not: schema, table, column, key, partition, constraint.

Not 1507, dropping a missing partition: if the target has other partitions, their rows would remain.
"""
_LOCK_WAIT: Final = Setting("lock_wait_timeout", 60)
"""Seconds that a statement waits for other sessions' locks on the table before it is retried. The default is a year."""
_MISPLACED: Final = frozenset({1050, 1146})
"""The new name of a RENAME exists, or its old name does not: both are possible without a rename."""
_RESULT_DIFFERS: Final = {
    1060: (
        "the existing column of that name has another definition, and old rows would keep its values; rename or drop "
        "it there, or give it the definition of this statement"
    ),
    1176: "there is no key of the new name either; create it there with its new name",
}
"""Errors after which the target is examined for the result, with the reason to report if it has another one."""
REFUSED: Final = "refused: "
_COUNTER: Final = re.compile(r" AUTO_INCREMENT=\d+")


@dataclass(frozen=True)
class TargetDdl:
    """One statement for the target. `tables`: the target's tables that it changes.

    `parts`: the same as several statements with one change each; empty if it cannot be divided. `keyless`: it creates a
    table without a primary key. `comparable`: its text without parts that only some servers write, equal for equal
    changes; empty: `sql`. `divisible`: False if no order of its parts has the same effect. `renames`: renamed tables,
    as (old, new) in this order. `new`: the tables and columns that it creates, as (table, "") and (table, column).
    """

    sql: str
    tables: tuple[TableName, ...]
    parts: tuple[str, ...] = ()
    keyless: bool = False
    comparable: str = ""
    divisible: bool = True
    renames: tuple[tuple[TableName, TableName], ...] = ()
    new: tuple[tuple[TableName, str], ...] = ()

    @property
    def changes_definitions(self) -> bool:
        """True if the tables' definitions show whether it was executed. A TRUNCATE is executed again instead."""
        return not self.sql.startswith("TRUNCATE ")


def execute_ddl(
    endpoint: Endpoint,
    fence: Fence,
    position: str,
    statements: Sequence[TargetDdl],
    session: Sequence[Setting],
    *,
    first: int = 0,
    lock: str = "",
) -> int:
    """Execute the rest of these statements of the DDL at `position`. Return how many were executed now.

    `session`: the session variables for them. `first`: the journal number of the first. Entries of executed statements
    are kept until the frontier moves past the DDL. `lock`: the name of a part of the subtask's DDL with its own lock.

    Raises DdlRefused, TargetDdlUnderWay (retry), Fenced, TargetWentBack, and errors of connecting.
    """
    if not statements:
        return 0
    try:
        with fresh_target(endpoint) as connection, _locked(endpoint, connection, fence, lock):
            noted = run_transaction(endpoint, lambda tx: _checked_entries(tx, fence, position))
            check_keyless(connection, [str(one.tables[0]) for one in statements if one.keyless], str(endpoint))
            if noted:
                _wait_for_jobs(connection, {name for statement in statements for name in statement.tables})
            set_all(connection, [*session, _LOCK_WAIT], server=str(endpoint))
            work = _DdlRun(endpoint, connection, fence, position, sql_mode_of(session))
            return sum(work.do(number, one, noted.get(number)) for number, one in enumerate(statements, first))
    except pymysql.err.Error as error:
        raise translate(error, server=str(endpoint)) from error


def end_earlier_ddl(endpoint: Endpoint, fence: Fence) -> None:
    """Wait until no DDL of an earlier run of this subtask is running; later ones are fenced.

    Raises TargetDdlUnderWay (retry), Fenced, TargetWentBack, and errors of connecting.
    """
    try:
        with fresh_target(endpoint) as connection, _locked(endpoint, connection, fence):
            run_transaction(endpoint, fence.check)
    except pymysql.err.Error as error:
        raise translate(error, server=str(endpoint)) from error


def sql_mode_of(session: Sequence[Setting]) -> int:
    """Return the bits of the sql_mode in the settings; 0 if it is not set."""
    return sum(mode_bits(str(variable.value)) for variable in session if variable.name == "sql_mode")


def _checked_entries(connection: Connection, fence: Fence, position: str) -> dict[int, JournalEntry]:
    fence.check(connection)
    return read_entries(connection, fence.ref, position)


@dataclass(frozen=True)
class _DdlRun:
    """The DDL at one location of the log. `connection` holds the lock and has the statement's session variables."""

    endpoint: Endpoint
    connection: Connection
    fence: Fence
    position: str
    sql_mode: int = 0

    def do(self, number: int, statement: TargetDdl, entry: JournalEntry | None) -> int:
        """Execute the statement unless it has taken effect; return how many were executed. Raises DdlRefused."""
        begun = None if entry is None else _begun_part(statement, entry)
        noted = statement.comparable or statement.sql  # the source of another shard may continue this entry
        if entry is not None and begun is None and entry.sql not in (noted, statement.sql):
            entry = None  # it is about another statement
        if entry is not None and entry.done:
            return 0
        definitions = self._definitions(statement)
        if entry is not None and begun is not None:
            took_effect = entry.before != definitions and not entry.sql.startswith(REFUSED)
            self._do_parts(number, statement, begun + took_effect)
            self._note_done(number)
            return 1
        if entry is not None and entry.before != definitions and statement.changes_definitions:
            self._note_done(number)
            return 0
        if not self._execute(number, statement, statement.sql, noted=noted, before=definitions):
            self._do_parts(number, statement, 0)
        self._note_done(number)
        return 1

    def _do_parts(self, number: int, statement: TargetDdl, first: int) -> None:
        """Execute the parts one by one, from `first` on. Each is recorded, as its effect is visible on its own.

        Otherwise a run that crashed between two of them would leave a changed table, which would count as complete.
        """
        for at, part in enumerate(_parts(statement)[first:], first):
            if not self._execute(
                number, statement, part, noted=_as_part(at, part), before=self._definitions(statement), at=at
            ):
                log.warning("the target already has the result of %s", part[:500])

    def _execute(
        self, number: int, statement: TargetDdl, sql: str, *, noted: str, before: CreateTexts, at: int | None = None
    ) -> bool:
        """Record and execute the statement, or its part `at`; return True if it was executed. Raises DdlRefused."""
        self._note_intent(number, noted, before)
        try:
            refusal = _send(self.connection, sql)
            if refusal is not None and not self._may_have_result(statement, refusal.number):
                raise refusal
            if refusal is not None and refusal.number in _RESULT_DIFFERS and at is not None:
                self._check_result(statement, sql, refusal)
        except DdlRefused:
            self._note_intent(number, REFUSED + noted, before)
            raise
        return refusal is None

    def _check_result(self, statement: TargetDdl, part: str, refusal: DdlRefused) -> None:
        """Raise the refusal unless the table has the column that the part adds, or the key that it renames."""
        shown = read_definition(self.connection, statement.tables[0])  # its defaults in the statement's time zone
        if not has_result(part, self.sql_mode, shown):
            raise DdlRefused(refusal.sql, refusal.number, f"{refusal.reason}: {_RESULT_DIFFERS[refusal.number]}")

    def _may_have_result(self, statement: TargetDdl, number: int) -> bool:
        """Return True if the error can mean that the target already has the result of the statement, or of a part."""
        if not statement.divisible:
            return False
        if number not in _MISPLACED:
            return True
        there: dict[TableName, bool] = {}
        for old, new in statement.renames:
            there |= {old: False, new: True}
        connection = target_connection(self.endpoint)
        return all((read_definition(connection, name) is not None) == expected for name, expected in there.items())

    def _note_intent(self, number: int, sql: str, before: CreateTexts) -> None:
        run_transaction(self.endpoint, lambda tx: note_intent(tx, self.fence, self.position, number, sql, before))

    def _note_done(self, number: int) -> None:
        run_transaction(self.endpoint, lambda tx: note_done(tx, self.fence, self.position, number))

    def _definitions(self, statement: TargetDdl) -> dict[TableName, str | None]:
        """Return the tables' definitions, read in a session with the pinned sql_mode, as others change the notation."""
        return {name: read_definition(target_connection(self.endpoint), name) for name in statement.tables}


def _parts(statement: TargetDdl) -> tuple[str, ...]:
    return statement.parts or (statement.sql,)


def _as_part(at: int, sql: str) -> str:
    """Return the journal text of a part."""
    return f"part {at + 1}: {sql}"


def _begun_part(statement: TargetDdl, entry: JournalEntry) -> int | None:
    """Return the number of the part that was started last; None if the statement was not divided."""
    noted, sql = [_as_part(at, part) for at, part in enumerate(_parts(statement))], entry.sql.removeprefix(REFUSED)
    return noted.index(sql) if sql in noted else None


def _send(connection: Connection, sql: str) -> DdlRefused | None:
    """Execute a statement; return the refusal if it can mean that the target already has the result."""
    log.info("DDL in the target: %s", sql[:500])
    try:
        query(connection, sql)
    except pymysql.err.Error as error:
        refusal = _refused(error, sql)
        if isinstance(refusal, DdlRefused) and refusal.number in _ALREADY:
            return refusal
        raise refusal from None
    return None


def _refused(error: pymysql.err.Error, sql: str) -> DmError:
    translated, number = translate(error), number_of(error)
    if translated.reaction is Reaction.RETRY:
        return translated
    return DdlRefused(sql[:500], number, redacted(number, message_of(error)))


def read_definition(connection: Connection, name: TableName) -> str | None:
    """Return the CREATE TABLE of a table in the target without its AUTO_INCREMENT; None if it does not exist."""
    shown = create_statement_if_exists(connection, name)
    return None if shown is None else _COUNTER.sub("", shown)


@contextlib.contextmanager
def _locked(endpoint: Endpoint, connection: Connection, fence: Fence, part: str = "") -> Iterator[None]:
    """Hold the lock of this subtask's DDL, or of a part of it.

    Another holder belongs to a run that was replaced, and is killed.
    This run itself may have been replaced, so the generation is checked before a connection is killed.
    Raises TargetDdlUnderWay, Fenced, TargetWentBack.
    """
    ref = fence.ref
    name = "dm_ddl:" + hashlib.sha256(repr((ref.meta_schema, *ref.lane_key, part)).encode()).hexdigest()[:32]
    deadline = time.monotonic() + DDL_LOCK_SECONDS
    server = target_dialect(endpoint).server
    holders: list[int] = []
    if not server.names_lock_holders:
        ((mine,),) = query(connection, "SELECT CONNECTION_ID()")
        holders = run_transaction(endpoint, lambda tx: note_holder(tx, fence, int(mine)))
    while query(connection, "SELECT GET_LOCK(%s, %s)", (name, _POLL_SECONDS)) != [(1,)]:
        if server.names_lock_holders:
            ((holder,),) = query(connection, "SELECT IS_USED_LOCK(%s)", (name,))
            holders = [] if holder is None else [int(holder)]
        if holders:
            run_transaction(endpoint, fence.check)
        for one in holders:
            log.warning("killing connection %d of an earlier run, which may be altering a table", one)
            with contextlib.suppress(pymysql.err.MySQLError):  # it may have ended, or belong to another account
                query(connection, server.kill.format(one))
        if time.monotonic() > deadline:
            raise TargetDdlUnderWay(
                f"task {ref.task}, source {ref.source}: connection {(*holders, 0)[0]} of an earlier run is still "
                "altering a table in the target.",
                "Nothing is lost, and the task retries; KILL that connection if it hangs.",
            )
    yield  # the lock ends with the connection


def _wait_for_jobs(connection: Connection, tables: Collection[TableName]) -> None:
    """Wait until the server executes no DDL of these tables, of any session. Raises TargetDdlUnderWay."""
    jobs_query = server_info(connection).capabilities.ddl_jobs
    if jobs_query is None:
        return
    deadline = time.monotonic() + DDL_LOCK_SECONDS
    while jobs := [one for one in query(connection, jobs_query) if name_of(one[0], one[1]) in tables]:
        schema, table, job, kind, state, rows = jobs[0]
        under_way = TargetDdlUnderWay(
            f"the target still executes {text(kind)} on {name_of(schema, table)} of an earlier run: job "
            f"{int(job)} is {text(state)}, {int(rows or 0)} rows done.",
            "Nothing is lost, and the task waits; see `ADMIN SHOW DDL JOBS` in the target. If it is paused "
            f"there, resume it (`ADMIN RESUME DDL JOBS {int(job)}`).",
        )
        if time.monotonic() > deadline:
            raise under_way
        log.warning("%s", under_way)
        time.sleep(_POLL_SECONDS)
