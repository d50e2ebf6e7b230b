"""Folding and ordering changes of which filters have left some out."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.config.rule_models import FilterRule
from airflow_provider_dm.engine.downstream.row_statements import Dialect, Literals, SqlStatement
from airflow_provider_dm.engine.downstream.table_schema import TableSchema
from airflow_provider_dm.engine.merge.owner_writer import TargetAccess
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.event_filter import EventAction, EventFilter
from airflow_provider_dm.engine.rules.row_filter import FilterLoss, RowFilter
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.model import Column, Index, Table
from airflow_provider_dm.engine.sync.plan.bucket import bucket_of_all
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan, WritePolicy
from airflow_provider_dm.engine.sync.plan.plan_making import SharedTargets, make_plan
from airflow_provider_dm.engine.sync.plan.plan_parts import Change
from airflow_provider_dm.engine.sync.write.causality import make_waves
from airflow_provider_dm.engine.sync.write.compactor import Compactor
from airflow_provider_dm.engine.sync.write.dependence import ChangeKind
from airflow_provider_dm.engine.sync.write.in_order import WritesInOrder, runs
from airflow_provider_dm.engine.sync.write.tasks import pack, unpack
from tests.unit.sync.test_change import ITEM, PRIMARY, RULES, fold, plan_of, table

UNIQUE = table("item", ("id", "v"), PRIMARY, Index("v", ("v",), prefixes=(None,)))
KEYLESS = table("item", ("id", "v"))
A, B, C = (b"1", b"a"), (b"1", b"b"), (b"2", b"b")
DELETES = RowFilter(ITEM, (("delete", EventAction.IGNORE),))
INSERTS = RowFilter(ITEM, (("insert", EventAction.IGNORE),))


def filtered(counts: RowFilter, one: Table = ITEM, buckets: int = 4) -> SyncPlan:
    plan = plan_of(one, buckets=buckets)
    return replace(plan, sources=(replace(plan.sources[0], filter=counts),))


def test_if_deletes_are_filtered_the_fold_keeps_first_before_and_last_after() -> None:
    plan = filtered(DELETES)
    assert plan.losses == {0: FilterLoss.DELETES}
    assert fold(plan, [(0, None, A), (0, None, B)]).keyed[0] == {b"1": Change(None, B)}
    assert fold(plan, [(0, A, B), (0, None, A)]).keyed[0] == {b"1": Change(A, A)}


@pytest.mark.parametrize("safe", [False, True])
def test_filters_decide_the_write_policy_also_in_safe_mode(*, safe: bool) -> None:
    plans = [replace(one, safe=safe) for one in (plan_of(ITEM), filtered(DELETES), filtered(INSERTS), plan_of(KEYLESS))]

    assert [one.policies for one in plans] == [
        (WritePolicy.OVERWRITE if safe else WritePolicy.EXACT,),
        (WritePolicy.UNCOUNTED,),
        (WritePolicy.IN_ORDER,),
        (WritePolicy.EXACT,),
    ]


@pytest.mark.parametrize("safe", [True, False])
def test_a_row_that_ends_as_it_began_is_written_in_safe_mode(*, safe: bool) -> None:
    """The target may have another row there."""
    plan = replace(plan_of(ITEM), safe=safe)
    waves = make_waves(plan, fold(plan, [(0, A, None), (0, None, A)]))

    assert [work.change for tables in waves.second.values() for work in tables.values()] == ([[A]] if safe else [])


def test_folding_loosely_in_pieces_is_folding_the_whole() -> None:
    plan = filtered(DELETES)
    first, second = fold(plan, [(0, None, A)]), fold(plan, [(0, None, B), (0, B, C)])
    blobs = [blob for one in (first, second) for blob in pack(plan, one, 1)]
    assert unpack(plan, blobs).keyed[0] == {b"1": Change(None, None), b"2": Change(None, C)}


def test_a_row_whose_delete_was_filtered_is_overwritten_by_its_key() -> None:
    """REPLACE would also remove a row that is gone at the source and has the same unique value; and what only the
    target has in the row."""
    (plain,) = make_waves(filtered(DELETES, buckets=1), fold(filtered(DELETES), [(0, None, A)])).second[0].values()
    waves = make_waves(filtered(DELETES, UNIQUE, buckets=1), fold(filtered(DELETES, UNIQUE), [(0, A, B)]))
    assert (plain.change, plain.insert) == ([A], [])
    assert (waves.first[0][0].delete, waves.second[0][0].insert) == ([B], [B])


def test_changes_that_depend_on_each_other_stay_in_their_order_in_one_bucket() -> None:
    plan = filtered(INSERTS)
    log = [(0, A, B), (0, C, None), (0, None, C)]
    folded = fold(plan, log)
    together = unpack(plan, [blob for blob in pack(plan, folded, 3) if blob])
    assert together.in_order == {0: [Change(before, after) for _, before, after in log]}
    waves = make_waves(plan, together)
    assert list(waves.second) == [bucket_of_all(plan.targets[0], 4)]
    assert waves.rows() == 3


@pytest.mark.parametrize("one", [ITEM, KEYLESS], ids=["keyed", "keyless"])
@pytest.mark.parametrize("elsewhere", [True, False])
@pytest.mark.parametrize("owned", [True, False])
def test_with_row_filters_all_shards_of_a_merged_table_are_written_in_order(
    one: Table, *, elsewhere: bool, owned: bool
) -> None:
    """Also the shard without a filter: its row may be one that the other shard has deleted."""
    named = {"schema-pattern": "shop", "table-pattern": one.name.table}
    rule = FilterRule.model_validate({**named, "events": ["insert"], "action": "Ignore"})
    events = EventFilter.from_config([rule], case_sensitive=True)
    rules = RULES if elsewhere else replace(RULES, events=events)
    shard = replace(one, name=TableName("shop", "item_1"))
    plan = make_plan(
        [TableSchema(each, one.name) for each in ([one] if elsewhere else [one, shard])],
        {one.name: one, shard.name: one},
        rules=rules,
        buckets=4,
        shared=SharedTargets(owned=owned),
    )
    plan = SharedTargets({one.name}, {one.name}, owned).merged_in(plan) if elsewhere else plan
    assert set(plan.policies) == {WritePolicy.IN_ORDER}
    assert (plan.merged, plan.in_order, plan.unowned) == (frozenset(), frozenset({0}), frozenset({one.name}))
    assert set(plan.leads()) == {0}  # one order for all of them


class Rows:
    """A target table of `item` as far as `in_order` asks for it."""

    def __init__(self, there: Iterable[bytes]) -> None:
        self.there = set(there)
        self.statements: list[str] = []

    def execute(self, _connection: object, statement: SqlStatement) -> int:
        self.statements.append(statement.sql.decode())
        return statement.rows

    def count(self, _connection: object, statement: SqlStatement) -> int:
        (keys,) = re.findall(rb"IN \((.*)\) FOR", statement.sql)
        return len(self.there & set(keys.split(b",")))


def written(one: Table, changes: Iterable[Change], there: Iterable[bytes]) -> list[str]:
    """Return what is done to the target, in short."""
    rows = Rows(there)
    part = plan_of(one).targets[0]
    access, connection = TargetAccess(Dialect(), rows.execute, rows.count), cast("Connection", None)

    def literals(row: Row) -> Literals:
        return tuple(value or b"NULL" for value in row)

    WritesInOrder(part, access, tuple(changes), literals, lambda row: literals(row[:1])).run(connection, careful=False)
    return [_short(sql) for sql in rows.statements]


def _short(sql: str) -> str:
    verb = "delete" if sql.startswith("DELETE") else "upsert" if "ON DUPLICATE" in sql else "insert"
    shown = sql.split(" IN ")[1] if verb == "delete" else sql.split(" VALUES ")[1].split(" ON ", maxsplit=1)[0]
    return f"{verb} {shown}"


MOVED = Change((b"1", b"a"), (b"2", b"b"))


@pytest.mark.parametrize(
    ("one", "change", "there", "done"),
    [
        (ITEM, Change(A, B), [b"1"], ["upsert (1,b)"]),
        (ITEM, Change(A, B), [], []),
        (ITEM, MOVED, [b"1"], ["delete (1)", "upsert (2,b)"]),
        (ITEM, MOVED, [b"2"], []),
        (UNIQUE, Change(A, B), [b"1"], ["delete (1)", "delete (1)", "insert (1,b)"]),
        (UNIQUE, MOVED, [b"1", b"2"], ["delete (1)", "delete (2)", "insert (2,b)"]),
    ],
)
def test_an_update_replaces_a_row_whose_delete_was_filtered(
    one: Table, change: Change, there: list[bytes], done: list[str]
) -> None:
    assert written(one, [change], there) == done


def test_the_fingerprint_depends_on_the_filter() -> None:
    assert len({plan_of(ITEM).fingerprint(), filtered(DELETES).fingerprint(), filtered(INSERTS).fingerprint()}) == 3


ROWS = st.tuples(st.sampled_from([b"1", b"2", b"3"]), st.sampled_from([b"a", b"b"]))
CHANGES = st.lists(
    st.tuples(st.none() | ROWS, st.none() | ROWS).filter(lambda one: one != (None, None)).map(lambda one: Change(*one))
)


@given(CHANGES)
def test_runs_are_the_changes_and_no_row_is_twice_in_one(changes: list[Change]) -> None:
    part = plan_of(ITEM).targets[0]
    found = list(runs(changes, part))
    assert [change for _, run in found for change in run] == changes
    for kind, run in found:
        assert {ChangeKind.of(*change) for change in run} == {kind}
        keys = [{row[0] for row in change if row is not None} for change in run]
        assert sum(map(len, keys)) == len(set().union(*keys))


def test_rows_that_a_collation_may_equate_are_written_alone() -> None:
    column = Column("id", 0, "varchar", "varchar(9)", False, "utf8mb4", "utf8mb4_general_ci")
    part = plan_of(Table(TableName("shop", "item"), (column,), (PRIMARY,))).targets[0]
    changes = [Change(None, (b"a",)), Change(None, (b"A",))]
    assert [len(run) for _, run in runs(changes, part)] == [1, 1]


def test_inserts_into_a_table_without_a_key_go_together() -> None:
    part = plan_of(KEYLESS).targets[0]
    changes: list[Change] = [Change(None, A), Change(None, A), Change(A, None), Change(A, None)]
    assert [(kind, len(run)) for kind, run in runs(changes, part)] == [
        (ChangeKind.INSERT, 2),
        (ChangeKind.DELETE, 1),
        (ChangeKind.DELETE, 1),
    ]


def test_values_added_by_routing_are_part_of_the_row() -> None:
    plan = plan_of(ITEM)
    source = replace(plan.sources[0], added=(b"x",))
    row: Row = (b"1", b"a")
    assert (source.whole(row), source.whole(None), source.width) == ((b"1", b"a", b"x"), None, 3)
    assert replace(plan, sources=(source,)).fingerprint() != plan.fingerprint()
    assert Compactor(plan).folded.changes == 0
