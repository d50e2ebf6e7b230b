"""Coverage: filter then fold is fold then filter; the restriction of a log is the log of the restriction."""

import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.binlog.changes import RowChange
from airflow_provider_dm.engine.config.rule_models import FilterRule
from airflow_provider_dm.engine.downstream.copy_progress import ChunkProgress
from airflow_provider_dm.engine.downstream.table_schema import TableSchema
from airflow_provider_dm.engine.errors import InvariantBroken
from airflow_provider_dm.engine.reading.keyset import write_key
from airflow_provider_dm.engine.rules.event_filter import EventFilter
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.model import Index, Table
from airflow_provider_dm.engine.sync.coverage import ALL, NONE, CoverageFilter, KeyRange, coverages
from airflow_provider_dm.engine.sync.plan.plan_making import make_plan
from airflow_provider_dm.engine.sync.plan.plan_parts import Change
from airflow_provider_dm.engine.sync.write import tasks
from airflow_provider_dm.engine.sync.write.chains import unchanged_tables
from tests.unit.sync.test_change import NOWHERE, PAIR, PRIMARY, RULES, fold, plan_of, table
from tests.unit.sync.test_encoded import ONE, TABLES, fold_of, log_of

ITEM = table("item", ("id", "v", "note"), PRIMARY)
BY_PAIR = replace(ITEM, unique_keys=(PAIR,))
KEYS = 8
EDGES = st.lists(st.integers(1, KEYS - 1), unique=True, max_size=3).map(sorted)


def key(*values: int) -> str:
    return write_key(tuple(b"%d" % one for one in values))


# The chunks of a load, and what they cover in plain words


@st.composite
def chunks_of(draw: st.DrawFn, of: Table) -> list[ChunkProgress]:
    """Chunks that are open at both ends and meet, each copied up to some key of its range, or to its end."""
    edges = draw(EDGES)
    width = len(of.unique_keys[0].columns)
    found = []
    for number, (low, high) in enumerate(zip([None, *edges], [*(edge - 1 for edge in edges), None], strict=True)):
        state = draw(st.sampled_from(["untouched", "begun", "done"]))
        first = draw(st.integers(0 if low is None else low, KEYS if high is None else high))
        last_key = key(first, *draw(st.tuples(*[st.integers(0, 3)] * (width - 1))))
        begun = ChunkProgress(number, of.name, low, high, last_key=last_key, rows_copied=1)
        untouched = ChunkProgress(number, of.name, low, high)
        found.append({"untouched": untouched, "begun": begun, "done": replace(begun, done=True)}[state])
    return found


def is_covered(chunks: Sequence[ChunkProgress], of: Table, row: Row) -> bool:
    """Decide by reading the design aloud."""
    positions = [of.column(name).position for name in of.unique_keys[0].columns]
    mine = tuple(int(row[position] or b"") for position in positions)
    for chunk in chunks:
        if (chunk.low is None or chunk.low <= mine[0]) and (chunk.high is None or mine[0] <= chunk.high):
            if chunk.done:
                return True
            if chunk.last_key is not None:
                upto = tuple(int(value) for value in chunk.last_key.strip("[]").replace('"', "").split(","))
                return mine <= upto
    return False


Rows = dict[tuple[bytes, ...], Row]


@st.composite
def logs(draw: st.DrawFn, of: Table) -> tuple[Rows, list[RowChange], Rows]:
    """A state, changes from it, and what comes of them. Keys move now and then, to and fro."""
    positions = [of.column(name).position for name in of.unique_keys[0].columns]

    def key_of(row: Row) -> tuple[bytes, ...]:
        return tuple(row[position] or b"" for position in positions)

    rows: Rows = {}
    for number in draw(st.lists(st.integers(0, KEYS), unique=True, max_size=KEYS)):
        row = (b"%d" % number, b"%d" % draw(st.integers(0, 3)), b"0")
        rows[key_of(row)] = row
    first, changes = dict(rows), []
    for count in range(draw(st.integers(0, 25))):
        after = (b"%d" % draw(st.integers(0, KEYS)), b"%d" % draw(st.integers(0, 3)), b"%d" % (count + 1))
        before = draw(st.sampled_from([None, *rows.values()]))
        if before is None or draw(st.booleans()):
            if key_of(after) in rows and (before is None or key_of(before) != key_of(after)):
                continue
        else:
            after = None  # type: ignore[assignment]
        if before is not None:
            del rows[key_of(before)]
        if after is not None:
            rows[key_of(after)] = after
        changes.append(RowChange(0, before, after))
    return first, changes, rows


CASES = st.sampled_from([ITEM, BY_PAIR]).flatmap(lambda of: st.tuples(st.just(of), chunks_of(of), logs(of)))


def filtered(of: Table, chunks: Sequence[ChunkProgress], changes: Sequence[RowChange]) -> list[RowChange]:
    coverage = coverages(chunks)[of.name]
    if coverage is ALL:
        return list(changes)
    return list(CoverageFilter({0: (of, coverage)}, NOWHERE).covered(changes)) if coverage not in (ALL, NONE) else []


@given(CASES)
def test_filter_then_fold_is_fold_then_filter(
    case: tuple[Table, list[ChunkProgress], tuple[Rows, list[RowChange], Rows]],
) -> None:
    of, chunks, (_, changes, _) = case
    plan = plan_of(of)
    whole = fold(plan, changes).keyed.get(0, {})
    kept = {
        identity: change
        for identity, change in whole.items()
        if is_covered(chunks, of, plan.targets[0].row_of(identity, *change))
    }

    assert fold(plan, filtered(of, chunks, changes)).keyed.get(0, {}) == kept


@given(CASES)
def test_the_restriction_of_a_log_is_the_log_of_the_restriction(
    case: tuple[Table, list[ChunkProgress], tuple[Rows, list[RowChange], Rows]],
) -> None:
    of, chunks, (first, changes, last) = case

    def restricted(rows: Rows) -> set[Row]:
        return {row for row in rows.values() if is_covered(chunks, of, row)}

    rows = restricted(first)
    for _, before, after in filtered(of, chunks, changes):
        if before is not None:
            rows.remove(before)  # it is there
        if after is not None:
            assert after not in rows
            rows.add(after)

    assert rows == restricted(last)


# What coverage is


def chunk(
    number: int, low: int | None, high: int | None, last_key: str | None = None, *, done: bool = False
) -> ChunkProgress:
    return ChunkProgress(number, ITEM.name, low, high, last_key, done)


def test_chunks_determine_the_coverage() -> None:
    (name,) = {ITEM.name}

    assert coverages([]) == {}
    assert coverages([chunk(0, None, None)]) == {name: NONE}
    assert coverages([chunk(0, None, 3, done=True), chunk(1, 4, None, done=True)]) == {name: ALL}
    assert coverages([chunk(1, 4, None, key(7)), chunk(0, None, 3, done=True), chunk(2, 9, 9)]) == {
        name: (KeyRange(None, 3, None), KeyRange(4, None, (b"7",)))
    }
    assert coverages([chunk(0, None, 3), chunk(1, 4, None, done=True)]) == {name: (KeyRange(4, None, None),)}


def test_a_table_without_an_order_is_covered_completely_or_not_at_all() -> None:
    keyless = replace(ITEM, unique_keys=())
    part = (KeyRange(None, None, (b"1",)),)

    with pytest.raises(InvariantBroken):
        CoverageFilter({0: (keyless, part)}, NOWHERE)


# In a plan

OTHER = table("other", ("id", "v"), PRIMARY)
PART = (KeyRange(None, None, (b"2",)),)


def test_plans_with_different_coverage_have_different_fingerprints() -> None:
    plans = [
        plan_of(ITEM, OTHER, coverage={ITEM.name: one}) for one in (ALL, PART, NONE, (KeyRange(None, None, (b"3",)),))
    ]

    assert len({one.fingerprint() for one in plans}) == len(plans)
    assert plans[0].fingerprint() == plan_of(ITEM, OTHER).fingerprint()
    for one in plans:
        assert pickle.loads(pickle.dumps(one)).fingerprint() == one.fingerprint()


def test_changes_of_a_table_that_is_not_covered_are_skipped() -> None:
    plan = plan_of(ITEM, OTHER, coverage={ITEM.name: NONE})

    assert [source.table for source in plan.sources] == [OTHER]
    assert set(plan.tables()) == {ITEM, OTHER}
    assert plan.wanted().find(ITEM.name) is None


def test_the_source_key_is_read_of_a_table_that_is_covered_in_part() -> None:
    """The target identifies rows by another column and generates `id`, so only the coverage needs it."""
    computed = replace(ITEM, columns=tuple(replace(one, generated=one.name == "id") for one in ITEM.columns))
    target = replace(computed, unique_keys=(Index("PRIMARY", ("v",), prefixes=(None,)),))

    assert plan_of(computed, target=target).optional_columns() == ((0,),)
    assert plan_of(computed, target=target, coverage={ITEM.name: PART}).optional_columns() == ((),)


def test_a_log_is_filtered_before_it_is_folded_and_only_where_it_must_be(tmp_path: Path) -> None:
    """Of three tables one is covered in part and one not at all; rows of the third stay cells."""
    one, two, three = TABLES
    plan = plan_of(*TABLES, coverage={one.name: PART, two.name: NONE})
    keys = {source.table.name: index for index, source in enumerate(plan.sources)}
    log: list[list[tuple[int, int | None, int | None]]] = [
        [(0, None, 1), (0, None, 3), (1, None, 1), (2, None, 9)],
        [(0, 1, 4), (0, 3, 2), (2, None, 8)],
    ]

    folded = fold_of(plan, log_of(log, tmp_path), unchanged_tables(plan))

    assert folded.keyed[keys[one.name]] == {b"1": Change(None, None), b"2": Change(None, (b"2", None))}
    assert {table: len(one.insert) for table, one in folded.cells.items()} == {keys[three.name]: 2}


@pytest.mark.parametrize(
    ("ignored", "expected"), [("delete", [(b"3", None), (None, b"1")]), ("update", [(b"2", None)])]
)
def test_filters_see_a_change_as_the_source_logged_it(tmp_path: Path, ignored: str, expected: list[object]) -> None:
    """A key that crosses the border is an UPDATE for the filters, and becomes a DELETE or an INSERT after them."""
    rule = FilterRule.model_validate({"schema-pattern": "*", "events": [ignored], "action": "Ignore"})
    rules = replace(RULES, events=EventFilter.from_config([rule], case_sensitive=True))
    part = (KeyRange(None, None, (b"5",)),)
    plan = make_plan([TableSchema(ONE, ONE.name)], {ONE.name: ONE}, rules=rules, buckets=1, coverage={ONE.name: part})
    pieces = log_of([[(0, 3, 9), (0, 8, 1), (0, 2, None)]], tmp_path)

    changes = [change for piece in pieces for change in tasks._changes(plan, NOWHERE, piece)]

    assert [(before and before[0], after and after[0]) for _, before, after in changes] == expected
