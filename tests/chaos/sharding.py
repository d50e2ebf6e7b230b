"""Random histories of shards that make the same DDL, each at its own place of its own source's log.

A family is a merged table: some DDL statements in an order, and shards at several sources that make all of them, each
when it likes. Rows of every form are written in between, some shards begin later with the newest form of their source,
some are renamed (also by an ALTER, also while their rows are held back), some are emptied and dropped at any time, and
some make a DDL as gh-ost or pt-online-schema-change would. A row that moves to a shard with fewer DDL would wait
for a user (DM-6057), so it is deleted there again.

    source a    g0_1: DDL 0   rows   g0_1: DDL 1   g0_2: DDL 0   CREATE g0_9 LIKE g0_1   rows   g0_2: DDL 1
    source b    rows   _g0_3_gho: CREATE, DDL 0, INSERT … SELECT, RENAME   rows   g0_3: DDL 1

A history is all that one source does, as transactions, made up beforehand: nothing in it depends on who reads it when.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from testbed import Server
from tests.beside import beside
from tests.chaos.ghosts import gh_ost, pt_osc

Form = Mapping[str, str]
"""Column -> type, without the columns that every row has: id, u, v."""
Transaction = tuple[str, ...]

KINDS: Final = (
    "int", "int", "bigint unsigned", "decimal(8,2)", "varchar(20)", "varchar(40)", "text", "datetime(3)", "date",
    "enum('p','q','r')", "varbinary(12)", "double",
)  # fmt: skip
WIDER: Final = {"int": "bigint", "varchar(20)": "varchar(60)", "decimal(8,2)": "decimal(12,2)", "text": "mediumtext"}
BASES: Final = (
    "id int NOT NULL PRIMARY KEY, u int NOT NULL, v varchar(20), UNIQUE KEY u (u)",
    "id int NOT NULL PRIMARY KEY, u int NOT NULL, v varchar(20)",
    "id int NOT NULL, u int NOT NULL, v varchar(20), UNIQUE KEY u (id)",
    "id int NOT NULL, u int NOT NULL, v varchar(20)",
)
KEYLESS: Final = BASES[-1]
FIRST_ROWS: Final = 6
MOVES: Final = 0.15
SPAN: Final = 100_000
"""Numbers that the rows of one shard have for themselves."""


@dataclass(frozen=True)
class Ddl:
    """A statement that all shards execute. `form`: that after it. `by_tool`: a tool for online DDL can execute it."""

    specs: tuple[str, ...]
    form: Form
    by_tool: bool

    def spelled(self, chance: random.Random) -> str:
        """Return its clauses as one shard writes them."""
        return ", ".join(
            one.replace("ADD COLUMN", chance.choice(["ADD COLUMN", "ADD", "add column"])) for one in self.specs
        )


@dataclass
class Shard:
    """One source table while its history is made up. `made`: the DDL statements that it has executed."""

    name: str
    numbers: Iterator[int]
    made: int = 0
    rows: list[int] = field(default_factory=list)
    passing: list[int] = field(default_factory=list)
    """Rows that have come from a shard with more DDL, and go again."""


@dataclass
class Family:
    """A merged table: how it begins, and the DDL of its life."""

    name: str
    base: str
    ddls: Sequence[Ddl]

    def form(self, made: int) -> Form:
        return self.ddls[made - 1].form if made else {}


def make_family(name: str, chance: random.Random, *, ddls: int) -> Family:
    """Make up a merged table with so many DDL statements."""
    family = Family(name, chance.choice(BASES), [])
    made, keys = [], list[str]()
    form: Form = {}
    for turn in range(ddls):
        ddl = make_ddl(form, keys, turn, chance)
        made.append(ddl)
        form = ddl.form
    family.ddls = made
    return family


def make_ddl(form: Form, keys: list[str], turn: int, chance: random.Random) -> Ddl:
    """Make up a statement, the one of this number, about tables of a form that have these keys beside their own."""
    match chance.randrange(9):
        case 0 if form:
            gone = chance.choice(list(form))
            if not any(gone in key for key in keys):
                return Ddl((f"DROP COLUMN {gone}",), {name: kind for name, kind in form.items() if name != gone}, False)
        case 1 if form:
            old = chance.choice(list(form))
            if not any(old in key for key in keys):
                new = {(f"n{turn}" if name == old else name): kind for name, kind in form.items()}
                spec = chance.choice([f"RENAME COLUMN {old} TO n{turn}", f"CHANGE {old} n{turn} {form[old]} NULL"])
                return Ddl((spec,), new, False)
        case 2 if form:
            name = chance.choice(list(form))
            kind = WIDER.get(form[name], form[name])
            return Ddl((f"MODIFY {name} {kind} NULL COMMENT 'turn {turn}'",), {**form, name: kind}, True)
        case 3:
            column = chance.choice([name for name, kind in [*form.items(), ("u", "int")] if kind != "text"])
            if not form.get(column, "").endswith(("text", "blob")):
                keys.append(f"k{turn}_{column}")
                return Ddl((f"ADD {chance.choice(['KEY', 'INDEX'])} k{turn}_{column} ({column})",), form, True)
        case 4 if keys:
            gone = keys.pop(chance.randrange(len(keys)))
            return Ddl((f"DROP KEY {gone}",), form, True)
        case 5:
            return Ddl((f"MODIFY v varchar({40 + turn})", f"COMMENT 'turn {turn}'"), form, True)
    kinds = {f"c{turn}{letter}": chance.choice(KINDS) for letter in "ab"[: chance.choice([1, 1, 2])]}
    specs = tuple(f"ADD COLUMN {_definition(name, kind, form, chance)}" for name, kind in kinds.items())
    return Ddl(specs, {**form, **kinds}, True)


def _definition(name: str, kind: str, form: Form, chance: random.Random) -> str:
    filled = "" if kind in ("text", "date") else f" NOT NULL DEFAULT {literal(kind, 7)}"
    spec = chance.choice([" NULL", filled, filled])
    return f"{name} {kind}{spec}" + chance.choice(["", "", " FIRST", f" AFTER {chance.choice(['id', 'v', *form])}"])


def literal(kind: str, number: int) -> str:
    """Return a value of the type."""
    match kind.partition("(")[0].partition(" ")[0]:
        case "datetime" | "timestamp":
            return f"'2024-02-{number % 28 + 1:02} 12:34:{number % 60:02}.{number % 1000:03}'"
        case "date":
            return f"'2024-02-{number % 28 + 1:02}'"
        case "time":
            return f"'-12:{number % 60:02}:00.{number % 100:02}'"
        case "enum" | "set":
            members = kind.partition("(")[2].rstrip(")").split(",")
            return members[number % len(members)]
        case "varchar" | "text" | "mediumtext":
            return f"'é{number}'"
        case "varbinary":
            return f"'b{number % 1000}'"
        case "decimal" | "double":
            return f"{number % 1000}.25"
        case "year":
            return str(2000 + number % 100)
        case _:
            return str(number)


@dataclass
class History:
    """All that one source does to its shards of these families. `begun`: what it does before the load."""

    families: Sequence[Family]
    shards: dict[str, list[Shard]]
    chance: random.Random
    number: int
    """The number of the source."""
    begun: list[Transaction] = field(default_factory=list)
    written: list[Transaction] = field(default_factory=list)
    free: list[str] = field(default_factory=list)
    """Names of shards that were dropped."""
    _count: int = 0

    @classmethod
    def of(cls, families: Sequence[Family], chance: random.Random, *, number: int, length: int, most: int) -> History:
        """Make one up, of about `length` transactions; each family has one to `most` shards."""
        history = cls(families, {one.name: [] for one in families}, chance, number)
        for family in families:
            for _ in range(chance.randint(1, most)):
                history._begin(family)
        todo = [(family, shard) for family in families for shard in history.shards[family.name]]
        spare = max(0, length - sum(len(family.ddls) for family, _ in todo))
        while any(shard.made < len(family.ddls) for family, shard in todo) or spare > 0:
            family, shard = chance.choice(todo)
            left = sum(len(one.ddls) - each.made for one, each in todo)
            if shard.made < len(family.ddls) and chance.random() * (left + spare) < left:
                history._make(family, shard)
            elif chance.random() < 0.03:
                todo.append((family, history._join(family)))
            elif chance.random() < 0.05 and len(history.shards[family.name]) > 1:
                history._drop(family, shard)
                todo = [one for one in todo if one[1] is not shard]
            else:
                spare -= 1
                history._write(family, shard)
        for family, shard in todo:
            history._write(family, shard)
            history._let_go(shard)
        return history

    def _new(self, family: Family) -> Shard:
        self._count += 1
        numbers = iter(range(SPAN * (100 * self.number + self._count), SPAN * (100 * self.number + self._count + 1)))
        again = [one for one in self.free if one.startswith(f"{family.name}_")]
        shard = Shard(again[0] if again else f"{family.name}_{self.number}{self._count}", numbers)
        self.free = [one for one in self.free if one != shard.name]
        self.shards[family.name].append(shard)
        return shard

    def _begin(self, family: Family) -> None:
        shard = self._new(family)
        self.begun.append((f"CREATE TABLE {shard.name} ({family.base}) COLLATE utf8mb4_bin",))
        self.begun.append(tuple(self._insert(family, shard) for _ in range(FIRST_ROWS)))

    def _join(self, family: Family) -> Shard:
        """A shard that begins with the newest form that its source has."""
        newest = max(self.shards[family.name], key=lambda one: one.made)
        shard = self._new(family)
        shard.made = newest.made
        self.written.append((f"CREATE TABLE {shard.name} LIKE {newest.name}",))
        return shard

    def _make(self, family: Family, shard: Shard) -> None:
        ddl, before, chance = family.ddls[shard.made], family.form(shard.made), self.chance
        if chance.random() < 0.15:
            how = chance.choice(["RENAME TABLE {0} TO {0}r", "ALTER TABLE {0} RENAME TO {0}r"])
            self.written.append((how.format(shard.name),))
            shard.name += "r"
        if ddl.by_tool and family.base != KEYLESS and chance.random() < 0.2:
            tool, columns = chance.choice([gh_ost, pt_osc]), ", ".join(["id", "u", "v", *before])
            self.written += [(step,) for step in tool(shard.name, ddl.spelled(chance), columns)]
        elif chance.random() < 0.1:
            self.written.append((f"ALTER TABLE {shard.name} {ddl.spelled(chance)}, RENAME TO {shard.name}r",))
            shard.name += "r"
        else:
            self.written.append((f"ALTER TABLE {shard.name} {ddl.spelled(chance)}",))
        shard.made += 1
        if chance.random() < 0.5:
            self._let_go(shard)

    def _let_go(self, shard: Shard) -> None:
        self.written += [(f"DELETE FROM {shard.name} WHERE id = {row}",) for row in shard.passing]
        shard.passing.clear()

    def _drop(self, family: Family, shard: Shard) -> None:
        """Rows of a shard that is dropped stay in the target: it has none by then."""
        self.written += [(f"DELETE FROM {shard.name}",), (f"DROP TABLE {shard.name}",)]
        self.shards[family.name].remove(shard)
        self.free.append(shard.name)

    def _write(self, family: Family, shard: Shard) -> None:
        others = [one for one in self.shards[family.name] if one is not shard]
        if shard.rows and others and self.chance.random() < MOVES:
            self._move(family, shard, self.chance.choice(others))
            return
        statements = [self._change(family, shard) for _ in range(self.chance.choice([1, 1, 2, 4]))]
        if self.chance.random() < 0.2:  # one transaction for shards of several forms
            other = self.chance.choice(self.shards[family.name])
            statements.append(self._change(family, other))
        self.written.append(tuple(statements))

    def _move(self, family: Family, shard: Shard, other: Shard) -> None:
        """A row goes to another shard, which may have made more of the DDL; or less, and is there for a while then."""
        row = self.chance.choice(shard.rows)
        shard.rows.remove(row)
        statements = (f"DELETE FROM {shard.name} WHERE id = {row}", self._insert(family, other, row))
        if other.made < shard.made:
            other.rows.remove(row)
            other.passing.append(row)
        self.written += [statements] if self.chance.random() < 0.5 else [(one,) for one in statements]

    def _insert(self, family: Family, shard: Shard, number: int | None = None) -> str:
        number = next(shard.numbers) if number is None else number
        shard.rows.append(number)
        form = family.form(shard.made)
        some = [name for name in form if self.chance.random() < 0.8]
        values = [str(number), str(number), f"'{self.chance.randrange(99)}'", *(self._value(form[one]) for one in some)]
        return f"INSERT INTO {shard.name} ({', '.join(['id', 'u', 'v', *some])}) VALUES ({', '.join(values)})"

    def _change(self, family: Family, shard: Shard) -> str:
        chance, form = self.chance, family.form(shard.made)
        if not shard.rows or chance.random() < 0.4:
            return self._insert(family, shard)
        row = chance.choice(shard.rows)
        match chance.randrange(5):
            case 0:
                shard.rows.remove(row)
                return f"DELETE FROM {shard.name} WHERE id = {row}"
            case 1:
                return f"UPDATE {shard.name} SET u = -u, v = '{chance.randrange(99)}' WHERE id = {row}"
            case 2:
                new = next(shard.numbers)
                shard.rows[shard.rows.index(row)] = new
                return f"UPDATE {shard.name} SET id = {new}, u = {new} WHERE id = {row}"
            case 3 if form:
                name = chance.choice(list(form))
                return f"UPDATE {shard.name} SET {name} = {self._value(form[name])}"
            case _:
                changes = "".join(f", {name} = {self._value(kind)}" for name, kind in form.items())
                return f"UPDATE {shard.name} SET v = 'w{chance.randrange(99)}'{changes} WHERE id = {row}"

    def _value(self, kind: str) -> str:
        return literal(kind, self.chance.randrange(2000))


@dataclass
class Writer:
    """One connection that plays a history."""

    server: Server
    schema: str
    history: History
    pause: float
    """Seconds between two transactions, on average."""
    done: threading.Event = field(default_factory=threading.Event)

    def begin(self) -> None:
        """Do what comes before the load."""
        self._play(self.history.begun, 0)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Play the rest beside the block, which ends when it is over."""
        with beside(self._run):
            yield

    def _run(self, _ended: threading.Event) -> None:
        try:
            self._play(self.history.written, self.pause)
        finally:
            self.done.set()

    def _play(self, transactions: Sequence[Transaction], pause: float) -> None:
        chance, waiting = self.history.chance, threading.Event()
        with self.server.connect(database=self.schema, autocommit=False) as connection:
            for transaction in transactions:
                waiting.wait(chance.uniform(0, 2 * pause))
                with connection.cursor() as cursor:
                    for statement in transaction:
                        cursor.execute(statement)
                connection.commit()
