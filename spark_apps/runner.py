"""The Runner of engine/sync/runner.py on Spark: RDD jobs with few, large tasks.

It uses neither DataFrames nor Structured Streaming: a job of one RDD stage costs about 10 ms over Unix sockets, and the
engine has its own checkpoint. Blobs are exchanged by `partitionBy`; both waves of an epoch read the same shuffle files,
so the first stage runs once. Spark deletes these files after the driver's RDD object is garbage-collected.
"""

from __future__ import annotations

import gc
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import RDD, SparkConf, SparkContext
from pyspark.errors import PySparkException

from airflow_provider_dm.engine.sync.runner import Exchange, Ok, Shared, TaskFailed, attempt, check_blobs, values
from spark_apps import workers
from spark_apps.errors import SparkNotStarted, TasksCrashed

log = logging.getLogger(__name__)

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")

SLOTS_SECONDS: Final = 1.0
"""Seconds for which the number of cores is cached."""

Blob = tuple[int, "Ok[bytes] | TaskFailed"]
"""The number of an item, and its bytes for a group, or its failure."""

SPARK_DEFAULTS: Final = {
    "spark.master": "local[2,4]",  # local[N] would never retry a task
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.speculation": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.python.unix.domain.socket.enabled": "true",  # over TCP every hop costs 40 ms
    "spark.cleaner.periodicGC.interval": "5min",  # the driver's garbage collection deletes shuffle files
}
"""The defaults of the apps, unless spark-submit sets other values."""

_SPARK_ERRORS: Final = (Py4JError, PySparkException, ConnectionError)
_REASON: Final = re.compile(r"(?:Exception|Error): ([^\n]{1,300})")


def spark_context(app_name: str, worker_imports: Sequence[str] = (), *, early: bool = False) -> SparkContext:
    """Return the context of this process, with SPARK_DEFAULTS for settings that spark-submit did not set.

    It starts no SparkSession, which would load some thousand classes for SQL, a fifth of a short app's processor time.

    Outside of the main thread, it leaves the handler of SIGINT as it is. `worker_imports`: the modules that its tasks
    need, as in `workers.VARIABLE`; `early`: they are imported while Spark starts. Raises SparkNotStarted.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        SparkContext._ensure_initialized()  # started by spark-submit, whose options SparkConf then has
    conf = SparkConf().setIfMissing("spark.app.name", app_name)
    for name, value in SPARK_DEFAULTS.items():
        conf.setIfMissing(name, value)
    if str(conf.get("spark.master")).startswith("local"):
        # Workers of this machine are this interpreter, and import the packages from the same directory.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        conf.setIfMissing("spark.executorEnv.PYTHONPATH", str(Path(__file__).resolve().parent.parent))
        conf.setIfMissing("spark.python.daemon.module", workers.__name__)
        conf.setIfMissing(f"spark.executorEnv.{workers.VARIABLE}", ",".join(worker_imports))
        if early and conf.get("spark.python.daemon.module") == workers.__name__:
            conf.set(f"spark.executorEnv.{workers.ADDRESS}", workers.start_early(worker_imports))
    try:
        context = SparkContext.getOrCreate(conf)
    except _SPARK_ERRORS as error:
        raise SparkNotStarted(str(conf.get("spark.master")), _reason(error)) from error
    for name in ("spark.speculation", "spark.python.unix.domain.socket.enabled"):
        found = context.getConf().get(name)
        if found != SPARK_DEFAULTS[name]:
            log.warning("%s is %s; the recommended value is %s", name, found, SPARK_DEFAULTS[name])
    return context


@cache
def start_spark(app: str) -> Future[SparkRunner]:
    """Start Spark in a thread, and its workers unless the app is a sync, which may never need them.

    An app calls this before its other imports: both take a second of one processor.
    """
    started: Future[SparkRunner] = Future()

    def start() -> None:
        try:
            at_once = app != "incremental_sync"
            runner = SparkRunner(spark_context(f"dm-{app}", workers.WORKER_IMPORTS[app], early=at_once))
            if at_once:
                runner.start_workers()
            started.set_result(runner)
        except BaseException as error:  # noqa: BLE001 (raised to the caller of `result`)
            started.set_exception(error)

    threading.Thread(target=start, name="start-spark", daemon=True).start()
    return started


def _nothing(_item: int) -> None:
    """An empty task, by which a worker is started."""


@dataclass
class SparkRunner:
    """A runner that executes tasks as Spark jobs."""

    context: SparkContext
    _slots: int = field(default=1, init=False)
    _queried_at: float = field(default=-SLOTS_SECONDS, init=False)
    _starting: Future[bool] | None = field(default=None, init=False)
    """The first job, which starts the workers. An app that ends does not wait for it: a cluster may have no worker."""

    @property
    def slots(self) -> int:
        """The cores of the executors. The JVM is queried at most once every SLOTS_SECONDS: an answer takes as long as a
        small epoch."""
        if time.monotonic() - self._queried_at >= SLOTS_SECONDS:
            self._slots, self._queried_at = max(1, self.context.defaultParallelism), time.monotonic()
        return self._slots

    def start_workers(self) -> bool:
        if self._starting is None:
            self._starting = Future()  # one worker on one machine: a second one would take turns with it
            threading.Thread(target=self._start, args=(self._starting,), name="start-workers", daemon=True).start()
        return self._starting.done() and self._starting.result()

    def _start(self, started: Future[bool]) -> None:
        try:
            started.set_result(self.run(_nothing, [0]) == [None])
        except BaseException as error:  # noqa: BLE001 (raised by start_workers)
            started.set_exception(error)

    def share(self, value: T) -> Shared[T]:
        return self.context.broadcast(value)

    def lane(self, name: str) -> None:
        """Make jobs of the calling thread share the cluster fairly with jobs of other lanes."""
        self.context.setLocalProperty("spark.scheduler.pool", name)

    def run(self, task: Callable[[A], B], items: Sequence[A]) -> list[B]:
        if not items:
            return []
        rdd = self.context.parallelize(items, len(items)).mapPartitions(_Each(task))
        return values(_collect(rdd))

    def progress(self) -> dict[str, int]:
        """Return the number of tasks of the running stages, and of finished ones; {} if no stage runs."""
        tracker = self.context.statusTracker()
        stages = [stage for one in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(one)) is not None]
        if not stages:
            return {}
        return {
            "pieces": sum(one.numTasks for one in stages),
            "pieces_done": sum(one.numCompletedTasks for one in stages),
        }

    def exchange(self, produce: Callable[[A], Sequence[bytes]], items: Sequence[A], groups: int) -> Exchange:
        numbered = self.context.parallelize(list(enumerate(items)), len(items))
        blobs = numbered.mapPartitions(_Produce(produce, groups)).partitionBy(groups, int)
        return SparkExchange(blobs, len(items))


@dataclass(frozen=True)
class SparkExchange:
    """Blobs in shuffle files."""

    blobs: RDD[tuple[int, Blob]]
    items: int

    def run(self, consume: Callable[[int, Sequence[bytes]], B]) -> list[B]:
        return values(_collect(self.blobs.mapPartitionsWithIndex(_Consume(consume, self.items))))


def _collect(rdd: RDD[Any]) -> list[Any]:
    try:
        return rdd.collect()
    except _SPARK_ERRORS as error:
        raise TasksCrashed(_reason(error)) from None


def _reason(error: Exception) -> str:
    """Return the first line of the Java exception's message."""
    match = _REASON.search(str(error))
    return match[1] if match else type(error).__name__


def freeze_objects() -> None:
    """Exclude the objects of this worker from garbage collection. Called at the end of a task.

    pyspark's daemon runs a garbage collection after every task. It would scan the rows that were folded ahead and, with
    the kernels loaded, 146,000 permanent objects in 77 ms, which is longer than a small epoch takes.
    """
    global _modules  # noqa: PLW0603 (the state of this process)
    if len(sys.modules) > _modules:
        _modules = len(sys.modules)
        gc.collect()
    gc.freeze()


_modules = 0
"""The number of imported modules at the last collection."""


@dataclass(frozen=True)
class _Each:
    """The function from a partition of items to a partition of outcomes."""

    task: Callable[[Any], Any]

    def __call__(self, items: Iterable[Any]) -> Iterator[Ok[Any] | TaskFailed]:
        for item in items:
            yield attempt(self.task, item)
        freeze_objects()


@dataclass(frozen=True)
class _Produce:
    """The function from numbered items to (group, blob). A failure goes to every group, because no group may apply a
    part."""

    produce: Callable[[Any], Sequence[bytes]]
    groups: int

    def __call__(self, items: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Blob]]:
        for number, item in items:
            match attempt(lambda item: check_blobs(self.produce(item), self.groups), item):
                case Ok(blobs):
                    yield from ((group, (number, Ok(blob))) for group, blob in enumerate(blobs))
                case TaskFailed() as failed:
                    yield from ((group, (number, failed)) for group in range(self.groups))
        freeze_objects()


@dataclass(frozen=True)
class _Consume:
    """The function from a group's blobs to one outcome."""

    consume: Callable[[int, Sequence[bytes]], Any]
    items: int

    def __call__(self, group: int, blobs: Iterable[tuple[int, Blob]]) -> Iterator[Ok[Any] | TaskFailed]:
        ordered = [outcome for _, (_, outcome) in sorted(blobs, key=lambda pair: pair[1][0])]
        yield attempt(self._all, (group, ordered))
        freeze_objects()

    def _all(self, group_and_blobs: tuple[int, list[Ok[bytes] | TaskFailed]]) -> Any:
        group, outcomes = group_and_blobs
        return self.consume(group, check_blobs(values(outcomes), self.items))
