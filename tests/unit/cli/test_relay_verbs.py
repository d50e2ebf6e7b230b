"""start-, stop-, pause-, resume-relay, query-status of a source: the seed's documents, byte for byte."""

import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from airflow_provider_dm.cli import relay
from airflow_provider_dm.cli.main import main
from airflow_provider_dm.engine.meta.records import RelayStatus, Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.processes import identity_of
from tests.beside import beside

ONE, TWO = "mysql-replica-01", "mysql-replica-02"
SOURCES = {"one": ONE, "two": TWO}
HOST = socket.gethostname()


def document(op: str = "", **workers: str) -> str:
    """Return the document of DM when each source's relay has fulfilled a request, byte for byte."""
    sources = [
        {"result": True, "msg": "", "source": source, "worker": worker}
        for source, worker in ((SOURCES[key], worker) for key, worker in workers.items())
    ]
    whole = {"result": True, "msg": "", "sources": sources}
    return json.dumps({"op": op, **whole} if op else whole, indent=4) + "\n"


PAUSED = document("PauseRelay", one="worker1", two="worker2")
RESUMED = document("ResumeRelay", one="worker1")
GOOD = document(one=HOST)
STATUS = """\
{
    "result": true,
    "msg": "",
    "sources": [
        {
            "result": true,
            "msg": "no sub task started",
            "sourceStatus": {
                "source": "mysql-replica-01",
                "worker": "worker2",
                "result": null,
                "relayStatus": {
                    "masterBinlog": "(mysql-bin.000005, 916)",
                    "masterBinlogGtid": "09bec856-ba95-11ea-850a-58f2b4af5188:1-28",
                    "relaySubDir": "09bec856-ba95-11ea-850a-58f2b4af5188.000001",
                    "relayBinlog": "(mysql-bin.000005, 4)",
                    "relayBinlogGtid": "09bec856-ba95-11ea-850a-58f2b4af5188:1-28",
                    "relayCatchUpMaster": false,
                    "stage": "Running",
                    "result": null
                }
            },
            "subTaskStatus": []
        }
    ]
}
"""


@dataclass
class Meta:
    """A metadata DB, and relays that report to it."""

    url: str
    store: MetaStore

    def __call__(self, *arguments: str) -> int:
        return main([*arguments, "--meta-url", self.url])

    def relay(self, source: str, stage: Stage = Stage.RUNNING, *, host: str = HOST, process: str = "") -> None:
        self.store.put_relay_status(RelayStatus(source, stage, host=host, pid=os.getpid(), process=process))

    @contextmanager
    def obedient(self, **hosts: str) -> Iterator[None]:
        """Relays that follow requests, like those of other machines."""
        names = {source: hosts.get(key) for key, source in SOURCES.items()}

        def obey(ended: threading.Event) -> None:
            while not ended.wait(0.05):
                for source, host in names.items():
                    if host and (stage := self.store.relay_desired(source)):
                        self.relay(source, stage, host=host)

        for source, host in names.items():
            if host:
                self.relay(source, host=host)
        with beside(obey):
            yield


@pytest.fixture
def meta(meta_url: str, store: MetaStore) -> Meta:
    return Meta(meta_url, store)


Printed = Callable[[], str]


@pytest.fixture
def out(capsys: pytest.CaptureFixture[str]) -> Printed:
    return lambda: capsys.readouterr().out


def test_pause_and_resume_print_what_the_seed_prints(meta: Meta, out: Printed) -> None:
    with meta.obedient(one="worker1", two="worker2"):
        assert meta("pause-relay", "-s", ONE, "-s", TWO) == 0
        assert out() == PAUSED
        assert meta("resume-relay", "-s", ONE) == 0
        assert out() == RESUMED

    assert [meta.store.relay_desired(source) for source in (ONE, TWO)] == [Stage.RUNNING, Stage.PAUSED]


def test_with_json_the_same_document_is_on_one_line(meta: Meta, out: Printed) -> None:
    with meta.obedient(one="worker1"):
        assert meta("resume-relay", "-s", ONE, "--json") == 0

    (line,) = out().splitlines()
    assert json.dumps(json.loads(line), indent=4) + "\n" == RESUMED


def test_a_relay_that_ignores_a_request_is_named(meta: Meta, out: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "RELAY_OBEY_SECONDS", 0.3)
    meta.relay(ONE)

    assert meta("pause-relay", "-s", ONE) == 1

    answer = json.loads(out())
    assert (answer["result"], answer["sources"][0]["result"]) == (False, False)
    assert "is still Running after" in answer["sources"][0]["msg"]
    assert answer["sources"][0]["worker"] == HOST


def a_dead_process() -> str:
    with subprocess.Popen(["sleep", "60"]) as child:
        identity = identity_of(child.pid)
        child.kill()
    return identity


def test_a_containers_relay_with_our_host_name_is_not_one_of_our_processes(meta: Meta) -> None:
    boot, _, pid, born = a_dead_process().split(" ")
    meta.relay(ONE, process=f"{boot} pid:[1] {pid} {born}")
    meta.relay(TWO, process=a_dead_process())

    assert [relay._is_alive(meta.store.relay_status(source)) for source in (ONE, TWO)] == [True, False]


@pytest.mark.parametrize("dead", ["never there", "stopped", "killed"])
@pytest.mark.parametrize("verb", ["pause-relay", "resume-relay"])
def test_without_a_running_relay_the_request_is_refused_at_once(
    meta: Meta, out: Printed, verb: str, dead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "RELAY_OBEY_SECONDS", 3600)  # a wait would last until pytest's own time limit
    if dead != "never there":
        meta.relay(ONE, Stage.STOPPED if dead == "stopped" else Stage.RUNNING, process=a_dead_process())

    assert meta(verb, "-s", ONE) == 1

    assert f"no relay of {ONE} is running" in json.loads(out())["sources"][0]["msg"]


def test_the_reason_of_a_relays_end_is_shown(meta: Meta, out: Printed) -> None:
    error = {"ErrCode": "DM-4022", "Message": "needed, purged."}
    meta.store.put_relay_status(RelayStatus(ONE, Stage.PAUSED, error=error, pid=None, host=HOST))

    assert meta("resume-relay", "-s", ONE) == 1

    assert "(its last error: [DM-4022] needed, purged.)" in json.loads(out())["sources"][0]["msg"]


@pytest.mark.parametrize("workers", [(), (HOST,), (ONE,)])
def test_start_and_stop_print_what_dm_prints(meta: Meta, out: Printed, workers: tuple[str, ...]) -> None:
    with meta.obedient(one=HOST):
        assert meta("start-relay", "-s", ONE, *workers) == 0
        assert out() == GOOD
        assert meta.store.relay_desired(ONE) is Stage.RUNNING
        assert meta("stop-relay", "-s", ONE, *workers) == 0
        assert out() == GOOD
        assert meta.store.relay_desired(ONE) is Stage.STOPPED


@pytest.mark.parametrize("verb", ["start-relay", "stop-relay"])
def test_a_worker_that_has_no_relay_of_the_source_is_refused(meta: Meta, out: Printed, verb: str) -> None:
    meta.relay(ONE)

    assert meta(verb, "-s", ONE, HOST, "worker9") == 1

    answer = json.loads(out())
    assert (answer["result"], answer["sources"][0]["result"]) == (False, False)
    assert answer["sources"][0]["msg"] == f"no worker worker9 has a relay of {ONE}: name {HOST}, or no worker"
    assert meta.store.relay_desired(ONE) is None


@pytest.mark.parametrize("verb", ["start-relay", "stop-relay", "pause-relay", "resume-relay"])
def test_a_source_with_private_logs_has_no_relay_to_control(meta: Meta, out: Printed, verb: str) -> None:
    meta.store.put_relay_status(RelayStatus(ONE, Stage.RUNNING, host=HOST, pid=os.getpid(), task="shop"))

    assert meta(verb, "-s", ONE) == 1

    (answer,) = json.loads(out())["sources"]
    assert answer["result"] is False
    assert f"task shop pulls the log of {ONE} for itself (`enable-relay: false`)" in answer["msg"]
    assert ("`enable-relay: true`" if verb in ("start-relay", "resume-relay") else "stop-task shop") in answer["msg"]
    assert meta.store.relay_desired(ONE) is None


def test_start_relay_without_a_relay_names_the_command(meta: Meta, out: Printed) -> None:
    assert meta("start-relay", "-s", ONE) == 1

    answer = json.loads(out())
    assert answer["result"] is False
    assert f"dmctl start-relay -s {ONE} --source-file" in answer["msg"]
    assert meta.store.relay_desired(ONE) is Stage.RUNNING


def test_start_relay_requires_a_source(meta: Meta, capsys: pytest.CaptureFixture[str]) -> None:
    assert meta("start-relay") == 1

    assert "start-relay: no source is named" in capsys.readouterr().err


def test_stop_relay_stores_the_request_even_if_no_relay_runs(meta: Meta, out: Printed) -> None:
    """One that has run is stopped then; of a source without a relay the answer is no."""
    meta.relay(ONE, process=a_dead_process())

    assert meta("stop-relay", "-s", ONE, "-s", TWO) == 1

    assert [meta.store.relay_desired(source) for source in (ONE, TWO)] == [Stage.STOPPED, Stage.STOPPED]
    answers = [(one["result"], one["msg"]) for one in json.loads(out())["sources"]]
    assert answers == [(True, ""), (False, f"no relay of {TWO} is running")]


def test_query_status_of_a_source_is_the_seeds_document(meta: Meta, out: Printed) -> None:
    gtids = "09bec856-ba95-11ea-850a-58f2b4af5188:1-28"
    here, there = Location("mysql-bin.000005", 4, gtids), Location("mysql-bin.000005", 916, gtids)
    sub_dir = "09bec856-ba95-11ea-850a-58f2b4af5188.000001"
    meta.store.put_relay_status(RelayStatus(ONE, Stage.RUNNING, there, here, sub_dir, host="worker2", pid=1))

    assert meta("query-status", "-s", ONE) == 0
    printed = out()
    assert printed == STATUS
    assert meta("query-status", "-s", ONE, "--json") == 0
    assert [*map(json.dumps, json.loads(out()).items())] == [*map(json.dumps, json.loads(printed).items())]
