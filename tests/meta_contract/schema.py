"""The schema: made, brought up, refused."""

from typing import Any

import pytest
from alembic import command
from sqlalchemy import inspect, text

from airflow_provider_dm.engine.meta import tables
from airflow_provider_dm.engine.meta.database import Database
from airflow_provider_dm.engine.meta.migrate import alembic_config, migrate
from airflow_provider_dm.engine.meta.model import (
    Stage,
)
from airflow_provider_dm.engine.meta.store import MetaSchemaOutdated, MetaStore
from airflow_provider_dm.engine.meta.url import parse_url
from tests.meta_contract.opened import OpenStore
from tests.meta_contract.races import race


class SchemaContract(OpenStore):
    """What holds of the tables and their version."""

    def test_an_empty_database_says_what_to_run(self, meta_url: str) -> None:
        with pytest.raises(MetaSchemaOutdated, match="dmctl meta migrate"):
            MetaStore.open(meta_url)

    def test_migrating_again_changes_nothing(self, meta_url: str) -> None:
        migrate(meta_url)
        migrate(meta_url)
        MetaStore.open(meta_url).close()

    def test_a_newer_schema_is_refused(self, meta_url: str, store: MetaStore) -> None:
        Database(parse_url(meta_url)).write(lambda tx: tx.execute(text("UPDATE dm_meta_version SET version_num='9'")))
        with pytest.raises(MetaSchemaOutdated, match="has schema version 9"):
            MetaStore.open(meta_url)

    def test_migrations_lead_to_the_tables_that_the_code_uses(self, meta_url: str, store: MetaStore) -> None:
        def columns(tx: Any) -> dict[str, set[str]]:
            return {name: {c["name"] for c in inspect(tx).get_columns(name)} for name in tables.metadata.tables}

        wanted = {name: set(table.columns.keys()) for name, table in tables.metadata.tables.items()}
        assert Database(parse_url(meta_url)).read(columns) == wanted

    def test_an_older_schema_is_brought_up_with_what_it_holds(self, meta_url: str) -> None:
        """Also where the step was begun and its last part is missing, as MySQL commits each DDL by itself."""
        database = Database(parse_url(meta_url))
        with database.connection() as connection, connection.begin():
            command.upgrade(alembic_config(connection), "0001")
            row = {"task": "t", "source": "s", "version": 3, "unit": "sync", "stage": "Paused", "updated_at": 1}
            columns = ", ".join(row)
            values = ", ".join(f":{name}" for name in row)
            connection.execute(text(f"INSERT INTO dm_subtask_status ({columns}) VALUES ({values})"), row)
            connection.execute(text("ALTER TABLE dm_subtask_status ADD COLUMN error text"))
        migrate(meta_url)
        with MetaStore.open(meta_url) as store:
            (status,) = store.list_subtasks()
            assert (status.stage, status.error, status.error_at) == (Stage.PAUSED, None, None)

    def test_several_may_migrate_at_once(self, meta_url: str) -> None:
        assert race(migrate_and_open, 4, meta_url) == ["ok"] * 4


def migrate_and_open(meta_url: str, number: int) -> str:
    migrate(meta_url)
    MetaStore.open(meta_url).close()
    return "ok"
