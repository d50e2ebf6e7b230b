"""Compares a CREATE TABLE with the columns and unique keys of a table of the task.

pt-online-schema-change creates its new table by the SHOW CREATE TABLE of the real table, and alters it afterwards. If
the two differ already in the CREATE TABLE, no ALTER contains that change. A part that cannot be compared with certainty
counts as a difference. Only the properties in `schema.model.Table` are compared, on which rows depend: not defaults,
comments, plain keys, CHECKs, foreign keys, partitions and options of tables.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Final

from airflow_provider_dm.engine.ddl.collations import DEFAULTS
from airflow_provider_dm.engine.ddl.errors import Unreadable
from airflow_provider_dm.engine.ddl.lexer import TokenKind, string_value, tokens
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.statements import (
    Code,
    ColumnDefinition,
    ColumnType,
    CreateTable,
    KeyDefinition,
    KeyKind,
    KeyPart,
    TableDefinition,
)
from airflow_provider_dm.engine.schema.model import Column, Index, Table

_UNIQUE: Final = (KeyKind.PRIMARY, KeyKind.UNIQUE)
_DEFAULTS_OF_UTF8MB4: Final = ("utf8mb4_0900_ai_ci", "utf8mb4_general_ci", "utf8mb4_uca1400_ai_ci")


def definition_difference(definition: TableDefinition, table: Table) -> str | None:
    """Describe the first difference between a definition and a table on which rows depend; None if there is none."""
    ours, theirs = definition.columns, table.columns
    if [one.name.lower() for one in ours] != [one.name.lower() for one in theirs]:
        return "its columns, or their order"
    primary = {name.lower() for key in _keys(definition) if key[0] == "primary" for name, _ in key[1]}
    for made, known in zip(ours, theirs, strict=True):
        if what := _column_difference(made, known, definition, in_primary=made.name.lower() in primary):
            return f"{what} of {made.name}"
    if sorted(_keys(definition)) != sorted(map(_known_key, table.unique_keys)):
        return "its unique keys"
    return None


def _column_difference(
    made: ColumnDefinition, known: Column, definition: TableDefinition, *, in_primary: bool
) -> str | None:
    theirs = _type_of(known.column_type)
    if theirs is None or _bare_type(made.type) != _bare_type(theirs):
        return "another type"
    if (made.nullable is not False and not in_primary) != known.nullable:
        return "another nullability"
    if (made.generated is not None) != known.generated or (known.generated and not _same_code(made.generated, known)):
        return "another expression"
    if made.invisible != known.invisible:
        return "another visibility"
    if known.charset is not None and not _same_text(made.type, known, dict(definition.options)):
        return "the character set or collation"
    return None


def _type_of(column_type: str) -> ColumnType | None:
    """Parse a type as the catalogue shows it."""
    try:
        statement = parse(f"CREATE TABLE t (c {column_type})", 0, "s")
    except Unreadable:
        return None
    return statement.definition.columns[0].type if isinstance(statement, CreateTable) else None


def _bare_type(kind: ColumnType) -> tuple[object, ...]:
    return kind.name, kind.arguments, kind.unsigned or kind.zerofill, kind.zerofill


def _same_code(code: Code | None, known: Column) -> bool:
    try:
        return _code_tokens(code or "") == _code_tokens(_unescaped(known.expression))
    except Unreadable:
        return False


def _code_tokens(code: Code) -> list[str]:
    """Return the tokens of an expression without parentheses around it. Only strings are case-sensitive.

    >>> _code_tokens("((Upper('A b')))"), _code_tokens("(a) + (b)")
    (['upper', '(', "'A b'", ')'], ['(', 'a', ')', '+', '(', 'b', ')'])
    """
    found = [token.raw if token.kind is TokenKind.STRING else token.raw.lower() for token in tokens(code, 0)]
    while found[:1] == ["("] and 0 not in list(accumulate((one == "(") - (one == ")") for one in found))[:-1]:
        found = found[1:-1]
    return found


def _unescaped(code: Code) -> Code:
    r"""Return an expression as SHOW CREATE TABLE shows it: MySQL's catalogue has it as the contents of a string.

    >>> _unescaped(r"concat(_utf8mb4\'a\\\\b\')"), _unescaped(r"concat('it\'s')")
    ("concat(_utf8mb4'a\\\\b')", "concat('it\\'s')")
    """
    return string_value(f"'{code}'", 0) if re.match(r"[^']*\\'", code) else code


def _same_text(made: ColumnType, known: Column, options: dict[str, str]) -> bool:
    charset, collation = made.charset, made.collation
    if charset is None and collation is None:
        charset, collation = options.get("CHARSET"), options.get("COLLATE")
    found = _full_name(known.collation or "")
    if collation is not None:
        return _full_name(collation) == found
    if charset is None or made.binary:
        return False
    # A server omits the collation if it is the default of the shown character set.
    charset = _full_name(charset)
    return found == DEFAULTS.get(charset) or (charset == "utf8mb4" and found in _DEFAULTS_OF_UTF8MB4)


def _full_name(name: str) -> str:
    """Return a character set or collation by its current name: utf8 is utf8mb3."""
    head, _, tail = name.lower().partition("_")
    head = "utf8mb3" if head == "utf8" else head
    return f"{head}_{tail}" if tail else head


_Key = tuple[str, tuple[tuple[str, int], ...]]


def _keys(definition: TableDefinition) -> list[_Key]:
    keys = [key for key in definition.constraints if isinstance(key, KeyDefinition) and key.kind in _UNIQUE]
    keys += [KeyDefinition(one.key, (KeyPart(one.name),), one.name) for one in definition.columns if one.key in _UNIQUE]
    return [_defined_key(key) for key in keys]


def _defined_key(key: KeyDefinition) -> _Key:
    name = "primary" if key.kind is KeyKind.PRIMARY else (key.name or key.constraint or "")
    parts = tuple((part.column.lower(), part.prefix or 0) for part in key.parts if part.column is not None)
    return name.lower(), parts if len(parts) == len(key.parts) else (*parts, ("", -1))


def _known_key(key: Index) -> _Key:
    parts = tuple((name.lower(), prefix or 0) for name, prefix in key.parts)
    return key.name.lower(), (*parts, ("", -1)) if key.expression else parts
