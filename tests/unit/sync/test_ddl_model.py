"""DDL is followed exactly once, whatever dies or returns late, and each rule for that is needed: in every mode, with
every form of keys, by every rule of safe mode. Rules of rows alone are in test_rounds_model.py.

The engine's own code in the world of ddl_world.py."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

from airflow_provider_dm.engine.ddl import target_statements
from airflow_provider_dm.engine.downstream import ddl_execution, frontier
from airflow_provider_dm.engine.downstream.ddl_journal import note_intent, read_entries
from airflow_provider_dm.engine.downstream.frontier import EpochRange, FrontierMove
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.downstream.meta_rows import MetaRows
from airflow_provider_dm.engine.downstream.session import run_transaction
from airflow_provider_dm.engine.schema.text_folds import TextFold
from airflow_provider_dm.engine.sync import following
from airflow_provider_dm.engine.sync.following import Following
from airflow_provider_dm.engine.sync.plan import bucket
from airflow_provider_dm.engine.sync.plan.plan import SyncPlan
from airflow_provider_dm.engine.sync.safe_mode import overwriting
from airflow_provider_dm.engine.sync.safe_mode.overwriting import Collision
from airflow_provider_dm.engine.sync.start import opening as start
from airflow_provider_dm.engine.sync.write import marks
from tests.unit.sync.ddl_engine import engine_in_the_world
from tests.unit.sync.ddl_sync import Quirks
from tests.unit.sync.ddl_ways import MODES, Form, Safe, Target, Way
from tests.unit.sync.ddl_world import World

pytestmark = pytest.mark.computes

HISTORIES, PARTS = 420, 4
"""`docker/local chaos ddl-model` plays more."""
BROKEN = 300
"""Histories in one of which a broken rule has to show itself; most do in the first few."""


@pytest.fixture(autouse=True)
def world() -> Iterator[None]:
    with engine_in_the_world():
        yield


@pytest.mark.parametrize("part", range(PARTS))
def test_the_target_has_the_result_of_the_logs_after_any_crash(part: int) -> None:
    done: Counter[str] = Counter()
    for seed in range(part, HISTORIES, PARTS):
        world = World(seed)
        world.play()

        assert world.differences() == [], f"seed {seed}"
        done += world.done

    played = HISTORIES / PARTS  # the world is as dangerous as it claims to be
    assert done["died"] > played
    assert done["Fenced"] > played
    assert done["killed amid DDL"] > played / 75
    assert done["DDL without a client"] > played / 50


def test_histories_are_of_every_kind() -> None:
    ways = [Way.any(seed) for seed in range(HISTORIES)]

    for chosen in (MODES, Form, Target, Safe):
        there = Counter(value for way in ways for value in (way.mode, way.form, way.target, way.safe))
        assert all(there[one] > HISTORIES / 30 for one in chosen)
    kinds = {(way.mode, way.safe, way.form, way.collide) for way in ways}
    assert len(kinds) == len(MODES) * len(Form) * (len(Safe) + sum(safe.always for safe in Safe))


ABOUT = {
    "columns": Way("every change", "every change", Form.UNIQUE, Target.EXTRA, Safe.EXIT),
    "swap": Way("whole transactions", "whole transactions", Form.COMPOSITE, Target.KEYS),
    "rename": Way("folded, row by row", "every change", Form.TEXT, Target.ALIKE, Safe.EXIT),
    "empty": Way("every change of whole transactions", "folded", Form.NULLABLE, Target.EXTRA, Safe.PAST),
    "online": Way("folded, by many", "folded, by many", Form.UNIQUE, Target.ALIKE, Safe.ALWAYS),
    "by_hand": Way(form=Form.KEYLESS),
    "create": Way("whole transactions", "every change", Form.TEXT, Target.EXTRA, Safe.PAST),
    "shards": Way("every change", "whole transactions"),
    "elsewhere": Way("every change, row by row", "folded", Form.COMPOSITE, Target.ALIKE, Safe.PAST),
    "ahead": Way(),
}
"""What a history is about, and a way to play it in which that matters: each mode, form and rule is among them."""


@pytest.mark.parametrize("freezes", [False, True], ids=["dies", "comes back"])
@pytest.mark.parametrize("about", ABOUT)
def test_at_every_moment(about: str, freezes: bool) -> None:
    """The first run dies there, or freezes and comes back when another has arrived."""
    moment, there_are_more = 0, True
    while there_are_more:
        moment += 1
        world = World(3, about=about, way=ABOUT[about], strikes_at=moment, freezes=freezes)
        world.play()

        assert world.differences() == [], f"moment {moment}"
        there_are_more = world.moments >= moment

    assert moment > 30


# Each rule is needed


def _unchecked(patch: pytest.MonkeyPatch) -> None:
    class Unchecked(Fence):
        def check(self, connection: Any) -> None:
            """Let everybody pass."""

    def unchecked(connection: Any, fence: Fence, *rest: Any) -> None:
        note_intent(connection, Unchecked(fence.ref, fence.generation), *rest)

    patch.setattr(ddl_execution, "_checked_entries", lambda tx, fence, at: read_entries(tx, fence.ref, at))
    patch.setattr(ddl_execution, "note_intent", unchecked)


def _apart(patch: pytest.MonkeyPatch, *, tables_first: bool) -> None:
    real = Following._write

    def apart(self: Following, ddl: Any, state: Any, body: Any) -> None:
        if tables_first:
            run_transaction(self.source.target, body)
        real(self, ddl, state, lambda _connection: None)
        if not tables_first:
            run_transaction(self.source.target, body)

    patch.setattr(Following, "_write", apart)


def _unnoted(work: ddl_execution._DdlRun, _number: int, statement: ddl_execution.TargetDdl, _first: int) -> None:
    for part in statement.parts:
        ddl_execution._send(work.connection, part)


def _unfenced(patch: pytest.MonkeyPatch) -> None:
    def moved(connection: Any, step: EpochRange, _act: FrontierMove, buckets: Sequence[int]) -> int:
        marks = ",".join(["%s"] * len(buckets))
        sql = (
            f"UPDATE {step.fence.ref.table('dm_frontier')} SET position = %s WHERE source = %s AND bucket IN ({marks})"
        )
        connection.cursor().execute(sql, (step.hi, step.fence.ref.source, *buckets))
        return len(buckets)

    patch.setattr(frontier, "move", moved)


def _waiting_by_the_old_name(patch: pytest.MonkeyPatch) -> None:
    update = MetaRows.update

    def without(rows: MetaRows, tx: Any, ref: Any, changes: str, *values: Any) -> int:
        renames = rows.table == "dm_contested_row" and changes.startswith("table_schema")
        return 0 if renames else update(rows, tx, ref, changes, *values)

    patch.setattr(MetaRows, "update", without)


def _uncounted(real: Callable[..., Collision]) -> Callable[..., Collision]:
    return lambda *arguments: replace(real(*arguments), missing=0, present=0)


def _off(module: Any, name: str, instead: Any = lambda *_: None) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(module, name, instead)


@dataclass(frozen=True)
class Rule:
    """A rule. `broken` switches it off in the engine, `quirks` in what drives it; `often`, `way`: what shows it soon.

    `way` None: the usual one. `first`: the history to begin with, as those before it do not show it.
    """

    description: str
    broken: Callable[[pytest.MonkeyPatch], None] = lambda _: None
    quirks: Quirks = field(default_factory=Quirks)
    often: str = ""
    way: Way | None = None
    first: int = 0


RULES = [
    Rule("a run has a generation of its own", quirks=Quirks(same_generation=True)),
    Rule("a run tells the target of its generation before it begins", quirks=Quirks(no_claim=True)),
    Rule("rows behind DDL are not read by the plan of a look-ahead", quirks=Quirks(old_plan=True)),
    Rule("all rows in front of DDL are written before it is executed", quirks=Quirks(no_drain=True)),
    # Without the lock a statement of a dead run takes effect when the next one has passed it already.
    Rule("DDL that is under way ends before anybody looks", _off(ddl_execution, "_locked", lambda *_: nullcontext()),
         often="elsewhere", first=113),
    # Else a run that was replaced while it waited finds an empty journal, and begins.
    Rule("the generation is checked behind the lock", _unchecked, first=12),
    Rule("a statement is noted before it is executed", _off(ddl_execution, "note_intent"), often="swap"),
    Rule("how tables look tells whether it was executed", _off(ddl_execution._DdlRun, "_definitions", lambda *_: {}),
         often="swap"),
    # After both halves of a swap tables look as before the first.
    Rule("its end is noted, as a later one may undo how it looks", _off(ddl_execution, "note_done"), often="swap",
         first=66),
    # One changed table is taken as the result of the whole statement, and the rest is never executed.
    Rule("what is executed in parts is noted so", _off(ddl_execution._DdlRun, "_do_parts", _unnoted), often="ahead"),
    Rule("a swap is done in steps that show", _off(target_statements, "_in_visible_steps", lambda pairs: [pairs]),
         often="swap", first=15),
    Rule("tables are saved with the frontier, not before", partial(_apart, tables_first=True), often="swap"),
    Rule("tables are saved with the frontier, not behind", partial(_apart, tables_first=False), often="swap"),
    Rule("the fingerprint of the plan is saved with them", _off(following, "note_plan"), first=103),
    Rule("what a table had under its old name goes with it", _off(following, "rename_tables"), often="rename"),
    Rule("what a tracker knows of tables is saved with them", _off(following, "save_definitions"), often="columns"),
    Rule("tables that end are forgotten", _off(following, "forget_table_schemas"), often="empty"),
    # Else no plan can be made for tables that are altered already, and the task makes no progress.
    Rule("a run begins behind what the journal tells", _off(start, "tables_under_way", lambda *_: frozenset()),
         first=79),
    # What is noted of places that were passed does no harm to rows; it would only grow.
    Rule("the journal is emptied", _off(following, "forget_entries")),
    # Else a run that finds the rows of CREATE TABLE … SELECT half written makes the table a second time.
    Rule("what is committed in front of rows is noted", _off(following, "note_intent"), often="create",
         first=20),
    Rule("what is remembered of online DDL is saved with the frontier", _off(following, "save_online_ddls"),
         often="online"),
    Rule("every transaction checks the generation and the place", _unfenced),
    Rule("what is wanted by hand stays bound to its place", quirks=Quirks(used_up=True), often="by_hand",
         first=32),
    # Of modes and keys.
    Rule("half a piece is completed by the mode that began it", quirks=Quirks(own_plan=True),
         way=Way("folded, row by row", "every change", Form.UNIQUE)),
    Rule("keys that are one to the target are in one bucket",
         _off(TextFold, "form", lambda *_: lambda text: text), often="rows", way=Way(form=Form.TEXT), first=28),
    # Of safe mode.
    Rule("a past that is not ours goes up to its exit point", quirks=Quirks(exact_too_soon=True),
         way=Way(safe=Safe.EXIT)),
    Rule("time does not end safe mode before the exit point", quirks=Quirks(left_by_time=True),
         way=Way(safe=Safe.PAST), first=84),
    Rule("what collides is let through where the user wants it", quirks=Quirks(strict=True),
         way=Way(safe=Safe.ALWAYS)),
    # Of merged tables.
    Rule("rows that wait are looked after", quirks=Quirks(unlooked=True), often="shards"),
    Rule("what waits goes with its table to another name", _waiting_by_the_old_name, often="shards",
         first=58),
    Rule("rows of others are written over where the user wants it", _off(SyncPlan, "overwritable", frozenset()),
         way=Way(safe=Safe.ALWAYS, collide=True)),
    Rule("what waits has its place before others are written over", quirks=Quirks(waits_on=True),
         way=Way(safe=Safe.ALWAYS, collide=True)),
    Rule("tables of one source that write over each other keep their order", _off(SyncPlan, "contended", frozenset()),
         way=Way(safe=Safe.ALWAYS, collide=True)),
    Rule("what is written over is counted",
         _off(overwriting.OverwritingWrites, "run", _uncounted(overwriting.OverwritingWrites.run)),
         way=Way(safe=Safe.ALWAYS, collide=True), first=482),
]  # fmt: skip


@pytest.fixture
def nothing_remembered() -> Iterator[None]:
    """Have what the engine makes of tables made anew, and forgotten after the test: a rule is broken in between."""
    made = (bucket.bucket_function, bucket.forms_function, marks.marks_of, marks.further_marks)
    for one in made:
        one.cache_clear()
    yield
    for one in made:
        one.cache_clear()


@pytest.mark.usefixtures("nothing_remembered")
@pytest.mark.parametrize("rule", RULES, ids=[rule.description.replace(" ", "-") for rule in RULES])
def test_without_a_rule_the_model_finds_a_wrong_row(monkeypatch: pytest.MonkeyPatch, rule: Rule) -> None:
    rule.broken(monkeypatch)

    assert _harm(rule)


def test_the_harness_finds_no_fault_in_sound_code() -> None:
    assert not any(_harm(Rule("none", often=often), 5) for often in ("", "swap", "by_hand"))
    assert not any(_harm(Rule("none", way=way), 1) for way in {rule.way for rule in RULES} if way is not None)


def _harm(rule: Rule, histories: int = BROKEN) -> bool:
    """Return True if the broken protocol does harm, or notices itself, in one of so many histories."""
    for seed in range(rule.first, rule.first + histories):
        world = World(seed, rule.quirks, rule.often, way=rule.way or Way.usual(seed))
        try:
            world.play()
        except Exception:  # noqa: BLE001 (any: what a broken protocol runs into is not foreseen)
            return True
        if world.differences():
            return True
    return False
