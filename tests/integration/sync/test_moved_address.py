"""Whose log is it? A private log was removed, as behind every finished run, and the source's address may have moved.

Positions of one server mean nothing on another, so what is known of a log must not be lost: not while a relay connects
over a slow network, not to another task of the source, not with the metadata DB.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_provider_dm.engine.config.job import SourceSpec
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.migrate import migrate
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.relay.directory import RelayDirectory
from airflow_provider_dm.engine.relay.errors import UpstreamSwitched
from airflow_provider_dm.engine.relay.process import RelayProcess
from airflow_provider_dm.engine.relay.spec import SpoolSpec
from testbed import Server, ServerSpec, start_servers, stop_servers
from tests.integration.sync.conftest import SOURCE_ID, TABLES, NewKit, rows_of
from tests.integration.sync.tail_kit import MIB, TailKit
from tests.jobs import META_VARIABLE, relay_spec
from tests.waiting import wait_for

OURS = [(1, b"ours")]


@dataclass
class MovedKit(TailKit):
    """A private log, which begins where the task needs it."""

    gtid: bool = False
    other: Server | None = None

    def source_spec(self) -> SourceSpec:
        plain = super().source_spec()
        config = plain.config.model_copy(update={"enable_gtid": self.gtid, "relay_binlog_name": ""})
        return plain.model_copy(update={"config": config})

    def pull_for(self, task: str, relay_dir: Path) -> RelayProcess:
        """The private relay of another task."""
        source = self.source_spec().model_copy(update={"relay_dir": str(relay_dir)})
        spec = relay_spec(source, spool=SpoolSpec(task=task, limit_bytes=MIB))
        self.relays.append(RelayProcess.start(spec, os.environ, self.folder / "another-relay.log"))
        return self.relays[-1]

    def end_run(self) -> None:
        """The relay ends, and its log is removed."""
        for relay in self.relays:
            relay.stop()
        self.relays.clear()
        shutil.rmtree(self.relay_dir)

    def relay_has_caught_up(self) -> bool:
        status = self.store.relay_status(SOURCE_ID)
        return status is not None and status.pid is not None and status.caught_up

    def relay_error(self) -> str | None:
        error = self.relays[-1].error()
        return None if error is None else error.code

    def rows(self) -> list[tuple[object, ...]]:
        return rows_of(self.target, self.schema, "plain")


@pytest.fixture(scope="module")
def pair(source: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[Server]]:
    """Two servers of this flavour, for all tests."""
    pair = start_servers([ServerSpec(name, source.flavour) for name in ("own", "other")], tmp_path_factory.mktemp("m"))
    yield pair
    stop_servers(pair, keep_logs=True)


@pytest.fixture
def kit(pair: Sequence[Server], mariadb_target: Server, new_kit: NewKit) -> MovedKit:
    """A server at the source's address; `kit.other` has written more, in files of the same names. Both begin anew."""
    for server in pair:
        server.reset_log()
    own, other = pair
    made = new_kit(MovedKit, own, mariadb_target, other=other)
    other.sql(f"CREATE DATABASE `{made.schema}`; FLUSH BINARY LOGS")
    other.sql(f"CREATE TABLE `{made.schema}`.`plain` ({TABLES['plain']})")
    with other.connect(database=made.schema) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO plain VALUES (1, 'ours')")  # so that a transaction begins where one of ours does
        for number in range(100, 200):
            cursor.execute(f"INSERT INTO plain VALUES ({number}, 'another server wrote this')")
    return made


def run_once(kit: MovedKit) -> None:
    """A run that syncs a row and ends, with the directory of its log removed afterwards."""
    kit.begin_with("plain")
    kit.write("INSERT INTO plain VALUES (1, 'ours')")
    assert kit.sync().finished
    assert kit.rows() == OURS
    kit.end_run()


@pytest.mark.usefixtures("far_away")
def test_another_server_at_the_address_is_refused(kit: MovedKit) -> None:
    run_once(kit)
    kit.elsewhere = kit.other
    kit.pull()
    with kit.syncing():
        wait_for(lambda: not kit.relays[-1].alive() or kit.rows() != OURS)
    assert kit.relay_error() == UpstreamSwitched.code
    assert kit.rows() == OURS


def test_the_report_of_another_tasks_relay_is_ignored(kit: MovedKit) -> None:
    """Its private log is of the server that answers now, and the source has one row for all of them."""
    run_once(kit)
    kit.elsewhere = kit.other
    other_task = kit.pull_for("another task", kit.folder / "of-another-task")
    wait_for(kit.relay_has_caught_up)
    other_task.stop()
    kit.pull()
    with kit.syncing():
        wait_for(lambda: not kit.relays[-1].alive() or kit.rows() != OURS)
    assert kit.relay_error() == UpstreamSwitched.code
    assert kit.rows() == OURS


def test_a_lost_metadata_db_changes_nothing(kit: MovedKit, monkeypatch: pytest.MonkeyPatch) -> None:
    """The target knows whose log it was."""
    run_once(kit)
    kit.elsewhere = kit.other
    kit.meta_url = f"sqlite:///{kit.folder}/new-meta.db"
    migrate(kit.meta_url)
    monkeypatch.setenv(META_VARIABLE, kit.meta_url)
    with MetaStore.open(kit.meta_url) as kit.store:
        kit.pull()
        wait_for(kit.relay_has_caught_up)
        raised = kit.stops(DmError)
    assert raised.code == "DM-4049"
    assert kit.rows() == OURS


@pytest.mark.usefixtures("far_away")
def test_by_gtid_the_same_server_is_no_failover(kit: MovedKit) -> None:
    kit.gtid = True
    run_once(kit)
    kit.write("INSERT INTO plain VALUES (2, 'ours')")
    assert kit.sync().finished
    assert kit.rows() == [(1, b"ours"), (2, b"ours")]
    assert [one.suffix for one in RelayDirectory(kit.relay_dir).sub_dirs()] == [1]
