"""The hooks against real servers: the result of the Test button, and the endpoint of an Airflow connection."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection
from sqlalchemy.engine import make_url

from airflow_provider_dm.engine.config.base import kebab
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.yaml_file import source_of as source_of_document
from airflow_provider_dm.engine.meta.errors import MetaSchemaDiffers
from airflow_provider_dm.engine.meta.records import RelayStatus, Stage, Unit
from airflow_provider_dm.engine.mysql.endpoint import Secret, Tls
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.directory import RelayDirectory, SubDir
from airflow_provider_dm.engine.relay.purge import BeforeFile, BeforeTime
from airflow_provider_dm.engine.relay.purge_order import PurgeOrder
from airflow_provider_dm.get_provider_info import get_provider_info
from airflow_provider_dm.hooks.checkpoint import CheckpointHook
from airflow_provider_dm.hooks.database import DmDatabaseHook, endpoint_of, source_in
from airflow_provider_dm.hooks.errors import ConnectionUnusable
from airflow_provider_dm.hooks.metadata import DmMetadataHook, url_of
from airflow_provider_dm.hooks.relay import RelayLogHook
from airflow_provider_dm.operators.inputs import Files, read_source
from testbed import Server
from tests.airflow.support import Define
from tests.dm_tables import DmTable

CANARY = "c4nary/@:pass word"


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
    [
        ({"conn_type": "http", "host": "x"}, "its type is http"),
        ({"conn_type": "mysql"}, "it has no host"),
        ({"conn_type": "mysql", "host": "x"}, "it has no login"),
        (
            {"conn_type": "mysql", "host": "x", "login": "dm", "extra": '{"tls_ca": "/ca.pem",}'},
            "its extra is not a JSON object",
        ),
        ({"conn_type": "mysql", "host": "x", "login": "dm", "extra": '["/ca.pem"]'}, "its extra is not a JSON object"),
        (
            {"conn_type": "mysql", "host": "x", "login": "dm", "extra": '{"ssl": {"ca": "/ca.pem"}}'},
            "its extra has the unknown key `ssl`",
        ),
        ({"conn_type": "mysql", "host": "x", "login": "dm", "extra": '{"tls": "perhaps"}'}, "neither true nor false"),
    ],
)
def test_an_unusable_connection_is_an_error_with_the_reason(parts: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConnectionUnusable, match=reason):
        endpoint_of(Connection(conn_id="replica", **parts), "replica")


@pytest.mark.parametrize(("value", "tls"), [("false", None), ("0", None), ("", None), ("true", Tls()), ("1", Tls())])
def test_tls_options_of_a_uri_are_text(value: str, tls: Tls | None) -> None:
    given = Connection.from_uri(f"mysql://dm:secret@db1:3306/?tls={value}", conn_id="replica")
    assert endpoint_of(given, "replica").tls == tls


def test_the_test_button_names_version_and_roles(source: Server, connection: Define) -> None:
    connection("replica", **database(source))
    ok, message = DmDatabaseHook("replica").test_connection()
    assert ok
    assert source.version.split("-")[0] in message
    assert message.endswith("Ready as a source. Ready as a target.")


def button(server: Server, connection: Define, *grants: str) -> str:
    """Return what the Test button reports for an account with these grants."""
    server.create_user("button", CANARY, privileges="USAGE")
    try:
        for grant in grants:
            server.sql(f"GRANT {grant} TO button")
        connection("replica", **database(server) | {"login": "button", "password": CANARY})
        ok, message = DmDatabaseHook("replica").test_connection()
    finally:
        server.sql("DROP USER button")
    assert ok
    assert CANARY not in message
    return message


def test_the_test_button_names_what_is_missing_for_a_source(source: Server, connection: Define) -> None:
    message = button(source, connection, "SELECT ON app.*")
    assert re.search(
        r"Not as a source: [A-Z, ]*REPLICATION SLAVE is missing: GRANT [A-Z, ]*SLAVE ON \*\.\* TO 'button'@'%';",
        message,
    )


def test_the_test_button_accepts_the_documented_grants_of_a_source(source: Server, connection: Define) -> None:
    message = button(source, connection, "SELECT ON app.*", "REPLICATION SLAVE, REPLICATION CLIENT ON *.*")
    assert "Ready as a source. Not as a target: INSERT, UPDATE, DELETE, CREATE is missing." in message


def test_the_test_button_accepts_the_documented_grants_of_a_target(mysql_target: Server, connection: Define) -> None:
    of_rows = "SELECT, INSERT, UPDATE, DELETE, CREATE"
    message = button(mysql_target, connection, f"{of_rows}, ALTER, DROP, INDEX ON app.*", f"{of_rows} ON dm_meta.*")
    assert "Ready as a target in app, dm_meta. Not as a source: " in message


# a source in its connection


def test_a_connection_holds_the_whole_source(connection: Define) -> None:
    """Every key of source.yaml but those of the login has a field of the form, and the two mean the same."""
    options = {
        "enable-gtid": True,
        "enable-relay": False,
        "relay-dir": "/data/one",
        "relay-binlog-name": "mysql-bin.000007",
        "relay-binlog-gtid": "",
        "server-id": 7,
        "spool-limit-mb": 99,
        "case-sensitive": True,
        "purge": {"expires": 24},
        "checker": {"backoff-max": "1m"},
        "filters": [{"schema-pattern": "a*", "events": ["drop table"], "action": "Ignore"}],
    }
    of_form = {"flavour", "tls", "tls_ca", "tls_cert", "tls_key", "session"}
    (fields,) = [
        one["conn-fields"] for one in get_provider_info()["connection-types"] if one["connection-type"] == "dm_database"
    ]
    assert set(fields) == set(options) | of_form
    without_effect = {"charset", "meta-dir", "auto-fix-gtid", "tracer"}
    of_file = {kebab(name) for name in SourceConfig.model_fields} - {"source-id", "from-", "flavor", "enable"}
    assert set(options) == of_file - without_effect
    given = Connection(conn_id="one", conn_type="dm_database", host="h", login="l", extra=json.dumps(options))
    assert source_in(given, "one") == source_of_document({"source-id": "one", **options})


def test_options_of_a_uri_are_text(connection: Define) -> None:
    uri = "dm-database://dm:secret@db1:3306/?enable-relay=false&server-id=7&purge=%7B%22expires%22%3A+24%7D"
    found = source_in(Connection.from_uri(f"{uri}&flavour=mariadb", conn_id="one"), "one")
    assert (found.enable_relay, found.server_id, found.purge.expires) == (False, 7, 24)
    assert found.flavor == "mariadb", "the flavour of the connection is that of the source"


def test_relay_dir_of_the_configuration_overrides_that_of_sources(
    connection: Define, monkeypatch: pytest.MonkeyPatch, work_dir: Path, tmp_path: Path
) -> None:
    connection("of/connection", conn_type="dm_database", host="h", login="l", extra={"relay-dir": "/data/one"})
    (tmp_path / "file.yaml").write_text("source-id: of-file\nenable-relay: true\nrelay-dir: /data/two\n")
    given = (str(tmp_path / "file.yaml"), {"source-id": "of-dict"}, "of-nothing", "of-conn")

    def relay_dirs() -> list[str]:
        files = Files(tmp_path)
        return [read_source(one, files, {"of-conn": "of/connection"}).relay_dir for one in given]

    assert relay_dirs() == ["/data/two", "", "", "/data/one"]
    assert RelayLogHook(relay_dir="/data/three").directory("a") == Path("/data/three")
    monkeypatch.setenv("AIRFLOW__DM__RELAY_DIR", "/relays")
    assert relay_dirs() == ["/relays/of-file", "/relays/of-dict", "/relays/of-nothing", "/relays/of-conn"]
    assert RelayLogHook(relay_dir="/data/three").directory("a") == Path("/relays/a")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"password": CANARY}, "denies access"),
        ({"host": "127.0.0.1", "port": 1, "password": CANARY}, "cannot connect"),
        ({"extra": {"server-id": "many"}}, "server-id"),
    ],
    ids=["a wrong password", "an unreachable server", "an invalid option"],
)
def test_the_test_button_names_what_is_wrong_without_the_password(
    given: dict[str, object], reason: str, mysql_source: Server, connection: Define
) -> None:
    connection("replica", **database(mysql_source) | given)
    ok, message = DmDatabaseHook("replica").test_connection()
    assert (ok, reason in message, CANARY in message) == (False, True, False), message


def test_a_server_of_another_flavour(mariadb_source: Server, connection: Define) -> None:
    connection("replica", **database(mariadb_source, extra={"flavour": "mysql"}))
    ok, message = DmDatabaseHook("replica").test_connection()
    assert not ok
    assert "is mariadb; its connection has the flavour mysql" in message
    assert "set the connection's flavour to auto" in message
    connection("replica", **database(mariadb_source, extra={"flavour": "auto"}))
    assert DmDatabaseHook("replica").test_connection()[0]


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


def test_a_connection_that_was_named_must_exist_and_be_reachable(work_dir: Path, connection: Define) -> None:
    with pytest.raises(ConnectionUnusable, match="only the default connection"):
        DmMetadataHook("production").get_store()
    assert not DmMetadataHook("production").test_connection()[0]
    connection("production", conn_type="dm_meta", host="127.0.0.1", port=1, schema="x", password=CANARY)
    ok, message = DmMetadataHook("production").test_connection()
    assert (ok, CANARY in message) == (False, False), "its server does not answer"


def test_no_character_of_a_password_is_special() -> None:
    parts: dict[str, Any] = {"conn_type": "dm_meta", "host": "db1", "port": 3306, "login": "dm", "schema": "dm_meta"}
    url = make_url(url_of(Connection(conn_id="meta", **parts, password=CANARY)).reveal())
    assert (url.drivername, url.host, url.port, url.database) == ("mysql+pymysql", "db1", 3306, "dm_meta")
    assert url.password == CANARY


@pytest.mark.parametrize(
    ("driver", "extra", "query"),
    [
        ("mysql+pymysql", {"tls": True}, {"ssl": "true"}),
        ("mysql+pymysql", {"tls_ca": "/ca.pem"}, {"ssl": "true", "ssl_ca": "/ca.pem"}),
        ("postgresql+psycopg", {"tls": True}, {"sslmode": "require"}),
        (
            "postgresql+psycopg",
            {"tls_ca": "/ca", "tls_cert": "/c", "tls_key": "/k"},
            {"sslmode": "verify-full", "sslrootcert": "/ca", "sslcert": "/c", "sslkey": "/k"},
        ),
        ("mysql+pymysql", {}, {}),
    ],
)
def test_a_metadata_db_is_reached_by_tls(driver: str, extra: dict[str, Any], query: dict[str, str]) -> None:
    given = Connection(
        conn_id="m", conn_type="dm_meta", host="h", schema="d", extra=json.dumps(extra | {"driver": driver})
    )
    assert make_url(url_of(given).reveal()).query == query
    unknown = Connection(conn_id="m", conn_type="dm_meta", host="h", schema="d", extra='{"sslmode": "verify-full"}')
    with pytest.raises(ConnectionUnusable, match="its extra has the unknown key `sslmode`"):
        url_of(unknown)


def test_a_server_is_migrated_by_a_user(mysql_target: Server, unique_database: str, connection: Define) -> None:
    from airflow_provider_dm.engine.meta.migrate import migrate

    mysql_target.sql(f"CREATE DATABASE `{unique_database}`")
    mysql_target.create_user("meta", CANARY)
    where = database(mysql_target, schema=unique_database, password=CANARY)
    connection("dm_meta_default", **where | {"conn_type": "dm_meta", "login": "meta"})
    hook = DmMetadataHook()

    ok, message = hook.test_connection()
    assert ok
    assert "dmctl meta migrate" in message
    with pytest.raises(MetaSchemaDiffers):
        hook.get_store()

    migrate(hook.url())
    ok, message = hook.test_connection()
    assert ok
    assert "which this release needs" in message
    assert CANARY not in message
    hook.get_store().close()


# checkpoints


def test_checkpoints_are_listed_shown_and_reset(mariadb_target: Server, connection: Define, tmp_path: Path) -> None:
    connection("target", **database(mariadb_target))
    connection("meta", conn_type="dm_meta", schema=str(tmp_path / "meta.db"))
    hook = CheckpointHook("target", meta_schema="hook_meta", dm_meta_conn_id="meta")
    assert hook.get("task", "replica-01") is None
    assert hook.show("task", "replica-01") is None
    assert hook.list() == []
    dm = DmTable(mariadb_target, "hook_meta", task="task", source="replica-01")
    dm.create()
    dm.put(Location("mysql-bin.000003", 154))
    shown = hook.show("task", "replica-01")
    assert shown is not None
    assert shown["dm"]["global_point"] == {"binlog_name": "mysql-bin.000003", "binlog_pos": 154, "binlog_gtid": ""}
    assert hook.reset("task", ["replica-01"]) == ["replica-01"]
    assert [(one.task, one.source, one.start) for one in hook.list()] == [("task", "replica-01", None)]
    assert dm.rows() == []
    mariadb_target.sql("DROP DATABASE hook_meta")


# relay logs


@pytest.fixture
def relay_log(work_dir: Path) -> RelayDirectory:
    """Three finished files and the newest one, as a relay of this machine has reported them; a stopped task needs the
    third."""
    directory = RelayDirectory(RelayLogHook().directory("replica-01"))
    folder = directory.folder(SubDir("0-1", 1))
    folder.mkdir(parents=True)
    for number in range(1, 5):
        (folder / f"mysql-bin.{number:06d}").write_bytes(b"\xfebin" + bytes(100))
    directory.repair_index()
    with DmMetadataHook().get_store() as store:
        store.put_relay_status(RelayStatus("replica-01", Stage.RUNNING, sub_dir="0-1.000001"))
        needed = Location("mysql-bin.000003", 4)
        store.put_subtask("shop", "replica-01", unit=Unit.SYNC, stage=Stage.STOPPED, needed=needed)
    return directory


def names(directory: RelayDirectory) -> list[str]:
    return [str(one.file) for sub_dir in directory.sub_dirs() for one in directory.files(sub_dir)]


def test_a_purge_lists_removed_and_kept_files_with_reasons(relay_log: RelayDirectory) -> None:
    hook, wanted = RelayLogHook(), BeforeFile("mysql-bin.000004")

    shown = hook.purge("replica-01", PurgeOrder(wanted, preview=True))

    assert [file.filename for file in shown.files] == ["mysql-bin.000001", "mysql-bin.000002"]
    assert shown.size == 2 * 104
    assert shown.kept == "0-1.000001/mysql-bin.000003 stays: task shop (Stopped) needs mysql-bin.000003:4"
    assert names(relay_log) == [f"mysql-bin.{number:06d}" for number in range(1, 5)]

    assert hook.purge("replica-01", PurgeOrder(wanted)) == shown
    assert names(relay_log) == ["mysql-bin.000003", "mysql-bin.000004"]


def test_a_purge_before_a_moment(relay_log: RelayDirectory) -> None:
    moment = 1e9
    for file in RelayLogHook().list_files("replica-01")[:1]:
        os.utime(file.path, (moment - 1, moment - 1))

    purged = RelayLogHook().purge("replica-01", PurgeOrder(BeforeTime(moment)))

    assert [file.filename for file in purged.files] == ["mysql-bin.000001"]
