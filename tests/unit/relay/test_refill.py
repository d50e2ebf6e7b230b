"""Which files are missing in the middle of a relay log, and which of them the upstream can send again."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from airflow_provider_dm.engine.binlog.format import MAGIC
from airflow_provider_dm.engine.mysql.binlog_status import BinlogSize
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.location import BinlogFile
from airflow_provider_dm.engine.relay.directory import RelayDirectory
from airflow_provider_dm.engine.relay.protocol import UpstreamLostTail
from airflow_provider_dm.engine.relay.refill import HiddenFile, Hole, check_whole, holes, pullable, purged


def files(*numbers: int, base: str = "mysql-bin") -> list[BinlogFile]:
    return [BinlogFile(base, number) for number in numbers]


def listed(*numbers: int, base: str = "mysql-bin") -> list[BinlogSize]:
    return [BinlogSize(str(file), 1000 + file.number) for file in files(*numbers, base=base)]


def hole(first: int, last: int, base: str = "mysql-bin") -> Hole:
    return Hole(BinlogFile(base, first), BinlogFile(base, last))


FOURTH = BinlogFile("mysql-bin", 4)


@pytest.mark.parametrize(
    ("held", "found"),
    [
        ((), []),
        ((3,), []),
        ((3, 4, 5), []),
        ((3, 5), [(4, 4)]),
        ((3, 7), [(4, 6)]),
        ((3, 5, 6, 9), [(4, 4), (7, 8)]),
        ((999_999, 1_000_001), [(1_000_000, 1_000_000)]),
        ((1, 2_000_000_000), [(2, 1_999_999_999)]),
    ],
)
def test_holes_lie_between_files_that_are_held(held: tuple[int, ...], found: list[tuple[int, int]]) -> None:
    assert holes(files(*held)) == tuple(hole(*one) for one in found)


def test_no_number_fills_the_place_between_files_of_two_names() -> None:
    assert holes([*files(1, 3), *files(7, 9, base="other-bin")]) == (hole(2, 2), hole(8, 8, "other-bin"))


@pytest.mark.parametrize(
    ("upstream", "pulled", "gone"),
    [
        (listed(3, 4, 5, 6, 7), [6, 5, 4], None),
        (listed(1, 2, 3, 4, 5, 6, 7, 8), [6, 5, 4], None),
        (listed(4, 5, 6, 7), [6, 5, 4], None),
        (listed(5, 6, 7), [6, 5], (4, 4)),
        (listed(6, 7), [6], (4, 5)),
        (listed(7, 8), [], (4, 6)),
        (listed(), [], (4, 6)),
        (listed(3, 4, 5, 6, 7, base="other-bin"), [], (4, 6)),
        (listed(3, 4, 5, 6), [5, 4], None),  # its last file goes on growing: it is another log
    ],
)
def test_what_the_upstream_has_finished_is_pulled_newest_first_and_what_it_has_purged_is_told(
    upstream: list[BinlogSize], pulled: list[int], gone: tuple[int, int] | None
) -> None:
    assert pullable(hole(4, 6), upstream) == tuple(listed(*pulled))
    assert purged(hole(4, 6), upstream) == (hole(*gone) if gone else None)


def test_a_hole_is_named_by_its_files() -> None:
    assert str(hole(4, 4)) == "mysql-bin.000004"
    assert str(hole(4, 6)) == "mysql-bin.000004 to mysql-bin.000006"


@pytest.fixture
def came(tmp_path: Path) -> Iterator[HiddenFile]:
    """mysql-bin.000004, of which 1000 bytes came, and behind which the upstream goes on with the event `next`."""
    directory = RelayDirectory(tmp_path)
    sub_dir = directory.add("0-7")
    hidden = HiddenFile(directory, sub_dir, Flavour.MARIADB, FOURTH, came=1000, next_begins=b"next")
    with closing(hidden):
        yield hidden


@pytest.mark.parametrize("listed", [1000, 1512])
def test_it_is_whole_as_long_as_it_is_listed_and_in_front_of_what_is_held(came: HiddenFile, listed: int) -> None:
    """MySQL lists a header of 512 bytes, which it does not send, with an encrypted file."""
    (came.folder / "mysql-bin.000005").write_bytes(MAGIC + b"next, and more")
    check_whole(came, FOURTH, listed)


@pytest.mark.parametrize("listed", [999, 1001, 2000])
def test_another_length_is_not_the_file(came: HiddenFile, listed: int) -> None:
    (came.folder / "mysql-bin.000005").write_bytes(MAGIC + b"next, and more")
    with pytest.raises(UpstreamLostTail, match=f"mysql-bin.000004:{listed} is needed, 1000 bytes came"):
        check_whole(came, FOURTH, listed)


@pytest.mark.parametrize("held", [None, b"", MAGIC + b"nex", MAGIC + b"another"])
def test_nothing_proves_a_file_but_the_one_behind_it(came: HiddenFile, held: bytes | None) -> None:
    if held is not None:
        (came.folder / "mysql-bin.000005").write_bytes(held)
    with pytest.raises(UpstreamLostTail, match=r"mysql-bin\.000005:4"):
        check_whole(came, FOURTH, 1000)
