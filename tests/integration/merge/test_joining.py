"""Sources that begin at different times."""

import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from airflow_provider_dm.engine.downstream.errors import DuplicateInTarget
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.sync import noting
from airflow_provider_dm.engine.sync.epoch import EpochSize
from airflow_provider_dm.engine.sync.errors import MissingRow
from airflow_provider_dm.engine.sync.following import Following
from airflow_provider_dm.engine.sync.runner import Exchange, LocalRunner, Shared
from airflow_provider_dm.engine.sync.write import apply
from tests.integration.merge.conftest import PLAIN, UNIQUE, Shops, instances
from tests.integration.merge.test_filters import filtered
from tests.integration.sync.conftest import Strike

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")


def test_a_source_joins_one_that_began_alone_and_is_behind(one_pair: Shops) -> None:
    one_pair.create(PLAIN, "a:o_0", "b:o_1")
    one_pair.write("a", "INSERT INTO o_0 VALUES (1, 'a'), (2, 'a')")
    one_pair.write("b", "INSERT INTO o_1 VALUES (11, 'b')")
    one_pair.load(["a"], copied=lambda: one_pair.write("a", "DELETE FROM o_0 WHERE id = 2"))
    one_pair.write("b", "INSERT INTO o_1 VALUES (2, 'b')")

    one_pair.load(["b"])
    one_pair.sync()

    assert one_pair.compared().equal, one_pair.compared()


def test_an_exact_sync_notices_that_another_source_joins(one_pair: Shops) -> None:
    """Its table was its own, so it took a duplicate for a stranger's row (DM-6005)."""
    one_pair.create(PLAIN, "a:o_0", "b:o_1")
    one_pair.write("a", "INSERT INTO o_0 VALUES (1, 'a'), (2, 'a')")
    one_pair.load(["a"])
    one_pair.sync("a", only=True)
    with one_pair.syncing("a") as syncing:
        one_pair.write("b", "INSERT INTO o_1 VALUES (5, 'b'), (6, 'b')")

        def goes_to_a() -> None:
            one_pair.write("b", "DELETE FROM o_1 WHERE id = 5")
            one_pair.write("a", "INSERT INTO o_0 VALUES (5, 'a')")
            syncing.wait_until(lambda: syncing.shown.changes)

        one_pair.load(["b"], copied=goes_to_a)
        one_pair.sync("b")

    assert not syncing.running.result().finished
    one_pair.sync()
    assert one_pair.compared().equal, one_pair.compared()
    assert (5, "a") in one_pair.rows()


def test_first_shards_that_two_sources_create_at_one_moment(one_pair: Shops, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither knew of the other at its check. Their starts are exact, so a colliding row waits."""
    one_pair.create(PLAIN, "a:own_a", "b:own_b")
    one_pair.target.sql(f"CREATE DATABASE {one_pair.schema}")
    for table in ("own_a", "own_b"):
        one_pair.target.sql(f"CREATE TABLE {table} ({PLAIN})", database=one_pair.schema)
    starts = {name: one_pair.place(name) for name in one_pair.sources}
    one_pair.create(PLAIN, "a:o_0", "b:o_1")
    one_pair.write("a", "INSERT INTO o_0 VALUES (1, 'a')", "DELETE FROM o_0", "INSERT INTO o_0 VALUES (2, 'a')")
    one_pair.write("b", "INSERT INTO o_1 VALUES (1, 'b')")
    exact = {"safe-mode-duration": "0s"}
    spec = one_pair.begin([{**one, "syncer": exact} for one in instances(one_pair, **starts)])
    commit = Following._commit

    def a_comes_first(following: Following, *args: Any) -> None:
        if following.source.fence.ref.source == "a":
            commit(following, *args)
            raise Strike
        with ThreadPoolExecutor(1) as pool, pytest.raises(Strike):
            pool.submit(one_pair.sync_one, "a", spec=spec).result()
        commit(following, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Following, "_commit", a_comes_first)
        one_pair.sync("b", spec=spec)
    one_pair.sync("a", "b", spec=spec)
    assert one_pair.rows() == [(1, "b"), (2, "a")]


@dataclass
class CopyingRunner:
    """A runner whose tasks read a copy of what is shared, as Spark's do. `shared`: how many values were."""

    slots: int = 2
    shared: int = 0

    def start_workers(self) -> bool:
        return True

    def share(self, value: T) -> Shared[T]:
        self.shared += 1
        return LocalRunner(self.slots).share(pickle.loads(pickle.dumps(value)))

    def run(self, task: Callable[[A], B], items: Sequence[A]) -> list[B]:
        return LocalRunner(self.slots).run(task, items)

    def exchange(self, produce: Callable[[A], Sequence[bytes]], items: Sequence[A], groups: int) -> Exchange:
        return LocalRunner(self.slots).exchange(produce, items, groups)


@pytest.fixture
def unnoticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A running sync checks for other sources only on certain events: a source that joins is not noticed."""
    monkeypatch.setattr(noting, "NOTE_SECONDS", 3600.0)


def alone(shops: Shops) -> None:
    """`a` is exact, and alone in the tables `o` and `own`; `b` has yet to begin."""
    shops.create(UNIQUE, "a:o_0", "a:own", "b:o_1")
    shops.write("a", "INSERT INTO o_0 VALUES (1, 1, 'a'), (2, 2, 'a')")
    shops.write("b", "INSERT INTO o_1 VALUES (5, 5, 'b'), (6, 6, 'b')")
    shops.load(["a"])
    shops.sync("a", only=True)


@pytest.mark.usefixtures("unnoticed")
def test_an_insert_that_collides_with_a_row_of_a_new_source_waits(
    one_pair: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`b` takes 2 over, and `a` takes it back before the log of `b` has the change; half of that epoch is written."""
    monkeypatch.setattr(apply, "BATCH_ROWS", 1)
    alone(one_pair)
    with one_pair.syncing("a") as sync:
        one_pair.write("a", "DELETE FROM o_0 WHERE id = 2")
        one_pair.write("b", "INSERT INTO o_1 VALUES (2, 2, 'b')")
        sync.wait_until(lambda: sync.shown.changes == 1)

        def takes_it_back() -> None:
            one_pair.write("b", "DELETE FROM o_1 WHERE id = 2")
            one_pair.write("a", "UPDATE o_0 SET u = u + 100; INSERT INTO o_0 VALUES (2, 2, 'back'), (3, 1, 'new')")
            sync.wait_until(lambda: sync.shown.changes == 4)
            assert sync.shown.contested_rows == one_pair.meta_rows("dm_contested_row") == 1
            assert one_pair.rows() == [(1, 101, "a"), (2, 2, "b"), (3, 1, "new"), (5, 5, "b"), (6, 6, "b")]

        one_pair.load(["b"], copied=takes_it_back)
        one_pair.write("a", "INSERT INTO o_0 VALUES (4, 4, 'a')")
        sync.wait_until(lambda: sync.shown.changes == 5)
    one_pair.sync("b", "a")

    assert one_pair.compared().equal, one_pair.compared()
    assert (2, 2, "back") in one_pair.rows()


@pytest.mark.usefixtures("unnoticed")
@pytest.mark.parametrize("joins", [False, True])
def test_an_insert_that_collides_with_a_foreign_row_stops_the_new_source(one_pair: Shops, joins: bool) -> None:
    """A runner need not return the shared plan, so its result does not show which plan was used."""
    alone(one_pair)
    runner = CopyingRunner()
    with one_pair.syncing("a", runner=runner, size=EpochSize(in_driver=0, warm=True)) as sync:
        for number in range(3):
            one_pair.write("a", f"INSERT INTO o_0 VALUES ({10 + number}, NULL, 'a')")
            sync.wait_until(lambda: sync.shown.changes > number)  # noqa: B023 (it is waited for here)
        assert (sync.shown.epochs, runner.shared) == (3, 1)
        if joins:
            one_pair.load(["b"])
        one_pair.target.sql("INSERT INTO own VALUES (7, 7, 'not ours')", database=one_pair.schema)
        one_pair.write("a", "INSERT INTO own VALUES (7, 70, 'a secret')")

        with pytest.raises(DuplicateInTarget) as stopped:
            sync.running.result(180)

    assert f"{one_pair.schema}.own" in str(stopped.value)
    assert runner.shared == (2 if joins else 1)
    assert one_pair.target.sql("SELECT v FROM own", database=one_pair.schema) == [("not ours",)]


@pytest.mark.usefixtures("unnoticed")
def test_a_row_deleted_by_a_filtered_source_before_sharing_was_noticed(
    one_pair: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/limits.md names what to do: half of an epoch is written, so the row is needed once more."""
    monkeypatch.setattr(apply, "BATCH_ROWS", 1)
    filtered(one_pair, events=["insert"])
    one_pair.task["mysql-instances"][0].pop("filter-rules")
    alone(one_pair)
    with one_pair.syncing("a") as sync:
        one_pair.load(["b"])
        one_pair.write("b", "INSERT INTO o_1 VALUES (2, 2, 'left out')", "DELETE FROM o_1 WHERE id = 2")
        one_pair.sync("b")
        one_pair.write("a", "UPDATE o_0 SET v = 'x'; INSERT INTO o_0 VALUES (17, 17, 'of the next bucket')")
        with pytest.raises(MissingRow):
            sync.running.result(180)
    one_pair.stops(MissingRow, "a")
    one_pair.target.sql("INSERT INTO o VALUES (2, 2, 'a')", database=one_pair.schema)
    one_pair.sync("a", "b")
    assert one_pair.rows() == [(1, 1, "x"), (2, 2, "x"), (5, 5, "b"), (6, 6, "b"), (17, 17, "of the next bucket")]


def test_a_source_continues_although_another_did_not_begin(one_pair: Shops) -> None:
    """It is loaded alone; then the fellow begins."""
    one_pair.create(PLAIN, "a:o_0", "b:o_1")
    one_pair.write("a", "INSERT INTO o_0 VALUES (1, 'a'), (2, 'a')")
    one_pair.write("b", "INSERT INTO o_1 VALUES (11, 'b')")
    one_pair.relay()

    def b_fails(source: str, _start: Location) -> None:
        if source == "b":
            raise RuntimeError("b fails")

    one_pair.migration().stops(RuntimeError, match="b fails", begun=b_fails)
    places: list[Location] = []

    def meanwhile() -> None:
        one_pair.write("a", "INSERT INTO o_0 VALUES (3, 'a')")
        places.append(one_pair.place("a"))
        one_pair.write("a", "DELETE FROM o_0 WHERE id = 3", "DELETE FROM o_0 WHERE id = 2")

    one_pair.load(["a"], copied=meanwhile)
    one_pair.sync_one("a", spec=one_pair.migration(["a"]).spec.model_copy(update={"until": str(places[0])}))
    one_pair.write("b", "INSERT INTO o_1 VALUES (2, 'b')")
    one_pair.load(["b"])
    one_pair.sync("b", "a", "b", "a")

    assert one_pair.compared().equal, one_pair.compared()
    assert one_pair.rows() == [(1, "a"), (2, "b"), (11, "b")]


def test_a_source_may_join_a_full_copy_that_is_done(one_pair: Shops) -> None:
    """There is no sync to wait for, whatever is written to the first source."""
    one_pair.task = {"task-mode": "full"}
    one_pair.create(PLAIN, "a:o_0", "b:o_1")
    one_pair.write("a", "INSERT INTO o_0 VALUES (1, 'a')")
    one_pair.write("b", "INSERT INTO o_1 VALUES (2, 'b')")
    one_pair.load(["a"], copied=lambda: one_pair.write("a", "UPDATE o_0 SET v = 'later' WHERE id = 1"))

    one_pair.load(["b"])

    assert one_pair.rows() == [(1, "a"), (2, "b")]
