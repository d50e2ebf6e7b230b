"""The store's contract on PostgreSQL. test_hostile.py has MySQL and MariaDB, with unusual settings."""

import uuid
from functools import partial

import pytest
from sqlalchemy import Connection, create_engine, text

from airflow_provider_dm.engine.errors import Reaction
from airflow_provider_dm.engine.meta import tables
from airflow_provider_dm.engine.meta.database import Database
from airflow_provider_dm.engine.meta.errors import MetaRefused, MetaUnreachable
from airflow_provider_dm.engine.meta.migrate import migrate
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.meta.url import parse_url
from airflow_provider_dm.engine.processes import Holder
from testbed import Server
from tests.conftest import FreshSchema
from tests.meta_contract import StoreContract
from tests.meta_contract.schema import SchemaContract


def url_of(server: Server, scheme: str, database: str) -> str:
    return f"{scheme}://{server.user}@{server.host}:{server.port}/{database}"


class ServerContract(StoreContract):
    """All tests of a module in its `shared_url`; and what SQLite, which knows no lengths, cannot show."""

    @pytest.fixture
    def meta_url(self, shared_url: str) -> str:
        database = Database(parse_url(shared_url))
        for table in tables.metadata.tables.values():
            database.write(partial(Connection.execute, statement=table.delete()))
        return shared_url

    def test_a_value_that_does_not_fit_is_an_error_without_a_retry(self, store: MetaStore) -> None:
        with pytest.raises(MetaRefused) as refusal:
            store.start_run("r" * 300, task="t", app="verify", holder=Holder("i", "1", "h"))
        assert refusal.value.reaction is Reaction.STOP


def new_database(postgres: str) -> str:
    name = f"t_{uuid.uuid4().hex[:12]}"
    engine = create_engine(f"{postgres}/postgres".replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return f"{postgres}/{name}"


class TestSchemaOnPostgresql(SchemaContract):
    @pytest.fixture
    def empty_url(self, postgres: str) -> str:
        return new_database(postgres)


@pytest.fixture(scope="module")
def shared_url(postgres: str) -> str:
    migrate(url := new_database(postgres))
    return url


class TestOnPostgresql(ServerContract):
    pass


def test_mariadb_also_answers_to_a_mysql_url(mariadb_target: Server, fresh_schema: FreshSchema) -> None:
    url = url_of(mariadb_target, "mysql", fresh_schema(mariadb_target))
    migrate(url)
    MetaStore.open(url).close()


def test_a_wrong_password_is_not_shown(target: Server) -> None:
    target.create_user("dm_meta_test", "right-password")
    with pytest.raises(MetaUnreachable) as refusal:
        MetaStore.open(f"mysql://dm_meta_test:hunter2@{target.host}:{target.port}/x")
    assert "(1045," in str(refusal.value)  # the words are in the server's language
    assert "hunter2" not in str(refusal.value)
