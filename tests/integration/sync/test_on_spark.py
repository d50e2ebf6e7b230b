"""The sync on a local Spark: its tasks, the processes that run them, and what their errors are here."""

import gc
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from airflow_provider_dm.engine.binlog.planned import ByteRange
from airflow_provider_dm.engine.downstream.errors import DuplicateInTarget
from airflow_provider_dm.engine.sync.epoch import MIB, EpochSize
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.runner import A, B, Exchange, Runner, Shared, T
from airflow_provider_dm.engine.sync.write import tasks
from airflow_provider_dm.engine.sync.write.ahead import FoldedAhead
from airflow_provider_dm.engine.sync.write.causality import Waves
from spark_apps.runner import SparkRunner
from tests.integration.sync.conftest import SyncKit, random_transactions

ON_WORKERS = EpochSize(in_driver=0, warm=True)
SMALL = replace(ON_WORKERS, limit=20_000, one_task=0, smallest=4096, largest=20_000)


@dataclass
class JobsCounted:
    """Spark's runner. `jobs`: how many jobs the sync has run."""

    spark: SparkRunner
    jobs: int = 0

    @property
    def slots(self) -> int:
        return self.spark.slots

    def start_workers(self) -> bool:
        return self.spark.start_workers()

    def share(self, value: T) -> Shared[T]:
        return self.spark.share(value)

    def run(self, task: Callable[[A], B], items: Sequence[A]) -> list[B]:
        self.jobs += 1
        return self.spark.run(task, items)

    def exchange(self, produce: Callable[[A], Sequence[bytes]], items: Sequence[A], groups: int) -> Exchange:
        return self.spark.exchange(produce, items, groups)


class WatchedFolds(FoldedAhead):
    used = 0
    """The number of epochs that were folded ahead and then written."""

    def take(self, plan: SyncPlan, ranges: tuple[ByteRange, ...]) -> Waves | None:
        found = super().take(plan, ranges)
        self.used += found is not None
        return found


def big_table(kit: SyncKit) -> None:
    kit.both("CREATE TABLE big (id int PRIMARY KEY, v longtext)")
    kit.tables = ("big",)
    kit.begin()


@pytest.mark.spark
def test_a_random_workload_is_applied_on_spark(one_kit: SyncKit, spark: Runner) -> None:
    one_kit.begin_with()
    for round_, size in enumerate([SMALL, ON_WORKERS]):
        random_transactions(one_kit, seed=20 + round_, transactions=150, keys=30)

        one_kit.sync_and_compare(spark, size=size)


@pytest.mark.spark
def test_the_driver_applies_a_backlog_until_the_workers_have_started(
    one_kit: SyncKit, spark: SparkRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(spark.context.environment, "DM_WORKERS", "not started before")
    big_table(one_kit)
    runner, size = JobsCounted(SparkRunner(spark.context)), replace(EpochSize.of_one_task(), in_driver=MIB // 2)
    one_kit.write(f"INSERT INTO big VALUES (1, REPEAT('x', {MIB}))")
    one_kit.sync(runner, size=size)
    assert runner.jobs == 0
    while not runner.start_workers():
        time.sleep(0.1)
    one_kit.write(f"INSERT INTO big VALUES (2, REPEAT('x', {MIB}))")
    one_kit.sync(runner, size=size)

    assert runner.jobs == 1
    assert one_kit.differences() == []


@pytest.mark.spark
def test_the_only_source_of_a_job_on_one_machine_has_no_spark_jobs(
    one_kit: SyncKit, spark: SparkRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = WatchedFolds()
    monkeypatch.setattr(tasks, "FOLDED_AHEAD", watched)
    big_table(one_kit)
    for number in range(3):
        one_kit.write(f"INSERT INTO big VALUES ({number}, REPEAT('x', {5 * MIB}))")
    runner = JobsCounted(spark)

    one_kit.sync(runner)

    assert runner.jobs == 0
    assert watched.used > 0
    assert one_kit.differences() == []


@pytest.mark.spark
def test_a_backlog_on_one_machine_is_written_by_jobs_of_one_stage(
    one_kit: SyncKit, spark: SparkRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exchange would be a second stage. The second epoch was folded while the first one was written.

    Each transaction is a mebibyte, so one of them crosses the first epoch's limit. Workers with an environment of their
    own are not shared with other tests: each job gets the same one.
    """
    monkeypatch.setitem(spark.context.environment, "DM_WORKERS", "of this test")
    big_table(one_kit)
    size = replace(EpochSize.of_one_task(), limit=EpochSize.of_one_task().largest, warm=True)
    for number in range(size.limit // MIB + 2):
        one_kit.write(f"INSERT INTO big VALUES ({number}, REPEAT('x', {MIB}))")
    spark.run(watch_folds, [0])
    tracker = spark.context.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))

    one_kit.sync(spark, size=size)

    jobs = [tracker.getJobInfo(job) for job in set(tracker.getJobIdsForGroup(None)) - before]
    assert {len(job.stageIds) for job in jobs if job is not None} == {1}
    assert spark.run(folds_used, [0]) == [1]
    assert one_kit.differences() == []


def watch_folds(_: int) -> None:
    pytest.MonkeyPatch().setattr(tasks, "FOLDED_AHEAD", WatchedFolds())


def folds_used(_: int) -> int:
    watched = tasks.FOLDED_AHEAD
    assert isinstance(watched, WatchedFolds)
    return watched.used


@pytest.mark.spark
def test_a_worker_does_not_walk_its_modules_after_every_task(one_kit: SyncKit, spark: Runner) -> None:
    """pyspark's daemon collects garbage after each; what is imported never is garbage."""
    one_kit.begin_with("plain")
    one_kit.write("INSERT INTO plain VALUES (1, 'a')")
    one_kit.sync(spark, size=ON_WORKERS)
    known: set[int] = set()
    while True:
        ((pid, walked),) = spark.run(objects_to_walk, [0])
        if pid in known:  # a worker's first task imports this module
            break
        known.add(pid)

    assert walked < 10_000


def objects_to_walk(_: int) -> tuple[int, int]:
    return os.getpid(), len(gc.get_objects())


@pytest.mark.spark
def test_workers_are_forked_from_a_process_that_has_imported_the_engine(spark: Runner) -> None:
    assert all(b"spark_apps.workers" in parent for parent in spark.run(parent_of_a_worker, [0, 1]))


def parent_of_a_worker(_: int) -> bytes:
    return Path(f"/proc/{os.getppid()}/cmdline").read_bytes()


def test_an_error_of_an_executor_comes_back_as_it_was(one_kit: SyncKit, spark: Runner) -> None:
    one_kit.begin_with("plain")
    one_kit.target.sql(f"INSERT INTO `{one_kit.schema}`.plain VALUES (7, 'not ours')")
    one_kit.write("INSERT INTO plain VALUES (7, 'x')")

    for size in (SMALL, ON_WORKERS):
        one_kit.stops(DuplicateInTarget, spark, size=size)


def test_an_epoch_is_folded_while_the_one_before_is_written(one_kit: SyncKit, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = WatchedFolds()
    monkeypatch.setattr(tasks, "FOLDED_AHEAD", watched)
    one_kit.begin_with()
    random_transactions(one_kit, seed=7, transactions=300, keys=30)

    one_kit.sync(
        size=EpochSize(in_driver=0, warm=True, one_task=None, limit=8192, smallest=4096, usual=8192, largest=8192)
    )

    assert watched.used > 3
    assert one_kit.differences() == []
