"""Memory of tasks: the garbage collector, and what a failed task leaves."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NoReturn, cast

import pytest

from airflow_provider_dm.engine.downstream.frontier import EpochRange
from airflow_provider_dm.engine.downstream.row_statements import Dialect
from airflow_provider_dm.engine.merge.owner_writer import TargetAccess
from airflow_provider_dm.engine.sync.errors import BrokenChain, MissingRow
from airflow_provider_dm.engine.sync.runner import LocalRunner
from airflow_provider_dm.engine.sync.write import tasks
from airflow_provider_dm.engine.sync.write.apply import Target, WaveWriter
from airflow_provider_dm.engine.sync.write.causality import make_waves
from tests.unit.sync.test_change import ITEM, fold, plan_of


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_enabled_after_a_task(enabled: bool) -> None:
    """Also if it was disabled by a task of another thread, which may end meanwhile."""
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with suppress(BrokenChain), tasks._without_gc():
            assert not gc.isenabled()
            raise BrokenChain("t", (), "", "")
        assert gc.isenabled()
    finally:
        (gc.enable if before else gc.disable)()


def test_the_rows_of_a_failed_task_are_freed_without_the_collector() -> None:
    """Spark's workers exclude what a task leaves from garbage collection."""
    plan, left = plan_of(ITEM), []

    def loses(_body: object) -> NoReturn:
        raise MissingRow("shop.item", "UPDATE", 1, 0)

    def write(numbers: range) -> None:
        waves = make_waves(plan, fold(plan, [(0, None, (b"%d" % number, b"a")) for number in numbers]))
        left.append(weakref.ref(waves))
        with ThreadPoolExecutor(2) as pool:
            target, step = Target(loses, lambda: TargetAccess(Dialect())), cast("EpochRange", None)
            WaveWriter(plan, target, step, pool, batch=1).advance(waves.second, range(plan.buckets))

    gc.collect()
    gc.disable()
    try:
        with pytest.raises(MissingRow):
            LocalRunner(1).run(write, [range(20)])
        assert [one() for one in left] == [None]
    finally:
        gc.enable()
