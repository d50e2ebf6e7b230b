"""Reads the state from which a subtask's sync starts: plan, frontier, safe mode, goal.

The full load has written the row in dm_subtask; for an incremental-only task `begin_incremental` writes it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from airflow_provider_dm.engine.binlog.open_places import OpenPlace
from airflow_provider_dm.engine.binlog.xa import needed_location
from airflow_provider_dm.engine.config.job import UNTIL_FOREVER, SourceSpec, place_of
from airflow_provider_dm.engine.config.units import Apply
from airflow_provider_dm.engine.ddl.first_words import first_words
from airflow_provider_dm.engine.downstream.contested_row import waiting
from airflow_provider_dm.engine.downstream.copy_progress import ChunkProgress, load_chunks
from airflow_provider_dm.engine.downstream.ddl_journal import statements_under_way, tables_under_way
from airflow_provider_dm.engine.downstream.errors import NoTargetTable, SubtaskMissing
from airflow_provider_dm.engine.downstream.frontier import FrontierRow, extent, read_whole_frontier
from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.prepared_xa import restore_prepared
from airflow_provider_dm.engine.downstream.safe_mode_window import load_window
from airflow_provider_dm.engine.downstream.session import run_transaction, target_connection
from airflow_provider_dm.engine.downstream.shard_groups import held_tables, read_groups
from airflow_provider_dm.engine.downstream.subtask import (
    HASH_VERSION,
    UNIT_LOAD,
    UNIT_SYNC,
    Subtask,
    note_plan,
    read_subtask,
)
from airflow_provider_dm.engine.downstream.table_schema import (
    TableSchema,
    forget_table_schemas,
    load_feeders,
    load_table_schemas,
)
from airflow_provider_dm.engine.errors import MIGRATE_AGAIN, InvalidInput, InvariantBroken
from airflow_provider_dm.engine.meta.records import Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.binlog_status import current_location
from airflow_provider_dm.engine.mysql.connection import Connection, connected
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location, Order, compare, has_passed
from airflow_provider_dm.engine.relay.reader import RelayReader
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.errors import UNTIL_RESOLVED, RulesChanged
from airflow_provider_dm.engine.rules.subtask_rules import SubtaskRules
from airflow_provider_dm.engine.schema.catalogue import read_tables
from airflow_provider_dm.engine.schema.errors import TableNotFound
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.schema.text_folds import read_folds
from airflow_provider_dm.engine.shard.group import needed_with
from airflow_provider_dm.engine.sync.coverage import coverages
from airflow_provider_dm.engine.sync.ddl.source_definitions import adopt_user_definitions
from airflow_provider_dm.engine.sync.errors import SourceWentBack
from airflow_provider_dm.engine.sync.log.locations import check_numbers, in_relay, location_at, with_gtid_set
from airflow_provider_dm.engine.sync.loop_state import LoopState
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.plan.plan_making import SharedTargets, make_plan
from airflow_provider_dm.engine.sync.plan.plan_parts import text_collations
from airflow_provider_dm.engine.sync.safe_mode.last_wins import check_same_overwritable
from airflow_provider_dm.engine.sync.safe_mode.states import SafeMode
from airflow_provider_dm.engine.sync.sharing import targets_in_order
from airflow_provider_dm.engine.sync.start.begin_incremental import LogNeedReporter, begin_incremental
from airflow_provider_dm.engine.sync.sync_source import SyncSource


@dataclass(frozen=True)
class StartedSync:
    """A subtask ready to be synced."""

    state: LoopState
    loaded: bool
    """True if the task has had a load; otherwise the target was filled by other means."""
    open_places: tuple[OpenPlace, ...]
    """The open places after the location that all buckets have reached, except `edge`."""


def open_sync(
    source: SyncSource, *, store: MetaStore, stop: threading.Event, loading: bool = False, goal: Location | None = None
) -> StartedSync:
    """Read the state of a subtask, and report the location from which the log is needed to the metadata DB.

    `loading`: the log is applied between two rounds of a load. `goal`: None for the goal of the job's `until`.
    Raises SubtaskMissing, InvalidInput, SourceWentBack, RulesChanged, TargetKeyNotKept, what
    `begin_incremental` raises, and what reading schemas and making a plan raises.
    """
    ref, need_reporter = source.fence.ref, LogNeedReporter(source, store, Unit.LOAD if loading else Unit.SYNC)
    connection = target_connection(source.target)
    if not loading:
        begin_incremental([source], store=store, stop=stop)
    adopt_user_definitions(source)
    subtask, frontier = read_subtask(connection, ref), read_whole_frontier(connection, ref)
    if subtask is None or subtask.location is None or subtask.unit != (UNIT_LOAD if loading else UNIT_SYNC):
        raise SubtaskMissing(*ref.key)
    reader = RelayReader(Path(source.spec.relay_dir))
    lo, edge = applied_and_edge(frontier, subtask, reader.base_of)
    prepared = tuple(run_transaction(source.target, lambda tx: restore_prepared(tx, source.fence, lo.sort_key)))
    needed = needed_with(needed_location(lo, prepared), read_groups(connection, ref))
    need_reporter.report(None if loading else lo, needed, again=True)
    if subtask.start is None or lo.sort_key != subtask.start.sort_key:  # at the start, a relay may not have begun yet
        check_numbers(lo, reader, reader.newest_suffix())
    pulled = source.spec.fallback_dir  # an earlier run may have pulled more than the relay
    elsewhere = () if pulled is None else (RelayReader(Path(pulled)),)
    lo = replace(lo, created=lo.created or reader.created(lo))
    lo = with_gtid_set(lo, subtask, reader, by_gtid=source.spec.config.enable_gtid, elsewhere=elsewhere)
    plan, left_out = _plan(connection, source, subtask.buckets, extent(frontier)[0])
    if not source.config.overwrites:
        plan.check_filtered()
    until = subtask.overwrite_until
    if until is not None and not has_passed(lo, until):
        plan.check_keys_kept()
    safe_mode = SafeMode(source.config.syncer.safe_mode, until, load_window(connection, ref))
    plan = with_safe_mode(source, plan, overwrites=safe_mode.is_lenient(lo))
    first_plan = plan_to_begin_with(plan, subtask, lo, edge)
    if first_plan.fingerprint() != subtask.plan:  # a half-applied epoch keeps the plan that began it
        _save_plan(first_plan, left_out, source)
    return StartedSync(
        LoopState(
            source.fence,
            applied=lo,
            here=lo,
            edge=edge,
            goal=goal or _goal(source.job.until, source.spec, lo),
            plan=plan,
            written_by=first_plan,
            safe_mode=safe_mode,
            prepared=prepared,
        ),
        loaded=bool(load_chunks(connection, ref)),
        open_places=read_open_places(connection, ref, source.rules.block_allow, lo, reader.base_of, until),
    )


def applied_and_edge(
    frontier: Sequence[FrontierRow], subtask: Subtask, base_of: Callable[[int], str | None]
) -> tuple[Location, Location | None]:
    """Return `applied` and `edge` of the `LoopState`. `base_of`: see `location_at`. Raises InvariantBroken."""
    assert subtask.location is not None
    if len(frontier) != subtask.buckets or subtask.hash_version != HASH_VERSION:
        raise InvariantBroken(
            "the frontier has one row for each bucket, made by this version's hash",
            f"{len(frontier)} rows for {subtask.buckets} buckets, hash version {subtask.hash_version}",
        )
    lo, edge = (location_at(key, subtask.location, base_of) for key in extent(frontier))
    return lo, None if compare(lo, edge) is Order.SAME else edge


def plan_to_begin_with(plan: SyncPlan, subtask: Subtask, lo: Location, edge: Location | None) -> SyncPlan:
    """Return the plan for the first epoch: if it is half applied, the plan that began it (frontier rule 6), else the
    new plan. Raises RulesChanged.
    """
    if edge is None:
        return plan
    for one in (plan, *plan.in_all_modes()):
        if one.fingerprint() == subtask.plan:
            return one
    raise RulesChanged(
        f"task {subtask.task}, source {subtask.source}: the epoch from {lo} to {edge} is half written, and "
        "since then the rules, the tables of the task or the keys of a target table have changed.",
        "1. Change them back. 2. Run the sync until it has passed that location. 3. Make your change again. If a "
        "unique key that only the target has stops step 2, change the row that violates the key, and drop the key "
        "after step 2.",
    )


def _save_plan(plan: SyncPlan, left_out: Sequence[TableName], source: SyncSource) -> None:
    """Save the fingerprint of the new plan, and delete the stored schemas of excluded tables: such a table cannot be
    included again, as its changes since were skipped."""

    def body(connection: Connection) -> None:
        note_plan(connection, source.fence, plan.fingerprint())
        forget_table_schemas(connection, source.fence.ref, left_out)

    run_transaction(source.target, body)


def shared_targets(connection: Connection, ref: SubtaskRef) -> frozenset[TableName]:
    """Return the target tables into which other sources of the task have begun to write, or for which this source has
    contested rows, possibly of a table that is excluded now."""
    fed = (feeder.target for feeder in load_feeders(connection, ref) if feeder.source != ref.source)
    return frozenset(fed).union(one.target for one in waiting(connection, ref) if one.source == ref.source)


def _goal(until: str, source: SourceSpec, lo: Location) -> Location | None:
    if until == UNTIL_FOREVER:
        return None
    place = place_of(until)
    if place is None:
        with connected(source.endpoint.resolve()) as connection:
            end = in_relay(current_location(connection), connection, source, otherwise=lo.suffix)
        check_numbers(lo, RelayReader(Path(source.relay_dir)), end.suffix)
        return goal_at_end(end, lo)
    return goal_at_place(place, lo, RelayReader(Path(source.relay_dir)).newest_suffix())


def goal_at_end(end: Location, lo: Location) -> Location:
    """Return the current end of the source's log as the goal of a sync at `lo`. Raises SourceWentBack."""
    if compare(lo, end) is Order.AFTER:
        raise SourceWentBack(str(end), str(lo))
    return end


def goal_at_place(place: Location, lo: Location, newest: int | None) -> Location:
    """Return a user's FILE:POSITION as a goal in the newest known log. `newest`: the number of the relay's last
    sub-directory, None if it has none. Raises InvalidInput.
    """
    goal = replace(place, suffix=max(lo.suffix, newest or 0))
    if compare(lo, goal) is Order.UNRELATED:
        raise InvalidInput(
            f"the checkpoint is {lo}; {goal} is not in the same log.",
            "Give `until` as FILE:POSITION with a file of this source.",
        )
    return goal


def _plan(connection: Connection, source: SyncSource, buckets: int, lo: str) -> tuple[SyncPlan, list[TableName]]:
    """Return the plan, and the tables of the task that the rules now exclude. `lo`: the frontier's lowest sort key."""
    ref, rules = source.fence.ref, source.rules
    known = load_table_schemas(connection, ref)
    schemas, left_out = allowed(known, [chunk.table for chunk in load_chunks(connection, ref)], rules.block_allow)
    for schema in schemas:
        schema.check_route(rules.router)
    under_way = tables_under_way(connection, ref, lo)
    held = held_tables(connection, ref)
    _check_excluded_shards(left_out, held, known)
    return plan_for(source, schemas, buckets, under_way=under_way, held=held), left_out


def _check_excluded_shards(
    left_out: Collection[TableName], held: Collection[TableName], known: Sequence[TableSchema]
) -> None:
    """Raise RulesChanged if the rules exclude a shard of a merged table with a pending DDL. `held`: the held shards."""
    unresolved = {one.target for one in known if one.table.name in held}
    for one in known:
        if one.table.name in left_out and one.target in unresolved:
            raise RulesChanged(
                f"the block-allow-list now leaves out {one.table.name}, while a DDL of the shards of {one.target} "
                "is pending and their rows are held back.",
                f"Change the rules back, {UNTIL_RESOLVED}",
            )


def plan_for(
    source: SyncSource,
    schemas: Sequence[TableSchema],
    buckets: int,
    *,
    under_way: Collection[TableName] = (),
    held: Collection[TableName] = frozenset(),
    also_merged: Collection[TableName] = frozenset(),
    read: Mapping[TableName, Table] | None = None,
    chunks: Sequence[ChunkProgress] | None = None,
) -> SyncPlan:
    """Return the plan for these tables, with the current definitions of the target's tables.

    `under_way`: target tables with a DDL that a crash has interrupted. The DDL is completed before the next row, so
    the source's definitions are used for them. `held`: tables whose rows are skipped for now. `also_merged`: target
    tables that also receive rows of tables which are not in `schemas`. `read`: definitions of target tables that are
    known to be unchanged, to save queries. `chunks`: None: read from the target.

    Raises NoTargetTable, and what `make_plan` raises.
    """
    connection, ref, syncer = target_connection(source.target), source.fence.ref, source.config.syncer
    chunks = load_chunks(connection, ref) if chunks is None else chunks
    wanted = {schema.target for schema in schemas if schema.table.name not in held}
    targets = {name: table for name, table in (read or {}).items() if name in wanted}
    try:
        targets |= read_tables(connection, wanted.difference(under_way, targets))
    except TableNotFound as error:
        raise NoTargetTable(
            f"the target has no table {error.table}.",
            f"Create it like the source's table if nothing was written to it yet; else {MIGRATE_AGAIN}.",
        ) from None
    targets |= {one.target: replace(one.table, name=one.target) for one in schemas if one.target in under_way}
    collations = [name for target in targets.values() for name in text_collations(target)]
    elsewhere = shared_targets(connection, ref).union(also_merged)
    in_order = targets_in_order(source.job)(load_feeders(connection, ref))
    plan = make_plan(
        schemas,
        targets,
        folds=read_folds(connection, collations),
        rules=source.rules,
        buckets=buckets,
        shared=SharedTargets(elsewhere, in_order, source.config.syncs_by_owner or not chunks),
        held=held,
        coverage=coverages(chunks),
    )
    return replace(plan, compact=syncer.compact, whole=syncer.apply is Apply.TRANSACTIONAL)


def with_safe_mode(source: SyncSource, plan: SyncPlan, *, overwrites: bool) -> SyncPlan:
    """Return the plan with safe mode (`overwrites`) on or off. Raises the errors of `check_same_overwritable`."""
    plan = replace(plan, safe=overwrites)
    check_same_overwritable(plan, _tables_of_other_sources(source) if overwrites else ())
    return plan


def _tables_of_other_sources(source: SyncSource) -> Iterator[tuple[str, TableSchema, Mapping[str, str]]]:
    """Yield the tables of the task's other sources, with their extracted values."""
    connection, ref, job = target_connection(source.target), source.fence.ref, source.job
    for name in sorted({feeder.source for feeder in load_feeders(connection, ref)} - {ref.source}):
        router = SubtaskRules.of(job.subtask(name)).router if name in job.task.source_ids else None
        for schema in load_table_schemas(connection, ref.of_source(name)):
            yield name, schema, router.extracted(schema.table.name) if router else {}


def allowed(
    known: Sequence[TableSchema], copied: Iterable[TableName], rules: BlockAllowRules
) -> tuple[list[TableSchema], list[TableName]]:
    """Return the task's tables that the rules allow, and the names of those that they exclude.

    `copied`: the tables with which the task began. Raises RulesChanged for one that was excluded and is allowed again.
    """
    names = {schema.table.name for schema in known}
    for table in copied:
        if table not in names and rules.allows(table):
            raise RulesChanged(
                f"{table} was copied by this task and then left out by the block-allow-list: its changes since were "
                "skipped, so the task cannot continue with it.",
                "Exclude the table again. To bring it back, exclude all source tables of its target table, empty that, "
                "and migrate them with a task of another name.",
            )
    schemas = [schema for schema in known if rules.allows(schema.table.name)]
    return schemas, [name for name in sorted(names) if not rules.allows(name)]


def read_open_places(
    connection: Connection,
    ref: SubtaskRef,
    rules: BlockAllowRules,
    lo: Location,
    base_of: Callable[[int], str | None],
    overwrite_until: Location | None,
) -> tuple[OpenPlace, ...]:
    """Return the open places after `lo`. `base_of`: see `location_at`. `overwrite_until`: from dm_subtask.

    Raises IncompleteResult.
    """

    def found() -> Iterator[tuple[str, str, Location | None]]:
        for position, sql in statements_under_way(connection, ref, lo.sort_key):
            what = f"the target has begun to execute the DDL at that location ({first_words(sql)})"
            yield position, what, None
        for schema in load_table_schemas(connection, ref):
            if rules.allows(schema.table.name):
                until = schema.skip_until
                yield until, f"DM has applied {schema.table.name} up to there", known_end_after(until, overwrite_until)

    return tuple(
        OpenPlace(ref.source, location_at(key, lo, base_of), what, within=within)
        for key, what, within in found()
        if key > lo.sort_key
    )


def known_end_after(key: str, overwrite_until: Location | None) -> Location | None:
    """Return the end of the inexact part of the log if its GTID set is known and the location `key` is before it."""
    if overwrite_until is None or not overwrite_until.gtid_set:
        return None
    same_log = key.partition(".")[0] == overwrite_until.sort_key.partition(".")[0]
    return overwrite_until if same_log and key <= overwrite_until.sort_key else None
