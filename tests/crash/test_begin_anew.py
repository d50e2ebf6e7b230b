"""A relay log that the upstream has left behind is given up, and dies at any moment of that."""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

from airflow_provider_dm.engine.meta.records import Stage
from airflow_provider_dm.engine.mysql.connection import ServerInfo
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.gtid import GtidSet
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay import open_writer as held_room
from airflow_provider_dm.engine.relay import purge_files
from airflow_provider_dm.engine.relay.directory import RelayDirectory
from airflow_provider_dm.engine.relay.errors import BinlogPurged
from airflow_provider_dm.engine.relay.purge import HeldFile, LogNeed
from airflow_provider_dm.engine.relay.purge_files import hidden_files
from airflow_provider_dm.engine.relay.reader import RelayReader
from tests.crash.disk import Operation, PowerCut, State, kills
from tests.crash.life import DIES_AT, ROOT, check_end, relay_of, session
from tests.crash.recorder import Recorder
from tests.crash.test_crash_states import STORIES, lived_on
from tests.crash.upstream import LogFile, Upstream, servers

FIRST_HELD, LAST_HELD = (1, "mysql-bin.000001"), (2, "mysql-bin.000002")


@dataclass
class Story:
    """A failover's log, in two sub-directories, of whose second server only the newest file is left. `before`: so many
    operations were made before the relay saw that."""

    upstream: Upstream
    need: LogNeed
    operations: list[Operation]
    before: int


def recorded(top: Path, flavour: Flavour, *, checksum: bool) -> Story:
    chance, recorder = random.Random(1), Recorder(top)
    old, new = servers(flavour, checksum=checksum)
    left = Upstream(new.info, new.files[2:])
    need = need_of(left, new.files[2])
    with recorder.recording():
        with relay_of(top / ROOT) as opening:
            session(opening, old, chance, DIES_AT)
            session(opening, new, chance, ("mysql-bin.000002", 8000))
        before = len(recorder.operations)
        with relay_of(top / ROOT) as opening:
            opening.needs = lambda: (need,)
            session(opening, left, chance)
    recorder.check()
    return Story(left, need, recorder.operations, before)


def need_of(upstream: Upstream, file: LogFile) -> LogNeed:
    """Return the place after the first transaction of a file in the second sub-directory."""
    done = str(upstream.set_of(file.previous + 1))
    return LogNeed("shop", Location(file.name, file.ends[0], done, suffix=2), Stage.STOPPED)


def states_of(story: Story, *, each: int) -> Iterator[State]:
    """Yield what a relay leaves that gives its log up: every death by a kill, `each` power cuts at every moment."""
    yield from kills(story.operations)[len(kills(story.operations[: story.before])) - 1 :]
    disk, chance = PowerCut(), random.Random(2)
    for count, operation in enumerate(story.operations, 1):
        disk.apply(operation)
        if count > story.before:
            yield from (disk.state(f"power cut after {count} operations, state {one}", chance) for one in range(each))


def held(directory: RelayDirectory) -> list[tuple[int, str]]:
    return [(sub_dir.suffix, str(one.file)) for sub_dir in directory.sub_dirs() for one in directory.files(sub_dir)]


def survive(story: Story, top: Path, state: State) -> str:
    """Start a relay in what is left and let it live to the end. Returns where it continued."""
    state.tree.write_to(top)
    directory, chance = RelayDirectory(top / ROOT), random.Random(3)
    needed = story.need.at
    with relay_of(directory.root) as opening:
        opening.needs = lambda: (story.need,)
        left = held(directory)
        assert left[-1:] in ([], [LAST_HELD], [(2, needed.file)]), left
        assert (2, needed.file) not in left or len(left) == 1, f"{left} has a hole"
        location = session(opening, story.upstream, chance).location()
    everything = story.upstream.set_of(story.upstream.count)
    assert GtidSet.parse(location.gtid_set, story.upstream.flavour) == everything
    check_end(directory, story.upstream, everything)
    assert held(directory) == [(2, needed.file)]
    assert not any(hidden_files(directory.folder(sub_dir)) for sub_dir in directory.folders())
    (file,) = RelayReader(directory.root).files(needed)
    assert (file.name, file.size >= needed.position) == (needed.file, True)
    return left[-1][1] if left else "nothing"


@pytest.mark.parametrize(("flavour", "checksum"), STORIES)
def test_after_any_crash_the_next_start_makes_the_same_decision(memory: Path, flavour: Flavour, checksum: bool) -> None:
    (memory / "recorded").mkdir()
    story, seen = recorded(memory / "recorded", flavour, checksum=checksum), set[str]()
    states = list(states_of(story, each=2))
    assert len(states) > 100
    wrong = lived_on(memory, states, lambda top, state: seen.add(survive(story, top, state)))
    assert list(itertools.islice(wrong, 5)) == []
    assert seen == {LAST_HELD[1], "nothing", story.need.at.file}


def test_the_crash_states_detect_a_log_removed_from_its_new_end(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = purge_files._in_each_folder

    def act(root: Path, files: Sequence[HeldFile], step: object) -> None:
        real(root, files[::-1] if step is purge_files._delete else files, step)  # type: ignore[arg-type]

    monkeypatch.setattr(purge_files, "_in_each_folder", act)
    (memory / "recorded").mkdir()
    story = recorded(memory / "recorded", Flavour.MYSQL, checksum=True)
    assert next(lived_on(memory, list(states_of(story, each=1)), partial(survive, story)))


def test_the_crash_states_detect_a_start_that_forgets_its_decision(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would begin with `relay-binlog-name`, which the upstream has purged too."""
    (memory / "recorded").mkdir()
    story = recorded(memory / "recorded", Flavour.MYSQL, checksum=True)
    monkeypatch.setattr(held_room, "_announced", lambda _directory, _sub_dir: None)
    wrong = lived_on(memory, list(states_of(story, each=1)), partial(survive, story))
    assert any("BinlogPurged" in one and "mysql-bin.000001:4" in one for one in wrong)


@pytest.mark.parametrize("flavour", [Flavour.MARIADB, Flavour.MYSQL])
def test_a_failover_before_the_first_byte_is_pulled(memory: Path, flavour: Flavour) -> None:
    """Nothing is held to continue after: where the task needs it, in a later sub-directory."""
    old, new = servers(flavour)
    need, left = need_of(new, new.files[2]), Upstream(new.info, new.files[2:])
    name = "0-9" if flavour is Flavour.MARIADB else str(UUID(int=9))
    third = Upstream(ServerInfo(flavour, new.info.version, 9, name), new.files)
    directory, chance = RelayDirectory(memory / ROOT), random.Random(4)
    with relay_of(directory.root) as opening:
        session(opening, old, chance, DIES_AT)
        session(opening, new, chance, ("mysql-bin.000002", 8000))
        opening.needs = lambda: (need,)
        opening.open(left.connection(), left.info, left.locate)
    with relay_of(directory.root) as opening:
        opening.needed = lambda: need.at
        opening.config = opening.config.model_copy(update={"relay_binlog_name": ""})
        session(opening, third, chance)
    assert held(directory) == [(3, "mysql-bin.000003")]
    assert RelayReader(directory.root).files(need.at)[0].name == "mysql-bin.000003"


def test_a_torn_file_whose_successor_is_purged_too(memory: Path) -> None:
    """It is not waited for."""
    old, _ = servers(Flavour.MARIADB)
    last, left = old.files[2], Upstream(old.info, old.files[2:])
    needed = Location(last.name, last.ends[0], str(old.set_of(last.previous + 1)))
    directory, chance = RelayDirectory(memory / ROOT), random.Random(6)
    with relay_of(directory.root) as opening:
        session(opening, old, chance, ("mysql-bin.000001", 3000))
        opening.leave_file()
        with pytest.raises(BinlogPurged, match="no task needs anything"):
            opening.open(left.connection(), left.info, left.locate)
        opening.leave_file()
        opening.needs = lambda: (LogNeed("shop", needed, Stage.STOPPED),)
        session(opening, left, chance)
    assert held(directory) == [(1, last.name)]


@pytest.mark.parametrize("flavour", [Flavour.MARIADB, Flavour.MYSQL])
def test_a_need_reported_between_the_checks_keeps_the_log(memory: Path, flavour: Flavour) -> None:
    old, new = servers(flavour)
    left = Upstream(new.info, new.files[2:])
    later, inside = need_of(left, new.files[2]), need_of(new, new.files[1])
    looks = iter([(later,), (later, inside)])
    directory, chance = RelayDirectory(memory / ROOT), random.Random(5)
    with relay_of(directory.root) as opening:
        session(opening, old, chance, DIES_AT)
        session(opening, new, chance, ("mysql-bin.000002", 8000))
        before = held(directory)
        opening.needs = lambda: next(looks)
        with pytest.raises(BinlogPurged, match=f"shop .Stopped. needs {inside.at}, a location not after that"):
            opening.open(left.connection(), left.info, left.locate)
        assert next(looks, None) is None
        assert held(directory) == before
        assert before[0] == FIRST_HELD
        opening.needs = lambda: (inside,)
        with pytest.raises(BinlogPurged):  # by what is held, again
            opening.open(left.connection(), left.info, left.locate)
