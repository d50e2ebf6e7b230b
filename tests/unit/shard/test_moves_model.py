"""The model of rows that move between shards while those make DDL: every history, in every order, dying anywhere.

Shards of one merged table, each with a log of its own: a few changes of rows with a key `k` and a unique value `u`,
and one or two DDL among them. A step is one transaction, and nothing is remembered between two but what they have
written, so that who dies between any two is replaced by who does what is done here next. No clock orders two shards.

    read      the next event of a shard: applied, or passed over where it is held
    settle    a row that waits goes to its place, which is free
    forget    a row that waits, of a held shard, and that its source has otherwise by then forgets its image
    ddl       all shards have made it, and no row waits that has an image
    resync    the next event that was passed over is applied
    user      where two rows want one place, and the source of neither changes that, DM-6057: the row that waits is
              deleted at its source (and inserted again after the DDL, as any row)

Held against each: a shard's events find its own rows, in the target or waiting, and no other shard's; a row that is
written has the form of the table. Where nothing more can be done the target has all rows, unless two shards have rows
in the end that cannot both be there, or a user has to help; after that it has all of them. With
`safe-mode: true` no row waits (test_last_wins.py). `docker/local chaos moves-model` looks at far more histories.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple, TypeAlias

import pytest

Event: TypeAlias = tuple[str, int, int]
"""("insert" | "update" | "delete", k, u) or ("ddl", its number, 0)."""
Log: TypeAlias = tuple[Event, ...]
Row: TypeAlias = tuple[int, int]
Rows: TypeAlias = tuple[tuple[int, Row], ...]

FIRST: Row = (1, 1)
"""The row that shard 0 has in the beginning."""
OUTDATED = 0


class Placed(NamedTuple):
    """A row of the target, or that waits. `u` OUTDATED: it has no image, and no form."""

    shard: int
    k: int
    u: int
    form: int


class World(NamedTuple):
    """All of it. `applied` and `read`: up to where the logs of shards are; between them is what is held back."""

    applied: tuple[int, ...]
    read: tuple[int, ...]
    form: int = 0
    target: frozenset[Placed] = frozenset({Placed(0, *FIRST, 0)})
    waiting: frozenset[Placed] = frozenset()


class Broken(AssertionError):
    """A law does not hold."""


@dataclass(frozen=True)
class Rules:
    """The rules of the protocol; each can be broken."""

    forgets: bool = True
    """A row that waits forgets its image where its source has it otherwise by then."""
    asks_the_source: bool = True
    """Only what the source has otherwise."""
    names_the_row: bool = True
    """Where nothing can be done a user is asked to delete the row that waits."""
    needs_no_form: bool = True
    """No DDL waits for rows without an image."""
    stays: bool = True
    """A row without an image goes nowhere until its log says what it is."""


def histories_of(begins: tuple[Row, ...], events: int, uniques: tuple[int, ...]) -> Iterator[Log]:
    """Yield all logs of a shard with up to so many changes."""

    def longer(log: Log, rows: dict[int, int], left: int) -> Iterator[Log]:
        yield log
        if not left:
            return
        for k, u in product((1, 2), uniques):
            if k not in rows and u not in rows.values():
                yield from longer((*log, ("insert", k, u)), {**rows, k: u}, left - 1)
            elif k in rows and u not in rows.values():
                yield from longer((*log, ("update", k, u)), {**rows, k: u}, left - 1)
        for k in rows:
            yield from longer((*log, ("delete", k, 0)), {one: u for one, u in rows.items() if one != k}, left - 1)

    yield from longer((), dict(begins), events)


def with_ddl(log: Log, places: tuple[int, ...]) -> Log:
    """Return the log with DDL before its events at these places, which are in order."""
    found: list[Event] = list(log)
    for number, at in reversed(list(enumerate(places))):
        found.insert(at, ("ddl", number, 0))
    return tuple(found)


def final(shard: int, log: Log) -> dict[int, int]:
    """Return what a shard has after its log."""
    rows = dict([FIRST]) if shard == 0 else {}
    for what, k, u in log:
        if what == "delete":
            del rows[k]
        elif what != "ddl":
            rows[k] = u
    return rows


def excludes(one: Placed, other: Placed) -> bool:
    return one.k == other.k or one.u == other.u


def put(world: World, row: Placed) -> World:
    """Write a row: it goes to its place, or waits."""
    if row.form != world.form:
        raise Broken(f"a row of form {row.form} meets a target of form {world.form}")
    if any(excludes(row, one) for one in world.target):
        return world._replace(waiting=world.waiting | {row})
    return world._replace(target=world.target | {row})


def take(world: World, shard: int, k: int) -> tuple[World, bool]:
    """Take a row of a shard away. Return also whether it has waited. Raises Broken."""
    mine = [row for row in (*world.waiting, *world.target) if (row.shard, row.k) == (shard, k)]
    if not mine:
        raise Broken("a shard changes a row that it has not got")
    if len(mine) > 1:
        raise Broken("a shard has a row in two places")
    waited = mine[0] in world.waiting and mine[0].u > 0
    return world._replace(waiting=world.waiting - {*mine}, target=world.target - {*mine}), waited


def applied(world: World, shard: int, event: Event, form: int, rules: Rules) -> World:
    what, k, u = event
    row = Placed(shard, k, u, form)
    if what == "insert":
        if any((one.shard, one.k) == (shard, k) for one in (*world.target, *world.waiting)):
            raise Broken("a shard inserts a row that it has got")
        return put(world, row)
    without, waited = take(world, shard, k)
    if what == "delete":
        return without
    if row.form != world.form:
        raise Broken("an image of another form")
    return without._replace(waiting=without.waiting | {row}) if waited else put(without, row)


def steps(world: World, logs: tuple[Log, ...], rules: Rules) -> Iterator[World]:
    """Yield what can happen next."""
    for shard, log in enumerate(logs):
        at, read = world.applied[shard], world.read[shard]
        held = at < read and log[at][0] == "ddl" and log[at][1] == world.form
        if at < read and not held:
            yield moved(resynced(world, shard, log, rules), shard, at + 1, read)
        elif read < len(log) and (held or log[read][0] == "ddl"):
            yield moved(world, shard, at, read + 1)
        elif read < len(log):
            form = sum(what == "ddl" for what, _, _ in log[:read])
            yield moved(applied(world, shard, log[read], form, rules), shard, read + 1, read + 1)
        if held and rules.forgets:
            yield from without_image(world, shard, log, rules)
    for row in world.waiting:
        free = not any(excludes(row, one) for one in world.target)
        if free and (row.u > 0 or not rules.stays):
            yield put(world._replace(waiting=world.waiting - {row}), row)
    if any(row.u > 0 or not rules.needs_no_form for row in world.waiting):
        return
    if all(at < read and log[at] == ("ddl", world.form, 0) for at, read, log in zip(*world[:2], logs, strict=True)):
        target = frozenset(row._replace(form=world.form + 1) for row in world.target)
        yield world._replace(form=world.form + 1, target=target)


def resynced(world: World, shard: int, log: Log, rules: Rules) -> World:
    at = world.applied[shard]
    form = sum(what == "ddl" for what, _, _ in log[:at])
    return world if log[at][0] == "ddl" else applied(world, shard, log[at], form, rules)


def moved(world: World, shard: int, at: int, read: int) -> World:
    def with_one(places: tuple[int, ...], place: int) -> tuple[int, ...]:
        return (*places[:shard], place, *places[shard + 1 :])

    return world._replace(applied=with_one(world.applied, at), read=with_one(world.read, read))


def without_image(world: World, shard: int, log: Log, rules: Rules) -> Iterator[World]:
    """Yield the worlds where a row of a held shard has forgotten its image, for all that its source may have by now."""
    for row in world.waiting:
        if row.shard != shard or row.u <= 0:
            continue
        contested = {name for one in world.target for name in ("k", "u") if getattr(row, name) == getattr(one, name)}
        for end in range(world.read[shard], len(log) + 1):
            now = final(shard, log[:end])
            outdated = row.k not in now or ("u" in contested and now[row.k] != row.u)
            if contested and (outdated or not rules.asks_the_source):
                yield world._replace(waiting=world.waiting - {row} | {Placed(shard, row.k, OUTDATED, 0)})
                break


def explore(logs: tuple[Log, ...], rules: Rules) -> int:
    """Check every state that can be reached. Return their number. Raises Broken."""
    begins = World((0,) * len(logs), (0,) * len(logs))
    seen, stack = {(begins, logs)}, [(begins, logs)]
    while stack:
        world, decided = stack.pop()
        ended = True
        for after in steps(world, decided, rules):
            ended = False
            if (after, decided) not in seen:
                seen.add((after, decided))
                stack.append((after, decided))
        if ended and (helped := check_end(world, decided, rules)) is not None and (world, helped) not in seen:
            seen.add((world, helped))
            stack.append((world, helped))
    return len(seen)


def check_end(world: World, logs: tuple[Log, ...], rules: Rules) -> tuple[Log, ...] | None:
    """Return the logs as they continue where a user has to help; None: they are applied. Raises Broken."""
    form = sum(what == "ddl" for what, _, _ in logs[0])
    rows = [Placed(shard, k, u, form) for shard, log in enumerate(logs) for k, u in final(shard, log).items()]
    if any(excludes(one, other) for number, one in enumerate(rows) for other in rows[:number]):
        return None  # a user decides
    if (world.form, world.waiting, world.target) == (form, frozenset(), frozenset(rows)):
        return None
    row = next((one for one in sorted(world.waiting) if one.u > 0), None) if rules.names_the_row else None
    if row is None or world.form == form or row.k not in final(row.shard, logs[row.shard]):
        raise Broken(f"nothing can be done, and the target has {sorted(world.target)}, {sorted(world.waiting)} wait")
    deleted: Event = ("delete", row.k, 0)
    return tuple((*log, deleted) if shard == row.shard else log for shard, log in enumerate(logs))


def any_history(seed: int) -> tuple[Log, ...]:
    """Return logs of two or three shards with one or two DDL."""
    choose = random.Random(seed)
    shards, ddls = choose.choice((2, 2, 3)), choose.choice((1, 1, 2))
    found = []
    for shard in range(shards):
        log = choose.choice(LOGS[shard == 0])
        places = tuple(sorted(choose.randint(0, len(log)) for _ in range(ddls)))
        found.append(with_ddl(log, places))
    return tuple(found)


LOGS = {True: list(histories_of((FIRST,), 3, (1, 2))), False: list(histories_of((), 3, (1, 2)))}


def every_history() -> Iterator[tuple[Log, ...]]:
    """Yield all histories of two shards with one DDL and up to two changes of a row each."""
    logs = {begins: list(histories_of((FIRST,) if begins else (), 2, (1,))) for begins in (True, False)}
    for one, other in product(logs[True], logs[False]):
        for at, other_at in product(range(len(one) + 1), range(len(other) + 1)):
            yield with_ddl(one, (at,)), with_ddl(other, (other_at,))


def test_rows_move_and_all_ddl_is_run() -> None:
    for logs in every_history():
        explore(logs, Rules())
    for seed in range(150):
        explore(any_history(seed), Rules())


NAMED = {
    "it moves": ((("ddl", 0, 0), ("delete", 1, 0)), (("insert", 1, 1), ("ddl", 0, 0))),
    "for a moment": ((("ddl", 0, 0),), (("insert", 1, 1), ("ddl", 0, 0), ("delete", 1, 0))),
    "and back": (
        (("ddl", 0, 0), ("delete", 1, 0), ("insert", 1, 1)),
        (("insert", 1, 1), ("delete", 1, 0), ("ddl", 0, 0)),
    ),
    "its value": ((("ddl", 0, 0), ("update", 1, 2)), (("insert", 2, 1), ("ddl", 0, 0))),
    "behind two": ((("ddl", 0, 0), ("ddl", 1, 0), ("delete", 1, 0)), (("insert", 1, 1), ("ddl", 0, 0), ("ddl", 1, 0))),
    "on and on": (
        (("ddl", 0, 0), ("delete", 1, 0)),
        (("insert", 1, 1), ("ddl", 0, 0), ("delete", 1, 0)),
        (("insert", 1, 1), ("ddl", 0, 0)),
    ),
}


@pytest.mark.parametrize("logs", NAMED.values(), ids=NAMED)
def test_the_model_accepts_the_named_histories(logs: tuple[Log, ...]) -> None:
    assert explore(logs, Rules()) > 5


BROKEN = {
    "no image is forgotten": (Rules(forgets=False), "nothing can be done"),
    "the source is not asked": (Rules(asks_the_source=False), "nothing can be done"),
    "the other source gets no row": (Rules(names_the_row=False), "nothing can be done"),
    "a DDL waits for what has no image": (Rules(needs_no_form=False), "nothing can be done"),
    "what has no image is settled": (Rules(stays=False), "of form"),
}


@pytest.mark.parametrize(("rules", "law"), BROKEN.values(), ids=BROKEN)
def test_without_a_rule_the_model_finds_a_violation(rules: Rules, law: str) -> None:
    def look() -> None:
        for logs in NAMED.values():
            explore(logs, rules)
        for seed in range(150):
            explore(any_history(seed), rules)

    with pytest.raises(Broken, match=law):
        look()
