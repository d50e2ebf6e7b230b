"""Rounds of random DDL and DML at two sources while everything is killed, and merged shards take rows beside them.

Each source has plain tables of its own, in groups with a history each, which a writer fills, alters, renames, swaps and
drops (`altering`); rows of a merged table of both move about all the while (`moving`), and shards of another one make
the same DDL, each when it likes (`agreeing`): all of them also during the load, whose rounds are short, and in which
tables are copied again (`copied_again`). Apps, relays and targets die by kill -9 (`runs`), and a source whose replica
takes its place (`failing_over`); drivers and targets also during a DDL of the target, all of them while a table is
copied again, or rows that shards held back are applied (a re-sync). Drivers freeze, and continue when another one has
taken over. Each run has other numbers of threads than the one before. Each round has a mode, a rule of safe mode and a
form of target tables of its own (`ways`); keys of all forms come and go with the tables. In the end an
undisturbed run catches up: each table has the definition and the rows of its source, and there are no other tables.
"""

from __future__ import annotations

import random
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pymysql

from airflow_provider_dm.engine.errors import Reaction
from airflow_provider_dm.engine.reported import reported_in
from testbed import Server
from tests.chaos.agreeing import TABLE as SHARD
from tests.chaos.agreeing import Agreeing
from tests.chaos.altering import Life, Writer
from tests.chaos.altering_into_tidb import LifeIntoTidb
from tests.chaos.copied_again import ROWS as AGAIN
from tests.chaos.copied_again import LifeCopiedAgain
from tests.chaos.failing_over import Pair, Turns
from tests.chaos.moves import is_copying
from tests.chaos.moving import AMONG, TABLE, Mover, Place
from tests.chaos.runs import WAIT_SECONDS, Runs, a_task
from tests.chaos.ways import EXTRA, LOAD, PAST, Way
from tests.ddl_campaign.comparing import different
from tests.integration.copy.migrations import differences
from tests.integration.merge.conftest import Shops
from tests.integration.sync.app_process import AppProcess
from tests.integration.sync.year import definitions
from tests.nursery import Nursery

AMID_DDL: Final = " amid DDL"
AMID_RESYNC: Final = " amid re-sync"
FAILOVER: Final = "source"
FROZEN: Final = "frozen driver"
DURING_DDL: Final = tuple(f"{what}{AMID_DDL}" for what in ("driver", "target", FROZEN))
FAULTS: Final = (*DURING_DDL, "worker", "relay", "target", "driver", FROZEN, FAILOVER)
"""What is killed, or freezes. The relay is one of the two, by chance; so is the source, whose replica takes its place.
"""
DURING_RESYNC: Final = tuple(f"{what}{AMID_RESYNC}" for what in ("driver", "worker", "target", FAILOVER))
"""While held-back rows of shards are being applied."""
THREADS: Final = (1, 2, 4)
PLACES: Final = (Place("a", "o_0"), Place("a", "o_1"), Place("b", "o_2"), Place("b", "o_3"))
SHARDS: Final = (Place("a", "s_0"), Place("a", "s_1"), Place("b", "s_2"), Place("b", "s_3"))
PREFIXES: Final = {"a": "p", "b": "q"}
"""The prefix of the names of each source's plain tables."""
LIVES: Final = 13
"""Histories of a source in one round of the campaign."""
ROWS: Final = 500
SHARD_ROWS: Final = 200
PLAIN: Final = Path(__file__).with_name("plain_sync.py")
PLAIN_LOAD: Final = Path(__file__).with_name("plain_load.py")
STUCK_SECONDS: Final = 10
SLOWNESS_OF_TIDB: Final = 10
"""A load would else never be over: one process of it executes about one DDL in a second beside the rows."""
DDL_THAT_WAITS: Final = "SELECT 1 FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata%%'"
DDL_JOBS: Final = "SELECT 1 FROM information_schema.ddl_jobs WHERE state IN ('queueing', 'running') LIMIT 1"
"""The same in TiDB."""


@dataclass
class DdlRuns(Runs):
    """Runs in which a driver or the target may also die, or a driver freeze, during a DDL statement of the target. They
    load without Spark."""

    sync_script: Path | None = None
    pairs: Mapping[str, Pair] = field(default_factory=dict)
    """The sources that have a replica."""
    turns: Turns = field(default_factory=Turns)
    """Of all that write to the sources."""
    agree: Callable[[], None] = lambda: None
    """Make a DDL in all shards of a merged table."""

    def start(self, app: str, until: str = "caught-up") -> AppProcess:
        self.script = PLAIN_LOAD if app == "full_migration" else self.sync_script
        threads, task = self.chance.choice(THREADS), self.shops.task
        parallel = {"mydumper-thread": threads, "loader-thread": threads, "syncer-thread": 4 * threads}
        self.shops.task = {**task, "mysql-instances": [{**one, **parallel} for one in task["mysql-instances"]]}
        return super().start(app, until)

    def do(self, fault: str, run: AppProcess) -> AppProcess:
        what, _, amid = fault.partition(" amid ")
        killed: Pair | None = None
        if amid == "re-sync":
            self._until_it_resyncs(run)
        with self._ddl_under_way() if amid == "DDL" else nullcontext():
            if what == FROZEN:
                self._freeze(run)
            elif what == FAILOVER:
                killed = self._fail_over(run)
            else:
                run = super().do(what, run)
        if amid == "re-sync" and self._resyncs():
            self.done[f"{what} killed amid a re-sync"] += 1
        if killed is not None:
            killed.come_back()
        return self._overtake(run) if what == FROZEN else run

    def _until_it_resyncs(self, run: AppProcess) -> None:
        """Let all shards make a DDL, and wait until rows that were held back are applied; or were, or the run ends."""
        self.agree()
        deadline = time.monotonic() + WAIT_SECONDS
        self.wait_for(run, lambda: self._holds_back() or time.monotonic() > deadline)
        self.wait_for(run, lambda: self._resyncs() or not self._holds_back())

    def _holds_back(self) -> bool:
        return self.shops.meta_rows("dm_shard_member") > 0

    def _resyncs(self) -> bool:
        lanes = "SELECT 1 FROM dm_frontier WHERE source LIKE '%%re-sync' LIMIT 1"
        return bool(self.shops.target.sql(lanes, database=self.shops.meta))

    def _fail_over(self, run: AppProcess) -> Pair:
        """Kill a source. Return it: the server has to come back."""
        pair = self.pairs[self.chance.choice(list(self.pairs))]
        with self.turns.rest():
            pair.fail_over()
        self.done[f"{FAILOVER} killed in {run.spec.app}"] += 1
        return pair

    def _freeze(self, run: AppProcess) -> None:
        with closing(sqlite3.connect(self.shops.folder / "meta.db", timeout=60)) as meta:
            meta.execute("BEGIN IMMEDIATE")  # a driver that is frozen while it writes there would lock the metadata DB
            run.signal(signal.SIGSTOP)

    def _overtake(self, run: AppProcess) -> AppProcess:
        """Let another driver do the work of a frozen one, which continues then, and has to end by itself.

        The other may end as well, to be tried again: MySQL keeps the locks of a frozen driver.
        """
        other = self.start(run.spec.app, run.spec.until)
        if self.wait_for(other, lambda: other.applied() > 0):
            self.done["frozen driver overtaken"] += 1
        run.signal(signal.SIGCONT)
        other = self.going_on(other)
        code, error = run.ends(), reported_in(run.text())
        fenced = error is not None and error.reaction in (Reaction.FENCED, Reaction.RETRY)
        assert fenced, f"exit {code}: {run.text()[-6000:]}"
        self.done["driver frozen"] += 1
        return other

    @contextmanager
    def _ddl_under_way(self) -> Iterator[None]:
        """Begin the block when a DDL of plain tables waits in the target, as they are being read; end that with it."""
        with ExitStack() as stack:
            with suppress(pymysql.err.OperationalError):
                reading = self.shops.target.connect(database=self.shops.schema, autocommit=False)
                self._read_until_ddl_waits(stack.enter_context(reading))
            yield

    def _read_until_ddl_waits(self, connection: pymysql.Connection[Any]) -> None:
        cursor = connection.cursor()
        cursor.execute("SHOW TABLES")
        for (name,) in cursor.fetchall():
            with suppress(pymysql.err.ProgrammingError):
                cursor.execute(f"SELECT 1 FROM `{name}` LIMIT 1")
        waiting = DDL_JOBS if self.shops.target.flavour == "tidb" else DDL_THAT_WAITS
        deadline = time.monotonic() + STUCK_SECONDS
        while time.monotonic() < deadline:
            if self.shops.target.sql(waiting):
                self.done["DDL under way in the target"] += 1
                return
            time.sleep(0.02)


@dataclass
class Round:
    """One task, from its beginning to the comparison."""

    runs: DdlRuns
    way: Way
    mover: Mover
    shards: Agreeing
    writers: Sequence[Writer]
    again: Mapping[str, LifeCopiedAgain]
    """By source; none without a load, and without replicas."""

    def play(self, faults: Sequence[str]) -> None:
        """Play it. Raises AssertionError where a run ends otherwise than well by itself, or something differs then."""
        self.mover.fill(ROWS)
        self.shards.fill(SHARD_ROWS)
        for one in self.writers:
            one.begin()
        with ExitStack() as stack:
            if self.way.safe == PAST:
                self.begin_in_the_past()
            else:
                self.begin(stack)
            self._alter_target("ADD COLUMN {} int DEFAULT 7")
            if self.way.safe != LOAD:
                stack.enter_context(self._writing())
            self.runs.sync(faults)
        assert self.runs.until_it_ends("incremental_sync") == 0
        self._alter_target("DROP COLUMN {}")
        self.compare()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with ExitStack() as stack:
            for writer in self.writers:
                stack.enter_context(writer.writing())
            stack.enter_context(self.mover.moving())
            if self.way.shards_alter:
                stack.enter_context(self.shards.agreeing())
            yield

    def _alter_target(self, spec: str) -> None:
        """Give the target's plain tables a column of their own, or take it away, if the way has one."""
        shops = self.runs.shops
        there = "SELECT table_name FROM information_schema.columns WHERE table_schema = %s AND column_name = %s"
        having = {name for (name,) in shops.target.sql(there, [shops.schema, EXTRA])}
        plain = {
            name
            for prefix in PREFIXES.values()
            for name in definitions.tables_of(shops.target, shops.schema)
            if name.startswith(prefix)
        }
        for name in sorted(having if spec.startswith("DROP") else plain if self.way.extra else []):
            shops.target.sql(f"ALTER TABLE `{name}` {spec.format(EXTRA)}", database=shops.schema)
            self.runs.done["tables with a column more"] += spec.startswith("DROP")

    def begin_in_the_past(self) -> None:
        """Another task fills the target; the task begins before what has changed some rows until then."""
        shops, task = self.runs.shops, self.runs.shops.task
        shops.relay()
        starts = {name: shops.place(name) for name in shops.sources}
        for writer in self.writers:
            writer.change_rows()
        shops.task = {**task, "name": "filled", "task-mode": "full"}
        assert self.runs.until_it_ends("full_migration") == 0
        begins = [
            {**one, "meta": {"binlog-name": start.file, "binlog-pos": start.position}}
            for one in task["mysql-instances"]
            for start in [starts[one["source-id"]]]
        ]
        shops.task = {**task, "task-mode": "incremental", "mysql-instances": begins}
        # No table may be altered before that: its definition at the start of the log would be unknown.
        run = self.runs.start("incremental_sync", until="forever")
        assert self.runs.wait_for(run, self._has_begun), run.text()[-6000:]
        run.kill()

    def _has_begun(self) -> bool:
        shops = self.runs.shops
        begun = "SELECT COUNT(*) FROM dm_subtask WHERE task = 'test' AND start_location IS NOT NULL"
        return bool(shops.target.sql(begun, database=shops.meta) == [(len(shops.sources),)])

    def begin(self, stack: ExitStack) -> None:
        """Copy what is there, while all is written to and the driver dies in the midst of it, and maybe others.

        `stack`: ends what writes. With safe mode nothing is written before the log is read.
        """
        runs = self.runs
        runs.shops.relay()
        run = runs.start("full_migration")
        copying = runs.wait_for(run, partial(is_copying, runs.shops))
        if self.way.safe == LOAD:
            stack.enter_context(self._writing())
        faults = ["driver", *runs.chance.sample([FAILOVER, "target", "relay"], 2)] if runs.pairs else ["driver"]
        for fault in runs.chance.sample(faults, len(faults)):
            again = self._copy_again(run) if self.again else None
            time.sleep(runs.chance.uniform(0, 0.3 if again else 1))
            if copying and run.alive():
                run = runs.do(fault, run)
                if again and self._is_in_part(again):
                    runs.done[f"{fault} killed while a table was copied again"] += 1
        assert runs.until_it_ends("full_migration", run) == 0

    def _copy_again(self, run: AppProcess) -> tuple[str, int] | None:
        """Change the key of a source's table when it is copied in part. Return the source, and the chunk by which it is
        copied again; None if the load was over before."""
        shops, source = self.runs.shops, self.runs.chance.choice(list(self.again))
        if not self.runs.wait_for(run, lambda: self._is_in_part((source, 0))):
            return None
        last = "SELECT MAX(chunk) FROM dm_copy_chunk WHERE source = %s"
        again = source, shops.target.sql(last, [source], database=shops.meta)[0][0] + 1
        self.again[source].change_key(shops.sources[source], shops.schema)
        return again if self.runs.wait_for(run, lambda: self._is_in_part(again)) else None

    def _is_in_part(self, chunk: tuple[str, int]) -> bool:
        """Return True if a source's table is copied in part, by a chunk with this number or a later one."""
        source, number = chunk
        found = self.runs.shops.target.sql(
            "SELECT 1 FROM dm_copy_chunk WHERE source = %s AND source_table = %s AND chunk >= %s AND done = 0 "
            "AND rows_copied > 0",
            [source, self.again[source].table, number],
            database=self.runs.shops.meta,
        )
        return bool(found)

    def compare(self) -> None:
        """Raises AssertionError."""
        shops = self.runs.shops
        assert shops.meta_rows("dm_contested_row") == 0
        if self.way.last_wins:
            self._compare_what_moved()
        else:
            report = shops.compared()
            assert report.equal, report
            self.runs.done["rows compared"] += report.rows
        self._compare_shards()
        for name in shops.sources:
            self.runs.done["tables compared"] += compare_plain(shops, name)
        for life in self._lives():
            self.runs.done["histories"] += 1
            for what, count in life.done.items():
                if not what.startswith(("INSERT", "UPDATE", "DELETE", "REPLACE", "SET")):
                    self.runs.done["DDL refused" if what.endswith("refused") else "DDL"] += count
        self.runs.done["transactions"] += self.mover.transactions

    def _compare_what_moved(self) -> None:
        """Each row is one that a source has, and only those are lost that have moved."""
        shops, columns = self.runs.shops, "SELECT id, u, v FROM `{}`"
        held = set(shops.target.sql(columns.format("o"), database=shops.schema))
        wanted = {
            row
            for place in PLACES
            for row in shops.sources[place.source].sql(columns.format(place.table), database=shops.schema)
        }
        assert held <= wanted, held - wanted
        lost = wanted - held
        assert all(number % AMONG == 0 for number, *_ in lost), lost
        self.runs.done["rows compared"] += len(held)
        self.runs.done["rows that were written over"] += len(lost)

    def _compare_shards(self) -> None:
        shops = self.runs.shops
        places = [(shops.sources[one.source], f"{shops.schema}.{one.table}") for one in SHARDS]
        report = differences(shops.target, {f"{shops.schema}.s": places})
        assert report.equal, report
        self.runs.done["DDL of shards"] += self.shards.ddls
        self.runs.done["rows compared"] += report.rows

    def script(self) -> str:
        """All that was done to plain tables, and the DDL of shards, as SQL."""
        shards = "\n-- shards\n" + ";\n".join(self.shards.changes)
        return "\n".join(f"-- {one.prefix}\n" + ";\n".join(one.texts) for one in self._lives()) + shards

    def _lives(self) -> list[Life]:
        return [life for writer in self.writers for life in writer.lives]


def compare_plain(shops: Shops, source: str) -> int:
    """Compare the plain tables of a source, definitions and rows; return how many. Raises AssertionError."""
    server, target, prefix = shops.sources[source], shops.target, PREFIXES[source]
    if target.flavour == "tidb":
        there = {*definitions.tables_of(server, shops.schema), *definitions.tables_of(target, shops.schema)}
        plain = sorted(name for name in there if name.startswith(prefix))
        assert not (found := different(server, target, shops.schema, plain)), "\n".join(found)
        return len(plain)
    found = definitions.differences(server, target, shops.schema, as_shown=False)
    differing = [one for one in found if one.startswith(prefix)]
    assert not differing, "\n".join(differing)
    names = [name for name in definitions.tables_of(server, shops.schema) if name.startswith(prefix)]
    report = differences(target, {f"{shops.schema}.{name}": [(server, f"{shops.schema}.{name}")] for name in names})
    assert report.equal, report
    return len(names)


def make_round(runs: DdlRuns, seed: int, way: Way, lives: int = LIVES) -> Round:
    """Make a round in the schema of these runs."""
    shops = runs.shops
    shops.create(TABLE, *(f"{place.source}:{place.table}" for place in PLACES))
    shops.create(SHARD, *(f"{place.source}:{place.table}" for place in SHARDS))
    places = PLACES[:1] if way.safe == PAST else PLACES
    turn = runs.turns.one
    mover = Mover(
        shops.sources, shops.schema, list(places), random.Random(seed), turn(), _slowness(shops, 3 * SLOWNESS_OF_TIDB)
    )
    shards = Agreeing(shops.sources, shops.schema, SHARDS, random.Random(f"{seed} shards"), turn(), _slowness(shops))
    runs.agree = shards.agree
    copies_again = runs.pairs and way.safe == LOAD  # not in the normal run, for its time
    again = {name: _copied_again(shops, name, seed) for name in shops.sources} if copies_again else {}
    writers = [_writer(shops, name, seed, lives, [again[name]] if again else []) for name in shops.sources]
    return Round(runs, way, mover, shards, [replace(one, turn=turn()) for one in writers], again)


def _task(shops: Shops, way: Way) -> dict[str, Any]:
    """Return the task's configuration: its mode, and two merged tables; the shards of one execute DDL."""

    def route(table: str) -> dict[str, str]:
        names = {"schema-pattern": shops.schema, "target-schema": shops.schema}
        return {**names, "table-pattern": f"{table}_*", "target-table": table}

    rules = {"route-rules": ["moving", "agreeing"], "syncer-config-name": "as-chosen", "mydumper-config-name": "small"}
    return {
        "mydumpers": {"small": {"rows": 20}},  # a table of more rows is large: its indexes are postponed
        **({} if way.last_wins else {"shard-mode": "pessimistic"}),
        "syncers": {"as-chosen": way.syncer},
        "routes": {"moving": route("o"), "agreeing": route("s")},
        "mysql-instances": [{"source-id": name, "block-allow-list": name, **rules} for name in shops.sources],
    }


def _writer(shops: Shops, source: str, seed: int, lives: int, more: Sequence[Life]) -> Writer:
    story, prefix = f"{seed} {source}", PREFIXES[source]
    wild = shops.sources[source].flavour == shops.target.flavour
    life = LifeIntoTidb if shops.target.flavour == "tidb" else Life
    found = [life(f"{prefix}{number}", random.Random(f"{story} {number}"), wild) for number in range(lives)]
    return Writer(shops.sources[source], shops.schema, random.Random(story), [*found, *more], slowness=_slowness(shops))


def _copied_again(shops: Shops, source: str, seed: int) -> LifeCopiedAgain:
    """Its name is before the others, so that it is among the first to be copied."""
    return LifeCopiedAgain(f"{PREFIXES[source]}00", random.Random(f"{seed} {source}"), rows=AGAIN // _slowness(shops))


def _slowness(shops: Shops, of_tidb: int = SLOWNESS_OF_TIDB) -> int:
    return of_tidb if shops.target.flavour == "tidb" else 1


def play_round(
    target: Server,
    sources: Mapping[str, Server],
    *,
    schema: str,
    seed: int,
    faults: Sequence[str] = (),
    plain: bool = False,
    way: Way | None = None,
    nursery: Nursery | None = None,
    pairs: Mapping[str, Pair] | None = None,
    lives: int = LIVES,
    safe: str | None = None,
) -> Counter[str]:
    """One round in a schema of its own. Gives what was done. Raises AssertionError; then its folder is kept.

    `faults`, `way`, `safe`: instead of random ones. `plain`: without Spark, whose start takes long on some machines.
    `nursery`: where apps without Spark are forked, not started anew. `pairs`: the sources that have a replica. `lives`:
    histories of each source.
    """
    chance = random.Random(seed)
    usual = [fault for fault in FAULTS if not (plain and fault == "worker") and (pairs or fault != FAILOVER)]
    way = way or Way.of(seed, safe)
    if not faults:
        faults = chance.sample(usual, min(len(usual), 4 + seed % 3))
        more = [fault for fault in DURING_RESYNC if fault.removesuffix(AMID_RESYNC) in usual]
        faults = [*(chance.sample(more, len(more)) if way.shards_alter else []), *faults]
    script = PLAIN if plain else None
    print(f"seed {seed}: {way}", flush=True)
    with (
        a_task(target, sources, schema=schema, seed=seed) as shops,
        closing(DdlRuns(shops, chance, nursery=nursery, sync_script=script, pairs=pairs or {})) as runs,
    ):
        shops.source = {"enable-gtid": True} if pairs else {}
        shops.task = _task(shops, way)
        round_ = make_round(runs, seed, way, lives)
        try:
            round_.play(faults)
        finally:
            (shops.folder / "lives.sql").write_text(round_.script())
    return runs.done
