"""The size of epochs, the numbers that users see, and the pieces between."""

import random
from dataclasses import replace
from typing import Any, cast

import pytest

from airflow_provider_dm.engine.config.units import SyncerConfig
from airflow_provider_dm.engine.downstream.errors import Fenced, TargetBusy, TargetDenied
from airflow_provider_dm.engine.downstream.frontier import EpochRange
from airflow_provider_dm.engine.downstream.row_statements import Dialect
from airflow_provider_dm.engine.errors import DmError, Reaction
from airflow_provider_dm.engine.merge.owner_writer import TargetAccess
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.sync.epoch import MIB, EpochSize
from airflow_provider_dm.engine.sync.errors import TaskBug
from airflow_provider_dm.engine.sync.log.locations import location_at
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.progress import Meter, SyncProgress
from airflow_provider_dm.engine.sync.runner import LocalRunner, Ok, TaskFailed, attempt, values
from airflow_provider_dm.engine.sync.write.apply import Target, WaveWriter
from airflow_provider_dm.engine.sync.write.causality import TableWork
from airflow_provider_dm.engine.sync.write.concurrency import WriteConcurrency
from tests.unit.sync.loop_world import LO, PLAN, World
from tests.unit.sync.target_tables import TARGETS

WARM = EpochSize(warm=True)
TARGET = Target(cast(Any, None), lambda: TargetAccess(Dialect()))


@pytest.mark.parametrize(
    ("limit", "epochs", "seconds", "expected"),
    [
        (8 * MIB, 10, 0.1, WARM.largest),
        (64 * MIB, 10, 5, WARM.usual),
        (8 * MIB, 1, 40, 2 * MIB),
        (8 * MIB, 10, 100, MIB),
        (MIB, 3, 0.2, 8 * MIB),
    ],
    ids=["fast backlog", "slow target", "very slow target", "never below the smallest", "fast again"],
)
def test_full_epochs_change_the_limit(limit: int, epochs: int, seconds: float, expected: int) -> None:
    size = replace(WARM, limit=limit)
    for _ in range(epochs):
        size = size.after(size.limit, seconds=seconds)
    assert size.limit == expected


def test_small_epochs_do_not_change_the_limit() -> None:
    assert WARM.after(1000, seconds=0.02) == WARM
    assert WARM.after(100_000, seconds=3).limit == WARM.limit


def test_epochs_of_usual_size_are_applied_by_the_driver_while_workers_start() -> None:
    """They are not measured: the start of the workers takes the time of the same processors."""
    workers, size = LocalRunner(), EpochSize()

    assert size.after(3 * MIB, seconds=20) == size.after(8 * MIB, seconds=0.1) == size
    assert [size.runner(many * MIB, workers) is workers for many in (1, 9, 17)] == [False, False, True]
    assert [WARM.runner(many * MIB, workers) is workers for many in (1, 9, 17)] == [False, True, True]


def test_an_epoch_of_any_size_is_applied_by_the_driver() -> None:
    workers, size = LocalRunner(), EpochSize.by_the_driver()

    assert [size.runner(many * MIB, workers) is workers for many in (1, 64, 1 << 20)] == [False] * 3
    assert size.after(8 * MIB, seconds=0.1).limit == 16 * MIB  # no workers start beside it


def test_on_one_machine_every_epoch_is_one_task() -> None:
    size = replace(EpochSize.of_one_task(), warm=True)
    for _ in range(10):
        size = size.after(size.limit, seconds=0.1)

    assert size.limit == size.largest
    assert size.tasks(size.limit + 1, slots=8) == 1  # the planner ends an epoch after the transaction that crosses it
    assert EpochSize().tasks(4 * MIB, slots=8) == 1
    assert EpochSize().tasks(4 * MIB + 1, slots=8) == 8


@pytest.mark.parametrize(
    ("workers", "slots", "tasks", "connections"),
    [
        (None, 1, 1, 2),  # no number given: two of each task, 16 at most
        (None, 8, 8, 2),
        (None, 16, 16, 1),
        (None, 32, 32, 1),
        (1, 8, 1, 1),  # all of them together are never more than `worker-count`
        (5, 8, 5, 1),
        (16, 8, 8, 2),
        (50, 8, 8, 6),
        (50, 1, 1, 50),
    ],
)
def test_worker_count_is_how_many_connections_write(
    workers: int | None, slots: int, tasks: int, connections: int
) -> None:
    found = WriteConcurrency.of(SyncerConfig(worker_count=workers), PLAN, tasks=slots)

    assert (found.tasks, found.connections) == (tasks, connections)


@pytest.mark.parametrize("plan", [replace(PLAN, compact=False), replace(PLAN, whole=True)], ids=["all", "whole"])
def test_an_unfolded_epoch_is_one_task(plan: SyncPlan) -> None:
    assert WriteConcurrency.of(SyncerConfig(worker_count=6), plan, tasks=8).tasks == 1


@pytest.mark.parametrize(
    ("change_bytes", "rows", "limit"), [(250, 100, 15), (1000, 100, 32), (1000, 50, 64), (1000, 1, 128), (1000, 0, 128)]
)
def test_epochs_are_larger_the_more_changes_of_a_row_are_one(change_bytes: int, rows: int, limit: int) -> None:
    """`rows`: of 100 changes."""
    size = EpochSize.by_the_driver()
    for _ in range(10):
        changes = size.limit // change_bytes
        size = size.after(size.limit, seconds=0.1, changes=changes, rows=changes * rows // 100)

    assert size.limit // MIB == limit


def test_batch_bounds_the_rows_of_the_largest_bucket() -> None:
    size = EpochSize().with_batch(100, buckets=64)
    assert size.limit == 16 * 100 * 64 // 2
    for _ in range(10):  # rows of 400 bytes; one bucket has a tenth of them
        size = size.after(size.limit, seconds=0.1, changes=size.limit // 400, largest=max(1, size.limit // 4000))
    assert size.limit // 4000 == 75  # with room for an epoch that is spread less evenly
    for _ in range(10):  # and a table that is one bucket
        size = size.after(size.limit, seconds=0.1, changes=size.limit // 400, largest=max(1, size.limit // 400))

    assert size.limit // 400 == 75
    assert EpochSize().with_batch(None, buckets=64) == EpochSize()


@pytest.mark.parametrize(("workers", "batch", "rows"), [(16, 100, None), (16, 99, 99), (8, 100, 100), (None, 100, 100)])
def test_the_defaults_of_dm_limit_no_transaction(workers: int | None, batch: int, rows: int | None) -> None:
    assert SyncerConfig(worker_count=workers, batch=batch).most_rows == rows


def test_a_transaction_is_bounded_by_bytes_too() -> None:
    """16 MiB of log, whatever the number of rows; a bucket is never divided."""
    wave = {bucket: {0: TableWork(insert=[()] * 100)} for bucket in range(64)}
    writer = WaveWriter(PLAN, TARGET, cast("EpochRange", None))

    assert len(writer._batches([wave], range(64))) == 1
    assert len(replace(writer, log_bytes=64 * MIB)._batches([wave], range(64))) == 4
    assert len(replace(writer, log_bytes=64 << 30)._batches([wave], range(64))) == 64


@pytest.mark.parametrize(("rows", "connections", "batches"), [(10, 2, 1), (100, 2, 2), (700, 2, 4), (700, 3, 3)])
def test_each_connection_writes_as_many_batches(rows: int, connections: int, batches: int) -> None:
    chance = random.Random(rows)
    sizes = [rows + chance.randrange(rows // 5) for _ in range(64)]
    wave = {bucket: {0: TableWork(insert=[()] * size)} for bucket, size in enumerate(sizes)}
    writer = WaveWriter(PLAN, TARGET, cast("EpochRange", None), connections=connections)

    found = writer._batches([wave], range(64))

    assert [bucket for batch in found for bucket in batch] == list(range(64))
    written = [sum(sizes[bucket] for bucket in batch) for batch in found]
    assert len(written) == batches
    assert max(written) - min(written) < 2 * max(sizes)


def test_a_configured_batch_is_never_exceeded() -> None:
    wave = {bucket: {0: TableWork(insert=[()] * 40)} for bucket in range(64)}
    writer = WaveWriter(PLAN, TARGET, cast("EpochRange", None), batch=100, connections=2)

    assert {len(batch) for batch in writer._batches([wave], range(64))} <= {1, 2}


def test_a_bucket_that_another_task_has_applied_is_left_out_of_the_batch() -> None:
    """An epoch that is repeated may be divided into batches in another way."""
    world = World()
    writer = WaveWriter(PLAN, world.writes, world.loop.state.step(LO.at(200)))
    wave = {bucket: {0: TableWork(insert=[(b"%d" % bucket, b"1")])} for bucket in range(3)}

    writer.advance(wave, [1])
    writer.advance(wave, [0, 1, 2])

    assert len(world.database.rows(TARGETS[0])) == 3


def test_ranges_give_every_slot_something_to_do() -> None:
    assert EpochSize(limit=64 * MIB).range_bytes(2) == 8 * MIB
    assert EpochSize(limit=64 * MIB).range_bytes(16) == 2 * MIB
    assert EpochSize(limit=8 * MIB).range_bytes(64) == MIB


def test_lag_grows_while_blocked_and_is_nothing_when_there_is_nothing_more() -> None:
    progress = SyncProgress()
    assert progress.lag_seconds() is None

    progress.newest_timestamp = 1000
    assert progress.lag_seconds(now=1010) == 10
    assert progress.lag_seconds(now=1020) == 20

    progress.caught_up = True
    assert progress.lag_seconds(now=1020) == 20  # the log that is held is no proof
    progress.at_end, progress.at_end_at = True, 1020
    assert progress.lag_seconds(now=1020) == 0
    progress.at_end = False  # as while the relay waits and the source writes
    assert progress.lag_seconds(now=1050) == 30
    progress.newest_timestamp = 1045
    assert progress.lag_seconds(now=1050) == 5


GROUP: dict[str, Any] = {"target": "`shop`.`o`", "waits": "for shop.o_2 of this source", "unsynced": ["`shop`.`o_2`"]}


@pytest.mark.parametrize(
    ("groups", "contested"),
    [
        ([{**GROUP, "since": 1000.0}], None),
        ([], 1000.0),
        ([{**GROUP, "since": 1000.0}, {**GROUP, "since": 1010.0}], 1005.0),
    ],
)
def test_lag_grows_while_rows_are_held_back(groups: list[dict[str, Any]], contested: float | None) -> None:
    progress = SyncProgress(newest_timestamp=1020, caught_up=True, at_end=True, at_end_at=1030, unresolved_groups=[])
    assert (progress.lag_seconds(now=1030), progress.to_json()["caught_up"]) == (0, True)

    progress.unresolved_groups = groups
    progress.contested_rows, progress.contested_since = (0, None) if contested is None else (3, contested)
    assert [progress.lag_seconds(now=1000 + seconds) for seconds in (30, 90)] == [30, 90]
    assert progress.held_back_seconds(now=1030) == 30
    assert progress.to_json()["caught_up"] is False


def test_rows_held_back_under_a_clock_ahead_of_ours_have_an_age() -> None:
    progress = SyncProgress(caught_up=True, at_end=True, at_end_at=900.0)
    progress.set_unresolved_groups([{**GROUP, "since": 1000.0}])
    assert [progress.lag_seconds(now=now) for now in (900, 960, 1010)] == [1, 60, 110]
    assert [progress.held_back_seconds(now=now) for now in (900, 1010)] == [1, 10]


def test_what_is_held_back_for_an_unknown_time_makes_the_lag_unknown() -> None:
    progress = SyncProgress(newest_timestamp=1020, caught_up=True, at_end=True, at_end_at=1030)
    progress.unresolved_groups = [{**GROUP, "since": None}]
    assert progress.lag_seconds(now=1030) is None


@pytest.mark.parametrize(("seconds", "total", "recent"), [(10, 10.0, 10.0), (100, 1.0, 0.0)])
def test_the_recent_speed_covers_half_a_minute(seconds: int, total: float, recent: float) -> None:
    meter = Meter()
    meter.record({"rows": 0}, now=0.0)
    meter.record({"rows": 100}, now=5.0)
    for moment in range(6, seconds):
        meter.record({"rows": 100}, now=float(moment))
    speed = meter.record({"rows": 100}, now=float(seconds))["rows"]

    assert (speed.total, speed.recent) == (total, recent)


def test_a_location_is_restored_from_its_sort_key() -> None:
    known = Location("mysql-bin.000003", 99, gtid_set="0-1-5", suffix=2, created=1700000000)
    following = Location("mysql-bin.000004", 4, suffix=2)

    assert location_at(known.sort_key, known) == known
    assert location_at(following.sort_key, known) == following
    assert [location_at(at.sort_key, known).created for at in (known.at(50), following)] == [known.created, 0]


def test_the_most_serious_failure_is_raised() -> None:
    outcomes: list[Ok[int] | TaskFailed] = [
        Ok(1),
        TaskFailed(TargetBusy(1213, "")),
        TaskFailed(Fenced("t", "s", 1, 2)),
        TaskFailed(TargetDenied("no")),
    ]

    with pytest.raises(Fenced):
        values(outcomes)
    with pytest.raises(TargetDenied):
        values([outcomes[1], outcomes[3]])


def test_a_bug_in_a_task_is_an_error_without_values() -> None:
    def buggy(_: int) -> int:
        raise KeyError("s3cret")

    outcome = attempt(buggy, 1)

    assert isinstance(outcome, TaskFailed)
    assert isinstance(outcome.error, TaskBug)
    assert outcome.error.reaction is Reaction.STOP
    assert "s3cret" not in str(outcome.error)
    assert "buggy" in str(outcome.error)


def test_a_group_sees_its_blobs_in_the_order_of_the_items() -> None:
    exchange = LocalRunner().exchange(lambda item: [b"%d%d" % (item, group) for group in range(2)], [3, 1, 2], 2)

    assert exchange.run(lambda group, blobs: (group, list(blobs))) == [
        (0, [b"30", b"10", b"20"]),
        (1, [b"31", b"11", b"21"]),
    ]


def test_a_group_is_never_applied_without_all_its_blobs() -> None:
    def produce(item: int) -> list[bytes]:
        if item == 1:
            raise TargetDenied("no")
        return [b"", b""]

    with pytest.raises(DmError):
        LocalRunner().exchange(produce, [0, 1], 2)
    with pytest.raises(DmError, match="one blob"):
        LocalRunner().exchange(lambda _: [b""], [0], 2)
