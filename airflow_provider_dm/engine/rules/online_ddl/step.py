r"""Online DDL: the statements of gh-ost, pt-online-schema-change and similar tools, replaced by one ALTER TABLE.

    CREATE TABLE `_t_gho` LIKE `t`                         recorded: a ghost like t
    ALTER TABLE `_t_gho` ADD COLUMN c int                  recorded with it
    RENAME TABLE `t` TO `_t_del`, `_t_gho` TO `t`     ─▶   Apply(t, ALTER TABLE `t` ADD COLUMN c int)
    DROP TABLE IF EXISTS `_t_del`                          skipped

Rows of the tools' tables are never replicated (`BlockAllowRules.allows`): up to the RENAME the rows of `t` count, and
after it the ghost's rows are those of `t`, changed by the ALTER.

The state (`OnlineDdls`) is a value that is stored with the frontier. For each ghost: the table that it copies, the
statements since, and the first reason, if any, why it is not a faithful copy (its flaw). For a real table that was
renamed away and not replaced yet: its current name. A flaw has no effect until the ghost is to become the real table,
as most ghosts with a flaw are dropped: by a run of the tool that was aborted and is started again.

DM relies on names alone; here that is not enough, since a change that is lost here is lost for good. A ghost has to be
known from its CREATE on; its definition must equal that of the real table at that time (`Difference`); the real
table must not have been altered, truncated or replaced since; it must have been renamed away; and the changes have to
give the same rows (`ghost_changes`). Otherwise the outcome is Stop with the reason.

One statement is decided by two tables. A statement about one table: by its `TableRole` and the statement's effect
(`one_table`). A RENAME, or ALTER … RENAME: by the roles of the old name and the new one (`renames`), for its net
effect, so an intermediate third name does not matter.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.ddl.errors import NotRead
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.online_ddl.memory import LoggedText, OnlineDdls
from airflow_provider_dm.engine.rules.online_ddl.one_table import judge_alter, judge_each, judge_table
from airflow_provider_dm.engine.rules.online_ddl.outcomes import (
    DdlView,
    Difference,
    GhostOutcome,
    GhostStep,
    OrdinaryDdl,
    StopAtDdl,
    TableEffect,
)
from airflow_provider_dm.engine.rules.online_ddl.renames import judge_rename
from airflow_provider_dm.engine.schema.charsets import UNSURE
from airflow_provider_dm.engine.schema.model import Table


def step(
    memory: OnlineDdls,
    statement: ddl.Statement | NotRead,
    text: LoggedText,
    *,
    rules: BlockAllowRules,
    tables: Mapping[TableName, Table],
    difference: Difference,
    applied: Collection[TableName] = (),
) -> tuple[OnlineDdls, GhostOutcome]:
    """Return the state after a statement of the log, and the statement's outcome.

    `statement` is the parsed `text`, or the error with its tables. `tables`: those of the task, as the
    source has them before the statement. `applied`: those that DM has applied up to a later location. The returned
    state has to be saved with the location after the statement, for any outcome but Stop, which returns the given
    state.
    """
    view = DdlView(memory, text, rules, tables, difference, applied)
    named = statement.about.tables if isinstance(statement, NotRead) else statement.tables
    if not rules.tools:
        return OnlineDdls(), OrdinaryDdl(statement)  # an outdated state must not be used when it is turned on again
    if any(UNSURE in str(table) for table in named):
        return memory, OrdinaryDdl(statement)
    after, outcome = _judged(view, statement)
    return (memory if isinstance(outcome, StopAtDdl) else after), outcome


def _judged(view: DdlView, statement: ddl.Statement | NotRead) -> GhostStep:
    match statement:
        case NotRead():
            return judge_each(view, statement, statement.about.tables, TableEffect.UNKNOWN)
        case ddl.CreateTable() | ddl.CreateTableLike() | ddl.CreateTableSelect() | ddl.CreateSequence():
            return judge_table(view, statement, statement.table, TableEffect.CREATE)
        case ddl.AlterTable(specs=(ddl.RenameTo(new),)):
            return judge_rename(view, statement, [(statement.table, new)], if_exists=statement.if_exists)
        case ddl.AlterTable():
            return judge_alter(view, statement)
        case ddl.AlterSequence() | ddl.CreateIndex() | ddl.DropIndex():
            return judge_table(view, statement, statement.table, TableEffect.CHANGE)
        case ddl.TruncateTable():
            return judge_table(view, statement, statement.table, TableEffect.EMPTY)
        case ddl.DropTables():
            return judge_each(view, statement, statement.tables, TableEffect.DROP)
        case ddl.RenameTables(pairs, if_exists):
            return judge_rename(view, statement, list(pairs), if_exists=if_exists)
        case ddl.DropDatabase(name):
            return _schema_dropped(view, statement, name)
        case _:
            return view.memory, OrdinaryDdl(statement)


def _schema_dropped(view: DdlView, statement: ddl.DropDatabase, name: str) -> GhostStep:
    lost = [real for trash, real in view.memory.away.items() if trash.schema == name and real.schema != name]
    if lost:
        return view.memory, StopAtDdl(f"it drops {lost[0]}, which was renamed into it")
    memory = OnlineDdls(
        {ghost: known for ghost, known in view.memory.ghosts.items() if ghost.schema != name},
        {trash: real for trash, real in view.memory.away.items() if trash.schema != name},
    )
    return memory, OrdinaryDdl(statement)
