"""The store's contract on SQLite, and what concerns SQLite alone."""

import sqlite3
import threading
from pathlib import Path

import pytest

from airflow_provider_dm.engine.meta.migrate import alembic_config, migrate
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.meta.tables import SCHEMA_VERSION
from tests.meta_contract import StoreContract
from tests.meta_contract.schema import SchemaContract


class TestOnSqlite(StoreContract):
    def test_readers_do_not_wait_for_writers(self, meta_url: str, tmp_path: Path) -> None:
        with sqlite3.connect(tmp_path / "meta.db") as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


class TestSchemaOnSqlite(SchemaContract):
    @pytest.fixture
    def empty_url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path / 'meta.db'}"

    def test_a_file_that_is_being_written_is_awaited(self, empty_url: str, tmp_path: Path) -> None:
        """Also before it has a WAL, as when another process is about to create it."""
        with sqlite3.connect(tmp_path / "meta.db", isolation_level=None, check_same_thread=False) as other:
            other.execute("CREATE TABLE theirs (id INT)")
            other.execute("BEGIN IMMEDIATE")
            ends = threading.Timer(0.5, other.execute, ["COMMIT"])
            ends.start()
            migrate(empty_url)
            ends.join()
        MetaStore.open(empty_url).close()


def test_the_code_expects_the_newest_revision() -> None:
    from alembic.script import ScriptDirectory

    assert ScriptDirectory.from_config(alembic_config()).get_current_head() == SCHEMA_VERSION
