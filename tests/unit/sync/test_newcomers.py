"""A table that the log brings into a merged one is recorded where the log alone does not tell whose its rows are."""

from __future__ import annotations

import pytest

from airflow_provider_dm.engine.merge.joining import Other, OwnerNotReady
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.sync.ddl.newcomers import is_recorded
from airflow_provider_dm.engine.target.identity import SubtaskRef
from airflow_provider_dm.engine.target.table_schema import Feeder, TableSchema
from tests.unit.sync.histories import TARGETS
from tests.unit.sync.sqlite_target import META

REF = SubtaskRef(META, "task", "one")
TARGET, ELSEWHERE = TableName("shop", "o"), TableName("shop", "p")
FRESH = TableSchema(TARGETS[0], TARGET)


def fed(source: str, owner: int, target: TableName = TARGET) -> Feeder:
    return Feeder(source, TableName("shop_1", "o"), target, owner)


@pytest.mark.parametrize(
    ("mine", "others", "overlaps", "adopts", "recorded"),
    [
        ([], [], True, False, False),
        ([fed("one", 1)], [], True, False, True),
        ([fed("one", 1, ELSEWHERE)], [], True, False, False),
        ([fed("one", 1)], [], False, False, False),
        ([], [(0, True)], True, False, True),  # which the log's overlap could write over
        ([], [(2, False)], False, False, False),  # whose records are for its own load
        ([fed("one", 1)], [(2, False)], True, False, True),  # to wait for it would be for good
        ([fed("one", 1)], [(2, False)], False, True, True),
        ([fed("one", 1, ELSEWHERE)], [(2, True)], False, True, True),
        ([fed("one", -1)], [(-2, True)], False, True, False),
        ([fed("one", 1, ELSEWHERE)], [], False, True, False),
    ],
)
def test_rows_of_a_new_table(
    mine: list[Feeder], others: list[tuple[int, bool]], *, overlaps: bool, adopts: bool, recorded: bool
) -> None:
    there = [Other(fed("two", owner), exact, loaded=not adopts) for owner, exact in others]
    there.append(Other(fed("two", 0, ELSEWHERE), exact=False, loaded=True))

    assert is_recorded(REF, FRESH, mine, there, overlaps=overlaps, adopts=adopts) is recorded


@pytest.mark.parametrize(
    ("mine", "other", "exact", "adopts"),
    [([fed("one", 1)], 0, False, False), ([], -2, False, True), ([], 2, True, True), ([fed("one", -1)], 2, True, True)],
    ids=["alone", "alone again", "recorded, and we are not", "recorded still"],
)
def test_it_waits_for_who_takes_each_row_for_its_own(
    mine: list[Feeder], other: int, *, exact: bool, adopts: bool
) -> None:
    there = [Other(fed("two", other), exact, loaded=not adopts)]
    with pytest.raises(OwnerNotReady):
        is_recorded(REF, FRESH, mine, there, overlaps=False, adopts=adopts)
