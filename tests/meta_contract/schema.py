"""The schema: made, brought up, refused."""

from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, inspect, text

from airflow_provider_dm.engine.meta import tables
from airflow_provider_dm.engine.meta.database import Database
from airflow_provider_dm.engine.meta.errors import MetaSchemaDiffers
from airflow_provider_dm.engine.meta.migrate import migrate
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.meta.url import parse_url
from tests.meta_contract.races import race


class SchemaContract:
    """What holds of the tables and their version. A subclass gives `empty_url`, a database of each test's own."""

    @pytest.fixture
    def meta_url(self, empty_url: str) -> str:
        migrate(empty_url)
        return empty_url

    def test_an_empty_database_is_an_error_with_the_command_to_run(self, empty_url: str) -> None:
        with pytest.raises(MetaSchemaDiffers, match="dmctl meta migrate"):
            MetaStore.open(empty_url)

    def test_migrating_again_changes_nothing(self, meta_url: str) -> None:
        migrate(meta_url)
        MetaStore.open(meta_url).close()

    def test_a_schema_of_another_release_is_refused(self, meta_url: str) -> None:
        Database(parse_url(meta_url)).write(lambda tx: tx.execute(text("UPDATE dm_meta_version SET version_num='9'")))
        with pytest.raises(MetaSchemaDiffers, match="has schema version 9"):
            MetaStore.open(meta_url)
        with pytest.raises(MetaSchemaDiffers, match="an empty metadata DB"):
            migrate(meta_url)

    def test_migrations_lead_to_the_tables_that_the_code_uses(self, meta_url: str) -> None:
        def columns(tx: Any) -> dict[str, set[str]]:
            return {name: {c["name"] for c in inspect(tx).get_columns(name)} for name in tables.metadata.tables}

        wanted = {name: set(table.columns.keys()) for name, table in tables.metadata.tables.items()}
        assert Database(parse_url(meta_url)).read(columns) == wanted

    def test_tables_that_a_migration_has_left_half_made_are_completed(self, meta_url: str) -> None:
        """MySQL commits each DDL by itself."""
        database = Database(parse_url(meta_url))
        for name in ("dm_meta_version", "dm_relay"):
            database.write(partial(Connection.execute, statement=text(f"DROP TABLE {name}")))
        migrate(meta_url)
        with MetaStore.open(meta_url) as again:
            assert again.relay_status("s") is None

    def test_several_may_migrate_at_once(self, empty_url: str) -> None:
        assert race(migrate_and_open, 4, empty_url) == ["ok"] * 4


def migrate_and_open(meta_url: str, number: int) -> str:
    migrate(meta_url)
    MetaStore.open(meta_url).close()
    return "ok"
