"""A migration of the metadata DB cannot be undone."""

import pytest
from alembic import command

from airflow_provider_dm.engine.meta.database import Database
from airflow_provider_dm.engine.meta.errors import NoWayBack
from airflow_provider_dm.engine.meta.migrate import alembic_config
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.meta.tables import SCHEMA_VERSION
from airflow_provider_dm.engine.meta.url import parse_url


def test_a_downgrade_is_refused_and_changes_nothing(meta_url: str) -> None:
    database = Database(parse_url(meta_url))

    with pytest.raises(NoWayBack, match=rf"DM-8012 .* revision {SCHEMA_VERSION} .* Restore a backup"):
        with database.connection() as connection, connection.begin():
            command.downgrade(alembic_config(connection), "base")

    database.close()
    with MetaStore.open(meta_url) as store:
        assert store.list_runs() == []
