"""The grammar of columns, keys, constraints and table options, as CREATE TABLE and ALTER TABLE have them.

Unknown syntax raises Unreadable: a misread column would misread every following column of a row. Unknown are, among
others, system versioning (MariaDB adds hidden columns for it), types of other schemas, and options of single engines.

    `id` integer unsigned not null AUTO_INCREMENT /*!80023 INVISIBLE */ PRIMARY KEY
    ─▶ ColumnDefinition(id, ColumnType(int, unsigned), nullable=False, auto_increment, invisible, key=PRIMARY)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.ddl.errors import Unreadable
from airflow_provider_dm.engine.ddl.lexer import ORACLE, REAL_AS_FLOAT, TokenKind
from airflow_provider_dm.engine.ddl.token_reader import Reader

TYPES: Final = (
    "tinyint smallint mediumint int bigint decimal float double bit year date time datetime timestamp char varchar "
    "binary varbinary tinytext text mediumtext longtext tinyblob blob mediumblob longblob enum set json vector "
    "uuid inet4 inet6 geometry point linestring polygon multipoint multilinestring multipolygon geometrycollection"
)
_TYPES: Final = frozenset(TYPES.split())
_SYNONYMS: Final = {
    "integer": "int", "int1": "tinyint", "int2": "smallint", "int3": "mediumint", "middleint": "mediumint",
    "int4": "int", "int8": "bigint", "dec": "decimal", "numeric": "decimal", "fixed": "decimal", "number": "decimal",
    "float4": "float", "float8": "double", "real": "double", "character": "char", "nchar": "char",
    "varcharacter": "varchar", "nvarchar": "varchar", "varchar2": "varchar", "raw": "varbinary", "clob": "longtext",
    "geomcollection": "geometrycollection",
}  # fmt: skip
_NATIONAL: Final = frozenset({"nchar", "nvarchar"})
_LONG: Final = {"VARCHAR": "mediumtext", "VARCHARACTER": "mediumtext", "VARBINARY": "mediumblob", "BYTE": "mediumblob"}
_CHARACTERS: Final = frozenset({"CHAR", "CHARACTER", "NCHAR"})
_WIDEST_FLOAT: Final = 24
"""Maximum bits of FLOAT(p); with more it is a DOUBLE."""

_KEY_WORDS: Final = frozenset({"PRIMARY", "UNIQUE", "INDEX", "KEY", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK"})
KEY_KINDS: Final = {kind.name: kind for kind in ddl.KeyKind if kind not in (ddl.KeyKind.PRIMARY, ddl.KeyKind.PLAIN)}
_KEY_TYPES: Final = ("BTREE", "HASH", "RTREE")
_KEY_OPTIONS: Final = frozenset({
    "KEY_BLOCK_SIZE", "COMMENT", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE", "M", "DISTANCE", "ALGORITHM", "LOCK",
})  # fmt: skip
_KEY_FLAGS: Final = frozenset({"VISIBLE", "INVISIBLE", "IGNORED", "CLUSTERED"})

_OPTION_NAMES: Final = (
    "ENGINE TYPE AUTO_INCREMENT AVG_ROW_LENGTH CHECKSUM TABLE_CHECKSUM COMMENT COMPRESSION CONNECTION ENCRYPTION "
    "DELAY_KEY_WRITE INSERT_METHOD KEY_BLOCK_SIZE MAX_ROWS MIN_ROWS PACK_KEYS PASSWORD ROW_FORMAT TABLESPACE "
    "STATS_AUTO_RECALC STATS_PERSISTENT STATS_SAMPLE_PAGES SECONDARY_ENGINE ENGINE_ATTRIBUTE AUTOEXTEND_SIZE "
    "SECONDARY_ENGINE_ATTRIBUTE STORAGE NODEGROUP PAGE_CHECKSUM TRANSACTIONAL PAGE_COMPRESSED "
    "PAGE_COMPRESSION_LEVEL ENCRYPTED ENCRYPTION_KEY_ID IETF_QUOTES SEQUENCE"
)
_OPTIONS: Final = frozenset(_OPTION_NAMES.split())
_NOW: Final = frozenset({"CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"})
_ALONE: Final = _NOW | {"CURRENT_DATE", "CURRENT_TIME", "CURRENT_USER", "CURRENT_ROLE", "NULL", "TRUE", "FALSE"}
_LITERAL_TYPES: Final = frozenset({"DATE", "TIME", "TIMESTAMP"})
_COLUMN_OPTIONS: Final = frozenset(
    {"COLUMN_FORMAT", "STORAGE", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE", "REF_SYSTEM_ID", "SRID"}
)


# Tables


def definition(reader: Reader) -> ddl.TableDefinition:
    """Read the definition after a new table's name, up to a query or the end."""
    elements: tuple[ddl.ColumnDefinition | ddl.Constraint, ...] = ()
    if reader.peek() == "(" and reader.peek(1) not in ("SELECT", "WITH", "VALUES", "TABLE", "("):
        elements = reader.in_parentheses(lambda: element_of(reader))
    columns = tuple(element for element in elements if isinstance(element, ddl.ColumnDefinition))
    constraints = tuple(element for element in elements if not isinstance(element, ddl.ColumnDefinition))
    options = options_of(reader, commas=True)
    partitioning = None
    if reader.next_is("PARTITION", "BY"):
        partitioning = reader.up_to(("AS", "SELECT", "IGNORE", "REPLACE", "WITH"))
    return ddl.TableDefinition(columns, constraints, options, partitioning)


def element_of(reader: Reader) -> ddl.ColumnDefinition | ddl.Constraint:
    """Read a column, a key or a constraint."""
    return constraint(reader)[0] if begins_constraint(reader) else column(reader)


def options_of(reader: Reader, *, commas: bool = False) -> ddl.Options:
    """Read any number of table options, in CREATE TABLE with optional commas between them."""
    options: list[tuple[str, str]] = []
    while (option := _option(reader)) is not None:
        options.append(option)
        if commas and reader.skip(",") and reader.at_end():
            raise Unreadable("an option is missing")
    return tuple(options)


def _option(reader: Reader) -> tuple[str, str] | None:
    start = reader.at
    by_default = reader.skip("DEFAULT")
    if reader.skip_charset():
        reader.skip("=")
        return "CHARSET", reader.value()
    if reader.skip("COLLATE"):
        reader.skip("=")
        return "COLLATE", reader.value()
    if by_default and reader.peek() != "ENCRYPTION":
        reader.at = start
        return None
    for words in (("DATA", "DIRECTORY"), ("INDEX", "DIRECTORY")):
        if reader.skip(*words):
            reader.skip("=")
            return " ".join(words), reader.string()
    if reader.skip("START", "TRANSACTION"):  # MySQL logs it after CREATE TABLE … SELECT
        return "START TRANSACTION", ""
    if reader.skip("UNION"):
        reader.skip("=")
        start = reader.at
        if not (reader.skip("(", ")")):
            reader.in_parentheses(reader.table)
        return "UNION", reader.code_from(start)
    name = (reader.name() or "").upper()  # MariaDB quotes names of options that engines have added
    if name not in _OPTIONS:
        return None
    reader.word()
    reader.skip("=")
    return name, reader.value()


# Columns


def column(reader: Reader) -> ddl.ColumnDefinition:
    """Read a column: its name, type and attributes."""
    name = reader.identifier()
    if reader.skip("SERIAL"):
        kind = ddl.ColumnType("bigint", unsigned=True)
        made = ddl.ColumnDefinition(name, kind, nullable=False, auto_increment=True, key=ddl.KeyKind.UNIQUE)
    else:
        made = ddl.ColumnDefinition(name, _type(reader))
    while (more := _attribute(reader, made)) is not None:
        made = more
    return made


def _type(reader: Reader) -> ddl.ColumnType:
    national = reader.skip("NATIONAL")
    written = reader.token()
    if written.kind is not TokenKind.WORD:
        raise Unreadable("a type is expected")
    word = reader.word()
    name = _SYNONYMS.get(word.lower(), word.lower())
    arguments: tuple[str, ...] = ()
    if word in ("BOOL", "BOOLEAN"):
        return ddl.ColumnType("tinyint", ("1",))
    if word == "LONG":
        reader.skip_any(_CHARACTERS)
        name = _LONG.get(reader.skip_any((*_LONG, "VARYING")), "mediumtext")
    elif word in _CHARACTERS and reader.skip_any(("VARYING", "VARCHAR")):
        name = "varchar"
    elif word == "DOUBLE":
        reader.skip("PRECISION")
    elif word == "REAL" and reader.sql_mode & REAL_AS_FLOAT:
        name = "float"
    elif word == "DATE" and reader.sql_mode & ORACLE:
        raise Unreadable("DATE means DATETIME under the sql_mode ORACLE in MariaDB and DATE in MySQL")
    if name not in _TYPES:
        raise Unreadable(f"the type {word} is not known")
    if name in ("enum", "set"):
        arguments = reader.in_parentheses(reader.string)
    elif reader.peek() == "(":
        arguments = reader.in_parentheses(lambda: str(reader.number()))
    if name == "float" and len(arguments) == 1:
        name, arguments = ("double" if int(arguments[0]) > _WIDEST_FLOAT else "float"), ()
    charset = "utf8mb3" if national or word.lower() in _NATIONAL else None
    return _type_attributes(reader, ddl.ColumnType(name, arguments, charset=charset))


def _type_attributes(reader: Reader, kind: ddl.ColumnType) -> ddl.ColumnType:
    while True:
        match reader.peek():
            case "UNSIGNED":
                kind = replace(kind, unsigned=True)
            case "ZEROFILL":
                kind = replace(kind, unsigned=True, zerofill=True)
            case "BINARY":
                kind = replace(kind, binary=True)
            case "BYTE" if kind.name in ("char", "varchar", "text"):
                kind = replace(kind, name={"char": "binary", "varchar": "varbinary", "text": "blob"}[kind.name])
            case "ASCII":
                kind = replace(kind, charset="latin1")
            case "UNICODE":
                kind = replace(kind, charset="ucs2")
            case "SIGNED":
                pass
            case _ if reader.skip_charset():
                kind = replace(kind, charset=reader.value().lower())
                continue
            case _:
                return kind
        reader.word()


def _attribute(reader: Reader, made: ddl.ColumnDefinition) -> ddl.ColumnDefinition | None:
    """Read one more attribute of a column; None if none follows."""
    start = reader.at
    if reader.skip_charset():  # only MariaDB accepts it after another attribute
        return replace(made, type=replace(made.type, charset=reader.value().lower()))
    match reader.word():
        case "NOT" if reader.skip("NULL"):
            return replace(made, nullable=False)
        case "NULL":
            return replace(made, nullable=True)
        case "DEFAULT":
            return replace(made, default=default(reader))
        case "ON" if reader.skip("UPDATE"):
            return replace(made, on_update=_now(reader))
        case "AUTO_INCREMENT":
            return replace(made, auto_increment=True)
        case "SERIAL" if reader.skip("DEFAULT", "VALUE"):
            return replace(made, nullable=False, auto_increment=True, key=made.key or ddl.KeyKind.UNIQUE)
        case "UNIQUE":
            reader.skip("KEY")
            return replace(made, key=made.key or ddl.KeyKind.UNIQUE)
        case "PRIMARY" if reader.skip("KEY"):
            return replace(made, key=ddl.KeyKind.PRIMARY)
        case "KEY":
            return replace(made, key=ddl.KeyKind.PRIMARY)
        case "COMMENT":
            return replace(made, comment=reader.string())
        case "COLLATE":
            return replace(made, type=replace(made.type, collation=reader.value().lower()))
        case "INVISIBLE":
            return replace(made, invisible=True)
        case "VISIBLE":
            return replace(made, invisible=False)
        case "GENERATED" if reader.skip("ALWAYS", "AS"):
            return _generated(reader, made)
        case "AS":
            return _generated(reader, made)
        case "CONSTRAINT" | "CHECK":
            reader.at = start
            return replace(made, checks=(*made.checks, _check(reader)))
        case "REFERENCES":
            return replace(made, references=_reference(reader))
        case "COMPRESSED":
            name = reader.value() if reader.skip("=") else ""
            return replace(made, options=(*made.options, ("COMPRESSED", name)))
        case name if name in _COLUMN_OPTIONS:
            reader.skip("=")
            return replace(made, options=(*made.options, (name, reader.value())))
    reader.at = start
    return None


def _generated(reader: Reader, made: ddl.ColumnDefinition) -> ddl.ColumnDefinition:
    expression = reader.balanced()
    how = reader.skip_any(("VIRTUAL", "STORED", "PERSISTENT"))
    return replace(made, generated=expression, stored=how in ("STORED", "PERSISTENT"))


def default(reader: Reader) -> ddl.Code:
    """Read the value of DEFAULT: a literal, a time function, another function, or an expression in parentheses."""
    start = reader.at
    if reader.peek() == "(":
        return reader.balanced()
    sign = reader.skip_any(("-", "+"))
    token = reader.token()
    reader.at += 1
    match token.kind:
        case TokenKind.NUMBER:
            return reader.code_from(start)
        case TokenKind.SIGN if (
            token.raw == "." and reader.token().raw.isdecimal() and reader.token().start == token.end
        ):
            reader.at += 1
            return reader.code_from(start)
        case TokenKind.STRING if not sign:
            while reader.peek() == "''":
                reader.at += 1
            return reader.code_from(start)
        case TokenKind.WORD | TokenKind.NAME if not sign:
            return _named_default(reader, start)
    raise Unreadable("a default is not understood")


def _named_default(reader: Reader, start: int) -> ddl.Code:
    reader.at = start
    token = reader.token()
    text = reader.word()
    if reader.peek() == "''" and (reader.token().start == token.end or text[0] == "_" or text in _LITERAL_TYPES):
        reader.at += 1
    elif text.startswith(("0X", "0B")):
        pass
    elif text == "NEXT" and reader.skip("VALUE", "FOR"):
        reader.table()
    elif reader.peek() in ("(", "."):
        while reader.skip("."):
            reader.identifier()
        reader.balanced()
    elif text not in _ALONE:
        raise Unreadable("a default is not understood")
    return reader.code_from(start)


def _now(reader: Reader) -> ddl.Code:
    start = reader.at
    if not reader.skip_any(_NOW):
        raise Unreadable("ON UPDATE is not understood")
    if reader.peek() == "(":
        reader.balanced()
    return reader.code_from(start)


# Keys and constraints


def begins_constraint(reader: Reader) -> bool:
    """Return True if a key or a constraint follows, not a column."""
    first, second = reader.peek(), reader.peek(1)
    if first == "VECTOR":
        return second in ("INDEX", "KEY")
    return first in _KEY_WORDS or first == "CONSTRAINT"


def constraint(reader: Reader) -> tuple[ddl.Constraint, bool]:
    """Read a key, a foreign key or a CHECK; return it and whether it is added only IF NOT EXISTS."""
    start = reader.at
    name, if_not_exists = _constraint_name(reader)
    if reader.peek() == "CHECK":
        reader.at = start
        return _check(reader), if_not_exists
    if reader.skip("FOREIGN", "KEY"):
        if_not_exists = reader.skip("IF", "NOT", "EXISTS") or if_not_exists
        index = reader.identifier() if reader.peek() != "(" else None
        columns = reader.in_parentheses(reader.identifier)
        reader.expect("REFERENCES")
        return ddl.ForeignKey(columns, _reference(reader), index, name), if_not_exists
    if reader.skip("PRIMARY", "KEY"):
        kind = ddl.KeyKind.PRIMARY
    else:
        kind = KEY_KINDS.get(reader.skip_any(KEY_KINDS), ddl.KeyKind.PLAIN)
        if not reader.skip_any(("INDEX", "KEY")) and kind is ddl.KeyKind.PLAIN:
            raise Unreadable("a constraint is not understood")
    if_not_exists = reader.skip("IF", "NOT", "EXISTS") or if_not_exists
    index = None
    if reader.peek() not in ("(", "USING") and not (reader.peek() == "TYPE" and reader.peek(1) in _KEY_TYPES):
        index = reader.identifier()
    return key(reader, kind, None if kind is ddl.KeyKind.PRIMARY else index, name), if_not_exists


def key(reader: Reader, kind: ddl.KeyKind, name: str | None, constraint: str | None = None) -> ddl.KeyDefinition:
    """Read the parts of a key and its options, after the name."""
    using = key_type(reader)
    parts = reader.in_parentheses(lambda: _part(reader))
    return ddl.KeyDefinition(kind, parts, name, constraint, (*using, *key_options(reader)))


def key_type(reader: Reader) -> ddl.Options:
    """Read an optional USING BTREE or the like."""
    if reader.peek() not in ("USING", "TYPE") or reader.peek(1) not in _KEY_TYPES:
        return ()
    reader.word()
    return (("USING", reader.word()),)


def key_options(reader: Reader) -> ddl.Options:
    """Read any number of key options."""
    options: list[tuple[str, str]] = []
    while True:
        options += key_type(reader)
        if reader.skip("WITH", "PARSER"):
            options.append(("WITH PARSER", reader.identifier()))
        elif flag := reader.skip_any(_KEY_FLAGS):
            options.append((flag, ""))
        elif reader.skip("NOT", "IGNORED"):
            options.append(("NOT IGNORED", ""))
        elif (name := (reader.name() or "").upper()) in _KEY_OPTIONS:
            reader.word()
            reader.skip("=")
            options.append((name, reader.value()))
        else:
            return tuple(options)


def _part(reader: Reader) -> ddl.KeyPart:
    made = ddl.KeyPart(None, expression=reader.balanced()) if reader.peek() == "(" else ddl.KeyPart(reader.identifier())
    if made.column is not None and reader.skip("("):
        made = replace(made, prefix=reader.number())
        reader.expect(")")
    return replace(made, descending=reader.skip_any(("ASC", "DESC")) == "DESC")


def _constraint_name(reader: Reader) -> tuple[str | None, bool]:
    """Read an optional CONSTRAINT [IF NOT EXISTS] [name]."""
    if not reader.skip("CONSTRAINT"):
        return None, False
    if_not_exists = reader.skip("IF", "NOT", "EXISTS")
    return (None if reader.peek() in _KEY_WORDS else reader.identifier()), if_not_exists


def _check(reader: Reader) -> ddl.CheckConstraint:
    name, _ = _constraint_name(reader)
    reader.expect("CHECK")
    expression = reader.balanced()
    enforced = not reader.skip("NOT", "ENFORCED")
    reader.skip("ENFORCED")
    return ddl.CheckConstraint(expression, name, enforced)


def _reference(reader: Reader) -> ddl.Reference:
    table = reader.table(reader.home)
    columns = reader.in_parentheses(reader.identifier) if reader.peek() == "(" else ()
    actions: list[tuple[str, str]] = []
    while True:
        if reader.skip("MATCH"):
            actions.append(("MATCH", reader.word()))
        elif reader.peek() == "ON" and reader.peek(1) in ("DELETE", "UPDATE"):
            reader.word()
            when = f"ON {reader.word()}"
            actions.append((when, _action(reader)))
        else:
            return ddl.Reference(table, columns, tuple(actions))


def _action(reader: Reader) -> str:
    for words in (("SET", "NULL"), ("SET", "DEFAULT"), ("NO", "ACTION"), ("RESTRICT",), ("CASCADE",)):
        if reader.skip(*words):
            return " ".join(words)
    raise Unreadable("the action of a foreign key is not understood")
