"""The start of a sync: the location by the frontier, the plan of the first epoch, the tables, the goal."""

from dataclasses import replace

import pytest

from airflow_provider_dm.engine.config.rule_models import BlockAllowConfig, TablePattern
from airflow_provider_dm.engine.downstream.contested_row import RowOwner, contest
from airflow_provider_dm.engine.downstream.frontier import FrontierRow
from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.row_key import row_key
from airflow_provider_dm.engine.downstream.subtask import HASH_VERSION, UNIT_SYNC, Subtask
from airflow_provider_dm.engine.downstream.table_schema import TableSchema, save_table_schemas
from airflow_provider_dm.engine.errors import InvalidInput, InvariantBroken
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.errors import RulesChanged
from airflow_provider_dm.engine.rules.mapping import map_table
from airflow_provider_dm.engine.schema.model import Index, Table
from airflow_provider_dm.engine.sync.errors import SourceWentBack
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.plan.plan_parts import SourcePart, target_part
from airflow_provider_dm.engine.sync.start.opening import (
    allowed,
    applied_and_edge,
    goal_at_end,
    goal_at_place,
    plan_to_begin_with,
    shared_targets,
)
from tests.unit.ddl.tracked import table_of
from tests.unit.sync.sqlite_target import META, Database
from tests.unit.sync.target_tables import TARGETS

LO = Location("bin.000001", 100, gtid_set="0-1-5")
SUBTASK = Subtask("task", "one", 7, UNIT_SYNC, 2, HASH_VERSION, "", LO.at(4), None, LO)
PLAIN = TARGETS[0]


def frontier_of(*places: int, released: tuple[int, ...] = ()) -> list[FrontierRow]:
    """The frontier, bucket by bucket; `released`: the previous location, if it differs."""
    of = Location("bin.000001", 4)
    keys = [of.at(place).sort_key for place in places]
    gone = [of.at(place).sort_key if place else "" for place in released or (0,) * len(places)]
    return [FrontierRow(bucket, key, free, 7) for bucket, (key, free) in enumerate(zip(keys, gone, strict=True))]


def no_base(_suffix: int) -> None:
    """Know no file of any sub-directory."""


# The location by the frontier


@pytest.mark.parametrize(
    ("frontier", "lo", "edge"),
    [
        pytest.param(frontier_of(100, 100), LO, None, id="at the recorded location, whose GTID set is known"),
        pytest.param(frontier_of(200, 200), LO.at(200), None, id="at another location, whose GTID set is unknown"),
        pytest.param(frontier_of(300, 200), LO.at(200), LO.at(300), id="half an epoch"),
        pytest.param(frontier_of(100, 100, released=(0, 200)), LO, LO.at(200), id="wave 1 of an epoch"),
        pytest.param(frontier_of(100, 100, released=(50, 100)), LO, None, id="wave 1 of the completed epoch"),
    ],
)
def test_reading_begins_at_the_slowest_bucket_and_stops_first_at_the_fastest(
    frontier: list[FrontierRow], lo: Location, edge: Location | None
) -> None:
    """The same epoch writes the rows again that its wave 1 has deleted."""
    assert applied_and_edge(frontier, SUBTASK, no_base) == (lo, edge)
    assert lo.gtid_set == ("0-1-5" if lo is LO else "")


def test_the_base_name_of_a_file_is_that_of_its_sub_directory() -> None:
    place = Location("new.000004", 50, suffix=2)
    frontier = [FrontierRow(bucket, place.sort_key, "", 7) for bucket in range(2)]

    assert applied_and_edge(frontier, SUBTASK, {2: "new"}.get) == (place, None)


@pytest.mark.parametrize(
    ("frontier", "subtask"),
    [
        (frontier_of(100), SUBTASK),
        (frontier_of(100, 100, 100), SUBTASK),
        (frontier_of(100, 100), replace(SUBTASK, hash_version=HASH_VERSION + 1)),
    ],
    ids=["too few rows", "too many", "another hash"],
)
def test_a_frontier_of_other_buckets_is_refused(frontier: list[FrontierRow], subtask: Subtask) -> None:
    with pytest.raises(InvariantBroken):
        applied_and_edge(frontier, subtask, no_base)


# By which plan

ALL = BlockAllowRules.from_config(BlockAllowConfig(), case_sensitive=False, meta_schema=META)


def plan_of(*tables: Table, merged: bool = False) -> SyncPlan:
    """Return a plan that brings all of these tables into PLAIN."""
    into = target_part(map_table(tables[0], PLAIN))
    parts = tuple(SourcePart(one, 0, None) for one in tables)
    return SyncPlan(parts, (into,), 2, ALL, merged=frozenset({0} if merged else ()))


def shard(name: str) -> Table:
    return replace(PLAIN, name=TableName("shop", name))


PLAN, OTHER = plan_of(shard("a"), shard("b")), plan_of(shard("a"))
APART = replace(PLAN, merged=frozenset({0}))
EDGE = LO.at(200)


def test_half_an_epoch_is_not_completed_by_another_plan() -> None:
    with pytest.raises(RulesChanged) as changed:
        plan_to_begin_with(PLAN, replace(SUBTASK, plan=OTHER.fingerprint()), LO, EDGE)

    assert "the epoch from bin.000001:100 to bin.000001:200 is half written" in str(changed.value)


MODES = [replace(PLAN, compact=compact, whole=whole) for compact in (True, False) for whole in (True, False)]


@pytest.mark.parametrize("now", MODES, ids=lambda plan: f"{plan.compact}-{plan.whole}")
@pytest.mark.parametrize("then", MODES, ids=lambda plan: f"{plan.compact}-{plan.whole}")
def test_half_an_epoch_is_completed_in_the_mode_that_began_it(then: SyncPlan, now: SyncPlan) -> None:
    noted = replace(SUBTASK, plan=then.fingerprint())

    assert plan_to_begin_with(now, noted, LO, EDGE) == then
    assert plan_to_begin_with(now, noted, LO, None) is now
    assert plan_to_begin_with(now, replace(SUBTASK, plan=OTHER.fingerprint()), LO, None) is now, "between two epochs"


def into(target: Table, *, compact: bool = True) -> SyncPlan:
    part = target_part(map_table(WIDE, target))
    return SyncPlan((SourcePart(WIDE, 0, None),), (part,), 2, ALL, compact=compact)


WIDE, NARROW = (table_of(f"id int PRIMARY KEY, v {kind}") for kind in ("bigint", "int NOT NULL"))
UNIQUE = (*WIDE.unique_keys, Index("u", ("v",)))


@pytest.mark.parametrize("compact", [True, False])
def test_half_an_epoch_is_completed_with_a_wider_target_column(compact: bool) -> None:
    narrow, wide = into(NARROW, compact=compact), into(WIDE, compact=compact)
    assert plan_to_begin_with(wide, replace(SUBTASK, plan=narrow.fingerprint()), LO, EDGE) is wide


@pytest.mark.parametrize(
    ("then", "now"),
    [
        (into(replace(WIDE, unique_keys=UNIQUE)), into(WIDE)),
        (into(replace(NARROW, unique_keys=UNIQUE), compact=False), into(replace(WIDE, unique_keys=UNIQUE))),
    ],
    ids=["a unique key is gone", "in order, and a column of a unique key is another one"],
)
def test_half_an_epoch_is_not_completed_with_another_row_identity(then: SyncPlan, now: SyncPlan) -> None:
    with pytest.raises(RulesChanged, match="is half written"):
        plan_to_begin_with(now, replace(SUBTASK, plan=then.fingerprint()), LO, EDGE)


# Which tables

A, B = (TableSchema(shard(name), PLAIN.name) for name in "ab")
WITHOUT_B = BlockAllowRules.from_config(
    BlockAllowConfig(ignore_tables=(TablePattern(db_name="shop", tbl_name="b"),)),
    case_sensitive=False,
    meta_schema=META,
)


def test_an_excluded_table_stays_excluded_and_cannot_return() -> None:
    assert allowed([A, B], [A.table.name, B.table.name], WITHOUT_B) == ([A], [B.table.name])
    assert allowed([A], [A.table.name, B.table.name], WITHOUT_B) == ([A], [])
    with pytest.raises(RulesChanged) as back:
        allowed([A], [A.table.name, B.table.name], ALL)

    assert str(back.value).startswith("[DM-6042 internal] shop.b was copied by this task and then left out")


def test_tables_are_shared_with_other_feeders_and_contested_rows() -> None:
    database, one, two = Database(lambda: 0.0), SubtaskRef(META, "task", "one"), SubtaskRef(META, "task", "two")
    connection = database.connection()
    save_table_schemas(connection, one, [A])
    assert not shared_targets(connection, one)
    assert shared_targets(connection, two) == {A.target}

    save_table_schemas(connection, two, [B])
    contest(connection, RowOwner(two, B.table.name), TARGETS[1].name, [(row_key([b"1"]), (b"1", b"0"))])

    assert shared_targets(connection, one) == {PLAIN.name}
    assert shared_targets(connection, two) == {A.target, TARGETS[1].name}


# To which goal


def test_the_end_of_the_log_is_the_goal_also_at_the_end() -> None:
    assert goal_at_end(LO.at(300), LO) == LO.at(300)
    assert goal_at_end(LO, LO) == LO


def test_a_log_that_ends_before_the_checkpoint_is_another_log() -> None:
    with pytest.raises(SourceWentBack):
        goal_at_end(LO.at(99), LO)


@pytest.mark.parametrize(("here", "newest", "suffix"), [(1, None, 1), (1, 1, 1), (1, 3, 3), (2, 1, 2)])
def test_a_goal_is_in_the_newest_known_sub_directory(here: int, newest: int | None, suffix: int) -> None:
    place = Location("bin.000009", 4)

    assert goal_at_place(place, replace(LO, suffix=here), newest) == replace(place, suffix=suffix)
    assert goal_at_place(LO.at(4), LO, 1) == LO.at(4), "a passed location is a reached goal"


def test_a_goal_with_another_base_name_is_refused() -> None:
    with pytest.raises(InvalidInput, match="is not in the same log"):
        goal_at_place(Location("mysql-bin.000001", 200), LO, 1)
