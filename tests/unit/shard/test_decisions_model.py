"""The model of decisions about DDL locks: two sources make different DDL, and a user decides at any moment.

A source makes its DDL texts in order; a user may decide for the sources that have reported, also without
the other source, or declare the text of a source as executed. The metadata DB may lose the lock at any moment. A step
is one transaction; all states that can be reached are explored.

Held against each: a source passes a number only with the text that was run under it, or with a text that the user had
in view in a decision about that number. Where nothing more can be done, each source has passed all of its texts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple, TypeVar

import pytest

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.shard.errors import LockRefuses
from airflow_provider_dm.engine.shard.group import Group, Member, ShardDdl
from airflow_provider_dm.engine.shard.lock import (
    Action,
    DdlInfo,
    Ddls,
    Lock,
    Phase,
    continued,
    executed,
    reported,
    with_decision,
)
from airflow_provider_dm.engine.shard.turn import Turn, turn_of

TARGET, SHARD = TableName("t", "o"), TableName("s", "o_1")
SOURCES = ("a", "b")
T = TypeVar("T")


class Broken(AssertionError):
    """A law does not hold."""


@dataclass(frozen=True)
class Rules:
    """The DDL of both sources, and the rules that can be broken."""

    a: str = "XY"
    b: str = "YZ"
    compares_texts: bool = True
    """A source passes a number only with a text that is settled."""
    decides_what_was_seen: bool = True
    """A decision covers the texts that were reported by then, and none that is reported later."""

    def text(self, source: str, number: int) -> Ddls:
        return ((self.a if source == "a" else self.b)[number],)


class World(NamedTuple):
    """`made` and `resolved` by source; locks, texts that the target has settled, and those seen by the user, by
    number."""

    made: tuple[int, ...] = (0, 0)
    resolved: tuple[int, ...] = (0, 0)
    locks: tuple[Lock | None, ...] = (None, None)
    settled: tuple[frozenset[Ddls] | None, ...] = (None, None)
    seen: tuple[frozenset[Ddls], ...] = (frozenset(), frozenset())


def put(values: tuple[T, ...], number: int, value: T) -> tuple[T, ...]:
    return (*values[:number], value, *values[number + 1 :])


def steps(world: World, rules: Rules) -> Iterator[World]:
    for number, name in enumerate(SOURCES):
        if world.made[number] < len(rules.a):
            yield world._replace(made=put(world.made, number, world.made[number] + 1))
        if world.resolved[number] < world.made[number]:
            yield from look(world, number, name, rules)
    for number, lock in enumerate(world.locks):
        if lock is None:
            continue
        yield world._replace(locks=put(world.locks, number, None))
        for owner, action in ((owner, action) for owner in lock.synced for action in Action):
            try:
                decided = with_decision(lock, action, owner, force=True)
            except LockRefuses:
                continue
            seen = world.seen[number] | {one.ddls for one in lock.infos}
            yield world._replace(locks=put(world.locks, number, decided), seen=put(world.seen, number, seen))


def look(world: World, number: int, name: str, rules: Rules) -> Iterator[World]:
    at = world.resolved[number]
    lock, settled, text = world.locks[at], world.settled[at], rules.text(name, at)
    decided = settled if settled is None or rules.compares_texts else {text}
    match turn_of(group_of(text, at), (SHARD,), decided, lock, name):
        case Turn.REPORT:
            became = reported(lock, "task", TARGET, at, DdlInfo(name, text), SOURCES, settled)
            yield world._replace(locks=put(world.locks, at, became))
        case Turn.EXECUTE:
            assert lock is not None
            covered = frozenset({text, *lock.settled})
            if not rules.decides_what_was_seen:
                covered |= {one.ddls for one in lock.infos}
            after = world._replace(
                settled=put(world.settled, at, covered), seen=put(world.seen, at, world.seen[at] | {text})
            )
            yield after  # and dies
            yield after._replace(locks=put(world.locks, at, executed(lock, name)))
        case Turn.RESOLVE:
            if text not in world.seen[at]:
                raise Broken(f"{text} of {name} is swallowed as number {at}")
            after = world._replace(resolved=put(world.resolved, number, at + 1))
            yield after if lock is None else after._replace(locks=put(world.locks, at, continued(lock, name)))


def group_of(text: Ddls, at: int) -> Group:
    place, table = Location("bin.000001", 4), Table(SHARD, (), ())
    return Group(TARGET, at, (Member(SHARD, table, (ShardDdl(place, place, text, table, place, {}),)),))


def explore(rules: Rules) -> int:
    """Return how many states can be reached. Raises Broken."""
    seen, stack = {World()}, [World()]
    for number in count():
        if not stack:
            return number
        world = stack.pop()
        found = list(steps(world, rules))
        if not found and world.resolved != (len(rules.a), len(rules.b)):
            raise Broken(f"nothing can be done in {world}")
        fresh = set(found) - seen
        seen |= fresh
        stack += fresh
    raise AssertionError


@pytest.mark.parametrize("b", ["XY", "YX", "YZ", "XZ"])
def test_no_text_passes_under_a_number_that_was_decided_about_another(b: str) -> None:
    assert explore(Rules(b=b)) > 50


@pytest.mark.parametrize("rules", [Rules(compares_texts=False), Rules(decides_what_was_seen=False)])
def test_without_the_rule_the_model_loses_a_ddl(rules: Rules) -> None:
    with pytest.raises(Broken, match="is swallowed"):
        explore(rules)


def test_a_decision_about_executed_ddl_can_only_accept_the_other_text() -> None:
    lock = executed(
        with_decision(reported(None, "task", TARGET, 0, DdlInfo("a", ("X",)), SOURCES), Action.EXEC, "a", force=True),
        "a",
    )
    assert lock.phase is Phase.SKIP
    late = reported(lock, "task", TARGET, 0, DdlInfo("b", ("Y",)), SOURCES, {("X",)})
    assert (late.phase, late.executed) == (Phase.DIFFERS, True)
    with pytest.raises(LockRefuses, match="--action skip"):
        with_decision(late, Action.EXEC, "b", force=True)
    assert with_decision(late, Action.SKIP, None, force=False).phase is Phase.SKIP
    again = reported(None, "task", TARGET, 0, DdlInfo("b", ("Y",)), SOURCES, {("X",)})
    assert again.phase is Phase.DIFFERS, "a metadata DB that has lost the lock"
