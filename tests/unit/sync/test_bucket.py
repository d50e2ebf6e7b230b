"""Rows that a target may hold to be one are in one bucket, for ever."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.model import Column, Index, Table
from airflow_provider_dm.engine.sync.bucket import bucket_function
from airflow_provider_dm.engine.sync.plan import TargetPart, target_part


def text(name: str, position: int, collation: str) -> Column:
    return Column(name, position, "varchar", "varchar(20)", False, charset="utf8mb4", collation=collation)


def number(name: str, position: int, column_type: str = "bigint") -> Column:
    return Column(name, position, column_type.split(maxsplit=1)[0], column_type, False)


def part_of(*columns: Column, key: tuple[str, ...] = ("a",), prefixes: tuple[int | None, ...] = ()) -> TargetPart:
    keys = (Index("PRIMARY", key, prefixes=prefixes or (None,) * len(key)),) if key else ()
    table = Table(TableName("shop", "t"), columns, keys)
    return target_part(TableMapping(table, table))


def test_the_hash_is_what_it_was() -> None:
    """dm_frontier was written with these numbers. Never change them without HASH_VERSION."""
    integer = bucket_function(part_of(number("a", 0)), 64)
    pair = bucket_function(part_of(number("a", 0), text("b", 1, "utf8mb4_bin"), key=("a", "b")), 64)
    image = bucket_function(part_of(number("a", 0), number("b", 1), key=()), 64)

    assert [integer((b"1",)), integer((b"2",)), pair((b"1", b"x")), image((b"1", None))] == [51, 11, 12, 49]


def test_padding_does_not_change_the_bucket() -> None:
    bucket = bucket_function(part_of(text("a", 0, "utf8mb4_bin")), 64)

    assert bucket((b"abc",)) == bucket((b"abc  ",))


def test_a_collation_that_nobody_here_knows_is_one_bucket() -> None:
    part = part_of(text("a", 0, "utf8mb4_general_ci"))
    bucket = bucket_function(part, 64)

    assert part.hashed == ()
    assert len({bucket((b"%d" % value,)) for value in range(100)}) == 1


def test_such_a_column_is_left_out_beside_others() -> None:
    part = part_of(number("a", 0), text("b", 1, "utf8mb4_general_ci"), key=("a", "b"))

    assert part.hashed == (0,)


def test_a_prefix_key_is_not_hashed() -> None:
    assert part_of(text("a", 0, "utf8mb4_bin"), prefixes=(3,)).hashed == ()


def test_without_a_key_the_whole_row_is_hashed() -> None:
    part = part_of(number("a", 0), number("b", 1), key=())

    assert part.hashed == (0, 1)
    assert part.key is None


@given(st.tuples(st.binary(max_size=5), st.binary(max_size=5)), st.tuples(st.binary(max_size=5), st.binary(max_size=5)))
def test_images_are_hashed_without_ambiguity(one: tuple[bytes, bytes], other: tuple[bytes, bytes]) -> None:
    bucket = bucket_function(part_of(text("a", 0, "utf8mb4_bin"), text("b", 1, "utf8mb4_bin"), key=()), 1 << 60)

    assert (bucket(one) == bucket(other)) == (one == other)


@pytest.mark.parametrize("buckets", [1, 7, 64])
def test_buckets_are_used_evenly(buckets: int) -> None:
    bucket = bucket_function(part_of(number("a", 0)), buckets)
    filled = [0] * buckets
    for value in range(buckets * 200):
        filled[bucket((b"%d" % value,))] += 1

    assert min(filled) > 100
