"""A sync in the world of ddl_world.py: what sync/loop.py does, as far as it is about DDL and what is applied.

All that it calls is the engine's: rows are folded, sorted into waves and written as the mode has it, safe mode says
what may be otherwise, and tables that take the rows of others are looked after. What is left out is the runner: the
tasks of an epoch come one after the other, in any order, and any of them may be the last one that its run has done.
`Quirks` switches off a rule of the loop.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol

from airflow_provider_dm.engine.binlog.planned import DdlStatement, Epoch, Planned
from airflow_provider_dm.engine.ddl.statements import IrrelevantStatement, Statement
from airflow_provider_dm.engine.downstream.errors import DuplicateInTarget
from airflow_provider_dm.engine.downstream.frontier import EpochRange, extent, read_whole_frontier
from airflow_provider_dm.engine.downstream.safe_mode_window import SafeModeWindow, load_window
from airflow_provider_dm.engine.downstream.session import run_transaction, target_connection
from airflow_provider_dm.engine.downstream.subtask import note_location, read_subtask
from airflow_provider_dm.engine.meta.records import Operator
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.rules.online_ddl.memory import OnlineDdls
from airflow_provider_dm.engine.rules.online_ddl.outcomes import ApplyDdl, SkipDdl
from airflow_provider_dm.engine.schema.codec import Row as Values
from airflow_provider_dm.engine.sync.ddl.by_hand import SubtaskOperators
from airflow_provider_dm.engine.sync.ddl.subtask_tables import SubtaskTables
from airflow_provider_dm.engine.sync.ddl.verdict import RelevantDdl
from airflow_provider_dm.engine.sync.errors import MissingRow
from airflow_provider_dm.engine.sync.following import DdlMeaning, Following
from airflow_provider_dm.engine.sync.loop_state import LoopState
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.safe_mode.overwriting import Collision
from airflow_provider_dm.engine.sync.safe_mode.states import Collisions, SafeMode, SafeModeState, save_window
from airflow_provider_dm.engine.sync.shard_ddl.source_shards import Shards
from airflow_provider_dm.engine.sync.start import opening as start
from airflow_provider_dm.engine.sync.sync_source import SyncSource
from airflow_provider_dm.engine.sync.write.apply import Target, WaveWriter
from airflow_provider_dm.engine.sync.write.causality import make_waves
from airflow_provider_dm.engine.sync.write.compactor import Compactor, FoldedChanges
from airflow_provider_dm.engine.sync.write.concurrency import WriteConcurrency, spreads
from airflow_provider_dm.engine.sync.write.tasks import pack, unpack
from airflow_provider_dm.engine.sync.write.transactional import TransactionalWriter, TransactionGroup
from tests.unit.sync.ddl_history import Item, place_of
from tests.unit.sync.ddl_shared import Shared, sharing_of

BUCKETS: Final = 2
LOOKS: Final = 0.05
"""How often tables that take the rows of other sources are checked without a reason."""


@dataclass(frozen=True)
class Quirks:
    """Rules to switch off, of the loop and of who starts it."""

    old_plan: bool = False
    """Rows are read by the plan at the time of the plan made ahead, before the DDL that precedes them."""
    no_drain: bool = False
    """DDL is executed while rows before it are on their way."""
    same_generation: bool = False
    """A run does not say that it is another one."""
    no_claim: bool = False
    """A run does not tell the target of its generation."""
    used_up: bool = False
    """A user's decision for a location is removed when a driver starts to follow it."""
    exact_too_soon: bool = False
    """The log counts as exact from the beginning on."""
    left_by_time: bool = False
    """It is exact once the log time has passed, at any location."""
    strict: bool = False
    """Nothing that collides is let through."""
    own_plan: bool = False
    """Half a piece is completed by the mode of today."""
    unlooked: bool = False
    """No run retries rows that wait for their places."""
    waits_on: bool = False
    """Rows that wait are not put into their places before others are written over."""


class Surroundings(Shared, Protocol):
    """Part of the world that a sync needs."""

    rng: random.Random
    quirks: Quirks

    def met(self, collisions: Iterable[Collision]) -> None:
        """Record the rows that were overwritten."""

    def arrives(self, source: str) -> bool:
        """Return True if the syncs of all sources are at the ends of their logs, as this one is."""
        ...

    def rest(self) -> None:
        """Let others act. Raises Died."""


class Sync:
    """The sync of one source, from its start on."""

    def __init__(self, world: Surroundings, source: SyncSource, log: Sequence[Item], store: Any) -> None:
        self.world, self.source, self.log = world, source, log
        ref, connection = source.fence.ref, target_connection(source.target)
        self.target = Target(partial(run_transaction, source.target), lambda: world.access)
        low, edge = extent(read_whole_frontier(connection, ref))
        self.at, self.edge = position_of(low), position_of(edge)
        plan, _ = start._plan(connection, source, BUCKETS, low)
        subtask = read_subtask(connection, ref)
        assert subtask is not None
        self.safe_mode = self._safe_mode(subtask.overwrite_until, load_window(connection, ref))
        self.plan = start.with_safe_mode(source, plan, overwrites=self._overwrites())
        self.sharing, self.collisions = sharing_of(world, source), Collisions(ref.source)
        self.half: SyncPlan | None = None
        if self.safe_mode.at(place_of(self.at)) is SafeModeState.UNTIL_LOCATION:
            self.plan.check_keys_kept()
        if self.edge > self.at:
            if not world.quirks.own_plan:
                half = start.plan_to_begin_with(self.plan, subtask, place_of(self.at), place_of(self.edge))
                self.half = None if half is self.plan else half
        elif self.plan.fingerprint() != subtask.plan:
            start._save_plan(self.plan, [], source)
        self.tables: SubtaskTables | None = None
        self.online_ddl: OnlineDdls | None = None
        self.following = Following(source, Shards(source, store))
        self.by_hand = SubtaskOperators(store, *ref.key)
        self.plan_ahead = self.plan

    def _safe_mode(self, until: Location | None, window: SafeModeWindow | None) -> SafeMode:
        by_time = self.world.quirks.left_by_time and window is not None
        return SafeMode(self.source.config.syncer.safe_mode, None if by_time else until, window)

    def run(self) -> None:
        self._note()
        self._look()
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
                items = self.log[self.at : end]
                newest = max(item.time for item in items)
                self._seen(Epoch(place_of(self.at), place_of(end), (), len(items), 0, newest))
                self._rows(end)
                self.plan_ahead = self.plan
            self.by_hand.passed(place_of(self.at))
            self._note()
        self._arrive()

    def _note(self) -> None:
        """Say that the log is exact from here on, when it is: others wait for that."""
        until = self.safe_mode.until
        if until is not None and self.at >= position_of(until.sort_key):
            self.safe_mode = replace(self.safe_mode, until=None)
            self._note_location()
        elif self._shares() and self.world.rng.random() < LOOKS:
            self._look()

    def _seen(self, planned: Planned) -> None:
        self.safe_mode = save_window(self.target.transactions, self.source.fence, self.safe_mode, planned)

    def _note_location(self) -> None:
        fence, here, exact = self.source.fence, place_of(self.at), self.safe_mode.until is None
        self.target.transactions(lambda connection: note_location(connection, fence, here, exact=exact))

    # Tables that take the rows of others

    def _shares(self) -> bool:
        """Return True if rows of a table may be otherwise than the source's log says, or may come to be."""
        return bool(self.plan.merged and (self.sharing.several or self.plan.safe or self.sharing.rows))

    def _look(self) -> None:
        """See `Loop._check_shared_tables`, which the loop calls when it reports its location."""
        if self._shares():
            self._note_location()
            between = self.edge <= self.at
            if not self.world.quirks.unlooked:
                self.plan = self.sharing.check(self.plan)
            if between:
                self._follow_plan()
                self._overwrite_by_waiting()

    def _overwrite_by_waiting(self) -> None:
        if self.sharing.rows and self.plan.safe and not self.world.quirks.waits_on:
            self._met(self.sharing.overwrite_by_waiting(self.plan))

    def _overwrites(self) -> bool:
        here, quirks = place_of(self.at), self.world.quirks
        too_soon = self.safe_mode.at(here) is SafeModeState.UNTIL_LOCATION and quirks.exact_too_soon
        return self.safe_mode.is_lenient(here) and not quirks.strict and not too_soon

    def _met(self, collisions: Sequence[Collision]) -> None:
        self.collisions.add(collisions, self.sharing.contests.servers.feeders)
        self.world.met(collisions)

    def _arrive(self) -> None:
        """Wait for the others, whose rows may find their places by us, and look after those that wait still."""
        self._look()
        while not self.world.arrives(self.source.fence.ref.source):
            self.world.rest()
            self._look()
        if self.sharing.rows:
            self._look()
            self.sharing.finish(self.plan, self._rest)

    def _rest(self, _seconds: float) -> bool:
        self.world.rest()
        return False

    def _end(self) -> int:
        """Return where the next piece of rows ends: at an edge, or before what it must not cross."""
        if self.edge > self.at:
            return self.edge
        at, ends = self.at, [number for number in range(self.at + 1, len(self.log)) if self.log[number].sql]
        by_hand, safe = self.by_hand.next_place(place_of(at)), self.safe_mode
        ends += [position_of(one.sort_key) for one in (by_hand, safe.until, safe.exit) if one is not None]
        if (awaited := safe.until_time) is not None:
            ends += [number + 1 for number in range(at, len(self.log)) if self.log[number].time >= awaited][:1]
        return self.world.rng.randint(at + 1, min([*(end for end in ends if end > at), len(self.log)]))

    def _step(self, end: int) -> EpochRange:
        return EpochRange(self.source.fence, key_of(self.at), key_of(end))

    # DDL

    def _ddl(self, at: int, item: Item) -> None:
        ddl = _logged(at, item)
        self._seen(ddl)
        operator, moved = self.by_hand.at(ddl), False
        meaning = self.following.meaning(ddl, self._state())
        match meaning.outcome:
            case SkipDdl() if operator is None:
                became = self.following.pass_over(meaning, self._state())
                self.online_ddl, moved = became.online_ddl, became.applied == ddl.end
            case SkipDdl(why):
                moved = self._follow(meaning, IrrelevantStatement(why), operator)
            case RelevantDdl(_, statement):
                moved = self._follow(meaning, statement, operator)
            case ApplyDdl() as repeat:
                moved = self._follow(meaning, repeat, operator)
        if moved:
            self.at = at + 1
        else:
            self._rows(at + 1)

    def _follow(self, meaning: DdlMeaning, statement: Statement | ApplyDdl | None, operator: Operator | None) -> bool:
        """Return True if the frontier is after it."""
        self._adopt(self.following.follow(meaning, statement, self._state(), operator))
        return meaning.ddl.rows is None

    def _inject(self) -> None:
        operator = self.by_hand.before_rows(place_of(self.at))
        if operator is not None:
            self._adopt(self.following.inject(operator, place_of(self.at), self._state()))

    def _state(self) -> LoopState:
        fence, here, plan = self.source.fence, place_of(self.at), self.plan
        state = LoopState(fence, here, here, None, None, plan, plan, self.safe_mode)
        return replace(state, tables=self.tables, online_ddl=self.online_ddl)

    def _adopt(self, became: LoopState) -> None:
        self.plan, self.tables, self.online_ddl = became.plan, became.tables, became.online_ddl
        self.sharing.contests.servers.forget_mappings()

    def _ddl_too_soon(self, at: int) -> None:
        before, self.at = self.at, at
        meaning = self.following.meaning(_logged(at, self.log[at]), self._state())
        match meaning.outcome:
            case RelevantDdl(_, statement):
                became = self.following.follow(meaning, statement, self._state(), None)
                self.tables, self.online_ddl = became.tables, became.online_ddl
        self.at = before

    # Rows

    def _rows(self, end: int) -> None:
        """Apply up to there."""
        self._follow_plan()
        self._overwrite_by_waiting()
        try:
            contested = self._apply(end)
        except (DuplicateInTarget, MissingRow):
            before, self.plan = self.plan, self.sharing.noticed(self.plan)
            if self.half is not None or self.plan is before:
                raise
            contested = self._apply(end)  # others have begun to feed the same table
        if self.half is not None:
            start._save_plan(self.plan, [], self.source)
            self.half = None
        self.at = self.edge = end
        if contested or self.sharing.rows:
            self._look()

    def _follow_plan(self) -> None:
        before = self.plan.fingerprint()
        self.plan = replace(self.plan, safe=self._overwrites())
        if self.half is None and self.plan.fingerprint() != before:
            start._save_plan(self.plan, [], self.source)

    def _apply(self, end: int) -> int:
        """Return how many rows wait for their places."""
        plan = self.half or (self.plan_ahead if self.world.quirks.old_plan else self.plan)
        way = WriteConcurrency.of(self.source.config.syncer, plan, tasks=BUCKETS)
        writer = WaveWriter(plan, self.target, self._step(end), batch=way.batch, multiple_rows=way.multiple_rows)
        if plan.whole:
            groups = [
                TransactionGroup(key_of(at + 1), 1, partial(self._changes, plan, at, at + 1))
                for at in range(self.at, end)
            ]
            written = TransactionalWriter(writer).write(groups)
            self._met(written.collisions)
            return written.contested
        contested = self._waves(writer, self._folded(plan, end), way.tasks)
        self._met(writer.collisions)
        return contested

    def _folded(self, plan: SyncPlan, end: int) -> FoldedChanges:
        """Fold in two pieces, as two ranges would be; the pieces are put together as blobs are."""
        cut = self.world.rng.randint(self.at, end) if spreads(plan) else end
        if cut in (self.at, end):
            return Compactor(plan).add_all(self._changes(plan, self.at, end))
        pieces = ((self.at, cut), (cut, end))
        return unpack(plan, [pack(plan, Compactor(plan).add_all(self._changes(plan, *one)), 1)[0] for one in pieces])

    def _waves(self, writer: WaveWriter, folded: FoldedChanges, tasks: int) -> int:
        waves = make_waves(writer.plan, folded)
        groups = [range(first, BUCKETS, tasks) for first in range(tasks)]
        for buckets in self.world.rng.sample(groups, tasks):
            writer.release({bucket: work for bucket, work in waves.first.items() if bucket in buckets})
        return sum(
            writer.advance(waves.second, buckets, waves.later) for buckets in self.world.rng.sample(groups, tasks)
        )

    def _changes(self, plan: SyncPlan, low: int, high: int) -> Iterator[tuple[int, Values | None, Values | None]]:
        """Yield what the decoder would. Raises KeyError for a table that it should know."""
        numbers = {part.table.name: number for number, part in enumerate(plan.sources)}
        for at in range(low, high):
            for name, before, after in self.log[at].rows:
                if plan.rules.allows(name):
                    yield numbers[name], before, after


def _logged(at: int, item: Item) -> DdlStatement:
    rows: Any = object() if item.rows else None
    return DdlStatement(place_of(at), place_of(at + 1), "", item.sql, item.time, rows=rows)


def key_of(position: int) -> str:
    return place_of(position).sort_key


def position_of(key: str) -> int:
    return int(key.rsplit(".", 1)[1]) - 4
