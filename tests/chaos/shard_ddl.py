"""Rounds of random shard DDL at two or three sources, while drivers die by kill -9 at every step of it.

Each round has several merged tables with a history each (`sharding`), so that what dies does so for all of them. Its
drivers are real processes, one for all sources or one for each, and all are restarted until the histories end (some
locks are unlocked with `--force-remove` meanwhile); then one undisturbed run continues to the end. After it the merged
tables have the definition and the rows of their shards, each DDL was executed in the target once, and no group or lock
is left.
"""

import os
import random
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_provider_dm.engine.config.job import JobSpec
from airflow_provider_dm.engine.downstream.session import close_target
from airflow_provider_dm.engine.errors import Reaction
from airflow_provider_dm.engine.reported import reported_in
from airflow_provider_dm.engine.shard.errors import LockRefuses
from airflow_provider_dm.engine.shard.lock import Action
from airflow_provider_dm.launch.ddl_locks import stored_locks, unlock
from testbed import Server
from tests.chaos.dying import STEPS
from tests.chaos.forked import Driver, start_driver
from tests.chaos.runs import a_task
from tests.chaos.sharding import Family, History, Shard, Writer, make_family
from tests.ddl_campaign.comparing import as_in_tidb
from tests.integration.copy.migrations import Migration, differences
from tests.integration.merge.conftest import Shops
from tests.integration.sync.year import definitions
from tests.jobs import endpoint
from tests.nursery import Nursery

FAMILIES: Final = 6
LENGTH: Final = 90
"""Transactions of a source."""
MOST_DEATHS: Final = 12
SECONDS: Final = (0.5, 3.0, 6.0)
"""How long a history is written: some are a backlog, some are read while they are written."""
PATIENCE: Final = 6.0
"""Seconds after which a driver that has not reached its step is killed."""
LAST_RUN_SECONDS: Final = 900
FAULTS: Final = ("relay", "target", "unlock")


@dataclass
class Shards(Shops):
    """A task whose families go into a table each. Source `c` is on a server that is another source as well."""

    families: Sequence[Family] = ()

    def schema_of(self, source: str) -> str:
        return f"{self.schema}_c" if source == "c" else self.schema

    def migration(self, names: Sequence[str] | None = None, instances: Sequence[Any] | None = None) -> Migration:
        routes = {
            one.name: {
                "schema-pattern": f"{self.schema}*",
                "table-pattern": f"{one.name}_*",
                "target-schema": self.schema,
                "target-table": one.name,
            }
            for one in self.families
        }
        self.task = {"task-mode": "all", "shard-mode": "pessimistic", "routes": routes}
        migration = super().migration(names, instances)
        migration.schemas = {name: [self.schema_of(name)] for name in self.sources}
        migration.instance = {"route-rules": list(routes)}
        return migration


@dataclass
class Drivers:
    """The drivers of a task: the sources are dealt to them."""

    shops: Shards
    nursery: Nursery
    chance: random.Random
    patience: float = PATIENCE
    done: Counter[str] = field(default_factory=Counter)
    running: dict[tuple[str, ...], tuple[Driver, float, str]] = field(default_factory=dict)
    """The driver, when it was started, and where it is to die, by the sources that it has."""
    started: int = 0

    def close(self) -> None:
        for driver, _, _ in self.running.values():
            driver.kill()
        for relay in self.shops.relays.values():
            relay.kill()

    def start(self, sources: tuple[str, ...], until: str, death: str = "") -> Driver:
        self.started += 1
        whole = set(sources) == set(self.shops.sources)
        spec = self.shops.migration(None if whole else sources).spec
        changed = {
            "run_id": f"run-{self.started}",
            "app": "incremental_sync",
            "until": until,
            "launcher_pid": os.getpid(),
        }
        path = self.shops.folder / f"run-{self.started}.json"
        JobSpec.model_validate({**dict(spec), **changed}).write(path)
        log = path.with_suffix(".log")
        self.done["runs"] += 1
        return start_driver(self.nursery, path, log, death)

    def torment(self, deaths: Sequence[str], writers: Sequence[Writer], faults: Sequence[str]) -> None:
        """Let drivers die these deaths, and do these faults, while the writers write."""
        deaths, faults = list(deaths), list(faults)
        dealt = [tuple(self.shops.sources)] if self.chance.random() < 0.4 else [(one,) for one in self.shops.sources]
        while deaths or self._are_to_die() or not all(one.done.is_set() for one in writers):
            for sources in dealt:
                self._look_after(sources, deaths)
            if faults and self.chance.random() < 0.2 and self._do(faults[-1]):
                faults.pop()
            time.sleep(0.03)
        for driver, _, _ in self.running.values():
            driver.kill()
        self.running.clear()

    def _are_to_die(self) -> bool:
        return any(death for _, _, death in self.running.values())

    def _look_after(self, sources: tuple[str, ...], deaths: list[str]) -> None:
        if sources in self.running:
            driver, since, death = self.running[sources]
            where = death
            if driver.alive():
                if not death or time.monotonic() - since < self.patience:
                    return
                driver.kill()
                where = "anywhere"
            self._check(driver)
            self.done[f"died {where}" if driver.code == -9 else "ended to be tried again"] += 1
            if death and driver.code != -9:
                deaths.append(death)  # another one dies it
            del self.running[sources]
        death = deaths.pop() if deaths else ""
        self.running[sources] = (self.start(sources, "forever", death), time.monotonic(), death)

    def _check(self, driver: Driver) -> None:
        """Raises AssertionError where it has ended by an error that does not pass."""
        if driver.code == -9:
            return
        error = reported_in(driver.text())
        assert error is not None, f"exit {driver.code}: {driver.text()[-6000:]}"
        assert error.reaction is Reaction.RETRY, f"exit {driver.code}: {driver.text()[-6000:]}"

    def _do(self, fault: str) -> bool:
        """Do it. Return False if there is nothing to do."""
        if fault == "unlock":
            return self._unlock()
        if fault == "target" and not self._lanes():
            return False
        self.done[f"{fault} killed"] += 1
        if fault == "target":  # amid a re-sync
            self.shops.target.kill()
            self.shops.target.start()
        else:
            self.shops.relays.pop(self.chance.choice(list(self.shops.relays))).kill()
            self.shops.relay()
        return True

    def _unlock(self) -> bool:
        """Let DDL be run without the sources that have not made it, where rows of their form fit after it."""
        for lock, _ in stored_locks(self.shops.store):
            fits = not any(
                word in sql for info in lock.infos for sql in info.ddls for word in ("DROP COL", "CHANGE", "RENAME")
            )
            if lock.unsynced and not lock.executed and lock.decision is None and fits:
                with suppress(LockRefuses):
                    unlock(self.shops.store, lock.id, owner=None, action=Action.EXEC, force=True)
                    self.done["unlocked"] += 1
                    return True
        return False

    def finish(self) -> None:
        """Run until all is done. Raises AssertionError."""
        everybody = tuple(self.shops.sources)
        agreeing = self.start(everybody, "forever")  # as one with an end begins anew for each DDL that others bring
        deadline = time.monotonic() + LAST_RUN_SECONDS
        while left := self.left():
            assert time.monotonic() < deadline, (left, agreeing.text()[-6000:])
            if not agreeing.alive():
                self._check(agreeing)
                agreeing = self.start(everybody, "forever")
            time.sleep(0.1)
        agreeing.kill()
        self._check(agreeing)
        last = self.start(everybody, "caught-up")
        assert last.ends(LAST_RUN_SECONDS), last.text()[-6000:]
        assert last.code == 0, last.text()[-6000:]

    def left(self) -> dict[str, object]:
        """Return what is of a DDL that is on its way."""
        shops = self.shops
        found = {
            "locks": shops.store.ddl_locks(),
            "held": shops.meta_rows("dm_shard_member"),
            "waiting": shops.meta_rows("dm_contested_row"),
            "lanes": self._lanes(),
        }
        return {what: one for what, one in found.items() if one}

    def _lanes(self) -> int:
        """Return how many buckets are in a re-sync."""
        lanes = "SELECT COUNT(*) FROM dm_frontier WHERE source LIKE '%re-sync%'"
        return int(self.shops.target.sql(lanes, database=self.shops.meta)[0][0])


@dataclass
class Round:
    """One task, from its beginning to the comparison."""

    drivers: Drivers
    histories: Mapping[str, History]
    seconds: float

    def play(self, deaths: Sequence[str], faults: Sequence[str]) -> None:
        """Play it. Raises AssertionError where a run ends otherwise than well by itself, or something differs then."""
        shops = self.drivers.shops
        writers = [
            Writer(shops.sources[name], shops.schema_of(name), history, self.seconds / len(history.written))
            for name, history in self.histories.items()
        ]
        for one in writers:
            one.begin()
        shops.load()
        close_target(endpoint("target", shops.target))
        exact = "target" not in faults and shops.target.flavour != "tidb"  # which has no binlog
        begun = self._log_ends() if exact else None
        with ExitStack() as writing:
            for one in writers:
                writing.enter_context(one.writing())
            self.drivers.torment(deaths, writers, faults)
        self.drivers.finish()
        self.compare(begun)

    def compare(self, begun: tuple[str, int] | None) -> None:
        """`begun`: the place in the target's log after which all DDL is that it has run. Raises AssertionError."""
        shops, done = self.drivers.shops, self.drivers.done
        left = self.drivers.left()
        assert left == {}
        run = {} if begun is None else self._run_in_target(begun)
        for family in shops.families:
            shards = [(name, one) for name, history in self.histories.items() for one in history.shards[family.name]]
            places = [(shops.sources[name], f"{shops.schema_of(name)}.{one.name}") for name, one in shards]
            report = differences(shops.target, {f"{shops.schema}.{family.name}": places})
            assert report.equal, report
            for name, one in shards:
                self._compare_definitions(family, name, one)
            if begun is not None:
                assert len(run[family.name]) == len(family.ddls), run[family.name]
            done["rows compared"] += report.rows
            done["DDL locks"] += len(family.ddls)
            done["DDL of shards"] += len(family.ddls) * len(shards)

    def _compare_definitions(self, family: Family, source: str, shard: Shard) -> None:
        shops = self.drivers.shops

        def of(server: Server, schema: str, name: str) -> dict[str, str]:
            found = definitions.in_our_words(server, schema)
            if shops.target.flavour == "tidb":
                found = as_in_tidb(found)
            mine = re.compile(rf"{name}(?=[. ]|$)")
            return {mine.sub("", key): value for key, value in found.items() if mine.match(key)}

        ours, theirs = (
            of(shops.sources[source], shops.schema_of(source), shard.name),
            of(shops.target, shops.schema, family.name),
        )
        assert ours == theirs, (family.name, shard.name)

    # The target's log

    def _log_ends(self) -> tuple[str, int]:
        logs = self.drivers.shops.target.sql("SHOW BINARY LOGS")
        return str(logs[-1][0]), int(logs[-1][1])

    def _run_in_target(self, begun: tuple[str, int]) -> dict[str, list[str]]:
        """Return the DDL that the target has run on each merged table."""
        shops = self.drivers.shops
        found: dict[str, list[str]] = {one.name: [] for one in shops.families}
        name, position = begun
        for log in [str(row[0]) for row in shops.target.sql("SHOW BINARY LOGS")]:
            if log < name:
                continue
            begin = position if log == name else 4
            for *_, info in shops.target.sql(f"SHOW BINLOG EVENTS IN '{log}' FROM {begin}"):
                named = re.match(
                    rf"(?:[^`]*; )?(?:ALTER TABLE|\w+ \w* ?INDEX \S+ ON) `{shops.schema}`\.`(\w+)`", str(info)
                )
                if named:
                    found[named[1]].append(str(info))
        return found


def play_round(
    target: Server,
    sources: Mapping[str, Server],
    *,
    schema: str,
    seed: int,
    nursery: Nursery,
    deaths: Sequence[str] = (),
    faults: Sequence[str] | None = None,
    families: int = FAMILIES,
    seconds: float | None = None,
    patience: float = PATIENCE,
) -> Counter[str]:
    """One round in a schema of its own. Gives what was done. Raises AssertionError; then its folder is kept.

    `deaths`, `faults`: instead of some by chance. Source `c` lives in a schema of its own on its server.
    """
    chance = random.Random(seed)
    deaths = deaths or [any_death(chance) for _ in range(chance.randint(4, MOST_DEATHS))]
    if faults is None:
        faults = chance.choice([(), (), ("relay",), ("relay", "relay"), ("target", "target")])
        faults = (*faults, *(("unlock",) * chance.choice([0, 2, 4])))
    made = [make_family(f"g{number}", chance, ddls=chance.randint(2, 4)) for number in range(families)]
    histories = {
        name: History.of(made, random.Random(f"{seed} {name}"), number=number + 1, length=LENGTH, most=4)
        for number, name in enumerate(sources)
    }
    with ExitStack() as stack:
        shops = stack.enter_context(a_task(target, sources, schema=schema, seed=seed))
        sharded = Shards(**{**vars(shops), "families": made})
        for name, server in sources.items():
            server.sql(f"CREATE DATABASE IF NOT EXISTS {sharded.schema_of(name)}")
        (shops.folder / "histories.sql").write_text(_script(histories))
        drivers = stack.enter_context(closing(Drivers(sharded, nursery, chance, patience)))
        Round(drivers, histories, seconds or chance.choice(SECONDS)).play(deaths, faults)
        for name, server in sources.items():
            server.sql(f"DROP DATABASE IF EXISTS {sharded.schema_of(name)}")
        target.sql(f"DROP DATABASE {sharded.schema}; DROP DATABASE {sharded.meta}")
    return drivers.done


def any_death(chance: random.Random) -> str:
    """Return a death, as `dying.Death` reads it."""
    return f"{chance.choice(['front', 'behind'])} {chance.choice(list(STEPS))} {chance.choice([0, 0, 0, 1, 2, 5])}"


def _script(histories: Mapping[str, History]) -> str:
    return "\n".join(
        f"-- {name}\n" + ";\n".join("; ".join(one) for one in (*history.begun, *history.written))
        for name, history in histories.items()
    )
