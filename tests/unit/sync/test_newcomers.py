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
    ("mine", "others", "overlaps", "recorded"),
    [
        ([], [], True, False),
        ([fed("one", 1)], [], True, True),
        ([fed("one", 1, ELSEWHERE)], [], True, False),
        ([fed("one", 1)], [], False, False),
        ([], [(0, True)], True, True),  # which the log's overlap could write over
        ([], [(2, False)], False, False),  # whose records are for its own load
        ([fed("one", 1)], [(2, False)], True, True),  # to wait for it would be for good
    ],
)
def test_rows_of_a_new_table(
    mine: list[Feeder], others: list[tuple[int, bool]], *, overlaps: bool, recorded: bool
) -> None:
    there = [Other(fed("two", owner), exact, loaded=True) for owner, exact in others]
    there.append(Other(fed("two", 0, ELSEWHERE), exact=False, loaded=True))

    assert is_recorded(REF, FRESH, mine, there, overlaps=overlaps) is recorded


def test_it_waits_for_who_takes_each_row_for_its_own() -> None:
    there = [Other(fed("two", 0), exact=False, loaded=True)]
    with pytest.raises(OwnerNotReady):
        is_recorded(REF, FRESH, [fed("one", 1)], there, overlaps=False)
