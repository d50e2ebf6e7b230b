"""A small world in which the exactly-once protocol runs: the engine's own code, over SQLite, with accidents.

One or several sources, each with one or several shards, go into the same tables. Each source has a driver, which begins
with empty tables or finds them filled by somebody else, and then cuts its log into epochs and applies them, at its own
pace. All of it is the engine's: compactor, waves, writer, frontier, and rows that wait. Loads are the concern of
rounds_world.py.

At any transaction a process may die, a task alone or the driver with it, and any piece of work that was ever started
may be run again by a zombie. In the end the target must equal the sources, row by row, and nothing may wait.

`Quirks` switches one rule of the protocol off, to see that it is needed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from airflow_provider_dm.engine.downstream.statements import Verb, write_rows
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.codec import Row, row_literals
from tests.unit.sync.frontier_driver import Driver
from tests.unit.sync.histories import TARGETS, History, Layout
from tests.unit.sync.sqlite_target import Database, Died, Moment

T = TypeVar("T")


@dataclass
class Quirks:
    """Rules of the driver to switch off, one at a time. The engine's own code is patched by the test."""

    ignore_edge: bool = False
    no_generation_bump: bool = False
    release_after: bool = False
    exact_past: bool = False
    """The log counts as exact from a start in a past that is not exact."""
    together: bool = False
    """Source tables of a merged target are folded together and care for nobody."""
    no_looks: bool = False
    """Drivers do not look after rows that wait."""
    haunted: float = 0.15
    """How often a zombie comes before a transaction."""


class World:
    """Target, drivers and fate. `run` plays a whole history.

    `past`: the target was filled by somebody else, and the logs begin before that; else it is empty where they begin.
    `compact`, `whole`: as the plan has them.
    """

    def __init__(
        self,
        seed: int,
        *,
        changes: int = 60,
        past: bool = False,
        sources: int = 1,
        shards: int = 1,
        collide: bool = False,
        compact: bool = True,
        whole: bool = False,
        quirks: Quirks | None = None,
    ) -> None:
        self.rng = random.Random(seed)
        self.compact, self.whole = compact, whole
        self.quirks = quirks or Quirks()
        self.past = past
        layout = Layout(sources, shards)
        self.history = History.make(self.rng, changes, layout, collide=collide, orderly=changes * 2 // 3 * past)
        self.time = 0.0
        self.database = Database(lambda: self.time)
        self.zombies: list[Callable[[], object]] = []
        self.in_zombie = False
        self.fate = 0.12
        self.deaths = self.repeats = self.waited = self.begun = 0
        self.drivers = [Driver(self, number) for number in range(sources)]
        if past:
            self._fill()

    def run(self) -> None:
        running = {driver: driver.life() for driver in self.drivers}
        while running:
            driver = self.rng.choice(list(running))
            try:
                next(running[driver])
            except StopIteration:
                del running[driver]
            except Died:
                self.deaths += 1
                driver.restart()
                running[driver] = driver.life()
            self.waited = self.waited or self.database.contested()
        self.fate = 0.0
        self._haunt(every=True)

    def differences(self, at: int = -1) -> list[str]:
        """Return what the target has too much (+) or too little (-), and how many rows wait. `at`: in the one log."""
        found = []
        for number, one in enumerate(TARGETS):
            held, wanted = self.database.rows(one), self.history.state(number, at)
            found += [f"{one.name}: +{row}" for row in (held - wanted)] + [
                f"{one.name}: -{row}" for row in wanted - held
            ]
        waiting = self.database.contested()
        return found + [f"{waiting} rows wait"] * (waiting > 0)

    def now(self) -> int:
        """The earliest moment that it can be, by what is applied and by what drivers have seen when they began."""
        order = self.history.order
        seen = self.history.positions(self.begun)
        here = [driver.applied() for driver in self.drivers]
        return next(
            moment
            for moment in range(len(order) + 1)
            if all(at >= max(a, b) for at, a, b in zip(self.history.positions(moment), here, seen, strict=True))
        )

    # Fate

    def transaction(self, body: Callable[[Any], T], /) -> T:
        self._haunt()
        moment = self.rng.choice(list(Moment)) if self.rng.random() < self.fate and not self.in_zombie else None
        return self.database.transaction(body, moment, self.rng.choice([1, 1, 2, 3, 4, 5, 6]))

    @contextmanager
    def mercy(self) -> Iterator[None]:
        """Nothing happens to anybody."""
        fate, self.fate, self.in_zombie = self.fate, 0.0, True
        yield
        self.fate, self.in_zombie = fate, False

    def _haunt(self, *, every: bool = False) -> None:
        """Somebody who was thought dead does again what was once started."""
        if self.in_zombie or not self.zombies or (not every and self.rng.random() > self.quirks.haunted):
            return
        self.in_zombie = True
        chosen = self.zombies[-40:] if every else [self.rng.choice(self.zombies[-12:])]
        for zombie in chosen:
            self.repeats += 1
            try:
                zombie()
            except DmError as refused:
                self.database.refusals[type(refused).__name__] += 1
        self.in_zombie = False

    # A target that somebody else has filled

    def _fill(self) -> None:
        """Fill it at some moment. Logs begin at an earlier one, drivers at a later one; until then all is orderly."""
        begin = self.rng.randint(0, self.history.orderly // 2)
        filled = self.rng.randint(begin, self.history.orderly)
        self.begun = self.rng.randint(filled, self.history.orderly)
        starts, now, ends = (self.history.positions(moment) for moment in (begin, filled, self.begun))
        for driver in self.drivers:
            driver.start, driver.end = starts[driver.number], ends[driver.number]
            for place in driver.places():
                number = self.history.layout.target(place)
                keyed = TARGETS[number].identity is not None
                at = now[driver.number] if keyed else starts[driver.number]  # a keyless copy must be exact
                for row in self.history.states[driver.number][at][place.number].elements():
                    self._put(number, row, Verb.REPLACE if keyed else Verb.INSERT)

    def _put(self, target: int, row: Row, verb: Verb) -> None:
        mapping = TableMapping(TARGETS[target], TARGETS[target])
        literals = row_literals(TARGETS[target], Flavour.MARIADB)(row)
        (statement,) = write_rows(mapping, [literals], verb)
        self.database.execute(self.database.connection(), statement)


MERGED_CHANGES: Final = 40
SINGLE: Final[dict[str, dict[str, Any]]] = {
    "exact": {},
    "a past not ours": {"past": True},
}
SHARED: Final[dict[str, dict[str, Any]]] = {
    name: {"changes": MERGED_CHANGES, **options}
    for name, options in {
        "shards, exact": {"shards": 2},
        "shards, a past not ours": {"shards": 2, "past": True},
        "sources, exact": {"sources": 2},
        "sources and shards, exact": {"sources": 2, "shards": 2},
        "three sources, exact": {"sources": 3},
    }.items()
}
COLLIDING: Final[dict[str, dict[str, Any]]] = {
    f"collide: {name}": {**SHARED[name], "collide": True}
    for name in ("shards, exact", "sources, exact", "sources and shards, exact")
}
"""Kinds of worlds."""
MODES: Final[dict[str, dict[str, bool]]] = {
    "every change": {"compact": False},
    "whole transactions": {"whole": True},
    "every change of whole transactions": {"compact": False, "whole": True},
}
"""Ways of writing besides the usual one."""
