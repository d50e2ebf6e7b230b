"""A sort is a column type with its values, as SQL: the edges, each of which is used, and as many random ones as wanted.

SQL is what both flavours read, unless a sort belongs to one of them. Values are made by the source, which may be
lenient: whatever it stores is the truth that is compared."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

Draw = Callable[[Random], str]

NULLS = 0.08
"""How many of the random values are NULL."""
EDGES = 0.25
"""How many of the random values are an edge after all."""
_TIDB_LACKS: Final = re.compile(r"character set (?!(utf8mb3|utf8mb4|latin1|ascii|binary|gbk)\b)\w+(?: collate \w+)?")


@dataclass(frozen=True)
class Sort:
    """`ddl`: the column's type at the source; `there`: at a target of the other flavour, where that has another one."""

    ddl: str
    edges: tuple[str, ...]
    draw: Draw
    there: str = ""
    extra: str = ""
    """What follows in the column's definition, such as GENERATED."""

    @property
    def computed(self) -> bool:
        return "GENERATED" in self.extra

    def value(self, dice: Random) -> str:
        roll = dice.random()
        if roll < NULLS and "NOT NULL" not in self.extra:
            return "NULL"
        return dice.choice(self.edges) if roll < NULLS + EDGES else self.draw(dice)


@dataclass(frozen=True)
class Sample:
    """One table: its sorts are columns c0, c1, …; `keys` (by flavour) follow them."""

    name: str
    sorts: tuple[Sort, ...]
    sources: frozenset[str] = frozenset({"mysql", "mariadb"})
    targets: frozenset[str] = frozenset({"mysql", "mariadb", "tidb"})
    keys: dict[str, str] = field(default_factory=dict)
    weight: float = 1.0
    """Rows of it, as a part of those that others have."""
    same_flavour: bool = False

    def fits(self, source: str, target: str) -> bool:
        return source in self.sources and target in self.targets and (source == target or not self.same_flavour)

    def definition(self, flavour: str, *, there: bool = False) -> str:
        """Return what follows the table's name in CREATE TABLE. `there`: on the target, of another flavour."""
        columns = [
            f"c{number} {(there and sort.there) or sort.ddl} {sort.extra}" for number, sort in enumerate(self.sorts)
        ]
        keys = [self.keys[flavour]] if flavour in self.keys else []
        if flavour == "tidb":
            columns = [_TIDB_LACKS.sub("character set utf8mb4", column).replace("INVISIBLE", "") for column in columns]
        return f"(id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, {', '.join([*columns, *keys])})"

    def rows(self, dice: Random, count: int) -> list[list[str]]:
        """First every edge of every sort, and a row of NULLs, then random ones. Computed columns have no value."""
        given = self.given()
        widest = max(len(sort.edges) for _, sort in given)
        rows = [[sort.edges[turn % len(sort.edges)] for _, sort in given] for turn in range(min(widest, count))]
        if not any("NOT NULL" in sort.extra for _, sort in given):
            rows.append(["NULL"] * len(given))
        while len(rows) < count:
            rows.append([sort.value(dice) for _, sort in given])
        return rows

    def given(self) -> list[tuple[str, Sort]]:
        """(column, sort) of those that are given values."""
        return [(f"c{number}", sort) for number, sort in enumerate(self.sorts) if not sort.computed]


def blob(dice: Random, most: int) -> str:
    return f"x'{dice.randbytes(dice.randint(0, most)).hex()}'"


def cut(sorts: Sequence[Sort], size: int) -> list[tuple[Sort, ...]]:
    """Split them among tables of no more than `size` columns."""
    return [tuple(sorts[start : start + size]) for start in range(0, len(sorts), size)]
