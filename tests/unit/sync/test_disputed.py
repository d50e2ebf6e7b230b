"""Values that one row releases and another takes: rows in any order, in transactions of any order, never collide."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.event_filter import EventAction
from airflow_provider_dm.engine.rules.mapping import map_table
from airflow_provider_dm.engine.rules.row_filter import RowFilter
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.model import Column, Index, Table
from airflow_provider_dm.engine.schema.text_folds import TextFold
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.plan.plan_parts import target_part, text_collations
from airflow_provider_dm.engine.sync.write import disputed
from airflow_provider_dm.engine.sync.write.causality import TableWork, Wave, make_waves
from airflow_provider_dm.engine.sync.write.disputed import ExchangedMarks, disputed_values
from airflow_provider_dm.engine.sync.write.tasks import pack, unpack
from tests.unit.ddl.tracked import table_of
from tests.unit.sync.test_change import Logged, fold, plan_of

COLLATION = "utf8mb4_general_ci"
FOLD = TextFold(COLLATION, "", {ord(one): one.upper() for one in "abcABC"})
PRIMARY = Index("PRIMARY", ("id",), prefixes=(None,))
VALUES = (b"a", b"A", b"b", b"B", b"c", b"ab", None)
"""Of each further column; equal ones share a first letter in `by_prefix`."""
KEYS = {
    "one": (Index("x", ("x",), prefixes=(None,)),),
    "each": (Index("x", ("x",), prefixes=(None,)), Index("y", ("y",), prefixes=(None,))),
    "pair": (Index("xy", ("x", "y"), prefixes=(None, None)),),
    "prefix": (Index("x", ("x",), prefixes=(1,)),),
    "expression": (Index("x", (), prefixes=(), expression=True),),
}


@cache
def plan_with(keys: tuple[Index, ...], *, folds: bool) -> SyncPlan:
    columns = (
        Column("id", 0, "int", "int", nullable=False),
        *(Column(one, at, "varchar", "varchar(9)", True, "utf8mb4", COLLATION) for at, one in enumerate("xy", 1)),
    )
    table = Table(TableName("shop", "t"), columns, (PRIMARY, *keys))
    assert set(text_collations(table)) <= {COLLATION}
    part = target_part(map_table(table, table), {COLLATION: FOLD} if folds else {})
    return replace(plan_of(table), targets=(part,))


def held_values(row: Row, keys: Iterable[Index]) -> list[object]:
    """Return the values of a row in its unique keys, as the target compares them. An expression is that of `x`."""
    found: list[object] = [("id", row[0])]
    for key in keys:
        values = [row["xy".index(name) + 1] for name in key.columns or "x"]
        if all(value is not None for value in values):
            found.append((key.name, *((value or b"").upper()[: (key.prefixes or (None,))[0]] for value in values)))
    return found


@dataclass
class Target:
    """Rows by key, which collide as unique values do."""

    keys: tuple[Index, ...]
    rows: dict[bytes, Row] = field(default_factory=dict)

    def put(self, row: Row, *, new: bool) -> None:
        assert row[0] is not None
        assert (row[0] in self.rows) is not new, "found, or not, as expected"
        mine = held_values(row, self.keys)
        for other in self.rows.values():
            assert other[0] == row[0] or not set(mine) & set(held_values(other, self.keys)), "a unique value collides"
        self.rows[row[0]] = row

    def transaction(self, works: Sequence[TableWork]) -> None:
        for work in works:
            for row in work.delete:
                assert self.rows.pop(row[0] or b"", None), "missing"
        for work in works:
            for row in work.insert:
                self.put(row, new=True)
            for row in work.change:
                self.put(row, new=False)


@st.composite
def logs(draw: st.DrawFn, keys: tuple[Index, ...]) -> list[Logged]:
    """A log that a source with these keys could have written."""
    source, log = Target(keys), []
    for _ in range(draw(st.integers(0, 14))):
        before = draw(st.sampled_from([None, *source.rows.values()]))
        after: Row | None = (b"%d" % draw(st.integers(0, 3)), *draw(st.tuples(*[st.sampled_from(VALUES)] * 2)))
        if before is not None and draw(st.integers(0, 3)) == 0:
            after = None
        others = [row for row in source.rows.values() if row is not before]
        if after is not None and set(held_values(after, keys)) & {v for row in others for v in held_values(row, keys)}:
            continue
        if before is not None:
            del source.rows[before[0] or b""]
        if after is not None:
            source.rows[after[0] or b""] = after
        log.append((0, before, after))
    return log


def replay(rows: dict[bytes, Row], log: Iterable[Logged]) -> dict[bytes, Row]:
    rows = dict(rows)
    for _, before, after in log:
        if before is not None:
            del rows[before[0] or b""]
        if after is not None:
            rows[after[0] or b""] = after
    return rows


def applied(plan: SyncPlan, keys: tuple[Index, ...], log: list[Logged], data: st.DataObject) -> None:
    """Apply the second part of the log as an epoch of one or several tasks. A user or another source may change the
    policy between the waves."""
    cut = data.draw(st.integers(0, len(log)))
    target = Target(keys, replay({}, log[:cut]))
    policies = st.sampled_from([plan, replace(plan, safe=True), replace(plan, merged=frozenset({0}))])
    for number in range(2):
        by = data.draw(policies)
        assert by.fingerprint() == plan.fingerprint()
        groups = data.draw(st.integers(1, plan.buckets))
        shares = [unpack(by, [blob]) for blob in pack(by, fold(by, log[cut:]), groups)]
        values = disputed_values([ExchangedMarks.of(by, share) for share in shares])
        waves = [make_waves(by, share, values) for share in shares]
        wave: Wave = {k: v for one in waves for k, v in (one.second if number else one.first).items()}
        for bucket in data.draw(st.permutations(sorted(wave))):
            target.transaction(list(wave[bucket].values()))
    assert target.rows == replay({}, log)


@pytest.mark.parametrize("folds", [True, False])
@pytest.mark.parametrize("name", KEYS)
@given(data=st.data())
def test_rows_never_collide(name: str, data: st.DataObject, *, folds: bool) -> None:
    keys = KEYS[name]

    applied(plan_with(keys, folds=folds), keys, data.draw(logs(keys)), data)


@pytest.mark.parametrize(("after", "waits"), [((b"1", b"c", None), False), ((b"1", b"b", b"x"), False), (None, False)])
def test_a_released_value_that_no_row_needs_causes_no_wave_1(after: Row | None, *, waits: bool) -> None:
    plan = plan_with(KEYS["each"], folds=True)
    waves = make_waves(plan, fold(plan, [(0, (b"1", b"b", b"b"), after), (0, None, (b"2", b"a", b"a"))]))

    assert bool(waves.first) is waits
    works = [works[0] for works in waves.second.values()]
    assert [row for work in works for row in work.change] == ([] if after is None else [after])
    assert [row for work in works for row in work.delete] == ([(b"1", b"b", b"b")] if after is None else [])


def test_wave_1_leaves_a_row_whose_spelling_is_changed_and_changed_back() -> None:
    """Safe mode may end before wave 2, which leaves out such a row without it: the other spelling deletes this row."""
    text = f"varchar(9) COLLATE {COLLATION}"
    table = table_of(f"c {text} PRIMARY KEY, x {text}, UNIQUE KEY x (x)")
    plan = replace(plan_of(table), targets=(target_part(map_table(table, table), {COLLATION: FOLD}),), safe=True)
    log: list[Logged] = [(0, (b"a", b"1"), (b"A", b"1")), (0, (b"A", b"1"), (b"a", b"1"))]
    waves = make_waves(plan, fold(plan, log))

    assert not waves.first
    ((work,),) = [list(works.values()) for works in waves.second.values()]
    assert ([row[0] for row in work.transient], work.change) == ([b"A"], [(b"a", b"1")])


MERGED: dict[str, object] = {"merged": frozenset({0})}


@pytest.mark.parametrize(
    ("then", "now"),
    [({}, MERGED), (MERGED, MERGED | {"safe": True}), (MERGED | {"safe": True}, MERGED), ({}, MERGED | {"safe": True})],
    ids=["becomes merged", "safe mode is set", "safe mode is removed", "becomes merged, and safe mode is set"],
)
def test_half_an_epoch_whose_deletes_are_filtered_is_completed_as_begun(
    then: dict[str, object], now: dict[str, object]
) -> None:
    """Wave 1 then deletes all changed rows, which another policy would miss, or leave out as unchanged."""
    plan = plan_with(KEYS["one"], folds=True)
    (source,) = plan.sources
    filtered = RowFilter(source.table, verdicts=(("delete", EventAction.IGNORE),))
    plan = replace(plan, sources=(replace(source, filter=filtered),))
    before, after = replace(plan, **then), replace(plan, **now)  # type: ignore[arg-type]
    begun = next(one for one in (after, *after.in_all_modes()) if one.fingerprint() == before.fingerprint())
    log: list[Logged] = [(0, (b"1", b"a", None), (b"1", b"b", None)), (0, (b"1", b"b", None), (b"1", b"a", None))]

    assert make_waves(begun, fold(begun, log)) == make_waves(before, fold(before, log))


def test_a_null_is_not_disputed() -> None:
    plan = plan_with(KEYS["each"], folds=True)

    assert not make_waves(plan, fold(plan, [(0, (b"1", None, None), None), (0, None, (b"2", None, None))])).first


def test_a_deleted_row_releases_its_values_where_any_may_be_disputed() -> None:
    release = disputed.releases(plan_with(KEYS["one"], folds=True).targets[0], None)

    assert release((b"1", b"a", None), None)
    assert release((b"1", b"a", None), (b"1", b"b", None))
    assert not release((b"1", b"a", None), (b"1", b"a", b"b"))
