"""The harness itself: what every other test against a server takes for granted."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pymysql
import pytest

from testbed import Server, ServerSpec, ServerStartFailed, attach_servers, keeper, start_servers, stop_servers
from tests.conftest import FreshSchema, StartServers

DOCKER = Path(__file__).parents[2] / "docker"


def test_source_and_target_are_two_servers(source: Server, target: Server, fresh_schema: FreshSchema) -> None:
    database = fresh_schema(source)
    assert source.pid != target.pid
    assert target.sql("SELECT count(*) FROM information_schema.schemata WHERE schema_name = %s", [database]) == [(0,)]


def test_a_source_writes_full_row_events_with_gtids(source: Server) -> None:
    (settings,) = source.sql("SELECT @@log_bin, @@binlog_format, @@binlog_row_image, @@server_id")
    assert settings == (1, "ROW", "FULL", source.server_id)
    mode = {"mysql": "SELECT @@gtid_mode", "mariadb": "SELECT @@gtid_strict_mode"}[source.flavour]
    assert source.sql(mode)[0][0] in ("ON", 1)


def test_a_password_account_logs_in_over_tcp(source: Server) -> None:
    plugin = "caching_sha2_password" if source.flavour == "mysql" else ""
    source.create_user("dm_reader", "se'cret".replace("'", "-"), privileges="SELECT", plugin=plugin)
    with source.connect(user="dm_reader", password="se-cret") as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT current_user()")
        assert cursor.fetchall() == (("dm_reader@%",),)


def test_a_killed_server_restarts_with_every_commit(source: Server, fresh_schema: FreshSchema) -> None:
    database = fresh_schema(source)
    source.sql(f"CREATE TABLE {database}.t (id INT PRIMARY KEY); INSERT INTO {database}.t VALUES (1), (2)")
    port = source.port
    source.kill()
    assert not source.alive()
    with pytest.raises(pymysql.err.OperationalError):
        source.connect()
    source.start()
    assert source.port == port
    assert source.sql(f"SELECT id FROM {database}.t") == [(1,), (2,)]


def test_options_of_the_spec_win(start_own: StartServers) -> None:
    (server,) = start_own(ServerSpec("odd", "mariadb", options=("--binlog-format=STATEMENT",)))
    assert server.sql("SELECT @@binlog_format") == [("STATEMENT",)]


def test_a_server_that_does_not_start_shows_its_log(tmp_path: Path) -> None:
    with pytest.raises(ServerStartFailed, match="no-such-option"):
        start_servers([ServerSpec("bad", "mariadb", options=("--no-such-option=1",))], tmp_path)
    assert (tmp_path / "bad" / "error.log").exists()
    assert keeper.servers_under(tmp_path) == []


def test_kept_servers_are_found_and_ended_by_another_process(tmp_path: Path) -> None:
    _in_another_process(tmp_path, keep=True)
    (found,) = attach_servers(tmp_path)
    assert found.alive()
    assert found.sql("SELECT 1") == [(1,)]
    stop_servers([found])
    assert not found.alive()
    assert attach_servers(tmp_path) == []


def test_servers_end_with_a_harness_that_is_killed(tmp_path: Path) -> None:
    _in_another_process(tmp_path, keep=False)
    deadline = time.monotonic() + 120
    while (keeper.servers_under(tmp_path) or (tmp_path / "one" / "data").exists()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert keeper.servers_under(tmp_path) == []
    assert not (tmp_path / "one" / "data").exists()
    assert (tmp_path / "one" / "error.log").exists()


def _in_another_process(root: Path, *, keep: bool) -> None:
    """Start a server from a process that then dies by SIGKILL."""
    program = (
        "import os, pathlib, testbed\n"
        f"testbed.start_servers([testbed.ServerSpec('one', 'mariadb')], pathlib.Path({str(root)!r}), keep={keep})\n"
        "os.kill(os.getpid(), 9)\n"
    )
    died = subprocess.run([sys.executable, "-c", program], check=False, env={**os.environ, "PYTHONPATH": str(DOCKER)})
    assert died.returncode == -signal.SIGKILL
