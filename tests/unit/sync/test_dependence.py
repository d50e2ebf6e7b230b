"""The dependence of changes, the order in which they are written, and the repetition of an epoch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.model import Column, Index, Table
from airflow_provider_dm.engine.sync.plan.plan_parts import TargetPart
from airflow_provider_dm.engine.sync.write.dependence import ChangeOrder, LoggedChange
from airflow_provider_dm.engine.sync.write.marks import marks_of
from tests.unit.sync.test_change import plan_of, table

A = Index("PRIMARY", ("a",), prefixes=(None,))
B = Index("b", ("b",), prefixes=(None,))
PAIR = Index("bc", ("b", "c"), prefixes=(None, None))
CAUSALITY = table("t", "ab", A, B)
"""The table of DM's own test of that name."""


def part_of(one: Table) -> TargetPart:
    return plan_of(one).targets[0]


def changes(*pairs: tuple[str | None, str | None]) -> list[LoggedChange]:
    """Rows as texts, "1,2"; `-` is NULL."""

    def row(text: str | None) -> Row | None:
        return text and tuple(None if one == "-" else one.encode() for one in text.split(","))  # type: ignore[return-value]

    return [(0, row(before), row(after)) for before, after in pairs]


def sorted_out(one: Table, *pairs: tuple[str | None, str | None]) -> tuple[list[int], list[int]]:
    """Return the levels, and the groups by the first change of each."""
    order = ChangeOrder.of(marks_of(part_of(one)), changes(*pairs))
    roots = list(order.buckets(1 << 64))
    return order.levels, [roots.index(root) for root in roots]


def test_dms_own_example() -> None:
    log = (None, "1,2"), (None, "2,3"), ("2,3", "3,4"), ("1,2", None), (None, "1,3")

    # The last one takes the key of one row and gives the unique value of another a new one: both groups are one.
    assert sorted_out(CAUSALITY, *log) == ([0, 0, 1, 1, 2], [0, 0, 0, 0, 0])
    assert sorted_out(CAUSALITY, *log[:4]) == ([0, 0, 1, 1], [0, 1, 1, 0])


def test_a_null_is_equal_to_nothing() -> None:
    nullable = table("t", "abc", A, PAIR)
    one_null = (None, "1,7,-"), (None, "2,7,-"), (None, "3,7,7"), (None, "4,7,8")

    assert sorted_out(nullable, *one_null) == ([0, 0, 0, 0], [0, 1, 2, 3])
    assert sorted_out(nullable, (None, "1,7,7"), ("2,7,7", None)) == ([0, 1], [0, 0])


def test_values_of_several_columns_are_not_confused() -> None:
    """DM joins them as text: ('1.1', '2') and ('1', '1.2') are one there."""
    nullable = table("t", "abc", A, PAIR)

    assert sorted_out(nullable, (None, "1,11,1"), (None, "2,1,11")) == ([0, 0], [0, 1])


TEXT = Column("b", 1, "varchar", "varchar(9)", nullable=True, charset="utf8mb4", collation="utf8mb4_general_ci")
WITH_TEXT = Table(CAUSALITY.name, (CAUSALITY.columns[0], TEXT), (A, B))
EXPRESSION = table("t", "ab", A, Index("e", ("b",), prefixes=(None,), expression=True))
PREFIX = Table(CAUSALITY.name, (CAUSALITY.columns[0], TEXT), (A, Index("b", ("b",), prefixes=(3,))))


@pytest.mark.parametrize("one", [WITH_TEXT, EXPRESSION, PREFIX], ids=["collation", "expression", "prefix"])
def test_with_unknown_equality_only_successive_changes_are_combined(one: Table) -> None:
    log = (None, "1,x"), (None, "2,y"), ("3,z", None), ("4,p", None), (None, "5,Z"), ("5,Z", "5,q"), ("1,x", "1,r")

    assert sorted_out(one, *log) == ([0, 0, 1, 1, 2, 3, 3], [0] * 7)


def test_with_unknown_equality_changes_keep_their_order() -> None:
    assert sorted_out(WITH_TEXT, ("1,x", "1,y"), ("1,y", "1,z"), ("2,a", "2,b"))[0] == [0, 1, 1]


def test_the_same_image_may_occur_several_times() -> None:
    keyless = table("t", "ab")
    log = (None, "1,1"), (None, "1,1"), ("1,1", None), ("1,1", "2,2"), ("1,1", "2,2"), (None, "3,3")

    assert sorted_out(keyless, *log) == ([0, 0, 1, 2, 3, 0], [0, 0, 0, 0, 0, 5])


ROWS = st.one_of(st.none(), st.tuples(st.integers(0, 6), st.integers(0, 6)).map(lambda one: f"{one[0]},{one[1]}"))
LOGS = st.lists(st.tuples(ROWS, ROWS).filter(any), max_size=30)


@given(LOGS)
def test_changes_that_share_a_value_are_in_one_bucket_and_in_order(log: list[tuple[str | None, str | None]]) -> None:
    kept = changes(*log)
    order = ChangeOrder.of(marks_of(part_of(CAUSALITY)), kept)
    buckets = list(order.buckets(8))
    assert (
        list(ChangeOrder.of(marks_of(part_of(CAUSALITY)), kept).buckets(8)) == buckets
    )  # an epoch repeated is the same

    for later in range(len(kept)):
        for earlier in range(later):
            mine, theirs = (
                {(at, row[at]) for row in kept[one][1:] if row for at in (0, 1)} for one in (later, earlier)
            )
            if mine & theirs:
                assert buckets[earlier] == buckets[later]
                assert order.levels[earlier] < order.levels[later]


@given(LOGS)
def test_groups_are_no_larger_than_they_must_be(log: list[tuple[str | None, str | None]]) -> None:
    kept = changes(*log)
    order = ChangeOrder.of(marks_of(part_of(CAUSALITY)), kept)
    roots = list(order.buckets(1 << 64))
    values = [{(at, row[at]) for row in one[1:] if row for at in (0, 1)} for one in kept]

    for first in set(roots):
        members = [values[number] for number, root in enumerate(roots) if root == first]
        reached: set[object] = set(members[0])
        for _ in members:
            reached |= {value for one in members if one & reached for value in one}
        assert all(one <= reached for one in members)
