"""Whether a DDL statement in the log concerns the task: by its head and the tables that it names.

Tables of the task cannot be altered yet, so a statement that touches one stops the task at its location. Passed over
are statements of a kind that changes no migrated row or table, those whose tables the rules exclude, and those that
change nothing where they ran: CREATE TABLE IF NOT EXISTS of a table that is there, DROP TABLE IF EXISTS of one that is
not. What is there is what the task has: a statement that creates or drops one of its tables would have stopped it.

What cannot be read with certainty is passed over only where it ran with an excluded default schema and cannot name
another; else it stops, as an unknown head does, an undecodable text, or a name with a character that is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Final

from airflow_provider_dm.engine.binlog.client_charsets import UNSURE
from airflow_provider_dm.engine.binlog.planner import DdlStatement
from airflow_provider_dm.engine.ddl.first_words import first_words
from airflow_provider_dm.engine.ddl.lexer import Token, Unreadable, tokens
from airflow_provider_dm.engine.errors import MIGRATE_AGAIN, NotSupportedYet, Scope
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules

_HARMLESS_HEADS: Final = frozenset(
    {"GRANT", "REVOKE", "FLUSH", "OPTIMIZE", "REPAIR", "CHECK", "SET", "INSTALL", "UNINSTALL", "KILL"}
)
_HARMLESS_OBJECTS: Final = frozenset(
    {"USER", "ROLE", "VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "PACKAGE", "EVENT", "SERVER", "TABLESPACE", "LOGFILE"}
    | {"LIBRARY", "INSTANCE", "REFERENCE"}  # MySQL's; SPATIAL REFERENCE SYSTEM
)
_OBJECTS: Final = _HARMLESS_OBJECTS | {"TABLE", "TABLES", "SEQUENCE", "INDEX", "DATABASE", "SCHEMA"}
_MODIFIERS: Final = frozenset(
    {"OR", "REPLACE", "TEMPORARY", "UNIQUE", "FULLTEXT", "SPATIAL", "ONLINE", "OFFLINE", "IGNORE", "AGGREGATE", "UNDO"}
)
_RENAMES_INSIDE: Final = frozenset({"COLUMN", "INDEX", "KEY"})
_ON_TABLES: Final = re.compile(
    r"\s*(?:CREATE|ALTER|DROP|TRUNCATE|RENAME)\s+(?:OR\s+REPLACE\s+)?TABLES?\s", re.IGNORECASE
)


AFTER_DDL: Final = (
    f"Leave the table out by block-allow-list, and the task goes on without it; or {MIGRATE_AGAIN}. A table that was "
    "left out comes back by such a task of its own."
)


@dataclass(eq=False)
class DdlNotSupported(NotSupportedYet):
    """DDL on a table of the task, or DDL that could be that."""

    code: ClassVar[str] = "DM-6032"
    scope: ClassVar[Scope] = Scope.UPSTREAM


@dataclass(frozen=True)
class PassOver:
    """The verdict that the statement changes nothing of the task."""

    why: str


@dataclass(frozen=True)
class Stop:
    """The verdict that the statement changes something of the task, or might."""

    why: str


Verdict = PassOver | Stop


@dataclass(frozen=True)
class _Ours:
    """The task's side: its rules, and the tables that the source has of it at this place of the log."""

    rules: BlockAllowRules
    tables: frozenset[TableName]

    def concerns(self, table: TableName) -> bool:
        """Tell whether the table belongs to the task, or might: its name is not known to the last character."""
        schema, name = table
        if UNSURE in schema:
            return True
        return self.rules.allows_schema(schema) and (UNSURE in name or self.rules.allows(table))

    def has(self, table: TableName) -> bool:
        return table in self.tables

    def certainly_lacks(self, table: TableName) -> bool:
        """Tell whether it is none of the task's tables, however the server folds the case of names."""
        return not any(_folded(table) == _folded(one) for one in self.tables) and UNSURE not in str(table)

    def lacks_schema(self, schema: str) -> bool:
        """Tell whether none of the task's tables is in the schema."""
        return not any(one.schema.casefold() == schema.casefold() for one in self.tables) and UNSURE not in schema


def _folded(table: TableName) -> TableName:
    return TableName(table.schema.casefold(), table.table.casefold())


def judge_ddl(ddl: DdlStatement, rules: BlockAllowRules, tables: Iterable[TableName]) -> Verdict:
    """Return what to do about a statement of the log. `tables`: those of the task that the source has there."""
    try:
        if ddl.undecoded is not None:
            raise Unreadable("its text is in a charset that is not readable here")
        reader = _Reader(tokens(ddl.sql, ddl.sql_mode), ddl.schema)
        return _judge(reader, _Ours(rules, frozenset(tables)))
    except Unreadable as error:
        if _stays_in_excluded_schema(ddl, rules):
            return PassOver(f"its default schema {ddl.schema} is excluded, and it names no other")
        return Stop(str(error))


def stop_error(ddl: DdlStatement, why: str) -> DdlNotSupported:
    """Return the error for a statement that `judge_ddl` stops at."""
    return DdlNotSupported(
        feature=f"DDL in the log ({first_words(ddl.sql)} …: {why})",
        where=f"at {ddl.at}, default schema {ddl.schema!r}",
        way_out=AFTER_DDL,
    )


def _stays_in_excluded_schema(ddl: DdlStatement, rules: BlockAllowRules) -> bool:
    """Tell whether all that the statement can be about lies in its default schema, and the rules exclude that.

    In no charset a dot is a part of another character, so without one no table of another schema is named.
    """
    if not ddl.schema or rules.allows_schema(ddl.schema):
        return False
    if "." not in ddl.sql and _ON_TABLES.match(ddl.sql):
        return True
    if ddl.undecoded is not None or UNSURE in ddl.sql:
        return False
    try:
        return not any(rules.allows_schema(token.name) for token in tokens(ddl.sql, ddl.sql_mode) if token.name)
    except Unreadable:
        return False


def _judge(reader: _Reader, ours: _Ours) -> Verdict:
    head = reader.word()
    while head == "SET" and reader.skip("STATEMENT"):
        reader.past_variables()
        head = reader.word()
    if head == "ANALYZE":
        return _of_analyze(reader)
    if head in _HARMLESS_HEADS:
        return PassOver(head)
    if head == "TRUNCATE":
        reader.skip("TABLE")
        return _of_tables([reader.table()], ours)
    if head == "RENAME":
        return PassOver("RENAME USER") if reader.skip("USER") else _of_renames(reader, ours)
    if head not in ("CREATE", "ALTER", "DROP"):
        raise Unreadable("its kind is not known")
    modifiers, kind = reader.object_kind()
    if kind in _HARMLESS_OBJECTS or "TEMPORARY" in modifiers:
        return PassOver(f"{head} {kind}")
    if kind in ("DATABASE", "SCHEMA"):
        return _of_database(head, reader, ours)
    if kind == "INDEX":
        reader.after("ON")
        return _of_tables([reader.table()], ours)
    match head:
        case "CREATE":
            return _of_create(reader, ours)
        case "DROP":
            return _of_drop(reader, ours)
        case _:
            reader.skip("IF", "EXISTS")
            return _of_tables([reader.table(), *reader.further_tables()], ours)


def _of_analyze(reader: _Reader) -> Verdict:
    _ = reader.skip("NO_WRITE_TO_BINLOG") or reader.skip("LOCAL")
    if reader.peek() not in ("TABLE", "TABLES"):
        raise Unreadable("it may run the statement that it analyzes")  # MariaDB
    return PassOver("ANALYZE TABLE")


def _of_tables(tables: Sequence[TableName], ours: _Ours) -> Verdict:
    concerned = [table for table in tables if ours.concerns(table)]
    if concerned:
        return Stop(f"it concerns {', '.join(str(table) for table in concerned)}")
    return PassOver(f"the rules exclude {', '.join(str(table) for table in tables)}")


def _of_create(reader: _Reader, ours: _Ours) -> Verdict:
    if_not_exists = reader.skip("IF", "NOT", "EXISTS")
    table = reader.table()
    if if_not_exists and ours.has(table):
        return PassOver(f"{table} exists")
    return _of_tables([table], ours)


def _of_drop(reader: _Reader, ours: _Ours) -> Verdict:
    if_exists = reader.skip("IF", "EXISTS")
    tables = [reader.table()]
    while reader.skip(","):
        tables.append(reader.table())
    if not reader.at_end("RESTRICT", "CASCADE", "WAIT", "NOWAIT"):
        raise Unreadable("its list of tables is not understood")
    there = [table for table in tables if not (if_exists and ours.certainly_lacks(table))]
    return _of_tables(there, ours) if there else PassOver("none of its tables is one of the task's")


def _of_database(head: str, reader: _Reader, ours: _Ours) -> Verdict:
    if head != "DROP":
        return PassOver(f"{head} DATABASE")  # an empty schema, or defaults for tables to come
    reader.skip("IF", "EXISTS")
    name = reader.identifier()
    if UNSURE not in name and not ours.rules.allows_schema(name):
        return PassOver("the rules exclude it")
    if ours.lacks_schema(name):
        return PassOver("none of the task's tables is in it")
    return Stop(f"it drops the schema {name}")


def _of_renames(reader: _Reader, ours: _Ours) -> Verdict:
    if not (reader.skip("TABLE") or reader.skip("TABLES")):
        raise Unreadable("its kind is not known")
    if_exists = reader.skip("IF", "EXISTS")  # MariaDB
    pairs = [_renamed(reader)]
    while reader.skip(","):
        pairs.append(_renamed(reader))
    if not reader.at_end():
        raise Unreadable("its list of tables is not understood")
    tables: list[TableName] = []
    for old, new in pairs:
        before = map(_folded, tables)  # as a name that an earlier pair gives is there
        if not (if_exists and ours.rules.allows(old) and ours.certainly_lacks(old) and _folded(old) not in before):
            tables += (old, new)
    return _of_tables(tables, ours) if tables else PassOver("none of its tables is one of the task's")


def _renamed(reader: _Reader) -> tuple[TableName, TableName]:
    old = reader.table()
    if reader.skip("WAIT"):
        reader.identifier()
    reader.skip("NOWAIT")
    if not reader.skip("TO"):
        raise Unreadable("its list of tables is not understood")
    return old, reader.table()


class _Reader:
    """Tokens from left to right, made as they are asked for. Everything raises Unreadable where the text is not as
    expected."""

    def __init__(self, ahead: Iterator[Token], schema: str) -> None:
        self._ahead = ahead
        self._next: list[Token] = []
        """Made already, and not passed yet."""
        self.schema = schema

    def _look(self, count: int) -> list[Token]:
        self._next += islice(self._ahead, max(0, count - len(self._next)))
        return self._next[:count]

    def peek(self) -> str:
        return next((token.text for token in self._look(1)), "")

    def word(self) -> str:
        text = self.peek()
        del self._next[:1]
        return text

    def skip(self, *words: str) -> bool:
        """Step over these words in a row, if they are next."""
        if [token.text for token in self._look(len(words))] != list(words):
            return False
        del self._next[: len(words)]
        return True

    def at_end(self, *trailers: str) -> bool:
        return self.peek() in ("", ";", *trailers)

    def identifier(self) -> str:
        name = next((token.name for token in self._look(1)), None)
        if name is None:
            raise Unreadable("a name is not where one is expected")
        self.word()
        return name

    def table(self) -> TableName:
        first = self.identifier()
        if self.skip("."):
            return TableName(first, self.identifier())
        if not self.schema:
            raise Unreadable("a table has no schema")
        return TableName(self.schema, first)

    def object_kind(self) -> tuple[frozenset[str], str]:
        """Read past DEFINER=…, OR REPLACE and the like to TABLE, VIEW, USER, …; return the modifiers and that word."""
        modifiers: set[str] = set()
        while (text := self.peek()) not in _OBJECTS:
            if text in _MODIFIERS:
                modifiers.add(self.word())
            elif text in ("DEFINER", "ALGORITHM", "SQL"):
                self._clause()
            else:
                raise Unreadable("its kind is not known")
        return frozenset(modifiers), self.word()

    def _clause(self) -> None:
        """Skip DEFINER = user[@host], ALGORITHM = x, SQL SECURITY x: up to the next word that says something."""
        self.word()
        while (text := self.peek()) not in _OBJECTS | _MODIFIERS | {"ALGORITHM", "SQL"}:
            if not text:
                raise Unreadable("its kind is not known")
            self.word()

    def past_variables(self) -> None:
        """Skip MariaDB's SET STATEMENT a = 1, b = 2 FOR …: up to what is run."""
        depth = 0
        while (text := self.word()) != "FOR" or depth:
            if not text or text == "SQL_MODE":  # another mode may read what follows in another way
                raise Unreadable("the statement inside of SET STATEMENT is not understood")
            depth += {"(": 1, ")": -1}.get(text, 0)

    def after(self, word: str) -> None:
        while (text := self.word()) != word:
            if not text:
                raise Unreadable(f"there is no {word}")

    def further_tables(self) -> Iterator[TableName]:
        """Yield the tables that ALTER TABLE names behind the first: RENAME [TO] x, EXCHANGE PARTITION p WITH TABLE x,
        CONVERT PARTITION p TO TABLE x, CONVERT TABLE x TO PARTITION p."""
        depth = 0
        while text := self.word():
            depth += {"(": 1, ")": -1}.get(text, 0)
            if depth:
                continue
            if text == "RENAME" and self.peek() not in _RENAMES_INSIDE:
                _ = self.skip("TO") or self.skip("AS") or self.skip("=")
                yield self.table()
            elif text == "EXCHANGE":
                self.after("WITH")
                self.skip("TABLE")
                yield self.table()
            elif text == "CONVERT" and self.peek() in ("PARTITION", "TABLE"):
                self.after("TABLE")
                yield self.table()
