"""DM's checkpoint of a sync, and the order of DM's points."""

import pytest

from airflow_provider_dm.engine.downstream.dm_checkpoint import DmCheckpoint, DmPoint, TablePoint, checkpoint_of
from airflow_provider_dm.engine.downstream.errors import CheckpointUnusable
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.shard.group import Group, HeldRows, Member, Resync, ShardDdl
from airflow_provider_dm.engine.sync.checkpoint import CheckpointPoints
from airflow_provider_dm.engine.sync.start.dm_import import DmStart, source_name
from airflow_provider_dm.engine.sync.start.dm_points import is_after

SHARD, OTHER = TableName("shop", "t1"), TableName("shop", "t2")
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def at(position: int) -> Location:
    return Location("bin.000001", position)


def group(table: TableName, place: int) -> Group:
    item = ShardDdl(at(place), at(place + 5), ("ALTER TABLE t ADD c int",), Table(table, (), ()), at(place), {})
    return Group(TableName("shop", "t"), members=(Member(table, Table(table, (), ()), (item,)),))


def test_the_global_point_stays_before_what_is_not_resolved() -> None:
    free = CheckpointPoints.of(at(500), at(500), [])
    assert (free.again, free.held) == (at(500), frozenset())
    assert (free.exit_point(None), free.exit_point(at(700))) == (None, at(700))
    waiting = CheckpointPoints.of(at(500), at(500), [group(SHARD, 300), group(OTHER, 200)])
    assert (waiting.again, waiting.held, waiting.moves_tables) == (at(200), frozenset({SHARD, OTHER}), True)
    assert waiting.exit_point(None) == at(500), (
        "what follows the global point may be there, up to the position of the sync"
    )
    piece = HeldRows(Table(SHARD, (), ()), at(205), at(400), at(205), SHARD)
    resyncing = Group(TableName("shop", "t"), resync=Resync((piece,)))
    assert CheckpointPoints.of(at(500), at(500), [resyncing]).again == at(205)
    prepared = CheckpointPoints.of(at(500), at(100), [])
    assert (prepared.again, prepared.moves_tables) == (at(100), False), "rows of XA transactions are not committed yet"
    assert CheckpointPoints.of(at(500), at(500), [], uncertain=at(900)).exit_point(None) == at(900)


def point(text: str) -> DmPoint:
    """`file:position[/gtid set]`, with DM's suffix first: `2|file:position`."""
    place, _, gtid_set = text.partition("/")
    suffix, _, rest = place.rpartition("|")
    file, _, position = rest.partition(":")
    return DmPoint(Location(file, int(position), suffix=int(suffix or 0)), gtid_set)


@pytest.mark.parametrize(
    ("one", "other", "by_gtid", "ahead"),
    [
        ("a.000001:5", "a.000001:4", False, True),
        ("a.000001:4", "a.000001:4", False, False),
        ("a.1000000:4", "a.999999:9", False, True),
        ("a.000001:5", "b.000001:4", False, None),
        ("1|a.000001:5", "a.000001:4", False, True),
        ("2|a.000001:4", "1|a.000009:5", False, True),
        ("1|a.000009:5", "2|a.000001:4", False, False),
        ("2|a.000001:4", "a.000009:5", False, None),
        (f"a.000001:5/{UUID}:1-5", f"a.000001:9/{UUID}:1-4", False, False),
        (f"a.000001:5/{UUID}:1-5", f"b.000001:9/{UUID}:1-4", True, True),
        (f"a.000001:5/{UUID}:1-4", f"a.000001:4/{UUID}:1-4", True, True),
        (f"a.000001:4/{UUID}:1-4", f"a.000001:5/{UUID}:1-4", True, False),
        (f"b.000001:5/{UUID}:1-4", f"a.000001:4/{UUID}:1-4", True, False),
        (f"a.000001:5/{UUID}:1-4", f"a.000001:4/{UUID}:2-5", True, None),
        (f"a.000001:5/{UUID}:1-4", "a.000001:4", True, True),
        ("a.000001:5/0-1-7", "a.000001:9/0-1-6", True, True),
        ("a.000001:5/0-1-7,1-2-3", "a.000001:9/0-1-8", True, None),
    ],
)
def test_points_are_compared_as_dm_does(one: str, other: str, by_gtid: bool, ahead: bool | None) -> None:
    assert is_after(point(one), point(other), by_gtid=by_gtid) is ahead


def test_older_releases_of_dm_wrote_names_in_lower_case() -> None:
    tables = [TableName("Shop", "Orders"), TableName("shop", "users"), TableName("shop", "Users")]
    assert source_name(TableName("shop", "orders"), tables) == TableName("Shop", "Orders")
    assert source_name(TableName("shop", "users"), tables) == TableName("shop", "users")
    assert source_name(TableName("shop", "USERS"), tables) == TableName("shop", "USERS")


@pytest.mark.parametrize("names", [("Orders", "orders"), ("orders", "Orders")])
def test_the_exact_name_counts_before_one_in_lower_case(names: tuple[str, str]) -> None:
    exact = TableName("shop", "Orders")
    info = {
        TableName("shop", name): TablePoint(point("a.000001:9" if name == "Orders" else "a.000001:5")) for name in names
    }
    endpoint = Endpoint("target", "127.0.0.1", 1, "nobody")
    start = DmStart.of(DmCheckpoint("t", "s1", point("a.000001:4"), None, info), endpoint, by_gtid=False)
    assert start.for_tables([exact], lambda _: True).checkpoint.tables == {exact: TablePoint(point("a.000001:9"))}


def row(**cells: object) -> dict[str, object]:
    plain: dict[str, object] = {"id": "s1", "cp_schema": "", "cp_table": "", "binlog_name": "a.000001", "binlog_pos": 9}
    nothing = {"binlog_gtid": None, "table_info": "null", "is_global": 1}
    leaving = {"exit_safe_binlog_name": "", "exit_safe_binlog_pos": 0, "exit_safe_binlog_gtid": None}
    return {**plain, **nothing, **leaving, **cells}


@pytest.mark.parametrize(
    "rows",
    [
        [row(), row()],
        [row(binlog_name="../../etc/passwd")],
        [row(), row(is_global=0, cp_table="t", binlog_name="")],
        [row(), row(is_global=0, cp_table="t", table_info="{")],
        [row(), row(is_global=0, cp_table="t", table_info="[1]")],
        [row(binlog_name="", binlog_pos=4), row(is_global=0, cp_table="t")],
    ],
)
def test_rows_without_the_needed_values_are_refused(rows: list[dict[str, object]]) -> None:
    with pytest.raises(CheckpointUnusable):
        checkpoint_of("dm_meta.t_syncer_checkpoint", "s1", rows)


def test_rows_that_dm_ignores_are_no_checkpoint() -> None:
    assert checkpoint_of("t", "s1", []) is None
    assert checkpoint_of("t", "s1", [row(binlog_name="", binlog_pos=4)]) is None
    assert checkpoint_of("t", "s1", [row(id="S1")]) is None, "another source, where a collation knows no case"
    found = checkpoint_of("t", "s1", [row(binlog_name="bin|000002.000007", exit_safe_binlog_gtid="0-1-5")])
    assert found is not None
    assert (found.point, found.exit_safe) == (point("2|bin.000007:9"), DmPoint(None, "0-1-5"))
