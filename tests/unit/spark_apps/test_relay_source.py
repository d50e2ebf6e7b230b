"""The options of `dm_relay`. What it reads is in tests/integration/relay/test_audit.py."""

import pytest

from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.mysql.identifiers import TableName
from spark_apps.relay_source import SourceOptions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "source"),
        ({"source": "a", "definitions": "b"}, "source"),
        ({"definitions": "b", "task": "t"}, "source.yaml"),
        ({"definitions": "b", "table": "t"}, "SCHEMA.TABLE"),
        ({"definitions": "b", "text": "hex"}, "string or binary"),
        ({"definitions": "b", "undefined": "guess"}, "stop or skip"),
        ({"definitions": "b", "piece-bytes": "0"}, "number of bytes"),
        ({"definitions": "b", "password": "x"}, "not known"),
    ],
    ids=str,
)
def test_an_option_that_is_not_understood_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        SourceOptions.of({"path": "/nowhere", **options})


def test_a_path_is_needed() -> None:
    with pytest.raises(InvalidInput, match="relay directory"):
        SourceOptions.of({"definitions": "b"})


def test_names_of_options_are_compared_without_case() -> None:
    assert SourceOptions.of({"PATH": "/a", "Definitions": "b", "Piece-Bytes": "7"}).piece_bytes == 7


def test_rows_of_the_servers_own_tables_are_left_out_unless_they_are_requested() -> None:
    given = {"path": "/a", "definitions": "b"}
    own, other = TableName("mysql", "gtid_slave_pos"), TableName("shop", "orders")
    assert [SourceOptions.of(given).wants(name) for name in (own, other)] == [False, True]
    assert [SourceOptions.of({**given, "schema": "mysql"}).wants(name) for name in (own, other)] == [True, False]
    assert [SourceOptions.of({**given, "table": "shop.orders"}).wants(name) for name in (own, other)] == [False, True]


def test_with_a_schema_option_the_table_name_is_not_split() -> None:
    asked = SourceOptions.of({"path": "/a", "definitions": "b", "schema": "a.b", "table": "c.d"})
    assert asked.table == TableName("a.b", "c.d")
    assert asked.wants(TableName("a.b", "c.d"))
