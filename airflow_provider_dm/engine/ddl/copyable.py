"""Which parts of a source's table may be created in a target unchanged: all defaults, expressions and options known.

Parsing an expression does not make it safe: a default or an expression runs in the target and could call anything.
Expressions of generated columns and keys may contain names, literals, operators and the functions listed here, which
only compute.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from airflow_provider_dm.engine.ddl.lexer import TokenKind, Unreadable, pieces
from airflow_provider_dm.engine.ddl.statements import Code, ColumnDefinition, Constraint, Key, TableDefinition
from airflow_provider_dm.engine.mysql.identifiers import quote
from airflow_provider_dm.engine.schema.strings import CHARSETS

KEPT_OPTIONS: Final = frozenset({"ENGINE", "CHARSET", "COLLATE", "COMMENT", "ROW_FORMAT"})
_DROPPED_OPTIONS: Final = frozenset({"AUTO_INCREMENT", "STATS_PERSISTENT", "STATS_AUTO_RECALC", "STATS_SAMPLE_PAGES"})
STORING: Final = frozenset(
    {"KEY_BLOCK_SIZE", "MAX_ROWS", "MIN_ROWS", "AVG_ROW_LENGTH", "CHECKSUM", "TABLE_CHECKSUM", "DELAY_KEY_WRITE"}
    | {"PACK_KEYS", "COMPRESSION", "AUTOEXTEND_SIZE", "PAGE_CHECKSUM", "TRANSACTIONAL", "PAGE_COMPRESSED"}
    | {"PAGE_COMPRESSION_LEVEL", "TABLESPACE", "NODEGROUP", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"}
    | {"SECONDARY_ENGINE", "WITH PARSER", "COMMENT", "UNION", "INSERT_METHOD", "CONNECTION", "PASSWORD", "IETF_QUOTES"}
)
"""Options that are left out of the target's table with a note, unless they are copied."""
_COLUMN_OPTIONS: Final = frozenset({"COMPRESSED", "SRID"})
_KEY_OPTIONS: Final = frozenset({"USING", "COMMENT", "INVISIBLE", "M", "DISTANCE"})
_WORD: Final = re.compile(r"[A-Za-z0-9_]+")
_MOMENT: Final = re.compile(r"current_timestamp(?:\([0-6]?\))?", re.IGNORECASE)
_LITERAL: Final = re.compile(r"NULL|b?'(?:[^'\\]|''|\\.)*'|-?[0-9]+(?:\.[0-9]+)?", re.IGNORECASE | re.DOTALL)

_COMPUTE: Final = (
    "abs acos and array as ascii asin atan atan2 between bin binary bit_count bit_length both case cast ceil ceiling "
    "char charset char_length character_length coalesce collate concat concat_ws conv convert cos cot crc32 date "
    "date_add date_sub datediff datetime day dayofmonth dayofweek dayofyear decimal degrees div double else elt end "
    "escape exp extract false field find_in_set floor for from from_days greatest hex hour if ifnull in inet6_aton "
    "inet6_ntoa inet_aton inet_ntoa instr integer interval is isnull json json_array json_contains json_depth "
    "json_extract json_keys json_length json_object json_quote json_type json_unquote json_valid json_value lcase "
    "leading least left length like ln locate log log10 log2 lower lpad ltrim makedate maketime md5 microsecond mid "
    "minute mod month not null nullif oct octet_length or ord pi position pow power quarter quote radians real regexp "
    "regexp_like repeat replace returning reverse right rlike round rpad rtrim sec_to_time second sha sha1 sha2 sign "
    "signed sin soundex space sqrt st_srid st_x st_y strcmp substr substring substring_index tan then time time_to_sec "
    "timediff to_days to_seconds trailing trim true truncate ucase unhex unsigned upper using weekday weekofyear when "
    "xor year yearweek"
)
"""Functions and keywords of expressions. None has side effects, waits, or reads the time."""
COMPUTING: Final = frozenset(_COMPUTE.split())
OPERATORS: Final = frozenset("-><=!,+*/%&|^~()")
_HEXADECIMAL: Final = re.compile(r"0[xX][0-9a-fA-F]+")
_INTRODUCED: Final = frozenset({"X", "B"})
"""Letters directly before a string that make it a number."""


class NotCopyable(Exception):
    """Something that a target's table cannot be created with; the argument names it."""


def without_storing(table: TableDefinition) -> tuple[TableDefinition, tuple[str, ...]]:
    """Return the table without storage options, on which no row depends, and notes about those left out."""
    left_out = STORING - KEPT_OPTIONS
    found = [(name, value) for name, value in table.options if name in left_out]
    kept = tuple(one for one in table.options if one not in found)
    notes = (f"{name} of the table is left out" for name, value in found if value.upper() not in ("", "DEFAULT"))
    return replace(table, options=kept), tuple(notes)


def check_copyable(table: TableDefinition) -> None:
    """Check a whole table. Raises NotCopyable."""
    for column in table.columns:
        _check_column(column)
    for constraint in table.constraints:
        _check_constraint(constraint)
    for name, value in table.options:
        known = name in _DROPPED_OPTIONS or name == "COMMENT" or _WORD.fullmatch(value)
        if name not in KEPT_OPTIONS | _DROPPED_OPTIONS or not known:
            raise NotCopyable(f"the table option {name}={value}".rstrip("="))
    if table.partitioning is not None:
        raise NotCopyable("partitions")


def is_json_check(column: ColumnDefinition) -> bool:
    """Return True if the column's only check is the one that MariaDB adds for JSON."""
    return [(check.expression, check.enforced) for check in column.checks] == [
        (f"(json_valid({quote(column.name)}))", True)
    ]


def _check_column(column: ColumnDefinition) -> None:
    name = quote(column.name)
    if column.default is not None and not (_LITERAL.fullmatch(column.default) or _MOMENT.fullmatch(column.default)):
        raise NotCopyable(f"the default {column.default} of {name}")
    if column.on_update is not None and not _MOMENT.fullmatch(column.on_update):
        raise NotCopyable(f"ON UPDATE {column.on_update} of {name}")
    if column.generated is not None:
        _check_expression(column.generated)
    if column.checks and not is_json_check(column):
        raise NotCopyable(f"the CHECK {column.checks[0].expression} of {name}")
    if column.key is not None or column.references is not None or column.type.binary:
        raise NotCopyable(f"a key, a reference or BINARY in the definition of the column {name}")
    for option, value in column.options:
        if option not in _COLUMN_OPTIONS or not (value.isdecimal() if option == "SRID" else not value):
            raise NotCopyable(f"{option} {value} of {name}")
    for word in (column.type.charset, column.type.collation):
        if word is not None and not _WORD.fullmatch(word):
            raise NotCopyable(f"the character set or collation {word!r} of {name}")


def _check_constraint(constraint: Constraint) -> None:
    if not isinstance(constraint, Key):
        raise NotCopyable(f"the constraint {constraint.constraint}")
    for part in constraint.parts:
        if part.expression is not None:
            _check_expression(part.expression)
    for option, value in constraint.options:
        if option not in _KEY_OPTIONS or not (option == "COMMENT" or _WORD.fullmatch(value or option)):
            raise NotCopyable(f"{option} {value} of the key {constraint.name}")


def _check_expression(code: Code) -> None:
    try:
        found = list(pieces(code, 0))
    except Unreadable as error:
        raise NotCopyable(f"the expression {code}: {error}") from None
    before = ""
    for piece in found:
        match piece.kind:
            case TokenKind.WORD if before == "COLLATE":
                known = piece.raw.partition("_")[0] in CHARSETS | {"binary"}
            case TokenKind.SPACE | TokenKind.NAME | TokenKind.NUMBER:
                known = True
            case TokenKind.STRING:
                known = piece.raw[0] == "'"
            case TokenKind.SIGN:
                known = piece.raw in OPERATORS
            case TokenKind.WORD:
                introduced = piece.text in _INTRODUCED and code[piece.end : piece.end + 1] == "'"
                charset = piece.raw.removeprefix("_") in CHARSETS
                known = (
                    introduced or charset or piece.raw.lower() in COMPUTING or bool(_HEXADECIMAL.fullmatch(piece.raw))
                )
            case _:
                known = False
        if not known:
            raise NotCopyable(f"{piece.raw!r} in the expression {code}")
        before = before if piece.kind is TokenKind.SPACE else piece.text
