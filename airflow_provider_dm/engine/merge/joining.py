"""What has to be known of the others when a subtask begins: which of its tables are merged, and whether that can be.

A subtask that is loading or catching up in a merged table must know its own rows (`writer`), so they are recorded from
the first one on. One that began when its table had no other owner records nothing, and until it is exact it takes every
row at its keys for its own. So nobody else may begin before that.

A start in a past that is not exact (task-mode incremental with a start location) writes over the rows that are there,
whosever they are, until a location (sync/safe_mode): nothing is recorded, and nobody has to wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_dm.engine.errors import DmError, Reaction, Scope
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.target.contested_row import withdraw_all
from airflow_provider_dm.engine.target.copied_tables import load_copied_tables
from airflow_provider_dm.engine.target.copy_progress import load_chunks
from airflow_provider_dm.engine.target.identity import SubtaskRef
from airflow_provider_dm.engine.target.owner_numbers import lock_owner_numbers, save_owner_numbers
from airflow_provider_dm.engine.target.subtask import read_subtask
from airflow_provider_dm.engine.target.table_schema import Feeder, TableSchema, load_feeders, save_table_schemas


class OwnerNotReady(DmError):
    source: str
    table: str
    other_source: str
    other_table: str
    target: str

    code = "DM-6025"
    scope = Scope.DOWNSTREAM
    reaction = Reaction.RETRY
    what = (
        "{source}: {table} goes to {target}, as {other_table} of {other_source} does. That one began alone, and its "
        "load or the catch-up behind it is not over yet: until then it would overwrite rows of {source}."
    )
    hint = (
        "Run the task with the other source alone until its sync has caught up with the end of its load (its run shows "
        "`catch_up_mode: false`), then with both."
    )


class OwnerCopiedAgain(OwnerNotReady):
    """The rows of all source tables of the target are about to be removed there."""

    code = "DM-6058"
    what = (
        "{source}: {table} goes to {target}, as {other_table} of {other_source} does. Tables of it were altered while "
        "they were copied, so {target} is emptied and copied again: until then nobody can begin there."
    )
    hint = "Run the task with the other source until its copy goes on, then with both."


@dataclass(frozen=True)
class Newcomer:
    """A source table that is about to begin, with a target that has a key (recorded_key.py)."""

    table: TableName
    target: TableName
    key: str


@dataclass(frozen=True)
class Other:
    """A source table of another source that has begun. `exact`: behind its load and catch-up. `loaded`: by us.
    `doubted`: it is about to be copied again (copy/again.py)."""

    feeder: Feeder
    exact: bool
    loaded: bool
    doubted: bool = False


def read_others(connection: Connection, ref: SubtaskRef, *, full: bool) -> list[Other]:
    """Return the source tables of the task's other sources. `full`: its task-mode."""
    feeders = [feeder for feeder in load_feeders(connection, ref) if feeder.source != ref.source]
    names = {feeder.source for feeder in feeders}
    subtasks = {name: read_subtask(connection, ref.of_source(name)) for name in names}
    exact = {name for name, found in subtasks.items() if found is not None and found.is_caught_up(full=full)}
    loaded = {name for name in names if load_chunks(connection, ref.of_source(name))}
    known = {name: load_copied_tables(connection, ref.of_source(name)) for name in names - exact}
    return [
        Other(feeder, feeder.source in exact, feeder.source in loaded, copied is not None and not copied.birth)
        for feeder in feeders
        for copied in [known.get(feeder.source, {}).get(feeder.table)]
    ]


def recorded_tables(
    source: str,
    newcomers: Sequence[Newcomer],
    others: Sequence[Other],
    fellows: Sequence[Newcomer],
    *,
    loading: bool,
) -> list[TableName]:
    """Return those of the newcomers whose rows are recorded, in their order.

    `fellows`: source tables of other sources that begin in the same run. `loading`: there is a copy, of which catch-up
    follows. Raises OwnerNotReady.
    """
    shards = Counter(one.target for one in newcomers)
    beside = {one.target for one in fellows}
    found = []
    for one in newcomers:
        there = [other for other in others if other.feeder.target == one.target]
        for other in there:
            _check(source, one, other, loading=loading)
        if loading and (shards[one.target] > 1 or there or one.target in beside):
            found.append(one.table)
    return found


def enter_tables(
    connection: Connection,
    ref: SubtaskRef,
    schemas: Sequence[TableSchema],
    newcomers: Sequence[Newcomer],
    fellows: Sequence[Newcomer],
    *,
    loading: bool,
    full: bool = False,
    run: Collection[str] = (),
) -> dict[TableName, int]:
    """Save a subtask's tables, with numbers for those whose rows are recorded; return the numbers.

    Done inside the transaction that begins the subtask, after its first statement. `newcomers`: those of the tables
    that can be merged; `full`: the task reads no log; `run`: see `check_none_in_doubt`. Raises as that does, and as
    `recorded_tables` does.
    """
    last = lock_owner_numbers(connection, ref)
    others = read_others(connection, ref, full=full)
    check_none_in_doubt(ref.source, {one.table.name: one.target for one in schemas}, others, run)
    recorded = recorded_tables(ref.source, newcomers, others, fellows, loading=loading)
    numbers = dict(zip(recorded, range(last + 1, last + 1 + len(recorded)), strict=True))
    save_owner_numbers(connection, ref, numbers, {one.table: one.key for one in newcomers})
    withdraw_all(connection, ref)  # of a task of this name whose other rows somebody has removed
    save_table_schemas(connection, ref, schemas)
    return numbers


def check_none_in_doubt(
    source: str, tables: Mapping[TableName, TableName], others: Sequence[Other], run: Collection[str]
) -> None:
    """Check that none of the target tables is about to be removed, whatever its keys are. Raises OwnerCopiedAgain.

    `tables`: the targets of those that are about to begin. `run`: all sources of their run, which copy again together
    what one of them has in doubt.
    """
    for table, target in tables.items():
        for other in others:
            feeder = other.feeder
            if other.doubted and feeder.target == target and feeder.source not in run:
                raise OwnerCopiedAgain(source, str(table), feeder.source, str(feeder.table), str(target))


def _check(source: str, one: Newcomer, other: Other, *, loading: bool) -> None:
    feeder = other.feeder
    # What is loading records its rows for others that do so; a start in the past goes by no records.
    if not other.exact and (feeder.owner <= 0 if loading else other.loaded):
        raise OwnerNotReady(source, str(one.table), feeder.source, str(feeder.table), str(one.target))


def merged_targets(feeders: Collection[Feeder]) -> frozenset[TableName]:
    """Return the target tables that take the rows of more than one source table."""
    counted = Counter(feeder.target for feeder in feeders)
    return frozenset(target for target, number in counted.items() if number > 1)
