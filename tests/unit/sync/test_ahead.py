"""An epoch that was folded ahead is used once, for what it was folded from; else nothing is lost but time."""

import threading
import time
from concurrent.futures import Future
from dataclasses import replace

import pytest

from airflow_provider_dm.engine.binlog.format import BinlogFormat
from airflow_provider_dm.engine.binlog.planned import ByteRange, Planned, UpToDate
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.sync.epoch import MIB, EpochSize
from airflow_provider_dm.engine.sync.write.ahead import MOST_MISSES, FoldedAhead
from airflow_provider_dm.engine.sync.write.causality import Waves
from tests.unit.sync.loop_world import BACKLOG, LO, PLAN, World, ddl, epoch


def ranges_at(start: int) -> tuple[ByteRange, ...]:
    form = BinlogFormat(Flavour.MARIADB, checksum=True)
    return (ByteRange("/relay/bin.000001", "bin.000001", 1, start, start + 100, form),)


FIRST, SECOND = ranges_at(100), ranges_at(200)
ROWS = Waves(7)


def folded_ahead() -> FoldedAhead:
    ahead = FoldedAhead()
    with ahead.folding(PLAN, SECOND, lambda: ROWS):
        pass
    return ahead


def test_a_folded_epoch_is_used_once() -> None:
    ahead = folded_ahead()

    assert ahead.take(PLAN, SECOND) is ROWS
    assert ahead.take(PLAN, SECOND) is None


def test_a_folded_epoch_is_for_one_plan_and_one_part_of_the_log() -> None:
    assert folded_ahead().take(PLAN, FIRST) is None
    assert folded_ahead().take(replace(PLAN), SECOND) is None


def test_an_error_is_left_to_the_task_that_needs_the_rows() -> None:
    ahead = FoldedAhead()

    def fails() -> Waves:
        raise OSError

    with ahead.folding(PLAN, SECOND, fails):
        pass
    assert ahead.take(PLAN, SECOND) is None


def test_a_failed_write_still_waits_for_the_thread() -> None:
    ahead, fails = FoldedAhead(), threading.Event()
    ended: list[bool] = []

    def fold() -> Waves:
        fails.wait()
        time.sleep(0.05)
        ended.append(True)
        return ROWS

    def write() -> None:
        with ahead.folding(PLAN, SECOND, fold):
            fails.set()
            raise OSError("the target")

    with pytest.raises(OSError, match="the target"):
        write()
    assert ended == [True]
    assert ahead.take(PLAN, SECOND) is ROWS


def test_an_epoch_that_is_repeated_is_not_folded_in_vain() -> None:
    ahead = FoldedAhead()
    for _ in range(2 * MOST_MISSES):
        ahead.take(PLAN, FIRST)
        with ahead.folding(PLAN, SECOND, lambda: ROWS):
            pass

    assert ahead.take(PLAN, SECOND) is ROWS


def test_a_process_ends_if_its_result_is_never_used() -> None:
    ahead, folds = FoldedAhead(), 0

    def fold() -> Waves:
        nonlocal folds
        folds += 1
        return ROWS

    for number in range(2 * MOST_MISSES):
        with ahead.folding(PLAN, SECOND, fold):
            pass
        ahead.take(PLAN, ranges_at(number))

    assert folds == MOST_MISSES


def planned(piece: Planned | Exception) -> Future[Planned]:
    future: Future[Planned] = Future()
    if isinstance(piece, Exception):
        future.set_exception(piece)
    else:
        future.set_result(piece)
    return future


def test_large_epochs_of_one_process_are_folded_ahead() -> None:
    size = replace(EpochSize.of_one_task(), warm=True)
    following = replace(epoch(200, 300, size=2 * MIB), ranges=SECOND)

    assert size.next_ranges(2 * MIB, planned(following)) == SECOND
    assert size.next_ranges(2 * MIB, None) == ()
    assert size.next_ranges(size.in_driver, planned(following)) == ()
    assert size.next_ranges(2 * MIB, planned(replace(following, bytes=size.in_driver))) == ()
    for other in (UpToDate(LO), ddl("CREATE TABLE t (id int)", 200, 300), OSError()):
        assert size.next_ranges(2 * MIB, planned(other)) == ()
    assert replace(size, warm=False).next_ranges(2 * MIB, planned(following)) == ()  # the driver's
    elsewhere = EpochSize(warm=True)  # on a cluster the next task may run in another process
    assert elsewhere.next_ranges(2 * MIB, planned(following)) == ()
    small = replace(following, bytes=1000)
    assert EpochSize.by_the_driver().next_ranges(1000, planned(small)) == SECOND


def test_a_backlog_has_the_next_epoch_folded_ahead() -> None:
    second = replace(epoch(200, 300), ranges=SECOND)
    world = World(epoch(100, 200), second, goal=LO.at(300), size=replace(BACKLOG, one_task=None))

    assert world.run()
    assert [job.next_ranges for job in world.tasks.jobs] == [SECOND, ()]
