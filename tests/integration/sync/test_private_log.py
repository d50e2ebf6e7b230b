"""A sync from a private relay log (`enable-relay: false`), which is bounded by how far the sync has read."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from airflow_provider_dm.cli.main import main
from airflow_provider_dm.engine.meta.records import Stage
from testbed import Server
from tests.beside import beside
from tests.binlogs import purge_before
from tests.integration.binlog.walking import end_xa
from tests.integration.sync.conftest import SOURCE_ID, NewKit, Strike, strike_once
from tests.integration.sync.tail_kit import MIB, TailKit
from tests.waiting import wait_for


@pytest.fixture
def kit(source: Server, mariadb_target: Server, new_kit: NewKit) -> TailKit:
    """Make syncs from either flavour."""
    return new_kit(TailKit, source, mariadb_target)


@pytest.fixture
def one_kit(mysql_source: Server, mariadb_target: Server, new_kit: NewKit) -> TailKit:
    """Make syncs for what does not depend on the flavour."""
    return new_kit(TailKit, mysql_source, mariadb_target)


@contextmanager
def watched(kit: TailKit) -> Iterator[list[int]]:
    """Bytes held, sampled all the time; the last element is the most."""
    most = [0]

    def watch(ended: threading.Event) -> None:
        while not ended.wait(0.02):
            most[0] = max(most[0], sum(kit.held().values()))

    with beside(watch):
        yield most


def test_a_private_log_waits_for_its_task(kit: TailKit) -> None:
    """Nine times the limit while the task is stopped; then it is started and gets everything."""
    kit.create_wide()
    kit.begin()
    with watched(kit) as most:
        for number in range(9):
            kit.fill(number * 1000, 1000)
            kit.rotate()
        wait_for(lambda: kit.dumps() == 0 and sum(kit.held().values()) >= MIB)
        held, behind = sum(kit.held().values()), kit.upstream()
        wait_for(lambda: (kit.relay_status().heartbeat_age_seconds or 0) < 1)
        assert kit.relay_status().stage is Stage.RUNNING
        assert kit.relay_status().error is None
        assert sum(kit.held().values()) == held, "it waits"
        assert (kit.relay_status().relay or behind).file != behind.file
        result = kit.sync()
    assert result.finished
    assert kit.differences() == []
    assert most[0] < 7 * MIB, (
        "the limit, the file that is being read, what one receive brings, and what waits for a purge"
    )
    wait_for(lambda: len(kit.held()) <= 2)


def test_a_task_with_a_private_log_continues_from_a_shared_relay_log(one_kit: TailKit) -> None:
    """What `start-relay` answers while the task pulls for itself: end it, `enable-relay: true`, start it again."""
    one_kit.create_wide()
    one_kit.begin()
    one_kit.fill(0, 100)
    with one_kit.syncing():
        wait_for(one_kit.applied)
        wait_for(lambda: one_kit.store.relay_status(SOURCE_ID))  # the sync may be ahead of the relay's first report
        assert one_kit.relay_status().task == "test"
        assert main(["start-relay", "-s", SOURCE_ID, "--meta-url", one_kit.meta_url]) == 1
    for relay in one_kit.relays:
        relay.stop()
    one_kit.fill(100, 100)
    one_kit.shared, one_kit.folder = True, one_kit.folder / "shared"
    one_kit.folder.mkdir()
    one_kit.pull()
    with one_kit.syncing():
        wait_for(one_kit.applied)
        wait_for(lambda: not one_kit.relay_status().task)
        assert main(["start-relay", "-s", SOURCE_ID, "--meta-url", one_kit.meta_url]) == 0


def test_a_transaction_larger_than_the_limit_is_pulled(kit: TailKit) -> None:
    kit.limit = MIB // 2
    kit.create_wide()
    kit.begin()
    kit.fill(0, 100)
    kit.fill(1000, 3000, each=3000)  # 3 MB, six times the limit
    kit.fill(10_000, 2000)
    wait_for(lambda: kit.dumps() == 0)
    kit.sync_and_compare()


def test_a_transaction_larger_than_the_limit_at_the_start_of_the_log(kit: TailKit) -> None:
    """The first of its file: nothing before it would move the task."""
    kit.limit = 1000
    kit.create_wide()
    kit.begin()
    kit.rotate()
    kit.fill(0, 3000, each=3000)
    kit.fill(5000, 200)
    kit.sync_and_compare()


def test_nothing_is_pulled_far_after_the_end_of_a_run(kit: TailKit) -> None:
    """What comes after `--until FILE:POSITION` is for a run that wants it."""
    kit.limit = 64 * MIB
    kit.create_wide()
    kit.begin()
    kit.fill(0, 100)
    kit.relays.pop().stop()
    kit.until = kit.upstream()
    kit.fill(1000, 8_000)
    far = kit.upstream()
    assert kit.sync(until=str(kit.until)).finished
    wait_for(lambda: kit.relay_status().stage is Stage.RUNNING and kit.relay_status().relay is not None)
    wait_for(lambda: kit.dumps() == 0)
    assert sum(kit.held().values()) < kit.until.position + 4 * MIB < far.position, "and what one receive brings"
    assert kit.relay_status().error is None
    kit.relays.pop().stop()
    kit.until = None
    kit.sync_and_compare()


def test_half_an_epoch_is_completed_from_a_log_that_is_smaller_than_it(
    one_kit: TailKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log was lost as well: all of the epoch has to be pulled again before any of it may be applied."""
    kit = one_kit  # buckets, marks and the spool: none of them knows what kind of server the log is from
    strike_once(monkeypatch, 20, batch_rows=10)
    kit.limit = 64 * MIB
    kit.create_wide()
    kit.begin()
    kit.fill(0, 2000, each=10)
    wait_for(kit.caught_up)
    kit.stops(Strike)
    positions = kit.target.sql(f"SELECT DISTINCT position FROM `{kit.meta_schema}`.dm_frontier")
    assert len(positions) == 2, "some buckets have the epoch, others have not"
    kit.relays[-1].kill()
    shutil.rmtree(kit.relay_dir)
    kit.limit = MIB // 4
    kit.sync_and_compare()


def test_binlogs_purged_while_the_private_log_was_full_are_reported(kit: TailKit) -> None:
    """Such a full load takes longer than the upstream keeps its binlogs."""
    kit.create_wide()
    kit.begin()
    for number in range(4):
        kit.fill(number * 1000, 1000)
        kit.rotate()
    wait_for(lambda: kit.dumps() == 0 and sum(kit.held().values()) >= MIB)
    reached, last = max(kit.held()), kit.upstream().file
    purge_before(kit.source, last)
    with kit.syncing():
        wait_for(lambda: not kit.relays[-1].alive())
    error = kit.relays[-1].error()
    assert error is not None
    assert error.code == "DM-4060"
    assert reached in error.message
    assert last in error.message
    assert "enable-relay" in error.message


def test_prepared_transactions_extend_the_limit_and_stop_nothing(kit: TailKit) -> None:
    kit.create_wide()
    kit.begin()
    for xid, number in (("'kept'", 1_000_001), ("'undone'", 1_000_002)):
        with kit.source.connect(database=kit.schema) as connection, connection.cursor() as cursor:
            for one in (f"XA START {xid}", f"INSERT INTO wide VALUES ({number}, REPEAT('x', 1000))", f"XA END {xid}"):
                cursor.execute(one)
            cursor.execute(f"XA PREPARE {xid}")
    prepared = kit.rotate()
    with kit.syncing():
        for start in range(0, 3000, 1000):  # about 3 MiB, where one may be held
            kit.fill(start, 1000)
            kit.rotate()
        wait_for(kit.applied)
        assert prepared in kit.held()
        end_xa(kit.source, "'kept'")
        end_xa(kit.source, "'undone'", "ROLLBACK")
        wait_for(kit.applied)
        kit.fill(6000, 100)
        wait_for(lambda: prepared not in kit.held())
        wait_for(kit.applied)
