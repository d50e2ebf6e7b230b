"""The surroundings of the loop of one source, small: a script instead of a log, and tasks that write no rows.

The target is the model's (sqlite_target.py), with the engine's own frontier: an epoch with other bounds than where the
buckets bucket is refused here as it is there. `events` lists the loop's actions in their order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from airflow_provider_dm.engine.binlog.planned import DdlStatement, Epoch, EpochLimits, Planned, UpToDate
from airflow_provider_dm.engine.binlog.xa import PreparedXa, needed_location
from airflow_provider_dm.engine.config.rule_models import BlockAllowConfig
from airflow_provider_dm.engine.ddl.statements import Statement
from airflow_provider_dm.engine.downstream.frontier import read_whole_frontier
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.subtask import BUCKETS, UNIT_SYNC, begin_subtask, read_subtask
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.merge.contests import Contests
from airflow_provider_dm.engine.merge.owner_writer import TargetAccess
from airflow_provider_dm.engine.merge.servers import ContestServers
from airflow_provider_dm.engine.meta.records import Operator, Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.mapping import map_table
from airflow_provider_dm.engine.rules.online_ddl.memory import OnlineDdls
from airflow_provider_dm.engine.rules.online_ddl.outcomes import ApplyDdl
from airflow_provider_dm.engine.shard.group import Group
from airflow_provider_dm.engine.sync.ddl.by_hand import SubtaskOperators
from airflow_provider_dm.engine.sync.epoch import EpochApplier, EpochSize
from airflow_provider_dm.engine.sync.following import DdlMeaning, Following
from airflow_provider_dm.engine.sync.log.locations import Cursor
from airflow_provider_dm.engine.sync.loop import Loop
from airflow_provider_dm.engine.sync.loop_state import LoopState
from airflow_provider_dm.engine.sync.noting import SyncNotes
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.plan.plan_parts import SourcePart, target_part
from airflow_provider_dm.engine.sync.planning import Planning
from airflow_provider_dm.engine.sync.ports import Follower, MergedTables, SourceLog
from airflow_provider_dm.engine.sync.progress import SyncProgress
from airflow_provider_dm.engine.sync.runner import Exchange, LocalRunner, Shared
from airflow_provider_dm.engine.sync.safe_mode.states import SafeMode
from airflow_provider_dm.engine.sync.shard_ddl.source_shards import Shards
from airflow_provider_dm.engine.sync.sharing import Sharing
from airflow_provider_dm.engine.sync.sync_source import SyncSource
from airflow_provider_dm.engine.sync.write.apply import ApplyResult, Target, WaveWriter
from airflow_provider_dm.engine.sync.write.tasks import ApplyRanges, EpochJob
from tests.jobs import NOWHERE, job_spec, source_spec
from tests.unit.sync.sqlite_target import META, Database
from tests.unit.sync.target_tables import TARGETS

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")

LO = Location("bin.000001", 100)
FENCE = Fence(SubtaskRef(META, "task", "one"), 1)
BYTES = 1000
"""The size of an epoch, if a test gives none."""
RULES = BlockAllowRules.from_config(BlockAllowConfig(do_dbs=("shop",)), case_sensitive=False, meta_schema=META)
PLAN = SyncPlan((SourcePart(TARGETS[0], 0, None),), (target_part(map_table(TARGETS[0], TARGETS[0])),), BUCKETS, RULES)
BACKLOG = EpochSize(warm=True, limit=2 * BYTES, smallest=1, usual=2 * BYTES)
"""With it an epoch of the usual number of bytes is one of many."""


def epoch(lo: int, hi: int, size: int = BYTES) -> Epoch:
    return Epoch(LO.at(lo), LO.at(hi), (), transactions=1, bytes=size, newest_timestamp=hi)


def ddl(sql: str, at: int, end: int) -> DdlStatement:
    return DdlStatement(LO.at(at), LO.at(end), "shop", sql, 0)


class Log(SourceLog):
    """A log with the script's contents. At its end the loop is asked to stop."""

    def __init__(self, world: World, script: Sequence[Planned | DmError], *, at_fault: bool) -> None:
        self.world, self.script, self.at_fault = world, list(script), at_fault
        self.asked: list[tuple[Location, Location | None, int]] = []
        self.prepared: list[tuple[PreparedXa, ...]] = []
        self.until_times: list[int | None] = []
        self.open_places: list[list[Location]] = []
        self.looked_ahead = threading.Event()
        self.is_waiting = False

    @property
    def waiting(self) -> bool:
        return self.is_waiting

    def plan(self, at: Cursor, limits: EpochLimits) -> Planned:
        lo = at.place
        ahead = threading.current_thread() is not threading.main_thread()
        self.world.events.append(f"{'look ahead' if ahead else 'plan'} {lo.position}")
        self.asked.append((lo, limits.goal, limits.max_bytes))
        self.prepared.append(at.prepared)
        self.until_times.append(limits.until_time)
        self.open_places.append([one.place for one in at.open_places])
        if not self.script:
            self.world.stop.set()
        answer = self.script.pop(0) if self.script else UpToDate(lo)
        if ahead:
            self.looked_ahead.set()
        if isinstance(answer, DmError):
            raise answer
        return answer

    def distrust(self, error: DmError, epoch: Epoch, at: Cursor) -> None:
        if not self.at_fault:
            raise error
        self.world.events.append(f"distrust {epoch.lo.position}")
        self.prepared.append(at.prepared)

    def wait(self, seconds: float, stop: threading.Event) -> None:
        stop.wait(seconds)

    def update_progress(self, here: Location, goal: Location | None, *, held: Location | None) -> None:
        """Do nothing."""

    def idle(self, here: Cursor, seconds: float) -> None:
        self.world.events.append(f"idle {here.place.position}")


@dataclass
class Follows(Follower):
    """Follower of DDL: at once, by the plan as it is, or not at all. `refusal`: why not."""

    real: Following
    world: World
    refusal: Exception | None = None
    numbers: Collection[int] = ()
    operators: list[Operator | None] = field(default_factory=list)

    def noted(self, ddl: DdlStatement) -> Collection[int]:
        return self.numbers

    def meaning(self, ddl: DdlStatement, state: LoopState) -> DdlMeaning:
        return self.real.meaning(ddl, state)

    def pass_over(self, meaning: DdlMeaning, state: LoopState) -> LoopState:
        return self.real.pass_over(meaning, state)

    def plan_without(self, group: Group, plan: SyncPlan) -> SyncPlan:
        return self.real.plan_without(group, plan)

    def inject(self, operator: Operator, here: Location, state: LoopState) -> LoopState:
        self.world.events.append(f"inject {here.position}")
        return state

    def follow(
        self, meaning: DdlMeaning, statement: Statement | ApplyDdl | None, state: LoopState, operator: Operator | None
    ) -> LoopState:
        ddl = meaning.ddl
        self.operators.append(operator)
        if self.refusal is not None:
            raise self.refusal
        if ddl.rows is None:
            WaveWriter(state.plan, self.world.writes, state.step(ddl.end)).advance({}, range(BUCKETS))
        self.world.events.append(f"follow {ddl.at.position} {ddl.end.position}")
        return state


class NoExchange(Exception):
    """Several tasks were asked for, and there is one process."""


@dataclass
class Tasks:
    """Tasks of one process. `accidents`: what happens to one epoch after the other, and after how many buckets."""

    world: World
    accidents: list[tuple[int, DmError] | None] = field(default_factory=list)
    jobs: list[EpochJob] = field(default_factory=list)
    meanwhile: Callable[[], object] = lambda: None
    """What happens while an epoch is applied."""
    slots: int = 1

    def start_workers(self) -> bool:
        return True

    def share(self, value: T) -> Shared[T]:
        return LocalRunner().share(value)

    def run(self, task: Callable[[A], B], items: Sequence[A]) -> list[B]:
        assert isinstance(task, ApplyRanges)
        assert len(items) == 1, "one process does all"
        step, writer = task.job.step, WaveWriter(task.job.plan.value, self.world.writes, task.job.step)
        self.jobs.append(task.job)
        self.meanwhile()
        accident = self.accidents.pop(0) if self.accidents else None
        writer.advance({}, range(BUCKETS if accident is None else accident[0]))
        bounds = f"{int(step.lo[-20:])}..{int(step.hi[-20:])}"
        self.world.events.append(f"{'apply' if accident is None else 'fail'} {bounds}")
        if accident is not None:
            raise accident[1]
        return cast("list[B]", [ApplyResult(changes=2, rows=1)])

    def exchange(self, produce: Callable[[A], Sequence[bytes]], items: Sequence[A], groups: int) -> Exchange:
        raise NoExchange


class StoredNotes(MetaStore):
    """A metadata DB that records its calls, with the target's state at each."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.away: DmError | None = None
        self.wanted: list[Operator] = []
        self.needed: list[Location | None] = []
        self.held: Location | None = None
        """From where on rows are held back."""

    def put_subtask(self, task: str, source: str, *, unit: Unit, stage: Stage, **places: Location | None) -> None:
        applied, needed = places["applied"], places["needed"]
        assert (task, source, unit) == (*FENCE.ref.key, Unit.SYNC)
        expected = needed_location(applied, self.world.loop.state.prepared) if applied else None
        assert needed == (self.held or expected)
        self.needed.append(needed)
        self.world.events.append(f"{stage} {applied.position if applied else None}")
        if self.away is not None:
            raise self.away

    def operators(self, task: str, source: str, *, passed: bool = False) -> list[Operator]:
        return self.wanted

    def mark_operator_used(self, operator: Operator, at: Location) -> None:
        """Not used."""

    def mark_operators_passed(self, task: str, source: str, applied: Location) -> list[Operator]:
        return []


class Around(ContestServers):
    """The target of the model in place of a server."""

    def __init__(self, database: Database) -> None:
        super().__init__(NOWHERE.resolve(), FENCE.ref, {})
        self.database = database

    def transactions(self, body: Callable[[Any], T], /) -> T:
        return self.database.transaction(body, None)

    def access(self) -> TargetAccess:
        return self.database.access()


@dataclass
class Watched(Sharing):
    """The real one, and what it was asked for. `waiting`: rows that wait, whatever the target has."""

    waiting: int = 0
    checks: list[bool] = field(default_factory=list)
    finished: int = 0

    @property
    def rows(self) -> int:
        return self.waiting

    def check(self, plan: SyncPlan, *, now: bool = False) -> SyncPlan:
        self.checks.append(now)
        return super().check(plan, now=now)

    def finish(self, plan: SyncPlan, wait: Callable[[float], bool]) -> None:
        self.finished += 1


def source(*, sharded: bool) -> SyncSource:
    """Return a source without a launcher; the loop reads its settings and its fence."""
    shard_mode = {"shard-mode": "pessimistic"} if sharded else {}
    task = {"name": "task", "task-mode": "all", "meta-schema": META, "mysql-instances": [{"source-id": "one"}]}
    return SyncSource.of(job_spec(task | shard_mode, [source_spec("one")]), FENCE)


class Stop(threading.Event):
    """A request to stop. No test waits for it in real time."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        return self.is_set()


class World:
    """All of it, and the loop of a sync at LO."""

    def __init__(
        self,
        *script: Planned | DmError,
        at_fault: bool = False,
        several: bool = False,
        sharded: bool = False,
        size: EpochSize | None = None,
        edge: Location | None = None,
        goal: Location | None = None,
        plan: SyncPlan = PLAN,
        written_by: SyncPlan | None = None,
        safe_mode: SafeMode | None = None,
    ) -> None:
        self.events: list[str] = []
        self.stop = Stop()
        self.database = Database(lambda: 0.0)
        self.database.sqlite.execute(
            f"INSERT INTO {META}.dm_subtask (task, source, generation) VALUES ('task', 'one', 1)"
        )
        begin_subtask(self.database.connection(), FENCE, unit=UNIT_SYNC, start=LO)
        self.around = Around(self.database)
        self.writes = Target(self.around.transactions, self.around.access)
        self.log, self.tasks, self.notes = Log(self, script, at_fault=at_fault), Tasks(self), StoredNotes(self)
        state = LoopState(FENCE, LO, LO, edge, goal, plan, written_by or plan, safe_mode or SafeMode())
        state = replace(state, online_ddl=OnlineDdls())
        contests = Contests(FENCE, self.around, 1000)
        self.sharing = Watched(contests, several=several, lawful=True)
        ours = source(sharded=sharded)
        self.shards = Shards(ours, self.notes)
        self.follows = Follows(Following(ours, self.shards), self)
        size = replace(size or replace(EpochSize.of_one_task(), period=0.0), in_driver=0)
        self.loop = Loop(
            state=state,
            planning=Planning(self.log, SubtaskOperators(self.notes, *FENCE.ref.key), (), self.tasks),
            applier=EpochApplier(ours, self.tasks, self.writes, size),
            following=self.follows,
            merged=MergedTables(self.sharing, self.shards, self.resync),
            notes=SyncNotes(self.around.transactions, self.notes, self.shards, None),
            progress=SyncProgress(),
            stop=self.stop,
        )

    def run(self) -> bool:
        return self.loop.run()

    def resync(self, group: Group, _at: LoopState, _told: Callable[[ApplyResult], None]) -> bool:
        """Stop in the middle: nothing is read here."""
        self.events.append(f"resync {group.target}")
        self.stop.set()
        return False

    def asked(self) -> list[tuple[int, int | None]]:
        """Return from where on, and up to where at most, the log was asked for."""
        return [(lo.position, goal.position if goal else None) for lo, goal, _ in self.log.asked]

    def happened(self, *words: str) -> list[str]:
        """Return the events that begin with one of these words."""
        return [event for event in self.events if event.rpartition(" ")[0] in words]

    def positions(self) -> set[int]:
        """Return the locations of the buckets in the target."""
        return {int(bucket.position[-20:]) for bucket in read_whole_frontier(self.database.connection(), FENCE.ref)}

    def noted(self) -> Location | None:
        """Return the place that is noted beside the frontier."""
        subtask = read_subtask(self.database.connection(), FENCE.ref)
        return subtask.location if subtask is not None else None

    def noted_plans_meanwhile(self) -> list[str]:
        """Return a list that gets the fingerprint which is noted whenever an epoch is applied."""
        noted: list[str] = []

        def look() -> None:
            ((plan,),) = self.database.sqlite.execute(f"SELECT plan FROM {META}.dm_subtask").fetchall()
            noted.append(plan)

        self.tasks.meanwhile = look
        return noted
