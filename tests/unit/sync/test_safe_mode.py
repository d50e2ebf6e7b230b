"""Safe mode: where it is on, and that it ends at one location, after any crash and for any division into epochs."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_dm.engine.binlog.planned import Epoch, EpochLimits, Planned
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.config.units import SyncerConfig
from airflow_provider_dm.engine.downstream.errors import DuplicateInTarget
from airflow_provider_dm.engine.downstream.frontier import EpochRange
from airflow_provider_dm.engine.downstream.safe_mode_window import SafeModeWindow, begin_window, load_window
from airflow_provider_dm.engine.downstream.table_schema import Feeder
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.sync import noting
from airflow_provider_dm.engine.sync.safe_mode.overwriting import Collision
from airflow_provider_dm.engine.sync.safe_mode.states import SafeMode, SafeModeState, log_seconds
from airflow_provider_dm.engine.sync.write.apply import WaveWriter
from airflow_provider_dm.engine.sync.write.causality import make_waves
from airflow_provider_dm.engine.sync.write.compactor import Compactor
from tests.unit.binlog.building import Log, order
from tests.unit.sync.loop_world import FENCE, LO, PLAN, World, ddl, epoch
from tests.unit.sync.sqlite_target import META, Died
from tests.unit.sync.target_tables import TARGETS

TODAY = LO.at(400)
EXAMPLE = ((200, 0), (300, 30), (400, 10), (500, 50), (600, 90), (700, 20))
"""Ends of transactions, and the seconds at which they commit: those of the module's own example."""


LETTERS = {
    SafeModeState.OFF: "-",
    SafeModeState.UNTIL_LOCATION: "l",
    SafeModeState.WINDOW: "t",
    SafeModeState.ALWAYS: "a",
}


@pytest.mark.parametrize(
    ("window", "always", "until", "expected"),
    [
        (SafeModeWindow(60), False, TODAY, "llltt-"),  # the module's own
        (None, False, None, "------"),
        (None, False, TODAY, "lll---"),
        (None, True, TODAY, "lllaaa"),
        (SafeModeWindow(60), False, None, "ttttt-"),
        (SafeModeWindow(20), False, None, "tt----"),
        (SafeModeWindow(20), False, TODAY, "lll---"),
        (SafeModeWindow(91), False, None, "tttttt"),
        (SafeModeWindow(20, 1020, LO.at(300)), False, None, "tt----"),
        (SafeModeWindow(60), True, None, "aaaaaa"),
    ],
)
def test_safe_mode_ends_by_time_only_after_the_location(
    window: SafeModeWindow | None, always: bool, until: Location | None, expected: str
) -> None:
    """Each of the example's transactions is an epoch."""
    found, here = "", LO
    for end, second in EXAMPLE:
        window = window and window.seen(1000 + second, LO.at(end), until)
        found += LETTERS[SafeMode(always, until, window).at(here)]
        here = LO.at(end)

    assert found == expected


@pytest.mark.parametrize("seed", range(8))
def test_safe_mode_ends_at_one_location_for_any_epochs_and_crashes(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    times = [1000 + chance.randint(0, 9) * 10 for _ in range(30)]
    log = Log()
    spans = [log.transaction(("insert", [order(1)] * chance.choice([1, 30])), timestamp=time) for time in times]
    files, start = [log.file(tmp_path)], Location(log.name, spans[0][0])
    overlap = Location(log.name, spans[chance.randint(0, 20)][1])
    over = next((end for (_, end), time in zip(spans, times, strict=True) if time >= times[0] + 40), None)
    expected = None if over is None else max(over, overlap.position)

    for _ in range(12):
        noted, here = SafeModeWindow(40), start
        while True:
            goals = [one for one in (overlap, noted.exit) if one is not None and one.position > here.position]
            planned = plan_epoch(
                files,
                here,
                EpochLimits(
                    goal=min(goals, key=lambda one: one.position, default=None),
                    max_bytes=chance.choice([1, 500, 5000, 1 << 30]),
                    range_bytes=1 << 20,
                    until_time=noted.awaited,
                ),
            )
            if not isinstance(planned, Epoch):
                break
            window = noted.seen(planned.newest_timestamp, planned.hi, overlap)
            if window.exit is not None:
                assert window.exit.position == expected
                assert planned.lo.position >= window.exit.position or planned.hi.position <= window.exit.position
            if chance.random() < 0.8:
                noted = window  # else it died before that
                here = planned.hi if chance.random() < 0.8 else here
        assert (noted.exit.position if noted.exit else None) == expected


@pytest.mark.parametrize(
    ("syncer", "seconds"),
    [
        ({}, 60),
        ({"checkpoint-flush-interval": 5}, 10),
        ({"safe-mode-duration": "90s"}, 90),
        ({"safe-mode-duration": "1s"}, 60),
        ({"safe-mode-duration": "100.2s", "checkpoint-flush-interval": 50}, 101),
        ({"safe-mode-duration": "0s"}, 0),
    ],
)
def test_log_time_is_the_longer_of_two_and_none_with_an_exit_point(syncer: dict[str, object], seconds: int) -> None:
    config = SyncerConfig.model_validate(syncer)

    assert log_seconds(config, exit_is_known=False) == seconds
    assert log_seconds(config, exit_is_known=True) == 0


# The loop


def lenient(world: World) -> str:
    return "".join("x" if job.plan.value.safe else "-" for job in world.tasks.jobs)


def in_window(*script: Planned, goal: Location | None = None) -> World:
    """Epochs that commit at the second of their position."""
    world = World(*script, safe_mode=SafeMode(window=SafeModeWindow(150)), goal=goal)
    begin_window(world.database.connection(), FENCE.ref, 150)
    return world


def test_the_loop_leaves_safe_mode_at_its_time_and_reports_it() -> None:
    world = in_window(epoch(100, 200), epoch(200, 300), epoch(300, 400), epoch(400, 500), goal=LO.at(500))
    world.tasks.meanwhile = lambda: shown.append(world.loop.progress.to_json()["safe_mode"])
    shown: list[dict[str, object]] = []

    assert world.run()
    assert lenient(world) == "xxx-"
    assert world.log.until_times == [0, 350, 350, None]
    assert load_window(world.database.connection(), FENCE.ref) == SafeModeWindow(150, 350, LO.at(400))
    assert [(one["on"], one["until"], one["exit_point"]) for one in shown] == [
        (True, "the first transaction that commits at 350 (seconds since 1970) or later", "bin.000001:200"),
        (True, "the first transaction that commits at 350 (seconds since 1970) or later", "bin.000001:300"),
        (True, "bin.000001:400", "bin.000001:400"),
        (False, "", "bin.000001:500"),
    ]
    assert world.loop.progress.to_json()["safe_mode"]["exit_point"] is None


def test_a_crash_in_the_last_epoch_of_the_window_keeps_its_end() -> None:
    world = in_window(epoch(100, 200), epoch(200, 400))

    def die() -> None:
        if world.positions() == {200}:
            raise Died

    world.tasks.meanwhile = die
    with pytest.raises(Died):
        world.run()

    assert world.positions() == {200}
    window = load_window(world.database.connection(), FENCE.ref)
    assert window == SafeModeWindow(150, 350, LO.at(400))
    again = World(epoch(200, 400), epoch(400, 500), safe_mode=SafeMode(window=window), goal=LO.at(500)).loop
    assert again.planning.bound(again.state.at(LO.at(200))) == LO.at(400)


def test_an_unclean_stop_has_an_exit_point_and_its_restart_needs_no_safe_mode() -> None:
    world = World(epoch(100, 200), edge=LO.at(200), goal=LO.at(200))
    shown: list[object] = []
    world.tasks.meanwhile = lambda: shown.append(world.loop.progress.to_json()["safe_mode"])

    assert world.run()
    off = {"on": False, "why": "", "until": "", "collisions": {}}
    assert shown == [off | {"exit_point": "bin.000001:200"}]
    assert world.loop.progress.to_json()["safe_mode"] == off | {"exit_point": None}
    assert lenient(world) == "-"


def test_a_ddl_may_end_the_safe_mode_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noting, "NOTE_SECONDS", 0.0)
    statement = replace(ddl("ALTER TABLE t COMMENT ''", 200, 300), timestamp=350)
    world = in_window(epoch(100, 200), statement, epoch(300, 400))
    world.run()

    assert lenient(world) == "x-"
    assert load_window(world.database.connection(), FENCE.ref) == SafeModeWindow(150, 350, LO.at(300))


def test_collisions_are_counted_by_table() -> None:
    world = World()
    feeders = [
        Feeder(source, TableName(schema, "a"), TableName("shop", target))
        for source, schema, target in (("one", "s1", "m"), ("one", "s2", "m"), ("two", "s1", "m"), ("two", "s1", "x"))
    ]
    world.loop.collisions.add([Collision("shop.a", 1, 0), Collision("shop.b", 0, 2)], pytest.fail)
    world.loop.collisions.add(
        [Collision("shop.a", 2, 5), Collision("shop.m", 1, 0, "s1.a"), Collision("shop.m", 0, 1, "s2.a")],
        lambda: feeders,
    )
    world.loop.collisions.add([Collision("shop.m", 1, 1, "s1.a")], lambda: feeders)

    assert world.loop.collisions.counts == {
        "shop.a": {"missing": 3, "present": 5},
        "shop.b": {"missing": 0, "present": 2},
        "shop.m": {
            "missing": 2,
            "present": 2,
            "by": {"one:s1.a": {"missing": 2, "present": 1}, "one:s2.a": {"missing": 0, "present": 1}},
            "fed_by": ["one:s1.a", "one:s2.a", "two:s1.a"],
        },
    }


def collide(world: World, *feeders: str) -> list[Collision]:
    """Insert and change rows that the target has otherwise, in a table that these source tables feed."""
    for name in feeders:
        world.database.sqlite.execute(
            f"INSERT INTO {META}.dm_table_schema (task, source, table_schema, table_name, target_schema, target_name) "
            "VALUES ('task', ?, 'shop', 'plain', 'shop', 'plain')",
            [name],
        )
    world.database.sqlite.execute("INSERT INTO shop.plain VALUES (1, 7), (3, 7)")
    log = [(0, None, (b"1", b"1")), (0, (b"2", b"1"), (b"2", b"2")), (0, None, (b"3", b"1")), (0, (b"3", b"1"), None)]
    plan = replace(PLAN, safe=True)
    waves = make_waves(plan, Compactor(plan).add_all(log))
    step = EpochRange(FENCE, LO.sort_key, LO.at(200).sort_key)
    writer = WaveWriter(plan, world.writes, step)
    writer.advance(waves.second, range(PLAN.buckets))
    return writer.collisions


def test_an_overwritten_row_is_counted_once() -> None:
    world = World()

    assert collide(world, "one") == [Collision("shop.plain", missing=1, present=2)]
    assert sorted(world.database.rows(TARGETS[0])) == [(b"1", b"1"), (b"2", b"2")]


def test_nothing_is_overwritten_once_another_source_feeds_the_table() -> None:
    """It has begun since the plan was made."""
    world = World()

    with pytest.raises(DuplicateInTarget):
        collide(world, "one", "other")
    assert sorted(world.database.rows(TARGETS[0])) == [(b"1", b"7"), (b"3", b"7")]
