"""The table documents in DM's checkpoint are written again if a definition or a schema's collation has changed."""

import json
from typing import Any

from airflow_provider_dm.engine.ddl.server import Server
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.sync.checkpoint import TableInfos

MYSQL = Server(Flavour.MYSQL, (9, 7, 0))
T, U, V = TableName("shop", "t"), TableName("shop", "u"), TableName("shop", "v")
DEFINITIONS = {T: "CREATE TABLE t (id int PRIMARY KEY, v varchar(9))", U: "CREATE TABLE u (id int PRIMARY KEY)", V: "?"}
BINARY, GENERAL = {"shop": "utf8mb4_bin"}, {"shop": "utf8mb4_general_ci"}


def test_a_table_info_is_cached_until_its_definition_changes() -> None:
    infos = TableInfos()
    first = infos.of(MYSQL, DEFINITIONS, BINARY)
    assert _columns(first[T]) == {"id": "binary", "v": "utf8mb4_bin"}
    assert first[V] is None, "TiDB has no such"

    altered = infos.of(MYSQL, {**DEFINITIONS, U: "CREATE TABLE u (id int PRIMARY KEY, w char(1))"}, BINARY)
    assert altered[T] is first[T], "made again"
    assert _columns(altered[U]) == {"id": "binary", "w": "utf8mb4_bin"}

    collated = infos.of(MYSQL, DEFINITIONS, GENERAL)
    assert _columns(collated[T]) == {"id": "binary", "v": "utf8mb4_general_ci"}
    assert _columns(collated[U]) == {"id": "binary"}

    assert infos.of(MYSQL, {T: DEFINITIONS[T]}, GENERAL).keys() == {T}


def _columns(info: str | None) -> dict[str, str]:
    assert info is not None
    found: dict[str, Any] = json.loads(info)
    return {column["name"]["O"]: column["type"]["Collate"] for column in found["cols"]}
