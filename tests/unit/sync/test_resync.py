"""The re-sync's way through the log, where it is not there, and by which plan."""

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import TypeAdapter

from airflow_provider_dm.engine.binlog.planned import Planned, UpToDate
from airflow_provider_dm.engine.downstream.errors import TargetDenied
from airflow_provider_dm.engine.downstream.frontier import begin_frontier
from airflow_provider_dm.engine.downstream.shard_groups import read_groups, resync_fence
from airflow_provider_dm.engine.downstream.subtask import BUCKETS
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.rules.errors import RulesChanged
from airflow_provider_dm.engine.shard.group import Group, HeldRows, Resync
from airflow_provider_dm.engine.sync.errors import RelaySilent
from airflow_provider_dm.engine.sync.log.locations import Cursor
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.safe_mode.states import SafeMode
from airflow_provider_dm.engine.sync.shard_ddl import resync
from airflow_provider_dm.engine.sync.shard_ddl.resync import Resyncing, _Lane
from tests.unit.sync.loop_world import FENCE, PLAN, World, epoch
from tests.unit.sync.sqlite_target import META
from tests.unit.sync.target_tables import TARGETS

LO, STOP = Location("bin.000001", 4), Location("bin.000001", 900)


class Short:
    """A relay log that no relay pulls any more, and that ends before the stop."""

    looked = 0

    def plan(self, at: Cursor, _limits: object) -> Planned:
        return UpToDate(at.place)

    def idle(self, here: Cursor, seconds: float) -> None:
        self.looked += 1
        if self.looked == 3:
            raise RelaySilent("a", str(here), "it has ended")


def test_waiting_for_a_log_that_no_relay_pulls_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resync, "WAIT_SECONDS", 0.0)
    shared = SimpleNamespace(share=lambda plan: plan, slots=1)
    applier = SimpleNamespace(runner=shared, size=SimpleNamespace(limit=1, range_bytes=lambda slots: 1))
    parts = {"applier": applier, "stop": threading.Event(), "note": lambda _plan: None}
    of = SimpleNamespace(source=SimpleNamespace(fence=FENCE), **parts)
    lane = _Lane(cast(Any, of), cast(Any, Short()), replace(World().loop.state, here=LO, goal=STOP))
    with pytest.raises(RelaySilent, match="has ended"):
        lane.run()


# By which plan

NAME, BEGIN = TARGETS[0].name, Location("bin.000001", 200)


class Lane:
    """The lane of a group whose rows from 200 to 400 were held back, in the loop's world. `seen`: for each epoch the
    mode of its plan, and whether that plan is the one that is noted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world, self.plan, self.seen = World(), PLAN, list[tuple[bool, bool]]()
        self.world.tasks.meanwhile = self._look
        self.target = self.world.database.connection()
        piece = HeldRows(TARGETS[0], BEGIN, BEGIN.at(400), BEGIN, TARGETS[0].name)
        self.save(Resync((piece,)))
        begin_frontier(self.target, resync_fence(FENCE, Group(NAME, 1)), BEGIN.sort_key, BUCKETS)
        monkeypatch.setattr(resync, "target_connection", lambda _endpoint: self.target)
        monkeypatch.setattr(resync, "run_transaction", lambda _endpoint, body: self.world.around.transactions(body))
        monkeypatch.setattr(resync, "plan_for", lambda *_, **__: self.plan)
        held = SimpleNamespace(plan=self.world.log.plan, close=lambda: None)
        monkeypatch.setattr(resync, "tail_of_held", lambda *_: held)

    def _look(self) -> None:
        plan: SyncPlan = self.world.tasks.jobs[-1].plan.value
        self.seen.append((plan.compact, self.stored().plan == plan.fingerprint()))

    def stored(self) -> Resync:
        (group,) = read_groups(self.target, FENCE.ref)
        assert group.resync is not None
        return group.resync

    def save(self, resync: Resync) -> None:
        sql = f"INSERT OR REPLACE INTO {META}.dm_shard_group VALUES ('task', 'one', ?, ?, 1, ?, '')"
        self.world.database.sqlite.execute(sql, (*NAME, TypeAdapter(Resync).dump_json(resync).decode()))

    def run(self, plan: SyncPlan, *accidents: tuple[int, TargetDenied], at: int = 200) -> bool:
        world = self.world
        self.plan, world.tasks.accidents = plan, list(accidents)
        world.log.script = [epoch(lo, lo + 100) for lo in range(at, 400, 100)]
        stop, state, group = threading.Event(), world.loop.state, Group(NAME, 1, (), self.stored())
        return Resyncing(world.loop.applier, world.notes, stop, state, lambda _applied: None, group).run()


OTHER = replace(PLAN, sources=(replace(PLAN.sources[0], skip_until="1"),))
DIES = (10, TargetDenied("no"))


def test_half_an_epoch_is_completed_by_the_plan_that_began_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice it is begun in one mode and the user wants the other one; then it is left to the end."""
    lane = Lane(monkeypatch)
    each, folded = replace(PLAN, compact=False), PLAN
    with pytest.raises(TargetDenied):
        lane.run(each, DIES)
    with pytest.raises(TargetDenied):
        lane.run(folded, DIES)
    assert lane.run(folded)
    assert lane.seen == [(False, True), (False, True), (False, True), (True, True)]
    half, rest = [BEGIN.at(300), BEGIN.at(400)], [BEGIN.at(400)]
    assert lane.world.log.open_places[-2:] == [half, rest], "what was held back is known in its own log only"


def test_a_half_applied_re_sync_is_not_completed_by_other_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    lane = Lane(monkeypatch)
    with pytest.raises(TargetDenied):
        lane.run(PLAN, DIES)
    with pytest.raises(RulesChanged, match="is half written"):
        lane.run(OTHER)
    assert lane.run(PLAN)


def test_between_two_epochs_any_plan_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    lane = Lane(monkeypatch)
    with pytest.raises(TargetDenied):
        lane.run(PLAN, (BUCKETS, DIES[1]))
    assert lane.run(OTHER, at=300)
    assert lane.seen == [(True, True)] * 2
    assert lane.stored().plan == OTHER.fingerprint()


def test_a_re_sync_is_exact_after_the_end_of_safe_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    lane, safe = Lane(monkeypatch), list[bool]()
    lane.world.tasks.meanwhile = lambda: safe.append(lane.world.tasks.jobs[-1].plan.value.safe)
    lane.world.loop.state = replace(lane.world.loop.state, safe_mode=SafeMode(until=BEGIN.at(300)))

    assert lane.run(PLAN)

    assert safe == [True, False]
    assert lane.world.asked() == [(200, 300), (300, 400)]
