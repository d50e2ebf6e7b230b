"""A reader whose page is refused ends: its snapshot is not that of the next round, nor of the attempt before it."""

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_provider_dm.engine.binlog.images import Cells
from airflow_provider_dm.engine.copy import keyless, page_writing, read_round
from airflow_provider_dm.engine.copy.page import Page, PageReader, PageSizes
from airflow_provider_dm.engine.copy.page_writing import ChunkJob
from airflow_provider_dm.engine.downstream.copy_progress import ChunkProgress
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.row_statements import Verb
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.mapping import map_table
from airflow_provider_dm.engine.schema.model import Column, Index, Table

NAME = TableName("shop", "orders")
TABLE = Table(NAME, (Column("id", 0, "bigint", "bigint", nullable=False),), (Index("PRIMARY", ("id",)),))
SEEN = ChunkProgress(0, NAME, round=1)
FENCE = Fence(SubtaskRef("dm_meta", "task", "one"), 1)
KEYLESS = replace(TABLE, unique_keys=())
JOB = ChunkJob(FENCE, SEEN, map_table(TABLE, TABLE), Verb.INSERT, (), is_alone=True)
ENDPOINT: Any = SimpleNamespace(name="one")
DIALECT: Any = SimpleNamespace(server=SimpleNamespace(flavour=None), transaction_bytes=1 << 20)


class Reader:
    """A reader that does not know yet that its round is over."""

    is_over = False
    source = ENDPOINT
    connection = None
    ahead = ThreadPoolExecutor(1)

    @contextmanager
    def reading(self, _table: TableName) -> Generator[None, None, None]:
        yield None


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the pages that are offered to a target that refuses them."""
    offered: list[int] = []

    def write(_job: ChunkJob, cells: Cells, *_how: object) -> object:
        offered.append(len(cells))
        assert len(offered) < 5, "it continues"
        return None

    for module in (read_round, keyless):
        monkeypatch.setattr(module, "check_birth", lambda *_asked: None)
    for module in (read_round, page_writing):
        monkeypatch.setattr(module, "run_transaction", lambda _target, body: body(None))
    monkeypatch.setattr(page_writing, "write_rows_of", write)
    monkeypatch.setattr(page_writing, "advance_chunk", lambda *_asked, **_step: False)
    monkeypatch.setattr(read_round, "target_dialect", lambda _target: DIALECT)
    monkeypatch.setattr(
        read_round, "load_chunk", lambda *_asked, **_known: SEEN if not offered else replace(SEEN, round=2)
    )
    return offered


def test_a_reader_does_not_continue_in_the_next_round(refused: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    page, asked = Page(Cells.of([(b"1",), (b"2",)]), 2, last=False, last_key='["2"]'), list[str]()

    def read(*_asked: object) -> Page:
        asked.append("page")
        return page

    monkeypatch.setattr(PageReader, "page", read)
    monkeypatch.setattr(read_round, "check_birth", lambda *_asked: asked.append("birth"))

    copied = read_round.copy_chunk(JOB, cast(Any, Reader()), PageSizes(), ENDPOINT)

    assert (refused, copied.round) == ([2], 2)
    assert asked == ["page", "birth"] * 2, "a table that is altered before its page is read shows other columns"


def test_a_keyless_copy_ends_when_another_attempt_begins(refused: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyless, "_pieces", lambda *_asked: (Cells.of([(b"%d" % row,)]) for row in range(3)))

    keyless.write_in_pages(ENDPOINT, cast(Any, Reader()), JOB, SEEN, DIALECT)

    assert refused == [1]


@pytest.mark.parametrize("now", [replace(SEEN, rows_copied=2), replace(SEEN, round=2), replace(SEEN, done=True)])
def test_a_keyless_copy_is_skipped_if_its_chunk_has_changed(
    refused: list[int], monkeypatch: pytest.MonkeyPatch, now: ChunkProgress
) -> None:
    """Another reader was lost in it, or its round is over, since this one has read which chunks are left."""
    monkeypatch.setattr(read_round, "load_chunk", lambda *_asked: now)
    job = replace(JOB, mapping=map_table(KEYLESS, KEYLESS))

    assert read_round.copy_chunk(job, cast(Any, Reader()), PageSizes(), ENDPOINT) == now
    assert refused == []


def test_each_reader_begins_with_another_table() -> None:
    """Whole tables and started chunks are first for all of them."""

    def job(number: int, table: Table, last_key: str | None = None) -> ChunkJob:
        chunk = ChunkProgress(number, table.name, round=1, last_key=last_key)
        return replace(JOB, chunk=chunk, mapping=map_table(table, table))

    a, b, c = (replace(TABLE, name=TableName("shop", name)) for name in "abc")
    jobs = [job(5, c), job(4, b, "[7]"), job(3, b), job(2, a), job(1, a), job(6, replace(KEYLESS, name=c.name))]

    orders = [[one.chunk.number for one in read_round.in_turn(jobs, number, 3)] for number in range(3)]

    assert orders == [[6, 4, 1, 2, 3, 5], [6, 4, 3, 5, 1, 2], [6, 4, 5, 1, 2, 3]]
    assert read_round.in_turn([], 1, 2) == []
