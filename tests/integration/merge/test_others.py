"""Types of keys at the sources of a merged table, and rows of the target that no source has written."""

import pytest

from airflow_provider_dm.engine.downstream.errors import DuplicateInTarget
from airflow_provider_dm.engine.errors import NotSupportedYet
from airflow_provider_dm.engine.merge.errors import RowsCollide
from tests.integration.merge.conftest import PLAIN, UNIQUE, Shops, instances


def test_a_key_may_have_other_types_at_each_source(one_pair: Shops) -> None:
    """A row that waits is known by the key as its own source writes it."""
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
    assert result.contested_rows == 1, "it is examined, and collides with no row"
    one_pair.sync("b")
    move(3)
    (result,) = one_pair.sync("b")
    assert result.contested_rows == 1
    one_pair.sync("a")

    assert one_pair.meta_rows("dm_contested_row") == 0
    moved = dict.fromkeys((0, 1, 2, 3, 10, 11, 12, 13), "moved")
    assert {int(key): value for key, value in one_pair.rows()} == moved | {4: "a", 5: "a", 14: "b", 15: "b"}


def test_shards_of_one_source_must_have_the_same_types(one_source: Shops) -> None:
    one_source.create(PLAIN, "a:o_0")
    one_source.create(PLAIN.replace("int", "bigint"), "a:o_1")
    one_source.target.sql(f"CREATE DATABASE {one_source.schema}")
    one_source.target.sql(f"CREATE TABLE o ({PLAIN.replace('int', 'bigint')})", database=one_source.schema)

    with pytest.raises(NotSupportedYet, match="shards whose columns have different types"):
        one_source.load()


def filled(shops: Shops, columns: str = PLAIN, **sources: str) -> None:
    """Tables of `a` and `b`, and a target that a user has made."""
    shops.create(columns, "a:o_0")
    shops.create(sources.get("b", columns), "b:o_1")
    shops.target.sql(f"CREATE DATABASE {shops.schema}")
    shops.target.sql(f"CREATE TABLE o ({columns}) COLLATE utf8mb4_bin", database=shops.schema)


# Rows that no source has written


def test_a_row_of_the_target_alone_is_not_written_over_after_a_load(one_pair: Shops) -> None:
    one_pair.create(UNIQUE, "a:o_0", "b:o_1")
    one_pair.write("a", "INSERT INTO o_0 VALUES (1, 1, 'a')")

    def meanwhile() -> None:
        one_pair.target.sql("INSERT INTO o VALUES (7, 7, 'not ours'), (8, 8, 'not ours')", database=one_pair.schema)
        one_pair.write("a", "INSERT INTO o_0 VALUES (7, 70, 'key')", "INSERT INTO o_0 VALUES (80, 8, 'value')")
        one_pair.write("a", "INSERT INTO o_0 VALUES (9, 9, 'a')")
        one_pair.write("b", "INSERT INTO o_1 VALUES (20, 20, 'b')")

    one_pair.load(copied=meanwhile)

    one_pair.stops(DuplicateInTarget, "b", "a")

    assert one_pair.meta_rows("dm_contested_row") == 2
    assert [row for row in one_pair.rows() if row[0] in (7, 8, 9)] == [
        (7, 7, "not ours"),
        (8, 8, "not ours"),
        (9, 9, "a"),
    ]


def test_a_row_of_the_target_alone_is_overwritten_after_an_inexact_start(one_pair: Shops) -> None:
    """It is met by its key and by another unique value: the target was filled with rows of another moment."""
    filled(one_pair, UNIQUE)
    starts = {name: one_pair.place(name) for name in one_pair.sources}
    one_pair.write("a", "INSERT INTO o_0 VALUES (7, 70, 'key')", "INSERT INTO o_0 VALUES (80, 8, 'value')")
    one_pair.target.sql("INSERT INTO o VALUES (7, 7, 'was'), (8, 8, 'was')", database=one_pair.schema)
    spec = one_pair.begin(instances(one_pair, **starts))

    one_pair.sync("a", "b", "a", spec=spec)

    assert one_pair.rows() == [(7, 70, "key"), (80, 8, "value")]
    assert one_pair.meta_rows("dm_contested_row") == 0


def test_a_source_with_an_exact_start_does_not_adopt_existing_rows(one_pair: Shops) -> None:
    """Its start is exact, so a row that is new to it is not the one that is there: that is of `a`."""
    filled(one_pair, UNIQUE)
    past = one_pair.place("a")
    one_pair.write("a", "INSERT INTO o_0 VALUES (1, 7, 'a')")
    one_pair.target.sql("INSERT INTO o VALUES (1, 7, 'a')", database=one_pair.schema)
    exact = {"safe-mode-duration": "0s"}
    spec = one_pair.begin([{**one, "syncer": exact} for one in instances(one_pair, a=past, b=one_pair.place("b"))])
    one_pair.write("b", "INSERT INTO o_1 VALUES (2, 7, 'b')")

    one_pair.stops(RowsCollide, "b", spec=spec)

    assert one_pair.rows() == [(1, 7, "a")]
