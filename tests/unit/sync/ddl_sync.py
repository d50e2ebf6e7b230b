"""A sync in the world of ddl_world.py: what sync/loop.py does, as far as it is about DDL and what is applied.

All that it calls is the engine's. What is left out is how rows are folded (frontier_world.py has that): here they go to
the target as the log has them, by the names of the plan's columns, one bucket after the other. `Quirks` switches off a
rule of the loop.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from airflow_provider_dm.engine.binlog.planned import DdlStatement
from airflow_provider_dm.engine.ddl.statements import PassedOver, Statement
from airflow_provider_dm.engine.meta.model import Operator
from airflow_provider_dm.engine.sync import start
from airflow_provider_dm.engine.sync.begin import SyncSource
from airflow_provider_dm.engine.sync.by_hand import ByHand
from airflow_provider_dm.engine.sync.ddl import Concerns, PassOver, Repeat
from airflow_provider_dm.engine.sync.following import Following
from airflow_provider_dm.engine.sync.plan import SyncPlan
from airflow_provider_dm.engine.target.frontier import Act, Step, extent, fenced_transaction, read_all_stands
from airflow_provider_dm.engine.target.session import run_transaction, target_connection
from airflow_provider_dm.engine.target.subtask import read_subtask
from tests.unit.sync.ddl_history import Item, place_of
from tests.unit.sync.ddl_target import Row

BUCKETS: Final = 2


@dataclass(frozen=True)
class Quirks:
    """Rules to switch off, of the loop and of who starts it."""

    old_plan: bool = False
    """Rows are read by the plan that was there when they were looked for, ahead of the DDL in front of them."""
    no_drain: bool = False
    """DDL is executed while rows in front of it are on their way."""
    same_generation: bool = False
    """A run does not say that it is another one."""
    no_claim: bool = False
    """A run does not tell the target of its generation."""
    used_up: bool = False
    """What a person wants at a place is forgotten when somebody begins with it."""


class Surroundings(Protocol):
    """Part of the world that a sync needs."""

    rng: random.Random
    quirks: Quirks


class Sync:
    """The sync of one source, from its start on."""

    def __init__(self, world: Surroundings, source: SyncSource, log: Sequence[Item], store: Any) -> None:
        self.world, self.source, self.log = world, source, log
        ref = source.fence.ref
        connection = target_connection(source.target)
        low, edge = extent(read_all_stands(connection, ref))
        self.at, self.edge = position_of(low), position_of(edge)
        self.plan, _ = start._plan(connection, source, BUCKETS, low)
        subtask = read_subtask(connection, ref)
        assert subtask is not None
        if self.edge > self.at:
            self.plan = start.plan_to_begin_with(self.plan, subtask, place_of(self.at), place_of(self.edge))
        elif self.plan.fingerprint() != subtask.plan:
            start._note_plan(self.plan, [], source)
        self.following = Following(source)
        self.by_hand = ByHand(store, *ref.key)
        self.plan_ahead = self.plan

    def run(self) -> None:
        while self.at < len(self.log):
            self.by_hand.refresh()
            item = self.log[self.at]
            if item.sql:
                self._ddl(self.at, item)
            else:
                if self.edge <= self.at:
                    self._inject()
                end = self._end()
                if self.world.quirks.no_drain and end < len(self.log) and self.log[end].sql:
                    self._ddl_too_soon(end)
                self._rows(end)
                self.plan_ahead = self.plan
            self.by_hand.passed(place_of(self.at))

    def _end(self) -> int:
        if self.edge > self.at:
            return self.edge
        ends = [number for number in range(self.at + 1, len(self.log)) if self.log[number].sql]
        by_hand = self.by_hand.next_place(place_of(self.at))
        if by_hand is not None:
            ends.append(position_of(by_hand.sort_key))
        return self.world.rng.randint(self.at + 1, min([*ends, len(self.log)]))

    def _step(self, end: int) -> Step:
        return Step(self.source.fence, key_of(self.at), key_of(end))

    # DDL

    def _ddl(self, at: int, item: Item) -> None:
        ddl = _logged(at, item)
        operator, moved = self.by_hand.at(ddl), False
        match self.following.meaning(ddl, self.plan):
            case PassOver() if operator is None:
                moved = self.following.pass_over(ddl, self._step(at + 1), BUCKETS)
            case PassOver(why):
                moved = self._follow(ddl, PassedOver(why), operator)
            case Concerns(_, statement):
                moved = self._follow(ddl, statement, operator)
            case Repeat() as repeat:
                moved = self._follow(ddl, repeat, operator)
        if moved:
            self.at = at + 1
        else:
            self._rows(at + 1)

    def _follow(self, ddl: DdlStatement, statement: Statement | Repeat | None, operator: Operator | None) -> bool:
        """Tell whether the frontier is behind it."""
        self.plan = self.following.follow(ddl, statement, self._step(self.at + 1), self.plan, operator)
        return ddl.rows is None

    def _inject(self) -> None:
        operator = self.by_hand.before_rows(place_of(self.at))
        if operator is not None:
            self.plan = self.following.inject(operator, place_of(self.at), self.plan)

    def _ddl_too_soon(self, at: int) -> None:
        before, self.at = self.at, at
        match self.following.meaning(ddl := _logged(at, self.log[at]), self.plan):
            case Concerns(_, statement):
                self.following.follow(
                    ddl, statement, Step(self.source.fence, key_of(at), key_of(at + 1)), self.plan, None
                )
        self.at = before

    # Rows

    def _rows(self, end: int) -> None:
        """Apply up to there, each bucket in a transaction of its own."""
        plan = self.plan_ahead if self.world.quirks.old_plan else self.plan
        everywhere: Any = partial(run_transaction, self.source.target)
        for bucket in self.world.rng.sample(range(BUCKETS), BUCKETS):
            fenced_transaction(everywhere, self._step(end), Act.ADVANCE, [bucket], partial(self._write, plan, end))
        self.at = self.edge = end

    def _write(self, plan: SyncPlan, end: int, connection: Any, buckets: Sequence[int]) -> None:
        parts = {part.table.name: part for part in plan.sources}
        for name, away, values in (row for item in self.log[self.at : end] for row in item.rows):
            if int(values[0] or 0) % BUCKETS not in buckets or not plan.rules.allows(name):
                continue
            part = parts[name]
            columns = [column.name for column in part.table.columns]
            row: Row = dict(zip(columns, values, strict=True))
            connection.write(plan.targets[part.target].name, row, away=away)


def _logged(at: int, item: Item) -> DdlStatement:
    rows: Any = object() if item.rows else None
    return DdlStatement(place_of(at), place_of(at + 1), "", item.sql, 0, rows=rows)


def key_of(position: int) -> str:
    return place_of(position).sort_key


def position_of(key: str) -> int:
    return int(key.rsplit(".", 1)[1]) - 4
