"""Which tables of a merged one without a key have no rows there, and whose DDL lies behind their rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_dm.engine.copy.keyless import AS_PLANNED
from airflow_provider_dm.engine.copy.whole import was_copied_whole, without_rows
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.model import Column, Index, Table
from airflow_provider_dm.engine.target.copy_progress import ChunkProgress

LOG, MERGED = TableName("s", "log_1"), TableName("x", "log")
WAS = Table(LOG, (Column("id", 0, "int", "int", True),), ())
OPEN, DONE = ChunkProgress(1, LOG), ChunkProgress(1, LOG, last_key=AS_PLANNED, done=True, rows_copied=3)


@pytest.mark.parametrize(
    ("chunks", "keys", "expected"),
    [
        ([OPEN], (), True),
        ([DONE], (), False),
        ([replace(DONE, rows_copied=0)], (), False),  # it was empty, and may have rows in the log behind that
        ([], (), False),  # a doubt takes the chunks before the rows
        ([OPEN], (Index("PRIMARY", ("id",)),), False),  # page by page
    ],
)
def test_what_has_no_rows_in_the_merged_table(
    chunks: list[ChunkProgress], keys: tuple[Index, ...], expected: bool
) -> None:
    mapping = TableMapping(WAS, replace(WAS, name=MERGED, unique_keys=keys))
    other = TableMapping(replace(WAS, name=TableName("s", "other")), replace(WAS, name=MERGED))
    assert without_rows([mapping, other], chunks) == ({LOG} if expected else set())


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([DONE], True),
        ([OPEN], False),
        ([], False),
        ([replace(DONE, last_key=None)], False),  # nobody has looked what it was while it was copied
    ],
)
def test_whose_ddl_lies_behind_its_rows(chunks: list[ChunkProgress], expected: bool) -> None:
    assert was_copied_whole(LOG, chunks) == expected
