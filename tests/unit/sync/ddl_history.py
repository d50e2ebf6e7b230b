"""A random log of one source with DDL and rows in it, what its tables are in the end, and what a target's are to be.

    rows      of the tables a, b, c, …, and of m_1, m_2, …, which all go into one table of the target
    DDL       columns and keys come, go and change, tables change names and places, are emptied, dropped and made, with
              rows or like another
    online    a ghost is made, changed, filled and put in the place of the real table, with other items in between
    by hand   a user has DDL skipped, replaced, or executed before DDL or rows

Tables a and b begin alike, so that a swap of them shows in their rows only. Rows are those of ddl_rows_made.py.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import KeyDefinition, KeyKind
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.meta.records import Operator, OperatorKind, SqlPattern
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from tests.unit.sync.ddl_changes import MERGED, Change, Changes, is_shard
from tests.unit.sync.ddl_merged import Merged
from tests.unit.sync.ddl_tables import SERVER, Row, Tables
from tests.unit.sync.ddl_ways import COLLIDING, Form, Safe, Way

SCHEMA: Final = "src"
COLUMNS: Final = "xyz"
NAMES: Final = "abcde"
TASK: Final = "task"

State = dict[TableName, list[Row]]


def named(table: str) -> TableName:
    return TableName(SCHEMA, table)


def place_of(position: int) -> Location:
    """Return where the item of this number begins."""
    return Location("bin.000001", position + 4)


@dataclass(frozen=True)
class Item:
    """A transaction of the log. `sql`: its DDL, which comes before its rows; "" for none. `time`: of its commit."""

    sql: str = ""
    rows: tuple[Change, ...] = ()
    time: int = 0


def _nothing() -> Tables:
    return Tables(Tracker.of(SERVER, {}, {SCHEMA: "utf8mb4_bin"}))


@dataclass
class History:
    """The log, and the source's tables after it. It is not changed once it is made.

    `wanted`: the tables of the target by the source's names, without what is merged; they differ from the source's
    where a user wants other DDL for them, or has made them so before.
    """

    rng: random.Random
    source: str
    number: int
    way: Way
    often: str = ""
    log: list[Item] = field(default_factory=list)
    tables: Tables = field(default_factory=_nothing)
    wanted: Tables = field(default_factory=_nothing)
    operators: list[Operator] = field(default_factory=list)
    ahead: str = ""
    """What a user has executed in the target before the log begins."""
    begun: Tracker = field(init=False)
    """The tables where the log begins; they are empty."""
    begun_in_target: Tracker = field(init=False)
    """The same, as the target has them."""
    states: list[State] = field(default_factory=list)
    """The rows at the beginning, and after each of the first transactions, before any DDL."""
    changes: Changes = field(init=False)

    @classmethod
    def make(cls, seed: int, source: str, number: int, way: Way, *, often: str = "", about: str = "") -> History:
        """`often`: what there is more of than of all else; `about`: what there is alone, between rows."""
        history = cls(random.Random(f"history {seed} {number}"), source, number, way, often)
        history._begin(random.Random(f"keys {seed}").choice(COLLIDING if way.collide else list(Form)))
        if history.rng.random() < 0.1 or "ahead" in (often, about):
            history._ahead()
        if about and about != "ahead":
            for maker in (history._rows, getattr(history, f"_{about}"), history._rows):
                maker()
        elif not about:
            for _ in range(history.rng.randint(3, 6) * (2 if often else 1)):
                history._something()
        return history

    def end(self) -> None:
        """Say when each transaction was committed. Nothing follows."""
        time = 0
        for at, item in enumerate(self.log):
            time += self.rng.choice([0, 1, 10, 40, -5])
            self.log[at] = replace(item, time=1_000 + time)

    def _begin(self, of_merged: Form) -> None:
        self.changes = Changes(self.rng, self.number, self.tables, self.wanted, Merged(of_merged, self.way.collide))
        shards = (f"{MERGED}_1", f"{MERGED}_2")
        for form, names in ((self.way.form, ("a", "b")), (of_merged, shards)):
            for name in names:
                self._run(_create(name, form))
        self.begun = self.tables.tracker
        for name in ("a", "b"):
            for spec in self.way.altered:
                self.wanted.run(parse(f"ALTER TABLE {SCHEMA}.{name} {spec}", 0, SCHEMA))
        self.begun_in_target = self.wanted.tracker
        self._note_state()
        for _ in range(self.rng.randint(1, 3) if self.way.safe is not Safe.OFF else 0):
            self._rows()
            self._note_state()

    def _note_state(self) -> None:
        self.states.append({name: [dict(row) for row in rows] for name, rows in self.tables.rows.items()})

    def _something(self) -> None:
        makers = [self._rows] * 4
        if self._plain():
            makers += [self._columns] * 3
            makers += [self._swap, self._rename, self._empty, self._online, self._by_hand]
        makers += [self._create, self._elsewhere, self._shards]
        chosen = [maker for maker in makers if maker.__name__ == f"_{self.often}"][:1]
        makers += 10 * chosen + 5 * [self._rows] * len(chosen)
        self.rng.choice(makers)()

    # Rows

    def _rows(self) -> None:
        self._rows_of(self._some())

    def _rows_of(self, names: Sequence[TableName]) -> None:
        self.log.append(Item(rows=tuple(one for name in names for _ in range(2) for one in self.changes.some(name))))

    def _some(self) -> list[TableName]:
        there = sorted(self.tables.rows)
        return self.rng.sample(there, min(len(there), self.rng.choice([1, 2, 3])))

    # DDL

    def _run(self, sql: str, wanted: Sequence[str] | None = None) -> None:
        self.tables.run(parse(sql, 0, SCHEMA))
        for one in (sql,) if wanted is None else wanted:
            self.wanted.run(parse(one, 0, SCHEMA))

    def _ddl(self, sql: str, wanted: Sequence[str] | None = None) -> None:
        """Log a statement. `wanted`: what it means for the target, where that is something else."""
        self._run(sql, wanted)
        self.log.append(Item(sql))

    def _plain(self) -> list[str]:
        return sorted(name.table for name in self.tables.rows if name.table in NAMES)

    def _free(self) -> str | None:
        return next((name for name in NAMES if not self.tables.has(named(name))), None)

    def _lacking(self, name: str) -> list[str]:
        there = self.tables.columns(named(name))
        return [one for one in COLUMNS if one not in there]

    def _specs(self, name: str) -> str:
        there = [one for one in self.tables.columns(named(name)) if one in COLUMNS]
        lacking, found = self._lacking(name), [self._key(name)]
        added = f"ADD COLUMN {self.rng.choice(lacking)} int DEFAULT {self.rng.randrange(9)}" if lacking else ""
        dropped = f"DROP COLUMN {self.rng.choice(there)}" if there else ""
        found += [added, added, dropped, dropped, ", ".join(filter(None, (added, dropped)))]
        if there:
            found.append(f"MODIFY COLUMN {self.rng.choice(there)} {self.rng.choice(['int', 'bigint'])} NULL")
        if there and lacking:
            found.append(f"RENAME COLUMN {self.rng.choice(there)} TO {self.rng.choice(lacking)}")
        return self.rng.choice([one for one in found if one])

    def _key(self, name: str) -> str:
        keys = [
            one for one in self.tables.tracker.definition(named(name)).constraints if isinstance(one, KeyDefinition)
        ]
        if any(one.name == "k" for one in keys):
            return "DROP KEY k"
        if self.rng.random() < 0.5:
            return "ADD KEY k (id)"
        if any(one.kind is KeyKind.PRIMARY for one in keys):
            return "DROP PRIMARY KEY"
        return "ADD PRIMARY KEY (id)" if self.changes.keys_differ(named(name)) else "ADD KEY k (id)"

    def _columns(self) -> None:
        name, new = self.rng.choice(self._plain()), self._free()
        renamed = f", RENAME TO {SCHEMA}.{new}" if new and self.rng.random() < 0.1 else ""
        self._ddl(f"ALTER TABLE {SCHEMA}.{name} {self._specs(name)}{renamed}")

    def _swap(self) -> None:
        """Two tables change places, or three go round."""
        plain = self._plain()
        if len(plain) < 2:
            return
        names = self.rng.sample(plain, min(len(plain), self.rng.choice([2, 2, 3])))
        pairs = [(names[0], "tmp"), *zip(names[1:], names, strict=False), ("tmp", names[-1])]
        self._ddl("RENAME TABLE " + ", ".join(f"{SCHEMA}.{old} TO {SCHEMA}.{new}" for old, new in pairs))

    def _rename(self) -> None:
        old, new = self.rng.choice(self._plain()), self._free()
        if new is not None:
            how = self.rng.choice(["RENAME TABLE {0} TO {1}", "ALTER TABLE {0} RENAME TO {1}"])
            self._ddl(how.format(f"{SCHEMA}.{old}", f"{SCHEMA}.{new}"))

    def _empty(self) -> None:
        names = self.rng.sample(self._plain(), min(len(self._plain()), 2))
        both = ", ".join(f"{SCHEMA}.{name}" for name in names)
        how = self.rng.choice(["TRUNCATE TABLE {0}", "TRUNCATE TABLE {0}", "DROP TABLE {0}", "DROP TABLE {1}"])
        self._ddl(how.format(f"{SCHEMA}.{names[0]}", both))

    def _create(self) -> None:
        name, plain = self._free(), self._plain()
        if name is None:
            return
        if plain and self.rng.random() < 0.4:
            sql = f"CREATE TABLE {SCHEMA}.{name} LIKE {SCHEMA}.{self.rng.choice(plain)}"
            self._run_as_the_source_has_it(sql, named(name))
            self.log.append(Item(sql))
            return
        sql = _create(name, self.rng.choice([self.way.form, Form.KEYLESS, Form.SINGLE]))
        self._run(sql)
        rows = tuple(self.changes.insert(named(name)) for _ in range(3)) if self.rng.random() < 0.7 else ()
        self.log.append(Item(sql, rows))

    def _run_as_the_source_has_it(self, sql: str, name: TableName) -> None:
        """The target's new table is like the source's, also where the target's own is another one."""
        self._run(sql, ())
        self.wanted.tracker = self.wanted.tracker._with(name, self.tables.tracker.definition(name))
        self.wanted.rows[name] = []

    # Between two sources

    def give(self) -> Row | None:
        """Delete a row of a shard for another source to have; None: there is none."""
        there = [(name, row) for name in self.shards() for row in self.tables.rows[name]]
        if not there:
            return None
        name, row = self.rng.choice(there)
        self.log.append(Item(rows=(self.changes.give_away(name, row),)))
        return row

    def take(self, given: Row) -> None:
        """Insert that row, and continue with it."""
        name, row = self.rng.choice(self.shards()), dict(given)
        self.log.append(Item(rows=(self.changes.log(name, None, row),)))
        if self.rng.random() < 0.4:
            self._rename_shard(name.table)
        if self.rng.random() < 0.4:
            (name,) = [one for one in self.shards() if any(there is row for there in self.tables.rows[one])]
            self.log.append(Item(rows=(self.changes.log(name, row, {**row, "x": "8"}),)))

    def shards(self) -> list[TableName]:
        return sorted(filter(is_shard, self.tables.rows))

    def _rename_shard(self, table: str) -> None:
        new = next(f"{MERGED}_{n}" for n in range(9) if not self.tables.has(named(f"{MERGED}_{n}")))
        self._ddl(f"RENAME TABLE {SCHEMA}.{table} TO {SCHEMA}.{new}")

    def _shards(self) -> None:
        shards = [name.table for name in self.shards()]
        new = f"{SCHEMA}.{MERGED}_{self.rng.choice([n for n in range(9) if f'{MERGED}_{n}' not in shards])}"
        one = f"{SCHEMA}.{self.rng.choice(shards)}"
        kinds = [f"CREATE TABLE {new} LIKE {one}", f"RENAME TABLE {one} TO {new}"]
        self._ddl(self.rng.choice([*kinds, f"DROP TABLE {one}"] if len(shards) > 2 else kinds))

    def _elsewhere(self) -> None:
        self.log.append(Item("ALTER TABLE elsewhere.t ADD COLUMN x int"))

    def _online(self) -> None:
        """Do what a tool does. Only rows come in between, as the real table must stay as it is."""
        name = self.rng.choice(self._plain())
        real, ghost, trash = (f"{SCHEMA}.{one}" for one in (name, f"_{name}_gho", f"_{name}_del"))
        specs = self._specs(name)
        if "RENAME COLUMN" in specs:  # the tool would need an option to copy it
            return
        self._ddl(f"CREATE TABLE {ghost} LIKE {real}", ())
        self._ddl(f"ALTER TABLE {ghost} {specs}", ())
        if self.rng.random() < 0.6 and "ADD PRIMARY" not in specs:  # twins could come meanwhile
            self._rows_without(f"_{name}_gho")
        source, into = named(name), named(f"_{name}_gho")
        made = self.tables.tracker.definition(into).columns
        copied = [{one.name: row.get(one.name, one.default) for one in made} for row in self.tables.rows[source]]
        self.log.append(Item(rows=tuple(self.changes.log(into, None, row) for row in copied)))
        self._ddl(f"RENAME TABLE {real} TO {trash}, {ghost} TO {real}", (f"ALTER TABLE {real} {specs}",))
        if self.rng.random() < 0.6:
            self._rows_without(f"_{name}_del")
        self._ddl(f"DROP TABLE {trash}", ())

    def _rows_without(self, name: str) -> None:
        self._rows_of([one for one in self._some() if one.table != name])

    # By hand

    def _ahead(self) -> None:
        """A part of the first DDL has been executed in the target already."""
        self.ahead = f"ALTER TABLE {self.source}.a ADD KEY k (id)"
        specs = self.rng.sample(["ADD KEY k (id)", "ADD COLUMN y int DEFAULT 4", "ADD COLUMN z int DEFAULT 5"], 3)
        self._ddl(f"ALTER TABLE {SCHEMA}.a {', '.join(specs)}")

    def _by_hand(self) -> None:
        name, other = (self.rng.choice(self._plain()) for _ in "12")
        emptied, lacking = f"TRUNCATE TABLE {SCHEMA}.{other}", self._lacking(name)
        match self.rng.randrange(5):
            case 0:
                self._instead(f"TRUNCATE TABLE {SCHEMA}.{name}", OperatorKind.SKIP)
            case 1:
                self._instead(f"TRUNCATE TABLE {SCHEMA}.{name}", OperatorKind.REPLACE, emptied)
            case 2 if lacking:
                added = f"ALTER TABLE {SCHEMA}.{name} ADD COLUMN {lacking[0]} int DEFAULT "
                self._instead(f"{added}1", OperatorKind.REPLACE, *self.rng.choice([(emptied,), ()]), f"{added}2")
            case 3:
                self._operator(OperatorKind.INJECT, "", emptied)
                sql = f"ALTER TABLE {SCHEMA}.{name} {self._specs(name)}"
                self._ddl(sql, (emptied, sql))
            case _:
                if self.rng.random() < 0.4:
                    self._create()
                self._operator(OperatorKind.INJECT, "", emptied)
                self.wanted.run(parse(emptied, 0, SCHEMA))
                self._rows()

    def _instead(self, sql: str, kind: OperatorKind, *wanted: str) -> None:
        self._operator(kind, sql, *wanted)
        self._ddl(sql, wanted)

    def _operator(self, kind: OperatorKind, sql: str, *statements: str) -> None:
        """`sql`: of its statement, which a pattern may match; "" if only its location is known."""
        place: Location | SqlPattern = place_of(len(self.log))
        if sql and self.rng.random() < 0.4 and all(one.sql != sql for one in self.log):
            place = SqlPattern(f"^{re.escape(sql)}$")
        self.operators.append(Operator(TASK, self.source, kind, place, statements))


@lru_cache(maxsize=200)
def make_histories(
    seed: int, sources: tuple[str, ...], way: Way, *, often: str = "", about: str = ""
) -> tuple[History, ...]:
    """Return a history for each source. Rows of the merged table go from one to the other at their ends, where a row
    waits for its place. See `History.make`."""
    made = tuple(History.make(seed, name, at, way, often=often, about=about) for at, name in enumerate(sources))
    waits = made[0].changes.merged.form is not Form.NULLABLE and not (way.safe.always or way.safe.past)
    if len(made) > 1 and waits:  # else the first source owns the other's row, or is stopped by it, or overwrites it
        given = [(to, one.give()) for one, to in zip(made, reversed(made), strict=True)]
        for to, row in given:
            if row is not None:
                to.take(row)
    for one in made:
        one.end()
    return made


def _create(name: str, form: Form) -> str:
    sql = form.value
    return f"CREATE TABLE {SCHEMA}.{name} ({sql.id}{sql.beside}, x int{sql.key})"
