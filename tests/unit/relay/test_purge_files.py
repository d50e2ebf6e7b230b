"""A purge on disk: two checks of the needs, links, locks, and death between any two steps."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.records import Stage
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.directory import INDEX, RelayDirectory
from airflow_provider_dm.engine.relay.errors import NoRelayLog, PurgeRuns, RelayDirectoryUnusable, RelayDiskFailed
from airflow_provider_dm.engine.relay.meta import RelayMeta
from airflow_provider_dm.engine.relay.purge import BeforeFile, BeforeTime, Inactive, LogNeed, plan_purge
from airflow_provider_dm.engine.relay.purge_files import ReadNeeds, purge, restore_hidden, sole_purger, survey
from airflow_provider_dm.engine.relay.reader import RelayReader
from tests.unit.relay.events import file_of
from tests.unit.relay.test_purge import logs, places

ONE, TWO = "0-1.000001", "0-2.000002"
NAMES = (*(f"{ONE}/bin.{number:06d}" for number in (1, 2, 3)), *(f"{TWO}/bin.{number:06d}" for number in (1, 2, 3)))
NEEDED = f"{TWO}/bin.000002"
SOURCE = "replica-01"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two sub-directories of three files; each file's bytes are its own."""
    for index, name in enumerate(NAMES):
        path = tmp_path / "relay" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file_of(index)[0])
        RelayMeta(path.name, path.stat().st_size).write(path.parent)
    RelayDirectory(tmp_path / "relay").repair_index()
    return tmp_path / "relay"


def need(name: str = NEEDED) -> LogNeed:
    folder, _, file = name.partition("/")
    return LogNeed("shop", Location(file, 4, suffix=int(folder[-6:])), Stage.STOPPED)


def needs_in_turn(*answers: list[LogNeed] | DmError) -> ReadNeeds:
    """One answer for each reading of the needs; the last one for all further readings."""
    left = list(answers)

    def read_needs() -> list[LogNeed]:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, DmError):
            raise answer
        return answer

    return read_needs


def purge_all(root: Path, read_needs: ReadNeeds) -> list[str]:
    """Purge what no task needs; return the files that are gone."""
    return [str(file) for file in purge(SOURCE, root, read_needs, Inactive()).files]


def visible(root: Path) -> list[str]:
    directory = RelayDirectory(root)
    return [f"{sub}/{one.file}" for sub in directory.sub_dirs() for one in directory.files(sub)]


def everything(root: Path) -> set[str]:
    return {
        str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and not path.name.endswith(".lock")
    }


def test_unneeded_files_are_removed_with_sub_directory_and_index_line(root: Path) -> None:
    assert purge_all(root, needs_in_turn([need()])) == list(NAMES[:4])

    assert everything(root) == {*NAMES[4:], f"{TWO}/relay.meta", INDEX}
    assert (root / INDEX).read_text() == f"{TWO}\n"
    assert [one.name for one in RelayReader(root).files(need().at)] == ["bin.000002", "bin.000003"]


def test_a_need_that_appears_while_files_are_hidden_gets_them_back(root: Path) -> None:
    purged = purge(SOURCE, root, needs_in_turn([need()], [need(), need(NAMES[2])]), Inactive())

    assert [str(file) for file in purged.files] == list(NAMES[:2])
    assert str(purged.stays) == NAMES[2]
    assert purged.kept == f"{NAMES[2]} stays: a task has requested it since the purge began"
    assert visible(root) == list(NAMES[2:])


def test_a_metadata_db_that_fails_at_the_second_check_restores_the_files(root: Path) -> None:
    with pytest.raises(NoRelayLog):
        purge_all(root, needs_in_turn([need()], NoRelayLog("any", "error")))

    assert visible(root) == list(NAMES)


def test_links_are_neither_seen_nor_followed(root: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "bin.000001").write_bytes(b"mine")
    (root / "0-9.000009").symlink_to(elsewhere)
    (root / ONE / "bin.000004").symlink_to(elsewhere / "bin.000001")
    (root / ONE / ".bin.000005.purged").symlink_to(elsewhere / "bin.000001")

    purge_all(root, needs_in_turn([need()]))

    assert (elsewhere / "bin.000001").read_bytes() == b"mine"
    assert (root / ONE / "bin.000004").is_symlink()


def test_a_sub_directory_that_becomes_a_link_is_not_entered(root: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"

    def swap_then_look() -> list[LogNeed]:
        if not elsewhere.exists():
            (root / ONE).rename(elsewhere)
            (root / ONE).symlink_to(elsewhere)
        return [need()]

    with pytest.raises(RelayDiskFailed):
        purge_all(root, swap_then_look)

    assert [path.name for path in sorted(elsewhere.glob("bin.*"))] == ["bin.000001", "bin.000002", "bin.000003"]


def test_files_of_others_keep_a_sub_directory(root: Path) -> None:
    (root / ONE / "notes.txt").write_text("mine")

    purge_all(root, needs_in_turn([need()]))

    assert {path.name for path in (root / ONE).iterdir()} == {"notes.txt", "relay.meta"}


def test_two_purges_exclude_each_other(root: Path) -> None:
    with sole_purger(root), pytest.raises(PurgeRuns, match="process"):
        purge_all(root, needs_in_turn([need()]))
    assert visible(root) == list(NAMES)


def test_files_hidden_by_a_running_purge_are_left_to_it(root: Path) -> None:
    hidden = (root / NAMES[0]).rename(root / ONE / ".bin.000001.purged")
    with sole_purger(root):
        restore_hidden(root)
        assert hidden.exists()
    restore_hidden(root)
    assert visible(root) == list(NAMES)


def test_a_hidden_file_does_not_replace_a_new_file_of_its_name(root: Path) -> None:
    (root / ONE / ".bin.000001.purged").write_bytes(b"old")

    restore_hidden(root)

    assert (root / NAMES[0]).read_bytes() == file_of(0)[0]
    assert visible(root) == list(NAMES)


def test_without_a_relay_log_there_is_nothing_to_purge(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "none"):
        with pytest.raises(NoRelayLog):
            survey(SOURCE, place)


def test_a_directory_whose_order_is_unknown_is_refused(root: Path) -> None:
    (root / "0-3.000001").mkdir()
    (root / "0-3.000001" / "bin.000001").write_bytes(b"\xfebin")

    with pytest.raises(RelayDirectoryUnusable):
        survey(SOURCE, root)


def test_the_age_of_a_file_is_the_time_of_its_last_write(root: Path) -> None:
    for name in NAMES[:2]:
        os.utime(root / name, (1000, 1000))

    assert [file.ended_at for file in survey(SOURCE, root).files[:2]] == [1000, 1000]
    assert len(plan_purge(survey(SOURCE, root), [], BeforeTime(1001)).delete) == 2


@settings(max_examples=60)
@given(st.data())
def test_no_file_that_either_check_finds_needed_is_purged(data: st.DataObject) -> None:
    log = data.draw(logs())
    needs = st.lists(st.builds(LogNeed, st.just("shop"), places(log), st.just(Stage.STOPPED)), max_size=2)
    at_start, at_end = data.draw(needs), data.draw(needs)
    with TemporaryDirectory() as folder:
        root = Path(folder)
        for held in log.files:
            (root / str(held.sub_dir)).mkdir(exist_ok=True)
            (root / str(held)).write_bytes(bytes(held.size))
        RelayDirectory(root).repair_index()
        gone = purge_all(root, needs_in_turn(at_start, at_end))

        floor = min((one.order for one in (*at_start, *at_end)), default=log.files[-1].order)
        must_go = [str(file) for file in log.files[:-1] if file.order < floor]
        assert gone == must_go
        assert visible(root) == [str(file) for file in log.files[len(must_go) :]]


# Death between any two steps

STEPS = ("rename", "unlink", "rmdir", "fsync", "open", "ftruncate", "pwrite", "write")


class Died(BaseException):
    """kill -9: nothing that comes later happens either."""


@contextmanager
def dying_at(step: int) -> Iterator[Callable[[], int]]:
    """Each change of the disk counts; from `step` on none happens. Yields how many there were."""
    count = 0
    real: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in STEPS}

    def counted(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count > step:
                raise Died
            return real[name](*arguments, **options)

        return call

    for name in STEPS:
        setattr(os, name, counted(name))
    try:
        yield lambda: count
    finally:
        for name in STEPS:
            setattr(os, name, real[name])


def contents(root: Path) -> dict[str, bytes]:
    """Every binlog file that is there, hidden or not, by its name."""
    found = {}
    for path in root.glob("*/*bin.*"):
        name = path.name.removeprefix(".").removesuffix(".purged")
        found[f"{path.parent.name}/{name}"] = path.read_bytes()
    return found


def test_a_purge_that_dies_between_two_steps_is_finished_by_the_next(root: Path, tmp_path: Path) -> None:
    original = contents(root)
    states = []
    for here in deaths(root, tmp_path / "copies", lambda here: purge_all(here, needs_in_turn([need()]))):
        left = contents(here)
        assert all(left[name] == original[name] for name in NAMES[4:])
        assert visible(here)[-2:] == list(NAMES[4:])
        assert_no_hole(here)
        states.append(tuple(sorted(everything(here))))

        restore_hidden(here)
        assert visible(here) == sorted(left), "all that is left can be seen again"
        assert_no_hole(here)
        purge_all(here, needs_in_turn([need()]))
        assert everything(here) == {*NAMES[4:], f"{TWO}/relay.meta", INDEX}
        assert (here / INDEX).read_text() == f"{TWO}\n"
    assert len(states) > 21
    assert len(set(states)) > 10, "the deaths were all at one place"


def test_a_crash_while_hidden_files_are_restored_loses_nothing(root: Path, tmp_path: Path) -> None:
    """The needs of the second check forbid every deletion."""

    def purging(here: Path) -> None:
        purge_all(here, needs_in_turn([need()], [need(), need(NAMES[0])]))

    for here in deaths(root, tmp_path / "copies", purging):
        assert contents(here) == contents(root)
        assert_no_hole(here)
        restore_hidden(here)
        assert visible(here) == list(NAMES)


def test_a_crash_while_leftover_files_are_restored_leaves_no_gap(root: Path, tmp_path: Path) -> None:
    for name in NAMES[:4]:
        folder, _, file = name.partition("/")
        (root / name).rename(root / folder / f".{file}.purged")
    copies = list(deaths(root, tmp_path / "copies", restore_hidden))
    assert len(copies) > 5
    for here in copies:
        assert_no_hole(here)
    assert visible(copies[-1]) == list(NAMES)


def assert_no_hole(root: Path) -> None:
    shown = visible(root)
    assert shown == list(NAMES[len(NAMES) - len(shown) :])


def deaths(root: Path, copies: Path, action: Callable[[Path], object]) -> Iterator[Path]:
    """Yield copies of the directory after a death at each step of an action, and last one without a death."""
    for step in range(1000):
        here, died = fresh_copy(root, copies / str(step)), True
        with dying_at(step), suppress(Died):
            action(here)
            died = False
        yield here
        if not died:
            return
    raise AssertionError("the action does not end")


def fresh_copy(root: Path, to: Path) -> Path:
    for path in root.rglob("*"):
        if path.is_file():
            target = to / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return to


def test_a_purge_by_name_after_a_crash_counts_hidden_files(root: Path) -> None:
    (root / NAMES[0]).rename(root / ONE / ".bin.000001.purged")

    purged = purge(SOURCE, root, needs_in_turn([need()]), BeforeFile("bin.000002", ONE))

    assert [str(file) for file in purged.files] == [NAMES[0]]
    assert visible(root) == list(NAMES[1:])
