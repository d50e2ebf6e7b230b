"""The parser: the text of a DDL statement becomes a value.

After the head of a statement that is skipped, the text is not even split into tokens (MySQL's dollar quotes hold
any text). Any other statement is read to its end. If that fails, the error is NotRead if it is certain which tables the
statement changes, otherwise Unreadable.

    RENAME TABLE a TO b.c  (in the schema s)  ─▶  RenameTables(((s.a, b.c),))
    ALTER TABLE a FROBNICATE                  ─▶  NotRead("FROBNICATE is not understood", AffectedTables((s.a,)))
    DROP TABLE a b                            ─▶  Unreadable("its list of tables is not understood")

sqlglot was evaluated for this and rejected: docs/architecture.md has the figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.ddl.alter import specs_of
from airflow_provider_dm.engine.ddl.create_table import KEY_KINDS, definition, key, key_options, key_type, options_of
from airflow_provider_dm.engine.ddl.errors import AnotherStatement, NotRead, Unreadable
from airflow_provider_dm.engine.ddl.token_reader import Reader
from airflow_provider_dm.engine.mysql.identifiers import TableName

_HARMLESS_HEADS: Final = frozenset(
    {"GRANT", "REVOKE", "FLUSH", "OPTIMIZE", "REPAIR", "CHECK", "SET", "INSTALL", "UNINSTALL", "KILL"}
)
_HARMLESS_OBJECTS: Final = frozenset(
    {"USER", "ROLE", "VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "PACKAGE", "EVENT", "SERVER", "TABLESPACE", "LOGFILE"}
    | {"LIBRARY", "INSTANCE", "REFERENCE"}  # MySQL's; SPATIAL REFERENCE SYSTEM
)
_OBJECTS: Final = _HARMLESS_OBJECTS | {"TABLE", "TABLES", "SEQUENCE", "INDEX", "DATABASE", "SCHEMA"}
_MODIFIERS: Final = frozenset(
    {"OR", "REPLACE", "TEMPORARY", "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "ONLINE", "OFFLINE", "IGNORE"}
    | {"AGGREGATE", "UNDO"}
)
_NO_TABLE_FOLLOWS: Final = {"RENAME": ("COLUMN", "INDEX", "KEY"), "CONVERT": ("TO",), "EXCHANGE": ()}
"""Words of ALTER TABLE after which another table may be named, and the words after them that exclude it."""
_BEFORE_QUERY: Final = frozenset({"IGNORE", "REPLACE"})
_QUERY: Final = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "("})

T = TypeVar("T")


@dataclass(frozen=True)
class AffectedTables:
    """All tables that a statement changes, and whether it has no effect if the table that it creates exists."""

    tables: tuple[TableName, ...]
    if_not_exists: bool = False


def parse(sql: str, sql_mode: int, schema: str) -> ddl.Statement:
    """Parse a statement that ran with this sql_mode and default schema. Raises Unreadable."""
    reader = Reader(sql, sql_mode, schema)
    head = reader.word()
    while head == "SET" and reader.skip("STATEMENT"):
        _past_variables(reader)
        head = reader.word()
    if head == "ANALYZE":
        return _analyze(reader)
    if head in _HARMLESS_HEADS:
        return ddl.IrrelevantStatement(head)
    if head == "TRUNCATE":
        reader.skip("TABLE")
        table = reader.table()
        with _certain(AffectedTables((table,))):
            return _to_the_end(reader, ddl.TruncateTable(table))
    if head == "RENAME":
        return ddl.IrrelevantStatement("RENAME USER") if reader.skip("USER") else _rename(reader)
    if head not in ("CREATE", "ALTER", "DROP"):
        raise Unreadable("its kind is not known")
    modifiers, kind = _object_kind(reader)
    if kind == "VIEW" and head != "ALTER":
        return _views(head, reader)
    if kind in _HARMLESS_OBJECTS or "TEMPORARY" in modifiers:
        return ddl.IrrelevantStatement(f"{head} {kind}")
    match head, kind:
        case _, "DATABASE" | "SCHEMA":
            return _database(head, modifiers, reader)
        case "CREATE" | "DROP", "INDEX":
            return _index(head, modifiers, reader)
        case "CREATE", "TABLE" | "SEQUENCE":
            return _create(kind, modifiers, reader)
        case "DROP", "TABLE" | "TABLES" | "SEQUENCE":
            return _drop(kind, reader)
        case "ALTER", "TABLE":
            return _alter_table(reader)
        case "ALTER", "SEQUENCE":
            if_exists = reader.skip("IF", "EXISTS")
            return ddl.AlterSequence(reader.table(), reader.up_to(), if_exists)
    raise Unreadable("its kind is not known")


def _past_variables(reader: Reader) -> None:
    """Skip MariaDB's SET STATEMENT a = 1, b = 2 FOR …, up to the inner statement."""
    depth = 0
    while not reader.next_is("FOR") or depth:
        name, text = reader.name() or "", reader.word()
        if not text or name.upper() == "SQL_MODE":  # another sql_mode may change the meaning of the inner statement
            raise Unreadable("the statement inside of SET STATEMENT is not understood")
        depth += {"(": 1, ")": -1}.get(text, 0)
    reader.expect("FOR")


def _object_kind(reader: Reader) -> tuple[frozenset[str], str]:
    """Skip DEFINER=…, OR REPLACE and the like up to TABLE, VIEW, USER, …; return the modifiers and that word."""
    modifiers: set[str] = set()
    while (text := reader.peek()) not in _OBJECTS:
        if text in _MODIFIERS:
            modifiers.add(reader.word())
        elif text in ("DEFINER", "ALGORITHM", "SQL"):  # = user[@host], = x, SECURITY x: up to a keyword
            reader.word()
            while (text := reader.peek()) not in _OBJECTS | _MODIFIERS | {"ALGORITHM", "SQL"}:
                if not text:
                    raise Unreadable("its kind is not known")
                reader.word()
        else:
            raise Unreadable("its kind is not known")
    return frozenset(modifiers), reader.word()


@contextmanager
def _certain(about: AffectedTables) -> Iterator[None]:
    """Read the rest of a statement; an Unreadable becomes a NotRead with the part that is certain."""
    try:
        yield
    except AnotherStatement:
        raise
    except Unreadable as error:
        raise NotRead(str(error), about) from None


def _to_the_end(reader: Reader, statement: T) -> T:
    """Return the statement after reading its last words, none of which matters."""
    _past_waiting(reader)
    _ = reader.skip("DROP", "STORAGE") or reader.skip("REUSE", "STORAGE")  # MariaDB's TRUNCATE
    reader.end()
    return statement


def _past_waiting(reader: Reader) -> None:
    """Skip MariaDB's optional WAIT n or NOWAIT."""
    if reader.skip("WAIT"):
        reader.number()
    reader.skip("NOWAIT")


def _analyze(reader: Reader) -> ddl.IrrelevantStatement:
    reader.skip_any(("NO_WRITE_TO_BINLOG", "LOCAL"))
    if reader.peek() not in ("TABLE", "TABLES"):
        raise Unreadable("it may run the statement that it analyzes")  # MariaDB
    return ddl.IrrelevantStatement("ANALYZE TABLE")


def _create(kind: str, modifiers: frozenset[str], reader: Reader) -> ddl.Statement:
    if_not_exists = reader.skip("IF", "NOT", "EXISTS")
    table = reader.table()
    reader.home = table.schema
    with _certain(AffectedTables((table,), if_not_exists)):
        return _created(kind, table, (if_not_exists, "REPLACE" in modifiers), reader)


def _created(kind: str, table: TableName, how: tuple[bool, bool], reader: Reader) -> ddl.Statement:
    if kind == "SEQUENCE":
        return ddl.CreateSequence(table, reader.up_to(), *how)
    in_parentheses = reader.skip("(", "LIKE")
    if in_parentheses or reader.skip("LIKE"):
        like = reader.table()
        if in_parentheses:
            reader.expect(")")
        return _to_the_end(reader, ddl.CreateTableLike(table, like, *how))
    made = definition(reader)
    reader.skip_any(_BEFORE_QUERY)
    if reader.next_is("WITH", "SYSTEM", "VERSIONING"):
        raise Unreadable("system versioning is not known")
    if reader.skip("AS") or reader.peek() in _QUERY:
        if reader.peek() not in _QUERY:
            raise Unreadable("its query is not understood")
        return ddl.CreateTableSelect(table, made, reader.up_to(), *how)
    reader.end()
    if not (made.columns or made.constraints):
        raise Unreadable("it has no columns")
    return ddl.CreateTable(table, made, *how)


def _alter_table(reader: Reader) -> ddl.AlterTable:
    if_exists = reader.skip("IF", "EXISTS")
    table = reader.table()
    reader.home = table.schema
    _past_waiting(reader)
    start = reader.at
    try:
        return ddl.AlterTable(table, specs_of(reader), if_exists)
    except Unreadable as error:
        reader.at = start
        while not reader.at_end():
            word = reader.word()
            if reader.peek() not in _NO_TABLE_FOLLOWS.get(word, (reader.peek(),)):
                raise
        raise NotRead(str(error), AffectedTables((table,))) from None


def _index(head: str, modifiers: frozenset[str], reader: Reader) -> ddl.Statement:
    create = head == "CREATE"
    condition = reader.skip("IF", "NOT", "EXISTS") if create else reader.skip("IF", "EXISTS")
    name = reader.identifier()
    using = key_type(reader)
    reader.expect("ON")
    table = reader.table()

    with _certain(AffectedTables((table,))):
        _past_waiting(reader)
        if not create:
            key_options(reader)  # ALGORITHM and LOCK
            return _to_the_end(reader, ddl.DropIndex(table, name, condition))
        kind = next((KEY_KINDS[word] for word in modifiers & KEY_KINDS.keys()), ddl.KeyKind.PLAIN)
        made = key(reader, kind, name)
        made = replace(made, options=(*using, *made.options))
        return _to_the_end(reader, ddl.CreateIndex(table, made, condition, "REPLACE" in modifiers))


def _views(head: str, reader: Reader) -> ddl.ViewStatement:
    """Read only the names: the query that follows does not matter."""
    if head == "CREATE":
        reader.skip("IF", "NOT", "EXISTS")
        return ddl.ViewStatement(created=(reader.table(),))
    reader.skip("IF", "EXISTS")
    return ddl.ViewStatement(dropped=reader.listed(reader.table))


def _drop(kind: str, reader: Reader) -> ddl.DropTables:
    if_exists = reader.skip("IF", "EXISTS")
    tables = reader.listed(reader.table)
    reader.skip_any(("RESTRICT", "CASCADE"))
    if reader.peek() not in ("", ";", "WAIT", "NOWAIT"):
        raise Unreadable("its list of tables is not understood")
    return _to_the_end(reader, ddl.DropTables(tables, if_exists, kind == "SEQUENCE"))


def _rename(reader: Reader) -> ddl.RenameTables:
    if not reader.skip_any(("TABLE", "TABLES")):
        raise Unreadable("its kind is not known")
    if_exists = reader.skip("IF", "EXISTS")  # MariaDB
    pairs = reader.listed(lambda: _renamed(reader))
    if not reader.at_end():
        raise Unreadable("its list of tables is not understood")
    return ddl.RenameTables(pairs, if_exists)


def _renamed(reader: Reader) -> tuple[TableName, TableName]:
    old = reader.table()
    _past_waiting(reader)
    if not reader.skip("TO"):
        raise Unreadable("its list of tables is not understood")
    return old, reader.table()


def _database(head: str, modifiers: frozenset[str], reader: Reader) -> ddl.Statement:
    if head == "DROP":
        if_exists = reader.skip("IF", "EXISTS")
        return _to_the_end(reader, ddl.DropDatabase(reader.identifier(), if_exists))

    with _certain(AffectedTables(())):
        if_not_exists = reader.skip("IF", "NOT", "EXISTS")
        named = head == "CREATE" or reader.peek() not in ("DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "COMMENT")
        name = reader.identifier() if named else reader.schema()
        options = options_of(reader)
        reader.end()
        if head == "CREATE":
            return ddl.CreateDatabase(name, options, if_not_exists, "REPLACE" in modifiers)
        return ddl.AlterDatabase(name, options)
