"""Where a subtask's sync stands when it starts: plan, frontier, mode, goal. Everything that is read once.

An incremental-only task has no full load, so its start makes the dm_subtask row: from the configured location, or from
the end of the upstream's log. Rows are decoded by the schema of *today*; DDL between the start and today would stop the
task (docs/limits.md). From a configured start the target's rows may be newer than the log, as when somebody has copied
them: catch-up until where the log ends today.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from airflow_provider_dm.engine.config.job import JobSpec, SourceSpec
from airflow_provider_dm.engine.config.task import SubtaskConfig, TaskMode
from airflow_provider_dm.engine.errors import DmError, InvariantBroken, Scope
from airflow_provider_dm.engine.mysql.binlog_status import current_location
from airflow_provider_dm.engine.mysql.connection import Connection, connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location, Order, compare
from airflow_provider_dm.engine.relay.reader import RelayReader
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules, select
from airflow_provider_dm.engine.rules.route import Router
from airflow_provider_dm.engine.schema.catalogue import list_tables, read_tables
from airflow_provider_dm.engine.sync.place import check_numbers, in_relay, location_at, numbered
from airflow_provider_dm.engine.sync.plan import SyncPlan, make_plan
from airflow_provider_dm.engine.target.copy_progress import load_chunks
from airflow_provider_dm.engine.target.frontier import Stand, extent, read_all_stands
from airflow_provider_dm.engine.target.session import run_transaction, target_connection
from airflow_provider_dm.engine.target.subtask import (
    HASH_VERSION,
    UNIT_SYNC,
    Subtask,
    SubtaskMissing,
    begin_subtask,
    note_plan,
    read_subtask,
)
from airflow_provider_dm.engine.target.table_schema import (
    TableSchema,
    forget_table_schemas,
    load_table_schemas,
    save_table_schemas,
)


@dataclass(eq=False)
class GoalBehind(DmError):
    """`until` names a location of another history."""

    goal: str
    here: str

    code: ClassVar[str] = "DM-6040"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    what: ClassVar[str] = "the sync stands at {here}; {goal} is not in the same log."
    hint: ClassVar[str] = "Give `until` as FILE:POSITION with a file of this source."


@dataclass(eq=False)
class SourceWentBack(DmError):
    """The end of the source's log lies before what was applied of it: it is another log."""

    end: str
    here: str

    code: ClassVar[str] = "DM-6043"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    what: ClassVar[str] = "the source's binlog ends at {end}, and it was applied up to {here} before."
    hint: ClassVar[str] = (
        "The source lost or rewrote its binlog (RESET MASTER, a restored server, a crash with sync_binlog other than "
        "1). What it wrote since cannot be told from what is applied: migrate in full again."
    )


@dataclass(eq=False)
class PlanChanged(DmError):
    """Tables, keys or rules are others than those by which half an epoch was written."""

    task: str
    source: str
    lo: str
    edge: str

    code: ClassVar[str] = "DM-6042"
    what: ClassVar[str] = (
        "task {task}, source {source}: the epoch from {lo} to {edge} is half written, and since then the rules, the "
        "tables of the task or the keys of a target table have changed."
    )
    hint: ClassVar[str] = "Change them back, let the sync go on until it is behind that place, and change them then."


@dataclass(eq=False)
class TableLeftOut(DmError):
    """A table comes back into the task, and what happened to it meanwhile is lost."""

    table: str

    code: ClassVar[str] = "DM-6044"
    what: ClassVar[str] = (
        "{table} was copied by this task and left out by the block-allow-list later: its changes since were passed "
        "over, and the task cannot go on with it as if nothing had been."
    )
    hint: ClassVar[str] = "Leave it out still, or migrate it in full with another task (another name)."


@dataclass(frozen=True)
class SyncTarget:
    """One subtask in the target: where, and under which generation."""

    endpoint: Endpoint
    meta_schema: str
    task: str
    source: str
    generation: int


@dataclass(frozen=True)
class Opened:
    """A subtask ready to be synced. `lo` is applied in all buckets; `edge`, if not None, in some: the first epoch ends
    there. `goal` None: no end."""

    plan: SyncPlan
    target: SyncTarget
    lo: Location
    edge: Location | None
    catch_up_until: Location | None
    goal: Location | None


def open_sync(spec: JobSpec, source_id: str, generation: int) -> Opened:
    """Read all of it.

    Raises SubtaskMissing, GoalBehind, SourceWentBack, PlanChanged, TableLeftOut, RouteChanged, and what reading schemas
    and making a plan raises.
    """
    source, config = spec.source(source_id), spec.task.subtask(source_id)
    target = SyncTarget(spec.target.resolve(), config.meta_schema, config.task, source_id, generation)
    connection = target_connection(target.endpoint)
    subtask = read_subtask(connection, config.meta_schema, config.task, source_id)
    if (subtask is None or subtask.start is None) and config.mode is TaskMode.INCREMENTAL:
        _begin_incremental(source, config, target)
        subtask = read_subtask(connection, config.meta_schema, config.task, source_id)
    if subtask is None or subtask.location is None or subtask.unit != UNIT_SYNC:
        raise SubtaskMissing(config.task, source_id)
    stands = read_all_stands(connection, config.meta_schema, config.task, source_id)
    reader = RelayReader(Path(source.relay_dir))
    lo, edge = _between(stands, subtask, reader)
    if subtask.start is None or lo.sort_key != subtask.start.sort_key:  # else the relay may have yet to make it
        check_numbers(lo, reader, reader.newest_suffix())
    lo = numbered(lo, subtask, reader)
    plan, left_out = _plan(connection, config, source_id, subtask.buckets)
    _check_plan(plan, left_out, subtask, target, lo, edge)
    return Opened(
        plan=plan,
        target=target,
        lo=lo,
        edge=edge,
        catch_up_until=subtask.catch_up_until,
        goal=_goal(spec.until, source, lo),
    )


def _between(stands: Sequence[Stand], subtask: Subtask, reader: RelayReader) -> tuple[Location, Location | None]:
    assert subtask.location is not None
    if len(stands) != subtask.buckets or subtask.hash_version != HASH_VERSION:
        raise InvariantBroken(
            "the frontier has one row for each bucket, made by this version's hash",
            f"{len(stands)} rows for {subtask.buckets} buckets, hash version {subtask.hash_version}",
        )
    lo, edge = (location_at(key, subtask.location, reader.base_of) for key in extent(stands))
    return lo, None if compare(lo, edge) is Order.SAME else edge


def _check_plan(
    plan: SyncPlan,
    left_out: Sequence[TableName],
    subtask: Subtask,
    target: SyncTarget,
    lo: Location,
    edge: Location | None,
) -> None:
    """Half an epoch is completed by the plan that began it (frontier rule 6); else the new one holds from here.

    A table that it leaves out is forgotten, as it could not come back without a gap.
    """
    fingerprint = plan.fingerprint()
    if fingerprint == subtask.plan:
        return
    if edge is not None:
        raise PlanChanged(subtask.task, subtask.source, str(lo), str(edge))
    where = (target.meta_schema, target.task, target.source)

    def body(connection: Connection) -> None:
        note_plan(connection, *where, generation=target.generation, plan=fingerprint)
        forget_table_schemas(connection, *where, left_out)

    run_transaction(target.endpoint, body)


def _goal(until: str, source: SourceSpec, lo: Location) -> Location | None:
    if until == "forever":
        return None
    if until == "caught-up":
        with connected(source.endpoint.resolve()) as connection:
            end = in_relay(current_location(connection), connection, source, otherwise=lo.suffix)
        check_numbers(lo, RelayReader(Path(source.relay_dir)), end.suffix)
        if compare(lo, end) is Order.AFTER:
            raise SourceWentBack(str(end), str(lo))
        return end
    newest = RelayReader(Path(source.relay_dir)).newest_suffix()
    goal = replace(Location.parse(until), suffix=max(lo.suffix, newest or 0))
    if compare(lo, goal) is Order.UNRELATED:
        raise GoalBehind(str(goal), str(lo))
    return goal


def _plan(
    connection: Connection, config: SubtaskConfig, source_id: str, buckets: int
) -> tuple[SyncPlan, list[TableName]]:
    """The plan, and the tables that the rules leave out of what the task began with."""
    where = (config.meta_schema, config.task, source_id)
    rules, router = compiled_rules(config)
    known = load_table_schemas(connection, *where)
    names = {schema.table.name for schema in known}
    for chunk in load_chunks(connection, *where):
        if chunk.table not in names and rules.allows(chunk.table):
            raise TableLeftOut(str(chunk.table))
    schemas = [schema for schema in known if rules.allows(schema.table.name)]
    for schema in schemas:
        schema.check_route(router.route(schema.table.name))
    targets = read_tables(connection, {router.route(schema.table.name) for schema in schemas})
    plan = make_plan(schemas, targets, rules=rules, router=router, buckets=buckets)
    return plan, [name for name in sorted(names) if not rules.allows(name)]


def compiled_rules(config: SubtaskConfig) -> tuple[BlockAllowRules, Router]:
    """Raises InvalidPattern."""
    rules = BlockAllowRules.from_config(
        config.block_allow, case_sensitive=config.case_sensitive, meta_schema=config.meta_schema
    )
    return rules, Router.from_config(config.routes, case_sensitive=config.case_sensitive)


def _begin_incremental(source: SourceSpec, config: SubtaskConfig, target: SyncTarget) -> None:
    rules, router = compiled_rules(config)
    with connected(source.endpoint.resolve()) as connection:
        today = in_relay(current_location(connection), connection, source)
        tables = read_tables(connection, select(list_tables(connection), rules))
    start = replace(config.start, suffix=today.suffix) if config.start else today
    where = (target.meta_schema, target.task, target.source)

    def body(connection: Connection) -> None:
        begin_subtask(
            connection,
            *where,
            generation=target.generation,
            unit=UNIT_SYNC,
            start=start,
            catch_up_until=today if config.start else None,
        )
        schemas = [TableSchema(table, router.route(name)) for name, table in tables.items()]
        save_table_schemas(connection, *where, schemas)

    run_transaction(target.endpoint, body)
