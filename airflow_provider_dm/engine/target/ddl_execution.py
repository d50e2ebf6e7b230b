"""Executing DDL in the target so that each statement takes effect once, whoever dies when.

    lock        GET_LOCK on the connection that will execute; a holder that is in the way is killed
    fence       the generation is checked behind the lock
    journal     what was noted says what is left to do (ddl_journal.py)
    execute     under the session variables of the source's statement

A run that was replaced may still be about to send a statement, or the server may still work on one whose client is
gone. Both happen on the connection that holds the lock, and a lock ends with its connection. So whoever gets it knows
that nothing of anybody else is under way, and that whoever gets it later finds a newer generation and goes. A server
that does not tell who holds a lock (`names_lock_holders`) is told: each connection is noted before it asks for it.

Where DDL is a job of the server's own (`ddl_jobs`), which outlives the connection and the server that took it, what was
begun is looked at when no job of its tables is left.

A table may already be as the statement would make it: a person was there before, or another shard. Servers say so by
the errors in `_ALREADY`. Then the parts of the statement are noted and executed one by one, and those that are refused
so are taken for done; a column only if it is the same (already.py). Whether the table takes the source's rows, the
caller looks afterwards.

What the target has refused for good is noted as refused: it took no effect, so whatever makes the tables look otherwise
later was a person, who cures what was in the way. So is what is noted of other SQL than the statement's: a person has
had something else executed in its place. A TRUNCATE does not show: what was noted of it, and not as done, is executed
again, which is harmless while the frontier is in front of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pymysql

from airflow_provider_dm.engine.errors import DmError, Reaction, Scope
from airflow_provider_dm.engine.mysql.connection import Connection, query, server_info, text
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.pinned import Setting
from airflow_provider_dm.engine.mysql.pinning import set_all
from airflow_provider_dm.engine.mysql.sql_modes import mode_bits
from airflow_provider_dm.engine.schema.catalogue import create_statement
from airflow_provider_dm.engine.target.already import is_the_same_column
from airflow_provider_dm.engine.target.ddl_journal import (
    Entry,
    Looks,
    note_done,
    note_holder,
    note_intent,
    read_entries,
)
from airflow_provider_dm.engine.target.errors import NOT_THERE, message_of, number_of, redacted, translate
from airflow_provider_dm.engine.target.identity import Fence
from airflow_provider_dm.engine.target.keyless import check_keyless
from airflow_provider_dm.engine.target.meta_rows import name_of
from airflow_provider_dm.engine.target.session import fresh_target, run_transaction, target_connection, target_dialect

log = logging.getLogger(__name__)

LOCK_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 2
_ALREADY: Final = frozenset({1007, 1008, 1050, 1051, 1060, 1061, 1068, 1091, 1146, 1176, 1517, 1826, 3821, 3822, 3940})
"""What is to be made is there, or what is to be dropped is not: schema, table, column, key, partition, constraint.

Not 1507, partitions that are to be dropped: where the target has others, the rows of those would stay.
"""
_PATIENCE: Final = Setting("lock_wait_timeout", 60)
"""Seconds for which a statement waits until others let go of the table; then it is tried again. Usual is a year."""
_MISPLACED: Final = frozenset({1050, 1146})
"""The new name of a RENAME is taken, or its old one is not there: both may be so where nothing was renamed."""
_COLUMN_IS_THERE: Final = 1060
_ANOTHER: Final = (
    "the column of that name is another one, and rows that are there would keep its values; rename or drop it there, "
    "unless it is yours to make alike"
)
REFUSED: Final = "refused: "
_COUNTER: Final = re.compile(r" AUTO_INCREMENT=\d+")


class DdlRefused(DmError):
    """The target does not take a DDL statement."""

    sql: str
    number: int
    reason: str

    code = "DM-6033"
    scope = Scope.DOWNSTREAM
    what = "the target refuses {sql} ({number} {reason})."
    hint = (
        "See what differs in the target. Cure that and run the task again, or make the change there yourself in a way "
        "that it takes and run `dmctl binlog skip TASK -s SOURCE`, or give another statement for it by `dmctl binlog "
        'replace TASK -s SOURCE "…"`.'
    )


class DdlLocked(DmError):
    """Another connection to the target holds the lock for this subtask's DDL and does not end."""

    task: str
    source: str
    connection: int

    code = "DM-6034"
    scope = Scope.DOWNSTREAM
    reaction = Reaction.RETRY
    what = (
        "task {task}, source {source}: connection {connection} of an earlier run is still altering a table in the "
        "target."
    )
    hint = "Nothing is lost. It is tried again; KILL that connection if it hangs."


class DdlUnderWay(DmError):
    """The target still works on a DDL statement of an earlier run, as a job of its own."""

    table: str
    job: int
    kind: str
    state: str
    rows: int

    code = "DM-6039"
    scope = Scope.DOWNSTREAM
    reaction = Reaction.RETRY
    what = "the target is at {kind} on {table}, which an earlier run has begun: job {job} is {state}, {rows} rows done."
    hint = (
        "Nothing is lost. It is waited for; see `ADMIN SHOW DDL JOBS` in the target. If it is paused there, resume it "
        "(`ADMIN RESUME DDL JOBS {job}`)."
    )


@dataclass(frozen=True)
class TargetDdl:
    """One statement for the target. `tables`: those that it changes there.

    `parts`: the same as several statements, each of which does one thing; it alone where it cannot be divided.
    `keyless`: it makes a table without a primary key. `alike`: the text without what only some servers write, the same
    for the same change; empty: nobody compares it. `divisible`: else no order of its parts does the same. `renames`:
    tables that get other names, (old, new) in this order. `new`: what it makes, as (table, column) or (table, "").
    """

    sql: str
    tables: tuple[TableName, ...]
    parts: tuple[str, ...] = ()
    keyless: bool = False
    alike: str = ""
    divisible: bool = True
    renames: tuple[tuple[TableName, TableName], ...] = ()
    new: tuple[tuple[TableName, str], ...] = ()

    @property
    def shows(self) -> bool:
        """True if how its tables look tells that it was executed. A TRUNCATE is executed again instead."""
        return not self.sql.startswith("TRUNCATE ")

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> TargetDdl:
        """Return what `asdict` has made JSON of."""
        return cls(
            said["sql"],
            tuple(TableName(*name) for name in said["tables"]),
            tuple(said["parts"]),
            said["keyless"],
            said["alike"],
            said["divisible"],
            tuple((TableName(*old), TableName(*new)) for old, new in said["renames"]),
            tuple((TableName(*table), column) for table, column in said.get("new", ())),  # older ones do not say it
        )


def execute_ddl(
    endpoint: Endpoint,
    fence: Fence,
    position: str,
    statements: Sequence[TargetDdl],
    session: Sequence[Setting],
    *,
    first: int = 0,
) -> int:
    """Execute what is left of these statements of the DDL at `position`. Return how many were executed now.

    `session`: the variables to execute them under. `first`: the number that the first of them is noted by. What is
    executed stays noted until the frontier moves over it.
    Raises DdlRefused, DdlLocked (retry), Fenced, TargetWentBack, and what connecting raises.
    """
    if not statements:
        return 0
    try:
        with fresh_target(endpoint) as connection, _locked(endpoint, connection, fence):
            noted = run_transaction(endpoint, lambda tx: _checked_entries(tx, fence, position))
            check_keyless(connection, [str(one.tables[0]) for one in statements if one.keyless], str(endpoint))
            if noted:
                _wait_for_jobs(connection, {name for one in statements for name in one.tables})
            set_all(connection, [*session, _PATIENCE], server=str(endpoint))
            work = _Work(endpoint, connection, fence, position, sql_mode_of(session))
            return sum(work.do(number, one, noted.get(number)) for number, one in enumerate(statements, first))
    except pymysql.err.Error as error:
        raise translate(error, server=str(endpoint)) from error


def end_earlier_ddl(endpoint: Endpoint, fence: Fence) -> None:
    """Wait until no DDL of an earlier run of this subtask is under way; none is sent later, as it is fenced then.

    Raises DdlLocked (retry), Fenced, TargetWentBack, and what connecting raises.
    """
    try:
        with fresh_target(endpoint) as connection, _locked(endpoint, connection, fence):
            run_transaction(endpoint, fence.check)
    except pymysql.err.Error as error:
        raise translate(error, server=str(endpoint)) from error


def sql_mode_of(session: Sequence[Setting]) -> int:
    """Return the bits of the sql_mode that the settings name; 0 where they name none."""
    return sum(mode_bits(str(one.value)) for one in session if one.name == "sql_mode")


def _checked_entries(connection: Connection, fence: Fence, position: str) -> dict[int, Entry]:
    fence.check(connection)
    return read_entries(connection, fence.ref, position)


@dataclass(frozen=True)
class _Work:
    """The DDL at one place of the log. `connection` holds the lock and has the session of the statement."""

    endpoint: Endpoint
    connection: Connection
    fence: Fence
    position: str
    sql_mode: int = 0

    def do(self, number: int, statement: TargetDdl, entry: Entry | None) -> int:
        """Execute the statement unless it has taken effect; return how many were executed. Raises DdlRefused."""
        begun = None if entry is None else _begun_part(statement, entry)
        noted = statement.alike or statement.sql  # whoever goes on may be another shard's source
        if entry is not None and not is_noted(statement, entry):
            entry = None
        if entry is not None and entry.done:
            return 0
        looks = self._looks(statement)
        if entry is not None and begun is not None:
            took_effect = entry.before != looks and not entry.sql.startswith(REFUSED)
            self._do_parts(number, statement, begun + took_effect)
            self._note_done(number)
            return 1
        if entry is not None and entry.before != looks and statement.shows:
            self._note_done(number)
            return 0
        if not self._execute(number, statement, statement.sql, noted=noted, looks=looks):
            self._do_parts(number, statement, 0)
        self._note_done(number)
        return 1

    def _do_parts(self, number: int, statement: TargetDdl, first: int) -> None:
        """Execute the parts one by one, but for those before `first`. Each is noted, as it shows on its own.

        Else a run that died between two of them would leave a table that has changed, which stands for all.
        """
        for at, part in enumerate(_parts(statement)[first:], first):
            if not self._execute(
                number, statement, part, noted=_as_part(at, part), looks=self._looks(statement), at=at
            ):
                log.warning("the target is already as %s would make it", part[:500])

    def _execute(
        self, number: int, statement: TargetDdl, sql: str, *, noted: str, looks: Looks, at: int | None = None
    ) -> bool:
        """Note and execute the statement, or its part `at`; tell whether the target took it. Raises DdlRefused."""
        self._note_intent(number, noted, looks)
        try:
            refusal = _send(self.connection, sql)
            if refusal is not None and not self._may_be_there(statement, refusal.number):
                raise refusal
            if refusal is not None and refusal.number == _COLUMN_IS_THERE and at is not None:
                self._check_column(statement, sql, refusal)
        except DdlRefused:
            self._note_intent(number, REFUSED + noted, looks)
            raise
        return refusal is None

    def _check_column(self, statement: TargetDdl, part: str, refusal: DdlRefused) -> None:
        """Raise the refusal unless the column that is there is the one that the part would make."""
        shown = look_of(self.connection, statement.tables[0])  # in the statement's session: it has its time zone
        if not is_the_same_column(part, self.sql_mode, shown):
            raise DdlRefused(refusal.sql, refusal.number, f"{refusal.reason}: {_ANOTHER}")

    def _may_be_there(self, statement: TargetDdl, number: int) -> bool:
        """Tell whether one of `_ALREADY` may mean that the target is as the statement, or a part, would make it."""
        if not statement.divisible:
            return False
        if number not in _MISPLACED:
            return True
        there: dict[TableName, bool] = {}
        for old, new in statement.renames:
            there |= {old: False, new: True}
        connection = target_connection(self.endpoint)
        return all((look_of(connection, name) is not None) == expected for name, expected in there.items())

    def _note_intent(self, number: int, sql: str, looks: Looks) -> None:
        run_transaction(self.endpoint, lambda tx: note_intent(tx, self.fence, self.position, number, sql, looks))

    def _note_done(self, number: int) -> None:
        run_transaction(self.endpoint, lambda tx: note_done(tx, self.fence, self.position, number))

    def _looks(self, statement: TargetDdl) -> dict[TableName, str | None]:
        """Return how its tables look, to a session of ours: another sql_mode would show them in another way."""
        return {name: look_of(target_connection(self.endpoint), name) for name in statement.tables}


def _parts(statement: TargetDdl) -> tuple[str, ...]:
    return statement.parts or (statement.sql,)


def _as_part(at: int, sql: str) -> str:
    """Return how a part is noted."""
    return f"part {at + 1}: {sql}"


def is_noted(statement: TargetDdl, entry: Entry) -> bool:
    """Tell whether the entry is about this statement, and it may have taken effect."""
    return _begun_part(statement, entry) is not None or entry.sql in (statement.alike or statement.sql, statement.sql)


def _begun_part(statement: TargetDdl, entry: Entry) -> int | None:
    """Return the number of the part that was begun last; None where the statement was not divided."""
    noted, sql = [_as_part(at, part) for at, part in enumerate(_parts(statement))], entry.sql.removeprefix(REFUSED)
    return noted.index(sql) if sql in noted else None


def _send(connection: Connection, sql: str) -> DdlRefused | None:
    """Execute a statement; return what the target says if it may be as the statement would make it already."""
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


def look_of(connection: Connection, name: TableName) -> str | None:
    """Return the CREATE TABLE of a table in the target, without where its numbers stand; None if it is not there."""
    try:
        return _COUNTER.sub("", create_statement(connection, name))
    except pymysql.err.MySQLError as error:
        if number_of(error) in NOT_THERE:
            return None
        raise


@contextlib.contextmanager
def _locked(endpoint: Endpoint, connection: Connection, fence: Fence) -> Iterator[None]:
    """Hold the lock of this subtask's DDL; whoever holds it belongs to a run that was replaced, and is killed.

    Unless it is us who were replaced: so that is looked at before anybody is killed.
    Raises DdlLocked, Fenced, TargetWentBack.
    """
    ref = fence.ref
    name = "dm_ddl:" + hashlib.sha256(repr((ref.meta_schema, *ref.lane_key)).encode()).hexdigest()[:32]
    deadline = time.monotonic() + LOCK_SECONDS
    server = target_dialect(endpoint).server
    holders: list[int] = []
    if not server.names_lock_holders:
        ((mine,),) = query(connection, "SELECT CONNECTION_ID()")
        holders = run_transaction(endpoint, lambda tx: note_holder(tx, fence, int(mine)))
    while query(connection, "SELECT GET_LOCK(%s, %s)", (name, _LOOK_SECONDS)) != [(1,)]:
        if server.names_lock_holders:
            ((holder,),) = query(connection, "SELECT IS_USED_LOCK(%s)", (name,))
            holders = [] if holder is None else [int(holder)]
        if holders:
            run_transaction(endpoint, fence.check)
        for one in holders:
            log.warning("connection %d of an earlier run is killed: it may be altering a table", one)
            with contextlib.suppress(pymysql.err.MySQLError):  # it may be gone already, or belong to another account
                query(connection, server.kill.format(one))
        if time.monotonic() > deadline:
            raise DdlLocked(*ref.key, (*holders, 0)[0])
    yield  # the lock ends with the connection


def _wait_for_jobs(connection: Connection, tables: Collection[TableName]) -> None:
    """Wait until the server is at no DDL of these tables, whoever has sent it. Raises DdlUnderWay."""
    asked = server_info(connection).capabilities.ddl_jobs
    if asked is None:
        return
    deadline = time.monotonic() + LOCK_SECONDS
    while jobs := [one for one in query(connection, asked) if name_of(one[0], one[1]) in tables]:
        schema, table, job, kind, state, rows = jobs[0]
        under_way = DdlUnderWay(str(name_of(schema, table)), int(job), text(kind), text(state), int(rows or 0))
        if time.monotonic() > deadline:
            raise under_way
        log.warning("%s", under_way)
        time.sleep(_LOOK_SECONDS)
