"""The law of merged tables in safe mode: the last to write a row wins, whichever source table had written it before.

It replaces the law of owners (merge/) with `safe-mode: true`, and where a start in a past that is not exact overlaps
rows of the target, in tables whose rows can be written over at all (`SyncPlan.over`). Each change is tried as the log
has it, and what collides is written over and counted, as in a table of one source table (`overwriting`). So an INSERT
takes the place of another table's row, and an UPDATE or DELETE may find one that another has put there, or none.

Tables of one source meet in the order of their log: none of their changes is folded, and what shares a unique value is
written one behind the other (`dependence`, `SyncPlan.contended`). Of two sources the one wins whose transaction comes
last. A source that is alone in the target folds its changes as ever, since its rows do not meet each other.

    phase                                       rows of others                rows that find their places taken
    pages of a load                             not touched                   wait (dm_contested_row)
    the log with `safe-mode: true`, or in a     written over, and counted     those that wait are put there first
    past that is not exact
    the log behind safe mode                    not touched                   wait, and stop the task if they collide

So nothing depends on what the task file was in an earlier phase: the second phase finds at most rows that wait. Each is
put into its place in front of the first change that could be about it, also where half an epoch is written: what waits
is the row as far as its bucket has come. The phases are each source's own, but all sources of a table need the same
`safe-mode`.

Rows that shards hold back (shard-mode pessimistic) are applied in the re-sync, later than the log has them: each counts
as written then. So an UPDATE of a held row takes the place of a row that another table has written since, and a DELETE
of it removes that row. docs/how-to/safe-mode.md lists the rows that can differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from itertools import groupby
from typing import Final

from airflow_provider_dm.engine.downstream.contested_row import (
    ContestedRow,
    forget_without_image,
    lock_rows,
    oldest_rows,
    remove_rows,
)
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.table_schema import Feeder, TableSchema
from airflow_provider_dm.engine.errors import NotSupportedYet
from airflow_provider_dm.engine.merge.contests import Surroundings
from airflow_provider_dm.engine.merge.overwritable import can_be_written_over
from airflow_provider_dm.engine.merge.settling import known_literals
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.mapping import TargetTableMismatch, map_table
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.plan.plan_parts import target_part
from airflow_provider_dm.engine.sync.safe_mode.overwriting import Collision, OverWrites

ROWS_OF_A_TRANSACTION: Final = 100


def check_one_law(
    targets: Collection[TableName], safe: Mapping[str, bool], ours: str, feeders: Iterable[Feeder]
) -> None:
    """Refuse that a source of a merged table has `safe-mode: true` and another has not. Raises NotSupportedYet.

    `safe`: by source of the task; `targets`: those of `ours`.
    """
    mine = safe.get(ours, False)
    for one in feeders:
        if one.target in targets and safe.get(one.source, mine) != mine:
            with_it, without = (ours, one.source) if mine else (one.source, ours)
            raise NotSupportedYet(
                "safe-mode: true for some of the sources of a merged table",
                f"{one.target}, which {with_it} feeds with it and {without} without it",
                "Set it for all of them, or for none.",
            )


def check_one_reach(plan: SyncPlan, others: Iterable[tuple[str, TableSchema, Mapping[str, str]]]) -> None:
    """Refuse that rows of a merged table can be written over by how this source's tables go into it, and not by how
    another's do. Raises NotSupportedYet.

    `others`: tables of other sources, with the values that the target's columns have of them.
    """
    reach = {plan.targets[at].name: (plan.targets[at].mapping.target, at in plan.over) for at in plan.merged}
    for source, schema, extracted in others:
        if not plan.safe or schema.target not in reach:
            continue
        target, ours = reach[schema.target]
        try:
            theirs = can_be_written_over(map_table(schema.table, target, extracted))
        except TargetTableMismatch:  # that source says so itself, before it writes anything
            continue
        if theirs != ours:
            raise NotSupportedYet(
                "safe-mode: true for a merged table whose rows can be written over for some of its sources only",
                f"{schema.target}, by how the keys of {source}:{schema.table.name} go into it and those of this source",
                "Leave safe-mode out of all its sources, or give their keys the same types and collations.",
            )


def write_over_waiting(
    fence: Fence, around: Surroundings, kept: Collection[TableName] = frozenset()
) -> list[Collision]:
    """Put the rows of this source that wait into their places, in the order in which they came to wait, and return whom
    they were written over. `kept`: see `SyncPlan.kept`. Raises Fenced, TargetWentBack, and what statements raise.
    """
    around.transactions(partial(_forget, fence=fence, kept=kept))
    found: list[Collision] = []
    behind = 0
    while rows := around.transactions(partial(_next, ref=fence.ref, behind=behind)):
        found += around.transactions(partial(_put, fence=fence, around=around, rows=rows, kept=kept))
        behind = rows[-1].id
    return [one for one in found if one.missing or one.present]


def _forget(connection: Connection, *, fence: Fence, kept: Collection[TableName]) -> None:
    """Forget rows without an image: the log of their shard writes or deletes each, whether it is there or not."""
    fence.check(connection)
    forget_without_image(connection, fence.ref, kept)


def _next(connection: Connection, *, ref: SubtaskRef, behind: int) -> list[ContestedRow]:
    return oldest_rows(connection, ref, seconds=0, behind=behind, most=ROWS_OF_A_TRANSACTION)


def _put(
    connection: Connection, *, fence: Fence, around: Surroundings, rows: list[ContestedRow], kept: Collection[TableName]
) -> list[Collision]:
    fence.check(connection)
    found, put = [], []
    for (table, target), some in groupby(
        lock_rows(connection, fence.ref, [row.id for row in rows]), key=lambda row: (row.table, row.target)
    ):
        mapping = around.mapped(fence.ref.source, table, target)
        if target in kept or not can_be_written_over(mapping):
            continue
        access, waiting = around.access(), list(some)
        literals = known_literals(mapping.source, access.dialect.server.flavour)
        for row in waiting:  # one by one: a later one may take the place of an earlier one
            part = target_part(mapping)
            writes = OverWrites(part, access, (), (), [literals(row.row)], (), by=str(table))
            found.append(writes.run(connection))
        put += [row.id for row in waiting]
    if put:
        remove_rows(connection, fence.ref, put)
    return found
