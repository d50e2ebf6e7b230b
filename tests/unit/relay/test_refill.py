"""Which files are missing in the middle of a relay log, and which of them the upstream can send again."""

import pytest

from airflow_provider_dm.engine.mysql.binlog_status import BinlogSize
from airflow_provider_dm.engine.mysql.location import BinlogFile
from airflow_provider_dm.engine.relay.refill import Hole, holes, pullable, purged


def files(*numbers: int, base: str = "mysql-bin") -> list[BinlogFile]:
    return [BinlogFile(base, number) for number in numbers]


def listed(*numbers: int, base: str = "mysql-bin") -> list[BinlogSize]:
    return [BinlogSize(str(file), 1000 + file.number) for file in files(*numbers, base=base)]


def hole(first: int, last: int) -> Hole:
    return Hole(*files(first, last))


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
    assert holes([*files(1, 3), *files(7, 9, base="other-bin")]) == (hole(2, 2), Hole(*files(8, 8, base="other-bin")))


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
