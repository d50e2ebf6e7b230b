"""A metadata DB that does not answer: one caller waits, until a call succeeds again."""

import socket
import sqlite3
import threading
from pathlib import Path

import pytest

from airflow_provider_dm.engine.meta import database
from airflow_provider_dm.engine.meta.database import Database
from airflow_provider_dm.engine.meta.errors import MetaUnreachable
from airflow_provider_dm.engine.meta.url import parse_url


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "SQLITE_BUSY_SECONDS", 1)
    monkeypatch.setattr(database, "CONNECT_SECONDS", 1)
    monkeypatch.setattr(database, "ANSWER_SECONDS", 1)
    monkeypatch.setattr(database, "AWAY_AFTER_SECONDS", 0.0)


@pytest.mark.parametrize("scheme", ["mysql", "postgresql"])
def test_an_unreachable_metadata_db_is_not_awaited_twice(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "POLL_SECONDS", 1e6)
    callers = 0
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"{scheme}://dm@127.0.0.1:{silent.getsockname()[1]}/meta"
        here = Database(parse_url(url))
        for _ in range(20):
            with pytest.raises(MetaUnreachable):
                here.read(lambda tx: tx)
        silent.settimeout(0)
        while callers < 20:
            try:
                silent.accept()
            except BlockingIOError:
                break
            callers += 1
        here.close()

    assert callers == 1


def test_the_metadata_db_is_used_again_once_it_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "POLL_SECONDS", 0.01)
    here = Database(parse_url(f"sqlite:///{tmp_path / 'meta.db'}"))
    with sqlite3.connect(tmp_path / "meta.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(MetaUnreachable, match="locked"):
            here.write(lambda tx: tx)
        asking = [one for one in threading.enumerate() if one.name == "metadata-db"]
        other.execute("COMMIT")

    for one in asking:
        one.join()
    assert len(asking) == 1
    assert here.write(lambda tx: 7) == 7
    here.close()
