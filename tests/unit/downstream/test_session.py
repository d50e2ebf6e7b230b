"""A statement that needs another sql_mode of its session."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from airflow_provider_dm.engine.downstream import session
from airflow_provider_dm.engine.downstream.errors import TargetWarned
from airflow_provider_dm.engine.downstream.statements import Statement, Verb
from airflow_provider_dm.engine.mysql.identifiers import TableName

STATEMENT = Statement(
    b"INSERT INTO a.t VALUES (1,0)", 1, TableName("a", "t"), Verb.INSERT, frozenset({("e", 1)}), session_mode="LENIENT"
)
EXPECTED = ("Warning", 1265, "Data truncated for column 'e' at row 1")
OTHER = ("Warning", 1265, "Data truncated for column 'e' at row 2")


@pytest.mark.parametrize(("warnings", "stops"), [([], True), ([EXPECTED], False), ([EXPECTED, OTHER], True)])
def test_the_mode_ends_with_the_statement(
    monkeypatch: pytest.MonkeyPatch, warnings: list[tuple[str, int, str]], stops: bool
) -> None:
    connection, sent = MagicMock(), list[Any]()
    cursor = connection.cursor().__enter__()
    cursor.warning_count = len(warnings)

    def execute(sql: bytes) -> int:
        sent.append(sql)
        return 1

    cursor.execute = execute

    def query(_: object, sql: str) -> list[Any]:
        sent.append(sql)
        return warnings if sql == "SHOW WARNINGS" else []

    monkeypatch.setattr(session, "query", query)
    if stops:
        with pytest.raises(TargetWarned):
            session.execute(connection, STATEMENT)
    else:
        assert session.execute(connection, STATEMENT) == 1
    before = "SET @dm_sql_mode = @@sql_mode, sql_mode = 'LENIENT'"
    assert sent == [before, STATEMENT.sql, "SHOW WARNINGS", "SET sql_mode = @dm_sql_mode"]
