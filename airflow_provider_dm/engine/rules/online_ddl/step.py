r"""Online DDL: what gh-ost, pt-online-schema-change and their like do, made the one ALTER that they stand for.

    CREATE TABLE `_t_gho` LIKE `t`                         remembered: a ghost like t
    ALTER TABLE `_t_gho` ADD COLUMN c int                  remembered with it
    RENAME TABLE `t` TO `_t_del`, `_t_gho` TO `t`     ─▶   Apply(t, ALTER TABLE `t` ADD COLUMN c int)
    DROP TABLE IF EXISTS `_t_del`                          passed over

Rows of the tools' tables are never taken (`BlockAllowRules.allows`): up to the RENAME those of `t` are what counts, and
after it the ghost's rows are those of `t`, changed by the ALTER.

What is remembered (`OnlineDdls`) is a value that goes with the frontier. Of each ghost: what it was made like, the
statements since, and the first thing, if any, that makes it no faithful copy (its flaw). Of a real table that was
renamed away and not replaced yet: where it lies. A flaw stops nobody until the ghost is to become the real table, as
most ghosts with a flaw are dropped: by a run that was given up and is begun again.

Where DM is content with names, this is not, since a change that is lost here is lost for good. A ghost has to have been
seen from its CREATE on; to be like the real table when it was made (`same_definition`); the real table must not have
been altered, truncated or replaced since; it must have been renamed away; and what is repeated has to come to the same
rows (`ghost_changes`). Else the answer is Stop, which says why.

One statement is judged by two tables. A statement about one table: by its `Role` and what it does (`one_table`). A
RENAME, or ALTER … RENAME: by the roles of the old name and the new (`renames`), for what it comes to as a whole, so a
detour over a third name is none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.ddl.parse import NotRead
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.online_ddl.memory import LoggedText, OnlineDdls
from airflow_provider_dm.engine.rules.online_ddl.one_table import judge_alter, judge_each, judge_table
from airflow_provider_dm.engine.rules.online_ddl.outcomes import Act, Ordinary, Outcome, Step, Stop, View
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
    applied: Collection[TableName] = (),
) -> tuple[OnlineDdls, Outcome]:
    """Return what is remembered after a statement of the log, and what it comes to.

    `statement` is what `text` says, or the error that still knows its tables. `tables`: those of the task, as the
    source has them in front of the statement. `applied`: those that DM has applied up to a place behind it. What is
    returned first has to be saved with the place behind the statement, whatever the outcome, unless that is Stop: then
    it is what was given.
    """
    view = View(memory, text, rules, tables, applied)
    named = statement.about.tables if isinstance(statement, NotRead) else statement.tables
    if not rules.tools:
        return OnlineDdls(), Ordinary(statement)  # what is not kept up to date must not be used when it is on again
    if any(UNSURE in str(table) for table in named):
        return memory, Ordinary(statement)
    after, outcome = _judged(view, statement)
    return (memory if isinstance(outcome, Stop) else after), outcome


def _judged(view: View, statement: ddl.Statement | NotRead) -> Step:
    match statement:
        case NotRead():
            return judge_each(view, statement, statement.about.tables, Act.UNKNOWN)
        case ddl.CreateTable() | ddl.CreateTableLike() | ddl.CreateTableSelect() | ddl.CreateSequence():
            return judge_table(view, statement, statement.table, Act.CREATE)
        case ddl.AlterTable(specs=(ddl.RenameTo(new),)):
            return judge_rename(view, statement, [(statement.table, new)], if_exists=statement.if_exists)
        case ddl.AlterTable():
            return judge_alter(view, statement)
        case ddl.AlterSequence() | ddl.CreateIndex() | ddl.DropIndex():
            return judge_table(view, statement, statement.table, Act.CHANGE)
        case ddl.TruncateTable():
            return judge_table(view, statement, statement.table, Act.EMPTY)
        case ddl.DropTables():
            return judge_each(view, statement, statement.tables, Act.DROP)
        case ddl.RenameTables(pairs, if_exists):
            return judge_rename(view, statement, list(pairs), if_exists=if_exists)
        case ddl.DropDatabase(name):
            return _schema_dropped(view, statement, name)
        case _:
            return view.memory, Ordinary(statement)


def _schema_dropped(view: View, statement: ddl.DropDatabase, name: str) -> Step:
    lost = [real for trash, real in view.memory.away.items() if trash.schema == name and real.schema != name]
    if lost:
        return view.memory, Stop(f"it drops {lost[0]}, which was renamed into it")
    memory = OnlineDdls(
        {ghost: known for ghost, known in view.memory.ghosts.items() if ghost.schema != name},
        {trash: real for trash, real in view.memory.away.items() if trash.schema != name},
    )
    return memory, Ordinary(statement)
