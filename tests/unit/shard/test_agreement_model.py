"""The model of pessimistic shard DDL: all that several sources can do, in every order, dying anywhere.

Up to three sources with two shards each make up to three DDL, at their own places of their own logs, with rows of every
form in between. A step is one transaction, of the target or of the metadata DB. Nothing is remembered between two of
them but what they have written, so a driver that dies between any two and is replaced does what is done here next; one
that dies in the middle of running the DDL leaves it `run` and not noted. All reachable states are explored.
Of three sources with three DDL these are 844,239 (`docker/local chaos shard-model`, most of a minute); the tests go
random ways through them.

With `names` one shard of a source gets another name while it is held, and one of another source is dropped then.
What users decide without a source that makes other DDL then is in test_decisions_model.py.

Held against each: a row is applied when the merged table has the row's form, and once; a DDL is run once. Where nothing
more can be done everything has been.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import pytest

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.shard.group import (
    Group,
    ShardDdl,
    after_ddl,
    after_rename,
    after_resync,
    due_item,
    resolve,
)
from airflow_provider_dm.engine.shard.lock import DdlInfo, Lock, continued, executed, reported
from airflow_provider_dm.engine.shard.turn import Turn, turn_of

TARGET = TableName("t", "o")
T1, T2, T9 = TableName("s", "o_1"), TableName("s", "o_2"), TableName("s", "o_9")
Event: TypeAlias = tuple[str, TableName, int]
"""("row", shard, form), ("ddl", shard, number), ("drop", shard, 0) or ("rename", shard, 9): to T9."""


def place(position: int) -> Location:
    return Location("bin.000001", 4 + position)


@dataclass(frozen=True, eq=False)
class Source:
    """A source in the target: the location of its log, its group, its applied rows. Two of the same are one
    object (`kept`), so that what becomes of it is worked out once."""

    at: int = 0
    group: Group = field(default_factory=lambda: Group(TARGET))
    rows: frozenset[int] = frozenset()
    announced: int = 0
    """DDL that it has continued after, as the locks know."""

    def key(self) -> object:
        members = tuple((one.table, len(one.items)) for one in self.group.members)
        return self.at, self.group.resolved, members, str(self.group.resync), self.announced, self.rows


class World(NamedTuple):
    """All of it. `run`: how often DDL of the merged table were run, `noted`: as the target knows it."""

    sources: tuple[Source, ...]
    locks: tuple[int, ...]
    """Numbers of `LOCKS`."""
    run: int = 0
    noted: int = 0

    def with_source(self, number: int, source: Source) -> World:
        return self._replace(sources=(*self.sources[:number], source, *self.sources[number + 1 :]))

    def with_lock(self, number: int, lock: int) -> World:
        return self._replace(locks=(*self.locks[:number], lock, *self.locks[number + 1 :]))


class Broken(AssertionError):
    """A law does not hold."""


@dataclass(frozen=True)
class Rules:
    """Size of what is played, and the rules of the protocol; each of these can be broken."""

    sources: int = 2
    ddls: int = 3

    holds: bool = True
    """Rows of a shard that has made the DDL are passed over."""
    journal: bool = True
    """What was run and not noted is recognised."""
    asks_target: bool = True
    """The owner checks that all sources have reported, whatever the lock contains."""
    waits_for_all_shards: bool = True
    """A source reports when its last shard has made the DDL."""
    ends_at_next: bool = True
    """A shard's rows are applied up to its own next DDL."""
    pauses: bool = True
    """Nothing of a source's log is read between the DDL and the end of its re-sync."""
    notes_behind: bool = True
    """That a DDL was run is noted after it."""
    names: bool = False
    """Held shards get other names, or are dropped."""
    log_names: bool = True
    """Rows are read under the names that they have in the log."""
    needs_no_ddl: bool = True
    """A shard that was dropped makes no further DDL."""
    forgetful: bool = False
    """The lock of the last turn is there still, as a metadata DB was restored to what it was once."""


@lru_cache(None)
def log_of(source: int, rules: Rules) -> tuple[Event, ...]:
    """DDL of two shards: one after the other on both, or all of one shard before the other begins."""
    first, other = (T2, T1) if source == 2 else (T1, T2)
    turns = [(table, number) for number in range(rules.ddls) for table in (first, other)]
    if source:
        turns.sort(key=lambda turn: turn[0] != first)
    events: list[Event] = [("row", T1, 0), ("row", T2, 0)]
    form = {T1: 0, T2: 0}
    for table, number in turns:
        form[table] = number + 1
        events += [("ddl", table, number), ("row", T1, form[T1]), ("row", T2, form[T2])]
    return tuple(with_names(events, source) if rules.names else events)


def with_names(events: list[Event], source: int) -> list[Event]:
    """Let one shard have another name, or be dropped, after the rows of its first DDL."""
    table = (T2, T1)[source % 2]
    at = events.index(("ddl", table, 0)) + 3
    if source % 2:
        rest = [(what, T9 if of == T1 else of, number) for what, of, number in events[at:]]
        return [*events[:at], ("rename", T1, 9), *rest]
    return [*events[:at], ("drop", T2, 0), *(one for one in events[at:] if one[1] != T2)]


def alive(source: Source, number: int, rules: Rules) -> tuple[TableName, ...]:
    """Return the shards that a source has where its log is read to."""
    past = [(what, table) for what, table, _ in log_of(number, rules)[: source.at]]
    first = T9 if ("rename", T1) in past else T1
    return (first,) if ("drop", T2) in past and rules.needs_no_ddl else (first, T2)


_sources: dict[object, Source] = {}
LOCKS: list[Lock | None] = [None]


def kept(source: Source) -> Source:
    return _sources.setdefault(source.key(), source)


def applied(source: Source, index: int, run: int, log: tuple[Event, ...]) -> Source:
    _, table, form = log[index]
    if form != run:
        raise Broken(f"a row of {table} with form {form} meets a target of form {run}")
    if index in source.rows:
        raise Broken(f"a row of {table} is applied twice")
    return replace(source, rows=source.rows | {index})


@lru_cache(None)
def read(source: Source, number: int, run: int, rules: Rules) -> Source:
    """Read up to after the next DDL, with the rows after it."""
    log = log_of(number, rules)
    while source.at < len(log):
        what, table, form = log[source.at]
        at, end = place(2 * source.at), place(2 * source.at + 1)
        held = source.group.member(table) is not None
        if what != "ddl":
            if what == "row":
                source = source if rules.holds and held else applied(source, source.at, run, log)
            elif held:
                group = after_rename(source.group, table, T9 if what == "rename" else None, at, end)
                source = replace(source, group=group)
            source = replace(source, at=source.at + 1)
            if source.at == len(log) or log[source.at][0] == "ddl":
                break
            continue
        item = ShardDdl(at, end, (f"DDL {form}",), Table(table, (), ()), at, {})
        group = after_ddl(source.group, str(number), table, Table(table, (), ()), item)
        source = replace(source, at=source.at + 1, group=group)
    return kept(source)


@lru_cache(None)
def resynced(source: Source, number: int, run: int, rules: Rules) -> Source:
    """Apply what was held back; that each row of it counts once is the frontier's (test_rounds_model.py)."""
    pieces, log = source.group.resync, log_of(number, rules)
    assert pieces is not None
    for index, (what, table, _) in enumerate(log):
        end = place(2 * index + 1).sort_key
        mine = (one for one in pieces.pieces if (one.table.name if rules.log_names else one.shard) == table)
        wanted = any(one.after.sort_key < end <= one.until.sort_key for one in mine)
        if what == "row" and wanted:
            source = applied(source, index, run, log)
    return kept(replace(source, group=after_resync(source.group)))


@lru_cache(None)
def resolved(source: Source, rules: Rules) -> Source:
    group = source.group
    if not rules.ends_at_next:
        members = tuple(replace(one, items=one.items[:1]) for one in group.members)
        longer = resolve(replace(group, members=members), place(2 * source.at))
        group = replace(resolve(group, place(2 * source.at)), resync=longer.resync)
    else:
        group = resolve(group, place(2 * source.at))
    return kept(replace(source, group=group))


@lru_cache(None)
def turn(source: Source, number: int, noted: int, lock: int, rules: Rules) -> Turn:
    resolved = source.group.resolved
    decided = frozenset({(f"DDL {resolved}",)}) if noted > resolved else None
    return turn_of(source.group, shards_of(source, number, rules), decided, LOCKS[lock], str(number))


def shards_of(source: Source, number: int, rules: Rules) -> tuple[TableName, ...]:
    return (
        alive(source, number, rules)
        if rules.waits_for_all_shards
        else tuple(one.table for one in source.group.members if one.items)
    )


@lru_cache(None)
def is_due(source: Source, number: int, at: int, rules: Rules) -> bool:
    return source.group.resolved == at and due_item(source.group, alive(source, number, rules)) is not None


@lru_cache(None)
def announced(lock: int, source: int) -> int:
    found = LOCKS[lock]
    return 0 if found is None else kept_lock(continued(found, str(source)))


@lru_cache(None)
def with_report(lock: int, source: int, turn_number: int, sources: int) -> int:
    info = DdlInfo(str(source), (f"DDL {turn_number}",))
    return kept_lock(reported(LOCKS[lock], "task", TARGET, turn_number, info, {str(one) for one in range(sources)}))


@lru_cache(None)
def with_run(lock: int, source: int) -> int:
    found = LOCKS[lock]
    return 0 if found is None else kept_lock(executed(found, str(source)))


def kept_lock(lock: Lock | None) -> int:
    if lock not in LOCKS:
        LOCKS.append(lock)
    return LOCKS.index(lock)


def steps(world: World, rules: Rules) -> Iterator[World]:
    """Yield what can happen next."""
    for number, source in enumerate(world.sources):
        if source.at < len(log_of(number, rules)) and not (rules.pauses and source.group.resync is not None):
            yield world.with_source(number, read(source, number, world.run, rules))
        if source.announced < source.group.resolved and source.group.resync is None:
            after = world.with_source(number, kept(replace(source, announced=source.announced + 1)))
            yield after.with_lock(source.announced, announced(world.locks[source.announced], number))
        if source.group.members:
            yield from agree(world, number, source, rules)


def agree(world: World, number: int, source: Source, rules: Rules) -> Iterator[World]:
    at = source.group.resolved
    lock = world.locks[at] if at < rules.ddls else 0
    match turn(source, number, world.noted, lock, rules):
        case Turn.RESYNC:
            yield world.with_source(number, resynced(source, number, world.run, rules))
        case Turn.RESOLVE:
            yield world.with_source(number, resolved(source, rules))
        case Turn.REPORT:
            yield world.with_lock(at, with_report(lock, number, at, rules.sources))
            if rules.forgetful and not lock:  # the reports of other sources for another turn
                infos = tuple(DdlInfo(str(one), (f"DDL {at}",)) for one in range(rules.sources))
                stale = Lock("task", TARGET, at, str(number), infos, ())
                yield world.with_lock(at, kept_lock(stale))
        case Turn.EXECUTE if not rules.asks_target or all(
            is_due(one, other, at, rules) for other, one in enumerate(world.sources)
        ):
            yield from execute(world, number, at, rules)
        case Turn.EXECUTE | Turn.OWNER | Turn.SOURCES | Turn.SHARDS:
            pass
        case Turn.CONFLICT | Turn.DIFFERS:
            raise Broken("all have made the same")


def execute(world: World, number: int, at: int, rules: Rules) -> Iterator[World]:
    if not rules.notes_behind:
        yield world._replace(noted=at + 1)  # and dies
    begun = world.run > world.noted  # a source died after it
    if not begun or not rules.journal:
        if world.run > at:
            raise Broken("a DDL is run twice")
        yield world._replace(run=world.run + 1)
    if begun:
        noted = world._replace(noted=at + 1)
        yield noted  # and dies
        yield noted.with_lock(at, with_run(world.locks[at], number))


def begun(rules: Rules) -> World:
    return World(tuple(kept(Source()) for _ in range(rules.sources)), (0,) * rules.ddls)


def explore(rules: Rules) -> int:
    """Check every state that can be reached. Return their number. Raises Broken."""
    seen, stack = {begun(rules)}, [begun(rules)]
    while stack:
        world = stack.pop()
        ended = True
        for after in steps(world, rules):
            ended = False
            if after not in seen:
                seen.add(after)
                stack.append(after)
        if ended:
            check_end(world, rules)
    return len(seen)


def walk(rules: Rules, seed: int) -> None:
    """Go one way from the beginning to where nothing more can be done. Raises Broken."""
    choose, world = random.Random(seed), begun(rules)
    while found := list(steps(world, rules)):
        world = choose.choice(found)
    check_end(world, rules)


def check_end(world: World, rules: Rules) -> None:
    if world.run != rules.ddls or world.noted != rules.ddls:
        raise Broken(f"nothing can be done, and {world.run} of {rules.ddls} DDL are run")
    for number, source in enumerate(world.sources):
        log = log_of(number, rules)
        rows = {index for index, (what, _, _) in enumerate(log) if what == "row"}
        if source.rows != rows or source.at < len(log) or source.group.members:
            raise Broken(f"rows are lost: {sorted(rows - source.rows)}")
    if any(world.locks) and not rules.forgetful:
        raise Broken("a lock is left")


@pytest.mark.parametrize(("sources", "ddls"), [(1, 3), (2, 3), (3, 2)])
def test_every_history_ends_with_all_rows_and_each_ddl_run_once(sources: int, ddls: int) -> None:
    assert explore(Rules(sources=sources, ddls=ddls)) > ddls * 10


@pytest.mark.parametrize(("sources", "ddls"), [(1, 3), (2, 2), (2, 3)])
def test_the_model_accepts_histories_of_renamed_and_dropped_held_shards(sources: int, ddls: int) -> None:
    assert explore(Rules(sources=sources, ddls=ddls, names=True)) > ddls * 10


def test_the_model_accepts_histories_of_three_sources_and_three_ddl() -> None:
    for seed in range(300):
        walk(Rules(sources=3, ddls=3), seed)


def test_an_outdated_metadata_db_does_no_harm() -> None:
    for seed in range(300):
        walk(Rules(sources=3, ddls=3, forgetful=True), seed)


BROKEN = {
    "rows of a held shard are applied": (Rules(holds=False), "meets a target of form"),
    "what was run is not recognised": (Rules(journal=False), "run twice"),
    "a stale lock is believed": (Rules(forgetful=True, asks_target=False), "meets a target of form"),
    "one shard speaks for its source": (Rules(waits_for_all_shards=False, asks_target=False), "meets a target of form"),
    "the sync continues during a re-sync": (Rules(pauses=False), "rows are lost"),
    "what is about to be run is noted as run": (Rules(notes_behind=False), "meets a target of form|0 of 3 DDL|are run"),
    "rows are looked for under the newest name": (Rules(names=True, log_names=False), "rows are lost"),
    "a dropped shard is waited for": (Rules(names=True, needs_no_ddl=False), "nothing can be done"),
    "rows are applied beyond the next DDL": (Rules(ends_at_next=False), "meets a target of form|applied twice"),
}


@pytest.mark.parametrize(("rules", "law"), BROKEN.values(), ids=BROKEN)
def test_without_a_rule_the_model_finds_a_violation(rules: Rules, law: str) -> None:
    def look() -> None:
        for seed in range(300):
            walk(rules, seed)

    with pytest.raises(Broken, match=law):
        look()
