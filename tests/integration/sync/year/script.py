"""The year's migrations in `migrations/*.sql`, executed as a shop's staff would.

    -- 142 Alembic: op.drop_constraint of each kind       a migration: its number, who makes such, and what it does
    -- only within a family: REASON                       it is left out between MySQL and MariaDB
    -- not into TiDB: REASON                               it is left out with TiDB as the target
    UPDATE …;                                             a statement, or several for one packet, ends with `;` at the
    ALTER …;                                              end of a line
    -- on mysql                                           for this flavour only, up to `-- on both`
    -- on tidb                                            up to the next migration: remedies, one for each stop
                                                          into TiDB: what replaces the DDL, or is done by hand
    SHOWN `posts` AS `shop`.`_posts_new`;                 CREATE TABLE of another name, as SHOW CREATE TABLE has it

Each migration has a connection of its own. A schema is always written `shop`.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from pymysql.constants import CLIENT
from pymysql.cursors import Cursor

from testbed import Flavour, Server

MONTHS: Final = sorted((Path(__file__).parent / "migrations").glob("*.sql"))

_HEAD: Final = re.compile(r"-- (\d{3}) (.+)")
_ONLY: Final = re.compile(r"-- only within a family: (.+)")
_NOT_INTO_TIDB: Final = re.compile(r"-- not into TiDB: (.+)")
_ON: Final = re.compile(r"-- on (mysql|mariadb|both|tidb)")
_SHOWN: Final = re.compile(r"SHOWN (`\w+`) AS (`\w+`\.`\w+`);")


@dataclass(frozen=True)
class Migration:
    """A migration: its statements, each with the flavours that it is for."""

    number: int
    title: str
    statements: tuple[tuple[str, frozenset[Flavour]], ...]
    only_within: str = ""
    """Why it is not run between two families; "": it is."""
    not_into_tidb: str = ""
    """Why it is not run with TiDB as the target; "": it is."""

    def __str__(self) -> str:
        return f"{self.number:03d} {self.title}"

    def on(self, flavour: Flavour) -> list[str]:
        """Return its statements for a flavour."""
        return [text for text, flavours in self.statements if flavour in flavours]

    def run(self, server: Server, schema: str) -> None:
        """Run it. An error names its statement."""
        self.execute(server, schema, *self.on(server.flavour))

    def execute(self, server: Server, schema: str, *statements: str) -> None:
        """Execute some of its statements."""
        with server.connect(database=schema, client_flag=CLIENT.MULTI_STATEMENTS) as connection:
            for text in statements:
                with connection.cursor() as cursor:
                    try:
                        _execute(cursor, text.replace("`shop`", f"`{schema}`"))
                    except Exception as error:
                        error.add_note(f"on {server.name}: migration {self}: {text}")
                        raise


def _execute(cursor: Cursor, text: str) -> None:
    if shown := _SHOWN.fullmatch(text):
        old, new = shown.groups()
        cursor.execute(f"SHOW CREATE TABLE {old}")
        ((_, definition),) = cursor.fetchall()
        text = definition.replace(f"CREATE TABLE {old}", f"CREATE TABLE {new}", 1)
    cursor.execute(text)
    while cursor.nextset():
        pass


def the_year() -> list[Migration]:
    """Return all migrations, in their order; number 0 is what there was before."""
    return [one for month in MONTHS for one in _migrations(month.read_text("utf-8"))]


def for_pair(migrations: Iterable[Migration], source: Flavour, target: Flavour) -> list[Migration]:
    """Return those that can be followed from one flavour to another."""
    return [
        one
        for one in migrations
        if source == target or not (one.only_within or (target == "tidb" and one.not_into_tidb))
    ]


def _migrations(text: str) -> Iterator[Migration]:
    lines: list[str] = []
    for line in text.splitlines():
        if _HEAD.fullmatch(line) and lines:
            yield _migration(lines)
            lines = []
        lines.append(line)
    yield _migration(lines)


def _migration(lines: list[str]) -> Migration:
    head = _HEAD.fullmatch(lines[0])
    assert head is not None, lines[0]
    flavours: frozenset[Flavour] = frozenset(("mysql", "mariadb"))
    both, only_within, not_into_tidb = flavours, "", ""
    statements: list[tuple[str, frozenset[Flavour]]] = []
    parts: list[str] = []
    for line in lines[1:]:
        if found := _ONLY.fullmatch(line):
            only_within = found[1]
        elif found := _NOT_INTO_TIDB.fullmatch(line):
            not_into_tidb = found[1]
        elif found := _ON.fullmatch(line):
            flavours = both if found[1] == "both" else frozenset((cast(Flavour, found[1]),))
        elif line or parts:
            parts.append(line)
            if line.endswith(";"):
                statements.append(("\n".join(parts), flavours))
                parts = []
    assert not parts, f"{lines[0]}: a statement without an end: {parts}"
    return Migration(int(head[1]), head[2], tuple(statements), only_within, not_into_tidb)
