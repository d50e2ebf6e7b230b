"""`dmctl start-relay`, `query-status` and `stop-relay` on a real source."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from testbed import Server

from .dmctl import Dmctl

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


def test_a_relay_runs_in_the_foreground_until_it_is_stopped_from_elsewhere(source: Server, tmp_path: Path) -> None:
    dmctl = Dmctl(tmp_path / "work", {"DM_PASSWORD_REPLICA_01": "relay-password"})
    source.create_user("dm_relay", "relay-password")
    file = tmp_path / "source.yaml"
    login = f"{{host: {source.host}, port: {source.port}, user: dm_relay}}"
    file.write_text(f"source-id: replica-01\nenable-relay: true\nfrom: {login}\n")

    with dmctl.started("start-relay", "-s", "replica-01", "--source-file", file, "--json") as process:
        status = wait_until_caught_up(dmctl)
        stopped = dmctl("stop-relay", "-s", "replica-01")
        out, err = process.communicate(timeout=60)

    assert status["relayBinlog"] == status["masterBinlog"]
    assert status["relaySubDir"].endswith(".000001")
    assert (tmp_path / "work" / "relay" / "replica-01" / status["relaySubDir"]).is_dir()
    assert stopped.code == 0, stopped.err
    assert json.loads(stopped.out)["op"] == "StopRelay"
    assert process.returncode == 0, err
    assert json.loads(out) == {"result": True, "msg": ""}
    assert "relay-password" not in out + err + "".join(log.read_text() for log in (tmp_path / "work").rglob("*.log"))


def test_a_file_of_another_source_is_refused(tmp_path: Path, mariadb_source: Server) -> None:
    file = tmp_path / "source.yaml"
    file.write_text(f"source-id: other\nfrom: {{host: {mariadb_source.host}, port: {mariadb_source.port}}}\n")

    ended = Dmctl(tmp_path / "work")("start-relay", "-s", "replica-01", "--source-file", file)

    assert ended.code == 1
    assert "DM-1310" in ended.err


def wait_until_caught_up(dmctl: Dmctl) -> dict[str, Any]:
    """The relayStatus that says so."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        ended = dmctl("query-status", "-s", "replica-01", "--json")
        assert ended.code == 0, ended.err
        status: dict[str, Any] | None = ended.answer["sources"][0]["sourceStatus"]["relayStatus"]
        if status is not None and status["relayCatchUpMaster"] and status["stage"] == "Running":
            return status
        time.sleep(0.5)
    raise AssertionError(f"the relay never caught up: {dmctl('query-status', '-s', 'replica-01').out}")
