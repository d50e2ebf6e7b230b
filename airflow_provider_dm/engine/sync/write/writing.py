"""What the keys of a syncer come to: who writes at once, how much in a transaction and a statement, and what is held.

    worker-count    target connections that write at once. Default: two for each task of an epoch, one if there are more
                    than eight tasks
    batch           most rows of a target transaction, which takes whole buckets, or whole transactions; epochs are so
                    small that no bucket has more
    multiple-rows   false: a statement is about one row
    queue-size      changes held for each two workers, as DM's queues: epochs are no larger than that comes to

An epoch whose changes are not folded is one task, as what depends on each other is found in all of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_dm.engine.config.units import MOST_WORKERS, SyncerConfig
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan


@dataclass(frozen=True)
class Writing:
    """The way to write one epoch. `connections`: of each task, at once. `batch` None: not configured."""

    tasks: int = 1
    connections: int = 2
    batch: int | None = None
    multiple_rows: bool = True

    @classmethod
    def of(cls, syncer: SyncerConfig, plan: SyncPlan, *, tasks: int) -> Writing:
        """Return how an epoch is written that would be `tasks` tasks.

        More than two connections of one task wait for each other, and for Python, unless the target is far away.
        """
        workers = syncer.worker_count
        tasks = min(tasks, workers or tasks) if spreads(plan) else 1
        connections = max(1, workers // tasks if workers else min(2, MOST_WORKERS // tasks))
        return cls(tasks, connections, syncer.batch, syncer.multiple_rows)


def spreads(plan: SyncPlan) -> bool:
    """Tell whether an epoch may be several tasks."""
    return plan.compact and not plan.whole and not plan.contended


def most_held(syncer: SyncerConfig) -> int | None:
    """Return how many changes may be held at once; None: as many as fit into an epoch's bytes."""
    return None if syncer.queue_size is None else max(1, syncer.queue_size * (syncer.worker_count or MOST_WORKERS) // 2)
