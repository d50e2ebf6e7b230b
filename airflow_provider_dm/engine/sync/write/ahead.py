"""The rows of the next epoch, folded by a task's process while that task writes its own epoch.

Folding is a pure function of the plan and of a part of the log. So nothing depends on the folded rows: the next epoch
uses them if its task runs in this process by the same plan, and folds the log itself if not. They are written only by
that task, after the previous epoch is committed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from airflow_provider_dm.engine.binlog.planned import ByteRange
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.write.causality import Waves

MOST_MISSES: Final = 3
"""After this many successive epochs that were folded ahead and written by another process, none is folded ahead."""


@cache
def _thread(_process: int) -> ThreadPoolExecutor:
    """Return this process's thread, which keeps its connections between epochs. A fork has none of its parent's."""
    return ThreadPoolExecutor(1, thread_name_prefix="fold-ahead")


@dataclass
class FoldedAhead:
    """At most one epoch that is folded ahead, in one process."""

    _kept: tuple[SyncPlan, tuple[ByteRange, ...], Future[Waves]] | None = field(default=None, init=False)
    _written: tuple[ByteRange, ...] = field(default=(), init=False)
    """The ranges that this process had to write last."""
    _misses: int = field(default=0, init=False)

    def take(self, plan: SyncPlan, ranges: tuple[ByteRange, ...]) -> Waves | None:
        """Return these ranges as folded by this plan, or None. Drop the kept epoch."""
        kept, self._kept = self._kept, None
        written, self._written = self._written, ranges
        if kept is None or ranges == written:  # an epoch that is repeated does not show who writes the next one
            return None
        by, of, folded = kept
        if by is not plan or of != ranges or folded.exception() is not None:
            self._misses += 1
            return None
        self._misses = 0
        return folded.result()

    @contextmanager
    def folding(self, plan: SyncPlan, ranges: tuple[ByteRange, ...], fold: Callable[[], Waves]) -> Iterator[None]:
        """Fold these ranges, if there are any, while the body runs. An error is left to the task that needs them."""
        if not ranges or self._misses >= MOST_MISSES:
            yield
            return
        folded = _thread(os.getpid()).submit(fold)
        self._kept = plan, ranges, folded
        try:
            yield
        finally:
            folded.exception()  # wait: the task has ended then
