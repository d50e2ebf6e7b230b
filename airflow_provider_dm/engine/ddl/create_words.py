r"""The words of a CREATE TABLE statement's body, every one of them known.

Upstream text is never sent as it is: what this module does not know ends in UnknownDdl. A comment that a server's
version makes part of the statement (`/*!80023 INVISIBLE */`) is the words in it. The expression of a generated column
or of a key is one word; it may hold names, literals, operators and the functions listed here, which only compute.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

from airflow_provider_dm.engine.ddl.create_table import TYPES
from airflow_provider_dm.engine.ddl.lexer import Kind, Token, Unreadable, pieces
from airflow_provider_dm.engine.schema.strings import CHARSETS

KEYS: Final = frozenset({"PRIMARY", "UNIQUE", "KEY", "FULLTEXT", "SPATIAL"})
_WORDS: Final = frozenset(
    f"{TYPES.upper()} GEOMCOLLECTION UNSIGNED ZEROFILL NOT NULL DEFAULT AUTO_INCREMENT COMMENT CHARACTER COLLATE ON "
    "UPDATE CURRENT_TIMESTAMP PRIMARY UNIQUE FULLTEXT SPATIAL KEY USING BTREE HASH ASC DESC INVISIBLE COMPRESSED "
    "SRID GENERATED ALWAYS AS VIRTUAL STORED".split()
)
_GENERATED: Final = ["GENERATED", "ALWAYS", "AS"]
JSON_CHECK: Final = "CHECK (json_valid("
"""How MariaDB writes that a LONGTEXT is JSON; the name and two parentheses follow."""

_VERSIONED: Final = (["INVISIBLE"], ["COMPRESSED"], ["SRID", "0"])
"""What a server's version may make part of the statement; 0 stands for any number."""

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
_OPERATORS: Final = frozenset("-><=!,+*/%&|^~")
_HEXADECIMAL: Final = re.compile(r"0[xX][0-9a-fA-F]+")
_VALUES: Final = frozenset({Kind.STRING, Kind.NUMBER, Kind.WORD})
_INTRODUCED: Final = frozenset({"X", "B"})
"""Letters directly before a string that make a number of it."""


class UnknownDdl(Exception):
    """A piece of the statement that is not understood; the text says which."""


def words_of(body: str) -> list[str]:
    """Return the words of what stands between the outer parentheses. Raises UnknownDdl."""
    words: list[str] = []
    clause = depth = 0
    text = Text(body)
    while text.next is not None:
        if _begins_expression(words, clause, depth, text.next.text):
            words.append(_expression(text))
            continue
        words += _word(text, words)
        depth += (words[-1] == "(") - (words[-1] == ")")
        if words[-1] == "," and not depth:
            clause = len(words)
    return words


def options_of(options: str, known: Collection[str]) -> dict[str, str]:
    """Return the table's options, `NAME=value` one behind the other. Raises UnknownDdl."""
    text, found = Text(options), {}
    while (first := text.next) is not None:
        size = 2 if first.raw == "DEFAULT" else 1
        *name, sign, value = [*text.ahead(size + 2), first, first][: size + 2]
        if sign.raw != "=" or value.kind not in _VALUES or value.raw[0] == '"' or text.said(name) not in known:
            raise UnknownDdl(f"the table option {options[first.start : first.start + 60].strip()!r}")
        found[text.said(name)] = value.raw
        text.take(size + 2)
    return found


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


class Text:
    """Pieces of a text from left to right; a comment is one, as only few of them are known."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._pieces = [piece for piece in pieces(text, 0) if piece.kind is not Kind.SPACE]
        except Unreadable as error:
            raise UnknownDdl(str(error)) from None
        self._at = 0

    def ahead(self, count: int) -> list[Token]:
        return self._pieces[self._at : self._at + count]

    @property
    def next(self) -> Token | None:
        return self._pieces[self._at] if self._at < len(self._pieces) else None

    def take(self, count: int = 1) -> str:
        """Return what stands at the next pieces, and step over them."""
        taken = self.ahead(count)
        self._at += count
        return self.said(taken)

    def said(self, taken: Sequence[Token]) -> str:
        return self.text[taken[0].start : taken[-1].end]

    def unknown(self, piece: Token) -> UnknownDdl:
        if piece.kind is Kind.WORD:
            around = self.text[max(0, piece.start - 30) : piece.start + 30].strip()
            return UnknownDdl(f"{piece.raw!r} (in {around!r})")
        return UnknownDdl(repr(self.text[piece.start : piece.start + 60].strip()))


def _word(text: Text, words: list[str]) -> list[str]:
    """Return the next word, or those of an executable comment, and step over it."""
    piece, *behind = text.ahead(7)
    match piece.kind:
        case Kind.NAME | Kind.NUMBER:
            return [text.take()]
        case Kind.STRING if piece.raw[0] == "'":
            return [text.take()]
        case Kind.OPENING:
            return _versioned(text)
        case Kind.SIGN if piece.raw in "(),=":
            return [text.take()]
        case Kind.SIGN if piece.raw == "-" and behind and behind[0].kind is Kind.NUMBER:
            return [text.take(2)]
        case Kind.WORD if piece.text == "B" and text.text[piece.end : piece.end + 1] == "'":
            return [text.take(2)]
        case Kind.WORD if piece.text == "CHECK" and len(behind) == 6:
            check, name = text.text[piece.start : behind[-1].end], behind[3]
            if name.kind is Kind.NAME and check == f"{JSON_CHECK}{name.raw}))":
                return [text.take(7)]
        case Kind.WORD if piece.text in _WORDS or names_charset(words, len(words)) or words[-1:] == ["COLLATE"]:
            return [text.take()]
    raise text.unknown(piece)


def _versioned(text: Text) -> list[str]:
    opening, *inside = text.ahead(4)
    for known in _VERSIONED:
        found = ["0" if piece.kind is Kind.NUMBER else piece.raw for piece in inside[: len(known)]]
        if found == known and [piece.kind for piece in inside[len(known) :][:1]] == [Kind.CLOSING]:
            text.take(len(known) + 2)
            return [piece.raw for piece in inside[: len(known)]]
    raise text.unknown(opening)


def _begins_expression(words: list[str], clause: int, depth: int, following: str) -> bool:
    """Tell whether an expression begins here: behind GENERATED ALWAYS AS, or as a part of a key that is no name."""
    if [word.upper() for word in words[-3:]] == _GENERATED:
        return True
    in_key = depth == 1 and words[clause].upper() in KEYS
    return in_key and words[-1] in ("(", ",") and following == "("


def _expression(text: Text) -> str:
    """Return the expression in parentheses that begins here, and step over it."""
    start = text.next.start if text.next else 0
    depth = 0
    while (piece := text.next) is not None:
        so_far = text.text[start : piece.start + 30].strip()
        introduced = piece.text in _INTRODUCED and text.text[piece.end : piece.end + 1] == "'"
        if piece.kind is Kind.WORD and not (introduced or _computes(piece.raw)):
            raise UnknownDdl(f"{piece.raw!r} in the expression {so_far!r}")
        if piece.kind in (Kind.COMMENT, Kind.OPENING, Kind.CLOSING) or piece.raw[0] == '"':
            raise UnknownDdl(f"the expression {so_far!r}")
        if piece.kind is Kind.SIGN and piece.raw not in _OPERATORS | {"(", ")"}:
            raise UnknownDdl(f"the expression {so_far!r}")
        text.take()
        depth += (piece.raw == "(") - (piece.raw == ")")
        if depth <= 0:
            if piece.raw == ")":
                return text.text[start : piece.end]
            break
    raise UnknownDdl(f"the expression {text.text[start:].strip()[:60]!r}")


def _computes(word: str) -> bool:
    known = word.lower() in _COMPUTING or word.removeprefix("_") in CHARSETS
    return known or _HEXADECIMAL.fullmatch(word) is not None
