"""A sync whose relay log fails: it pulls a private log, and returns to the relay log when possible.

What the product does after some seconds it does here after less, by the same constants.
"""

import shutil
import threading
from collections.abc import Callable

import pytest

from airflow_provider_dm.engine.errors import Reaction
from airflow_provider_dm.engine.meta.records import Stage
from airflow_provider_dm.engine.relay import health
from airflow_provider_dm.engine.relay.errors import UpstreamLogDiffers
from airflow_provider_dm.engine.sync.errors import BothLogsFailed
from airflow_provider_dm.engine.sync.log import tail, upstream
from airflow_provider_dm.engine.sync.runner import LocalRunner
from testbed import Flavour, Server, ServerSpec
from tests.binlogs import purge_before
from tests.conftest import StartServers
from tests.integration.sync.conftest import SOURCE_ID, NewKit
from tests.integration.sync.tail_kit import TailKit
from tests.waiting import wait_for


@pytest.fixture
def kit(source: Server, mariadb_target: Server, new_kit: NewKit, monkeypatch: pytest.MonkeyPatch) -> TailKit:
    """Make syncs from either flavour, with a shared relay log and the upstream to fall back to."""
    monkeypatch.setattr(tail, "TAIL_POLL_SECONDS", 0.2)
    return new_kit(TailKit, source, mariadb_target, shared=True)


@pytest.fixture
def soon_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sync checks often whether the relay log can be read again."""
    monkeypatch.setattr(upstream, "RETURN_SECONDS", 0.5)


def lose_a_file(kit: TailKit, name: str) -> None:
    kit.relay_file(name).unlink()


def flip_a_bit(kit: TailKit, name: str) -> None:
    """Damage the middle of a row."""
    path = kit.relay_file(name)
    data = bytearray(path.read_bytes())
    place = data.index(b"c" * 900) + 450
    data[place] ^= 0x04
    path.write_bytes(data)


def starts_of(data: bytes | bytearray) -> list[int]:
    """Return where the events of a binlog file begin."""
    starts, position = [], 4
    while position < len(data):
        starts.append(position)
        position += int.from_bytes(data[position + 9 : position + 13], "little")
    return starts


def flip_a_bit_of_a_type(kit: TailKit, name: str) -> None:
    """Damage the header of the first rows event: it looks like an unknown event."""
    path = kit.relay_file(name)
    data = bytearray(path.read_bytes())
    row = data.index(b"c" * 900)
    data[max(start for start in starts_of(data) if start < row) + 4] ^= 0x80
    path.write_bytes(data)


def flip_a_bit_of_the_first_event(kit: TailKit, name: str) -> None:
    """Damage what distinguishes the file from another one of its name."""
    path = kit.relay_file(name)
    data = bytearray(path.read_bytes())
    data[4] ^= 0x01
    path.write_bytes(data)


def lose_all_bytes(kit: TailKit, name: str) -> None:
    kit.relay_file(name).write_bytes(b"")


HARMS = [lose_a_file, lose_all_bytes, flip_a_bit, flip_a_bit_of_a_type, flip_a_bit_of_the_first_event]


@pytest.mark.usefixtures("soon_back")
@pytest.mark.parametrize("harm", HARMS)
def test_events_lost_in_the_relay_log_are_read_from_the_upstream(
    kit: TailKit, harm: Callable[[TailKit, str], None]
) -> None:
    """One file in the middle is harmed; the sync passes it and goes back to the relay log after it.

    Not before: a check of the current file does not find the damage in a later one.
    """
    kit.create_wide()
    kit.begin()
    kit.fill(0, 500)
    kit.rotate()
    kit.fill(1000, 500)
    harmed = kit.rotate()
    kit.fill(2000, 500)
    kit.rotate()
    kit.fill(3000, 500)
    wait_for(kit.caught_up)
    harm(kit, harmed)
    with kit.syncing():
        wait_for(lambda: kit.progress.binlog_type == "remote")
        wait_for(kit.applied)
        wait_for(lambda: kit.progress.binlog_type == "local")
        kit.write("UPDATE wide SET v = 'new' WHERE id < 50", "DELETE FROM wide WHERE id > 3400")
        wait_for(kit.applied)
        wait_for(lambda: not kit.fallback_dir.exists())
    assert all(relay.alive() for relay in kit.relays)


@pytest.mark.usefixtures("soon_back")
def test_a_relay_that_is_killed_and_not_restarted(kit: TailKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "SILENT_SECONDS", 3.0)
    monkeypatch.setattr(health, "FRESH_SECONDS", 2.0)  # less than the other, or the dead relay would be gone back to
    kit.create_wide()
    kit.begin()
    with kit.syncing():
        kit.fill(0, 200)
        wait_for(kit.applied)
        kit.relays[-1].kill()
        kit.fill(1000, 200)
        wait_for(lambda: kit.progress.binlog_type == "remote")
        wait_for(kit.applied)
        kit.rotate()
        kit.fill(2000, 200)
        wait_for(kit.applied)
        assert kit.progress.binlog_type == "remote"
        kit.pull()
        wait_for(lambda: kit.progress.binlog_type == "local")
        kit.fill(3000, 200)
        wait_for(kit.applied)
        # A relay that had no processor for two seconds was left for a while.
        wait_for(lambda: kit.progress.binlog_type == "local")


@pytest.mark.usefixtures("soon_back")
def test_a_relay_that_was_stopped_is_left_at_once(kit: TailKit) -> None:
    """The sync's own pull neither follows the desired stage of the relay nor reports in its place."""
    kit.create_wide()
    kit.begin()
    with kit.syncing():
        kit.store.set_relay_desired(SOURCE_ID, Stage.STOPPED)
        assert kit.relays[-1].wait(180) == 0
        kit.fill(0, 200)
        wait_for(lambda: kit.progress.binlog_type == "remote")
        wait_for(kit.applied)
        assert kit.relay_status().stage is Stage.STOPPED
        kit.store.set_relay_desired(SOURCE_ID, Stage.RUNNING)
        kit.pull()
        wait_for(lambda: kit.progress.binlog_type == "local")


@pytest.mark.usefixtures("soon_back")
def test_the_open_file_disappears_under_a_living_relay(kit: TailKit) -> None:
    """This ends the relay, and its supervisor restarts it."""
    kit.create_wide()
    kit.begin()
    with kit.syncing():
        kit.fill(0, 200)
        wait_for(kit.applied)
        wait_for(kit.caught_up)
        kit.relay_file(kit.upstream().file).unlink()
        kit.fill(1000, 200)
        wait_for(kit.applied)
        assert kit.progress.binlog_type == "remote"
        kit.rotate()
        kit.fill(2000, 200)
        wait_for(kit.applied)
        wait_for(lambda: not kit.relays[-1].alive())
        kit.pull()
        wait_for(lambda: kit.progress.binlog_type == "local")


@pytest.mark.usefixtures("soon_back")
def test_an_event_with_a_damaged_length_is_not_an_incomplete_event(
    kit: TailKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is open, where the end of an event may well be on its way."""
    monkeypatch.setattr(health, "SILENT_SECONDS", 2.0)
    kit.create_wide()
    kit.begin()
    kit.fill(0, 500)
    wait_for(kit.caught_up)
    path = kit.relay_file(kit.upstream().file)
    data = bytearray(path.read_bytes())
    row = max(start for start in starts_of(data) if start < data.index(b"k" * 900))
    data[row + 9 + 2] ^= 0x40  # four million bytes more
    with path.open("r+b") as file:
        file.write(data)
    with kit.syncing():
        wait_for(lambda: kit.progress.binlog_type == "remote")
        wait_for(kit.applied)
        kit.rotate()
        kit.fill(1000, 100)
        wait_for(lambda: kit.progress.binlog_type == "local")
        wait_for(kit.applied)


# Neither serves


def a_lost_file(kit: TailKit) -> str:
    """A relay log that lacks the first file that the sync needs, and has the one after it; the name of the first."""
    kit.create_wide()
    kit.begin()
    kit.fill(0, 200)
    lost = kit.rotate()
    kit.fill(1000, 200)
    wait_for(kit.caught_up)
    lose_a_file(kit, lost)
    return lost


def both_fail(kit: TailKit) -> BothLogsFailed:
    with pytest.raises(BothLogsFailed) as caught:
        kit.run(kit.spec("forever"), LocalRunner(), threading.Event(), kit.progress)
    return caught.value


def test_the_upstream_has_purged_what_the_relay_log_has_lost(kit: TailKit) -> None:
    lost = a_lost_file(kit)
    kit.relays[-1].kill()
    kit.rotate()
    last = kit.upstream().file
    purge_before(kit.source, last)
    error = both_fail(kit)
    assert "DM-4041" in error.local or "DM-4040" in error.local or "DM-3009" in error.local
    assert "DM-4022" in error.upstream
    assert "the upstream still has" not in str(error), "as it has not"
    assert "migrate in full again with another task" in error.workaround()
    assert lost in str(error)
    assert last in str(error)


@pytest.mark.parametrize("shared", [True, False], ids=["relay log", "private log"])
@pytest.mark.parametrize("flavour", ["mariadb", "mysql"])
def test_an_upstream_that_was_reset_is_not_read(
    flavour: Flavour, shared: bool, start_own: StartServers, mariadb_target: Server, new_kit: NewKit
) -> None:
    """The checkpoint lies between two transactions of its new log, too. A private log is removed after each run."""
    (own,) = start_own(ServerSpec("reset", flavour))
    kit = new_kit(TailKit, own, mariadb_target, shared=shared)
    own.reset_log()
    (kit.folder / "first-file").write_text("mysql-bin.000001")
    kit.create_wide()
    kit.begin()
    kit.write("INSERT INTO wide VALUES (1, 'a')")
    kit.sync_and_compare()
    kit.relays[-1].kill()
    if not shared:
        shutil.rmtree(kit.relay_dir)
    own.sql("SELECT SLEEP(1.1)")  # a first event is known by its second
    own.reset_log()
    own.sql("CREATE TABLE wode (id bigint NOT NULL PRIMARY KEY, v longtext NOT NULL)", database=kit.schema)
    for number in (2, 3):
        kit.write(f"INSERT INTO wide VALUES ({number}, 'a')")
    kit.stops(UpstreamLogDiffers)


def test_another_server_answers(kit: TailKit, mariadb_target: Server) -> None:
    a_lost_file(kit)
    kit.elsewhere = mariadb_target
    assert "DM-4062" in both_fail(kit).upstream
    assert not kit.fallback_dir.exists()


def test_no_server_answers(kit: TailKit) -> None:
    """The error may be transient: the launcher may retry."""
    a_lost_file(kit)
    spec = kit.spec("forever")
    (source,) = spec.sources
    nowhere = source.model_copy(update={"endpoint": source.endpoint.model_copy(update={"port": 1})})
    with pytest.raises(BothLogsFailed) as caught:
        kit.run(spec.model_copy(update={"sources": (nowhere,)}))
    assert "DM-2001" in caught.value.upstream
    assert caught.value.reacts() is Reaction.RETRY
    assert caught.value.workaround().startswith("The upstream may still have it. ")
