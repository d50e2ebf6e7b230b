"""Definitions of tables survive being written; a file that holds none is refused."""

from pathlib import Path

import pytest

from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.definitions_file import read_definitions, write_definitions
from tests.unit.ddl.tracked import table_of

TABLES = (
    table_of("id int PRIMARY KEY, e enum('ö')", TableName("shop", "größe")),
    table_of("v text CHARACTER SET latin1", TableName("shop", "keyless")),
)


def test_a_definitions_file_is_read_as_written(tmp_path: Path) -> None:
    write_definitions(tmp_path / "tables.json", TABLES)
    assert read_definitions(tmp_path / "tables.json") == TABLES


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"tables": [{"name": ["a", "b"]}]}', '{"tables": 1}', '"tables"'])
def test_a_file_without_definitions_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "tables.json").write_text(text)
    with pytest.raises(InvalidInput, match=r"tables\.json"):
        read_definitions(tmp_path / "tables.json")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file"):
        read_definitions(tmp_path / "tables.json")
