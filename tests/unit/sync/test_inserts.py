"""Rows that stay cells go where they would have gone as ordinary changes."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count, repeat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_dm.engine.binlog.changes import Batch
from airflow_provider_dm.engine.binlog.planned import ByteRange, Epoch, EpochLimits
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.model import Column, Index
from airflow_provider_dm.engine.sync.errors import BrokenChain
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.write import tasks
from airflow_provider_dm.engine.sync.write.causality import Waves, make_waves
from airflow_provider_dm.engine.sync.write.compactor import Compactor
from airflow_provider_dm.engine.sync.write.inserts import Inserting, unchanged_tables
from tests.unit.binlog.building import ORDERS, Log, order
from tests.unit.sync.test_change import NOWHERE, plan_of

NOT_NULL = Column("id", 0, "int", "int", nullable=False)
ONE = replace(ORDERS, columns=(NOT_NULL, ORDERS.columns[1]))
TWO = replace(
    ONE, name=TableName("shop", "two"), unique_keys=(*ONE.unique_keys, Index("n", ("note",), prefixes=(None,)))
)
THREE = replace(ONE, name=TableName("shop", "three"))
TABLES = (ONE, TWO, THREE)
Logged = tuple[int, int | None, int | None]
"""Table, key before, key after."""


def log_of(changes: Sequence[Sequence[Logged]], folder: Path) -> list[ByteRange]:
    """Write transactions to a log; return a range for each."""
    log = Log()
    for transaction in changes:
        log.begin()
        for table, before, after in transaction:
            log.table_map(TABLES[table].name)
            images = [order(one, None if one % 3 else b"n%d" % one) for one in (before, after) if one is not None]
            log.rows("insert" if before is None else "delete" if after is None else "update", images)
        log.xid()
    planned = plan_epoch([log.file(folder)], Location(log.name, 4), EpochLimits(range_bytes=1))
    return list(planned.ranges) if isinstance(planned, Epoch) else []


Work = dict[tuple[int, int, int, str], list[Row]]


def sorted_out(waves: Waves) -> Work:
    found: Work = {}
    for number, wave in enumerate((waves.first, waves.second)):
        for bucket, tables in wave.items():
            for table, work in tables.items():
                rows = {"delete": work.delete, "insert": work.insert, "change": work.change}
                if work.inserts is not None:
                    rows["insert"] = list(work.inserts)
                    assert len(work.inserts) == work.rows()
                found |= {(number, bucket, table, verb): some for verb, some in rows.items() if some}
    return found


def applied(
    plan: SyncPlan, ranges: Sequence[ByteRange], *, cells: bool, by_kernels: Iterator[bool]
) -> tuple[int, Work] | str:
    compactor = Compactor(plan)
    inserting = Inserting(compactor, plan, unchanged_tables(plan) if cells else set())

    def take(batch: Batch) -> Batch:
        return inserting.take(replace(batch, compiled=next(by_kernels)))

    try:
        for one in ranges:
            compactor.add_all(tasks._changes(plan, NOWHERE, one, take))
        folded = inserting.folded()
    except BrokenChain as error:  # of two, either may be met first
        return error.code
    return folded.changes, sorted_out(make_waves(plan, folded))


TABLE, KEY = st.integers(0, len(TABLES) - 1), st.integers(1, 40)
INSERTS = st.lists(st.tuples(TABLE, st.none(), KEY), min_size=1, max_size=8)
CHANGES = st.lists(
    st.tuples(TABLE, st.none() | KEY, st.none() | KEY).filter(lambda one: one[1:] != (None, None)), max_size=3
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@given(st.lists(INSERTS, min_size=1, max_size=4), CHANGES, INSERTS, st.booleans(), st.integers(0, 6))
@settings(max_examples=80)
def test_they_go_where_ordinary_changes_go(
    folder: Path,
    inserts: list[list[Logged]],
    changes: list[Logged],
    more: list[Logged],
    distinct: bool,
    decoded_by_python: int,
) -> None:
    """`decoded_by_python`: the number of a batch for which no kernel was ready."""
    transactions = [*inserts, *([changes] if changes else []), more]
    if distinct:  # else nearly all break their chains
        seen: set[Logged] = set()
        for some in transactions:
            some[:] = [one for one in dict.fromkeys(some) if one not in seen]
            seen.update(some)
    plan, ranges = plan_of(*TABLES), log_of(transactions, folder)

    ordinary = applied(plan, ranges, cells=False, by_kernels=repeat(True))

    by_kernels = (number != decoded_by_python for number in count())
    assert applied(plan, ranges, cells=True, by_kernels=by_kernels) == ordinary


def test_only_the_table_that_is_changed_becomes_ordinary(tmp_path: Path) -> None:
    ranges = log_of([[(0, None, 1), (1, None, 1), (2, None, 1)], [(1, 1, 2), (2, None, 2)], [(1, None, 3)]], tmp_path)
    plan = plan_of(*TABLES)
    inserting = Inserting(compactor := Compactor(plan), plan, unchanged_tables(plan))
    for one in ranges:
        compactor.add_all(tasks._changes(plan, NOWHERE, one, inserting.take))

    folded = inserting.folded()

    assert {table: len(cells) for table, cells in folded.inserted.items()} == {0: 1, 2: 2}
    assert [table for table, keyed in folded.keyed.items() if keyed] == [1]
    assert folded.changes == 6


def test_what_is_held_is_no_larger_than_its_rows(tmp_path: Path) -> None:
    ranges = log_of([[(table, None, key) for table in range(len(TABLES))] for key in range(1, 4)], tmp_path)
    plan = plan_of(*TABLES)
    inserting = Inserting(compactor := Compactor(plan), plan, unchanged_tables(plan))
    for one in ranges:
        compactor.add_all(tasks._changes(plan, NOWHERE, one, inserting.take))

    held = [cells.text for pieces in inserting._held.values() for cells in pieces]

    assert len(held) >= len(TABLES)
    assert all(memoryview(text).obj is text for text in held)  # no part of a larger buffer


def test_tables_whose_rows_have_a_law_of_their_own_are_ordinary() -> None:
    plan = plan_of(ONE)
    (source,) = plan.sources

    assert unchanged_tables(plan) == {0}
    for other in (
        replace(plan, compact=False),
        replace(plan, whole=True),
        replace(plan, merged=frozenset({0})),
        replace(plan, sources=(replace(source, order=(1, 0)),)),
        plan_of(ONE, TWO, target=ONE),
        plan_of(replace(ONE, unique_keys=())),
    ):
        assert unchanged_tables(other) == set()


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_left_as_it_was(enabled: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with suppress(BrokenChain), tasks._without_gc():
            assert not gc.isenabled()
            raise BrokenChain("t", (), "", "")
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()
