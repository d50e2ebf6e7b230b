"""A sync without a relay log: a bounded private one (`enable-relay: false`), and the upstream where the relay fails."""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pymysql
import pytest

from airflow_provider_dm.engine.config.job import SecretRef, SourceSpec
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.model import RelayStatus, Stage
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.relay.process import RelayProcess
from airflow_provider_dm.engine.relay.spec import RelaySpec, SpoolSpec
from airflow_provider_dm.engine.sync import apply, tail
from airflow_provider_dm.engine.sync.epoch import EpochSize
from airflow_provider_dm.engine.sync.fallback import NeitherServes
from airflow_provider_dm.engine.sync.progress import SyncProgress
from airflow_provider_dm.engine.sync.runner import LocalRunner
from airflow_provider_dm.engine.target.session import execute
from airflow_provider_dm.engine.target.statements import Statement
from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.sync.conftest import META_VARIABLE, SOURCE_ID, SyncKit, _kit

MIB = 1 << 20
SMALL = EpochSize(limit=1 << 17, one_task=1 << 15, smallest=1 << 15)
"""Many epochs, each of several ranges, and the next one planned while one is applied."""


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)


@dataclass
class TailKit(SyncKit):
    """A subtask whose relay log is a private one of `limit` bytes, or (`shared`) the source's own with the upstream to
    fall back to."""

    limit: int = MIB
    shared: bool = False
    progress: SyncProgress = field(default_factory=SyncProgress)
    elsewhere: Server | None = None
    """Another server that answers at the source's address."""

    @property
    def relay_dir(self) -> Path:
        return self.folder / "relay"

    @property
    def fallback_dir(self) -> Path:
        return self.folder / "upstream" / SOURCE_ID

    def source_spec(self) -> SourceSpec:
        config = {"source_id": SOURCE_ID, "relay_binlog_name": self.first_file, "enable_relay": self.shared}
        return SourceSpec(
            config=SourceConfig.model_validate(config),
            endpoint=self.endpoint(self.elsewhere or self.source, SOURCE_ID),
            relay_dir=str(self.relay_dir),
            fallback_dir=str(self.fallback_dir) if self.shared else None,
        )

    def pull(self) -> None:
        if any(relay.alive() for relay in self.relays):
            return
        spec = RelaySpec(
            source=self.source_spec(),
            spool=None if self.shared else SpoolSpec(task="test", limit_bytes=self.limit),
            meta_url=SecretRef(env=META_VARIABLE),
            launcher_pid=os.getpid(),
        )
        self.relays.append(
            RelayProcess.start(spec, {**os.environ, META_VARIABLE: self.meta_url}, self.folder / "relay.log")
        )

    def relay_status(self) -> RelayStatus:
        status = self.store.relay_status(SOURCE_ID)
        assert status is not None
        return status

    def held(self) -> Mapping[str, int]:
        """Size of every binlog file that is held, by name."""
        found = {}
        for path in self.relay_dir.glob("*/*bin.*"):
            with suppress(FileNotFoundError):
                found[path.name] = path.stat().st_size
        return found

    def relay_file(self, name: str) -> Path:
        (path,) = self.relay_dir.glob(f"*/{name}")
        return path

    def caught_up(self) -> bool:
        """The relay has all that the upstream has written by now."""
        end, held = self.upstream(), self.relay_status().relay
        return held is not None and (held.file, held.position) == (end.file, end.position)

    def dumps(self) -> int:
        """Connections to the source that send its binlog."""
        return len(self.source.sql("SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"))

    def fill(self, first: int, rows: int, *, width: int = 1000, each: int = 100) -> None:
        """Rows `first`… of `plain`-like table `wide`, in transactions of `each` rows."""
        for start in range(first, first + rows, each):
            values = ", ".join(
                f"({number}, REPEAT('{chr(97 + number % 26)}', {width}))" for number in range(start, start + each)
            )
            self.write(f"INSERT INTO wide VALUES {values}")

    def create_wide(self) -> None:
        self.tables = ("wide",)
        _ = self.first_file
        for server in (self.source, self.target):
            server.sql(f"CREATE TABLE `{self.schema}`.wide (id bigint NOT NULL PRIMARY KEY, v longtext NOT NULL)")

    def rotate(self) -> str:
        """The source goes on in a new file; the name of the one before."""
        before = self.upstream().file
        self.source.sql("FLUSH BINARY LOGS")
        return before

    @contextmanager
    def syncing(self) -> Iterator[None]:
        """A sync that never ends by itself; its error is raised."""
        stop, failed = threading.Event(), []

        def work() -> None:
            try:
                self.run(self.spec("forever"), LocalRunner(), stop, self.progress, SMALL)
            except DmError as error:
                failed.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        if failed:
            raise failed[0]

    def applied(self) -> bool:
        """The target has everything that the source has now."""
        return self.differences() == []


@pytest.fixture
def kit(
    source: Server, mariadb_target: Server, fresh_schema: FreshSchema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TailKit]:
    """From either flavour."""
    for plain in _kit(source, mariadb_target, fresh_schema, tmp_path, monkeypatch):
        assert isinstance(plain, SyncKit)
        made = TailKit(plain.source, plain.target, plain.schema, plain.folder, plain.store, plain.meta_url)
        made.relays = plain.relays  # what the fixture ends
        yield made


@pytest.fixture
def shared(kit: TailKit) -> TailKit:
    kit.shared = True
    return kit


@contextmanager
def watched(kit: TailKit) -> Iterator[list[int]]:
    """Bytes held, sampled all the time; the last element is the most."""
    most, ended = [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            most[0] = max(most[0], sum(kit.held().values()))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield most
    finally:
        ended.set()
        thread.join()


# (a), (b): a private log


def test_a_private_log_waits_for_its_task(kit: TailKit) -> None:
    """Ten times the limit while the task is stopped; then it is started and gets everything."""
    kit.create_wide()
    kit.begin()
    with watched(kit) as most:
        for number in range(10):
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
    assert most[0] < MIB + 2 * MIB + MIB, "the limit, the file that is being read, and what one receive brings"
    wait_for(lambda: len(kit.held()) <= 2)


def test_a_transaction_larger_than_the_limit_gets_through(kit: TailKit) -> None:
    kit.limit = MIB // 2
    kit.create_wide()
    kit.begin()
    kit.fill(0, 100)
    kit.fill(1000, 6000, each=6000)  # 6 MB, twelve times the limit
    kit.fill(10_000, 3000)
    wait_for(lambda: kit.dumps() == 0)
    assert kit.sync().finished
    assert kit.differences() == []


def test_a_transaction_larger_than_the_limit_at_the_start_of_everything(kit: TailKit) -> None:
    """The first of its file: nothing before it would move the task."""
    kit.limit = 1000
    kit.create_wide()
    kit.begin()
    kit.rotate()
    kit.fill(0, 3000, each=3000)
    kit.fill(5000, 200)
    assert kit.sync().finished
    assert kit.differences() == []


class Strike(DmError):
    """A task that fails in the middle of its work."""


def test_half_an_epoch_is_completed_from_a_log_that_is_smaller_than_it(
    kit: TailKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log was lost as well: all of the epoch has to be pulled again before any of it may be applied."""
    calls = 0

    def fragile(connection: Connection, statement: Statement) -> int:
        nonlocal calls
        calls += 1
        if calls == 20:
            raise Strike
        return execute(connection, statement)

    monkeypatch.setattr(apply, "execute", fragile)
    monkeypatch.setattr(apply, "BATCH_ROWS", 10)
    kit.limit = 64 * MIB
    kit.create_wide()
    kit.begin()
    kit.fill(0, 2000, each=10)
    wait_for(kit.caught_up)
    with pytest.raises(Strike):
        kit.sync()
    positions = kit.target.sql(f"SELECT DISTINCT position FROM `{kit.meta_schema}`.dm_frontier")
    assert len(positions) == 2, "some buckets have the epoch, others have not"
    kit.relays[-1].kill()
    shutil.rmtree(kit.relay_dir)
    kit.limit = MIB // 4
    assert kit.sync().finished
    assert kit.differences() == []


def test_what_the_upstream_has_purged_while_the_log_was_full_is_named(kit: TailKit) -> None:
    """As when the full load takes longer than the upstream keeps its binlogs."""
    kit.create_wide()
    kit.begin()
    for number in range(4):
        kit.fill(number * 1000, 1000)
        kit.rotate()
    wait_for(lambda: kit.dumps() == 0 and sum(kit.held().values()) >= MIB)
    stands, last = max(kit.held()), kit.upstream().file
    wait_for(lambda: purged(kit, last))
    with kit.syncing():
        wait_for(lambda: not kit.relays[-1].alive())
    error = kit.relays[-1].error()
    assert error is not None
    assert error["ErrCode"] == "DM-4060"
    assert stands in error["Message"]
    assert last in error["Message"]
    assert "enable-relay" in error["Message"]


def purged(kit: TailKit, last: str) -> bool:
    """Let the source forget its files before `last`. A server keeps what it is still sending, also to a dead relay."""
    for (connection,) in kit.source.sql(
        "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
    ):
        with suppress(pymysql.err.MySQLError):
            kit.source.sql(f"KILL {connection}")
    kit.source.sql(f"PURGE BINARY LOGS TO '{last}'")
    return bool(kit.source.sql("SHOW BINARY LOGS")[0][0] == last)


# (c): the relay log fails


def lose_a_file(kit: TailKit, name: str) -> None:
    kit.relay_file(name).unlink()


def flip_a_bit(kit: TailKit, name: str) -> None:
    """In the middle of a row."""
    path = kit.relay_file(name)
    data = bytearray(path.read_bytes())
    place = data.index(b"c" * 900) + 450
    data[place] ^= 0x04
    path.write_bytes(data)


def starts_of(data: bytes | bytearray) -> list[int]:
    """Where the events of a binlog file begin."""
    starts, position = [], 4
    while position < len(data):
        starts.append(position)
        position += int.from_bytes(data[position + 9 : position + 13], "little")
    return starts


def flip_a_bit_of_a_type(kit: TailKit, name: str) -> None:
    """In the header of the first rows event: it looks like an event that nobody knows."""
    path = kit.relay_file(name)
    data = bytearray(path.read_bytes())
    row = data.index(b"c" * 900)
    data[max(start for start in starts_of(data) if start < row) + 4] ^= 0x80
    path.write_bytes(data)


@pytest.mark.parametrize("harm", [lose_a_file, flip_a_bit, flip_a_bit_of_a_type])
def test_what_the_relay_log_has_lost_comes_from_the_upstream(
    shared: TailKit, harm: Callable[[TailKit, str], None]
) -> None:
    """One file in the middle is harmed; the sync passes it and goes back to the relay log behind it."""
    kit = shared
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


def test_a_relay_that_is_killed_and_stays_down(shared: TailKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "SILENT_SECONDS", 4.0)
    kit = shared
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
    assert kit.progress.binlog_type == "local"


def test_a_relay_that_was_stopped_is_left_at_once(shared: TailKit) -> None:
    """What the sync pulls for itself neither obeys the stage that the relay should have nor reports in its place."""
    kit = shared
    kit.create_wide()
    kit.begin()
    with kit.syncing():
        kit.store.set_relay_desired(SOURCE_ID, Stage.STOPPED)
        assert kit.relays[-1].wait(30) == 0
        kit.fill(0, 200)
        wait_for(lambda: kit.progress.binlog_type == "remote")
        wait_for(kit.applied)
        assert kit.relay_status().stage is Stage.STOPPED
        kit.store.set_relay_desired(SOURCE_ID, Stage.RUNNING)
        kit.pull()
        wait_for(lambda: kit.progress.binlog_type == "local")


def test_the_open_file_disappears_under_a_living_relay(shared: TailKit) -> None:
    """The relay ends of that, and whoever looks after it starts it again."""
    kit = shared
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


def test_an_event_whose_length_is_damaged_does_not_look_like_one_to_come(
    shared: TailKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the open file, where the end of an event may well be on its way."""
    monkeypatch.setattr(tail, "SILENT_SECONDS", 2.0)
    kit = shared
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
        wait_for(kit.applied)
        assert kit.progress.binlog_type == "remote"
        kit.rotate()
        kit.fill(1000, 100)
        wait_for(lambda: kit.progress.binlog_type == "local")
        wait_for(kit.applied)


# (d): neither serves


def both_fail(kit: TailKit) -> NeitherServes:
    with pytest.raises(NeitherServes) as caught:
        kit.run(kit.spec("forever"), LocalRunner(), threading.Event(), kit.progress)
    return caught.value


def test_the_upstream_has_purged_what_the_relay_log_has_lost(shared: TailKit) -> None:
    kit = shared
    kit.create_wide()
    kit.begin()
    kit.fill(0, 200)
    lost = kit.rotate()
    kit.fill(1000, 200)
    wait_for(kit.caught_up)
    lose_a_file(kit, lost)
    kit.relays[-1].kill()
    kit.rotate()
    last = kit.upstream().file
    wait_for(lambda: purged(kit, last))
    error = both_fail(kit)
    assert "DM-4041" in error.local or "DM-4040" in error.local or "DM-3009" in error.local
    assert "DM-4022" in error.upstream
    assert lost in str(error)
    assert last in str(error)


def test_another_server_answers(shared: TailKit, mariadb_target: Server) -> None:
    kit = shared
    kit.create_wide()
    kit.begin()
    kit.fill(0, 200)
    lost = kit.rotate()
    kit.fill(1000, 200)
    wait_for(kit.caught_up)
    lose_a_file(kit, lost)
    kit.elsewhere = mariadb_target
    assert "DM-4062" in both_fail(kit).upstream
    assert not kit.fallback_dir.exists()


def test_nobody_answers(shared: TailKit) -> None:
    """It may pass: whoever launched the sync may start it again."""
    kit = shared
    kit.create_wide()
    kit.begin()
    kit.fill(0, 200)
    lost = kit.rotate()
    wait_for(kit.caught_up)
    lose_a_file(kit, lost)
    spec = kit.spec("forever")
    (source,) = spec.sources
    nowhere = source.model_copy(update={"endpoint": source.endpoint.model_copy(update={"port": 1})})
    with pytest.raises(NeitherServes) as caught:
        kit.run(spec.model_copy(update={"sources": (nowhere,)}))
    assert "DM-2001" in caught.value.upstream
    assert caught.value.reported == {"Reaction": "retry"}
