"""A small world in which the exactly-once protocol runs: the engine's own code, over SQLite, with accidents.

A source makes a random history over four tables whose few keys and unique values collide all the time. A target holds
copies of them, made at random moments or exact. A driver cuts the history into epochs and applies them with the real
compactor, waves, writer and frontier. At any transaction the process may die (before it, between the frontier's
statement and the rows, before COMMIT, after COMMIT), a task alone or the driver with it, and any piece of work that was
ever started may be run again by a zombie. In the end the target must equal the source, row by row.

SQLite stands for the target: transactions are atomic and run one at a time, which is what a server does with
transactions that lock the same frontier rows. `Quirks` switches one rule of the protocol off, to see that it is needed.
"""

from __future__ import annotations

import random
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from airflow_provider_dm.engine.config.rule_models import BlockAllowConfig
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.route import Router
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.model import Column, Index, Table
from airflow_provider_dm.engine.sync.apply import Target, WaveWriter
from airflow_provider_dm.engine.sync.blobs import pack, unpack
from airflow_provider_dm.engine.sync.causality import Waves, make_waves
from airflow_provider_dm.engine.sync.compactor import Compactor
from airflow_provider_dm.engine.sync.plan import SyncPlan, make_plan
from airflow_provider_dm.engine.target.errors import DuplicateInTarget
from airflow_provider_dm.engine.target.frontier import Step, extent, read_all_stands
from airflow_provider_dm.engine.target.statements import Dialect, Statement, Verb
from airflow_provider_dm.engine.target.table_schema import TableSchema

T = TypeVar("T")

BUCKETS = 4
META, TASK, SOURCE = "dm_meta", "task", "source"
Logged = tuple[int, Row | None, Row | None]
Rows = Counter[Row]


def column(name: str, position: int, *, nullable: bool = True) -> Column:
    return Column(name, position, "int", "int", nullable)


def table(name: str, columns: str, *keys: Index) -> Table:
    primary = {one for key in keys if key.primary for one in key.columns}
    described = tuple(column(one, at, nullable=one not in primary) for at, one in enumerate(columns))
    return Table(TableName("shop", name), described, keys)


PRIMARY = Index("PRIMARY", ("k",), prefixes=(None,))
UNIQUE_U = Index("u", ("u",), prefixes=(None,))
TABLES = (
    table("plain", "kv", PRIMARY),
    table("unique", "kuv", PRIMARY, UNIQUE_U),
    table("keyless", "vw"),
    table("nullable", "uv", UNIQUE_U),
)
UNIQUE_COLUMNS: tuple[tuple[int, ...], ...] = ((0,), (0, 1), (), (0,))


class Moment(Enum):
    """Where a transaction may be struck."""

    BEFORE = "before"
    BETWEEN = "between the first statement and the rest"
    BEFORE_COMMIT = "before commit"
    AFTER_COMMIT = "after commit"


class Died(BaseException):
    """A process was killed."""


@dataclass
class Quirks:
    """Rules of the driver to switch off, one at a time. The engine's own code is patched by the test."""

    ignore_edge: bool = False
    no_generation_bump: bool = False
    release_after: bool = False
    haunted: float = 0.15
    """How often a zombie comes before a transaction."""


@dataclass
class Source:
    """A random history and the state at each position."""

    rng: random.Random
    log: list[Logged] = field(default_factory=list)
    states: list[tuple[Rows, ...]] = field(default_factory=list)

    @classmethod
    def make(cls, rng: random.Random, changes: int) -> Source:
        source = cls(rng, states=[tuple(Counter() for _ in TABLES)])
        while len(source.log) < changes:
            change = source._change()
            if change is not None:
                source.log.append(change)
                source.states.append(source._after(change))
        return source

    def _change(self) -> Logged | None:
        """One that no unique key of the source refuses."""
        number = self.rng.randrange(len(TABLES))
        rows = list(self.states[-1][number].elements())
        before = self.rng.choice(rows) if rows and self.rng.random() < 0.65 else None
        after = self._row(number, before) if before is None or self.rng.random() < 0.6 else None
        if after is not None:
            others = list(rows)
            if before is not None:
                others.remove(before)
            for key in UNIQUE_COLUMNS[number]:
                if after[key] is not None and any(other[key] == after[key] for other in others):
                    return None
        return number, before, after

    def _row(self, number: int, before: Row | None) -> Row:
        keys = UNIQUE_COLUMNS[number]
        values: list[bytes | None] = []
        for at, one in enumerate(TABLES[number].columns):
            if before is not None and self.rng.random() < 0.6:
                values.append(before[at])
            elif one.nullable and self.rng.random() < 0.15:
                values.append(None)
            else:
                values.append(b"%d" % self.rng.randrange(6 if at in keys else 3))
        return tuple(values)

    def _after(self, change: Logged) -> tuple[Rows, ...]:
        number, before, after = change
        states = [Counter(state) for state in self.states[-1]]
        if before is not None:
            states[number] -= Counter([before])
        if after is not None:
            states[number][after] += 1
        return tuple(states)


def key_of(position: int) -> str:
    """A position as the frontier stores one."""
    return f"000001.0000000001.{position:020d}"


class World:
    """Target, driver and fate. `run` plays a whole history."""

    def __init__(self, seed: int, *, changes: int = 60, catch_up: bool = False, quirks: Quirks | None = None) -> None:
        self.rng = random.Random(seed)
        self.quirks = quirks or Quirks()
        self.source = Source.make(self.rng, changes)
        self.database = Database()
        self.generation = 1
        self.zombies: list[Callable[[], None]] = []
        self.in_zombie = False
        self.fate = 0.12
        self.deaths = self.repeats = 0
        self.catch_up_until = self._load(catch_up)
        self.database.begin_frontier(key_of(0))

    def run(self) -> None:
        while True:
            try:
                self._drive()
                break
            except Died:
                self.deaths += 1
                self._restart()
        self.fate = 0.0
        self._haunt(every=True)

    def differences(self) -> list[str]:
        """What the target has too much (+) or too little (-)."""
        found = []
        for number, one in enumerate(TABLES):
            held, wanted = self.database.rows(one), self.source.states[-1][number]
            found += [f"{one.name}: +{row}" for row in (held - wanted)] + [
                f"{one.name}: -{row}" for row in wanted - held
            ]
        return found

    # The load

    def _load(self, catch_up: bool) -> int:
        """Copy rows as chunks would: each key at a moment of its own. Gives the end of the catch-up."""
        end = self.rng.randrange(len(self.source.log) // 2) if catch_up else 0
        skip = ["", "", "", ""]
        for number, one in enumerate(TABLES):
            if one.identity is None:
                at = self.rng.randint(0, end)
                skip[number] = key_of(at)
                self.database.load(one, self.source.states[at][number].elements())
                continue
            for key in range(6):
                at = self.rng.randint(0, end)
                self.database.load(
                    one, [row for row in self.source.states[at][number] if row[0] == b"%d" % key], replace=True
                )
        self.plan = make_the_plan(skip)
        self.skip = skip
        return end

    # The driver

    def _drive(self) -> None:
        stands = read_all_stands(self.database.connection(), META, TASK, SOURCE)
        low, edge = (int(key.rsplit(".", 1)[1]) for key in extent(stands))
        while low < len(self.source.log):
            high = self._next_end(low, edge)
            for _ in range(20):
                try:
                    self._apply(low, high)
                    break
                except Died:
                    if self.rng.random() < 0.5:
                        raise
                    self.deaths += 1  # only the task died: the same epoch again
            else:
                raise AssertionError("an epoch never succeeds")
            low = high
            edge = high

    def _next_end(self, low: int, edge: int) -> int:
        if edge > low and not self.quirks.ignore_edge:
            return edge
        high = min(len(self.source.log), low + self.rng.choice([1, 3, 8, 20]))
        return min(high, self.catch_up_until) if low < self.catch_up_until else high

    def _apply(self, low: int, high: int) -> None:
        step = Step(META, TASK, SOURCE, self.generation, key_of(low), key_of(high))
        waves = self._waves(low, high)
        writer = WaveWriter(self.plan, self._target(), step, low < self.catch_up_until)
        halves = [[0, 1], [2, 3]]  # two tasks, each with its own buckets
        works: list[Callable[[], None]] = []
        for half in halves:
            first = {bucket: work for bucket, work in waves.first.items() if bucket in half}
            works.append(lambda first=first: writer.release(first))  # type: ignore[misc]
        works += [lambda half=half: writer.advance(waves.second, half) for half in halves]  # type: ignore[misc]
        if self.quirks.release_after:
            works = [works[2], works[0], works[1], works[3]]
        for work in works:
            self.zombies.append(work)
            work()

    def _waves(self, low: int, high: int) -> Waves:
        """Folded in two pieces, as two ranges would be; the pieces are put together as blobs are."""
        cut = self.rng.randint(low, high)
        pieces = [
            pack(self.plan, Compactor(self.plan).add_all(self._changes(a, b)), 1)[0]
            for a, b in ((low, cut), (cut, high))
        ]
        return make_waves(self.plan, unpack(self.plan, pieces), catch_up=low < self.catch_up_until)

    def _changes(self, low: int, high: int) -> Iterator[Logged]:
        for position in range(low, high):
            change = self.source.log[position]
            if key_of(position + 1) > self.skip[change[0]]:
                yield change

    def _restart(self) -> None:
        if not self.quirks.no_generation_bump:
            self.generation += 1
            self.database.claim(self.generation)

    # Fate

    def _target(self) -> Target:
        return Target(self._transaction, self.database.execute, self.database.count, Dialect)

    def _transaction(self, body: Callable[[Any], T], /) -> T:
        self._haunt()
        moment = self.rng.choice(list(Moment)) if self.rng.random() < self.fate and not self.in_zombie else None
        return self.database.transaction(body, moment)

    def _haunt(self, *, every: bool = False) -> None:
        """Somebody who was thought dead does again what was once started."""
        if self.in_zombie or not self.zombies or (not every and self.rng.random() > self.quirks.haunted):
            return
        self.in_zombie = True
        chosen = list(self.zombies) if every else [self.rng.choice(self.zombies[-12:])]
        for zombie in chosen:
            self.repeats += 1
            try:
                zombie()
            except DmError as refused:
                self.database.refusals[type(refused).__name__] += 1
        self.in_zombie = False


def make_the_plan(skip: Sequence[str]) -> SyncPlan:
    rules = BlockAllowRules.from_config(BlockAllowConfig(), case_sensitive=True, meta_schema=META)
    schemas = [TableSchema(one, one.name, until) for one, until in zip(TABLES, skip, strict=True)]
    targets = {one.name: one for one in TABLES}
    return make_plan(schemas, targets, rules=rules, router=Router((), ()), buckets=BUCKETS)


class Database:
    """SQLite that speaks as much MySQL as the engine's statements need."""

    def __init__(self) -> None:
        self.sqlite = sqlite3.connect(":memory:", isolation_level=None)
        self.refusals: Counter[str] = Counter()
        self.commits_early = False
        for name in ("shop", META):
            self.sqlite.execute(f"ATTACH ':memory:' AS {name}")
        for one in TABLES:
            keys = "".join(
                f", {'PRIMARY KEY' if key.primary else 'UNIQUE'} ({', '.join(key.columns)})" for key in one.unique_keys
            )
            columns = ", ".join(f"{column.name} INT" for column in one.columns)
            self.sqlite.execute(f'CREATE TABLE shop."{one.name.table}" ({columns}{keys})')
        self.sqlite.execute(
            f"CREATE TABLE {META}.dm_frontier (task, source, bucket INT, position TEXT, released TEXT DEFAULT '',"
            " generation INT, PRIMARY KEY (task, source, bucket))"
        )

    def connection(self) -> Any:
        return Connection(self)

    def begin_frontier(self, position: str) -> None:
        for bucket in range(BUCKETS):
            self.sqlite.execute(
                f"INSERT INTO {META}.dm_frontier (task, source, bucket, position, generation) VALUES (?, ?, ?, ?, 1)",
                (TASK, SOURCE, bucket, position),
            )

    def claim(self, generation: int) -> None:
        self.sqlite.execute(f"UPDATE {META}.dm_frontier SET generation = ?", (generation,))

    def load(self, one: Table, rows: Any, *, replace: bool = False) -> None:
        marks = ",".join("?" * len(one.columns))
        verb = "REPLACE" if replace else "INSERT"
        for row in rows:
            self.sqlite.execute(
                f'{verb} INTO shop."{one.name.table}" VALUES ({marks})', [None if v is None else int(v) for v in row]
            )

    def rows(self, one: Table) -> Rows:
        found = self.sqlite.execute(f'SELECT * FROM shop."{one.name.table}"').fetchall()
        return Counter(tuple(None if value is None else b"%d" % value for value in row) for row in found)

    def transaction(self, body: Callable[[Any], T], moment: Moment | None) -> T:
        if moment is Moment.BEFORE:
            raise Died
        self.sqlite.execute("BEGIN")
        try:
            result = body(Connection(self, dies=moment is Moment.BETWEEN))
            if moment is Moment.BEFORE_COMMIT:
                raise Died
        except BaseException:
            if self.sqlite.in_transaction:
                self.sqlite.execute("ROLLBACK")
            raise
        if self.sqlite.in_transaction:
            self.sqlite.execute("COMMIT")
        if moment is Moment.AFTER_COMMIT:
            raise Died
        return result

    def execute(self, connection: Any, statement: Statement) -> int:
        connection.strike()
        sql = statement.sql.decode()
        if statement.verb is Verb.UPSERT:
            return self._upsert(sql, statement)
        if statement.verb is Verb.DELETE and " LIMIT " in sql:
            head, condition, limit = re.fullmatch(r"DELETE FROM (.*?) WHERE (.*) LIMIT (\d+)", sql).groups()  # type: ignore[union-attr]
            condition = condition.replace("<=>", "IS")
            sql = f"DELETE FROM {head} WHERE rowid IN (SELECT rowid FROM {head} WHERE {condition} LIMIT {limit})"
        return self._run(sql, statement)

    def count(self, connection: Any, statement: Statement) -> int:
        ((number,),) = self.sqlite.execute(statement.sql.decode().replace(" FOR UPDATE", "")).fetchall()
        return int(number)

    def _upsert(self, sql: str, statement: Statement) -> int:
        name = statement.table.quoted()
        before = self._size(name)
        head = sql.split(" ON DUPLICATE KEY UPDATE ", maxsplit=1)[0]
        columns = re.search(r"\((.*?)\) VALUES", head)[1].split(", ")  # type: ignore[index]
        self._run(f"{head} ON CONFLICT DO UPDATE SET {', '.join(f'{c} = excluded.{c}' for c in columns)}", statement)
        new = self._size(name) - before
        return new + 2 * (statement.rows - new)

    def _size(self, name: str) -> int:
        return int(self.sqlite.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0])

    def _run(self, sql: str, statement: Statement) -> int:
        try:
            return self.sqlite.execute(sql).rowcount
        except sqlite3.IntegrityError as error:
            raise DuplicateInTarget(str(statement.table), str(error)) from None


class Connection:
    """A cursor and its connection in one: what frontier.py asks for."""

    def __init__(self, database: Database, *, dies: bool = False) -> None:
        self.database = database
        self.dies = dies
        self._found: list[tuple[Any, ...]] = []

    def strike(self) -> None:
        if self.dies:
            raise Died

    def cursor(self) -> Connection:
        return self

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def execute(self, sql: str, arguments: Sequence[object] | None = None) -> int:
        done = self.database.sqlite.execute(sql.replace("%s", "?"), tuple(arguments or ()))
        self._found = done.fetchall()
        if sql.startswith("UPDATE") and self.database.commits_early:
            self.database.sqlite.execute("COMMIT")
        return done.rowcount

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._found
