"""The tables of statements: what each is about, and what comes of it.

    # a comment
    $INTS = NULL, 0, -1                          values that lines below use
    :: CREATE TABLE t (…); INSERT INTO t …       the table, with its rows, of the statements below
    [mysql]                                      this flavour only, up to `[both]`
    ALTER TABLE t ADD n int                      a statement of the source, or several with `; ` between them
    ~ ALTER TABLE t MODIFY c date                the same in a session without a strict sql_mode
    int | bigint | $INTS, 7                      a column's type, its new type, and the values of the rows before
    int KEY | bigint | $INTS                     the same with a key over it; UNIQUE likewise
    … => tidb DM-6033, mariadb>mysql DM-6032     where it stops the task; it is followed everywhere else
    … => -                                       the source refuses it, which is a mistake of the table
    > ALTER TABLE t ADD n int DEFAULT 3          how a user continues after such a stop: `binlog replace`; for a type
                                                 change, docs/how-to/ddl.md has it
    > CREATE TABLE t_new …; …; skip              the same: statements in the target, and then `binlog skip`
    > …; @ UPDATE t SET x = n                    `@ `: statements at the source
    > leave out                                  the table is left out by the block-allow-list

A table is called `t`, further ones `t_…`; each case has names of its own, and its table a column `id`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from testbed import Flavour

FILES: Final = sorted((Path(__file__).parent / "statements").glob("*.txt"))
EQUAL: Final = "equal"
SOURCES: Final[tuple[Flavour, ...]] = ("mysql", "mariadb")

_NAME: Final = re.compile(r"\bt(_\w+)?\b")
_VALUES: Final = re.compile(r"\$\w+")
_VALUE: Final = re.compile(r"(?:[^,']|'[^']*')+")
_OUTCOMES: Final = re.compile(r" => ((?:\S+ DM-\d+(?:, )?)+)$")


@dataclass(frozen=True)
class Case:
    """One line of a table of statements. `line`: without what comes of it; `key`: of a type change, or ""."""

    line: str
    where: str
    flavours: tuple[Flavour, ...]
    setup: tuple[str, ...]
    statements: tuple[str, ...]
    outcomes: Mapping[str, str]
    strict: bool = True
    types: tuple[str, str] | None = None
    values: tuple[str, ...] = ()
    remedy: tuple[str, ...] = ()

    def expected(self, source: Flavour, target: Flavour) -> str:
        """Return what comes of it: EQUAL, or the code of the error that stops the task."""
        return self.outcomes.get(f"{source}>{target}", self.outcomes.get(target, EQUAL))

    def __str__(self) -> str:
        return f"{self.where}: {self.line}"


def named(sql: str, table: str) -> str:
    """Return a statement about tables of that name.

    >>> named("RENAME TABLE t TO t_new", "c7")
    'RENAME TABLE c7 TO c7_new'
    """
    return _NAME.sub(lambda found: table + (found[1] or ""), sql)


def all_cases() -> list[Case]:
    """Return the cases of all tables of statements, in their order."""
    return [case for file in FILES for case in cases_of(file)]


def cases_of(file: Path) -> list[Case]:
    found: list[Case] = []
    values: dict[str, str] = {}
    setup: tuple[str, ...] = ()
    flavours = SOURCES
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        if line.startswith("$"):
            name, _, text = line.partition(" = ")
            values[name] = _filled(text, values)
        elif line.startswith("::"):
            setup = tuple(line[2:].strip().split("; "))
        elif line.startswith("["):
            flavours = SOURCES if line == "[both]" else tuple(one for one in SOURCES if one in line)
        elif line.startswith("> "):
            found[-1] = replace(found[-1], remedy=tuple(line[2:].split("; ")))
        else:
            found.append(_case(line, f"{file.name}:{number}", flavours, setup, values))
    return found


def _case(
    line: str, where: str, flavours: tuple[Flavour, ...], setup: tuple[str, ...], values: Mapping[str, str]
) -> Case:
    found = _OUTCOMES.search(line)
    text = line[: found.start()] if found else line
    outcomes = dict(one.split(" ") for one in found[1].split(", ")) if found else {}
    strict = not text.startswith("~ ")
    body = text.removeprefix("~ ")
    if " | " not in body:
        return Case(text, where, flavours, setup, tuple(body.split("; ")), outcomes, strict)
    old, new, cells = body.split(" | ")
    old, key = _keyed(old)
    rows = tuple(_split(_filled(cells, values)))
    create = f"CREATE TABLE t (id int NOT NULL PRIMARY KEY, v int NOT NULL DEFAULT 0, c {old}{key})"
    inserts = [f"INSERT INTO t (id, c) VALUES ({at}, {cell})" for at, cell in enumerate(rows, 1)]
    alter = f"ALTER TABLE t MODIFY c {new}"
    return Case(text, where, flavours, (create, *inserts), (alter,), outcomes, strict, (old, new), rows)


def _keyed(kind: str) -> tuple[str, str]:
    for word, key in ((" KEY", ", KEY k (c)"), (" UNIQUE", ", UNIQUE KEY k (c)")):
        if kind.endswith(word):
            return kind.removesuffix(word), key
    return kind, ""


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _VALUES.sub(lambda found: values[found[0]], text)


def _split(text: str) -> Iterator[str]:
    """Yield the values of a list.

    >>> list(_split("NULL, '[1, 2]', -1"))
    ['NULL', "'[1, 2]'", '-1']
    """
    return (found[0].strip() for found in _VALUE.finditer(text))


def with_outcomes(file: Path, outcomes: Mapping[str, Mapping[str, str]]) -> str:
    """Return the text of a table whose lines have these outcomes, as case -> {"mysql>tidb": code}."""
    lines = []
    known = {case.where: case for case in cases_of(file)}
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        case = known.get(f"{file.name}:{number}")
        new = outcomes.get(case.where) if case is not None else None
        if case is None or new is None:
            lines.append(line)
            continue
        merged = {**_by_pair(case), **new}
        lines.append(f"{case.line}{_written(merged, case.flavours)}")
    return "\n".join(lines) + "\n"


def _by_pair(case: Case) -> dict[str, str]:
    targets = (*SOURCES, "tidb")
    return {f"{a}>{b}": case.expected(a, b) for a in case.flavours for b in targets}


def _written(outcomes: Mapping[str, str], flavours: tuple[Flavour, ...]) -> str:
    parts = []
    for target in (*SOURCES, "tidb"):
        codes = {source: outcomes.get(f"{source}>{target}", EQUAL) for source in flavours}
        if len(set(codes.values())) == 1 and next(iter(codes.values())) != EQUAL:
            parts.append(f"{target} {next(iter(codes.values()))}")
        else:
            parts += [f"{source}>{target} {code}" for source, code in codes.items() if code != EQUAL]
    return f" => {', '.join(parts)}" if parts else ""
