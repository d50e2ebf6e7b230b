"""The conditions for giving up a relay log that the upstream left behind; it is removed as a whole or not at all."""

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_dm.engine.meta.records import Stage
from airflow_provider_dm.engine.mysql.binlog_status import BinlogSize
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.gtid import GtidSet
from airflow_provider_dm.engine.mysql.location import BinlogFile, Location
from airflow_provider_dm.engine.relay import start
from airflow_provider_dm.engine.relay.directory import INDEX, RelayDirectory, SubDir
from airflow_provider_dm.engine.relay.errors import BinlogPurged, PurgeRuns, RelayStartsTooLate
from airflow_provider_dm.engine.relay.meta import RelayMeta
from airflow_provider_dm.engine.relay.open_writer import announce, held_writer, set_of
from airflow_provider_dm.engine.relay.purge import LogNeed
from airflow_provider_dm.engine.relay.purge_files import clear, restore_hidden, sole_purger
from airflow_provider_dm.engine.relay.reader import RelayReader
from tests.unit.relay.events import file_of
from tests.unit.relay.test_purge_files import (
    NAMES,
    ONE,
    SOURCE,
    TWO,
    assert_no_hole,
    contents,
    deaths,
    everything,
    root,
    visible,
)

__all__ = ["root"]  # the fixture

END = Location("bin.000003", 500, suffix=2)
BINLOGS = [BinlogSize(f"bin.{number:06d}", 1000) for number in (5, 6, 7)]


def need(number: int, position: int = 700, *, suffix: int = 2, base: str = "bin", task: str = "shop") -> LogNeed:
    return LogNeed(task, Location(f"{base}.{number:06d}", position, suffix=suffix), Stage.STOPPED)


# The decision


@pytest.mark.parametrize(
    ("name", "behind"),
    [("bin.000004", True), ("bin.000005", False), ("bin.000007", False), ("bin.000008", False), ("log.000004", False)],
)
def test_a_file_is_outdated_if_the_upstreams_log_begins_later(name: str, behind: bool) -> None:
    assert start.is_left_behind(BinlogFile.parse(name), BINLOGS) is behind
    assert not start.is_left_behind(BinlogFile.parse(name), [])


@pytest.mark.parametrize(
    ("needs", "first"),
    [
        ([need(5, 4)], need(5, 4)),
        ([need(7, 1000), need(6, 800), need(6, 90)], need(6, 90)),
        ([need(6, 1000)], need(6, 1000)),
    ],
)
def test_the_relay_begins_again_at_the_oldest_need(needs: list[LogNeed], first: LogNeed) -> None:
    assert start.begin_anew(END, needs, BINLOGS) == first.at


@pytest.mark.parametrize(
    ("needs", "why"),
    [
        ([], "no task needs anything"),
        ([need(3, 500)], r"task shop \(Stopped\) needs bin\.000003:500, a location not after that"),
        ([need(2), need(6)], r"needs bin\.000002:700, a location not after that"),
        ([need(6), need(2)], r"needs bin\.000002:700, a location not after that"),
        ([need(9, suffix=1)], r"needs bin\.000009:700, a location not after that"),
        ([need(6), need(4)], r"needs bin\.000004:700, a location that the upstream does not have"),
        ([need(6, 1001)], r"needs bin\.000006:1001, a location that the upstream does not have"),
        ([need(8, 4)], r"needs bin\.000008:4, a location that the upstream does not have"),
        ([need(6), need(6, suffix=3)], r"needs bin\.000006:700, a location in another log"),
        ([need(6), need(6, base="log")], r"needs log\.000006:700, a location in another log"),
    ],
)
def test_the_log_is_kept_while_the_source_cannot_serve_a_need(needs: list[LogNeed], why: str) -> None:
    with pytest.raises(BinlogPurged, match=why) as raised:
        start.begin_anew(END, needs, BINLOGS)

    assert "purged bin.000003:500; it still has bin.000005 to bin.000007" in str(raised.value)


# Giving it up


def announcing(here: Path) -> Callable[[], None]:
    return lambda: announce(RelayDirectory(here), SubDir.parse(TWO), BinlogFile("bin", 6))


def giving_up(here: Path) -> None:
    clear(SOURCE, here, announcing(here))


def begins_with(here: Path) -> tuple[str, str, int] | None:
    """Return what the next start decides."""
    writer = held_writer(RelayDirectory(here), Flavour.MARIADB)
    if writer is None:
        return None
    writer.close()
    assert writer.size or not writer.location().gtid_set, "nothing is known of what lies before its first file"
    return str(writer.sub_dir), str(writer.file), writer.size


def test_all_files_are_removed_and_the_announced_file_is_next(root: Path) -> None:
    gone = clear(SOURCE, root, announcing(root))

    assert [str(file) for file in gone] == list(NAMES)
    assert everything(root) == {f"{TWO}/relay.meta", INDEX}
    assert (root / INDEX).read_text() == f"{TWO}\n"
    assert begins_with(root) == (TWO, "bin.000006", 0)


def test_at_the_second_check_of_the_needs_no_file_is_visible(root: Path) -> None:
    seen: list[list[str]] = []

    clear(SOURCE, root, lambda: seen.append(visible(root)))

    assert seen == [[]]


def test_a_need_that_appears_while_files_are_hidden_keeps_them_all(root: Path) -> None:
    def refuse() -> None:
        start.begin_anew(END, [need(2)], BINLOGS)

    before = contents(root)
    with pytest.raises(BinlogPurged):
        clear(SOURCE, root, refuse)

    assert (contents(root), visible(root)) == (before, list(NAMES))


def test_a_purge_that_is_under_way_is_not_disturbed(root: Path) -> None:
    with sole_purger(root), pytest.raises(PurgeRuns):
        clear(SOURCE, root, announcing(root))
    assert visible(root) == list(NAMES)


def test_a_log_without_files_may_begin_elsewhere(root: Path) -> None:
    clear(SOURCE, root, announcing(root))

    assert clear(SOURCE, root, lambda: announce(RelayDirectory(root), SubDir.parse(TWO), BinlogFile("bin", 9))) == ()
    assert begins_with(root) == (TWO, "bin.000009", 0)


def test_a_crash_between_two_steps_leaves_no_gap_and_the_same_decision(root: Path, tmp_path: Path) -> None:
    original, newest = contents(root), (TWO, "bin.000003", len(file_of(5)[0]))
    decided, copies = set(), list(deaths(root, tmp_path / "copies", giving_up))
    assert len(copies) > 31
    for here in copies:
        assert_no_hole(here)
        restore_hidden(here)
        left = visible(here)
        assert_no_hole(here)
        assert contents(here) == {name: original[name] for name in left}
        decided.add(begins_with(here))
        # What is still held ends where it ended: the same question, and the same answer.
        assert begins_with(here) == (newest if left else (TWO, "bin.000006", 0))
        giving_up(here)
        assert begins_with(here) == (TWO, "bin.000006", 0)
    assert decided == {newest, (TWO, "bin.000006", 0)}


def test_a_reader_of_removed_files_gets_an_error(root: Path, tmp_path: Path) -> None:
    """It never gets the log after the gap; its need was not reported by any task."""
    for here in deaths(root, tmp_path / "copies", giving_up):
        restore_hidden(here)
        left = visible(here)
        if not left:
            assert RelayReader(here).files(Location("bin.000001", 4, suffix=2)) == [], "nothing has come yet"
            (here / TWO / "bin.000006").write_bytes(file_of(1)[0])
        for name in (name for name in NAMES if name not in left):
            folder, _, file = name.partition("/")
            with pytest.raises(RelayStartsTooLate):
                RelayReader(here).files(Location(file, 4, suffix=int(folder[-6:])))


def test_a_sub_directory_without_files_has_no_previous_gtids(root: Path) -> None:
    """Else what lies in the gap would seem to be missing: it died before the former server's folder was gone."""
    directory, one = RelayDirectory(root), SubDir.parse(ONE)
    RelayMeta("bin.000003", 500, "0-1-99").write(root / ONE)
    assert set_of(directory, one, Flavour.MARIADB) != GtidSet.empty(Flavour.MARIADB)

    for name in NAMES:
        (root / name).unlink()
    announcing(root)()

    assert set_of(directory, one, Flavour.MARIADB) == GtidSet.empty(Flavour.MARIADB)
    assert begins_with(root) == (TWO, "bin.000006", 0)


def test_an_announced_start_counts_only_without_files(root: Path) -> None:
    announcing(root)()

    assert begins_with(root) == (TWO, "bin.000003", len(file_of(5)[0]))


@pytest.mark.parametrize("stays", ["; c", ""])
def test_the_error_has_the_reason_why_the_log_stays(stays: str) -> None:
    assert f"the upstream has purged a; it still has b{stays}. " in str(BinlogPurged("a", "b", stays))
