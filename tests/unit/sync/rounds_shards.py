"""The shard DDL of one source in the world of rounds_world.py: the engine's groups and locks, over its SQLite.

A source's driver holds its shards back, agrees with the other source by a lock in a metadata DB that may be lost at any
time, and applies held rows in a lane of their own. Only what executes the target's DDL is the model's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from airflow_provider_dm.engine.downstream.ddl_execution import TargetDdl
from airflow_provider_dm.engine.downstream.frontier import extent, read_whole_frontier, whole_transaction
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.downstream.shard_groups import resync_fence
from airflow_provider_dm.engine.downstream.table_schema import load_table_schemas, put_table_schemas
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.shard.group import Group, HeldRows
from airflow_provider_dm.engine.sync.ddl.subtask_tables import SchemaChange, SubtaskTables
from airflow_provider_dm.engine.sync.shard_ddl import shard_locks, source_shards
from tests.unit.sync.rounds_sources import MERGED, SHARD_DDL, Ddl, Place
from tests.unit.sync.sqlite_target import META

if TYPE_CHECKING:
    from tests.unit.sync.rounds_driver import Driver

Json = dict[str, Any]


@dataclass
class Locks:
    """The metadata DB."""

    rows: dict[tuple[str, int], str] = field(default_factory=dict)

    def change_ddl_lock(self, _task: str, lock: str, number: int, how: Callable[[Json | None], Json | None]) -> Any:
        found = self.rows.pop((lock, number), None)
        after = how(None if found is None else json.loads(found))
        if after is not None:
            self.rows[lock, number] = json.dumps(after)
        return after

    def ddl_locks(self, _task: str) -> list[tuple[Json, float]]:
        return [(json.loads(one), 0.0) for one in self.rows.values()]


@contextmanager
def shards_in_the_world() -> Iterator[None]:
    """Let the engine find a driver where it expects its target."""
    with ExitStack() as stack:
        for module in (source_shards, shard_locks):
            stack.enter_context(patch.object(module, "target_connection", lambda driver: driver.connection()))
        stack.enter_context(patch.object(source_shards, "run_transaction", lambda driver, body: driver.do(body)))
        stack.enter_context(patch.object(source_shards, "execute_ddl", execute))
        stack.enter_context(patch.object(shard_locks, "unbegun_routers", lambda source: source.target.world.late()))
        yield


def execute(driver: Driver, fence: Fence, place: str, *_statements: object) -> None:
    """Execute a DDL of the merged table, once: that this is so is the business of ddl_world.py."""
    world, number = driver.world, int(place)

    def body(connection: Any) -> None:
        fence.check(connection)
        connection.strike()
        if world.form() == number:
            made = SHARD_DDL[number].of(MERGED).apply(world.database.state([MERGED]), 0)[MERGED]
            world.database.create(made.table, made.values())

    driver.do(body)
    world.done["shard DDL"] += 1


def meet(driver: Driver, at: Place, ddl: Ddl) -> None:
    """Hold a shard back that has made a DDL."""
    source, step = driver.source, driver.step(at, at.behind)
    before = SubtaskTables(tuple(load_table_schemas(driver.connection(), driver.ref)), _NOTHING)
    (name,) = ddl.names
    schema = before.schema(name)
    assert schema is not None
    became = replace(schema, table=source.states[at.number + 1][name].table)
    change = SchemaChange(before.put(became), (TargetDdl(ddl.kind, (MERGED,)),), agreed=name)
    places = source.location(at), source.location(at.behind)
    groups = driver.shards.groups_after(change, before, places, places[0], (), counts_as_made=False)

    def body(connection: Any) -> None:
        put_table_schemas(connection, driver.ref, [became])
        driver.shards.save(connection, groups)

    whole_transaction(driver.world.transaction, step, range(driver.buckets), body)
    driver.shards.take(groups)


def resync(driver: Driver, group: Group) -> Iterator[None]:
    """Apply the rows that were held back."""
    held, fence = group.resync, resync_fence(driver.fence, group)
    assert held is not None
    for stop in held.stops() if held.pieces else ():
        pieces, end = held.before(stop), driver.source.place_of(stop.sort_key)
        while True:
            keys = extent(read_whole_frontier(driver.connection(), fence.ref))
            low, edge = map(driver.source.place_of, keys)
            if keys[0] >= stop.sort_key:
                break
            high = edge if edge != low else driver.end_of_epoch(low, end)
            yield from driver.epoch(replace(driver.step(low, high), fence=fence), _plan(driver, pieces), low, high)
    driver.shards.finish(group, driver.plan(without=group))
    driver.world.done["re-syncs"] += 1


def _plan(driver: Driver, pieces: Sequence[HeldRows]) -> Any:
    known = {one.table.name: one for one in load_table_schemas(driver.connection(), driver.ref)}
    schemas = tuple(replace(known[one.shard], table=one.table) for one in pieces)
    return replace(driver.plan_of(schemas, frozenset(), several=True), alone=True)


def held_places(driver: Driver) -> dict[TableName, tuple[int, int]]:
    """Return between which positions of the source's log the held shards are, read without the engine."""
    database, source = driver.world.database, driver.source

    def number(place: Json) -> int:
        return source.state_of(Place(place["suffix"] - 1, place["position"]))

    def rows(columns: str, table: str) -> list[Any]:
        return database.sqlite.execute(
            f"SELECT {columns} FROM {META}.{table} WHERE source = ?", (source.name,)
        ).fetchall()

    found: dict[TableName, tuple[int, int]] = {}
    groups = rows("resolved, resync", "dm_shard_group")
    members = rows("table_schema, table_name, items", "dm_shard_member")
    if not groups or not members:
        return found
    ((resolved, left),) = groups
    for schema, name, items in members:
        made = [number(one["at"]) for one in json.loads(items)]
        if made:
            at = made[0] + (driver.world.form() > resolved)
            found[TableName(schema, name)] = at, at
    lane = database.frontier(resync_fence(driver.fence, Group(MERGED, resolved)).ref.lane)
    for piece in json.loads(left)["pieces"] if left and lane else ():
        low, high = (source.state_of(source.place_of(key)) for key in lane or ())
        after, until = number(piece["after"]), number(piece["until"])
        found[TableName(*piece["shard"])] = min(max(low, after), until), min(max(high, after), until)
    return found


_NOTHING: Any = None
