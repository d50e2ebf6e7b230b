"""After a failover the new server's log repeats what is applied: every transaction is planned once, in any order."""

import logging
import random
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_dm.engine.binlog.errors import ChangeNotInLog, FailoverNotFollowed, LocationNotInLog
from airflow_provider_dm.engine.binlog.planned import Epoch, Planned, UpToDate
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.location import Location
from tests.unit.binlog.building import FLAVOURS
from tests.unit.binlog.failovers import A, B, C, T, World, applied, keys, keys_of, set_of

OLD = [T(A, number) for number in range(1, 10)]
NEW = [T(B, number) for number in range(10, 14)]


def planned_until_error(world: World, lo: Location | None = None) -> tuple[list[Planned], DmError | None]:
    found: list[Planned] = []
    try:
        found.extend(one for one in world.walk(lo))
    except DmError as error:
        return found, error
    return found, None


@FLAVOURS
def test_repeated_transactions_may_fill_whole_files(flavour: str, tmp_path: Path) -> None:
    world = World(tmp_path, flavour)
    world.add(A, OLD[:5])
    world.add(A, OLD[5:], before=set_of(OLD[:5], flavour), number=2)
    world.add(B, OLD[:4])
    world.add(B, OLD[4:7], before=set_of(OLD[:4], flavour), number=2)
    world.add(B, [*OLD[7:], *NEW[:1]], before=set_of(OLD[:7], flavour), number=3)
    world.add(B, NEW[1:], before=set_of([*OLD, *NEW[:1]], flavour), number=4)
    for max_bytes in (1, 1 << 40):
        assert applied(world, max_bytes=max_bytes)[0] == keys([*OLD, *NEW])


def test_tags_are_part_of_an_id(tmp_path: Path) -> None:
    world = World(tmp_path)
    plain, blue = [T(A, number) for number in (1, 2)], [T(A, number + 4, tag="blue") for number in (1, 2)]
    world.add(A, [*plain, blue[0]])
    world.add(B, [plain[0], T(A, 6, tag="green"), plain[1], *blue, T(A, 5)])
    assert applied(world)[0] == keys([*plain, blue[0], T(A, 6, tag="green"), blue[1], T(A, 5)])


@FLAVOURS
def test_an_inapplicable_transaction_is_skipped_where_it_is_repeated(flavour: str, tmp_path: Path) -> None:
    world = World(tmp_path, flavour)
    statement = T(A, 4, kind="statement")
    world.add(A, [*OLD[:3], statement, *OLD[4:]])
    world.add(B, [*OLD[:3], statement, *OLD[4:], *NEW, T(B, 14, kind="statement")])
    with pytest.raises(ChangeNotInLog, match="logged as a statement"):
        applied(world)
    lo = Location(world.files[1].name, 4, set_of(OLD, flavour), suffix=2)  # it was applied by hand
    found, error = planned_until_error(world, lo)
    assert isinstance(error, ChangeNotInLog)
    assert f"the change at {world.files[1].name}:" in str(error)
    assert [one.transactions for one in found if isinstance(one, Epoch)] == [len(NEW)]


@FLAVOURS
def test_more_repetitions_than_are_sorted_at_once(
    flavour: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_dm.engine.binlog.repetitions._PIECE", 300)
    test_repeated_transactions_may_fill_whole_files(flavour, tmp_path)


@FLAVOURS
def test_an_incomplete_transaction_of_the_dead_server_is_repeated(
    flavour: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path, flavour)
    world.add(A, OLD[:8], torn=OLD[8])
    world.add(B, [*OLD, *NEW])
    with caplog.at_level(logging.WARNING):
        assert applied(world)[0] == keys([*OLD, *NEW])
    assert "never completed by its source" in caplog.text


@FLAVOURS
def test_a_failover_to_a_third_server_and_back_to_the_first(flavour: str, tmp_path: Path) -> None:
    world = World(tmp_path, flavour)
    of_c = [T(C, number) for number in (14, 15)]
    again = [T(A, number) for number in (16, 17)]
    world.add(A, OLD)
    world.add(B, [*OLD[3:], *NEW], before=set_of(OLD[:3], flavour))
    world.add(C, [*OLD, *NEW, *of_c])
    world.add(A, [*NEW[2:], *of_c, *again], before=set_of([*OLD, *NEW[:2]], flavour))
    for max_bytes in (1, 1 << 40):
        assert applied(world, max_bytes=max_bytes)[0] == keys([*OLD, *NEW, *of_c, *again])


@FLAVOURS
def test_an_epoch_ends_before_repetitions_and_is_planned_again_equally(flavour: str, tmp_path: Path) -> None:
    world = World(tmp_path, flavour)
    world.add(A, OLD)
    world.add(B, [*OLD, *NEW])
    first, second = (one for one in world.walk() if isinstance(one, Epoch))
    assert (first.hi.suffix, first.hi.position) == (2, 4), "the first file that repeats something"
    assert second.lo == first.hi
    for epoch in (first, second):
        world.repetitions = type(world.repetitions)()
        assert world.plan(epoch.lo, goal=epoch.hi) == epoch


@FLAVOURS
def test_a_goal_among_repetitions_is_reached_and_nothing_applied(flavour: str, tmp_path: Path) -> None:
    world = World(tmp_path, flavour)
    world.add(A, OLD)
    world.add(B, OLD[:4])
    middle = world.files[1].size
    world.files.pop()
    world.add(B, [*OLD, *NEW])
    lo = Location(world.files[1].name, 4, set_of(OLD, flavour), suffix=2)
    goal = Location(lo.file, middle, suffix=2)
    assert world.plan(lo, max_bytes=1) != UpToDate(lo)  # all is sorted
    for _ in range(2):
        assert world.plan(lo, goal=goal) == UpToDate(replace(lo, position=middle))
        world.repetitions = type(world.repetitions)()


@FLAVOURS
def test_repetitions_in_a_growing_file_are_found(flavour: str, tmp_path: Path) -> None:
    world = World(tmp_path, flavour)
    world.add(A, OLD)
    found, here = applied(world)
    for count in range(len(OLD) + len(NEW) + 1):
        if count:
            world.files.pop()
        world.add(B, [*OLD, *NEW][:count], torn=[*OLD, *NEW, T(B, 14)][count])
        more, here = applied(world, here)
        found += more
    assert found == keys([*OLD, *NEW])
    assert here.gtid_set == set_of([*OLD, *NEW], flavour)


@FLAVOURS
def test_a_location_inside_repeated_transactions(flavour: str, tmp_path: Path) -> None:
    world = World(tmp_path, flavour)
    world.add(A, OLD)
    world.add(B, OLD[:4])
    middle = world.files.pop().size
    world.add(B, [*OLD, *NEW])
    lo = Location(world.files[1].name, middle, set_of(OLD, flavour), suffix=2)
    assert applied(world, lo)[0] == keys(NEW)
    with pytest.raises(LocationNotInLog, match="no transaction begins there"):
        applied(world, replace(lo, position=middle + 1))


@pytest.mark.parametrize(("flavour", "known"), [("mysql", []), ("mariadb", []), ("mysql", OLD[:2])])
def test_a_set_that_is_unknown_or_incomplete_is_completed_from_the_log(
    flavour: str, known: list[T], tmp_path: Path
) -> None:
    """A busy server may leave it incomplete."""
    world = World(tmp_path, flavour)
    world.add(A, OLD[:4])
    middle = world.files.pop().size
    world.add(A, OLD)
    world.add(B, [*OLD, *NEW])
    found, end = applied(world, Location(world.files[0].name, middle, set_of(known, flavour)))
    assert found == keys([*OLD[4:], *NEW])
    assert end.gtid_set == set_of([*OLD, *NEW], flavour)


@FLAVOURS
def test_a_location_of_a_removed_log_continues_if_nothing_is_missing(flavour: str, tmp_path: Path) -> None:
    world = World(tmp_path, flavour)
    world.add(A, OLD)
    gone = world.files[0]
    world.add(B, [*OLD[3:], *NEW], before=set_of(OLD[:3], flavour))
    del world.files[0]
    lo = Location(gone.name, gone.size, set_of(OLD, flavour), suffix=1)
    assert applied(world, lo)[0] == keys(NEW)
    with pytest.raises(FailoverNotFollowed, match="does not contain them"):
        applied(world, replace(lo, gtid_set=set_of(OLD[:2], flavour)))
    with pytest.raises(LocationNotInLog):
        applied(world, replace(lo, gtid_set=""))


@FLAVOURS
def test_a_location_after_the_end_of_the_dead_servers_relay_log(flavour: str, tmp_path: Path) -> None:
    """The sync had read the rest from the source itself."""
    world = World(tmp_path, flavour)
    world.add(A, OLD)
    ahead = world.files.pop().size
    world.add(A, OLD[:4])
    world.add(B, [*OLD[3:], *NEW], before=set_of(OLD[:3], flavour))
    lo = Location(world.files[0].name, ahead, set_of(OLD, flavour), suffix=1)
    assert applied(world, lo)[0] == keys(NEW)
    with pytest.raises(LocationNotInLog):
        applied(world, replace(lo, gtid_set=""))


# What stops


@FLAVOURS
def test_a_gap_between_two_servers(flavour: str, tmp_path: Path) -> None:
    world = World(tmp_path, flavour)
    world.add(A, OLD[:5])
    world.add(B, [*OLD[7:], *NEW], before=set_of(OLD[:7], flavour))
    found, error = planned_until_error(world)
    missing = {"mysql": f"{A}:6-7", "mariadb": "0-1-7"}[flavour]
    assert isinstance(error, FailoverNotFollowed)
    assert len(found) == 1, "what lies before the gap"
    for part in (
        *(str(Path(one.path).parent.name) for one in world.files),
        str(tmp_path),
        f"the transactions {missing} were committed",
    ):
        assert part in str(error)


@pytest.mark.parametrize("writer", [B, C], ids=["the new server", "a third server"])
def test_transactions_of_other_servers_before_the_failover_are_refused(tmp_path: Path, writer: UUID) -> None:
    world = World(tmp_path)
    world.add(A, OLD)
    world.add(B, [*OLD[:5], T(writer, 1), *OLD[5:], T(B, 2)])
    with pytest.raises(
        FailoverNotFollowed, match=rf"the transaction {writer}:1 at .* lacked applied transactions \({A}:6-9\)"
    ):
        applied(world)


@pytest.mark.parametrize(
    "log",
    [
        pytest.param([*OLD[:8], T(B, 9), T(B, 10)], id="another transaction with the last number"),
        pytest.param([*OLD[:8], T(B, 10)], id="the last number is left out"),
        pytest.param([*OLD[:5], T(B, 7), OLD[5], *OLD[6:]], id="numbers that fall"),
        pytest.param([*OLD[:5], T(B, 1, domain=3), *OLD[5:]], id="another domain of the new server"),
    ],
)
def test_mariadb_servers_that_were_written_to_apart(log: list[T], tmp_path: Path) -> None:
    world = World(tmp_path, "mariadb")
    world.add(A, OLD)
    world.add(B, log)
    found, error = planned_until_error(world)
    assert isinstance(error, FailoverNotFollowed)
    assert "lacked applied transactions" in str(error)
    assert [one.transactions for one in found if isinstance(one, Epoch)] == [len(OLD)]


def test_a_server_that_lists_or_returns_with_other_transactions_is_refused(tmp_path: Path) -> None:
    listing, returning = World(tmp_path, "mariadb"), World(tmp_path / "returns")
    returning.folder.mkdir()
    listing.add(A, OLD)
    listing.add(B, NEW, before="0-2-9")  # another one with the last number
    returning.add(A, OLD)
    returning.add(B, [*OLD, *NEW])
    returning.add(A, [*OLD, T(A, 10), *NEW])
    for world in (listing, returning):
        with pytest.raises(FailoverNotFollowed, match="lacked applied transactions"):
            applied(world)


def test_transactions_without_an_id(tmp_path: Path) -> None:
    world = World(tmp_path)
    nameless = T(A, 10, kind="anonymous")
    world.add(A, OLD)
    world.add(B, [*OLD[:5], nameless, *OLD[5:]])
    with pytest.raises(FailoverNotFollowed, match="needs a GTID"):
        applied(world)

    world = World(tmp_path / "others")
    world.folder.mkdir()
    world.add(A, [*OLD[:2], nameless])
    middle = world.files.pop().size
    world.add(A, [*OLD[:2], nameless, *OLD[2:]])
    world.add(B, NEW, before=set_of(OLD, "mysql"))
    with pytest.raises(FailoverNotFollowed, match="needs a GTID"):
        applied(world, Location(world.files[0].name, middle))


def test_a_file_without_its_previous_gtids_yet(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.add(A, OLD)
    log = world.add(B, [])
    head = log.data.index(b"\x23", 19 + 4)  # PREVIOUS_GTIDS is event 35
    here = None
    for size in (4, 60, head, world.files[1].size - 1):
        world.files[1] = replace(world.files[1], size=size)
        found, here = applied(world)
        assert (found, here.suffix) == (keys(OLD), 1)


# Any history


@st.composite
def histories(draw: st.DrawFn, flavour: str) -> tuple[list[T], int, list[T], list[T], list[int]]:
    """(A's log, how much of it the relay has, B's order of it, B's own, sizes of B's files before the first one)."""
    chance = draw(st.randoms(use_true_random=False))
    kinds = ["rows", "rows", "rows", "ddl", *(["payload"] if flavour == "mysql" else [])]
    domains = [0, 1] if flavour == "mariadb" else [0]
    count = draw(st.integers(1, 14))
    numbers = dict.fromkeys(domains, 0)
    log = []
    for _ in range(count):
        domain = chance.choice(domains)
        numbers[domain] += chance.choice([1, 1, 1, 3])
        log.append(T(A, numbers[domain], chance.choice(kinds), chance.choice([1, 1, 4]), domain))
    log = [replace(one, rows=1) if one.kind != "rows" else one for one in log]
    read = draw(st.integers(1, count))
    theirs = by_domain(log, chance) if flavour == "mariadb" else shuffled(log, chance)
    own = [T(B, numbers[0] + 1 + index, chance.choice(kinds[:4])) for index in range(draw(st.integers(0, 4)))]
    return log, read, theirs, own, [draw(st.integers(0, 20)), draw(st.integers(1, 4))]


def shuffled(log: list[T], chance: random.Random) -> list[T]:
    """Parallel workers: no transaction is far from its old place."""
    places = [(index + chance.choice([0, 0, 2.5, 4.5]), index) for index in range(len(log))]
    return [log[index] for _, index in sorted(places)]


def by_domain(log: list[T], chance: random.Random) -> list[T]:
    queues = [[one for one in log if one.domain == domain] for domain in (0, 1)]
    found = []
    while any(queues):
        found.append(chance.choice([queue for queue in queues if queue]).pop(0))
    return found


@FLAVOURS
@settings(max_examples=150)
@given(data=st.data())
def test_any_history_is_applied_exactly_once(flavour: str, data: st.DataObject) -> None:
    log, read, theirs, own, (skipped, files) = data.draw(histories(flavour))
    with TemporaryDirectory() as folder:
        world = World(Path(folder), flavour)
        middle = data.draw(st.integers(0, read))
        world.add(A, log[:middle])
        world.add(A, log[middle:read], before=set_of(log[:middle], flavour), number=2)
        # The first file of B that the relay has begins after transactions that the relay has of A.
        known = next((index for index, one in enumerate(theirs) if one not in log[:read]), len(theirs))
        skipped = min(skipped, known)
        rest, before = [*theirs[skipped:], *own], theirs[:skipped]
        for number in range(1, files + 1):
            part = rest[: len(rest) // files + 1] if number < files else rest
            world.add(B, part, before=set_of(before, flavour), number=number)
            rest, before = rest[len(part) :], [*before, *part]

        max_bytes, range_bytes = data.draw(st.sampled_from([1, 300, 2000, 1 << 40])), data.draw(st.integers(1, 3000))
        forget = data.draw(st.booleans())
        found, end = applied(world, max_bytes=max_bytes, range_bytes=range_bytes, forget=forget)

        behind = [one for one in theirs if one not in log[:read]]
        assert found == keys([*log[:read], *behind, *own])
        assert end.gtid_set == set_of([*log, *own], flavour)
        for planned in world.walk(max_bytes=max_bytes, range_bytes=range_bytes):
            if isinstance(planned, Epoch):
                world.repetitions = type(world.repetitions)()
                again = world.plan(planned.lo, goal=planned.hi, range_bytes=range_bytes)
                assert isinstance(again, Epoch)
                assert (again.lo, again.hi, keys_of(again)) == (planned.lo, planned.hi, keys_of(planned))
