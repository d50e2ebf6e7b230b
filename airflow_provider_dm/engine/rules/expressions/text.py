"""Comparison of text, for collations whose order is known exactly.

These are collations that compare code points (`…_bin`), those with one byte a character whose order is a short table,
and those that compare by the weights of characters, which are read from the server (`schema/collation_weights.py`).
`COLLATE utf8mb4_bin` in an expression chooses a known collation. A collation pads the shorter text with spaces, except
those of MySQL 8 (`_0900_`) and MariaDB's `nopad` collations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Final

from airflow_provider_dm.engine.errors import InvariantBroken
from airflow_provider_dm.engine.schema.collation_weights import CollationWeights, is_compared_by_weights
from airflow_provider_dm.engine.schema.strings import UTF8_CHARSETS, charset_bytes, latin1_text

_SWEDISH: Final = (
    bytes([*range(0x61), *range(0x41, 0x5B), *range(0x7B, 0xC0)])
    + b"AAAA\\[\\CEEEEIIIIDNOOOO]\xd7\xd8UUUYY\xde\xdf"
    + b"AAAA\\[\\CEEEEIIIIDNOOOO]\xf7\xd8UUUYY\xde\xff"
)
_UPPER: Final = bytes(range(256)).upper()
_TABLES: Final = {
    "latin1_swedish_ci": _SWEDISH,
    "latin1_swedish_nopad_ci": _SWEDISH,
    "ascii_general_ci": _UPPER,
    "ascii_general_nopad_ci": _UPPER,
}
ASCII_SAFE: Final = re.compile(
    r"(?:utf8|utf8mb3|utf8mb4)_(?:general|unicode|unicode_520|0900_ai)(?:_nopad)?_ci|"
    r"(?:utf8|utf8mb3|utf8mb4)_uca1400(?:_nopad)?_ai_ci|latin1_swedish(?:_nopad)?_ci|ascii_general(?:_nopad)?_ci"
)
"""Collations that compare printable ASCII as case-folding does: letters case-insensitively, all else exactly."""


@dataclass(frozen=True)
class TextOrder:
    """A known collation, which compares bytes in the column's charset.

    `weights`: None if it does not compare by weights, or they are not read yet: then no text can be compared.
    """

    charset: str
    name: str
    weights: CollationWeights | None = None

    @cached_property
    def _table(self) -> bytes | None:
        return _TABLES.get(self.name)

    def order(self, left: bytes, right: bytes) -> int:
        """Compare two texts: a negative number, 0 or a positive number. Raises CharacterWithoutWeight."""
        if is_compared_by_weights(self.name):
            one, other = _weight(self, left), _weight(self, right)
            return self._weights.order(one, other, pads=pads(self.name))
        if pads(self.name):
            length = max(len(left), len(right))
            left, right = left.ljust(length), right.ljust(length)
        if self._table is not None:
            left, right = left.translate(self._table), right.translate(self._table)
        return (left > right) - (left < right)

    def encode(self, text: str) -> bytes | None:
        """Return a constant in this charset; None if the charset lacks a character."""
        return charset_bytes(text, self.charset)

    def matcher(self, pattern: str) -> Callable[[bytes], bool] | None:
        """Return a function that is True for text LIKE the pattern, with backslash as escape; None if it is unknown."""
        encoded = self.encode(pattern)
        if encoded is None:
            return None
        if is_compared_by_weights(self.name):
            return self._weight_matcher(pattern)
        if self._table is not None:
            table = self._table
            # Wildcards are characters of the pattern alone, so it is split before its characters are folded.
            parts = _pieces(encoded.decode("latin1"))
            expression = "".join(
                part if wild else re.escape(part.encode("latin1").translate(table).decode("latin1"))
                for part, wild in parts
            )
            compiled = re.compile(expression, re.DOTALL)
            return lambda value: compiled.fullmatch(value.translate(table).decode("latin1")) is not None
        expression = "".join(part if wild else re.escape(part) for part, wild in _pieces(pattern))
        by_text = re.compile(expression, re.DOTALL)
        return lambda value: by_text.fullmatch(self.decode(value)) is not None

    def _weight_matcher(self, pattern: str) -> Callable[[bytes], bool]:
        """Return the same function for a collation in which characters of equal weight match."""
        first: dict[bytes, str] = {}

        def alike(text: str) -> str:
            return "".join([first.setdefault(self._weights.of(character), character) for character in text])

        @cache
        def compiled() -> re.Pattern[str]:
            expression = "".join(part if wild else re.escape(alike(part)) for part, wild in _pieces(pattern))
            return re.compile(expression, re.DOTALL)

        return lambda value: compiled().fullmatch(alike(self.decode(value))) is not None

    def decode(self, value: bytes) -> str:
        return latin1_text(value) if self.charset == "latin1" else value.decode("utf-8")

    @property
    def _weights(self) -> CollationWeights:
        if self.weights is None:
            raise InvariantBroken("a filter's rows are compared with the weights of its collations", self.name)
        return self.weights


@lru_cache(maxsize=1 << 14)
def _weight(collation: TextOrder, value: bytes) -> bytes:
    return collation._weights.of(collation.decode(value))


def _pieces(pattern: str) -> list[tuple[str, bool]]:
    r"""Split a pattern into (text, False) and (regular expression of a wildcard, True).

    >>> _pieces(r"a\%_%")
    [('a', False), ('%', False), ('.', True), ('.*', True)]
    """
    wild = {"%": ".*", "_": "."}
    tokens = re.findall(r"\\.|.", pattern, re.DOTALL)
    return [(wild[token], True) if token in wild else (token[-1], False) for token in tokens]


def pads(collation: str) -> bool:
    """Return True if a collation ignores trailing spaces.

    >>> [pads(name) for name in ("utf8mb4_bin", "utf8mb4_0900_bin", "utf8mb4_nopad_bin", "utf8mb4_uca1400_ai_ci")]
    [True, False, False, True]
    """
    return not ("_0900_" in collation or "_nopad_" in collation or collation == "binary")


def known_order(
    charset: str | None, collation: str | None, weights: Iterable[CollationWeights] = ()
) -> TextOrder | None:
    """Return the collation if it is known, with its weights if they are in `weights`."""
    if charset is None or collation is None or not (charset in UTF8_CHARSETS or charset in ("latin1", "ascii")):
        return None
    if is_compared_by_weights(collation):
        return TextOrder(charset, collation, next((one for one in weights if one.collation == collation), None))
    return TextOrder(charset, collation) if collation.endswith("_bin") or collation in _TABLES else None


def folded(text: str, collation: str) -> str | None:
    """Return printable ASCII in a form that is equal for texts that the collation treats as equal; None if unknown.

    >>> folded("Active ", "utf8mb4_general_ci"), folded("Active ", "utf8mb4_0900_ai_ci"), folded("é", "utf8mb4_bin")
    ('active', 'active ', None)
    """
    if not all(" " <= character <= "~" for character in text):
        return None
    if not collation.endswith("_bin"):
        if ASCII_SAFE.fullmatch(collation) is None:
            return None
        text = text.lower()
    return text.rstrip(" ") if pads(collation) else text
