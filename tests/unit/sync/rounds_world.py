"""A small world in which a load in rounds runs: the engine's own code over SQLite, with accidents.

Each source has a driver. It begins at any location, follows the log, opens a round at a location L to which it has
applied the log, lets readers write pages of their snapshots, and closes the round; until all keys are covered, and then
it follows the log to its end. The engine's are: coverage and its filter, the plan, the fold, the writers, the frontier,
the rounds and their pages, the rows that wait. What a server does is played: rounds_history.py is the source, with
snapshots that show what old snapshots show, rounds_target.py the target.

At any transaction a process may die, a reader alone or the driver with it, and work that was started once may be done
again at any later time: a page of a round that is over, an epoch, or anything of a driver that another one has
replaced. After *every* commit the law is checked, by code that is not the engine's: what the target has of a source,
together with what waits, is what the source has at the frontier, restricted to the keys that are covered.

Shards may make DDL of the merged table at any time (rounds_shards.py): a shard that is held back is where its first DDL
is, or where its re-sync has come to. Another server may take over a source's log at any time: it repeats a part of what
the first server's log has, and a part of that log was never pulled.

`Quirks` switches off one rule of the driver; the engine's own are patched by the test.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar
from unittest.mock import patch

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading import key_comparison
from airflow_provider_dm.engine.rules.route import Router
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.sync.write import tasks
from tests.unit.sync.rounds_driver import RULES, Driver
from tests.unit.sync.rounds_history import Histories
from tests.unit.sync.rounds_shards import Locks, held_places, shards_in_the_world
from tests.unit.sync.rounds_sources import MERGED, SHARD_DDL, Held, logged, target_of
from tests.unit.sync.rounds_target import Chunk, Target, covers
from tests.unit.sync.sqlite_target import Died, Moment

T = TypeVar("T")


@dataclass(frozen=True)
class Quirks:
    """Rules of the driver and its readers to switch off, one at a time."""

    moves_in_a_round: bool = False
    """The log is applied while a round is open."""
    closes_at_once: bool = False
    """Closing does not wait for pages whose first statement is done."""
    no_birth_check: bool = False
    """A reader does not check whether its table is still the table of L."""
    unlocked: bool = False
    """Snapshots are opened without a lock, so that they are near L."""
    min_to_max: bool = False
    """Chunks end at MIN and MAX of the survey."""
    no_xa_check: bool = False
    """The first round is opened whatever is prepared."""
    opens_anywhere: bool = False
    """A round is opened although an epoch is half done."""
    takes_over: bool = False
    """A reader continues in the round that its chunk is in now."""
    reads_held: bool = False
    """A round has shards that are held back."""
    opens_elsewhere: bool = False
    """A round is opened where another server's log was read past L."""
    any_server: bool = False
    """Births of two servers may be equal."""
    crosses_early: bool = False
    """Half an epoch is completed by whatever comes next."""
    releases_late: bool = False
    """A task writes final rows before all have released theirs."""
    keeps_generation: bool = False
    """A driver that comes back has the generation of the one that died."""
    exact_past: bool = False
    """The log counts as exact in a past that is not."""
    haunted: float = 0.15
    """How often a task that was believed dead acts before a transaction."""


@dataclass
class Zombie:
    """Work that may be done again. `generation`: of its driver; `any_time`: also while that driver is the newest."""

    work: Callable[[], object]
    driver: Driver
    generation: int
    any_time: bool


class LawBroken(AssertionError):
    """The target is not what the sources are."""


@dataclass
class World:
    """Target, drivers and fate. `run` plays a whole history."""

    seed: int
    sources: int = 1
    shards: int = 0
    items: int = 12
    xa: bool = False
    compact: bool = True
    whole: bool = False
    safe: bool = False
    past: bool = False
    """Another tool has filled the target, and the logs begin before that."""
    ddls: int = 0
    fails_over: bool = False
    quirks: Quirks = field(default_factory=Quirks)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        counts = {"sources": self.sources, "shards": self.shards, "items": self.items, "ddls": self.ddls}
        made = Histories(self.rng, xa=self.xa, **counts)
        self.database = Target()
        self.zombies: list[Zombie] = []
        self.sleepers: list[Callable[[], object]] = []
        """Readers that are about to read a page, each of which wakes once."""
        self.fate, self.in_zombie = 0.06, False
        self._known: dict[tuple[int, tuple[Chunk, ...]], Counter[tuple[TableName, Row]]] = {}
        self._checked = -1
        """The changes of the target's tables at the last check: a repeated work mostly changes nothing."""
        self.done: Counter[str] = Counter()
        self.drivers = [Driver(self, source) for source in made.sources]
        self.locks = Locks()

    def run(self) -> None:
        """Play it to its end. Raises LawBroken, and what the engine raises for a driver that is the newest."""
        running = {driver: driver.life() for driver in self.drivers}
        steps = 0
        while running:
            steps += 1
            assert steps < 5_000, "it never ends"
            driver = self.rng.choice(list(running))
            driver.time_passes()
            try:
                next(running[driver])
            except StopIteration:
                del running[driver]
            except Died:
                self.done["drivers died"] += 1
                running[driver] = driver.life()
        self.fate = 0.0
        for driver in self.drivers:
            driver.settle()
        for zombie in self.zombies[-30:]:
            self._rise(zombie)
        for work in self.sleepers:
            self._undead(work)
        self.check()
        for driver in self.drivers:
            if any(not chunk.done for chunks in self.database.chunks(driver.source.name).values() for chunk in chunks):
                raise LawBroken("a load has not ended")
        if self.database.waiting():
            raise LawBroken(f"rows wait: {self.database.waiting()}")

    def form(self) -> int:
        """Return how many DDL of the shards the merged table has."""
        names = self.database.tables[MERGED].by_name if MERGED in self.database.tables else ()
        return sum(statement.took_effect(names) for statement in SHARD_DDL)

    def late(self) -> list[Router]:
        """Return the routes of the sources that have not begun."""
        late = [driver.source.name for driver in self.drivers if driver.at() is None]
        return [replace(RULES.router, source_id=name) for name in late]

    # Fate

    def transaction(self, body: Callable[[Any], T], /) -> T:
        """Run a transaction, and check the target after it. Raises Died."""
        if not self.in_zombie and self.zombies and self.rng.random() < self.quirks.haunted:
            self._rise(self.rng.choice(self.zombies[-12:]))
        if not self.in_zombie and self.sleepers and self.rng.random() < 0.1:
            self._undead(self.sleepers.pop(self.rng.randrange(len(self.sleepers))))
        moment = self.rng.choice(list(Moment)) if self.rng.random() < self.fate and not self.in_zombie else None
        try:
            return self.database.transaction(body, moment, self.rng.choice([1, 1, 2, 3, 4, 6]))
        finally:
            self.check()

    def started(self, work: Callable[[], T], driver: Driver, *, any_time: bool) -> T:
        """Do work, which may be done again."""
        self.zombies.append(Zombie(work, driver, driver.generation, any_time))
        return work()

    def _rise(self, zombie: Zombie) -> None:
        if zombie.any_time or zombie.generation < zombie.driver.generation:
            self._undead(zombie.work)

    def _undead(self, work: Callable[[], object]) -> None:
        before, self.in_zombie = self.in_zombie, True
        self.done["repeated"] += 1
        try:
            work()
        except DmError as refused:
            self.done[type(refused).__name__] += 1
        finally:
            self.in_zombie = before

    # The law

    def check(self) -> None:
        """Compare the target with the sources. Raises LawBroken.

        Where an epoch is half done, a row may be as at any position of it, and one that it changes may be missing.
        """
        if self.database.sqlite.total_changes == self._checked:
            return
        self._checked = self.database.sqlite.total_changes
        waiting = self.database.waiting()
        self.done["commits with rows that wait"] += bool(waiting)
        least: Counter[tuple[TableName, Row]] = Counter()
        more: Counter[tuple[TableName, Row]] = Counter()
        for driver in self.drivers:
            source = driver.source
            found = self.database.frontier(source.name)
            if driver.is_in_past():
                return
            if found is None:
                continue
            low_of_all, high_of_all = (source.state_of(source.place_of(key)) for key in found)
            places = held_places(driver) if self.ddls else {}
            chunks = self.database.chunks(source.name)
            for name in source.states[low_of_all]:
                low, high = places.get(name, (low_of_all, high_of_all))
                lower = upper = self._restricted(source.states[low][name], chunks.get(name, ()))
                for at in range(low + 1, high + 1):
                    one = self._restricted(source.states[at][name], chunks.get(name, ()))
                    lower, upper = lower & one, upper | one
                least.update(lower)
                if upper != lower:
                    more.update(upper - lower)
                if waiting:
                    mine = Counter(
                        {
                            (target_of(name), row): n
                            for (of, table, row), n in waiting.items()
                            if (of, table) == (source.name, name)
                        }
                    )
                    if mine - upper:
                        raise LawBroken(f"{source.name} {name}: what waits is not there: {mine - upper}")
        there = Counter((name, row) for name in self.database.tables for row in self.database.values(name))
        for (_, name, row), count in waiting.items():
            there[target_of(name), row] += count
        if there != least and (least - there or there - least - more):
            raise LawBroken(f"too much {there - least - more}, missing {least - there}")

    def _restricted(self, held: Held, chunks: tuple[Chunk, ...]) -> Counter[tuple[TableName, Row]]:
        key = (id(held), chunks)
        if key not in self._known:
            to = target_of(held.table.name)
            self._known[key] = Counter((to, row) for row in held.values() if covers(held, chunks, row))
        return self._known[key]


KINDS: Final[dict[str, dict[str, Any]]] = {
    "one source": {},
    "one source, XA": {"xa": True},
    "one source, safe mode": {"safe": True},
    "one source, a past not ours": {"past": True},
    "shards": {"shards": 3, "items": 14},
    "two sources": {"sources": 2, "shards": 1, "items": 8},
    "two sources, shards": {"sources": 2, "shards": 2, "items": 8},
    "one source, failover": {"fails_over": True},
    "shards, DDL": {"shards": 3, "items": 14, "ddls": 2},
    "two sources, DDL, failover": {"sources": 2, "shards": 2, "items": 14, "ddls": 2, "fails_over": True},
}
MODES: Final[dict[str, dict[str, Any]]] = {
    "folded": {},
    "every change": {"compact": False},
    "whole transactions": {"whole": True},
    "every change of whole transactions": {"compact": False, "whole": True},
}


_PAIR: Final = re.compile(rb"_utf8mb4 x'([0-9a-f]*)' COLLATE \w+(>=|<=)_utf8mb4 x'([0-9a-f]*)' COLLATE \w+")


def answered(_source: object, sql: bytes) -> list[tuple[bytes]]:
    """Answer as the source, whose collation pads and folds case."""
    bits = []
    for left, sign, right in _PAIR.findall(sql):
        one, other = (bytes.fromhex(text.decode()).rstrip(b" ").upper() for text in (left, right))
        bits.append(b"1" if (one >= other if sign == b">=" else one <= other) else b"0")
    return [(b"".join(bits),)]


@contextmanager
def engine_in_the_world() -> Iterator[None]:
    """Let the engine find the world where it reads a log or asks a source."""
    with (
        shards_in_the_world(),
        patch.object(tasks, "decode_range", logged),
        patch.object(key_comparison, "read", answered),
    ):
        yield
