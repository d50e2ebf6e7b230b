"""The loop's decisions, one after the other: what it plans, applies and notes, and what it makes of what it meets."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from airflow_provider_dm.engine.binlog.format import BinlogFormat
from airflow_provider_dm.engine.binlog.planned import ByteRange, DdlStatement, Planned, UpToDate
from airflow_provider_dm.engine.downstream.ddl_journal import COMMITTED, IN_FRONT
from airflow_provider_dm.engine.downstream.subtask import read_subtask
from airflow_provider_dm.engine.errors import DmError, InvariantBroken, Reaction
from airflow_provider_dm.engine.meta.errors import MetaUnreachable
from airflow_provider_dm.engine.meta.records import Operator, OperatorKind, OperatorState
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.shard.errors import ShardDdlNotSupported
from airflow_provider_dm.engine.shard.group import Group, HeldRows, Member, Resync
from airflow_provider_dm.engine.sync import loop as module
from airflow_provider_dm.engine.sync import noting
from airflow_provider_dm.engine.sync.epoch import MIB, EpochSize
from airflow_provider_dm.engine.sync.errors import (
    CannotFollow,
    DdlNotSupported,
    GoalLost,
    NeedsAgreement,
    RoutedElsewhere,
)
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.safe_mode.states import SafeMode
from tests.unit.sync.loop_world import BACKLOG, BYTES, FENCE, LO, NoExchange, World, ddl, epoch
from tests.unit.sync.sqlite_target import META
from tests.unit.sync.target_tables import TARGETS

# One piece after the other


def test_a_piece_is_planned_then_applied_and_then_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noting, "NOTE_SECONDS", 0.0)
    world = World(epoch(100, 200), epoch(200, 300), goal=LO.at(300))

    assert world.run()

    pieces = ["plan 100", "apply 100..200", "Running 200", "plan 200", "apply 200..300", "Running 300"]
    assert world.events == ["Running 100", *pieces, "Stopped 300"]
    assert (world.positions(), world.noted()) == ({300}, LO.at(300))


def test_applied_changes_are_counted() -> None:
    world = World(epoch(100, 200), epoch(200, 300), goal=LO.at(300))
    world.run()
    shown = world.loop.progress

    assert (shown.epochs, shown.transactions, shown.changes, shown.rows) == (2, 2, 4, 2)
    assert (shown.location, shown.goal, shown.newest_timestamp) == (LO.at(300), LO.at(300), 300)


def test_a_sync_at_its_goal_reads_nothing() -> None:
    world = World(goal=LO)

    assert world.run()
    assert world.events == ["Running 100", "Stopped 100"]


def test_contested_rows_are_reported_before_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sensor that waits until no row is held back relies on a sync that reports its groups to have checked."""
    world = World(goal=LO, several=True)
    world.sharing.waiting = 1
    seen = list[object]()
    check = world.sharing.check

    def watched(plan: SyncPlan, *, now: bool = False) -> SyncPlan:
        seen.append(world.loop.progress.unresolved_groups)
        return check(plan, now=now)

    monkeypatch.setattr(world.sharing, "check", watched)
    world.run()
    assert seen[0] is None
    assert (world.loop.progress.contested_rows, world.loop.progress.unresolved_groups) == (1, [])


def test_a_stop_request_lets_the_current_epoch_finish() -> None:
    world = World(epoch(100, 200), epoch(200, 300), goal=LO.at(300))
    world.tasks.meanwhile = world.stop.set

    assert not world.run()
    assert world.happened("apply", "Stopped") == ["apply 100..200", "Stopped 200"]


def test_no_epoch_crosses_the_end_of_safe_mode_or_the_goal() -> None:
    script = epoch(100, 200), epoch(200, 300), epoch(300, 400)
    world = World(*script, goal=LO.at(400), safe_mode=SafeMode(until=LO.at(300)))
    world.run()

    assert world.asked() == [(100, 300), (200, 300), (300, 400)]
    assert [job.plan.value.safe for job in world.tasks.jobs] == [True, True, False]


def test_safe_mode_that_has_ended_stays_off_in_another_servers_log() -> None:
    """The place has no GTID set, so it could not be compared with a later sub-directory of the relay log."""
    there = [replace(LO.at(position), suffix=2) for position in (300, 400)]
    script = epoch(100, 200), replace(epoch(200, 300), hi=there[0]), replace(epoch(300, 400), lo=there[0], hi=there[1])
    world = World(*script, goal=there[1], safe_mode=SafeMode(until=LO.at(200)))
    world.database.sqlite.execute(f"UPDATE {META}.dm_subtask SET overwrite_until = '{json.dumps(LO.to_json())}'")
    merged = TARGETS[0].name
    world.shards.groups[merged] = Group(merged)  # of which no rows are held back

    assert world.run()
    assert [job.plan.value.safe for job in world.tasks.jobs] == [True, False, False]
    assert not world.loop.progress.to_json()["safe_mode"]["on"]
    noted = read_subtask(world.database.connection(), FENCE.ref)
    assert noted is not None
    assert noted.overwrite_until is None

    world = World(safe_mode=SafeMode(until=LO.at(50)))
    world.shards.groups[merged] = Group(merged, 0, (Member(merged, TARGETS[0], ()),))  # with rows from before it
    world.loop._leave_past()
    assert world.loop.state.safe_mode.until == LO.at(50)
    del world.shards.groups[merged]
    world.loop._leave_past()
    assert world.loop.state.safe_mode.until is None


def test_a_metadata_db_that_is_away_stops_nothing() -> None:
    world = World(epoch(100, 200), goal=LO.at(200))
    world.notes.away = MetaUnreachable("sqlite", "away")

    assert world.run()
    assert world.noted() == LO.at(200)


# Nothing to do


def test_events_without_changes_are_skipped_and_move_no_bucket() -> None:
    world = World(UpToDate(LO.at(150)), epoch(150, 200), goal=LO.at(200))
    world.run()

    assert world.happened("plan", "apply") == ["plan 100", "plan 150", "apply 100..200"]


def test_buckets_reach_a_goal_after_events_without_changes() -> None:
    world = World(UpToDate(LO.at(150)), goal=LO.at(150))

    assert world.run()
    assert (world.positions(), world.noted(), world.tasks.jobs) == ({150}, LO.at(150), [])


def test_buckets_leave_a_file_without_changes() -> None:
    """Else it could never be purged."""
    following = Location("bin.000002", 4)
    world = World(UpToDate(following))
    world.run()

    assert (world.positions(), world.noted(), world.tasks.jobs) == ({4}, following, [])


def test_an_idle_sync_waits_for_the_log_to_grow() -> None:
    world = World(UpToDate(LO), UpToDate(LO), epoch(100, 200), UpToDate(LO.at(200)))
    world.run()

    assert set(world.stop.waits) == {module.LONGEST_WAIT}
    assert world.happened("idle")[:3] == ["idle 100", "idle 100", "idle 200"]


def test_small_epochs_at_the_end_of_the_log_are_a_period_apart() -> None:
    size = EpochSize(period=1000.0)
    world = World(epoch(100, 200), epoch(200, 300), size=size)
    world.run()

    assert [round(seconds) for seconds in world.stop.waits[:2]] == [1000, 1000]


@pytest.mark.parametrize("waiting", [True, False])
def test_a_sync_that_waits_for_the_log_has_not_caught_up(*, waiting: bool) -> None:
    world = World(UpToDate(LO))
    world.log.is_waiting = waiting
    world.run()

    assert world.loop.progress.caught_up is not waiting


def test_a_goal_that_the_new_server_lacks_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SILENT_SECONDS", -1.0)
    goal = replace(LO, position=900, gtid_set="0-1-9")
    world = World(UpToDate(Location("new.000001", 4, gtid_set="0-1-7", suffix=2)), goal=goal)

    with pytest.raises(GoalLost, match="lacks 0-1-9"):
        world.run()


# DDL


def test_ddl_of_tables_outside_of_the_task_is_skipped() -> None:
    world = World(ddl("CREATE TABLE other.x (a INT)", 100, 150), epoch(150, 200), goal=LO.at(200))

    assert world.run()
    assert world.happened("apply") == ["apply 150..200"]


def test_rows_in_the_transaction_of_such_ddl_are_applied() -> None:
    inside = ByteRange("", LO.file, 1, 100, 150, BinlogFormat(Flavour.MARIADB, checksum=True))
    world = World(replace(ddl("CREATE TABLE other.x (a INT)", 100, 150), rows=inside), goal=LO.at(150))

    assert world.run()
    assert world.happened("apply") == ["apply 100..150"]


NEXT_FILE = Location("bin.000002", 4)
OF_ANOTHER_SERVER = Location("new.000001", 4, suffix=2)
DDL_OF_ANOTHER_SERVER = DdlStatement(
    OF_ANOTHER_SERVER.at(50), OF_ANOTHER_SERVER.at(90), "other", "CREATE TABLE x (a INT)", 0
)


@pytest.mark.parametrize(
    ("comes", "noted", "injected"),
    [
        pytest.param(epoch(100, 200), (), True, id="rows"),
        pytest.param(UpToDate(NEXT_FILE), (), True, id="next file"),
        pytest.param(UpToDate(OF_ANOTHER_SERVER), (), True, id="another server"),
        pytest.param(DDL_OF_ANOTHER_SERVER, (), True, id="DDL of another server"),
        pytest.param(DDL_OF_ANOTHER_SERVER, (IN_FRONT,), False, id="DDL of another server, begun"),
        pytest.param(ddl("CREATE TABLE other.x (a INT)", 100, 150), (), False, id="DDL"),
        pytest.param(UpToDate(LO), (), False, id="nothing"),
        pytest.param(UpToDate(LO.at(150)), (), False, id="nothing but events"),
    ],
)
def test_injected_statements_are_executed_before_the_log_leaves_the_file(
    comes: Planned, noted: tuple[int, ...], injected: bool
) -> None:
    """Another file has no such location. DDL at the location is that of the user's decision."""
    world = World(comes)
    world.follows.numbers = noted
    order = Operator(*FENCE.ref.key, OperatorKind.INJECT, LO, ("DROP TABLE plain",), OperatorState.USED, used_at=LO)
    world.notes.wanted = [order]
    world.run()

    assert world.happened("inject") == (["inject 100"] if injected else [])


@pytest.mark.parametrize("committed", [True, False])
def test_a_decision_is_too_late_for_a_half_written_statement(*, committed: bool) -> None:
    """They are rows of the tables as they were, unless it is the user's own statement whose rows they are."""
    inside = ByteRange("", LO.file, 1, 100, 150, BinlogFormat(Flavour.MARIADB, checksum=True))
    world = World(replace(ddl("CREATE TABLE other.x (a INT)", 100, 150), rows=inside), edge=LO.at(150))
    order = Operator(*FENCE.ref.key, OperatorKind.INJECT, LO, ("DROP TABLE plain",), OperatorState.USED, used_at=LO)
    world.notes.wanted, world.follows.numbers = [order], [COMMITTED] * committed
    world.run()

    assert world.follows.operators == [order if committed else None]
    assert world.happened("apply") == ["apply 100..150"]


def test_nothing_is_applied_before_a_re_sync_that_was_interrupted() -> None:
    world = World(epoch(100, 200), sharded=True)
    name = TARGETS[0].name
    piece = HeldRows(TARGETS[0], LO.at(50), LO, LO.at(50), name)
    world.shards.groups[name] = Group(name, 1, (Member(name, TARGETS[0], ()),), Resync((piece,)))

    world.notes.held = LO.at(50)
    assert not world.run()
    assert (world.happened("apply"), world.happened("resync")) == ([], [f"resync {name}"])
    assert world.positions() == {LO.position}
    for go_on in (lambda: world.loop._epoch(epoch(100, 200)), lambda: world.loop._advance(LO.at(200))):
        with pytest.raises(InvariantBroken, match="re-sync"):
            go_on()


def test_ddl_of_the_task_is_followed() -> None:
    alter = ddl("ALTER TABLE plain ADD x INT", 200, 250)
    world = World(epoch(100, 200), alter, epoch(250, 300), goal=LO.at(300))

    assert world.run()
    assert world.happened("apply", "follow 200") == ["apply 100..200", "follow 200 250", "apply 250..300"]
    assert world.loop.progress.ddl_applied == 1


@pytest.mark.parametrize(
    ("refusal", "sharded", "error"),
    [
        (CannotFollow("it cannot be"), False, DdlNotSupported),
        (CannotFollow("it cannot be"), True, DdlNotSupported),
        (NeedsAgreement("others"), False, DdlNotSupported),
        (RoutedElsewhere("others"), True, ShardDdlNotSupported),
    ],
)
def test_ddl_that_cannot_be_followed_stops_in_front(
    *, refusal: CannotFollow, sharded: bool, error: type[DmError]
) -> None:
    alter = ddl("ALTER TABLE plain ADD x INT", 200, 250)
    world = World(epoch(100, 200), alter, sharded=sharded)
    world.follows.refusal = refusal

    with pytest.raises(error, match=r"bin\.000001:200") as raised:
        world.run()
    assert "ALTER TABLE plain ADD" in str(raised.value)
    assert raised.value.reaction is Reaction.STOP
    assert (world.events[-1], world.positions()) == ("Paused 200", {200})
    assert world.loop.progress.ddl_at == LO.at(200)


# How much, and looking ahead


def test_only_an_epoch_that_is_worth_it_is_cut_into_tasks() -> None:
    world = World(epoch(100, 200), epoch(200, 300, size=BYTES + 1), size=EpochSize(one_task=BYTES))
    world.tasks.slots = 16

    with pytest.raises(NoExchange):
        world.run()
    assert [(job.step.hi, job.writing.connections) for job in world.tasks.jobs] == [(LO.at(200).sort_key, 2)]


def test_the_next_epoch_of_a_backlog_is_planned_while_one_is_applied() -> None:
    world = World(epoch(100, 200), epoch(200, 300), goal=LO.at(300), size=BACKLOG)
    world.tasks.meanwhile = lambda: world.log.looked_ahead.wait(120)

    assert world.run()
    assert world.events.index("look ahead 200") < world.events.index("apply 100..200")
    assert world.happened("apply", "plan") == ["plan 100", "apply 100..200", "apply 200..300"]


def test_nothing_is_planned_ahead_of_an_epoch_that_the_log_ended() -> None:
    world = World(epoch(100, 200, size=BYTES - 1), epoch(200, 300), goal=LO.at(300), size=BACKLOG)
    world.run()

    assert "look ahead 200" not in world.events


def test_an_empty_plan_made_ahead_is_not_used() -> None:
    world = World(epoch(100, 200), UpToDate(LO.at(200)), epoch(200, 300, size=1), goal=LO.at(300), size=BACKLOG)

    assert world.run()
    assert Counter(world.happened("look ahead", "plan")) == Counter(["plan 100", "look ahead 200", "plan 200"])
    assert world.happened("idle") == []


class Halving(EpochSize):
    """Epochs of a target for which each was too much."""

    def after(self, size: int, seconds: float, changes: int = 0, rows: int = 0, largest: int = 0) -> EpochSize:
        return replace(self, limit=self.limit // 2)


def test_each_epoch_decides_how_large_the_next_may_be() -> None:
    script = epoch(100, 200), UpToDate(LO.at(200)), epoch(200, 300)
    world = World(*script, goal=LO.at(300), size=Halving(limit=8 * MIB))
    world.run()

    assert [limit for _, _, limit in world.log.asked] == [8 * MIB, 4 * MIB, 4 * MIB]
