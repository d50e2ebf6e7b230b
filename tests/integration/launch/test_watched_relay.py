"""Relays that no launcher holds, against a real server: found again, left to their owners, and given up in the end."""

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.meta.errors import MetaUnreachable
from airflow_provider_dm.engine.meta.migrate import migrate
from airflow_provider_dm.engine.meta.records import RelayStatus, Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret
from airflow_provider_dm.engine.relay.health import RelayStart
from airflow_provider_dm.engine.relay.keeper import KeptRelay
from airflow_provider_dm.engine.relay.spec import RelaySpec
from airflow_provider_dm.launch import watched_relay
from airflow_provider_dm.launch.errors import RelayHangs, RelayKeepsDying
from airflow_provider_dm.launch.job import Upstream, source_spec
from airflow_provider_dm.launch.relays import Relays
from airflow_provider_dm.launch.secrets import PassedSecrets
from airflow_provider_dm.launch.watched_relay import WatchedRelay
from testbed import Server
from tests.waiting import wait_for


class Kit:
    """One source, one relay directory, one metadata DB."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.url = Secret(f"sqlite:///{folder / 'meta.db'}")
        migrate(self.url)
        self.store = MetaStore.open(self.url)
        (folder / "logs").mkdir()

    def upstream(self) -> Upstream:
        endpoint = Endpoint("one", self.server.host, self.server.port, self.server.user, Secret(""))
        return Upstream(SourceConfig.model_validate({"source-id": "one"}), endpoint, self.folder / "relay")

    def relay(self, until: str = "stopped", *, environment: Mapping[str, str] | None = None) -> WatchedRelay:
        secrets = PassedSecrets()
        source = source_spec(self.upstream(), secrets)
        meta_url = secrets.reference("META", "meta", self.url)
        spec = RelaySpec.model_validate({"source": source, "meta_url": meta_url, "until": until})
        inherited = {**os.environ, **secrets.by_name, **(environment or {})}
        kept = KeptRelay(spec, inherited, self.folder / "logs" / "relay.log", deaths_allowed=1)
        return WatchedRelay(kept, self.store, secrets.masked)

    def status(self) -> RelayStatus:
        status = self.store.relay_status("one")
        assert status is not None
        return status

    def ended(self) -> bool:
        return self.status().pid is None


@pytest.fixture
def kit(mariadb_source: Server, tmp_path: Path) -> Iterator[Kit]:
    kit = Kit(mariadb_source, tmp_path)
    yield kit
    status = kit.store.relay_status("one")
    if status is not None and status.pid is not None:
        with suppress(ProcessLookupError):
            os.kill(status.pid, signal.SIGKILL)
    kit.store.close()


def test_a_later_starter_adopts_the_relay_and_can_end_it(kit: Kit) -> None:
    first = kit.relay()
    life = first.ensure()
    assert isinstance(life, RelayStart)
    assert first.is_ours()
    pid = kit.status().pid

    second = kit.relay()
    assert isinstance(second.ensure(), RelayStart)
    assert second.kept.process is None
    assert second.is_ours()
    assert kit.status().pid == pid
    second.end(120.0)

    wait_for(kit.ended)
    assert kit.status().stage is Stage.STOPPED
    assert kit.relay().ensure() is None


def test_a_relay_that_ends_at_its_goal_needs_no_watcher(kit: Kit) -> None:
    assert kit.relay("caught-up").ensure() is None
    assert kit.status().stage is Stage.FINISHED
    assert not kit.relay().is_ours()


def test_the_relay_of_another_owner_is_watched_and_left_running(kit: Kit) -> None:
    with Relays([kit.upstream()], meta_url=kit.url, log_dir=kit.folder):
        wait_for(lambda: (status := kit.store.relay_status("one")) is not None and status.relay is not None)
        guest = kit.relay()
        assert isinstance(guest.ensure(), RelayStart)
        assert not guest.is_ours()
        guest.end(5.0)
        assert kit.store.relay_desired("one") is None
        assert not kit.ended()


def test_a_relay_that_hangs_is_killed(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    first = kit.relay()
    first.ensure()
    assert first.kept.process is not None
    os.kill(first.kept.process.pid, signal.SIGSTOP)
    time.sleep(1.0)
    monkeypatch.setattr(watched_relay, "HANDOVER_SECONDS", 0.5)
    monkeypatch.setattr(watched_relay, "HOLDER_REPORT_SECONDS", 1.0)
    with pytest.raises(RelayHangs, match=f"process {first.kept.process.pid} on"):
        kit.relay().ensure()
    first.kept.process.kill()


def test_a_relay_that_reported_for_long_has_time_to_report_again(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kit.relay().ensure()
    guest, pid = kit.relay(), kit.status().pid
    assert guest.ensure()
    assert pid is not None
    monkeypatch.setattr(watched_relay, "HANDOVER_SECONDS", 0.5)
    guest.kept.held_since -= 3600.0
    os.kill(pid, signal.SIGSTOP)
    time.sleep(1.0)
    threading.Timer(1.0, os.kill, (pid, signal.SIGCONT)).start()
    assert guest.ensure()

    os.kill(pid, signal.SIGSTOP)
    time.sleep(1.0)
    threading.Timer(1.0, kit.store.set_relay_desired, ("one", Stage.STOPPED)).start()
    assert guest.ensure() is None
    os.kill(pid, signal.SIGCONT)
    wait_for(kit.ended)


def test_a_relay_starts_while_the_metadata_db_does_not_answer_for_a_moment(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay, answers, outage = kit.relay(), kit.store.relay_status, iter([False, True, True])

    def relay_status(source: str) -> RelayStatus | None:
        if next(outage, False):
            raise MetaUnreachable("meta.db", "gone away")
        return answers(source)

    monkeypatch.setattr(kit.store, "relay_status", relay_status)
    assert relay.ensure()
    relay.end(120.0)


def test_a_relay_that_keeps_dying_is_given_up(kit: Kit) -> None:
    with pytest.raises(RelayKeepsDying, match="crashed 2 times") as raised:
        kit.relay(environment={"PYTHONHOME": "/not/there"}).ensure()
    assert "/not/there" in raised.value.tail  # Python's message


def test_a_relay_that_died_too_often_while_deferred_is_given_up_unless_it_lives(kit: Kit) -> None:
    assert kit.relay().ensure()
    guest = kit.relay()
    guest.kept.deaths = 2
    assert guest.ensure()
    guest.end(120.0)
    wait_for(kit.ended)
    kit.store.set_relay_desired("one", Stage.RUNNING)
    with pytest.raises(RelayKeepsDying, match="crashed 2 times in a row"):
        guest.ensure()
