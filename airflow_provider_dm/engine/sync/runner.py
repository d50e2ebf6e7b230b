"""The interface between the engine and Spark: a runner executes tasks, on Spark executors or in local threads.

A task is a picklable callable (a frozen dataclass with `__call__` from a module, never a lambda over the driver's
objects). Its error is returned as a value, `TaskFailed`, so that the driver raises the same DmError; the runner retries
a task only if its process dies. A task may therefore run twice, even concurrently: its writes must be fenced
(downstream/frontier.py).

`run` is one job. `exchange` is two jobs: the first makes one blob for each group from each item, the second passes each
group its blobs in the order of the items. A missing blob is an error, because it would lose a part of the log.

Secrets may be in tasks, never in items: Spark writes items to files in its scratch directory.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from airflow_provider_dm.engine.errors import DmError, InvariantBroken, Reaction
from airflow_provider_dm.engine.sync.errors import TaskBug

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Ok(Generic[T]):
    """The value that a task returned."""

    value: T


@dataclass(frozen=True)
class TaskFailed:
    """The error that a task raised."""

    error: DmError


class Shared(Protocol[T_co]):
    """A value that is shipped once and that every task can read. `value` may return a copy, also in the driver."""

    @property
    def value(self) -> T_co: ...


class Exchange(Protocol):
    """Blobs sorted into groups, which can be consumed several times."""

    def run(self, consume: Callable[[int, Sequence[bytes]], B]) -> list[B]:
        """Run `consume(group, blobs in item order)` for every group. Raises the error of a task."""
        ...


class Runner(Protocol):
    """A runner of tasks, on `slots` processes or threads."""

    @property
    def slots(self) -> int: ...

    def start_workers(self) -> bool:
        """Start the workers in the background, if they have not been started. Return True once they have started.

        Raises TasksCrashed if they cannot be started."""
        ...

    def share(self, value: T) -> Shared[T]: ...

    def run(self, task: Callable[[A], B], items: Sequence[A]) -> list[B]:
        """Return the results in the order of the items. Raises the most serious error of a task."""
        ...

    def exchange(self, produce: Callable[[A], Sequence[bytes]], items: Sequence[A], groups: int) -> Exchange:
        """Sort the blobs of all items into groups. `produce` returns one blob for each group."""
        ...


def attempt(task: Callable[[A], B], item: A) -> Ok[B] | TaskFailed:
    """Run the task; return its result or error as a value.

    The error has no traceback, which would keep the task's rows: a worker leaves cycles uncollected.
    """
    try:
        return Ok(task(item))
    except DmError as error:
        return TaskFailed(error.with_traceback(None))
    except Exception as error:  # noqa: BLE001 (nothing is hidden: the driver raises it)
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return TaskFailed(
            TaskBug(type(error).__name__, f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}")
        )


_GRAVITY: Final = {Reaction.FENCED: 0, Reaction.STOP: 1, Reaction.RETRY: 2}


def values(outcomes: Sequence[Ok[B] | TaskFailed]) -> list[B]:
    """Return the results, or raise the most serious error: fenced before stop before retry."""
    failed = [outcome.error for outcome in outcomes if isinstance(outcome, TaskFailed)]
    if failed:
        raise min(failed, key=lambda error: _GRAVITY[error.reaction])
    return [outcome.value for outcome in outcomes if isinstance(outcome, Ok)]


def check_blobs(blobs: Sequence[bytes], groups: int) -> Sequence[bytes]:
    """Return the blobs if there is one for each group. Raises InvariantBroken."""
    if len(blobs) != groups:
        raise InvariantBroken("every range gives one blob to every group", f"{len(blobs)} for {groups}")
    return blobs


@dataclass(frozen=True)
class _Here(Generic[T]):
    value: T


@dataclass(frozen=True)
class LocalRunner:
    """Runs tasks in threads of this process, a single one in the calling thread, whose connections it uses."""

    slots: int = 2

    def start_workers(self) -> bool:
        return True

    def share(self, value: T) -> Shared[T]:
        return _Here(value)

    def run(self, task: Callable[[A], B], items: Sequence[A]) -> list[B]:
        if len(items) == 1:
            return values([attempt(task, items[0])])
        with ThreadPoolExecutor(self.slots) as pool:
            return values(list(pool.map(lambda item: attempt(task, item), items)))

    def exchange(self, produce: Callable[[A], Sequence[bytes]], items: Sequence[A], groups: int) -> Exchange:
        columns = [check_blobs(blobs, groups) for blobs in self.run(produce, items)]
        return _LocalExchange(self, [[blobs[group] for blobs in columns] for group in range(groups)])


@dataclass(frozen=True)
class _LocalExchange:
    runner: LocalRunner
    groups: list[list[bytes]]

    def run(self, consume: Callable[[int, Sequence[bytes]], B]) -> list[B]:
        return self.runner.run(lambda group: consume(group, self.groups[group]), range(len(self.groups)))
