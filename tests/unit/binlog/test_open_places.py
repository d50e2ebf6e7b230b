"""A location of the old server's log is valid in that log only: the plan does not leave the log before it."""

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_dm.engine.binlog.errors import OldLogNotHeld
from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.binlog.open_places import OpenPlace, check_passed
from airflow_provider_dm.engine.binlog.planned import Epoch, UpToDate
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.sync.start.opening import known_end_after
from tests.unit.binlog.failovers import A, B, T, World, set_of

OLD = [T(A, number) for number in range(1, 6)]
NEW = [T(B, number) for number in range(6, 9)]


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
@pytest.mark.parametrize("held", ["all of it", "its beginning", "nothing"])
def test_an_open_place_is_passed_only_in_its_own_log(flavour: str, held: str, tmp_path: Path) -> None:
    world = World(tmp_path, flavour)
    log = world.add(A, OLD)
    first = world.first
    begin = world.plan(first, max_bytes=1)
    assert isinstance(begin, Epoch)
    lo, end = begin.hi, Location(log.name, len(log.data))
    world.add(B, [*OLD, *NEW])
    files = world.files
    if held == "its beginning":
        old = files[0]
        Path(old.path).write_bytes(log.data[: lo.position])
        files = [replace(old, size=lo.position), files[1]]
    elif held == "nothing":
        files = files[1:]
    lo = replace(lo, gtid_set=set_of(OLD[:1], flavour))

    def planned(place: Location) -> object:
        places = [OpenPlace("s", place, "it matters")]
        return plan_epoch(files, lo, open_places=places)

    for passed in (first, lo, replace(end, suffix=2, file=files[-1].name)):
        assert not isinstance(planned(passed), UpToDate)
    if held == "all of it":
        assert isinstance(planned(end), Epoch)
        with pytest.raises(OldLogNotHeld):  # whole or not at all: it may be half an epoch
            planned(end.at(end.position + 1))
        return
    with pytest.raises(OldLogNotHeld) as caught:
        planned(end)
    for text in ("sync of s", str(lo), str(end), "it matters", files[-1].name):
        assert text in str(caught.value)


def test_the_first_of_several_is_named() -> None:
    here, newer = Location("a.000001", 100), LogFile("/b.000003/b.000001", 3, "b.000001", 4, last=True)
    places = [
        OpenPlace("s", Location(file, position, suffix=suffix), str(number))
        for number, (file, position, suffix) in enumerate(
            [("a.000001", 300, 1), ("a.000001", 200, 1), ("c.000001", 50, 2), ("b.000001", 50, 3), ("a.000001", 100, 1)]
        )
    ]
    for expected in ("1", "0", "2"):
        with pytest.raises(OldLogNotHeld) as caught:
            check_passed(places, here, newer)
        assert caught.value.open == expected
        places = [one for one in places if one.what != expected]
    check_passed(places, here, newer)


ROTATED = Location("a.000002", 157, "0-1-9")
BEHIND_ALL = Location("a.000003", 300, "0-1-9")


@pytest.mark.parametrize(
    ("here", "within", "passed"),
    [
        ("0-1-9", BEHIND_ALL, True),
        ("0-1-9,1-1-4", BEHIND_ALL, True),
        ("0-1-8", BEHIND_ALL, False),
        ("", BEHIND_ALL, False),
        ("0-1-9", BEHIND_ALL.at(300), False),
        ("0-1-9", None, False),
    ],
)
def test_an_open_place_after_a_rotation_that_was_never_pulled(here: str, within: Location | None, passed: bool) -> None:
    """Nothing is missing where all is there that was committed before a place after it."""
    at, newer = Location("a.000001", 500, here), LogFile("/b.000002/b.000001", 2, "b.000001", 4, last=True)
    copied = OpenPlace("s", ROTATED, "copied", within=within)
    if passed:
        check_passed([copied], at, newer)
        return
    with pytest.raises(OldLogNotHeld):
        check_passed([copied], at, newer)


@pytest.mark.parametrize(
    ("place", "until", "known"),
    [
        (ROTATED, BEHIND_ALL, True),
        (BEHIND_ALL, BEHIND_ALL, True),
        (BEHIND_ALL.at(301), BEHIND_ALL, False),
        (ROTATED, BEHIND_ALL.at(300), False),
        (ROTATED, replace(BEHIND_ALL, suffix=2), False),
        (ROTATED, None, False),
    ],
)
def test_a_load_reports_its_own_locations_only(place: Location, until: Location | None, known: bool) -> None:
    assert known_end_after(place.sort_key, until) == (until if known else None)
