"""The errors of the target, and the only place that interprets the driver's error numbers.

A server's message may quote row values ("Duplicate entry '…'", "Incorrect integer value: '…'"), which must not be
logged. So a message is kept only for the numbers in `_NAMES_ONLY`, whose texts contain names of objects; for all others
the error has the number, its symbol and the column in the text.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import field
from typing import Final

import pymysql
from pymysql.constants import ER

from airflow_provider_dm.engine.errors import MIGRATE_AGAIN, DescribedError, DmError, DownstreamError, Reaction, Scope
from airflow_provider_dm.engine.mysql.error_numbers import (
    ACCESS_DENIED,
    BUSY,
    CONNECTION_LOST,
    FILE_ERRORS,
    UNKNOWN_ERROR,
    UNWRITABLE,
)
from airflow_provider_dm.engine.mysql.errors import AccessDenied, ServerUnreachable

ROWS_BEFORE: Final = (
    "Do not do so if the statement drops a column, renames one or gives it another kind of type: the rows before the "
    "statement need the old column"
)
"""Why the target may not be changed before the sync reaches the statement."""

NOT_THERE: Final = frozenset({1049, 1146})
"""The schema or the table does not exist."""
_DUPLICATE: Final = frozenset({1062, 1586, 1859})
_TIDB_NAMES_ONLY: Final = frozenset(
    {1235, 1280, 8004, 8020, 8025, 8149, 8175, 8200, 8214, 8216, 8231, 8242, 8253, 8254, 8262, 8263, 8264}
)
_OF_DEFINITIONS: Final = frozenset(
    {1060, 1061, 1067, 1069, 1071, 1072, 1074, 1075, 1089, 1101, 1118, 1170, 1426, 1439}
    | {1486, 1493, 1499, 1503, 1505, 1506, 1507, 1509, 1553, 1564, 1701, 1740, 1824, 1828, 1829}
    | {3102, 3108, 3109, 3152, 3730, 3753, 3757, 3758, 3780, 3814, 3815, 3837, 3855, 3959}
)
"""What a table's columns, keys and partitions forbid each other."""
_NAMES_ONLY: Final = (
    ACCESS_DENIED
    | {1005, 1049, 1050, 1054, 1064, 1115, 1146, 1153, 1166, 1273, 1364, 1665, 1674, 1749, 3105, 3106}
    | UNWRITABLE
    | _OF_DEFINITIONS
    | _TIDB_NAMES_ONLY
)
_PASSING: Final = re.compile(
    r"information schema is (?:changed|out of date)|region is unavailable|tikv aborts txn|\[try again later\]"
    r"|context (?:canceled|deadline exceeded)|rpc error: code = ",
    re.IGNORECASE,
)
_NO_SPACE: Final = re.compile(r"\b28\b")
"""The system's ENOSPC in a message about a file."""
_CANNOT: Final = re.compile("unsupported|not supported|can'?t |cannot ", re.IGNORECASE)
"""A message without a number of its own about an unsupported feature: it contains only names and types."""
_ENTRY_TOO_LARGE: Final = 8025
_ENTRY: Final = re.compile(r"max entry size is (\d+), the size of data is (\d+)")
_LATER_SYMBOLS: Final = {
    1467: "AUTOINC_READ_FAILED",
    1526: "NO_PARTITION_FOR_GIVEN_VALUE",
    1644: "SIGNAL_EXCEPTION",
    1690: "DATA_OUT_OF_RANGE",
    3140: "INVALID_JSON_TEXT",
    3819: "CHECK_CONSTRAINT_VIOLATED",
}
"""Symbols of errors about rows that the driver does not know, or gives another name."""
_SYMBOLS: Final = {number: name for name, number in vars(ER).items() if isinstance(number, int)} | _LATER_SYMBOLS
_IN_EXPRESSIONS: Final = frozenset({1292, 1365, 1411})
_CLIPPED: Final = frozenset({1264, 1265, 1366, 1406}) | _IN_EXPRESSIONS
_NAMED_COLUMN: Final = re.compile(r"\bcolumn [`'](.+)[`'] at row \d+$", re.DOTALL)
_KEY: Final = re.compile(r"for key '([^']*)'")
_COLUMN: Final = re.compile(r"\bcolumn ([`'][^`']+[`'](?:\.`[^`]+`){0,2})")


class RowStatementError(DownstreamError):
    """Base of errors about the rows of one statement. Their values are left out deliberately.

    `statement`: its kind and its number of rows. `log`: the part of the source's log that contains the rows; "" for
    copied rows.
    """

    statement: str = field(default="", kw_only=True)
    log: str = field(default="", kw_only=True)

    what = "the target rejects rows of the source."
    hint = "Compare the rows of the target with those of the source, by DmVerifyOperator or by SELECT on both."

    def happened(self) -> str:
        where = [f"The statement is {self.statement}."] * bool(self.statement)
        where += [f"The rows come from the log {self.log}."] * bool(self.log)
        return " ".join((super().happened(), *where))


class TargetUnreachable(DownstreamError):
    """The target cannot be connected to, or a connection broke."""

    server: str
    reason: str

    code = "DM-6001"
    reaction = Reaction.RETRY
    what = "the target {server} cannot be reached: {reason}."
    hint = (
        "Check that it runs, accepts connections, is not read-only and has free disk space; the work continues where "
        "it stopped."
    )


class TargetBusy(DownstreamError):
    """A deadlock, a lock wait timeout, or a write conflict: the transaction was rolled back."""

    number: int
    symbol: str

    code = "DM-6002"
    reaction = Reaction.RETRY
    what = "the target rolled a transaction back ({number} {symbol})."
    hint = "If it persists, look for long transactions of other sessions on the target."


class TargetDenied(DownstreamError):
    """The target refused the login or a privilege."""

    reason: str
    server: str = field(default="target", kw_only=True)

    code = "DM-6003"
    what = "the {server} denies access: {reason}."
    hint = "Check user and password, and grant the privileges that the precheck lists."


class TargetRefused(RowStatementError):
    """The target rejects a statement."""

    table: str
    number: int
    reason: str

    code = "DM-6004"
    what = "the target rejects a statement on {table}: {number} {reason}."
    hint = "Compare the target table's columns, constraints, triggers and limits with the source's, then resume."


class DuplicateInTarget(RowStatementError):
    """A new row has the same key as an existing row. Nothing is overwritten: that row may be another shard's."""

    table: str
    key: str

    code = "DM-6005"
    what = "a new row has the same unique key {key} as an existing row of {table}."
    hint = (
        "Either two sources (or shards) hold rows with the same key, or another program writes to the target, or the "
        "key's collation in the target compares more values as equal than the source's. Remove or renumber one of the "
        "rows, or change the key in the target, then resume."
    )


class TargetWarned(RowStatementError):
    """The target stored another value than the one that was written (rounded, cut, replaced)."""

    table: str
    number: int
    reason: str

    code = "DM-6006"
    what = "the target would change values written to {table}: {number} {reason}."
    hint = "Widen the target's column to the source's type, then resume."


class ComputedDiffers(RowStatementError):
    """The target's value of a generated column differs from the source's, or does not fit into the column."""

    table: str
    columns: tuple[str, ...]

    code = "DM-6007"
    what = "the target computes other values than the source for {columns} of {table}."
    hint = (
        "Make them ordinary columns in the target, which store the source's values. Otherwise find the cause: their "
        "expressions differ, or depend on session variables (div_precision_increment, sql_mode, time_zone, …). These "
        "can be set (`session` of target-database) as in the source's clients; the first client that opens a table "
        "decides for all, until FLUSH TABLES."
    )


class RowTooLarge(RowStatementError):
    """One row is larger than the target accepts in a statement."""

    table: str
    bytes: int
    limit: int
    variable: str = "max_allowed_packet"
    key: str = ""
    """Its primary key, or the unique key that identifies it."""

    code = "DM-6009"
    what = "one row of {table} takes {bytes} bytes, but the target accepts less than {limit} ({variable})."
    hint = (
        "Raise {variable} on the target (in its configuration too), then resume; or leave the table out by "
        "block-allow-list."
    )

    def happened(self) -> str:
        return " ".join((super().happened(), *[f"The row's key is {self.key}."] * bool(self.key)))


class NoTargetTable(DescribedError):
    """A table that the task writes does not exist in the target."""

    code = "DM-6031"
    scope = Scope.DOWNSTREAM


class TargetLimit(DescribedError):
    """A limit of the target that a setting of it raises."""

    code = "DM-6008"
    scope = Scope.DOWNSTREAM


class TargetDdlUnderWay(DescribedError):
    """An earlier run still alters or creates tables in the target."""

    code = "DM-6034"
    scope = Scope.DOWNSTREAM
    reaction = Reaction.RETRY


class Fenced(DownstreamError):
    """A newer generation exists: this process must end."""

    task: str
    source: str
    mine: int
    found: int

    code = "DM-6010"
    reaction = Reaction.FENCED
    what = "generation {mine} of task {task}, source {source} was replaced by generation {found}."
    hint = "Another run has taken over; nothing of this one was written after that."


class SubtaskMissing(DownstreamError):
    """The target has no such subtask."""

    task: str
    source: str

    code = "DM-6011"
    what = "the target has no full load of source {source} in task {task}, so a sync has no start."
    hint = "Run the full migration first, or set task-mode to incremental with a start location (`meta`)."


class MetaTablesOfAnotherRelease(DownstreamError):
    """Another release has created the tables in this schema."""

    schema: str
    found: int
    known: int

    code = "DM-6013"
    what = "the tables in the target's schema {schema} have version {found}; this release needs version {known}."
    hint = (
        "Run the release of airflow-provider-dm that was used for this task, or give the task another meta-schema and "
        "migrate in full into empty target tables."
    )


class TargetWentBack(DownstreamError):
    """The target is before a location that was committed in it: it was restored, or lost its last commits."""

    task: str
    source: str
    found: str
    known: str

    code = "DM-6015"
    what = (
        "task {task}, source {source}: the target went back to an older state. It has {found}, but {known} was "
        "committed in it before."
    )
    hint = (
        "Nothing was written since. If everything was restored from one backup, the rows and the meta-schema, confirm "
        "it by `dmctl stop-task TASK -s SOURCE`, and run the task again: it continues at the target's location, "
        f"if the log still has it. Otherwise, or if you do not know, {MIGRATE_AGAIN}."
    )


class DdlRefused(DownstreamError):
    """The target rejects a DDL statement."""

    sql: str
    number: int
    reason: str

    code = "DM-6033"
    what = "the target rejects {sql} ({number} {reason})."
    hint = (
        "Compare the table in the target with the source's (SHOW CREATE TABLE), remove the cause and run the task "
        'again. Or replace the statement: `dmctl binlog replace TASK -s SOURCE "…"`. Or execute the change in the '
        "target in another way, such as in a second table that gets the rows by INSERT … SELECT and then the name, and "
        f"run `dmctl binlog skip TASK -s SOURCE`. {ROWS_BEFORE}."
    )


class IndexNotBuilt(DdlRefused):
    """The target rejects an index that a load has dropped and builds again after the rows are copied."""

    code = "DM-6035"
    hint = (
        "All rows are copied. Remove the cause, for example make room for the server's temporary files, and run the "
        "task again. Or execute the statement in the target yourself, and run the task again. Or give the postponed "
        "indexes of the source up: set `postponed_indexes` to NULL in its row of dm_subtask."
    )


class CheckpointUnusable(DownstreamError):
    """A checkpoint of DM that lacks required information, or contradicts itself."""

    table: str
    source: str
    why: str

    code = "DM-6080"
    what = "DM's checkpoint of source {source} in the target's {table} cannot be taken over: {why}."
    hint = (
        "Nothing was started. Let DM continue the task and stop it once more (`stop-task`), or repair the table; or "
        "remove the checkpoint (`dmctl start-task --remove-meta`) and set the start: task-mode incremental and `meta`."
    )


class KeyDemanded(DownstreamError):
    """The target rejects a table without a primary key."""

    tables: tuple[str, ...]
    setting: str

    code = "DM-7019"
    what = (
        "tables without a primary key cannot be created in the target, whose {setting} is on and cannot be turned off "
        "by this account for its own sessions: {tables}."
    )
    hint = (
        "Turn that setting off globally until the tables are created, grant the account the privilege to turn it off "
        "(MySQL: SESSION_VARIABLES_ADMIN), or add primary keys to the tables at the source. Nothing was changed."
    )


def translate(
    error: pymysql.err.Error, *, table: str = "(no table)", server: str = "target", statement: str = "", key: str = ""
) -> DmError:
    """Translate a driver's error; `reaction` decides whether the same transaction may be retried.

    `statement`: its kind and its number of rows, for the message; `key`: of its only row.
    """
    number, message = number_of(error), message_of(error)
    if number in CONNECTION_LOST or isinstance(error, pymysql.err.InterfaceError):
        return TargetUnreachable(server, f"{number} {message}" if message else "the connection was closed")
    if number in BUSY or (number == UNKNOWN_ERROR and _PASSING.search(message)):
        return TargetBusy(number, symbol(number))
    if number in UNWRITABLE or (number in FILE_ERRORS and _NO_SPACE.search(message)):
        return TargetUnreachable(server, f"{number} {message}")
    if number in ACCESS_DENIED:
        return TargetDenied(message)
    if number == _ENTRY_TOO_LARGE and (sizes := _ENTRY.search(message)):
        bytes_, limit = int(sizes[2]), int(sizes[1])
        return RowTooLarge(table, bytes_, limit, "tidb_txn_entry_size_limit", key, statement=statement)
    if number == ER.MAX_PREPARED_STMT_COUNT_REACHED:
        return TargetLimit(
            "the target has as many prepared statements as its max_prepared_stmt_count allows.",
            "Raise max_prepared_stmt_count there (16382 is usual) and run the task again.",
        )
    if number in _DUPLICATE:
        return DuplicateInTarget(table, key_name(message), statement=statement)
    return TargetRefused(table, number, redacted(number, message), statement=statement)


def explained(error: Exception) -> DmError | None:
    """Translate a driver's error of a query outside of a transaction if it may pass, or if access is denied; None for
    all other errors."""
    found = translate(error, server="or a source") if isinstance(error, pymysql.err.Error) else None
    if isinstance(found, TargetDenied):
        return TargetDenied(found.reason, server="target or a source")
    return found if found is not None and found.reaction is Reaction.RETRY else None


def translate_connect(error: ServerUnreachable | AccessDenied) -> DmError:
    """Translate an error of `connect`, whose text is about an upstream."""
    if isinstance(error, AccessDenied):
        return TargetDenied(error.reason)
    return TargetUnreachable(error.server, error.reason)


def symbol(number: int) -> str:
    """Return the symbol of an error number: 1213 -> "LOCK_DEADLOCK"."""
    return _SYMBOLS.get(number, "(the server's manual explains the number)")


def is_clipping(number: int, message: str, columns: Collection[str]) -> bool:
    """Return True if an error or a warning means that one of these columns cannot hold its expression's value.

    Errors inside an expression name no column; other written columns have no expression.

    >>> is_clipping(1264, "Out of range value for column 'b' at row 1", ["b"])
    True
    >>> is_clipping(1366, "Incorrect integer value: 'x' for column `s`.`t`.`c` at row 1", ["b"])
    False
    """
    if number not in _CLIPPED:
        return False
    named = _NAMED_COLUMN.search(message)
    return named[1].rpartition("`.`")[2] in columns if named else number in _IN_EXPRESSIONS


def key_name(message: str) -> str:
    """Return the key in a duplicate-entry message: `t.PRIMARY` (MySQL) or `PRIMARY` (MariaDB)."""
    found = _KEY.findall(message)
    return str(found[-1]) if found else "(unknown)"


def redacted(number: int, message: str) -> str:
    """Return the message if it can only contain names, otherwise its symbol and column."""
    if number in _NAMES_ONLY or (number == UNKNOWN_ERROR and _CANNOT.search(message)):
        return message
    column = _COLUMN.search(message)
    return symbol(number) + (f" (column {column[1]})" if column else "")


def number_of(error: pymysql.err.MySQLError) -> int:
    """Return the driver's number of an error; 0 or less: none."""
    first = error.args[0] if error.args else 0
    return first if isinstance(first, int) else -1


def message_of(error: pymysql.err.Error) -> str:
    """Return the text of an error; it may quote row values."""
    return str(error.args[1]) if len(error.args) > 1 else ""
