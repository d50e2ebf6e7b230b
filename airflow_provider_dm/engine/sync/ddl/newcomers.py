"""Source tables that the log itself brings into a merged table, while it is not exact of all sources yet.

A table that is created there has no row in the target yet, so all of its rows can be recorded (merge/joining.py) where
the log alone does not tell whose a row is. To wait for the others instead would be to wait for good, where they wait
for a table of their own, or for this log to come on.

    its log is exact, behind a load           no records: what others have of their loads tells them what is theirs
    its log overlaps the load                 recorded, if others are there, or rows of its other tables are
    a past that is not exact                  no records, rows are written over

Who began there alone, and is not exact yet, records nothing and takes each row at its keys for its own (DM-6025).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from airflow_provider_dm.engine.merge.joining import Other, OwnerNotReady, read_others
from airflow_provider_dm.engine.merge.recorded_key import recorded_key
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.catalogue import read_tables
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.target.identity import SubtaskRef
from airflow_provider_dm.engine.target.owner_numbers import forget_owners, give_owner_numbers
from airflow_provider_dm.engine.target.table_schema import Feeder, TableSchema, load_feeders

UNKNOWN_NUMBER: Final = 1
"""What stands for a number until there is one."""


def recorded_newcomers(
    connection: Connection, ref: SubtaskRef, fresh: Sequence[TableSchema], *, overlaps: bool
) -> dict[TableName, str]:
    """Return those of the new tables whose rows are to be recorded, and by which keys. Raises OwnerNotReady.

    `overlaps`: the subtask's log overlaps its load.
    """
    anew = {(ref.source, one.table.name) for one in fresh}  # those that are made anew count for none
    feeders = [one for one in load_feeders(connection, ref) if (one.source, one.table) not in anew] if fresh else []
    fed = {one.target for one in feeders}
    merged = [one for one in fresh if one.target in fed]  # other targets are yet to be made
    if not merged:
        return {}
    there = read_tables(connection, {one.target for one in merged})
    others = read_others(connection, ref, full=False)
    mine = [one for one in feeders if one.source == ref.source]
    return {
        one.table.name: recorded_key(target)
        for one in merged
        for target in [there[one.target]]
        if target.identity is not None and is_recorded(ref, one, mine, others, overlaps=overlaps)
    }


def is_recorded(
    ref: SubtaskRef,
    fresh: TableSchema,
    mine: Collection[Feeder],
    others: Collection[Other],
    *,
    overlaps: bool,
) -> bool:
    """Tell whether rows of a new table are to be recorded. Raises OwnerNotReady.

    `mine`, `others`: the source tables that were there before, of all targets.
    """
    elsewhere = [other for other in others if other.feeder.target == fresh.target]
    recording = any(one.owner > 0 for one in mine if one.target == fresh.target)
    for other in elsewhere:
        feeder = other.feeder
        if feeder.owner <= 0 and not other.exact and other.loaded:
            names = (str(fresh.table.name), feeder.source, str(feeder.table), str(fresh.target))
            raise OwnerNotReady(ref.source, *names)
    return overlaps and (recording or bool(elsewhere))


def with_numbers(schemas: Sequence[TableSchema], numbers: Mapping[TableName, int]) -> tuple[TableSchema, ...]:
    if not numbers:
        return tuple(schemas)
    return tuple(replace(one, owner=numbers.get(one.table.name, one.owner)) for one in schemas)


def plan_with_numbers(plan: SyncPlan, numbers: Mapping[TableName, int]) -> SyncPlan:
    owners = (numbers.get(part.table.name, owner) for part, owner in zip(plan.sources, plan.owners, strict=True))
    return replace(plan, owners=tuple(owners)) if numbers else plan


def number(connection: Connection, ref: SubtaskRef, keys: Mapping[TableName, str]) -> dict[TableName, int]:
    """Give new tables their numbers, in a transaction that has checked the generation and that may be made anew."""
    if not keys:
        return {}
    forget_owners(connection, ref, keys)
    return give_owner_numbers(connection, ref, keys)
