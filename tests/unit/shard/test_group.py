"""The group of one source: what its shards have made, and which rows are applied when."""

from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.schema.model import Column, Index, Table
from airflow_provider_dm.engine.shard.errors import ShardDdlOutOfSequence
from airflow_provider_dm.engine.shard.group import (
    Group,
    Resync,
    ShardDdl,
    after_create,
    after_ddl,
    after_rename,
    after_resync,
    due_item,
    missing_shards,
    name_of_dropped,
    relevant_time_zone,
    resolve,
)

T1, T2, T3, T4 = (TableName("s", f"o_{number}") for number in (1, 2, 3, 4))
ALL = (T1, T2)
TARGET = TableName("t", "o")


def at(position: int) -> Location:
    return Location("bin.000001", position)


def table(name: TableName, *columns: str) -> Table:
    made_of = tuple(Column(one, number, "int", "int(11)", True) for number, one in enumerate(columns))
    return Table(name, made_of, (Index("PRIMARY", columns[:1]),))


def item(name: TableName, position: int, ddl: str, *columns: str) -> ShardDdl:
    return ShardDdl(at(position), at(position + 2), (ddl,), table(name, "id", *columns), at(position), {"x": 1})


def after(*steps: tuple[TableName, ShardDdl]) -> Group:
    group = Group(TARGET)
    for name, one in steps:
        group = after_ddl(group, "a", name, table(name, "id"), one)
    return group


def test_a_shard_that_has_made_two_is_held_again_at_its_own_second_one() -> None:
    """t1 makes both before t2 begins: its rows in between have the first form, and no others are applied with them."""
    first = replace(item(T1, 10, "A", "a"), needs=at(9))
    group = after((T1, first), (T1, item(T1, 20, "B", "a", "b")), (T2, item(T2, 30, "A", "a")))
    assert due_item(group, ALL) == first
    assert group.needs == at(9)

    group = resolve(group, at(32))
    assert group.resync is not None
    assert group.needs == at(9), "an XA transaction that was prepared in front of it"
    assert [(one.table.name, one.after, one.until) for one in group.resync.pieces] == [(T1, at(12), at(20))]
    assert due_item(group, ALL) is None
    group = after_resync(group)
    assert [(one.table, len(one.items), len(one.base.columns)) for one in group.members] == [(T1, 1, 2)]
    assert missing_shards(group, ALL) == [T2]

    group = after_resync(resolve(after_ddl(group, "a", T2, table(T2, "id", "a"), item(T2, 40, "B", "a", "b")), at(50)))
    assert group == Group(TARGET, resolved=2)


def test_each_stop_of_a_resync_has_the_shards_with_rows_before_it() -> None:
    group = resolve(
        after((T1, item(T1, 10, "A", "a")), (T1, item(T1, 20, "B", "b")), (T2, item(T2, 14, "A", "a"))), at(30)
    )
    assert group.resync is not None
    assert (group.resync.lo, group.resync.stops()) == (at(12), [at(16), at(20), at(30)])
    between = [[one.table.name for one in group.resync.before(stop)] for stop in group.resync.stops()]
    assert between == [[T1], [T1, T2], [T2]], "rows of t2 in front of 16 have its older form"
    begun, kind = replace(group, resync=replace(group.resync, plan="f00d")), TypeAdapter(Group)
    assert kind.validate_json(kind.dump_json(begun)) == begun


@pytest.mark.parametrize("others", [["A", "B"], ["B", "A"], ["A"]])
def test_a_sequence_that_is_no_prefix_of_the_longest_is_refused(others: list[str]) -> None:
    group = after(*((T1, item(T1, 10 * turn, ddl, "a")) for turn, ddl in enumerate(others, 1)))
    for turn, ddl in enumerate(others):
        wrong = item(T2, 50, f"not {ddl}")
        with pytest.raises(ShardDdlOutOfSequence, match=f"o_2 has executed: not {ddl}.*o_1 has .* that number: {ddl}"):
            after_ddl(group, "a", T2, table(T2, "id"), wrong)
        group = after_ddl(group, "a", T2, table(T2, "id"), item(T2, 50 + turn, ddl))


def test_a_new_shard_has_the_oldest_or_the_newest_definition() -> None:
    group = after((T1, item(T1, 10, "A", "a")), (T1, item(T1, 20, "B", "a", "b")))
    base = table(T2, "id")

    assert after_create(group, table(T3, "id"), base, at(25), at(7)) == group
    newest = after_create(group, table(T3, "id", "a", "b"), base, at(25), at(7))
    assert newest is not None
    assert missing_shards(newest, (T1, T2, T3)) == [T2]
    assert newest.needs == at(7)
    assert after_create(group, table(T3, "id", "a"), base, at(25), at(7)) is None, "no shard has this form"
    assert after_create(group, table(T3, "id"), None, at(25), at(7)) is None
    assert after_create(Group(TARGET), table(T3, "x"), base, at(25), at(7)) == Group(TARGET)

    rest = after_ddl(
        after_ddl(newest, "a", T2, base, item(T2, 30, "A", "a")), "a", T2, base, item(T2, 40, "B", "a", "b")
    )
    first = resolve(rest, at(50))
    assert first.resync is not None
    assert T3 not in {one.table.name for one in first.resync.pieces}, "it had no rows of that form"
    second = resolve(after_resync(first), at(50))
    assert second.resync is not None
    assert {one.table.name: one.after for one in second.resync.pieces}[T3] == at(25)


def test_a_new_shard_may_be_made_like_any_other() -> None:
    """Rows with other plain keys look alike; then the complete definition decides, and nothing is guessed."""
    group = after((T1, item(T1, 10, "A")), (T1, item(T1, 20, "B")), (T2, item(T2, 30, "A")))

    def items(*like: TableName) -> int | None:
        became = after_create(group, table(T4, "id"), table(T3, "id"), at(35), at(7), like=like)
        member = became.member(T4) if became is not None else None
        return None if became is None else len(member.items) if member is not None else 0

    assert [items(T1), items(T2), items(T3), items()] == [2, 1, 0, None]
    assert items(T3, T2, T1) == 2, "it makes none of those DDL any more"


def test_a_ddl_is_due_when_all_shards_of_the_source_have_executed_it() -> None:
    group = after((T1, item(T1, 10, "A", "a")), (T2, item(T2, 20, "A", "a")))
    assert due_item(group, ALL) is not None
    assert due_item(group, (*ALL, T3)) is None
    assert due_item(replace(group, resync=Resync(())), ALL) is None, "rows of the turn before come first"
    assert due_item(Group(TARGET), ()) is None


def test_the_life_of_a_held_shard_ends_with_its_table() -> None:
    """Another table, which is new or was not dropped, may have its name, its rows or its place among the shards."""
    group = after_rename(after((T1, item(T1, 10, "A", "a"))), T1, None, at(20), at(22))
    assert due_item(group, [T2]) is None, "one shard has made it, and it is not the one that is there"
    new = after_create(group, table(T1, "id", "a"), table(T2, "id"), at(30), at(30))
    assert new is not None
    assert [one.is_dropped for one in new.members] == [True, False]
    first = resolve(after_ddl(new, "a", T2, table(T2, "id"), item(T2, 40, "A", "a")), at(50))
    assert first.resync is not None
    assert [(one.after, one.until) for one in first.resync.pieces] == [
        (at(12), at(20)),
        (at(30), at(50)),
        (at(42), at(50)),
    ]


@pytest.mark.parametrize(
    ("before", "behind", "counts"),
    [
        (("timestamp",), ("datetime",), True),
        (("datetime",), ("timestamp",), True),
        (("timestamp",), ("timestamp", "timestamp"), True),
        (("int", "timestamp"), ("timestamp",), False),
        (("timestamp", "int"), ("timestamp", "datetime"), False),
    ],
)
def test_the_time_zone_is_a_part_of_ddl_that_makes_values_by_it(
    before: tuple[str, ...], behind: tuple[str, ...], counts: bool
) -> None:
    def of(types: tuple[str, ...]) -> Table:
        named = enumerate(reversed(types))
        return Table(T1, tuple(Column(f"c{at}", at, kind, kind, True) for at, kind in named), ())

    zones = {relevant_time_zone(of(before), of(behind), zone) for zone in ("+00:00", "+02:00", None)}
    assert len(zones) == (3 if counts else 1)


def test_shards_whose_long_names_begin_alike_are_dropped_under_names_of_their_own() -> None:
    """One DROP TABLE, or DROP DATABASE, drops them at one place of the log."""
    names = [TableName("shop", f"{'order_items_of_the_archive_' * 2}{number:02d}") for number in range(50)]
    place = Location("mariadb-bin-of-this-server.999999", 4_294_967_295, "", 12)
    dropped = {name_of_dropped(name, place) for name in names}
    assert len(dropped) == 50
    assert max(len(name.table) for name in dropped) <= 64

    group = after(*((name, item(name, 10, "A", "a")) for name in names))
    for name in names:
        group = after_rename(group, name, None, at(20), at(22))
    assert len({one.table for one in group.members}) == 50
