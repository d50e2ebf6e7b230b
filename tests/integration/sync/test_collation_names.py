"""The collations that the log names by number, asked for on real servers."""

from contextlib import closing

import pymysql
import pytest

from airflow_provider_dm.engine.mysql.connection import Connection, query
from airflow_provider_dm.engine.sync import following
from testbed import Server


def test_every_collation_has_its_name(source: Server) -> None:
    with closing(source.connect()) as connection:
        names = following._collation_names(connection)
        for collation in ("utf8mb4_bin", "uca1400_ai_ci", "utf8mb4_0900_ai_ci"):
            try:
                query(connection, f"SET NAMES utf8mb4 COLLATE {collation}")
            except pymysql.err.OperationalError:
                continue  # of the other flavour
            ((shown, number),) = query(
                connection,
                "SELECT @@collation_connection, (SELECT MAX(id) FROM information_schema.collations "
                "WHERE collation_name = @@collation_connection)",
            )
            name = shown if isinstance(shown, str) else shown.decode()
            assert name in names.values()
            assert number is None or names[number] == name


def test_a_lost_connection_does_not_omit_collation_names(source: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was taken for a server without such names: a session with one of them was an unexpected error from then on."""
    asked: list[str] = []

    def query_once(connection: Connection, sql: str) -> list[tuple[object, ...]]:
        if asked:
            ((number,),) = query(connection, "SELECT CONNECTION_ID()")
            source.sql(f"KILL {number}")
        asked.append(sql)
        return query(connection, sql)

    monkeypatch.setattr(following, "query", query_once)
    with closing(source.connect()) as connection, pytest.raises(pymysql.err.Error):
        following._collation_names(connection)
    assert len(asked) == 2
