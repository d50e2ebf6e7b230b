"""The tail of a log that cannot be read, without servers: the file may be complete a moment later, or not."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_provider_dm.engine.binlog.errors import ChangeNotInLog, MalformedEvent
from airflow_provider_dm.engine.binlog.format import BinlogFormat
from airflow_provider_dm.engine.binlog.planned import UNLIMITED, ByteRange, Epoch, EpochLimits, Planned, UpToDate
from airflow_provider_dm.engine.binlog.xa import PreparedXa, Xid
from airflow_provider_dm.engine.errors import DmError, Reaction
from airflow_provider_dm.engine.meta.errors import MetaUnreachable
from airflow_provider_dm.engine.meta.records import RelayStatus, Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.errors import RelayFileGone
from airflow_provider_dm.engine.relay.reader import RelayReader
from airflow_provider_dm.engine.relay.spool import LogPosition, read_mark
from airflow_provider_dm.engine.sync.errors import BothLogsFailed
from airflow_provider_dm.engine.sync.log import tail as module
from airflow_provider_dm.engine.sync.log.locations import Cursor
from airflow_provider_dm.engine.sync.log.reach import left_bytes
from airflow_provider_dm.engine.sync.log.tail import Tail
from airflow_provider_dm.engine.sync.log.upstream import FromUpstream
from tests.metadata_db import new_meta_db

LO = Location("bin.000001", 4)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "relay" / "9f2c.000001"
    folder.mkdir(parents=True)
    (folder / "bin.000001").write_bytes(b"x" * 100)
    return tmp_path / "relay"


def tail_of(root: Path, *, private: bool = False) -> Tail:
    return Tail("one", RelayReader(root), MetaStore.open(new_meta_db(root.parent)), private=private)


def planned(
    tail: Tail,
    monkeypatch: pytest.MonkeyPatch,
    *answers: Planned | BaseException,
    limit: int = UNLIMITED,
    goal: Location | None = None,
) -> Planned:
    """Return what `plan` gives when the planner answers so, time after time."""
    left = iter(answers)

    def plan_epoch(*_: object, **__: object) -> Planned:
        answer = next(left)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(module, "plan_epoch", plan_epoch)
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.0)
    with tail.store:
        return tail.plan(Cursor(LO), EpochLimits(goal, limit, range_bytes=1))


class Pauses(threading.Event):
    """A stop request that never comes; `log` gets more bytes in the third pause, `clock` advances in each."""

    def __init__(self, log: Path | None = None) -> None:
        super().__init__()
        self.log, self.made, self.clock = log, list[float](), 0.0

    def wait(self, timeout: float | None = None) -> bool:
        self.made.append(timeout or 0.0)
        self.clock += timeout or 0.0
        if self.log is not None and len(self.made) == 3:
            self.log.write_bytes(b"x" * 101)
        return False


def test_a_wait_ends_when_the_log_grows_or_at_its_time_out(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tail, file = tail_of(root), root / "9f2c.000001" / "bin.000001"
    planned(tail, monkeypatch, UpToDate(LO))
    grows, quiet = Pauses(file), Pauses()
    for pauses in (grows, quiet):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda pauses=pauses: pauses.clock))
        tail._took = 0.0
        tail.wait(0.5, pauses)
        if pauses is grows:
            file.write_bytes(b"x" * 100)
    assert grows.made == [module.GROWTH_SECONDS] * 3
    assert sum(quiet.made) == pytest.approx(0.5, abs=module.GROWTH_SECONDS)

    slow = Pauses()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: slow.clock))
    tail._took = 60.0
    tail.wait(0.5, slow)
    assert slow.made == [module.LONGEST_PAUSE]


ZEROS = MalformedEvent("bin.000001:80", "a size of 0 bytes")


def test_bytes_that_were_cut_off_while_they_were_read_are_no_damage(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert planned(tail_of(root), monkeypatch, ZEROS, UpToDate(LO)) == UpToDate(LO)


@pytest.mark.parametrize(
    "answers", [(ZEROS, ZEROS), (ChangeNotInLog("bin.000001:4", "UPDATE t", ""),)], ids=["damage", "another error"]
)
def test_without_a_fallback_the_error_is_raised_unchanged(
    root: Path, monkeypatch: pytest.MonkeyPatch, answers: tuple[DmError, ...]
) -> None:
    with pytest.raises(type(answers[-1])) as caught:
        planned(tail_of(root), monkeypatch, *answers)
    assert caught.value is answers[-1]


def test_a_file_that_disappears_while_it_is_read_no_longer_exists(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RelayFileGone):
        planned(tail_of(root), monkeypatch, FileNotFoundError(2, "No such file", str(root / "bin.000001")))


def test_the_read_position_of_a_private_log_is_written(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned(tail_of(root, private=True), monkeypatch, UpToDate(LO))
    assert read_mark(root) == LogPosition(1, 1, 100), "all of it, as nothing was found in it"


@pytest.mark.parametrize(
    ("limit", "goal", "mark"),
    [
        (1000, 90, LogPosition(1, 1, 4)),
        (UNLIMITED, 90, LogPosition(1, 1, 100)),
        (UNLIMITED, 50, LogPosition(1, 1, 4)),
        (UNLIMITED, None, LogPosition(1, 1, 4)),
    ],
    ids=["any piece will do", "it has to come to the goal", "it does", "no goal"],
)
def test_half_an_epoch_is_not_enough_to_complete_a_half_applied_epoch(
    root: Path, monkeypatch: pytest.MonkeyPatch, limit: int, goal: int | None, mark: LogPosition
) -> None:
    """Else a log that is smaller than the epoch to be completed would wait for its reader, and that for it."""
    piece = Epoch(LO, LO.at(50), (), transactions=1, bytes=46, newest_timestamp=0)
    end = LO.at(goal) if goal is not None else None
    assert planned(tail_of(root, private=True), monkeypatch, piece, limit=limit, goal=end) == piece
    assert read_mark(root) == mark


def test_a_shared_log_is_only_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(root.rglob("*"))
    planned(tail_of(root), monkeypatch, UpToDate(LO))
    assert sorted(root.rglob("*")) == before


@pytest.mark.parametrize(("private", "shown"), [(False, "local"), (True, "remote")])
def test_the_kind_of_log_that_is_read_is_reported(root: Path, *, private: bool, shown: str) -> None:
    tail = tail_of(root, private=private)
    assert tail.progress.to_json()["binlog_type"] == shown
    tail.store.close()


@dataclass
class Pulled:
    """An upstream that has every place, in a folder of its own, and notes from where it was asked to send."""

    root: Path
    begun: list[int] = field(default_factory=list)
    forgotten: bool = False

    @property
    def reader(self) -> RelayReader:
        return RelayReader(self.root)

    def begin(self, at: Location, _server_uuid: str) -> None:
        self.begun.append(at.position)

    def end(self) -> None:
        """Nothing runs."""

    def forget(self) -> None:
        self.forgotten = True


def read_from(log: Path, lo: int, hi: int) -> Epoch:
    """Return an epoch that was planned over the file of that log."""
    path = str(log / "9f2c.000001" / "bin.000001")
    piece = ByteRange(path, "bin.000001", 1, lo, hi, BinlogFormat(Flavour.MYSQL, checksum=True))
    return Epoch(LO.at(lo), LO.at(hi), (piece,), transactions=1, bytes=hi - lo, newest_timestamp=0)


def test_an_error_in_a_segment_of_the_previous_log_keeps_the_current_log(root: Path) -> None:
    """The look-ahead has gone to the upstream, and then the epoch under way fails on the relay log's bytes."""
    tail, pulled = tail_of(root), Pulled(root.parent / "upstream")
    tail.upstream = pulled  # type: ignore[assignment]
    gone = RelayFileGone("bin.000001", str(root))
    with tail.store:
        tail.distrust(gone, read_from(root, 80, 100), Cursor(LO.at(80)))
        assert isinstance(tail.reading, FromUpstream)

        tail.distrust(gone, read_from(root, 4, 80), Cursor(LO.at(4)))

        assert isinstance(tail.reading, FromUpstream)
        assert pulled.begun == [80, 4], "the earlier piece is pulled as well"
        assert not pulled.forgotten
        assert not tail.reading.is_return_due(LO)

        with pytest.raises(ChangeNotInLog):
            tail.distrust(ChangeNotInLog("bin.000001:4", "UPDATE t", ""), read_from(root, 4, 80), Cursor(LO.at(4)))
        with pytest.raises(BothLogsFailed):
            tail.distrust(gone, read_from(pulled.root, 4, 80), Cursor(LO.at(4)))


def test_pulling_begins_at_the_prepare_of_the_xa_transaction_to_commit(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look-ahead is after the commit, where nothing is prepared any more; the piece before it fails."""
    tail, pulled = tail_of(root), Pulled(root.parent / "upstream")
    tail.upstream = pulled  # type: ignore[assignment]
    planned(tail, monkeypatch, UpToDate(LO))
    at = LO.at(20)
    prepared = PreparedXa(Xid(1, b"x", b""), at, 40, rows=True)
    with tail.store:
        tail.distrust(RelayFileGone("bin.000001", str(root)), read_from(root, 60, 80), Cursor(LO.at(60), (prepared,)))
    assert pulled.begun == [20]


def test_an_unreachable_metadata_db_does_not_end_a_sync_with_a_relay_log(root: Path) -> None:
    """That the relay pulls is not known: it was taken for a log that does not serve, which ended the sync for good."""
    tail, pulled = tail_of(root), Pulled(root.parent / "upstream")
    tail.upstream = pulled  # type: ignore[assignment]
    gone = RelayFileGone("bin.000001", str(root))
    with tail.store:
        tail.distrust(gone, read_from(root, 60, 80), Cursor(LO.at(60)))
        database = root.parent / "meta.db"
        database.unlink()
        database.mkdir()

        with pytest.raises(MetaUnreachable) as raised:
            tail.distrust(gone, read_from(pulled.root, 60, 80), Cursor(LO.at(60)))

        assert raised.value.reaction is Reaction.RETRY
        assert not pulled.forgotten
        assert isinstance(tail.reading, FromUpstream)
        tail.reading.return_at = 0.0
        tail._look_back(tail.reading, Cursor(LO.at(10)))
        assert isinstance(tail.reading, FromUpstream)


def test_an_unreadable_relay_log_does_not_serve_and_its_rest_is_unknown(root: Path) -> None:
    tail = tail_of(root)
    with tail.store:
        tail.store.put_relay_status(RelayStatus("one", Stage.RUNNING, relay=LO.at(100), pid=1, host="here"))
        assert left_bytes(tail.local, LO, None, None) == 96
        root.rename(root.with_name("moved"))
        root.touch()
        assert not tail._local_serves(Cursor(LO))
        assert tail._is_damaged(LO)
        assert left_bytes(tail.local, LO, None, None) is None
