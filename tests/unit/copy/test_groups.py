"""Which source tables are copied again together, and when they are alike."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from airflow_provider_dm.engine.copy.altered import Altered
from airflow_provider_dm.engine.copy.groups import Groups, Side, strangers, to_copy_again, unlike, unread_newcomers
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.target.table_schema import Feeder


def name(table: str) -> TableName:
    return TableName("s", table)


def names(tables: str) -> frozenset[TableName]:
    return frozenset(map(name, tables.split()))


def route(one: TableName) -> TableName:
    return TableName("t", one.table.split("_")[0])


def side(
    source: str,
    planned: str,
    *,
    changed: str = "",
    vanished: str = "",
    fresh: str = "",
    sealed: str = "",
    first: bool = False,
    overwrites: bool = False,
    recorded: str = "",
    reads_log: bool = True,
) -> Side:
    found = Altered(names(changed), names(vanished), names(fresh))
    return Side(source, names(planned), found, names(sealed), first, overwrites, route, names(recorded), reads_log)


def again(*sides: Side, others: Iterable[Feeder] = (), closing: bool = False) -> dict[str, tuple[str, str, str]]:
    feeders = [Feeder(one.source, table, route(table), 1) for one in sides for table in one.planned]
    found = to_copy_again(sides, Groups.of(sides, (*feeders, *others)), closing=closing)
    return {source: (_listed(one.changed), _listed(one.vanished), _listed(one.fresh)) for source, one in found.items()}


def _listed(tables: Iterable[TableName]) -> str:
    return " ".join(sorted(one.table for one in tables))


@pytest.mark.parametrize(
    ("sides", "expected"),
    [
        # plain tables
        ((side("a", "x y", changed="x"),), {"a": ("x", "", "")}),
        ((side("a", "x y", changed="x", sealed="x"),), {}),
        ((side("a", "x y", changed="x y", sealed="x", fresh="z"),), {"a": ("x y", "", "z")}),
        ((side("a", "x", fresh="z"),), {}),
        ((side("a", "x", fresh="z", first=True),), {"a": ("", "", "z")}),
        # a group, in one source and in two
        ((side("a", "o_1 o_2 x", changed="o_1"),), {"a": ("o_1 o_2", "", "")}),
        ((side("a", "o_1 x", vanished="o_1"), side("b", "o_2 y")), {"a": ("", "o_1", ""), "b": ("o_2", "", "")}),
        ((side("a", "o_1", changed="o_1"), side("b", "p_2")), {"a": ("o_1", "", "")}),
        # a new shard comes by the log, unless it may be what another table was
        ((side("a", "o_1 o_2", fresh="o_3", first=True),), {}),
        ((side("a", "o_1 o_2 x", fresh="o_3", changed="x", sealed="x"),), {}),
        ((side("a", "o_1 x", fresh="o_3", vanished="x"),), {"a": ("o_1", "x", "o_3")}),
        ((side("a", "x", fresh="n_1 n_2", changed="x"),), {"a": ("x", "", "n_1 n_2")}),
        # what one group brings with it
        (
            (side("a", "o_1", changed="o_1"), side("b", "o_2 p_1", fresh="p_2"), side("c", "p_3 z", fresh="q")),
            {"a": ("o_1", "", ""), "b": ("o_2 p_1", "", "p_2"), "c": ("p_3", "", "q")},
        ),
    ],
)
def test_what_is_copied_again(sides: tuple[Side, ...], expected: dict[str, tuple[str, str, str]]) -> None:
    assert again(*sides) == expected


@pytest.mark.parametrize(
    ("sides", "expected"),
    [
        (
            (side("a", "o_1 x", fresh="o_9 y"), side("b", "o_2 z"), side("c", "v")),
            {"a": ("o_1", "", "o_9 y"), "b": ("o_2", "", "")},
        ),
        ((side("a", "x", fresh="n_1"), side("b", "x", fresh="n_2")), {"a": ("", "", "n_1"), "b": ("", "", "n_2")}),
        ((side("a", "x_1 x_2", fresh="y", sealed="x_1"),), {}),
    ],
    ids=["of a merged table", "of one that is new itself", "by itself"],
)
def test_a_new_shard_is_a_reason_when_nothing_else_is_left(
    sides: tuple[Side, ...], expected: dict[str, tuple[str, str, str]]
) -> None:
    assert again(*sides, closing=True) == expected
    assert again(*sides) == {}


def test_what_others_feed_is_not_removed() -> None:
    ours = side("a", "o_1 o_2 x", changed="o_1 x")
    elsewhere = Feeder("elsewhere", name("o_9"), TableName("t", "o"), 3)
    assert again(ours, others=[elsewhere]) == {"a": ("x", "", "")}
    feeders = [elsewhere, *(Feeder("a", one, route(one), 1) for one in ours.planned)]
    assert strangers(ours, Groups.of([ours], feeders)) == names("o_1")


@pytest.mark.parametrize(
    ("ours", "expected", "closing"),
    [
        (side("a", "o_1 o_2 x", changed="o_1", recorded="o_1 o_2"), {"a": ("o_1 o_2", "", "")}, False),
        (side("a", "o_1 x", vanished="o_1", fresh="o_3", recorded="o_1"), {"a": ("", "o_1", "o_3")}, False),
        (side("a", "o_1 x", changed="x", recorded="o_1"), {"a": ("x", "", "")}, False),
        (side("a", "o_1", fresh="o_3", recorded="o_1"), {}, False),
        (side("a", "o_1", fresh="o_3", recorded="o_1"), {"a": ("o_1", "", "o_3")}, True),
        (side("a", "x", fresh="o_3"), {}, True),
        (side("a", "o_1 o_2", changed="o_1", recorded="o_2"), {}, False),
        (side("a", "o_1", changed="o_1", recorded="o_1", overwrites=True), {}, False),
        (side("a", "o_1 o_2", changed="o_1", recorded="o_1"), {}, False),  # what would the sync make of the two?
        (side("a", "o_1 o_2", changed="o_1", recorded="o_1", reads_log=False), {"a": ("o_1", "", "")}, False),
    ],
)
def test_rows_that_are_recorded_are_removed_where_others_feed_the_table(
    ours: Side, expected: dict[str, tuple[str, str, str]], closing: bool
) -> None:
    elsewhere = Feeder("elsewhere", name("o_9"), TableName("t", "o"), 0)
    assert again(ours, others=[elsewhere], closing=closing) == expected
    groups = Groups.of([ours], [elsewhere])
    assert not groups.ours
    assert bool(strangers(ours, groups)) == (bool(ours.found.changed) and not expected)


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        (side("a", "x", vanished="x", fresh="o_3"), "o_3"),  # ... x may be o_3 now
        (side("a", "x", changed="x", fresh="o_3"), "o_3"),
        (side("a", "x", fresh="o_3"), ""),  # its CREATE is in the log
        (side("a", "x", changed="x", fresh="o_3", sealed="x"), ""),  # the sync follows both
        (side("a", "x", vanished="x", fresh="y"), ""),  # copied with it
        (side("a", "o_1 x", vanished="x", fresh="o_3", recorded="o_1"), ""),  # as it is a visitor like o_1
    ],
)
def test_what_may_be_a_renamed_table_that_nobody_copies_is_named(ours: Side, expected: str) -> None:
    elsewhere = Feeder("elsewhere", name("o_9"), TableName("t", "o"), 0)
    assert unread_newcomers(ours, Groups.of([ours], [elsewhere])) == names(expected)


def test_what_may_overwrite_rows_is_not_removed() -> None:
    ours = side("a", "o_1 x", changed="x", vanished="o_1", overwrites=True)
    groups = Groups.of([ours], [])
    assert strangers(ours, groups) == names("x o_1")
    assert to_copy_again([ours], groups) == {}


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ("11", "22", None),
        ("11", "12", ("1", "2")),
        ("12", "32", None),  # they were not the same
        ("1211", "3233", None),
        ("1211", "3231", ("1", "4")),
    ],
)
def test_shards_are_alike_if_those_are_the_same_that_were(
    before: str, now: str, expected: tuple[str, str] | None
) -> None:
    group = [("a", name(str(number))) for number in range(1, 9)]
    found = unlike(dict(zip(group, before, strict=False)), dict(zip(group, now, strict=False)), group)
    assert (found and tuple(one.table for _, one in found)) == expected
