"""The loop after a failed epoch: whether it continues, with which bounds, by which plan, and what it reports."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_dm.engine.binlog.errors import ChecksumMismatch
from airflow_provider_dm.engine.binlog.planned import UNLIMITED
from airflow_provider_dm.engine.downstream.errors import DuplicateInTarget, Fenced, TargetBusy, TargetDenied
from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.table_schema import TableSchema, save_table_schemas
from airflow_provider_dm.engine.errors import DmError, InvariantBroken
from airflow_provider_dm.engine.merge.errors import TooManyContested
from airflow_provider_dm.engine.sync import loop as module
from airflow_provider_dm.engine.sync import noting
from airflow_provider_dm.engine.sync.errors import MissingRow, TransactionGroupsChanged
from airflow_provider_dm.engine.sync.safe_mode.states import SafeMode
from tests.unit.sync.loop_world import BACKLOG, LO, PLAN, World, ddl, epoch
from tests.unit.sync.sqlite_target import META
from tests.unit.sync.target_tables import TARGETS

BUSY, DENIED = TargetBusy(1213, "ER_LOCK_DEADLOCK"), TargetDenied("no")


def test_a_transient_error_is_retried_with_the_same_bounds() -> None:
    world = World(epoch(100, 200), goal=LO.at(200))
    world.tasks.accidents = [(10, BUSY), (30, BUSY)]

    assert world.run()
    assert world.happened("plan", "fail", "apply") == ["plan 100", *["fail 100..200"] * 2, "apply 100..200"]
    assert world.stop.waits == [0.5, 1.0]


def test_a_repeated_transient_error_is_raised_at_last() -> None:
    world = World(epoch(100, 200))
    world.tasks.accidents = [(0, BUSY)] * 9

    with pytest.raises(TargetBusy):
        world.run()
    assert len(world.tasks.jobs) == 1 + module.RETRIES
    assert world.events[-1] == "Paused 100"


@pytest.mark.parametrize(
    ("error", "stops"),
    [(DENIED, False), (TransactionGroupsChanged("100", "200", "150"), False), (BUSY, True)],
    ids=["an error for a user", "transaction groups have changed", "a stop request meanwhile"],
)
def test_other_errors_and_those_of_a_stopping_source_are_not_retried(error: DmError, *, stops: bool) -> None:
    world = World(epoch(100, 200))
    world.tasks.accidents, world.tasks.meanwhile = [(10, error)], world.stop.set if stops else lambda: None

    with pytest.raises(type(error)):
        world.run()
    assert (len(world.tasks.jobs), world.events[-1]) == (1, "Paused 100")
    assert stops or world.stop.waits == []


def test_a_fenced_run_reports_nothing() -> None:
    world = World(epoch(100, 200))
    takeover = [f"UPDATE {META}.{name} SET generation = 2" for name in ("dm_subtask", "dm_frontier")]
    world.tasks.meanwhile = lambda: [world.database.sqlite.execute(sql) for sql in takeover]

    with pytest.raises(Fenced):
        world.run()
    assert world.events[-1] == "plan 100"


def test_an_error_ahead_waits_until_what_lies_before_it_is_applied() -> None:
    world = World(epoch(100, 200), ChecksumMismatch("bin.000001:250", 1, 2), size=BACKLOG)

    with pytest.raises(ChecksumMismatch):
        world.run()
    assert (world.events[-1], world.positions()) == ("Paused 200", {200})


# Half an epoch


def test_an_epoch_that_cannot_be_decoded_is_read_from_the_other_log() -> None:
    world = World(epoch(100, 200), epoch(100, 200), epoch(200, 300), goal=LO.at(300), at_fault=True)
    world.tasks.accidents = [(10, ChecksumMismatch("bin.000001:150", 1, 2))]

    assert world.run()
    assert world.happened("fail", "distrust", "apply") == [
        *("fail 100..200", "distrust 100"),
        *("apply 100..200", "apply 200..300"),
    ]
    assert [(lo.position, limit) for lo, goal, limit in world.log.asked if goal == LO.at(200)] == [(100, UNLIMITED)]


def test_an_error_found_ahead_of_a_half_written_epoch_is_ignored() -> None:
    """Whatever is wrong after the stretch: half of it is written, so it comes first."""
    found = ChecksumMismatch("bin.000001:250", 1, 2)
    world = World(
        epoch(100, 200), found, epoch(100, 200), epoch(200, 300), goal=LO.at(300), at_fault=True, size=BACKLOG
    )
    world.tasks.accidents = [(10, ChecksumMismatch("bin.000001:150", 1, 2))]

    assert world.run()
    assert world.happened("apply") == ["apply 100..200", "apply 200..300"]


def test_a_restart_ends_its_first_epoch_at_the_furthest_bucket() -> None:
    world = World(epoch(100, 200), epoch(200, 300), edge=LO.at(200), goal=LO.at(300))

    assert world.run()
    assert world.asked() == [(100, 200), (200, 300)]
    assert world.log.asked[0][2] == UNLIMITED, "it is not cut to a size"


def test_a_sync_waits_for_a_log_that_is_not_yet_pulled() -> None:
    world = World(epoch(100, 150), epoch(100, 200), edge=LO.at(200), goal=LO.at(100))

    assert world.run(), "the goal lay before the edge, and counts when that is reached"
    assert world.happened("idle", "apply") == ["idle 100", "apply 100..200"]
    assert world.log.open_places == [[LO.at(200)]] * 2, "another server's log would not end it"


def test_a_sync_that_has_half_an_epoch_is_not_caught_up() -> None:
    world = World(edge=LO.at(200))

    assert not world.run()
    assert world.happened("idle") == ["idle 100"]
    assert not world.loop.progress.caught_up


def test_an_epoch_that_ends_after_the_edge_is_not_applied() -> None:
    world = World(epoch(100, 300), edge=LO.at(200))

    with pytest.raises(InvariantBroken, match="at the location of the advanced buckets"):
        world.run()
    assert world.positions() == {100}


# Tables that others feed as well

TAKEN = DuplicateInTarget("shop.plain", "PRIMARY")
MISSING = MissingRow("shop.plain", "UPDATE", 1, 0)
APART = replace(PLAN, merged=frozenset({0}))
EACH = replace(PLAN, compact=False)


def with_another_source(world: World) -> World:
    """Let another source begin to feed the same table, while the first epoch meets a row that is there."""
    other, ref = [TableSchema(TARGETS[0], TARGETS[0].name)], SubtaskRef(META, "task", "two")
    world.tasks.accidents = [(10, TAKEN)]
    world.tasks.meanwhile = lambda: save_table_schemas(world.database.connection(), ref, other)
    return world


def test_an_existing_row_may_be_of_a_source_that_started_meanwhile() -> None:
    """What is left of the epoch is written by the law of merged tables, with the same end."""
    world = with_another_source(World(epoch(100, 200), epoch(100, 200), goal=LO.at(200), several=True))

    assert world.run()
    assert [job.plan.value for job in world.tasks.jobs] == [PLAN, APART]
    assert world.asked()[1] == (100, 200)


def test_half_an_epoch_is_folded_as_before_if_another_source_has_filters() -> None:
    """In order all changes of the table are in one bucket, which may be done: they would be lost."""
    world = with_another_source(World(epoch(100, 200), epoch(100, 200), epoch(200, 300), several=True))
    world.sharing.in_order = lambda _: frozenset({TARGETS[0].name})

    assert not world.run()
    assert [job.plan.value for job in world.tasks.jobs] == [PLAN, APART, replace(PLAN, in_order=frozenset({0}))]


@pytest.mark.parametrize(("error", "always"), [(TAKEN, True), (MISSING, True), (MISSING, False)])
def test_in_safe_mode_a_source_that_started_meanwhile_may_delete_the_row(error: DmError, *, always: bool) -> None:
    """Another rule applies to it: the later source overwrites rows."""
    plan, safe_mode = replace(PLAN, safe=always), SafeMode(always=always)
    script = epoch(100, 200), epoch(100, 200)
    world = World(*script, goal=LO.at(200), several=True, plan=plan, safe_mode=safe_mode)
    world.sharing.safe = {"one": always, "two": always}
    with_another_source(world).tasks.accidents = [(10, error)]
    if not always:
        with pytest.raises(MissingRow):
            world.run()
        return

    assert world.run()
    assert [job.plan.value for job in world.tasks.jobs] == [replace(PLAN, safe=True), replace(APART, safe=True)]


def test_in_a_task_of_one_source_the_colliding_row_is_foreign() -> None:
    world = with_another_source(World(epoch(100, 200)))

    with pytest.raises(DuplicateInTarget):
        world.run()


def test_a_half_applied_epoch_is_not_continued_in_another_mode() -> None:
    world = World(epoch(100, 200), plan=EACH, written_by=PLAN, edge=LO.at(200), several=True)

    with pytest.raises(DuplicateInTarget):
        with_another_source(world).run()


def test_after_a_half_applied_epoch_the_current_plan_is_used() -> None:
    """The new plan is recorded before its first rows, which the old plan could not complete."""
    script = epoch(100, 200), epoch(200, 300)
    world = World(*script, plan=EACH, written_by=PLAN, edge=LO.at(200), goal=LO.at(300))
    noted = world.noted_plans_meanwhile()

    assert world.run()
    assert [job.plan.value for job in world.tasks.jobs] == [PLAN, EACH]
    assert noted == ["", EACH.fingerprint()]


def test_after_the_rows_of_a_statement_the_current_plan_is_used() -> None:
    """CREATE TABLE … SELECT: the statement was followed, and half of its rows written, before the mode was another."""
    inside: Any = SimpleNamespace(start=120, end=200, cut=lambda _seams: ())
    create = replace(ddl("CREATE TABLE plain SELECT 1", 100, 200), rows=inside)
    world = World(create, epoch(200, 300), plan=EACH, written_by=PLAN, edge=LO.at(200), goal=LO.at(300))
    noted = world.noted_plans_meanwhile()

    assert world.run()
    assert world.happened("follow 100", "apply") == ["follow 100 200", "apply 100..200", "apply 200..300"]
    assert [job.plan.value for job in world.tasks.jobs] == [PLAN, EACH]
    assert noted == ["", EACH.fingerprint()]


@pytest.mark.parametrize(("waiting", "more"), [(0, 0), (3, 3)])
def test_waiting_rows_are_checked_after_each_epoch_and_at_the_goal(
    waiting: int, more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noting, "NOTE_SECONDS", 1e9)  # no checks but the loop's own
    world = World(epoch(100, 200), epoch(200, 300), goal=LO.at(300))
    world.sharing.waiting = waiting

    assert world.run()
    assert len(world.sharing.checks) == 2 + more, "one at its beginning, one at its end"
    assert world.sharing.finished == (waiting > 0)
    assert world.loop.progress.contested_rows == waiting


def test_a_stop_request_ends_the_wait_for_rows() -> None:
    world = World(epoch(100, 200))
    world.sharing.waiting, world.tasks.meanwhile = 3, world.stop.set
    world.run()

    assert world.sharing.finished == 0


def test_too_many_waiting_rows_are_all_examined_before_the_next_attempt() -> None:
    world = World(epoch(100, 200), goal=LO.at(200))
    world.tasks.accidents = [(10, TooManyContested("one", "shop.a", "shop.plain", 1000))]

    assert world.run()
    assert True in world.sharing.checks
    assert world.happened("fail", "apply") == ["fail 100..200", "apply 100..200"]
