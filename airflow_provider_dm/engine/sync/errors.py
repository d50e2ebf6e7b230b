"""The errors of a sync, and the remedies for DDL that stops a task."""

from __future__ import annotations

from typing import ClassVar, Final

from airflow_provider_dm.engine.downstream.errors import ROWS_BEFORE, DdlRefused, RowStatementError
from airflow_provider_dm.engine.errors import (
    MIGRATE_AGAIN,
    DescribedError,
    DmError,
    DownstreamError,
    NotSupportedYet,
    Reaction,
    ReportedError,
    Scope,
    UpstreamError,
)

_WITHOUT_THE_TABLE: Final = (
    f"Or leave the table out by block-allow-list, and the task continues without it. Or {MIGRATE_AGAIN}."
)


class EarlierLogMissing(DescribedError):
    """The relay log lacks the part before the checkpoint, which is needed to follow a failover or a new relay log."""

    code = "DM-4047"
    reaction = Reaction.RETRY


class BothLogsFailed(UpstreamError):
    """The relay log and the upstream both failed. `local`, `upstream`: the messages of their errors; `wanted`: the
    reaction."""

    source: str
    here: str
    local: str
    upstream: str
    remedy: str
    wanted: Reaction

    code = "DM-4061"
    what = "the sync of {source} cannot continue at {here}. Relay log: {local} Upstream: {upstream}"

    def workaround(self) -> str:
        return self.remedy

    def reacts(self) -> Reaction:
        return self.wanted


class OtherUpstream(UpstreamError):
    """The server that answers is not the one whose log is being read."""

    held: str
    found: str

    code = "DM-4062"
    what = "the sync reads the log of server {held}, but server {found} answers."
    hint = f"A position is valid on one server only. Repair the relay log, or {MIGRATE_AGAIN}."


class TransactionGroupsChanged(DmError):
    """The frontier is inside a group of transactions: after a failed epoch, the new plan groups them differently."""

    lo: str
    hi: str
    found: str

    code = "DM-6016"
    reaction = Reaction.RETRY
    what = "the log from {lo} to {hi} is divided into other transactions now; everything up to {found} is written."
    hint = "Nothing is lost: the sync continues from there automatically."


class BrokenChain(UpstreamError):
    """Two successive changes of one key do not fit. The message has no values, as these may be confidential."""

    table: str
    key_columns: tuple[str, ...]
    held: str
    found: str

    code = "DM-6020"
    what = (
        "the log changes a row of {table} (key {key_columns}) in a way that does not follow from the previous change, "
        "which left {held}, while this change begins with {found}."
    )
    hint = (
        "The log is incomplete (sql_log_bin=0, a lost file), or, with `on-duplicate-logical: replace`, two shards hold "
        "rows with the same key. Nothing of this epoch was written."
    )


class MissingRow(RowStatementError):
    """The log changes or deletes rows that the target does not have."""

    table: str
    operation: str
    expected: int
    found: int

    code = "DM-6021"
    what = (
        "{operation} on {table} should have found {expected} rows and found {found}. The transaction was rolled back."
    )
    hint = (
        "Another program changes the target's rows, or they were never copied. Find the rows by DmVerifyOperator or by "
        "SELECT on both sides, and correct the target."
    )


class CountsDiffer(DmError):
    """An UPSERT did not change exactly its rows. The transaction is rolled back."""

    code = "DM-6022"
    what = "an upsert changed fewer rows than it was given."
    hint = "Nothing was written; the transaction is retried in another way automatically."


class UnknownTable(UpstreamError):
    """The log has rows of a table that the rules allow, but that has no definition."""

    table: str

    code = "DM-6030"
    what = "the log has rows of {table}, which the rules allow but which did not exist at the start."
    hint = f"Leave it out by block-allow-list, or {MIGRATE_AGAIN}."


class DdlNotSupported(NotSupportedYet):
    """DDL on a table of the task that the sync does not follow, or DDL that may be about such a table."""

    code = "DM-6032"
    scope = Scope.UPSTREAM


class DefinitionNeeded(DescribedError):
    """A table was altered after the location at which a task begins, and its definition there is not known."""

    code = "DM-6037"
    scope = Scope.UPSTREAM


class RelaySilent(UpstreamError):
    """No new log arrives, and no relay is pulling."""

    source: str
    here: str
    why: str

    code = "DM-6041"
    reaction = Reaction.RETRY
    what = "the relay of {source} is not pulling: {why}. The checkpoint is {here}."
    hint = "Start the relay (DmRelayOperator, or `dmctl start-relay`) and check its log."


class SourceWentBack(UpstreamError):
    """The source's log ends before the checkpoint: it is another log."""

    end: str
    here: str

    code = "DM-6043"
    what = "the source's binlog ends at {end}, before the checkpoint {here}."
    hint = (
        "The source lost or rewrote its binlog (RESET MASTER, a restored server, a crash with sync_binlog other than "
        f"1). What it wrote since cannot be distinguished from what is applied: {MIGRATE_AGAIN}."
    )


class GoalLost(UpstreamError):
    """The source failed over before its log reached the goal, and the new server's log does not reach it."""

    source: str
    goal: str
    missing: str

    code = "DM-6046"
    what = (
        "the sync of {source} was to end at {goal}. Another server has taken over since, and its log lacks {missing}."
    )
    hint = (
        "Start the sync again: it ends at the end of the new server's log. Transactions that only the old server had "
        "are lost."
    )


class StartNotInLog(UpstreamError):
    """The log does not have the location of `meta`."""

    task: str
    source: str
    start: str
    reason: str

    code = "DM-6048"
    what = "task {task}, source {source}: the log cannot be read from {start} (`meta`): {reason}."
    hint = "Nothing was begun. Correct binlog-name and binlog-pos in the task file and run it again."


class ShardDdlRefused(DdlRefused):
    """The target rejects a DDL that all shards have executed."""

    code = "DM-6054"
    hint = (
        "All shards have executed it, and their rows are held back until the target has. Compare the target table with "
        "the statement, correct the table and run the task again; or make the change there yourself, in a way that "
        "the target accepts, and run `dmctl shard-ddl-lock unlock ID --action skip`."
    )


class SourceHasNoError(DmError):
    """No error has paused the source, so a command without a location does not identify a statement."""

    task: str
    source: str

    code = "DM-6070"
    what = "source {source} has no error in task {task}."
    hint = "Name a later location, by --binlog-pos FILE:POSITION or --sql-pattern REGEX, or only sources with an error."


class NotPausedByDdl(DmError):
    """The source is paused by an error that is not about a DDL statement."""

    task: str
    source: str
    error: str

    code = "DM-6071"
    what = "source {source} of task {task} is paused by {error}, which is not about a DDL statement."
    hint = (
        "Only DDL can be skipped or replaced. Do what `dmctl query-status TASK` shows for that error; correct rows in "
        "the target by hand."
    )


class KeylessUncertain(DownstreamError):
    """Rows of tables without a key may be in the target already, and cannot be identified."""

    source: str
    tables: tuple[str, ...]
    start: str
    until: str

    code = "DM-6082"
    what = (
        "{source}: DM may have applied changes between its checkpoint ({start}) and {until} already, and tables "
        "without a key ({tables}) do not show which: rows would be duplicated."
    )
    hint = (
        "Let DM continue and stop it cleanly (`pause-task`, then `stop-task`): DM then records that it has applied "
        "nothing after its checkpoint. Or leave these tables out by block-allow-list."
    )


class CheckpointMoves(DownstreamError):
    """DM still writes its checkpoint during the takeover."""

    table: str
    source: str
    how: str

    code = "DM-6083"
    what = "DM's checkpoint of source {source} in {table} {how}."
    hint = (
        "Nothing was begun. Stop the task in DM (`stop-task`) first, then begin here. If DM was killed, wait for two "
        "`checkpoint-flush-interval`s."
    )


class TaskBug(DmError):
    """A task raised something that is not one of our errors. The text is left out: it may quote row values."""

    kind: str
    where: str

    code = "DM-6090"
    what = "unexpected {kind} at {where}."
    hint = "Please report it with the log of this run."


class CannotFollow(Exception):
    """A statement that cannot be followed without a user's decision; the argument is the reason."""

    remedy: ClassVar[str] = (
        'Replace the statement with `dmctl binlog replace TASK -s SOURCE "…"`. Or make the change in the target '
        "yourself, if you need it there, and run `dmctl binlog skip TASK -s SOURCE`. "
        f"{ROWS_BEFORE}. {_WITHOUT_THE_TABLE}"
    )


class RefusedByFilter(CannotFollow):
    """A statement that matches a rule of the binlog event filter with the action Error."""


class ValuesDiffer(CannotFollow):
    """A statement for which the target would compute other values of the rows than the source has."""

    remedy = (
        'Let the target convert the rows in its own way: run `dmctl binlog replace TASK -s SOURCE "…"` with the '
        "statement. If its values may then differ, write the source's values into the log after the statement: at the "
        "source, ALTER TABLE … ADD COLUMN a new column of that type, UPDATE … SET it to the changed column, and ALTER "
        "TABLE … DROP COLUMN the changed one, CHANGE the new one to its name."
    )


class ExtractedChange(CannotFollow):
    """A RENAME after which the rows in the target have extracted values of the old name."""

    remedy = (
        "Update these columns of the table's rows in the target, then run `dmctl binlog skip TASK -s SOURCE`. "
        f"{_WITHOUT_THE_TABLE}"
    )


class NeededByRows(CannotFollow):
    """A skipped statement without which the target's table does not fit the rows after it."""

    remedy = (
        "The target table has to change at this location too. Instead of skipping the statement, run `dmctl binlog "
        'replace TASK -s SOURCE "…"` with that statement, or with another statement after which the rows fit.'
    )


class NotUnderstood(CannotFollow):
    """A statement after which the definition of its table is not certain."""

    remedy = (
        "If the statement changes the table's definition, first make the change in the target yourself, and set the "
        "definition after the statement, by which rows are decoded, with `dmctl binlog-schema update TASK SCHEMA TABLE "
        f"FILE`. Then, or if it does not change it, run `dmctl binlog skip TASK -s SOURCE`. {_WITHOUT_THE_TABLE}"
    )


class DefinitionDiffers(CannotFollow):
    """A statement about something that the known definition of its table does not have."""

    remedy = (
        "Set the table's definition before this statement with `dmctl binlog-schema update TASK SCHEMA TABLE FILE`, "
        "and run the task again. Or make the change in the target yourself and run `dmctl binlog skip TASK -s SOURCE`."
    )


class NeedsAgreement(CannotFollow):
    """A statement on a merged table in a task that has no shard mode."""

    remedy = (
        "Set `shard-mode: pessimistic` and start the task again: the target executes the statement once all tables "
        "that are merged there have executed it."
    )


class RoutedElsewhere(CannotFollow):
    """A new name of a shard that is not routed to the target of the other shards."""


class PrivateRelayEnded(DmError):
    """The process that pulls the private log of this task has ended."""

    reported: ReportedError

    what = "{reported.message}"


class Undecided(Exception):
    """No definition can be verified; the argument is the reason."""
