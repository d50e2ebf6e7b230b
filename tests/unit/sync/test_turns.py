"""Without some deletes, keys that are equal in the target's collation get the values of their last change."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_dm.engine.downstream.frontier import FrontierMove
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.event_filter import EventAction
from airflow_provider_dm.engine.rules.row_filter import RowFilter
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.model import Column, Index, Table
from airflow_provider_dm.engine.schema.text_folds import TextFold
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.plan.plan_parts import target_part
from airflow_provider_dm.engine.sync.runner import LocalRunner
from airflow_provider_dm.engine.sync.write.causality import TableWork, Wave, make_waves
from airflow_provider_dm.engine.sync.write.tasks import ApplyGroup, EpochJob, pack, unpack
from tests.unit.sync.test_change import NOWHERE, PRIMARY, Logged, fold, plan_of

COLLATION = "utf8mb4_general_ci"
COLUMNS = (Column("id", 0, "varchar", "varchar(9)", False, "utf8mb4", COLLATION), Column("v", 1, "int", "int", False))
ITEM = Table(TableName("shop", "item"), COLUMNS, (PRIMARY,))
UNIQUE = Table(ITEM.name, COLUMNS, (PRIMARY, Index("v", ("v",), prefixes=(None,))))
# As coarse as a fold may be: 'b' and 'c' are not equal, and have one form.
FOLD = TextFold(COLLATION, "1", {ord(one): "AXX"["abc".index(one.lower())] for one in "abcABC"})
Target = dict[bytes, Row]
"""The rows of the target, by what the collation takes for one."""


def plan(one: Table, *, folds: bool = True, compact: bool = True) -> SyncPlan:
    made = plan_of(one)
    (source,), (part,) = made.sources, made.targets
    kept = RowFilter(one, (("delete", EventAction.IGNORE),))
    targets = (target_part(part.mapping, {COLLATION: FOLD}),) if folds else made.targets
    return replace(made, sources=(replace(source, filter=kept),), targets=targets, compact=compact)


def slot(row: Row) -> bytes:
    return (row[0] or b"").lower()


def in_order(target: Target, log: Sequence[Logged]) -> Target:
    """Return the target after a log of which each change is written as it comes."""
    rows = dict(target)
    for _, before, after in log:
        if before is not None:
            rows.pop(slot(before), None)
        if after is not None:
            rows[slot(after)] = after
    return rows


def run(wave: Wave, rows: Target) -> None:
    works: list[TableWork] = [work for tables in wave.values() for work in tables.values()]
    for row in (row for work in works for row in (*work.delete, *work.transient)):
        rows.pop(slot(row), None)
    for work in works:
        for row in work.insert:
            assert slot(row) not in rows, "a duplicate"
            rows[slot(row)] = row
        rows.update((slot(row), row) for row in work.change)


def written(one: SyncPlan, target: Target, pieces: Sequence[Sequence[Logged]]) -> Target:
    """Return the target after the same log, folded in pieces if at all."""
    rows = dict(target)
    if one.compact:
        blobs = [pack(one, fold(one, piece), 3) for piece in pieces]
        waves = [make_waves(one, unpack(one, mine)) for mine in zip(*blobs, strict=True)]
    else:
        whole = [change for piece in pieces for change in piece]
        waves = [make_waves(one, fold(one, whole))]
    for name in ("first", "second"):
        for each in waves:
            run(getattr(each, name), rows)
    for each in waves:
        for wave in each.later:
            run(wave, rows)
    return rows


def log_of(changes: Sequence[tuple[str, str, bool]]) -> list[Logged]:
    """Return what a filter lets through of a source of the same collation. A change: what is done, to which key,
    whether it is let through if it is a delete; `v` is another one in each row."""
    there: dict[bytes, Row] = {}
    log: list[Logged] = []
    for number, (kind, name, through) in enumerate(changes):
        row: Row = (name.encode(), b"%d" % number)
        held = there.pop(slot(row), None)
        if held is not None and kind != "update":
            log += [(0, held, None)] * through
        if kind == "update":
            old = held or there.pop(min(there, default=b""), None)
            if old is None:
                continue
            log.append((0, old, row))
        elif kind == "insert":
            log.append((0, None, row))
        else:
            continue
        there[slot(row)] = row
    return log


CHANGES = st.lists(
    st.tuples(st.sampled_from(["insert", "insert", "update", "delete"]), st.sampled_from("aAbBcC"), st.booleans())
)
OLDER = st.dictionaries(st.sampled_from([b"a", b"b"]), st.just(None)).map(
    lambda keys: {key: (key.upper(), b"%d" % (900 + at)) for at, key in enumerate(keys)}
)
LOST = ("insert", "a", False), ("insert", "A", False), ("delete", "A", True)
OLDER_WINS = ("insert", "a", False), ("insert", "A", False), ("insert", "a", False)
MOVED_TWICE = ("insert", "b", False), ("update", "B", False), ("update", "b", False)


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("folds", [True, False])
@pytest.mark.parametrize("one", [ITEM, UNIQUE], ids=["one key", "two keys"])
@settings(max_examples=12, deadline=None)
@given(changes=CHANGES, older=OLDER, cut=st.integers(0, 20))
def test_the_last_change_decides(
    one: Table, changes: list[tuple[str, str, bool]], older: Target, cut: int, *, folds: bool, compact: bool
) -> None:
    sync = plan(one, folds=folds, compact=compact)
    for some in (changes, LOST, OLDER_WINS, MOVED_TWICE):
        log = log_of(some)
        assert written(sync, older, [log[:cut], log[cut:]]) == in_order(older, log)


def test_distinct_keys_need_only_one_wave() -> None:
    log: list[Logged] = [(0, None, (b"a", b"1")), (0, None, (b"b", b"2")), (0, (b"d", b"3"), None)]
    for one in (plan(ITEM), plan(UNIQUE)):
        assert make_waves(one, fold(one, log)).later == []


def test_a_task_writes_all_later_waves_of_its_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    one, rows = plan(ITEM), Target()

    class Writer:
        collisions = ()

        def advance(self, wave: Wave, _buckets: range, later: Sequence[Wave] = ()) -> int:
            for each in (wave, *later):
                run(each, rows)
            return 0

    monkeypatch.setattr(EpochJob, "writer", lambda *_: Writer())
    job = EpochJob(LocalRunner().share(one), NOWHERE, cast("Any", None), cast("Any", None), cast("Any", Writing))
    ApplyGroup(job, 1, FrontierMove.ADVANCE, frozenset())(0, pack(one, fold(one, log_of(LOST)), 1))
    assert rows == {}


class Writing:
    connections = 1
