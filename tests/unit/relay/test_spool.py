"""The bound of a task's private log ahead of the task: the rule, and the object that checks it periodically."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay import spool
from airflow_provider_dm.engine.relay.directory import RelayDirectory
from airflow_provider_dm.engine.relay.spool import (
    READER_MARK,
    LogPosition,
    SpoolBound,
    bytes_ahead,
    may_pull,
    read_mark,
    write_mark,
)

BEGUN = LogPosition(1, 3, 900)
"""Where the last transaction of the log begins; no mark of these tests is so far."""


def decided(ahead: int, *, pulling: bool, mark: LogPosition | None = None) -> bool:
    return may_pull(pulling=pulling, ahead=ahead, limit=100, mark=mark, begun=BEGUN)


def test_it_pulls_until_the_limit_and_waits_until_half_of_it_is_read() -> None:
    assert [decided(ahead, pulling=True) for ahead in (99, 100)] == [True, False]
    assert [decided(ahead, pulling=False) for ahead in (50, 49)] == [False, True]
    assert may_pull(pulling=False, ahead=0, limit=1, mark=None, begun=BEGUN), "a limit of one byte does not block it"


def test_an_open_transaction_of_any_size_is_pulled_to_its_end() -> None:
    assert decided(10**12, pulling=False, mark=BEGUN)
    assert decided(10**12, pulling=True, mark=BEGUN._replace(position=901))
    assert not decided(10**12, pulling=True, mark=BEGUN._replace(position=899))


@given(
    sizes=st.lists(st.integers(4, 50), min_size=1, max_size=5),
    limit=st.integers(1, 60),
    transactions=st.lists(st.integers(1, 120), min_size=1, max_size=8),
)
def test_a_reader_gets_everything_with_any_limit(sizes: list[int], limit: int, transactions: list[int]) -> None:
    """A log of transactions in one file, a relay that pulls ten bytes at a time, and a reader that applies what is
    complete and marks the position up to which it has read: both reach the end."""
    ends = [4]
    for size in transactions:
        ends.append(ends[-1] + size)
    held = read = 4
    mark: int | None = None
    pulling = True
    for _ in range(10_000):
        begun = max(end for end in ends[:-1] if end <= max(held - 1, 4))
        place = None if mark is None else LogPosition(1, 1, mark)
        ahead = bytes_ahead([LogPosition(1, 1, held)], place)
        pulling = may_pull(pulling=pulling, ahead=ahead, limit=limit, mark=place, begun=LogPosition(1, 1, begun))
        if pulling:
            held = min(held + 10, ends[-1])
        complete = max(end for end in ends if end <= held)
        if complete > read:
            read = mark = complete
        else:
            mark = held
        if read == ends[-1]:
            return
    pytest.fail("neither makes progress")


def test_bytes_ahead_exclude_the_read_part_of_the_current_file() -> None:
    ends = [LogPosition(1, 2, 100), LogPosition(1, 3, 200), LogPosition(2, 1, 50)]
    assert bytes_ahead(ends, None) == 350
    assert bytes_ahead(ends, LogPosition(1, 2, 30)) == 70 + 200 + 50
    assert bytes_ahead(ends, LogPosition(1, 3, 200)) == 100 + 50, "the first file is read and not gone yet"
    assert bytes_ahead(ends, LogPosition(1, 2, 130)) == 250, "a mark behind the end of a file that was cut back"
    assert bytes_ahead(ends, LogPosition(2, 1, 50)) == 300


def test_a_mark_is_equal_after_writing_and_reading(tmp_path: Path) -> None:
    assert read_mark(tmp_path) is None
    place = LogPosition.of(Location("mysql-bin.000123", 2**40, suffix=7))
    write_mark(tmp_path, place)
    assert read_mark(tmp_path) == place == LogPosition(7, 123, 2**40)
    assert [path.name for path in tmp_path.iterdir()] == [READER_MARK]
    assert RelayDirectory(tmp_path).sub_dirs() == ()


@pytest.mark.parametrize("content", [b"", b"1 2", b"1 2 x\n", b"1 2 3", b"\xff\xfe", b"-1 2 3\n", b"1 2 3\n4\n"])
def test_an_invalid_mark_is_ignored(tmp_path: Path, content: bytes) -> None:
    (tmp_path / READER_MARK).write_bytes(content)
    assert read_mark(tmp_path) is None


def files(root: Path, **sizes: int) -> None:
    folder = root / "9f2c.000001"
    folder.mkdir(exist_ok=True)
    for name, size in sizes.items():
        (folder / f"bin.{int(name[1:]):06d}").write_bytes(b"x" * size)


def test_between_checks_the_bound_counts_the_pulled_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It checks again when the file changes."""
    monkeypatch.setattr(spool, "SPOOL_POLL_SECONDS", 3600.0)
    files(tmp_path, f1=40, f2=30)
    bound, begun = SpoolBound(tmp_path, 100), LogPosition(1, 2, 20)
    assert [bound.decide(LogPosition(1, 2, end), begun) for end in (30, 59, 60)] == [True, True, False]
    bound = SpoolBound(tmp_path, 100)
    assert bound.decide(LogPosition(1, 2, 30), begun)
    files(tmp_path, f3=30)
    assert not bound.decide(LogPosition(1, 3, 30), LogPosition(1, 3, 4))


def test_the_bound_notices_the_readers_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "SPOOL_POLL_SECONDS", 0.0)
    files(tmp_path, f1=60, f2=60)
    bound, end, begun = SpoolBound(tmp_path, 100), LogPosition(1, 2, 60), LogPosition(1, 2, 50)
    assert not bound.decide(end, begun)
    write_mark(tmp_path, LogPosition(1, 1, 40))
    assert not bound.decide(end, begun), "80 are less than the limit and more than half of it"
    (tmp_path / "9f2c.000001" / "bin.000001").unlink()
    write_mark(tmp_path, LogPosition(1, 2, 11))
    assert bound.decide(end, begun)


def test_nothing_is_pulled_after_the_end_of_a_run(tmp_path: Path) -> None:
    """A transaction that ends there, or that it lies in, comes whole: the next one that begins shows it."""
    files(tmp_path, f1=60)
    bound = SpoolBound(tmp_path, 1000, until=(3, 50))
    assert bound.decide(LogPosition(2, 2, 900), LogPosition(2, 2, 800)), "in whatever sub-directory is the newest"
    assert bound.decide(LogPosition(2, 3, 50), LogPosition(2, 3, 40)), "it may not have come whole"
    assert not bound.decide(LogPosition(2, 3, 70), LogPosition(2, 3, 50))
    write_mark(tmp_path, LogPosition(2, 3, 70))
    assert not bound.decide(LogPosition(2, 3, 70), LogPosition(2, 3, 50)), "whatever the reader has looked at"
