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
OF_TIDB = ("Warning", 1265, "Data truncated for column '%s' at row %d")


@pytest.mark.parametrize(("warnings", "stops"), [([], True), ([OF_TIDB], False), ([OF_TIDB, OF_TIDB], True)])
def test_warnings_that_name_no_place_are_counted(
    monkeypatch: pytest.MonkeyPatch, warnings: list[tuple[str, int, str]], stops: bool
) -> None:
    connection, sent = MagicMock(), []
    connection.cursor().__enter__().warning_count = len(warnings)
    connection.cursor().__enter__().execute.side_effect = lambda sql: sent.append(sql) or 1

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
