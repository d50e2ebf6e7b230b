"""DDL of a held shard that keeps the keys which identify its rows, and DDL that does not."""

import pytest

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.shard.group import Member, ShardDdl, keeps_keys
from tests.unit.ddl.tracked import table_of

NAME = TableName("shop", "o_1")
KEYS = "PRIMARY KEY (id), UNIQUE KEY v (v)"
BASE = table_of(f"id int NOT NULL, v varchar(20), w int NOT NULL, {KEYS}", NAME)


def place(position: int) -> Location:
    return Location("bin.000001", position)


def item(at: int, table: Table) -> ShardDdl:
    return ShardDdl(place(at), place(at + 1), (), table, place(at), {})


FORMS = {
    "without a column of the target's key": (f"id int NOT NULL, v varchar(20), {KEYS}", False),
    "a new column": (f"c int, ID int NOT NULL, v varchar(20), w int NOT NULL, {KEYS}", True),
    "another length": (f"id int NOT NULL, v varchar(60), w int NOT NULL, {KEYS}", True),
    "another type": (f"id bigint NOT NULL, v varchar(20), w int NOT NULL, {KEYS}", False),
    "not null": (f"id int NOT NULL, v varchar(20) NOT NULL, w int NOT NULL, {KEYS}", False),
    "without a key": ("id int NOT NULL, v varchar(20), w int NOT NULL, PRIMARY KEY (id)", False),
    "another key": ("id int NOT NULL, v varchar(20), w int NOT NULL, PRIMARY KEY (id, v), UNIQUE KEY v (v)", False),
}


@pytest.mark.parametrize(("form", "stay"), FORMS.values(), ids=FORMS)
def test_rows_are_identified_as_before(form: str, *, stay: bool) -> None:
    assert keeps_keys(Member(NAME, BASE, (item(10, BASE), item(20, table_of(form, NAME)))), {"id", "w"}) is stay
