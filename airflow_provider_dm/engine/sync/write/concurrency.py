"""Concurrency and batch sizes, derived from the `syncers` options.

    worker-count    target connections that write at the same time. Default: two for each task of an epoch, one if there
                    are more than eight tasks
    batch           maximum rows of a target transaction, which writes whole buckets or whole transactions; epochs are
                    made small enough that no bucket has more
    multiple-rows   false: a statement writes one row

An epoch whose changes are not folded is one task, because dependences are searched in the whole epoch.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_dm.engine.config.units import MOST_WORKERS, SyncerConfig
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan


@dataclass(frozen=True)
class WriteConcurrency:
    """The concurrency of an epoch. `connections`: the number for each task. `batch` None: not configured."""

    tasks: int = 1
    connections: int = 2
    batch: int | None = None
    multiple_rows: bool = True

    @classmethod
    def of(cls, syncer: SyncerConfig, plan: SyncPlan, *, tasks: int) -> WriteConcurrency:
        """Return how an epoch is written. `tasks`: the number of tasks by the epoch's size.

        By default a task has at most two connections: more would wait for Python's lock, unless the target is remote.
        """
        workers = syncer.worker_count
        tasks = min(tasks, workers or tasks) if spreads(plan) else 1
        connections = max(1, workers // tasks if workers else min(2, MOST_WORKERS // tasks))
        return cls(tasks, connections, syncer.most_rows, syncer.multiple_rows)


def spreads(plan: SyncPlan) -> bool:
    """Return True if an epoch may be several tasks."""
    return plan.compact and not plan.whole and not plan.contended
