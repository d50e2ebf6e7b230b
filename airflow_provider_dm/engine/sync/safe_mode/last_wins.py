"""Merged tables in safe mode: the last change of a row wins, even if another source table wrote the row before.

With `safe-mode: true`, and after an inexact start, this rule replaces row ownership (merge/) in tables whose rows can
be overwritten (`SyncPlan.overwritable`). Each change is first written as the log has it; collisions are overwritten and
counted, as in an unmerged table (`overwriting`). So an INSERT replaces a row of another table, and an UPDATE or DELETE
may hit a row of another table, or none.

Changes of several tables of one source keep the order of the log: they are not folded, and those that share a unique
value are written one after the other (`dependence`, `SyncPlan.contended`). Between two sources, the transaction that
commits last in the target wins. A source with only one table in the target folds its changes as usual.

    phase                                       rows of other tables          rows whose places are taken
    pages of a load                             kept                          become contested (dm_contested_row)
    the log with `safe-mode: true`, or after    overwritten and counted       contested rows are written first
    an inexact start
    the log after safe mode                     kept                          become contested; a collision stops the
                                                                              task

So the result does not depend on the task file of an earlier phase: at most, the second phase starts with contested
rows. Each contested row is written to its place before the first change that may affect it, even if an epoch is half
applied: the row has the state of its bucket. Each source has its own phases, but all sources of a table need the same
`safe-mode`.

Rows that shards hold back (shard-mode pessimistic) are applied in the re-sync, and count as written at that time. So an
UPDATE of a held row replaces a row that another table has written since, and a DELETE of it removes that row.
docs/how-to/safe-mode.md lists the rows that can differ.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from itertools import groupby

from airflow_provider_dm.engine.downstream.contested_row import (
    ContestedRow,
    forget_without_image,
    lock_rows,
    oldest_rows,
    remove_rows,
    waiting_targets,
)
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.row_statements import Verb
from airflow_provider_dm.engine.downstream.shard_groups import read_groups
from airflow_provider_dm.engine.downstream.table_schema import Feeder, TableSchema
from airflow_provider_dm.engine.errors import NotSupportedYet
from airflow_provider_dm.engine.merge.overwritable import is_overwritable
from airflow_provider_dm.engine.merge.servers import ContestServers
from airflow_provider_dm.engine.merge.settling import ROWS_OF_A_TRANSACTION, known_literals
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.errors import UNTIL_RESOLVED, RulesChanged, TargetTableMismatch
from airflow_provider_dm.engine.rules.mapping import TableMapping, map_table
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.plan.plan_parts import target_part
from airflow_provider_dm.engine.sync.safe_mode.overwriting import Collision, OverwritingWrites


def check_same_safe_mode(
    targets: Collection[TableName], safe: Mapping[str, bool], ours: str, feeders: Iterable[Feeder]
) -> None:
    """Raise NotSupportedYet if only some sources of a merged table have `safe-mode: true`.

    `safe`: by source of the task. `targets`: the target tables of the source `ours`.
    """
    mine = safe.get(ours, False)
    for feeder in feeders:
        if feeder.target in targets and safe.get(feeder.source, mine) != mine:
            with_it, without = (ours, feeder.source) if mine else (feeder.source, ours)
            raise NotSupportedYet(
                "safe-mode: true for some of the sources of a merged table",
                f"{feeder.target}: {with_it} has it, {without} does not",
                "Set it for all of them, or for none.",
            )


def check_same_overwritable(plan: SyncPlan, others: Iterable[tuple[str, TableSchema, Mapping[str, str]]]) -> None:
    """Raise NotSupportedYet if the rows of a merged table can be overwritten by the mappings of some sources only.

    `others`: tables of other sources, with the extracted values of their rows.
    """
    reach = {plan.targets[at].name: (plan.targets[at].mapping.target, at in plan.overwritable) for at in plan.merged}
    for source, schema, extracted in others if plan.safe and reach else ():
        if schema.target not in reach:
            continue
        target, ours = reach[schema.target]
        try:
            theirs = is_overwritable(map_table(schema.table, target, extracted))
        except TargetTableMismatch:  # that source raises the error itself, before its first write
            continue
        if theirs != ours:
            raise NotSupportedYet(
                "safe-mode: true for a merged table whose rows can be overwritten for some of its sources only",
                f"{schema.target}: the keys of {source}:{schema.table.name} and of this source's tables differ in type",
                "Leave safe-mode out of all its sources, or give their keys the same types and collations.",
            )


def overwrite_by_waiting(fence: Fence, servers: ContestServers, plan: SyncPlan) -> list[Collision]:
    """Write the contested rows of this source that replace others (`replaces`) to their places, in the order in which
    they became contested. Return the collisions with the rows there.

    Raises Fenced, TargetWentBack, RulesChanged, and what statements raise.
    """
    servers.transactions(partial(_forget, fence=fence, servers=servers, plan=plan))
    collisions: list[Collision] = []
    last_id = 0
    oldest = partial(oldest_rows, ref=fence.ref, seconds=0, most=ROWS_OF_A_TRANSACTION)
    while rows := servers.transactions(partial(oldest, after=last_id)):
        collisions += servers.transactions(partial(_put, fence=fence, servers=servers, rows=rows, plan=plan))
        last_id = rows[-1].id
    return [collision for collision in collisions if collision.missing or collision.present]


def check_waiting(connection: Connection, ref: SubtaskRef, plan: SyncPlan) -> None:
    """Raise RulesChanged if rows of this source wait for a target whose rows overwrite each other, while its shards
    hold back changes: a waiting row would replace a row with held-back changes, and held-back changes of a row that
    waits without an image would find no row."""
    holding = {group.target for group in read_groups(connection, ref) if group.members or group.resync}
    for target in sorted(waiting_targets(connection, ref) & plan.unowned & holding):
        raise RulesChanged(
            f"task {ref.task}, source {ref.source}: the shards of {target} may overwrite each other's rows now, by a "
            "filter that ignores INSERTs or UPDATEs or by on-duplicate-logical: replace. A DDL of the shards is "
            "pending, rows wait for their keys, and later values of rows are held back until it is executed.",
            f"Remove the filter or the setting, {UNTIL_RESOLVED}",
        )


def replaces(plan: SyncPlan, target: TableName, mapping: Callable[[], TableMapping], *, safe: bool) -> bool:
    """Return True if contested rows of a source table replace the rows in their places. `mapping`: of that table, which
    the plan lacks while it is held. `safe`: in safe mode."""
    if target in plan.unowned:
        return True
    return safe and target not in plan.not_overwritable and is_overwritable(mapping())


def _replaces(fence: Fence, servers: ContestServers, plan: SyncPlan, table: TableName, target: TableName) -> bool:
    mapping = partial(servers.mapped, fence.ref.source, table, target)
    return replaces(plan, target, mapping, safe=plan.safe)


def _forget(connection: Connection, *, fence: Fence, servers: ContestServers, plan: SyncPlan) -> None:
    """Delete contested rows without an image: the log of their shard overwrites or deletes each of them. Raises
    RulesChanged if a shard holds back its changes."""
    fence.check(connection)
    check_waiting(connection, fence.ref, plan)
    forget_without_image(connection, fence.ref, partial(_replaces, fence, servers, plan))


def _put(
    connection: Connection, *, fence: Fence, servers: ContestServers, rows: list[ContestedRow], plan: SyncPlan
) -> list[Collision]:
    fence.check(connection)
    collisions, put = [], []
    for (table, target), some in groupby(
        lock_rows(connection, fence.ref, [row.id for row in rows]), key=lambda row: (row.table, row.target)
    ):
        if not _replaces(fence, servers, plan, table, target):
            continue
        mapping, unowned = servers.mapped(fence.ref.source, table, target), target in plan.unowned
        access, waiting = servers.access(), list(some)
        literals = known_literals(mapping.source, access.dialect.server.flavour)
        put += [row.id for row in waiting]
        if unowned:
            access.write_rows(connection, mapping, [literals(row.row) for row in waiting], Verb.REPLACE)
            continue
        for row in waiting:  # one by one, as a row may overwrite an earlier one
            part = target_part(mapping)
            writes = OverwritingWrites(part, access, (), (), [literals(row.row)], (), by=str(table))
            collisions.append(writes.run(connection))
    if put:
        remove_rows(connection, fence.ref, put)
    return collisions
