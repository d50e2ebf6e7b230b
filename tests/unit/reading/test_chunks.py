"""Chunks cover what they must, once each."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.chunks import MOST_CHUNKS, TableSize, plan_chunks

T = TableName("shop", "orders")


@given(
    low=st.integers(-(2**63), 2**64 - 1),
    width=st.integers(1, 2**64),
    rows=st.integers(0, 10**9),
    slots=st.integers(1, 64),
    chunk_rows=st.none() | st.integers(1, 10**6),
)
def test_ranges_follow_each_other_and_are_open_at_both_ends(
    low: int, width: int, rows: int, slots: int, chunk_rows: int | None
) -> None:
    high = low + width - 1
    chunks = plan_chunks([TableSize(T, rows, (low, high))], slots=slots, chunk_rows=chunk_rows)

    assert chunks[0].low is None
    assert chunks[-1].high is None
    inner = [low, *(chunk.low for chunk in chunks[1:])]
    assert all(start is not None and end is not None and start <= end for start, end in pairwise([*inner, high]))
    assert all(a.high is not None and a.high + 1 == b.low for a, b in pairwise(chunks))
    assert len(chunks) <= MOST_CHUNKS


def test_numbers_are_unique_over_all_tables() -> None:
    sizes = [TableSize(T, 10**6, (1, 10**6)), TableSize(TableName("shop", "keyless"), 10)]

    chunks = plan_chunks(sizes, slots=2)

    assert [chunk.number for chunk in chunks] == list(range(len(chunks)))
    assert len(chunks) > 4


def test_a_table_without_integer_key_or_without_rows_is_one_open_chunk() -> None:
    assert [(c.low, c.high) for c in plan_chunks([TableSize(T, 10**6)], slots=4)] == [(None, None)]


def test_a_missing_estimate_still_gives_work_to_every_slot() -> None:
    assert len(plan_chunks([TableSize(T, 0, (1, 10**6))], slots=2)) >= 2
