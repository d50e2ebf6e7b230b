"""Columns and keys as SQL again, in the order in which servers show them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from airflow_provider_dm.engine.ddl.statements import ColumnDefinition, Key, KeyKind, KeyPart
from airflow_provider_dm.engine.mysql.identifiers import quote

_MEMBERS: Final = frozenset({"enum", "set"})
_KINDS: Final = {
    KeyKind.PRIMARY: "PRIMARY KEY", KeyKind.UNIQUE: "UNIQUE KEY", KeyKind.PLAIN: "KEY",
    KeyKind.FULLTEXT: "FULLTEXT KEY", KeyKind.SPATIAL: "SPATIAL KEY", KeyKind.VECTOR: "VECTOR KEY",
}  # fmt: skip


def column_sql(column: ColumnDefinition) -> str:
    """Return the column as CREATE TABLE defines it; not what is said with it about keys and references."""
    kind, options = column.type, dict(column.options)
    words = [quote(column.name), kind.name]
    if kind.arguments:
        words.append(_listed(map(string_sql, kind.arguments) if kind.name in _MEMBERS else kind.arguments))
    words += ["unsigned"] * kind.unsigned + ["zerofill"] * kind.zerofill
    words += ["COMPRESSED"] * ("COMPRESSED" in options)
    words += ["CHARACTER SET", kind.charset] if kind.charset else []
    words += ["COLLATE", kind.collation] if kind.collation else []
    if column.generated is not None:
        words += ["GENERATED ALWAYS AS", column.generated, "STORED" if column.stored else "VIRTUAL"]
    if column.nullable is not None:
        words.append("NULL" if column.nullable else "NOT NULL")
    words += ["SRID", options["SRID"]] if "SRID" in options else []
    words += ["INVISIBLE"] * column.invisible
    words += ["DEFAULT", column.default] if column.default is not None else []
    words += ["ON UPDATE", column.on_update] if column.on_update is not None else []
    words += ["AUTO_INCREMENT"] * column.auto_increment
    words += ["COMMENT", string_sql(column.comment)] if column.comment is not None else []
    words += [f"CHECK {check.expression}" for check in column.checks]
    return " ".join(words)


def key_sql(key: Key) -> str:
    """Return the key as CREATE TABLE defines it."""
    words = [_KINDS[key.kind], *([quote(key.name)] if key.name is not None else []), _listed(map(_part, key.parts))]
    words += [_option(*option) for option in key.options]
    return " ".join(words)


def _option(name: str, value: str) -> str:
    if name == "COMMENT":
        return f"COMMENT {string_sql(value)}"
    return f"{name} {value}" if name in ("USING", "WITH PARSER") else f"{name}={value}".rstrip("=")


def string_sql(text: str) -> str:
    r"""Return the string in quotes, for a session in which backslashes escape.

    >>> print(string_sql("it's \\"))
    'it''s \\'
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _part(part: KeyPart) -> str:
    if part.column is None:
        text = part.expression or ""
    else:
        text = quote(part.column) + (f" ( {part.prefix} )" if part.prefix is not None else "")
    return f"{text} DESC" if part.descending else text


def _listed(items: Iterable[str]) -> str:
    return f"( {' , '.join(items)} )"
