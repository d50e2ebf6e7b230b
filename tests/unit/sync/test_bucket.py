"""Rows that a target may hold to be one are in one bucket, for ever."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.binlog.images import Cells
from airflow_provider_dm.engine.binlog.kernels import build
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.model import Column, Index, Table
from airflow_provider_dm.engine.schema.text_folds import TextFold
from airflow_provider_dm.engine.sync.plan.bucket import RUN, bucket_function, bucket_numbers
from airflow_provider_dm.engine.sync.plan.plan_parts import TargetPart, target_part


@pytest.fixture(autouse=True, scope="module")
def _kernels() -> None:
    build.warm()


def text(name: str, position: int, collation: str) -> Column:
    return Column(name, position, "varchar", "varchar(20)", False, charset="utf8mb4", collation=collation)


def number(name: str, position: int) -> Column:
    return Column(name, position, "bigint", "bigint", False)


def part_of(*columns: Column, key: tuple[str, ...] = ("a",), prefixes: tuple[int | None, ...] = ()) -> TargetPart:
    keys = (Index("PRIMARY", key, prefixes=prefixes or (None,) * len(key)),) if key else ()
    table = Table(TableName("shop", "t"), columns, keys)
    return target_part(TableMapping(table, table))


def test_the_hash_is_what_it_was() -> None:
    """dm_frontier was written with these numbers. Never change them without HASH_VERSION."""
    integer = bucket_function(part_of(number("a", 0)), 64)
    pair = bucket_function(part_of(number("a", 0), text("b", 1, "utf8mb4_bin"), key=("a", "b")), 64)
    last = bucket_function(part_of(text("a", 0, "utf8mb4_bin"), number("b", 1), key=("a", "b")), 64)
    image = bucket_function(part_of(number("a", 0), number("b", 1), key=()), 64)

    assert [integer((b"%d" % value,)) for value in (1, 15, 16, 1023, 1024, -1, 1 << 62)] == [47, 47, 48, 46, 38, 54, 63]
    assert [pair((b"1", b"x")), last((b"x", b"16")), image((b"1", None))] == [12, 60, 49]


def test_adjacent_integers_share_a_bucket_and_the_next_ones_have_the_next() -> None:
    single = bucket_function(part_of(number("a", 0)), 64)
    last = bucket_function(part_of(text("a", 0, "utf8mb4_bin"), number("b", 1), key=("a", "b")), 64)

    for of in (lambda value: single((value,)), lambda value: last((b"x", value))):
        found = [of(b"%d" % value) for value in range(64 * RUN)]
        assert all(len(set(found[at : at + RUN])) == 1 for at in range(0, len(found), RUN))
        assert {(after - before) % 64 for before, after in pairwise(found[::RUN])} == {1}


def test_an_integer_that_does_not_end_the_key_is_hashed() -> None:
    """Many rows may have the same one."""
    first = bucket_function(part_of(number("a", 0), text("b", 1, "utf8mb4_bin"), key=("a", "b")), 64)
    rest = bucket_function(part_of(number("a", 0), text("b", 1, "utf8mb4_general_ci"), key=("a", "b")), 64)

    assert len({first((b"%d" % value, b"x")) for value in range(RUN)}) > 1
    assert len({rest((b"%d" % value, b"x")) for value in range(RUN)}) > 1


@pytest.mark.parametrize("stride", [1 << power for power in range(0, 45, 4)])
def test_keys_with_equal_low_bits_spread(stride: int) -> None:
    bucket = bucket_function(part_of(number("a", 0)), 64)
    rows = Counter(bucket((b"%d" % (value * stride),)) for value in range(10_000))

    assert len(rows) == 64
    assert max(rows.values()) < 400


def test_padding_does_not_change_the_bucket() -> None:
    bucket = bucket_function(part_of(text("a", 0, "utf8mb4_bin")), 64)

    assert bucket((b"abc",)) == bucket((b"abc  ",))


@pytest.mark.parametrize(
    ("part", "hashed"),
    [
        (part_of(number("a", 0), number("b", 1), key=()), (0, 1)),
        (part_of(text("a", 0, "utf8mb4_general_ci")), ()),
        (part_of(number("a", 0), text("b", 1, "utf8mb4_general_ci"), key=("a", "b")), (0,)),
        (part_of(text("a", 0, "utf8mb4_bin"), prefixes=(3,)), ()),
    ],
    ids=["no key", "a collation without a fold", "such a column beside another", "a prefix"],
)
def test_columns_that_are_hashed(part: TargetPart, hashed: tuple[int, ...]) -> None:
    assert part.hashed == hashed
    if not hashed:
        assert len({bucket_function(part, 64)((b"%d" % value,)) for value in range(100)}) == 1


LETTERS = {code: chr(code).upper() for code in map(ord, "abcABC")} | {ord("á"): "A"}
GENERAL = {"utf8mb4_general_ci": TextFold("utf8mb4_general_ci", "1", LETTERS)}


def folded(*columns: Column, key: tuple[str, ...]) -> TargetPart:
    return target_part(part_of(*columns, key=key).mapping, GENERAL)


def test_text_is_hashed_so_that_texts_equal_in_the_target_are_equal() -> None:
    part = folded(text("a", 0, "utf8mb4_general_ci"), number("b", 1), key=("a", "b"))
    alone = folded(text("a", 0, "utf8mb4_general_ci"), key=("a",))
    one, bucket = bucket_function(alone, 1 << 60), bucket_function(part, 1 << 60)

    assert (alone.hashed, part.hashed) == ((0,), (0, 1))
    for values in (b"abc", b"ABC ", "ábc".encode()), (b"b", b"B\xe2\x80\x8b"):
        assert len({bucket((value, b"1")) for value in values}) == len({one((value,)) for value in values}) == 1
    assert one((b"abc",)) != one((b"acb",))
    assert bucket((b"abc", b"1")) != bucket((b"abc", b"%d" % RUN))


def test_the_targets_collation_decides_not_the_sources() -> None:
    ours, theirs = (part_of(text("a", 0, name)).mapping.source for name in ("utf8mb4_bin", "utf8mb4_general_ci"))
    bucket = bucket_function(target_part(TableMapping(ours, theirs), GENERAL), 1 << 60)

    assert bucket((b"a",)) == bucket((b"A",))
    assert target_part(TableMapping(ours, theirs)).hashed == ()


@given(st.tuples(st.binary(max_size=5), st.binary(max_size=5)), st.tuples(st.binary(max_size=5), st.binary(max_size=5)))
def test_images_are_hashed_without_ambiguity(one: tuple[bytes, bytes], other: tuple[bytes, bytes]) -> None:
    bucket = bucket_function(part_of(text("a", 0, "utf8mb4_bin"), text("b", 1, "utf8mb4_bin"), key=()), 1 << 60)

    assert (bucket(one) == bucket(other)) == (one == other)


@pytest.mark.parametrize("lowest", [-(2**63), 0])
@given(st.data(), st.sampled_from([1, 3, 64]))
def test_the_buckets_of_many_integers_are_those_of_each(lowest: int, data: st.DataObject, buckets: int) -> None:
    integers = st.integers(lowest, lowest + 2**64 - 1) | st.integers(max(lowest, -100), 2000)
    values = data.draw(st.lists(integers, min_size=1))
    column = number("a", 0) if lowest else replace(number("a", 0), column_type="bigint unsigned")
    part, rows = part_of(column), [(b"%d" % value,) for value in values]
    bucket = bucket_function(part, buckets)

    assert bucket_numbers(part, buckets, Cells.of(rows)).tolist() == [bucket(row) for row in rows]


@pytest.mark.parametrize("key", [("a", "b"), ("b", "a"), ("b",), ()])
def test_the_buckets_of_many_rows_are_those_of_each(key: tuple[str, ...]) -> None:
    part = part_of(number("a", 0), text("b", 1, "utf8mb4_bin"), key=key)
    rows = [(b"%d" % number, b"text %d" % (number % 7)) for number in range(50)]
    bucket = bucket_function(part, 64)

    assert bucket_numbers(part, 64, Cells.of(rows)).tolist() == [bucket(row) for row in rows]
