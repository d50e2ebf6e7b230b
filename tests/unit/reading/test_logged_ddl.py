"""What a session of the log had for explicit_defaults_for_timestamp."""

import pytest

from airflow_provider_dm.engine.binlog.session_variables import EXPLICIT_TIMESTAMPS, Session
from airflow_provider_dm.engine.ddl import server as servers
from airflow_provider_dm.engine.ddl.server import Server
from airflow_provider_dm.engine.mysql.connection import ServerInfo
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.reading.logged_ddl import explicit_timestamps

OLD, OLD_MARIADB = Server(Flavour.MYSQL, (5, 7, 42), 0, True), Server(Flavour.MARIADB, (10, 6, 23), 0, False)
NEW, NEW_MARIADB = Server(Flavour.MYSQL, (8, 0, 46)), Server(Flavour.MARIADB, (10, 11, 19))


@pytest.mark.parametrize(
    ("session", "server", "explicit"),
    [
        (Session(explicit_timestamp_defaults=False), OLD, False),
        (Session(explicit_timestamp_defaults=False), NEW, False),
        (Session(), NEW, None),
        (Session(), OLD, True),
        (Session(), OLD_MARIADB, False),
        (Session(flags=EXPLICIT_TIMESTAMPS), OLD_MARIADB, False),  # the bit has this meaning from 10.8.2 on
        (Session(flags=EXPLICIT_TIMESTAMPS), NEW_MARIADB, True),
        (Session(flags=0), NEW_MARIADB, False),
        (Session(), NEW_MARIADB, None),
        (Session(), None, None),
    ],
)
def test_the_log_decides_and_before_it_had_the_variable_the_server(
    session: Session, server: Server | None, explicit: bool | None
) -> None:
    assert explicit_timestamps(session, server) is explicit


@pytest.mark.parametrize(
    ("version", "shown", "explicit"),
    [
        ("10.6.23-MariaDB", [(b"explicit_defaults_for_timestamp", b"ON")], True),
        ("10.6.23-MariaDB", [(b"explicit_defaults_for_timestamp", b"OFF")], False),
        ("10.0.38-MariaDB", [], False),  # it has no such variable
        ("10.11.19-MariaDB", None, None),
    ],
)
def test_an_old_server_is_asked(
    version: str, shown: list[tuple[bytes, bytes]] | None, explicit: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(_: object, sql: str) -> object:
        if "lower_case_table_names" in sql:
            return [(0,)]
        assert shown is not None
        assert sql.startswith("SHOW GLOBAL VARIABLES LIKE")  # an unknown variable is no error
        return shown

    monkeypatch.setattr(servers, "server_info", lambda _: ServerInfo(Flavour.MARIADB, version, 7, "0-7"))
    monkeypatch.setattr(servers, "query", answer)
    assert servers.server_of(object()).explicit_timestamps is explicit  # type: ignore[arg-type]
