"""Sorting the changes of an epoch by the drivers of the model: as one task, or as several that exchange them."""

from collections.abc import Sequence

from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.write.causality import Waves, make_waves
from airflow_provider_dm.engine.sync.write.compactor import FoldedChanges
from airflow_provider_dm.engine.sync.write.disputed import ExchangedMarks, disputed_values
from airflow_provider_dm.engine.sync.write.tasks import pack, unpack


def waves_of(plan: SyncPlan, pieces: Sequence[FoldedChanges], groups: int) -> Waves:
    """Sort the changes by so many tasks. Another attempt may have another number of tasks."""
    blobs = [pack(plan, one, groups) for one in pieces]
    shares = [unpack(plan, mine) for mine in zip(*blobs, strict=True)]
    disputed = disputed_values([ExchangedMarks.of(plan, one) for one in shares])
    waves, *others = (make_waves(plan, one, disputed) for one in shares)
    for other in others:
        waves.first |= other.first
        waves.second |= other.second
        assert not waves.later + other.later
    return waves
