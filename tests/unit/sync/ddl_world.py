"""A small world in which DDL is followed: the engine's own code over the target of ddl_target.py, with accidents.

Each run of a source is a greenlet, so one of them acts at a time. Wherever a run speaks to the target or to the
metadata DB, and inside its transactions, fate may have it die, lose its connection or the answer to a COMMIT, or
freeze: then another run begins with a newer generation, and the frozen one continues later, as if nothing had been, at
any moment. A DDL statement whose client is gone takes effect when it likes, unless its connection was killed. A run may
find that the user has chosen another mode meanwhile. Modes, keys and safe mode of a history are its *way* (ddl_ways).

All of it is the engine's: the claim, the plan at the beginning, what a statement means, the lock, the journal, how rows
are folded and written, safe mode, the transactions, the frontier, and what a user wants done at a place. In the end
the target must be what the logs make of it one after the other.

`strikes_at` makes fate sure: the first run dies, or freezes, at just this moment of its life, and nothing else happens.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from greenlet import getcurrent, greenlet

from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import TableDefinition
from airflow_provider_dm.engine.downstream import session
from airflow_provider_dm.engine.downstream.claim import claim_generation
from airflow_provider_dm.engine.downstream.contested_row import RowOwner
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.row_statements import Dialect
from airflow_provider_dm.engine.downstream.subtask import UNIT_SYNC, begin_subtask
from airflow_provider_dm.engine.downstream.table_definitions import Definitions, begin_definitions
from airflow_provider_dm.engine.downstream.table_schema import TableSchema, save_table_schemas
from airflow_provider_dm.engine.errors import DmError, Reaction
from airflow_provider_dm.engine.merge.owner_writer import OwnerWriter
from airflow_provider_dm.engine.meta.binlog_operators import is_passed
from airflow_provider_dm.engine.meta.records import Operator, OperatorState
from airflow_provider_dm.engine.mysql.connection import query
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.rules.mapping import map_table
from airflow_provider_dm.engine.schema.codec import row_literals
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.sync.safe_mode.overwriting import Collision
from airflow_provider_dm.engine.sync.sync_source import SyncSource
from tests.unit.sync.ddl_changes import MERGED, is_shard
from tests.unit.sync.ddl_engine import SOURCES, here, ref_of, routed, source_of
from tests.unit.sync.ddl_filling import Filling
from tests.unit.sync.ddl_history import NAMES, SCHEMA, History, make_histories, place_of
from tests.unit.sync.ddl_merged import Counted, counted, merged_differences
from tests.unit.sync.ddl_sync import BUCKETS, Quirks, Sync, key_of
from tests.unit.sync.ddl_tables import Row
from tests.unit.sync.ddl_target import Connection, Died, TargetServer
from tests.unit.sync.ddl_ways import COLLIDING, Safe, Way
from tests.unit.sync.sqlite_target import META, access, in_sqlite

_MERGED: Final = TableName(SOURCES[0], MERGED)
MOST_RUNS: Final = 4
"""Then fate lets the newest one live."""
MOST_STEPS: Final = 20_000
STEP_SECONDS: Final = 0.3
RESTING_SECONDS: Final = 3.0
"""What passes while a run has nothing to do but to wait for others."""


@dataclass(eq=False)
class Subtask:
    """One source of the task, and its runs."""

    ref: SubtaskRef
    history: History
    generation: int = 0
    runs: int = 0
    newest: Run | None = None
    arrived: bool = False


@dataclass(eq=False)
class Run:
    """A process. `sessions`: its connections to the target as the engine keeps them."""

    world: World
    subtask: Subtask
    generation: int
    asleep: bool = False
    rests: bool = False
    """It has nothing to do but to wait for others."""
    connections: list[Connection] = field(default_factory=list)
    sessions: dict[Endpoint, session._Session] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.go = greenlet(self.main, self.world.hub)

    def main(self) -> None:
        try:
            self._live()
        except Died:
            self.world.done["died"] += 1
        except Exception as error:  # noqa: BLE001 (what it means depends on whose it is)
            self.world.ended(self, error)
        else:
            self.world.ended(self, None)
        finally:
            for connection in self.connections:
                connection.close()
            self.world.leave(self)

    def _live(self) -> None:
        source = self.world.source_of(self)
        if not self.world.quirks.no_claim:
            claim_generation(source.target, source.fence)
        while True:
            try:
                return Sync(self.world, source, self.subtask.history.log, self.world.wishes).run()
            except DmError as error:
                if error.reaction is not Reaction.RETRY:
                    raise
                self.world.done["continued by itself"] += 1
                self.world.rest()


class Operators:
    """Orders of a user for places of the logs, as the metadata DB keeps it."""

    def __init__(self, world: World, operators: Sequence[Operator]) -> None:
        self.world, self.kept = world, list(operators)

    def operators(self, task: str, source: str) -> list[Operator]:
        return [one for one in self.kept if (one.task, one.source) == (task, source)]

    def mark_operator_used(self, operator: Operator, at: Location) -> None:
        self.world.step()
        meant = [one for one in self.kept if (one.source, one.place) == (operator.source, operator.place)]
        for one in meant:
            self.kept.remove(one)
            if not self.world.quirks.used_up:
                self.kept.append(replace(one, state=OperatorState.USED, used_at=at))
        self.world.step()

    def mark_operators_passed(self, task: str, source: str, applied: Location) -> list[Operator]:
        self.world.step()
        passed = [one for one in self.operators(task, source) if is_passed(one, applied)]
        for one in passed:
            self.kept[self.kept.index(one)] = replace(one, state=OperatorState.PASSED)
        return passed


class World:
    """Target, logs, runs and fate. `play` is a whole history."""

    def __init__(
        self,
        seed: int,
        quirks: Quirks | None = None,
        often: str = "",
        *,
        about: str = "",
        way: Way | None = None,
        strikes_at: int | None = None,
        freezes: bool = False,
    ) -> None:
        self.rng = random.Random(seed)
        self.quirks = quirks or Quirks()
        self.strikes_at, self.freezes = strikes_at, freezes
        self.way = way or Way.any(seed)
        sources = SOURCES[: 2 if self.rng.random() < 0.3 and not about else 1]
        histories = make_histories(seed, sources, self.way, often=often, about=about)
        self.histories = dict(zip(sources, histories, strict=True))
        self.subtasks = [Subtask(ref_of(name), history) for name, history in self.histories.items()]
        self.wishes = Operators(self, [one for subtask in self.subtasks for one in subtask.history.operators])
        self.most_runs = MOST_RUNS * (3 if often else 1)
        self.server = TargetServer(self)
        self.access = access(self.server.sqlite)
        self.done: Counter[str] = Counter()
        self.error: BaseException | None = None
        self.over = False
        self.steps = self.moments = 0
        self.runs: list[Run] = []
        self.running: Run | None = None
        self.clock = 0.0
        self.collisions = 0
        self.at_end: set[str] = set()
        for subtask in self.subtasks:
            self._begin(subtask)

    def play(self) -> None:
        """Play it. Raises what the newest of a source's runs has ended with, where that is an error."""
        here.world, self.hub = self, getcurrent()
        for subtask in self.subtasks:
            self._spawn(subtask)
        while (run := self._chosen()) is not None:
            self.running = run
            run.go.switch()
        if self.error is not None:
            raise self.error

    def differences(self) -> list[str]:
        """Return what the target has too much (+) or too little (-)."""
        tables = self.server.tables
        names = [name for name in tables.tracker.names() if name != _MERGED]
        held = {name: (tables.tracker.definition(name), counted(tables.read(name))) for name in names}
        expected = self._expected()
        found = [f"{name}: only {'there' if name in held else 'expected'}" for name in held.keys() ^ expected.keys()]
        for name in held.keys() & expected.keys():
            (ours, rows), (theirs, wanted) = held[name], expected[name]
            if _form(ours) != _form(theirs):
                found.append(f"{name}: {_form(ours)} for {_form(theirs)}")
            found += [f"{name}: +{row}" for row in rows - wanted] + [f"{name}: -{row}" for row in wanted - rows]
        return found + self._merged() + [one for subtask in self.subtasks for one in self._left(subtask)]

    def _merged(self) -> list[str]:
        held, safe = self.server.tables.read(_MERGED), self.way.safe
        sources = [history.changes.merged for history in self.histories.values()]
        found = [f"merged: {one}" for one in merged_differences(held, sources, in_order=safe is Safe.ALWAYS)]
        lost = sum(len(owner.rows) for source in sources for owner in source.owners(in_order=False)) > len(held)
        calm = self.done["runs"] == len(self.subtasks) and not self.done["continued by itself"]
        if lost and calm and not self.collisions:
            found.append("rows were overwritten without a report")
        return found

    def _expected(self) -> dict[TableName, tuple[TableDefinition, Counted]]:
        return {
            routed(history.source, name): (history.wanted.tracker.definition(name), counted(rows))
            for history in self.histories.values()
            for name, rows in history.wanted.rows.items()
            if name.table in NAMES
        }

    def _left(self, subtask: Subtask) -> Iterator[str]:
        """Return what is left of a source: tables, and no journal but of rows that moved the frontier themselves."""
        history, ref = subtask.history, subtask.ref
        with_rows = {key_of(number + 1) for number, item in enumerate(history.log) if item.sql and item.rows}
        injected = {place_of(number).sort_key for number, item in enumerate(history.log) if not item.sql}
        for position, number, sql in self._kept(ref, "dm_ddl", "position, number, statement"):
            if position not in (with_rows if number < 0 else with_rows | injected):
                yield f"the journal still has {sql}"
        tracker = history.tables.tracker
        kept = dict(self._kept(ref, "dm_table_definition", "table_name, create_sql"))
        kept.pop("", None)
        if kept != {name.table: tracker.create_sql(name) for name in history.tables.rows}:
            yield f"the definitions are {kept}"
        named = sorted(name for (name,) in self._kept(ref, "dm_table_schema", "table_name"))
        if named != sorted(name.table for name in history.tables.rows):
            yield f"the tables are {named}"
        yield from (f"{name} is remembered" for (name,) in self._kept(ref, "dm_online_ddl", "ghost_table"))
        yield from (f"a row of {name} waits" for (name,) in self._kept(ref, "dm_contested_row", "table_name"))

    def _kept(self, ref: SubtaskRef, table: str, columns: str) -> list[tuple[Any, ...]]:
        where = "WHERE task = ? AND source = ?"
        return self.server.sqlite.execute(f"SELECT {columns} FROM {META}.{table} {where}", ref.key).fetchall()

    # The beginning

    def _begin(self, subtask: Subtask) -> None:
        """The subtask has begun, and its tables are there on both sides: empty, or filled as the way has it."""
        history, tracker, ref, safe = subtask.history, subtask.history.begun, subtask.ref, self.way.safe
        connection: Any = _Quiet(self.server, 0)
        filling = Filling.of(history, self.rng)
        query(connection, f"INSERT INTO {META}.dm_subtask (task, source, generation) VALUES (?, ?, 0)", ref.key)
        begin_subtask(
            connection,
            Fence(ref, 0),
            unit=UNIT_SYNC,
            start=place_of(0),
            overwrite_until=filling.until,
            safe_mode_seconds=self.rng.choice([1, 30, 60]) if safe in (Safe.PAST, Safe.ALWAYS_PAST) else 0,
        )
        query(connection, f"DELETE FROM {META}.dm_frontier WHERE source = ? AND bucket >= ?", (ref.source, BUCKETS))
        query(
            connection, f"UPDATE {META}.dm_subtask SET buckets = ?, plan = '' WHERE source = ?", (BUCKETS, ref.source)
        )
        names = sorted(tracker.names())
        schemas = [TableSchema(tracker.table(name), routed(ref.source, name)) for name in names]
        save_table_schemas(connection, ref, schemas)
        texts = {name: tracker.create_sql(name) for name in names}
        begin_definitions(connection, ref, Definitions(texts, tracker.collations()), {})
        for schema in schemas:
            if not self.server.tables.has(schema.target):
                name = schema.table.name
                self._create(
                    schema.target, texts[name] if is_shard(name) else history.begun_in_target.create_sql(name), name
                )
            rows = filling.rows.get(schema.table.name, [])
            if self.way.collide and self.way.form in COLLIDING and is_shard(schema.table.name):
                self._placed_or_waiting(connection, RowOwner(ref, schema.table.name), schema, rows)
            elif rows:
                self.server.tables.write(schema.target, rows, over=True)
        if history.ahead:
            self.server.tables.run(parse(history.ahead, 0, ref.source))

    def _placed_or_waiting(self, connection: Any, owner: RowOwner, schema: TableSchema, rows: Sequence[Row]) -> None:
        """Leave a shard's rows as a run without safe mode has left them: a row whose place is taken waits."""
        mapping = map_table(schema.table, self.server.tables.tracker.table(schema.target))
        writer, literals = (
            OwnerWriter(owner, mapping, self.access, len(rows)),
            row_literals(schema.table, Flavour.MYSQL),
        )
        texts = ([row[column.name] for column in schema.table.columns] for row in rows)
        values = [tuple(None if one is None else one.encode() for one in row) for row in texts]
        writer.insert_new(connection, (), writer.rows(values, list(map(literals, values))))

    def _create(self, target: TableName, create_sql: str, name: TableName) -> None:
        text = create_sql.replace(f"`{SCHEMA}`.", "").replace(f"`{name.table}`", target.quoted(), 1)
        self.server.tables.make(target, text)

    def source_of(self, run: Run) -> SyncSource:
        """Return the source as a run sees it, for which the user may have chosen another mode than before."""
        mode = self.way.mode if run.subtask.runs == 1 else self.rng.choice([self.way.mode, self.way.later])
        return source_of(Fence(run.subtask.ref, run.generation), mode, always=self.way.safe.always)

    # Tables that take the rows of others

    def table_in_target(self, name: TableName) -> Table:
        return self.server.tables.tracker.table(name)

    def ends(self) -> dict[str, int]:
        return {name: len(history.log) for name, history in self.histories.items()}

    def met(self, collisions: Iterable[Collision]) -> None:
        self.collisions += sum(one.missing + one.present for one in collisions if one.table == str(_MERGED))

    def arrives(self, source: str) -> bool:
        self.at_end.add(source)
        return len(self.at_end) == len(self.subtasks)

    # Who acts

    def _spawn(self, subtask: Subtask) -> None:
        if not (self.quirks.same_generation and subtask.generation):
            subtask.generation += 1
        subtask.runs += 1
        subtask.newest = Run(self, subtask, subtask.generation)
        self.runs.append(subtask.newest)
        self.done["runs"] += 1

    def _chosen(self) -> Run | None:
        """Return the process that acts next; None: none is left."""
        awake = [run for run in self.runs if not run.asleep or run.subtask.arrived or self.over]
        if not awake:
            return None
        busy = [run for run in awake if not run.rests]
        chosen = self.rng.choice(busy if busy and self.rng.random() < 0.9 else awake)
        chosen.asleep = False
        return chosen

    def ended(self, run: Run, error: Exception | None) -> None:
        if run is not run.subtask.newest or self.over:
            self.done["too late" if error is None else type(error).__name__] += 1
        elif error is None:
            run.subtask.arrived = True
        else:
            self.error, self.over = error, True

    def leave(self, run: Run) -> None:
        self.runs.remove(run)
        if run is run.subtask.newest and not (run.subtask.arrived or self.over):
            self._spawn(run.subtask)

    def _calm(self, run: Run) -> bool:
        return self.strikes_at is not None or run.subtask.runs >= self.most_runs or run.subtask.arrived

    # Fate

    def step(self) -> None:
        run = self.running
        assert run is not None
        self.steps += 1
        self.clock += STEP_SECONDS
        self.server.pass_time()
        if self.steps > MOST_STEPS and not self.over:
            self.error, self.over = AssertionError("it does not end"), True
        self._strike(0.02)
        if not self._sleeps(run):
            return
        if self.rng.random() < 0.3 and self.strikes_at is None:
            for one in self.runs:
                one.asleep = one.asleep and self.rng.random() < 0.5
        self.hub.switch()
        self._strike(0)

    def rest(self) -> None:
        """Let others act for a while."""
        run = self.running
        assert run is not None
        self.clock += RESTING_SECONDS
        self.step()
        run.rests = True
        self.hub.switch()
        run.rests = False
        self._strike(0)

    def _sleeps(self, run: Run) -> bool:
        """Return True if it is another's turn."""
        newest = run is run.subtask.newest
        if newest and (self._is_the_moment(run) if self.freezes else not self._calm(run) and self.rng.random() < 0.03):
            run.asleep = True
            self.done["froze"] += 1
            self._spawn(run.subtask)
            return True
        return self.rng.random() < 0.06

    def _is_the_moment(self, run: Run) -> bool:
        self.moments += run.subtask is self.subtasks[0] and run.subtask.runs == 1
        return self.moments == self.strikes_at and run.subtask.runs == 1

    def strike(self) -> None:
        self._strike(0.004)

    def _strike(self, chance: float) -> None:
        run = self.running
        assert run is not None
        if self.over or (not self._calm(run) and self.rng.random() < chance):
            raise Died
        if chance and self.strikes_at is not None and not self.freezes and self._is_the_moment(run):
            raise Died

    def loses_answer(self) -> bool:
        run = self.running
        assert run is not None
        return not self._calm(run) and self.rng.random() < 0.01

    def number(self) -> int:
        # Longer ones only give others time, of whom there are none where fate is sure.
        return self.rng.choice([1, 1, 2, 3, 5, 8] if self.strikes_at is not None else [1, 1, 2, 3, 5, 8, 20, 81, 100])

    def opened(self, endpoint: object) -> session._Session:
        connection: Any = self.server.connect()
        assert self.running is not None
        self.running.connections.append(connection)
        return session._Session(connection, Dialect(), os.getpid(), 0.0)


class _Quiet(Connection):
    """A connection without a process, before the model begins."""

    def execute(self, sql: str, arguments: Sequence[Any] | None = None) -> int:
        return self._meta(sql, arguments)

    def executemany(self, sql: str, rows: Sequence[Sequence[object]]) -> None:
        self.server.sqlite.executemany(in_sqlite(sql), rows)

    def strike(self) -> None:
        return None


def _form(definition: TableDefinition) -> tuple[object, ...]:
    """Return what must be as at the source: columns but for defaults, which a user may want otherwise, keys."""
    columns = [(one.name, one.type, one.nullable) for one in definition.columns]
    return columns, sorted(map(repr, definition.constraints))
