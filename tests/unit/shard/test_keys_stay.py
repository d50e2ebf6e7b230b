"""DDL of a held shard that keeps the keys which identify its rows, and DDL that does not."""

import pytest

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.schema.model import Column, Index, Table
from airflow_provider_dm.engine.shard.group import Member, ShardDdl, keeps_keys

NAME = TableName("shop", "o_1")
ID, V = Column("id", 0, "int", "int", False), Column("v", 1, "varchar", "varchar(20)", True)
PRIMARY, UNIQUE = Index("PRIMARY", ("id",)), Index("v", ("v",))
W = Column("w", 2, "int", "int", False)
BASE = Table(NAME, (ID, V, W), (PRIMARY, UNIQUE))


def place(position: int) -> Location:
    return Location("bin.000001", position)


def item(at: int, table: Table) -> ShardDdl:
    return ShardDdl(place(at), place(at + 1), (), table, place(at), {})


@pytest.mark.parametrize(
    ("form", "stay"),
    [
        (Table(NAME, (ID, V), (PRIMARY, UNIQUE)), False),
        (
            Table(
                NAME,
                (Column("c", 0, "int", "int", True), Column("ID", 1, "int", "int", False), V, W),
                (PRIMARY, UNIQUE),
            ),
            True,
        ),
        (Table(NAME, (ID, Column("v", 1, "varchar", "varchar(60)", True), W), (PRIMARY, UNIQUE)), True),
        (Table(NAME, (Column("id", 0, "bigint", "bigint", False), V, W), (PRIMARY, UNIQUE)), False),
        (Table(NAME, (ID, Column("v", 1, "varchar", "varchar(20)", False), W), (PRIMARY, UNIQUE)), False),
        (Table(NAME, (ID, V, W), (PRIMARY,)), False),
        (Table(NAME, (ID, V, W), (Index("PRIMARY", ("id", "v")), UNIQUE)), False),
    ],
    ids=[
        "without a column of the target's key",
        "a new column",
        "another length",
        "another type",
        "not null",
        "without a key",
        "another key",
    ],
)
def test_rows_are_identified_as_before(form: Table, *, stay: bool) -> None:
    assert keeps_keys(Member(NAME, BASE, (item(10, BASE), item(20, form))), {"id", "w"}) is stay
