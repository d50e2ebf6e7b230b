r"""The words of a CREATE TABLE statement's body, every one of them known.

Upstream text is never sent as it is: what this module does not know ends in UnknownDdl. A comment that a server's
version makes part of the statement (`/*!80023 INVISIBLE */`) is the words in it. The expression of a generated column
or of a key is one word; it may hold names, literals, operators and the functions listed here, which only compute.
"""

from __future__ import annotations

import re
from typing import Final

from airflow_provider_dm.engine.schema.strings import CHARSETS

TYPES: Final = (
    "TINYINT SMALLINT MEDIUMINT INT BIGINT DECIMAL FLOAT DOUBLE BIT YEAR DATE TIME DATETIME TIMESTAMP CHAR VARCHAR "
    "BINARY VARBINARY TINYTEXT TEXT MEDIUMTEXT LONGTEXT TINYBLOB BLOB MEDIUMBLOB LONGBLOB ENUM SET JSON VECTOR UUID "
    "INET4 INET6 GEOMETRY POINT LINESTRING POLYGON MULTIPOINT MULTILINESTRING MULTIPOLYGON GEOMETRYCOLLECTION "
    "GEOMCOLLECTION"
)
KEYS: Final = frozenset({"PRIMARY", "UNIQUE", "KEY", "FULLTEXT", "SPATIAL"})
_WORDS: Final = frozenset(
    f"{TYPES} UNSIGNED ZEROFILL NOT NULL DEFAULT AUTO_INCREMENT COMMENT CHARACTER SET COLLATE ON UPDATE "
    "CURRENT_TIMESTAMP PRIMARY UNIQUE FULLTEXT SPATIAL KEY USING BTREE HASH ASC DESC INVISIBLE COMPRESSED SRID "
    "GENERATED ALWAYS AS VIRTUAL STORED".split()
)
_GENERATED: Final = ["GENERATED", "ALWAYS", "AS"]
JSON_CHECK: Final = "CHECK (json_valid("
"""How MariaDB writes that a LONGTEXT is JSON; the name and two parentheses follow."""

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<name>`(?:[^`]|``)+`)|(?P<string>[bB]?'(?:[^'\\]|''|\\.)*')|(?P<number>-?\d+(?:\.\d+)?)"""
    r"""|(?P<check>CHECK[ ]\(json_valid\(`(?:[^`]|``)+`\)\))"""
    r"""|/\*M?!\d{5,6}[ ](?P<versioned>INVISIBLE|COMPRESSED|SRID[ ]\d+)[ ]?\*/"""
    r"""|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<mark>[(),=]))""",
    re.DOTALL,
)

_COMPUTE: Final = (
    "abs acos and array as ascii asin atan atan2 between bin binary bit_count bit_length both case cast ceil ceiling "
    "char char_length character_length coalesce collate concat concat_ws conv convert cos cot crc32 date date_add "
    "date_sub datediff datetime day dayofmonth dayofweek dayofyear decimal degrees div double else elt end escape exp "
    "extract false field find_in_set floor for from from_days greatest hex hour if ifnull in inet6_aton inet6_ntoa "
    "inet_aton inet_ntoa instr integer interval is isnull json json_array json_contains json_depth json_extract "
    "json_keys json_length json_object json_quote json_type json_unquote json_valid json_value lcase leading least "
    "left length like ln locate log log10 log2 lower lpad ltrim makedate maketime md5 microsecond mid minute mod "
    "month not null nullif oct octet_length or ord pi position pow power quarter quote radians real regexp "
    "regexp_like repeat replace reverse right rlike round rpad rtrim sec_to_time second sha sha1 sha2 sign signed sin "
    "soundex space sqrt st_srid st_x st_y strcmp substr substring substring_index tan then time time_to_sec timediff "
    "to_days to_seconds trailing trim true truncate ucase unhex unsigned upper using weekday weekofyear when xor year "
    "yearweek"
)
"""Functions and words of expressions. They read and change nothing but their arguments, nor wait, nor ask the time."""
_COMPUTING: Final = frozenset(_COMPUTE.split())
_EXPRESSION: Final = re.compile(
    r"""\s*(?:(?P<name>`(?:[^`]|``)+`)|(?P<string>'(?:[^'\\]|''|\\.)*')|(?P<hex>[xXbB]'[0-9a-fA-F]*'|0x[0-9a-fA-F]+)"""
    r"""|(?P<number>\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<open>\()|(?P<close>\))"""
    r"""|(?P<operator>->>|->|<=>|<=|>=|<>|!=|<<|>>|\|\||&&|,|\+|-(?!-)|/(?!\*)|\*(?!/)|[%<>=&|^~!]))""",
    re.DOTALL,
)


class UnknownDdl(Exception):
    """A piece of the statement that is not understood; the text says which."""


def words_of(body: str) -> list[str]:
    """Return the words of what stands between the outer parentheses. Raises UnknownDdl."""
    words: list[str] = []
    at = clause = depth = 0
    while body[at:].strip():
        if _begins_expression(words, clause, depth, body[at:].lstrip()):
            text, at = _expression(body, at)
            words.append(text)
            continue
        match = _TOKEN.match(body, at)
        if match is None:
            raise UnknownDdl(repr(body[at : at + 60].strip()))
        word = match["word"]
        if word is not None and word.upper() not in _WORDS and not names_charset(words, len(words)):
            if words[-1:] != ["COLLATE"]:
                raise UnknownDdl(f"{word!r} (in {body[max(0, at - 30) : at + 30].strip()!r})")
        words += match["versioned"].split() if match["versioned"] else [match[0].strip()]
        depth += (words[-1] == "(") - (words[-1] == ")")
        if words[-1] == "," and not depth:
            clause = len(words)
        at = match.end()
    return words


def names_charset(words: list[str], index: int) -> bool:
    """Tell whether the word at `index` is what CHARACTER SET names."""
    return [word.upper() for word in words[max(0, index - 2) : index]] == ["CHARACTER", "SET"]


def clauses_of(words: list[str]) -> list[list[str]]:
    """Return one list of words for each column and key."""
    clauses: list[list[str]] = [[]]
    depth = 0
    for word in words:
        depth += (word == "(") - (word == ")")
        if word == "," and not depth:
            clauses.append([])
        else:
            clauses[-1].append(word)
    return clauses


def _begins_expression(words: list[str], clause: int, depth: int, rest: str) -> bool:
    """Tell whether an expression begins here: behind GENERATED ALWAYS AS, or as a part of a key that is no name."""
    if [word.upper() for word in words[-3:]] == _GENERATED:
        return True
    in_key = depth == 1 and words[clause].upper() in KEYS
    return in_key and words[-1] in ("(", ",") and rest.startswith("(")


def _expression(body: str, at: int) -> tuple[str, int]:
    """Return (text, where it ends) of an expression in parentheses that begins at `at`."""
    start, depth = at, 0
    while True:
        match = _EXPRESSION.match(body, at)
        if match is None:
            raise UnknownDdl(f"the expression {body[start : at + 30].strip()!r}")
        word = match["word"]
        if word is not None and word.lower() not in _COMPUTING and word.removeprefix("_") not in CHARSETS:
            raise UnknownDdl(f"{word!r} in the expression {body[start : at + 30].strip()!r}")
        at = match.end()
        depth += (match["open"] is not None) - (match["close"] is not None)
        if depth <= 0:
            break
    if match["close"] is None:
        raise UnknownDdl(f"the expression {body[start:at].strip()!r}")
    return body[start:at].strip(), at
