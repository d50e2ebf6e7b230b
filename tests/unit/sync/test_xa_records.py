"""The transactions that are prepared at a location, according to the target after a crash at any step."""

from dataclasses import replace

import pytest

from airflow_provider_dm.engine.binlog.planned import Epoch
from airflow_provider_dm.engine.binlog.xa import PreparedXa, Xid
from airflow_provider_dm.engine.downstream.errors import Fenced
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.downstream.prepared_xa import read_prepared, restore_prepared
from airflow_provider_dm.engine.sync.loop_state import LoopState
from airflow_provider_dm.engine.sync.noting import forget_xa, note_xa
from tests.unit.sync.loop_world import FENCE, LO, World, epoch


def prepared(name: str, start: int) -> PreparedXa:
    return PreparedXa(Xid(1, name.encode(), b""), LO.at(start), start + 10, rows=True)


X, Y = prepared("x", 110), prepared("y", 130)


def epoch_with(lo: int, hi: int, *left: PreparedXa) -> Epoch:
    """An epoch that leaves these prepared."""
    return replace(epoch(lo, hi), prepared=left)


def here(world: World, *now: PreparedXa, fence: Fence = FENCE) -> LoopState:
    return replace(world.loop.state, fence=fence, prepared=now)


def note(world: World, state: LoopState, epoch: Epoch) -> None:
    note_xa(world.around.transactions, state, epoch)


def applied(world: World, state: LoopState, epoch: Epoch) -> LoopState:
    forget_xa(world.around.transactions, state, epoch)
    return state.after(epoch)


def restored(world: World, position: int) -> list[PreparedXa]:
    return world.around.transactions(lambda tx: restore_prepared(tx, FENCE, LO.at(position).sort_key))


def noted(world: World) -> list[PreparedXa]:
    return read_prepared(world.database.connection(), FENCE.ref)


def test_prepared_transactions_of_an_epoch_count_once_it_is_applied() -> None:
    world = World()
    note(world, here(world), epoch_with(100, 200, X, Y))
    assert noted(world) == [X, Y]
    assert restored(world, 200) == [X, Y]
    assert restored(world, 100) == []  # the epoch was not applied: it is planned again, and finds them again
    assert noted(world) == []


def test_a_transaction_stays_prepared_until_its_epoch_is_applied() -> None:
    world = World()
    one = here(world)
    note(world, one, epoch_with(100, 200, X, Y))
    one = applied(world, one, epoch_with(100, 200, X, Y))
    note(world, one, epoch_with(300, 400, Y))
    assert restored(world, 300) == [X, Y]
    assert restored(world, 400) == [Y]
    assert noted(world) == [Y]


def test_an_epoch_that_was_recorded_and_not_begun_may_get_other_bounds() -> None:
    world = World()
    one = here(world)
    note(world, one, epoch_with(100, 200, X))
    one = applied(world, one, epoch_with(100, 200, X))
    note(world, one, epoch_with(200, 500))  # and a crash: the next run plans less
    again = here(world, *restored(world, 200))
    note(world, again, epoch_with(200, 300, X))
    again = applied(world, again, epoch_with(200, 300, X))
    assert restored(world, 300) == [X]
    note(world, again, epoch_with(300, 400))
    again = applied(world, again, epoch_with(300, 400))
    assert (noted(world), again.prepared) == ([], ())


def test_the_log_is_needed_from_the_oldest_on() -> None:
    world = World()
    assert here(world, Y, X).at(LO.at(900)).needed == X.at
    assert here(world).at(LO.at(900)).needed == LO.at(900)


def test_an_epoch_without_xa_changes_and_writes_nothing() -> None:
    world = World()
    one = here(world, X)
    note(world, one, epoch(100, 200))
    one = applied(world, one, epoch(100, 200))
    assert (one.prepared, noted(world)) == ((X,), [])


def test_a_replaced_driver_writes_nothing() -> None:
    world = World()
    with pytest.raises(Fenced):
        note(world, here(world, fence=Fence(FENCE.ref, 0)), epoch_with(100, 200, X))
    assert noted(world) == []


def test_the_loop_plans_each_piece_with_the_prepared_transactions() -> None:
    world, seen = World(epoch_with(100, 200, X), epoch(200, 300), epoch_with(300, 400)), list[list[PreparedXa]]()
    world.tasks.meanwhile = lambda: seen.append(noted(world))
    world.run()
    assert seen[0] == [X], "a driver that dies behind its rows would not find it again"
    assert world.log.prepared[:4] == [(), (X,), (X,), ()]
    assert noted(world) == []


def test_the_loop_reports_the_needed_location() -> None:
    world = World(epoch_with(100, 200, X), epoch(200, 300))
    world.run()
    assert (world.notes.needed[0], world.notes.needed[-1]) == (LO, X.at)
