"""The hooks against real servers: what the Test button says, and what an Airflow connection means to the engine."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException
from sqlalchemy.engine import make_url

from airflow_provider_dm.engine.meta.store import MetaSchemaOutdated
from airflow_provider_dm.engine.mysql.endpoint import Secret, Tls
from airflow_provider_dm.hooks.checkpoint import CheckpointHook
from airflow_provider_dm.hooks.database import DmDatabaseHook, endpoint_of
from airflow_provider_dm.hooks.errors import ConnectionUnusable
from airflow_provider_dm.hooks.metadata import DmMetadataHook, url_of
from testbed import Server

CANARY = "c4nary/@:pass word"

Define = Callable[..., None]


def database(server: Server, **more: object) -> dict[str, object]:
    return {"conn_type": "dm_database", "host": server.host, "port": server.port, "login": "root", **more}


# dm_database


def test_a_connection_becomes_an_endpoint() -> None:
    extra = '{"tls_ca": "/ca.pem", "session": {"tidb_mem_quota_query": 1}}'
    given = Connection(conn_id="replica", conn_type="mysql", host="db1", login="dm", password="secret", extra=extra)
    found = endpoint_of(given, "replica-01")
    assert (found.host, found.port, found.user) == ("db1", 3306, "dm")
    assert found.password == Secret("secret")
    assert found.tls == Tls("/ca.pem", None, None)
    assert found.session == (("tidb_mem_quota_query", "1"),)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [({"conn_type": "http", "host": "x"}, "its type is http"), ({"conn_type": "mysql"}, "it has no host")],
)
def test_an_unusable_connection_says_why(parts: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConnectionUnusable, match=reason):
        endpoint_of(Connection(conn_id="replica", **parts), "replica")


def test_the_test_button_names_version_and_roles(source: Server, connection: Define) -> None:
    connection("replica", **database(source))
    ok, said = DmDatabaseHook("replica").test_connection()
    assert ok
    assert source.version.split("-")[0] in said
    assert "As a source: ready. As a target: ready." in said


def test_the_test_button_names_grants_that_lack(source: Server, connection: Define) -> None:
    source.create_user("reader", CANARY, privileges="SELECT")
    connection("replica", **database(source) | {"login": "reader", "password": CANARY})
    ok, said = DmDatabaseHook("replica").test_connection()
    assert ok
    assert "As a source: not granted globally: REPLICATION SLAVE, REPLICATION CLIENT." in said
    assert "As a target: not granted globally: INSERT" in said


def test_a_wrong_password_is_told_without_it(source: Server, connection: Define) -> None:
    connection("replica", **database(source, password=CANARY))
    ok, said = DmDatabaseHook("replica").test_connection()
    assert not ok
    assert "denies access" in said
    assert CANARY not in said


def test_a_server_that_is_not_there(connection: Define) -> None:
    connection("replica", conn_type="dm_database", host="127.0.0.1", port=1, password=CANARY)
    ok, said = DmDatabaseHook("replica").test_connection()
    assert not ok
    assert "cannot connect" in said
    assert CANARY not in said


def test_a_server_of_another_flavour(mariadb_source: Server, connection: Define) -> None:
    connection("replica", **database(mariadb_source, extra={"flavour": "mysql"}))
    ok, said = DmDatabaseHook("replica").test_connection()
    assert not ok
    assert "is mariadb; its connection says that it is mysql" in said


def test_a_session_is_pinned(mariadb_source: Server, connection: Define) -> None:
    connection("replica", **database(mariadb_source))
    with DmDatabaseHook("replica").get_conn() as session, session.cursor() as cursor:
        cursor.execute("SELECT @@time_zone")
        assert cursor.fetchone() == (b"+00:00",)


# dm_meta


def test_without_a_connection_it_is_a_file_of_this_machine(work_dir: Path) -> None:
    with DmMetadataHook().get_store() as store:
        assert store.list_runs() == []
    assert (work_dir / "meta.db").exists()
    assert DmMetadataHook().test_connection()[0]


def test_a_connection_that_was_named_must_exist(work_dir: Path) -> None:
    with pytest.raises(AirflowNotFoundException):
        DmMetadataHook("production").get_store()
    assert not DmMetadataHook("production").test_connection()[0]


def test_no_character_of_a_password_is_special() -> None:
    parts: dict[str, Any] = {"conn_type": "dm_meta", "host": "db1", "port": 3306, "login": "dm", "schema": "dm_meta"}
    url = make_url(url_of(Connection(conn_id="meta", **parts, password=CANARY)).reveal())
    assert (url.drivername, url.host, url.port, url.database) == ("mysql+pymysql", "db1", 3306, "dm_meta")
    assert url.password == CANARY


def test_a_server_is_migrated_by_a_person(mysql_target: Server, unique_database: str, connection: Define) -> None:
    from airflow_provider_dm.engine.meta.migrate import migrate

    mysql_target.sql(f"CREATE DATABASE `{unique_database}`")
    mysql_target.create_user("meta", CANARY)
    where = database(mysql_target, schema=unique_database, password=CANARY)
    connection("dm_meta_default", **where | {"conn_type": "dm_meta", "login": "meta"})
    hook = DmMetadataHook()

    ok, said = hook.test_connection()
    assert ok
    assert "dmctl meta migrate" in said
    with pytest.raises(MetaSchemaOutdated):
        hook.get_store()

    migrate(hook.url())
    ok, said = hook.test_connection()
    assert ok
    assert "as this release needs it" in said
    assert CANARY not in said
    hook.get_store().close()


def test_a_metadata_db_that_is_not_there(connection: Define) -> None:
    connection("dm_meta_default", conn_type="dm_meta", host="127.0.0.1", port=1, schema="x", password=CANARY)
    ok, said = DmMetadataHook().test_connection()
    assert not ok
    assert CANARY not in said


# checkpoints


def test_a_target_that_knows_nothing_has_no_checkpoint(mariadb_target: Server, connection: Define) -> None:
    connection("target", **database(mariadb_target))
    assert CheckpointHook("target", meta_schema="not_there").get("task", "replica-01") is None
