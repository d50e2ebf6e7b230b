"""Whether a DDL statement in the log concerns the task: by its head and the tables that it names.

Tables of the task cannot be altered yet, so a statement that touches one stops the task at its location. Passed over
are statements of a kind that changes no migrated row or table, and those whose tables the rules exclude. What cannot be
read with certainty is not passed over: an unknown head, an undecodable text, quotes whose meaning depends on sql_mode.
Text in executable comments (`/*!40101 … */`) is read like any other, as the server has run it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from airflow_provider_dm.engine.binlog.planner import DdlStatement
from airflow_provider_dm.engine.errors import NotSupportedYet, Scope
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules

_ANSI_QUOTES: Final = 1 << 2
_NO_BACKSLASH_ESCAPES: Final = 1 << 20

_HARMLESS_HEADS: Final = frozenset(
    {"GRANT", "REVOKE", "FLUSH", "OPTIMIZE", "REPAIR", "CHECK", "SET", "INSTALL", "UNINSTALL", "KILL"}
)
_HARMLESS_OBJECTS: Final = frozenset(
    {"USER", "ROLE", "VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "PACKAGE", "EVENT", "SERVER", "TABLESPACE", "LOGFILE"}
)
_OBJECTS: Final = _HARMLESS_OBJECTS | {"TABLE", "TABLES", "INDEX", "DATABASE", "SCHEMA"}
_MODIFIERS: Final = frozenset(
    {"OR", "REPLACE", "TEMPORARY", "UNIQUE", "FULLTEXT", "SPATIAL", "ONLINE", "OFFLINE", "IGNORE", "AGGREGATE", "UNDO"}
)
_RENAMES_INSIDE: Final = frozenset({"COLUMN", "INDEX", "KEY"})


@dataclass(eq=False)
class DdlNotSupported(NotSupportedYet):
    """DDL on a table of the task, or DDL that could be that."""

    code: ClassVar[str] = "DM-6032"
    scope: ClassVar[Scope] = Scope.UPSTREAM


@dataclass(frozen=True)
class PassOver:
    """The statement changes nothing of the task."""

    why: str


@dataclass(frozen=True)
class Stop:
    """It does, or might."""

    why: str


Verdict = PassOver | Stop


class _Token(NamedTuple):
    text: str
    """A word in upper case, a quoted name as it is, or one character."""
    name: str | None
    """What the token is as an identifier; None for strings and signs."""


class _Unreadable(Exception):
    """Not read with certainty; the argument says why."""


def judge_ddl(ddl: DdlStatement, rules: BlockAllowRules) -> Verdict:
    """What to do about a statement of the log."""
    if ddl.undecoded is not None:
        return Stop("its text is in a charset that is not readable here")
    try:
        return _judge(_tokens(ddl.sql, ddl.sql_mode), ddl.schema, rules)
    except _Unreadable as error:
        return Stop(str(error))


def head_of(ddl: DdlStatement) -> str:
    """The first words of the statement, for messages: literals in it may be data."""
    return " ".join(re.sub(r"\s+", " ", ddl.sql).split(" ")[:4])


def stop_error(ddl: DdlStatement, why: str) -> DdlNotSupported:
    """The error for a statement that `judge_ddl` stops at."""
    return DdlNotSupported(
        feature=f"DDL in the log ({head_of(ddl)} …: {why})",
        where=f"at {ddl.at}, default schema {ddl.schema!r}",
        way_out="Leave the table out in the block-allow list, or run the full migration again after the change.",
    )


def _judge(tokens: Sequence[_Token], schema: str, rules: BlockAllowRules) -> Verdict:
    reader = _Reader(tokens, schema)
    head = reader.word()
    if head == "SET" and reader.skip("STATEMENT"):
        reader.past_variables()
        return _judge(tokens[reader.here :], schema, rules)
    if head == "ANALYZE":
        return _of_analyze(reader)
    if head in _HARMLESS_HEADS:
        return PassOver(head)
    if head == "TRUNCATE":
        reader.skip("TABLE")
        return _of_tables([reader.table()], rules)
    if head == "RENAME":
        return PassOver("RENAME USER") if reader.skip("USER") else _of_tables(_renamed(reader), rules)
    if head not in ("CREATE", "ALTER", "DROP"):
        raise _Unreadable("its kind is not known")
    modifiers, kind = reader.object_kind()
    if kind in _HARMLESS_OBJECTS or "TEMPORARY" in modifiers:
        return PassOver(f"{head} {kind}")
    if kind in ("DATABASE", "SCHEMA"):
        return _of_database(head, reader, rules)
    if kind == "INDEX":
        reader.after("ON")
        return _of_tables([reader.table()], rules)
    return _of_tables(_tables_of(head, reader), rules)


def _of_analyze(reader: _Reader) -> Verdict:
    _ = reader.skip("NO_WRITE_TO_BINLOG") or reader.skip("LOCAL")
    if reader.peek() not in ("TABLE", "TABLES"):
        raise _Unreadable("it may run the statement that it analyzes")  # MariaDB
    return PassOver("ANALYZE TABLE")


def _of_tables(tables: Sequence[TableName], rules: BlockAllowRules) -> Verdict:
    ours = [table for table in tables if rules.allows(table)]
    if ours:
        return Stop(f"it concerns {', '.join(str(table) for table in ours)}")
    return PassOver(f"the rules exclude {', '.join(str(table) for table in tables)}")


def _of_database(head: str, reader: _Reader, rules: BlockAllowRules) -> Verdict:
    if head != "DROP":
        return PassOver(f"{head} DATABASE")  # an empty schema, or defaults for tables to come
    reader.if_exists()
    name = reader.identifier()
    return Stop(f"it drops the schema {name}") if rules.allows_schema(name) else PassOver("the rules exclude it")


def _tables_of(head: str, reader: _Reader) -> list[TableName]:
    """The tables of CREATE, ALTER or DROP TABLE."""
    reader.if_exists()
    tables = [reader.table()]
    if head == "DROP":
        while reader.skip(","):
            tables.append(reader.table())
        if not reader.at_end("RESTRICT", "CASCADE", "WAIT", "NOWAIT"):
            raise _Unreadable("its list of tables is not understood")
    elif head == "ALTER":
        tables.extend(reader.further_tables())
    return tables


def _renamed(reader: _Reader) -> list[TableName]:
    if not (reader.skip("TABLE") or reader.skip("TABLES")):
        raise _Unreadable("its kind is not known")
    tables: list[TableName] = []
    while not tables or reader.skip(","):
        reader.if_exists()
        tables.append(reader.table())
        if reader.skip("WAIT"):
            reader.identifier()
        reader.skip("NOWAIT")
        if not reader.skip("TO"):
            raise _Unreadable("its list of tables is not understood")
        tables.append(reader.table())
    if not reader.at_end():
        raise _Unreadable("its list of tables is not understood")
    return tables


class _Reader:
    """Reads tokens from left to right. Everything raises _Unreadable where the text is not as expected."""

    def __init__(self, tokens: Sequence[_Token], schema: str) -> None:
        self.tokens = tokens
        self.schema = schema
        self.here = 0

    def peek(self) -> str:
        return self.tokens[self.here].text if self.here < len(self.tokens) else ""

    def word(self) -> str:
        text = self.peek()
        self.here += 1
        return text

    def skip(self, *words: str) -> bool:
        """Step over these words in a row, if they are next."""
        ahead = [token.text for token in self.tokens[self.here : self.here + len(words)]]
        if ahead != list(words):
            return False
        self.here += len(words)
        return True

    def if_exists(self) -> None:
        _ = self.skip("IF", "EXISTS") or self.skip("IF", "NOT", "EXISTS")

    def at_end(self, *trailers: str) -> bool:
        return self.peek() in ("", ";", *trailers)

    def identifier(self) -> str:
        name = self.tokens[self.here].name if self.here < len(self.tokens) else None
        if name is None:
            raise _Unreadable("a name is not where one is expected")
        self.here += 1
        return name

    def table(self) -> TableName:
        first = self.identifier()
        if self.skip("."):
            return TableName(first, self.identifier())
        if not self.schema:
            raise _Unreadable("a table has no schema")
        return TableName(self.schema, first)

    def object_kind(self) -> tuple[frozenset[str], str]:
        """Past DEFINER=…, OR REPLACE and the like to TABLE, VIEW, USER, …"""
        modifiers: set[str] = set()
        while (text := self.peek()) not in _OBJECTS:
            if text in _MODIFIERS:
                modifiers.add(self.word())
            elif text in ("DEFINER", "ALGORITHM", "SQL"):
                self._clause()
            else:
                raise _Unreadable("its kind is not known")
        return frozenset(modifiers), self.word()

    def _clause(self) -> None:
        """DEFINER = user[@host], ALGORITHM = x, SQL SECURITY x: up to the next word that says something."""
        self.here += 1
        while (text := self.peek()) not in _OBJECTS | _MODIFIERS | {"ALGORITHM", "SQL"}:
            if not text:
                raise _Unreadable("its kind is not known")
            self.here += 1

    def past_variables(self) -> None:
        """MariaDB's SET STATEMENT a = 1, b = 2 FOR …: up to what is run."""
        depth = 0
        while (text := self.word()) != "FOR" or depth:
            if not text or text == "SQL_MODE":  # another mode may read what follows in another way
                raise _Unreadable("the statement inside of SET STATEMENT is not understood")
            depth += {"(": 1, ")": -1}.get(text, 0)

    def after(self, word: str) -> None:
        while (text := self.word()) != word:
            if not text:
                raise _Unreadable(f"there is no {word}")

    def further_tables(self) -> Iterator[TableName]:
        """The tables that ALTER TABLE names behind the first: RENAME [TO] x, EXCHANGE PARTITION p WITH TABLE x,
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


_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|--(?=\s|$)[^\n]*|\#[^\n]*|/\*(?!M?!)[\s\S]*?\*/)
      | (?P<opening>/\*M?!\d*)
      | (?P<closing>\*/)
      | `(?P<quoted>(?:[^`]|``)+)`
      | (?P<string>'(?:[^'\\]|\\[\s\S]|'')*'|"(?:[^"\\]|\\[\s\S]|"")*")
      | (?P<word>[\w$]+)
      | (?P<sign>[^'"`])""",
    re.VERBOSE,
)


def _tokens(sql: str, sql_mode: int) -> list[_Token]:
    if (sql_mode & _ANSI_QUOTES and '"' in sql) or (sql_mode & _NO_BACKSLASH_ESCAPES and "\\" in sql):
        raise _Unreadable("its quotes depend on sql_mode")
    found: list[_Token] = []
    position = opened = 0
    while position < len(sql):
        match = _TOKEN.match(sql, position)
        if match is None:
            raise _Unreadable("a quote is not closed")
        position = match.end()
        text = match.group()
        match match.lastgroup:
            case "opening":
                opened += 1
            case "closing":
                opened -= 1
            case "quoted":
                found.append(_Token(text, match["quoted"].replace("``", "`")))
            case "string":
                found.append(_Token("''", None))
            case "word":
                found.append(_Token(text.upper(), text))
            case "sign":
                found.append(_Token(text, None))
    if opened:
        raise _Unreadable("a comment is not closed")
    return found
