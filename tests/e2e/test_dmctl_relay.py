"""The relay's verbs on a real source: start, stop, pause, resume, query-status, and what a purge may take."""

import json
import re
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.migrate import migrate
from airflow_provider_dm.engine.meta.records import Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.directory import RelayDirectory
from testbed import Server
from tests.conftest import FreshSchema
from tests.waiting import wait_for

from .dmctl import Dmctl

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


STATUS: dict[str, Any] = {
    "result": True,
    "msg": "",
    "sources": [
        {
            "result": True,
            "msg": "no sub task started",
            "sourceStatus": {
                "source": "replica-01",
                "worker": socket.gethostname(),
                "result": None,
                "relayStatus": {
                    "masterBinlog": "LOCATION",
                    "masterBinlogGtid": "GTIDS",
                    "relaySubDir": "SUB-DIR",
                    "relayBinlog": "LOCATION",
                    "relayBinlogGtid": "GTIDS",
                    "relayCatchUpMaster": True,
                    "stage": "Running",
                    "result": None,
                },
            },
            "subTaskStatus": [],
        }
    ],
}
"""The seed's document, with masks for what differs from server to server."""


@dataclass
class Desk:
    """A source, its file, and a work directory with the metadata DB that relay and commands share."""

    source: Server
    dmctl: Dmctl
    file: Path
    schema: str

    @property
    def root(self) -> Path:
        return self.dmctl.work / "relay" / "replica-01"

    def relay(self) -> AbstractContextManager[subprocess.Popen[str]]:
        return self.dmctl.started("start-relay", "-s", "replica-01", "--source-file", self.file, "--json")

    def ask(self, *arguments: object, code: int = 0) -> dict[str, Any]:
        ended = self.dmctl.here(*arguments, "--json")
        assert ended.code == code, ended.err
        return ended.answer

    def store(self) -> MetaStore:
        url = f"sqlite:///{self.dmctl.work / 'meta.db'}"
        self.dmctl.work.mkdir(exist_ok=True)
        migrate(url)
        return MetaStore.open(url)

    def needs(self, file: str, *, unit: Unit, stage: Stage) -> None:
        with self.store() as store:
            store.put_subtask("shop", "replica-01", unit=unit, stage=stage, needed=Location(file, 4))

    def files(self) -> list[str]:
        """All that the relay log holds, oldest first."""
        directory = RelayDirectory(self.root)
        return [str(one.file) for sub_dir in directory.sub_dirs() for one in directory.files(sub_dir)]

    def upstream(self) -> str:
        """The file that the source writes now."""
        return str(self.source.sql("SHOW BINARY LOGS")[-1][0])

    def rotate(self, times: int) -> list[str]:
        """New files of the source: all from the present one on, the newest last."""
        files = [self.upstream()]
        for _ in range(times):
            self.source.sql("FLUSH BINARY LOGS")
            files.append(self.upstream())
        return files

    def log(self) -> str:
        return "".join(path.read_text() for path in (self.dmctl.work / "logs").glob("*.log"))


@pytest.fixture
def mariadb_desk(mariadb_source: Server, fresh_schema: FreshSchema, tmp_path: Path) -> Desk:
    return desk_of(mariadb_source, fresh_schema, tmp_path)


@pytest.fixture
def mysql_desk(mysql_source: Server, fresh_schema: FreshSchema, tmp_path: Path) -> Desk:
    return desk_of(mysql_source, fresh_schema, tmp_path)


def desk_of(source: Server, fresh_schema: FreshSchema, tmp_path: Path) -> Desk:
    """Relays of both flavours are pulled and purged in `integration/relay`: a verb is tested with one of them."""
    dmctl = Dmctl(tmp_path / "work", {"DM_PASSWORD_REPLICA_01": "relay-password"})
    source.create_user("dm_relay", "relay-password")
    file = tmp_path / "source.yaml"
    login = f"{{host: {source.host}, port: {source.port}, user: dm_relay}}"
    file.write_text(f"source-id: replica-01\nenable-relay: true\nfrom: {login}\n")
    return Desk(source, dmctl, file, fresh_schema(source))


def test_a_relay_runs_until_it_is_stopped_from_elsewhere_and_answers_as_dms_do(mysql_desk: Desk) -> None:
    desk = mysql_desk
    with desk.relay() as process:
        status = wait_until_caught_up(desk.dmctl)
        assert status["relayBinlog"] == status["masterBinlog"]
        assert (desk.root / status["relaySubDir"]).is_dir()
        assert masked(desk.ask("query-status", "-s", "replica-01")) == json.dumps(STATUS)

        assert desk.ask("pause-relay", "-s", "replica-01") == operated("PauseRelay")
        assert stage(desk) == "Paused"
        desk.source.sql(f"CREATE TABLE `{desk.schema}`.t (id INT)")
        assert desk.ask("start-relay", "-s", "replica-01", socket.gethostname())["result"] is True
        wait_until_caught_up(desk.dmctl)
        desk.ask("pause-relay", "-s", "replica-01")
        assert desk.ask("resume-relay", "-s", "replica-01") == operated("ResumeRelay")
        assert stage(desk) == "Running"
        stopped = desk.dmctl("stop-relay", "-s", "replica-01")
        out, err = process.communicate(timeout=240)

    assert stopped.code == 0, stopped.err
    assert json.loads(stopped.out) == operated(None)
    assert process.returncode == 0, err
    assert json.loads(out) == operated(None)
    assert f"logs to {desk.dmctl.work / 'logs'};" in err, "else a relay that waits for disk space looks idle"
    assert "relay-password" not in out + err + desk.log()
    refused = desk.ask("pause-relay", "-s", "replica-01", code=1)
    assert refused["sources"][0]["msg"].startswith("no relay of replica-01 is running")


def test_the_automatic_purge_keeps_what_a_task_needs_until_it_is_released(mariadb_desk: Desk) -> None:
    desk = mariadb_desk
    with desk.file.open("a") as file:
        file.write("purge: {interval: 1, remain-space: 1000000000}\n")  # never free: every check removes all it may
    desk.needs(desk.upstream(), unit=Unit.LOAD, stage=Stage.RUNNING)

    with desk.relay():
        first, second, third, last = desk.rotate(3)
        until(lambda: desk.files() == [first, second, third, last], desk)
        until(lambda: f"task shop (Running) needs {first}:4" in desk.log(), desk)
        assert desk.files() == [first, second, third, last], "a task that still loads holds its start"

        desk.needs(third, unit=Unit.SYNC, stage=Stage.STOPPED)
        until(lambda: desk.files() == [third, last], desk)
        until(lambda: f"task shop (Stopped) needs {third}:4" in desk.log(), desk)
        assert desk.files() == [third, last], "a stopped task holds what it will continue with"

        assert desk.ask("stop-task", "shop")["result"] is True
        until(lambda: desk.files() == [last], desk)
        desk.source.sql(f"CREATE TABLE `{desk.schema}`.t (id INT)")
        wait_until_caught_up(desk.dmctl)


def test_a_file_of_another_source_is_refused(tmp_path: Path, mariadb_source: Server) -> None:
    file = tmp_path / "source.yaml"
    file.write_text(f"source-id: other\nfrom: {{host: {mariadb_source.host}, port: {mariadb_source.port}}}\n")

    ended = Dmctl(tmp_path / "work").here("start-relay", "-s", "replica-01", "--source-file", file)

    assert ended.code == 1
    assert "is the file of source other, not of replica-01" in ended.err


def operated(op: str | None) -> dict[str, Any]:
    answer = {"result": True, "msg": "", "source": "replica-01", "worker": socket.gethostname()}
    named: dict[str, Any] = {} if op is None else {"op": op}
    return {**named, "result": True, "msg": "", "sources": [answer]}


def stage(desk: Desk) -> str:
    return str(desk.ask("query-status", "-s", "replica-01")["sources"][0]["sourceStatus"]["relayStatus"]["stage"])


def masked(document: dict[str, Any]) -> str:
    """Return it with keys in their order; each value that differs from run to run must at least look as it should."""
    relay = document["sources"][0]["sourceStatus"]["relayStatus"]
    looks = {"Binlog": r"\(mysql-bin\.\d{6}, \d+\)", "Gtid": r"[-0-9a-z_:,]+", "SubDir": r"[-0-9a-f]+\.000001"}
    masks = {"Binlog": "LOCATION", "Gtid": "GTIDS", "SubDir": "SUB-DIR"}
    for key, value in relay.items():
        for ending, look in looks.items():
            if key.endswith(ending):
                assert re.fullmatch(look, value), (key, value)
                relay[key] = masks[ending]
    return json.dumps(document)


def until(true: Callable[[], bool], desk: Desk) -> None:
    wait_for(true, every=0.2, shows=lambda: (desk.files(), desk.log()))


def is_caught_up(dmctl: Dmctl) -> bool:
    """Return True if the metadata DB has the state: a command would take longer than the relay's work."""
    path = dmctl.work / "meta.db"
    if not path.exists():
        return False
    with suppress(DmError), MetaStore.open(f"sqlite:///{path}") as store:  # it is made by whom we wait for
        status = store.relay_status("replica-01")
        return status is not None and status.caught_up and status.stage is Stage.RUNNING
    return False


def wait_until_caught_up(dmctl: Dmctl) -> dict[str, Any]:
    """Wait, and return that relayStatus."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        while not is_caught_up(dmctl) and time.monotonic() < deadline:
            time.sleep(0.1)
        ended = dmctl.here("query-status", "-s", "replica-01", "--json")
        (source,) = ended.answer["sources"]
        assert source["result"] or source["msg"].startswith("source replica-01 is not known"), ended  # has yet to begin
        status: dict[str, Any] | None = source["sourceStatus"]["relayStatus"] if source["result"] else None
        if status is not None and status["relayCatchUpMaster"] and status["stage"] == "Running":
            return status
        time.sleep(0.5)
    raise AssertionError(f"the relay never caught up: {dmctl.here('query-status', '-s', 'replica-01').out}")
