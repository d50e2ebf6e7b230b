"""Relays kept alive against real servers: killed, shared, refused, stopped on request."""

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_dm.cli.main import main
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.meta.records import RelayStatus, Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.binlog_status import current_location
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.errors import RelayRunsElsewhere
from airflow_provider_dm.engine.relay.held_start import start_without_effect
from airflow_provider_dm.engine.relay.reader import RelayReader
from airflow_provider_dm.launch import relays as relays_module
from airflow_provider_dm.launch.errors import RelayFailed, RelayStopped
from airflow_provider_dm.launch.job import Upstream
from airflow_provider_dm.launch.relays import Relays, upstream_of
from airflow_provider_dm.launch.workdir import TaskDir
from testbed import Server
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("forked_relays")


@pytest.fixture
def url(meta_url: str) -> Secret:
    return Secret(meta_url)


def upstream(server: Server, work: Path, *, enable_relay: bool = False, password: str = "", **keys: str) -> Upstream:
    config = SourceConfig.model_validate({"source-id": "one", "enable-relay": enable_relay, **keys})
    endpoint = Endpoint("one", server.host, server.port, server.user, Secret(password))
    private = TaskDir.of("shop", work).private_relay("one")
    return Upstream(config, endpoint, work / "relay" / "one" if enable_relay else private)


def caught_up(store: MetaStore) -> RelayStatus | None:
    status = store.relay_status("one")
    return status if status is not None and status.stage is Stage.RUNNING and status.caught_up else None


def test_a_killed_relay_is_restarted_and_ends_with_the_block(source: Server, tmp_path: Path, url: Secret) -> None:
    with MetaStore.open(url) as store:
        with Relays([upstream(source, tmp_path)], meta_url=url, log_dir=tmp_path) as relays:
            wait_for(lambda: caught_up(store) is not None)
            first = caught_up(store)
            assert first is not None
            assert first.pid is not None

            os.kill(first.pid, signal.SIGKILL)

            wait_for(lambda: (now := caught_up(store)) is not None and now.pid != first.pid)
            assert relays.error is None
            second = caught_up(store)
            assert second is not None
            assert second.pid is not None
        with pytest.raises(ProcessLookupError):
            os.kill(second.pid, 0)


def test_a_shared_directory_is_used_by_one_relay_until_it_ends(
    mariadb_source: Server, tmp_path: Path, url: Secret
) -> None:
    shared = upstream(mariadb_source, tmp_path, enable_relay=True)
    with MetaStore.open(url) as store, Relays([shared], meta_url=url, log_dir=tmp_path / "a") as first:
        wait_for(lambda: caught_up(store) is not None)
        owner = caught_up(store)
        assert owner is not None
        with Relays([shared], meta_url=url, log_dir=tmp_path / "b") as second:
            time.sleep(1.5)

            assert second.error is None
            assert (now := caught_up(store)) is not None
            assert now.pid == owner.pid
            assert not (tmp_path / "b").exists(), "no process was started beside it"

            assert owner.pid is not None
            first.__exit__(None, None, None)

            wait_for(lambda: (now := caught_up(store)) is not None and now.pid not in (None, owner.pid))
            assert second.error is None


def test_a_second_relay_of_a_source_ends_and_leaves_the_report_to_the_first(
    mariadb_source: Server, tmp_path: Path, url: Secret
) -> None:
    """In another directory no lock excludes it. It may write after the first one has ended, as its remedy states."""
    first = upstream(mariadb_source, tmp_path, enable_relay=True)
    other = replace(first, relay_dir=tmp_path / "other")
    with MetaStore.open(url) as store:
        with Relays([first], meta_url=url, log_dir=tmp_path / "a"):
            wait_for(lambda: caught_up(store) is not None)
            with Relays([other], meta_url=url, log_dir=tmp_path / "b") as second:
                wait_for(lambda: second.error is not None)
            assert isinstance(second.error, RelayFailed)
            assert second.error.reported.code == RelayRunsElsewhere.code
            assert str(first.relay_dir) in str(second.error)
            wait_for(lambda: (now := caught_up(store)) is not None and now.directory == str(first.relay_dir))
            assert main(["stop-relay", "-s", "one", "--meta-url", url.reveal()]) == 0
        with Relays([other], meta_url=url, log_dir=tmp_path / "b") as second:
            wait_for(lambda: (now := caught_up(store)) is not None and now.directory == str(other.relay_dir))
            assert second.error is None


def test_a_refused_login_is_an_error_and_not_a_loop(mariadb_source: Server, tmp_path: Path, url: Secret) -> None:
    wrong = upstream(mariadb_source, tmp_path, password="wrong-password")

    with Relays([wrong], meta_url=url, log_dir=tmp_path) as relays:
        wait_for(lambda: relays.error is not None)

    assert isinstance(relays.error, RelayFailed)
    assert relays.error.reported.code == "DM-2002"
    assert "wrong-password" not in (tmp_path / "relay-one.log").read_text()


def test_a_relay_is_not_restarted_after_a_stop_request(mariadb_source: Server, tmp_path: Path, url: Secret) -> None:
    with MetaStore.open(url) as store:
        with Relays([upstream(mariadb_source, tmp_path)], meta_url=url, log_dir=tmp_path) as relays:
            wait_for(lambda: caught_up(store) is not None)

            store.set_relay_desired("one", Stage.STOPPED)

            wait_for(lambda: relays.error is not None)

    assert isinstance(relays.error, RelayStopped)


def test_a_sync_can_do_without_its_shared_relay_and_a_load_cannot(
    mariadb_source: Server, tmp_path: Path, url: Secret, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relay is asked to stop; when the request is withdrawn, it is started again automatically."""
    monkeypatch.setattr(relays_module, "LONGEST_PAUSE_SECONDS", 1.0)
    plain = upstream(mariadb_source, tmp_path, enable_relay=True)
    task = TaskConfig.model_validate({"name": "shop", "mysql-instances": [{"source-id": "one"}]})
    shared = upstream_of(task, plain.config, plain.endpoint, TaskDir.of("shop", tmp_path))
    with MetaStore.open(url) as store, Relays([shared], meta_url=url, log_dir=tmp_path) as relays:
        wait_for(lambda: caught_up(store) is not None)

        store.set_relay_desired("one", Stage.STOPPED)

        wait_for(lambda: isinstance(relays.failure("full_migration"), RelayStopped))
        assert relays.failure("incremental_sync") is None
        assert relays.error is None

        store.set_relay_desired("one", Stage.RUNNING)

        wait_for(lambda: caught_up(store) is not None)
        assert relays.failure("full_migration") is None


def test_a_private_log_is_pulled_under_its_bound(source: Server, tmp_path: Path, url: Secret) -> None:
    """What the launcher starts for `enable-relay: false` is the bounded kind."""
    plain = upstream(source, tmp_path)
    config = plain.config.model_copy(update={"spool_limit_mb": 1})
    task = TaskConfig.model_validate({"name": "shop", "mysql-instances": [{"source-id": "one"}]})
    private = upstream_of(task, config, plain.endpoint, TaskDir.of("shop", tmp_path))
    source.sql("CREATE DATABASE IF NOT EXISTS spooled; CREATE TABLE IF NOT EXISTS spooled.t (v LONGBLOB)")
    source.sql("FLUSH BINARY LOGS")
    try:
        with MetaStore.open(url) as store, Relays([private], meta_url=url, log_dir=tmp_path) as relays:
            wait_for(lambda: (now := caught_up(store)) is not None and now.task == "shop")
            for _ in range(8):
                source.sql("INSERT INTO spooled.t VALUES (REPEAT('x', 500000))")

            def waits() -> bool:
                dumps = source.sql("SELECT 1 FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'")
                return not dumps and held(private) >= 1 << 20

            wait_for(waits)
            assert held(private) < 3 << 20
            assert relays.error is None
            wait_for(lambda: caught_up(store) is None)
            assert (status := store.relay_status("one")) is not None
            assert (status.stage, status.error) == (Stage.RUNNING, None)
    finally:
        source.sql("DROP DATABASE spooled")


def held(upstream: Upstream) -> int:
    return sum(path.stat().st_size for path in upstream.relay_dir.glob("*/*bin.*"))


def test_a_relay_start_without_effect_is_a_warning_whose_remedy_works(
    source: Server, tmp_path: Path, url: Secret, capfd: pytest.CaptureFixture[str]
) -> None:
    """A relay log exists: it continues at its end, and `relay-binlog-name` and `relay-binlog-gtid` have no effect."""
    by = "name" if source.flavour == "mysql" else "gtid"

    def begin() -> Location:
        source.sql("FLUSH BINARY LOGS")
        with connected(upstream(source, tmp_path).endpoint) as connection:
            at = current_location(connection)
        source.sql("CREATE OR REPLACE VIEW mysql.some_view AS SELECT 1; DROP VIEW mysql.some_view")
        return at

    def keys(at: Location) -> dict[str, str]:
        return {"relay_binlog_name": at.file} if by == "name" else {"relay_binlog_gtid": at.gtid_set}

    def run(at: Location) -> tuple[str, str]:
        """Return the first file of the relay log, and what was warned of."""
        capfd.readouterr()
        shared = upstream(source, tmp_path, enable_relay=True, **keys(at))
        with MetaStore.open(url) as store, Relays([shared], meta_url=url, log_dir=tmp_path):
            wait_for(lambda: caught_up(store) is not None)
            assert main(["stop-relay", "-s", "one", "--meta-url", url.reveal()]) == 0
        return RelayReader(shared.relay_dir).held()[0].name, start_without_effect(shared.config, shared.relay_dir)[0]

    early, late = begin(), begin()

    assert run(late) == (late.file, "")
    assert run(late)[1] == ""
    first, what = run(early)
    assert first == late.file
    assert f"relay-binlog-{by}" in what
    assert f"{what}. To begin there, end the relay" in capfd.readouterr().err
    (tmp_path / "relay" / "one").rename(tmp_path / "away")
    assert run(early) == (early.file, "")
