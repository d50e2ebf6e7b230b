r"""What tables consist of as SQL again: columns, keys, constraints and options, in the order in which servers show it.

Names stand in back-quotes, which every sql_mode takes for names, and strings in single quotes, which are strings under
every one. Whether a backslash escapes depends on the mode of the session that runs the text, so it is a parameter; the
default is our own session's, in which it does. `Code` stands there as it was cut: it means the same only under the
sql_mode of its statement.

    >>> column = ColumnDefinition("a", ColumnType("enum", ("x", "C:\\")), nullable=False, default="'x'", comment="it's")
    >>> print(column_sql(column))
    `a` enum ( 'x' , 'C:\\' ) NOT NULL DEFAULT 'x' COMMENT 'it''s'
    >>> print(column_sql(column, NO_BACKSLASH_ESCAPES))
    `a` enum ( 'x' , 'C:\' ) NOT NULL DEFAULT 'x' COMMENT 'it''s'
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from airflow_provider_dm.engine.ddl.lexer import NO_BACKSLASH_ESCAPES
from airflow_provider_dm.engine.ddl.statements import (
    Check,
    ColumnDefinition,
    ColumnType,
    Constraint,
    ForeignKey,
    Key,
    KeyKind,
    KeyPart,
    Options,
    Reference,
    TableDefinition,
)
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote

_MEMBERS: Final = frozenset({"enum", "set"})
_KINDS: Final = {kind: f"{kind.name} KEY" for kind in KeyKind} | {KeyKind.PLAIN: "KEY"}
_OF_TYPE: Final = ("COMPRESSED", "REF_SYSTEM_ID")
"""Options of columns that stand directly behind the type."""
_STRINGS: Final = frozenset(
    {"COMMENT", "COMPRESSION", "CONNECTION", "DATA DIRECTORY", "INDEX DIRECTORY", "ENCRYPTION", "PASSWORD"}
    | {"ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"}
)
"""Options whose values are strings, also where they look like words."""
_NAMES: Final = frozenset({"TABLESPACE", "WITH PARSER"})
_AS_WRITTEN: Final = frozenset({"UNION"})
_WORD: Final = re.compile(r"[A-Za-z0-9_]+")


# Tables


def create_table_sql(name: TableName, table: TableDefinition) -> str:
    """Return a resolved definition as CREATE TABLE: canonical, read back without sql_mode as an equal definition.

    It is what the model of a source's tables is kept as, and what people see of it. The table is named without its
    schema, as servers show it.
    """
    columns = [one if one.type.name == "timestamp" or not one.nullable else replace(one, nullable=None)
               for one in table.columns]  # fmt: skip
    elements = [*map(column_sql, columns), *map(constraint_sql, table.constraints)]
    lines = ",\n".join(f"  {element}" for element in elements)
    partitioning = "" if table.partitioning is None else f"\n{table.partitioning}"
    return f"CREATE TABLE {quote(name.table)} (\n{lines}\n) {options_sql(table.options)}{partitioning}"


def definition_sql(table: TableDefinition, sql_mode: int = 0) -> str:
    """Return what follows a new table's name."""
    elements = [
        *(column_sql(column, sql_mode) for column in table.columns),
        *(constraint_sql(constraint, sql_mode) for constraint in table.constraints),
    ]
    words = [_listed(elements)] if elements else []
    words += [options_sql(table.options, sql_mode)] if table.options else []
    words += [table.partitioning] if table.partitioning is not None else []
    return " ".join(words)


def options_sql(options: Options, sql_mode: int = 0) -> str:
    """Return options of a table or a schema."""
    return " ".join(
        _setting("DEFAULT CHARSET" if name == "CHARSET" else name, value, sql_mode) for name, value in options
    )


def _setting(name: str, value: str, sql_mode: int) -> str:
    """Return an option and its value, if it takes one, as a word where it can be one."""
    if name in _NAMES:
        return f"{name} {quote(value)}"
    if name == "STORAGE":
        return f"{name} {word_sql(value, sql_mode)}"
    if name in _STRINGS:
        return f"{name}={string_sql(value, sql_mode)}"
    if not value:
        return name
    return f"{name}={value if name in _AS_WRITTEN else word_sql(value, sql_mode)}"


# Columns


def column_sql(column: ColumnDefinition, sql_mode: int = 0) -> str:
    """Return the column as CREATE TABLE defines it."""
    words = [quote(column.name), _type_sql(column.type, column.options, sql_mode)]
    if column.generated is not None:
        words += ["GENERATED ALWAYS AS", column.generated, "STORED" if column.stored else "VIRTUAL"]
    if column.nullable is False or (column.nullable and column.generated is None):  # MariaDB refuses … STORED NULL
        words.append("NULL" if column.nullable else "NOT NULL")
    words += [_column_option(*option, sql_mode) for option in column.options if option[0] not in _OF_TYPE]
    words += ["INVISIBLE"] * column.invisible
    words += ["DEFAULT", column.default] if column.default is not None else []
    words += ["ON UPDATE", column.on_update] if column.on_update is not None else []
    words += ["AUTO_INCREMENT"] * column.auto_increment
    words += [_KINDS[column.key]] if column.key is not None else []
    words += ["COMMENT", string_sql(column.comment, sql_mode)] if column.comment is not None else []
    words += [check_sql(check) for check in column.checks]  # MariaDB takes them only behind all else
    words += [reference_sql(column.references)] if column.references is not None else []  # and MySQL this
    return " ".join(words)


def _type_sql(kind: ColumnType, options: Options, sql_mode: int) -> str:
    words = [kind.name]
    if kind.arguments:
        members = kind.name in _MEMBERS
        words.append(_listed((string_sql(one, sql_mode) for one in kind.arguments) if members else kind.arguments))
    words += ["unsigned"] * kind.unsigned + ["zerofill"] * kind.zerofill
    words += [_setting(*option, sql_mode) for option in options if option[0] in _OF_TYPE]
    words += ["CHARACTER SET", word_sql(kind.charset, sql_mode)] if kind.charset else []
    words += ["BINARY"] * kind.binary
    words += ["COLLATE", word_sql(kind.collation, sql_mode)] if kind.collation else []
    return " ".join(words)


def _column_option(name: str, value: str, sql_mode: int) -> str:
    return f"{name} {string_sql(value, sql_mode) if name in _STRINGS else word_sql(value, sql_mode)}"


# Keys and constraints


def constraint_sql(constraint: Constraint, sql_mode: int = 0, *, if_not_exists: bool = False) -> str:
    """Return a key or a constraint. `if_not_exists`: as MariaDB's ALTER TABLE adds it."""
    match constraint:
        case Key():
            return key_sql(constraint, sql_mode, if_not_exists=if_not_exists)
        case Check():
            return check_sql(constraint, if_not_exists=if_not_exists)
        case ForeignKey(columns, references, name):
            words = [*_called(constraint.constraint), "FOREIGN KEY", *_unless(if_not_exists)]
            words += [quote(name)] if name is not None else []
            return " ".join([*words, _listed(map(quote, columns)), reference_sql(references)])


def key_sql(key: Key, sql_mode: int = 0, *, if_not_exists: bool = False) -> str:
    """Return the key as CREATE TABLE defines it."""
    words = [*_called(key.constraint), _KINDS[key.kind], *_unless(if_not_exists)]
    words += [quote(key.name)] if key.name is not None else []
    return " ".join([*words, key_parts_sql(key, sql_mode)])


def key_parts_sql(key: Key, sql_mode: int = 0) -> str:
    """Return what follows the key's name: its parts and options."""
    return " ".join([_listed(map(_part, key.parts)), *(_key_option(*option, sql_mode) for option in key.options)])


def check_sql(check: Check, *, if_not_exists: bool = False) -> str:
    """Return a CHECK, of a column or a table."""
    called = _called(check.constraint)
    words = [*called[:1], *_unless(if_not_exists and bool(called)), *called[1:], "CHECK", check.expression]
    return " ".join([*words, *(["NOT ENFORCED"] if not check.enforced else [])])


def reference_sql(reference: Reference) -> str:
    """Return REFERENCES, with the table's schema always said."""
    words = ["REFERENCES", reference.table.quoted()]
    words += [_listed(map(quote, reference.columns))] if reference.columns else []
    return " ".join([*words, *(f"{when} {action}" for when, action in reference.actions)])


def _called(name: str | None) -> list[str]:
    return ["CONSTRAINT", quote(name)] if name is not None else []


def _unless(exists: bool) -> list[str]:
    return ["IF NOT EXISTS"] * exists


def _key_option(name: str, value: str, sql_mode: int) -> str:
    if name == "COMMENT":
        return f"COMMENT {string_sql(value, sql_mode)}"
    return f"USING {value}" if name == "USING" else _setting(name, value, sql_mode)


def _part(part: KeyPart) -> str:
    if part.column is None:
        text = part.expression or ""
    else:
        text = quote(part.column) + (f" ( {part.prefix} )" if part.prefix is not None else "")
    return f"{text} DESC" if part.descending else text


# Strings


def string_sql(text: str, sql_mode: int = 0) -> str:
    r"""Return the string in quotes, for a session with this sql_mode.

    >>> print(string_sql("it's \\"), string_sql("it's \\", NO_BACKSLASH_ESCAPES))
    'it''s \\' 'it''s \'
    """
    if not sql_mode & NO_BACKSLASH_ESCAPES:
        text = text.replace("\\", "\\\\")
    return "'" + text.replace("'", "''") + "'"


def word_sql(value: str, sql_mode: int = 0) -> str:
    """Return a value as a word where it is one, else as the string that it must have been."""
    return value if _WORD.fullmatch(value) else string_sql(value, sql_mode)


def _listed(items: Iterable[str]) -> str:
    return f"( {' , '.join(items)} )"
