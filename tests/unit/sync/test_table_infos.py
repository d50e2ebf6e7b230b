"""The table documents in DM's checkpoint are written again if a definition or a schema's collation has changed."""

import json
from typing import Any

from airflow_provider_dm.engine.ddl.server import Server
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.sync.checkpoint import table_info_of

MYSQL = Server(Flavour.MYSQL, (9, 7, 0))
T = TableName("shop", "t")
CREATE = "CREATE TABLE t (id int PRIMARY KEY, v varchar(9))"


def test_a_table_info_is_made_once_for_a_definition_and_its_schemas_collation() -> None:
    first = table_info_of(MYSQL, T, CREATE, "utf8mb4_bin")
    assert _columns(first) == {"id": "binary", "v": "utf8mb4_bin"}
    assert table_info_of(MYSQL, T, CREATE, "utf8mb4_bin") is first, "made again"
    assert _columns(table_info_of(MYSQL, T, CREATE, "utf8mb4_general_ci"))["v"] == "utf8mb4_general_ci"
    assert table_info_of(MYSQL, T, "?", "utf8mb4_bin") is None, "TiDB has no such"


def _columns(info: str | None) -> dict[str, str]:
    assert info is not None
    found: dict[str, Any] = json.loads(info)
    return {column["name"]["O"]: column["type"]["Collate"] for column in found["cols"]}
