"""The steps of a round in the target: pages are written while it is open, and the frontier rests meanwhile."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

import pytest

from airflow_provider_dm.engine.downstream.claim import claim_generation
from airflow_provider_dm.engine.downstream.copy_progress import (
    ChunkProgress,
    advance_chunk,
    forget_chunks,
    insert_chunks,
    load_chunk,
    load_chunks,
)
from airflow_provider_dm.engine.downstream.errors import Fenced
from airflow_provider_dm.engine.downstream.frontier import EpochRange, FrontierMove, move
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.meta_tables import ensure_meta_tables
from airflow_provider_dm.engine.downstream.rounds import Round, close_round, open_round
from airflow_provider_dm.engine.downstream.session import close_target, run_transaction
from airflow_provider_dm.engine.downstream.subtask import (
    BUCKETS,
    UNIT_LOAD,
    UNIT_SYNC,
    begin_subtask,
    complete_load,
    read_subtask,
)
from airflow_provider_dm.engine.errors import InvariantBroken
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from testbed import Server
from tests.jobs import endpoint

T = TypeVar("T")
A, B = TableName("shop", "a"), TableName("shop", "b")
START, LATER = Location("log.000001", 700, suffix=1), Location("log.000001", 900, suffix=1)


class Load:
    """A load of two tables that has begun at START; of `a` there are two chunks."""

    def __init__(self, target: Server, meta_schema: str) -> None:
        self.endpoint: Endpoint = endpoint("target", target)
        ensure_meta_tables(self.endpoint, meta_schema)
        self.ref = SubtaskRef(meta_schema, "test", "one")
        self.fence = self.claim(1)
        chunks = [ChunkProgress(0, A, None, 9), ChunkProgress(1, A, 10, None), ChunkProgress(2, B)]
        self.run(lambda tx: begin_subtask(tx, self.fence, unit=UNIT_LOAD, start=START))
        self.run(lambda tx: insert_chunks(tx, self.fence, chunks))

    def claim(self, generation: int) -> Fence:
        fence = Fence(self.ref, generation)
        claim_generation(self.endpoint, fence)
        return fence

    def run(self, body: Callable[[Connection], T]) -> T:
        return run_transaction(self.endpoint, body)

    def open(self, number: int, *tables: TableName, at: Location = START) -> None:
        this = Round(number, {table: f"birth of {table}" for table in tables})
        self.run(lambda tx: open_round(tx, self.fence, at.sort_key, this))

    def close(self) -> bool:
        return self.run(lambda tx: close_round(tx, self.fence))

    @property
    def chunks(self) -> list[ChunkProgress]:
        return self.run(lambda tx: load_chunks(tx, self.ref))

    def page(self, seen: ChunkProgress, *, done: bool = False) -> bool:
        return self.run(lambda tx: advance_chunk(tx, self.fence, seen, rows=5, last_key='["5"]', done=done))


@pytest.fixture
def load(target: Server, unique_database: str) -> Load:
    return Load(target, unique_database)


def test_chunks_of_the_tables_that_are_read_take_part(load: Load) -> None:
    load.open(1, A)

    assert [(one.round, one.birth) for one in load.chunks] == [(1, "birth of shop.a")] * 2 + [(0, "")]


def test_a_page_of_a_closed_round_is_refused(load: Load) -> None:
    """Also one that was read in an earlier round of the same run, of a chunk that has not moved since."""
    load.open(1, A)
    frozen = load.chunks[1]
    assert load.page(load.chunks[0])
    assert not load.close()
    assert not load.page(frozen)
    load.open(2, A, B)
    assert not load.page(frozen)
    assert load.page(load.chunks[1])
    assert [one.rows_copied for one in load.chunks] == [5, 5, 0]


def test_the_load_is_complete_when_all_chunks_are_done(load: Load) -> None:
    load.open(1, A, B)
    for chunk in load.chunks:
        assert load.page(chunk, done=True)

    assert load.close()
    load.run(lambda tx: complete_load(tx, load.fence))
    subtask = load.run(lambda tx: read_subtask(tx, load.ref))
    assert subtask is not None
    assert (subtask.unit, subtask.exact) == (UNIT_SYNC, True)


@pytest.mark.parametrize("act", [FrontierMove.ADVANCE, FrontierMove.RELEASE])
def test_no_round_is_opened_while_a_bucket_is_elsewhere(load: Load, act: FrontierMove) -> None:
    step = EpochRange(load.fence, START.sort_key, LATER.sort_key)
    load.run(lambda tx: move(tx, step, act, [BUCKETS - 1]))

    for at in (START, LATER):
        with pytest.raises(InvariantBroken, match="all buckets"):
            load.open(1, A, at=at)
    assert {one.round for one in load.chunks} == {0}


def test_a_claim_closes_the_round_of_a_run_that_died(load: Load) -> None:
    load.open(1, A, B)
    seen = load.chunks[0]
    now = load.claim(2)

    with pytest.raises(Fenced):
        load.page(seen)
    with pytest.raises(Fenced):
        load.close()
    load.fence = now
    assert {one.round for one in load.chunks} == {0}
    assert not load.page(seen)
    assert not load.page(replace(seen, round=1))


def test_a_late_page_of_a_table_that_was_dropped_since_ends_quietly(load: Load) -> None:
    load.open(1, A, B)
    seen = load.chunks[2]
    load.close()
    load.run(lambda tx: forget_chunks(tx, load.ref, B))

    assert not load.page(seen)
    assert load.run(lambda tx: load_chunk(tx, load.fence, seen)).round == 0


def test_closing_waits_for_pages_that_are_being_committed(load: Load) -> None:
    load.open(1, A)
    seen = load.chunks[0]

    def slowly(tx: Connection) -> float:
        assert advance_chunk(tx, load.fence, seen, rows=5, last_key='["5"]', done=False)
        locked.append(time.monotonic())
        time.sleep(0.5)
        return time.monotonic()

    def page() -> float:
        try:
            return load.run(slowly)
        finally:
            close_target(load.endpoint)

    locked: list[float] = []
    with ThreadPoolExecutor(1) as pool:
        committing = pool.submit(page)
        while not locked:
            time.sleep(0.01)
        load.close()
        assert time.monotonic() >= committing.result()
    assert load.chunks[0].rows_copied == 5
