"""Records of whose a row is: how long they are kept, and what is made of a row that has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

from airflow_provider_dm.engine.errors import DmError, NotSupportedYet
from airflow_provider_dm.engine.merge.collision import RowsCollide
from airflow_provider_dm.engine.merge.writer import TooManyContested
from airflow_provider_dm.engine.sync.epoch import apply_epoch
from airflow_provider_dm.engine.sync.write import apply
from airflow_provider_dm.engine.sync.write.apply import MissingRow, WaveWriter
from airflow_provider_dm.engine.sync.write.causality import Wave
from airflow_provider_dm.engine.sync.write.transactional import Applied
from airflow_provider_dm.engine.target.frontier import Act
from tests.integration.merge.conftest import Shops, instances

PLAIN = "id int NOT NULL PRIMARY KEY, v varchar(20)"
UNIQUE = "id int NOT NULL PRIMARY KEY, u int, v varchar(20), UNIQUE KEY u (u)"


def numbers_of(shops: Shops, source: str) -> list[int]:
    """Above zero: rows are recorded; below: they are not any more, and records may be left."""
    found = shops.target.sql("SELECT number FROM dm_owner WHERE source = %s", [source], database=shops.meta)
    return [int(number) for (number,) in found]


@contextmanager
def failing_halfway(monkeypatch: pytest.MonkeyPatch, fail: Callable[[], DmError]) -> Iterator[None]:
    """Let an epoch fail once in its last wave, when a few batches of buckets are written."""
    real, number = WaveWriter._write_batch, count()

    def write(self: WaveWriter, waves: Sequence[Wave], batch: Sequence[int], act: Act) -> int:
        if act is Act.ADVANCE and any(waves) and next(number) == 5:
            raise fail()
        return real(self, waves, batch, act)

    with monkeypatch.context() as patched:
        patched.setattr(apply, "BATCH_ROWS", 1)
        patched.setattr(WaveWriter, "_write_batch", write)
        yield


@pytest.fixture
def seen(one_pair: Shops, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Whenever an epoch is about to be applied: the numbers of `a`."""
    seen: list[list[int]] = []

    def seen_apply_epoch(*arguments: Any, **options: Any) -> Applied:
        seen.append(numbers_of(one_pair, "a"))
        return apply_epoch(*arguments, **options)

    monkeypatch.setattr("airflow_provider_dm.engine.sync.loop.apply_epoch", seen_apply_epoch)
    return seen


def a_is_exact(shops: Shops) -> int:
    """`b` is not; `a` has a large transaction to apply. Return its number."""
    shops.create(PLAIN, "a:o_0", "b:o_1")
    shops.write("a", "INSERT INTO o_0 VALUES (1, 'a'), (2, 'a')")
    shops.load(copied=lambda: shops.write("b", "INSERT INTO o_1 VALUES (9, 'b')"))
    shops.sync("a")
    shops.write("a", f"INSERT INTO o_0 VALUES {', '.join(f'({number}, 0)' for number in range(10, 40))}")
    (number,) = numbers_of(shops, "a")
    assert number > 0
    return number


def stands(shops: Shops, source: str) -> int:
    """Return at how many places the buckets stand."""
    (row,) = shops.target.sql(
        "SELECT COUNT(DISTINCT position) FROM dm_frontier WHERE source = %s", [source], database=shops.meta
    )
    return int(row[0])


def test_nothing_is_given_up_while_an_epoch_is_half_written(
    one_pair: Shops, seen: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records decide how one is written. All sources are exact, so the look that a run begins with could give up."""
    number = a_is_exact(one_pair)
    halfway = failing_halfway(monkeypatch, lambda: MissingRow("o", "UPDATE", 1, 0))
    with halfway, pytest.raises(MissingRow):
        one_pair.sync("a")
    one_pair.sync("b")
    assert stands(one_pair, "a") == 2
    assert numbers_of(one_pair, "b") == []
    seen.clear()

    one_pair.sync("a")

    assert seen == [[number]]
    assert stands(one_pair, "a") == 1
    assert numbers_of(one_pair, "a") == []
    assert one_pair.meta_rows("dm_row_owner") == 0
    assert one_pair.compared().equal, one_pair.compared()


def test_nothing_is_given_up_between_two_tries_of_an_epoch(
    one_pair: Shops, seen: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many rows wait, so it is looked after them at once, and meanwhile the other source has become exact."""
    number = a_is_exact(one_pair)

    def too_many() -> DmError:
        assert stands(one_pair, "a") == 2
        one_pair.sync("b")
        seen.pop()
        return TooManyContested("a", "o_0", "o", 0)

    with failing_halfway(monkeypatch, too_many):
        one_pair.sync("a")

    assert seen == [[number], [number]]
    assert numbers_of(one_pair, "a") == numbers_of(one_pair, "b") == []
    assert one_pair.compared().equal, one_pair.compared()


# Types of keys


def test_a_key_may_have_other_types_at_each_source(one_pair: Shops) -> None:
    """A key is recorded as its own source writes it, and compared with no other source's."""
    one_pair.target.sql(f"CREATE DATABASE {one_pair.schema}")
    one_pair.target.sql(
        "CREATE TABLE o (id decimal(12,2) NOT NULL PRIMARY KEY, v varchar(20))", database=one_pair.schema
    )
    one_pair.create("id decimal(10,0) NOT NULL PRIMARY KEY, v varchar(20)", "a:o_0")
    one_pair.create("id decimal(12,2) NOT NULL PRIMARY KEY, v varchar(20)", "b:o_1")
    one_pair.write("a", *(f"INSERT INTO o_0 VALUES ({number}, 'a')" for number in range(6)))
    one_pair.write("b", *(f"INSERT INTO o_1 VALUES ({number}, 'b')" for number in range(10, 16)))

    def move(number: int) -> None:
        one_pair.write("a", f"DELETE FROM o_0 WHERE id = {number}")
        one_pair.write("b", f"INSERT INTO o_1 VALUES ({number}, 'moved')")
        one_pair.write("b", f"DELETE FROM o_1 WHERE id = {10 + number}")
        one_pair.write("a", f"INSERT INTO o_0 VALUES ({10 + number}, 'moved')")

    one_pair.load(begun=lambda: move(0), copied=lambda: move(1))
    one_pair.sync("b", "a")
    move(2)
    (result,) = one_pair.sync("a")
    assert result.contested_rows == 1, "it is looked into, and collides with nothing"
    one_pair.sync("b")
    move(3)
    (result,) = one_pair.sync("b")
    assert result.contested_rows == 1
    one_pair.sync("a")

    assert one_pair.meta_rows("dm_contested_row") == one_pair.meta_rows("dm_row_owner") == 0
    moved = dict.fromkeys((0, 1, 2, 3, 10, 11, 12, 13), "moved")
    assert {int(key): value for key, value in one_pair.rows()} == moved | {4: "a", 5: "a", 14: "b", 15: "b"}


def test_shards_of_one_source_must_have_the_same_types(one_source: Shops) -> None:
    one_source.create(PLAIN, "a:o_0")
    one_source.create(PLAIN.replace("int", "bigint"), "a:o_1")
    one_source.target.sql(f"CREATE DATABASE {one_source.schema}")
    one_source.target.sql(f"CREATE TABLE o ({PLAIN.replace('int', 'bigint')})", database=one_source.schema)
    one_source.load()

    with pytest.raises(NotSupportedYet, match="shards whose columns have different types"):
        one_source.sync()


def filled(shops: Shops, columns: str = PLAIN, **sources: str) -> None:
    """Tables of `a` and `b`, and a target that somebody has made."""
    shops.create(columns, "a:o_0")
    shops.create(sources.get("b", columns), "b:o_1")
    shops.target.sql(f"CREATE DATABASE {shops.schema}")
    shops.target.sql(f"CREATE TABLE o ({columns}) COLLATE utf8mb4_bin", database=shops.schema)


# Rows that nobody is recorded for


def test_a_row_that_nobody_is_recorded_for_is_not_taken_over_behind_a_copy(one_pair: Shops) -> None:
    """Also in catch-up: what the task has copied is recorded, so it is somebody else's."""
    one_pair.create(UNIQUE, "a:o_0", "b:o_1")
    one_pair.write("a", "INSERT INTO o_0 VALUES (1, 1, 'a')")

    def meanwhile() -> None:
        one_pair.target.sql("INSERT INTO o VALUES (7, 7, 'not ours'), (8, 8, 'not ours')", database=one_pair.schema)
        one_pair.write("a", "INSERT INTO o_0 VALUES (7, 70, 'key')", "INSERT INTO o_0 VALUES (80, 8, 'value')")
        one_pair.write("a", "INSERT INTO o_0 VALUES (9, 9, 'a')")
        one_pair.write("b", "INSERT INTO o_1 VALUES (20, 20, 'b')")

    one_pair.load(copied=meanwhile)

    (result,) = one_pair.sync("a")

    assert result.contested_rows == 2
    assert one_pair.rows() == [(1, 1, "a"), (7, 7, "not ours"), (8, 8, "not ours"), (9, 9, "a")]


def test_a_row_that_nobody_is_recorded_for_is_taken_over_in_a_past_that_is_not_ours(one_pair: Shops) -> None:
    """It is met by its key and by another unique value: the target was filled with rows of another moment."""
    filled(one_pair, UNIQUE)
    starts = {name: one_pair.place(name) for name in one_pair.sources}
    one_pair.write("a", "INSERT INTO o_0 VALUES (7, 70, 'key')", "INSERT INTO o_0 VALUES (80, 8, 'value')")
    one_pair.target.sql("INSERT INTO o VALUES (7, 7, 'was'), (8, 8, 'was')", database=one_pair.schema)
    spec = one_pair.begin(instances(one_pair, **starts))

    one_pair.sync("a", "b", "a", spec=spec)

    assert one_pair.rows() == [(7, 70, "key"), (80, 8, "value")]
    assert one_pair.meta_rows("dm_contested_row") == 0


def test_a_source_that_begins_today_takes_nothing_over(one_pair: Shops) -> None:
    """Its start is exact, so a row that is new to it is not the one that is there: that is of `a`."""
    filled(one_pair, UNIQUE)
    past = one_pair.place("a")
    one_pair.write("a", "INSERT INTO o_0 VALUES (1, 7, 'a')")
    one_pair.target.sql("INSERT INTO o VALUES (1, 7, 'a')", database=one_pair.schema)
    exact = {"safe-mode-duration": "0s"}
    spec = one_pair.begin([{**one, "syncer": exact} for one in instances(one_pair, a=past, b=one_pair.place("b"))])
    one_pair.write("b", "INSERT INTO o_1 VALUES (2, 7, 'b')")

    with pytest.raises(RowsCollide):
        one_pair.sync("b", spec=spec)

    assert one_pair.rows() == [(1, 7, "a")]
