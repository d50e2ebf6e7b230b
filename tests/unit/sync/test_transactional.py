"""Cutting a log into target transactions that hold whole transactions of the source."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from airflow_provider_dm.engine.binlog.errors import ChecksumMismatch
from airflow_provider_dm.engine.binlog.format import BinlogFormat
from airflow_provider_dm.engine.binlog.planned import ByteRange
from airflow_provider_dm.engine.downstream.errors import Fenced, TargetLimit, TargetRefused, TargetWentBack
from airflow_provider_dm.engine.downstream.frontier import EpochRange, FrontierRow, common_position
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.subtask import BUCKETS, UNIT_SYNC, begin_subtask
from airflow_provider_dm.engine.errors import InvariantBroken
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.sync.errors import TransactionGroupsChanged
from airflow_provider_dm.engine.sync.resuming import is_transient
from airflow_provider_dm.engine.sync.write import transactional
from airflow_provider_dm.engine.sync.write.apply import Target, WaveWriter
from airflow_provider_dm.engine.sync.write.dependence import LoggedChange
from airflow_provider_dm.engine.sync.write.transactional import TransactionalWriter, TransactionGroup, groups_of
from tests.unit.sync.loop_world import PLAN
from tests.unit.sync.sqlite_target import META, Database

FORMAT = BinlogFormat(Flavour.MARIADB, checksum=True)
LO = Location("bin.000001", 100)
FENCE = Fence(SubtaskRef(META, "task", "source"), 1)


def key(position: int) -> str:
    return LO.at(position).sort_key


def a_range(start: int, end: int, *, closes: int = 0, counts_at: str = "") -> ByteRange:
    return ByteRange("/x", LO.file, LO.suffix, start, end, FORMAT, closes=closes, counts_at=counts_at)


def cut(*ranges: ByteRange, hi: int, together: bool = False) -> list[tuple[str, list[int]]]:
    """Return where groups end, and where the ranges of each begin."""

    def changes_in(one: ByteRange) -> Iterator[LoggedChange]:
        yield (one.start, None, None)

    groups = groups_of(ranges, key(hi), changes_in, together=together)
    return [(group.hi, [table for table, _, _ in group.changes()]) for group in groups]


def test_a_group_ends_with_a_transaction() -> None:
    inside = a_range(200, 300, closes=400), a_range(300, 400)

    assert cut(a_range(100, 200), *inside, hi=400) == [(key(200), [100]), (key(400), [200, 300])]


def test_rows_that_were_prepared_elsewhere_belong_to_their_commit() -> None:
    prepared = a_range(20, 60, counts_at=key(200))

    assert cut(a_range(100, 200), prepared, a_range(200, 250), hi=250) == [(key(200), [100]), (key(250), [20, 200])]


def test_the_last_group_ends_where_the_epoch_does() -> None:
    """It ends after events that change nothing, maybe in the next file."""
    assert cut(a_range(100, 200), a_range(200, 300), hi=350) == [(key(200), [100]), (key(350), [200])]
    assert cut(hi=350) == [(key(350), [])]


def test_an_epoch_with_xa_prepare_is_one_unit() -> None:
    assert cut(a_range(100, 200), a_range(200, 300), hi=300, together=True) == [(key(300), [100, 200])]


# Writing them


def inserts(keys: Iterable[int]) -> Iterator[LoggedChange]:
    return ((0, None, (b"%d" % number, b"0")) for number in keys)


class World:
    """A target at location LO, and groups that each insert a row."""

    def __init__(self, transactions: Callable[[Any], Any] | None = None) -> None:
        self.database = Database(lambda: 0.0)
        self.database.sqlite.execute(
            f"INSERT INTO {META}.dm_subtask (task, source, generation) VALUES ('task', 'source', 1)"
        )
        begin_subtask(self.database.connection(), FENCE, unit=UNIT_SYNC, start=LO)
        self.began = 0
        target = Target(transactions or self.transaction, self.database.access)
        plan = replace(PLAN, buckets=BUCKETS, whole=True)
        self.writer = WaveWriter(plan, target, EpochRange(FENCE, key(100), key(400)), batch=1)
        self.groups = [TransactionGroup(key(100 + 100 * n), 50, partial(inserts, [n])) for n in (1, 2, 3)]

    def transaction(self, body: Callable[[Any], Any], /) -> Any:
        self.began += 1
        return self.database.transaction(body, None)

    def write(self) -> int:
        return TransactionalWriter(self.writer).write(self.groups).changes

    def rows(self) -> list[int]:
        return [int(k) for (k,) in self.database.sqlite.execute("SELECT k FROM shop.plain ORDER BY k").fetchall()]

    def move_to(self, position: int, where: str = "1") -> None:
        self.database.sqlite.execute(f"UPDATE {META}.dm_frontier SET position = ? WHERE {where}", (key(position),))


def test_each_transaction_moves_all_buckets_once() -> None:
    world = World()

    assert (world.write(), world.rows(), world.began) == (3, [1, 2, 3], 3)
    assert world.write() == 0  # a late duplicate


def test_a_repeated_task_continues_where_the_first_attempt_died() -> None:
    world = World()
    world.move_to(200)

    assert (world.write(), world.rows()) == (2, [2, 3])


def test_a_frontier_of_another_mode_is_refused() -> None:
    world = World()
    world.move_to(200, "bucket = 3")

    with pytest.raises(InvariantBroken):
        world.write()


def test_a_half_applied_epoch_with_other_bounds_continues_per_bucket() -> None:
    """Two groups were written and the third could not be decoded. The log that is read instead has other ranges."""
    world = World()
    first, second, third = world.groups
    world.groups = [first, second, replace(third, changes=lambda: fail(ChecksumMismatch("bin.000001:300", 1, 2)))]
    with pytest.raises(ChecksumMismatch):
        world.write()
    world.groups = [replace(third, changes=partial(inserts, [1, 2, 3]))]

    with pytest.raises(TransactionGroupsChanged) as cut_otherwise:
        world.write()
    assert is_transient(cut_otherwise.value)

    world.writer = replace(world.writer, step=replace(world.writer.step, lo=key(300)))
    world.groups = [third]
    assert (world.write(), world.rows()) == (1, [1, 2, 3])


def fail(error: Exception) -> Iterator[LoggedChange]:
    raise error


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([FrontierRow(0, key(100), "", 2)], Fenced),
        ([], TargetWentBack),
        ([FrontierRow(0, key(50), "", 1)], TargetWentBack),
    ],
    ids=["another generation", "no frontier", "before it"],
)
def test_a_driver_without_the_frontier_gets_an_error(rows: list[FrontierRow], error: type[Exception]) -> None:
    with pytest.raises(error):
        common_position(rows, EpochRange(FENCE, key(100), key(200)), [0])


def test_a_transaction_too_large_for_the_target_has_a_remedy() -> None:
    def refuse(body: object) -> None:
        raise TargetRefused("shop.plain", 1197, "TRANS_CACHE_FULL")

    with pytest.raises(TargetLimit) as refused:
        World(refuse).write()

    assert "max_binlog_cache_size" in str(refused.value)
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


def test_a_large_transaction_is_never_held_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactional, "PIECE_CHANGES", 10)
    world, held, most = World(), 0, 0
    real = TransactionalWriter._waves

    def changes() -> Iterator[LoggedChange]:
        nonlocal held, most
        for change in inserts(range(95)):
            held += 1
            most = max(most, held)
            yield change

    def waves(self: TransactionalWriter, piece: Any) -> Any:
        nonlocal held
        held -= len(piece)
        return real(self, piece)

    monkeypatch.setattr(TransactionalWriter, "_waves", waves)
    world.groups = [TransactionGroup(key(400), transactional.LARGE_BYTES + 1, changes)]

    assert (world.write(), len(world.rows()), world.began, most) == (95, 95, 1, 10)
