"""The change algebra and the compactor: folding a log in pieces is replaying it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.config.rule_models import BlockAllowConfig
from airflow_provider_dm.engine.downstream.table_schema import TableSchema
from airflow_provider_dm.engine.errors import NotSupportedYet
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.route import Router
from airflow_provider_dm.engine.rules.subtask_rules import SubtaskRules
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.model import Column, Index, Table
from airflow_provider_dm.engine.sync.coverage import Coverage
from airflow_provider_dm.engine.sync.errors import BrokenChain, UnknownTable
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.plan.plan_making import make_plan
from airflow_provider_dm.engine.sync.plan.plan_parts import Change, Key
from airflow_provider_dm.engine.sync.write.causality import make_waves
from airflow_provider_dm.engine.sync.write.compactor import Compactor, FoldedChanges
from airflow_provider_dm.engine.sync.write.tasks import pack, unpack

RULES = SubtaskRules(
    BlockAllowRules.from_config(BlockAllowConfig(), case_sensitive=True, meta_schema="dm_meta"), Router((), ())
)
PRIMARY = Index("PRIMARY", ("id",), prefixes=(None,))
PAIR = Index("PRIMARY", ("id", "v"), prefixes=(None, None))
NOWHERE = Endpoint("source-01", "nowhere.invalid", 1, "nobody")
"""A source that no test asks anything."""
Logged = tuple[int, Row | None, Row | None]


def table(name: str, columns: Iterable[str], *keys: Index, data_type: str = "int") -> Table:
    described = tuple(Column(one, at, data_type, data_type, False) for at, one in enumerate(columns))
    return Table(TableName("shop", name), described, keys)


def plan_of(
    *tables: Table, target: Table | None = None, buckets: int = 4, coverage: Mapping[TableName, Coverage] | None = None
) -> SyncPlan:
    """Every table to itself, or all of them to `target`."""
    targets = {one.name: target or one for one in tables}
    schemas = [TableSchema(one, one.name) for one in tables]
    return make_plan(schemas, targets, rules=RULES, buckets=buckets, coverage=coverage)


def fold(plan: SyncPlan, changes: Iterable[Logged]) -> FoldedChanges:
    return Compactor(plan).add_all(changes)


def keyed(folded: FoldedChanges, target: int = 0) -> dict[Key, Change]:
    return folded.keyed[target]


ITEM = table("item", ("id", "v"), PRIMARY)
A, B, C = (b"1", b"a"), (b"1", b"b"), (b"2", b"b")


def test_a_change_that_does_not_follow_stops_and_shows_no_value() -> None:
    with pytest.raises(BrokenChain) as broken:
        fold(plan_of(ITEM), [(0, None, A), (0, B, None)])

    assert "a row that differs in v" in str(broken.value)
    assert "'b'" not in str(broken.value)


def test_shards_that_may_overwrite_each_other_stop_at_the_same_key() -> None:
    """What comes last would be a matter of chance."""
    shard = table("item_1", ("id", "v"), PRIMARY)

    with pytest.raises(BrokenChain):
        fold(replace(plan_of(ITEM, shard, target=ITEM), merged=frozenset()), [(0, None, A), (1, None, A)])


@pytest.mark.parametrize("delete_first", [True, False])
def test_a_row_that_moves_between_shards_is_a_delete_and_an_insert(*, delete_first: bool) -> None:
    shard = table("item_1", ("v", "id"), PRIMARY)  # columns in another order
    plan = plan_of(ITEM, shard, target=ITEM)
    move: list[Logged] = [(0, A, None), (1, None, (b"b", b"1"))]

    folded = fold(plan, move if delete_first else move[::-1])
    waves = make_waves(plan, folded)

    assert keyed(folded, 0) == {b"1": Change(A, None)}
    assert keyed(folded, 1) == {b"1": Change(None, B)}
    (tables,) = waves.second.values()  # one bucket, so one transaction, in which deletes come first
    assert (tables[0].delete, tables[1].insert) == ([A], [B])


@pytest.mark.parametrize("place", [1, 2])
def test_every_further_unique_value_is_given_up_before_another_row_takes_it(place: int) -> None:
    """Two rows swap it, by way of a third value."""
    further = (Index(name, (name,), prefixes=(None,)) for name in ("a", "b"))
    plan, one, other = plan_of(table("t", ("id", "a", "b"), PRIMARY, *further)), (b"1",) * 3, (b"2",) * 3

    def with_value(row: Row, value: bytes) -> Row:
        return (*row[:place], value, *row[place + 1 :])

    steps = [
        (one, with_value(one, b"0")),
        (other, with_value(other, b"1")),
        (with_value(one, b"0"), with_value(one, b"2")),
    ]
    waves = make_waves(plan, fold(plan, [(0, *step) for step in steps]))

    assert sorted(row for tables in waves.first.values() for row in tables[0].delete) == [one, other]


def test_a_unique_value_is_released_when_it_becomes_null() -> None:
    plan = plan_of(table("t", ("id", "a"), PRIMARY, Index("a", ("a",), prefixes=(None,))))

    waves = make_waves(plan, fold(plan, [(0, (b"1", b"7"), (b"1", None)), (0, None, (b"2", b"7"))]))

    assert [tables[0].delete for tables in waves.first.values()] == [[(b"1", b"7")]]


def test_a_row_is_converted_back_to_the_column_order_of_its_shard() -> None:
    shard = table("item_1", ("w", "v", "id"), PRIMARY)
    whole = table("item", ("id", "v", "w"), PRIMARY)
    part = plan_of(whole, shard, target=whole).sources[1]
    row = (b"w", b"v", b"1")

    assert part.order is not None
    assert part.own_order is not None
    assert tuple(tuple(row[at] for at in part.order)[at] for at in part.own_order) == row


def test_shards_of_different_types_are_refused() -> None:
    shard = table("item_1", ("id", "v"), PRIMARY, data_type="bigint")

    with pytest.raises(NotSupportedYet, match="different types"):
        plan_of(ITEM, shard, target=ITEM)


@pytest.mark.parametrize("columns", ["id v w", "id", "id w"])
def test_shards_of_different_columns_are_refused(columns: str) -> None:
    """Where the target has them all, and may fill them by itself, nothing else would notice what is left out."""
    shard = table("item_1", columns.split(), PRIMARY)
    described = tuple(Column(one, at, "int", "int", one != "id") for at, one in enumerate(("id", "v", "w")))

    with pytest.raises(NotSupportedYet, match="different columns"):
        plan_of(ITEM, shard, target=Table(ITEM.name, described, (PRIMARY,)))


def test_a_composite_key_is_not_its_joined_text() -> None:
    rows = [(b"x", b"y.z"), (b"x.y", b"z")]
    folded = fold(plan_of(table("t", ("id", "v"), PAIR)), [(0, None, row) for row in rows])

    assert keyed(folded) == {row: Change(None, row) for row in rows}


def test_an_undescribed_table_stops_and_an_excluded_one_is_skipped() -> None:
    wanted = plan_of(ITEM).wanted()

    assert wanted.find(TableName("mysql", "user")) is None
    assert wanted.find(ITEM.name) == 0
    with pytest.raises(UnknownTable):
        wanted.find(TableName("shop", "new"))


# Properties

MODELS = (ITEM, table("log", ("id", "v")), table("both", ("id", "v", "w"), PAIR))


@st.composite
def histories(draw: st.DrawFn) -> list[Logged]:
    """A log that a source could have written: every change begins with a row that is there."""
    held: list[list[Row]] = [[], [], []]
    log: list[Logged] = []
    for _ in range(draw(st.integers(0, 25))):
        number = draw(st.integers(0, 2))
        width, rows = len(MODELS[number].columns), held[number]
        before = draw(st.sampled_from([None, *rows]))
        after: Row | None = tuple(b"%d" % draw(st.integers(0, 2)) for _ in range(width))
        if before is not None and draw(st.booleans()):
            after = None
        if after is not None and number != 1:
            key = slice(0, 1 if number == 0 else 2)
            if any(row[key] == after[key] for row in rows if row is not before):
                continue
        if before is not None:
            rows.remove(before)
        if after is not None:
            rows.append(after)
        log.append((number, before, after))
    return log


def state(folded: FoldedChanges) -> object:
    return (
        {table: dict(changes) for table, changes in folded.keyed.items() if changes},
        {
            table: {image: n for image, n in counts.items() if n}
            for table, counts in folded.counts.items()
            if any(counts.values())
        },
    )


@given(histories(), st.data(), st.integers(1, 4))
def test_folding_pieces_and_putting_them_together_is_folding_the_whole(
    log: list[Logged], data: st.DataObject, groups: int
) -> None:
    plan = plan_of(*MODELS)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(log)), max_size=3)))
    pieces = [fold(plan, log[a:b]) for a, b in zip([0, *cuts], [*cuts, len(log)], strict=True)]
    blobs = [pack(plan, piece, groups) for piece in pieces]

    merged = [unpack(plan, [blob[group] for blob in blobs]) for group in range(groups)]

    whole = fold(plan, log)
    together = FoldedChanges()
    for part in merged:
        together.changes += part.changes
        for number, changes in part.keyed.items():
            together.keyed.setdefault(number, {}).update(changes)
        for number, counts in part.counts.items():
            together.counts.setdefault(number, {}).update(counts)
    assert state(together) == state(whole)
    assert together.changes == whole.changes == len(log)


@given(histories())
def test_applying_the_fold_is_replaying_the_log(log: list[Logged]) -> None:
    folded = fold(plan_of(*MODELS), log)
    replayed: list[Counter[Row]] = [Counter(), Counter(), Counter()]
    for number, before, after in log:
        replayed[number] -= Counter([before] if before is not None else [])
        replayed[number] += Counter([after] if after is not None else [])

    for number in (0, 2):
        applied = Counter(change.after for change in folded.keyed.get(number, {}).values() if change.after is not None)
        assert applied == replayed[number]
    assert +Counter(folded.counts.get(1, {})) == replayed[1]
