"""The weights of characters under a collation, read from a server: the exact way in which it compares text.

The weight of a text is the concatenation of its characters' weights. This holds for collations without contractions:
`general_ci`, those of latin1, and the root of the Unicode collation algorithm 4.0 (`unicode_ci`), 5.2 and 9.0. Verified
on MySQL 9.7, MariaDB 10.11 and 11.8: two characters of one block of the basic plane, or a letter and a combining mark,
have together the weights that they have separately. It does not hold for a language's collations, nor for `uca1400`.

A collation with PAD SPACE (`pads`) pads the shorter text: its weight is extended by that of spaces.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Final

from airflow_provider_dm.engine.mysql.connection import Connection, query
from airflow_provider_dm.engine.mysql.errors import IncompleteResult
from airflow_provider_dm.engine.schema.errors import CharacterWithoutWeight

_KNOWN: Final = re.compile(
    r"(?:utf8|utf8mb3|utf8mb4)_(?:general|unicode|unicode_520)_(?:nopad_)?ci|utf8mb4_0900_ai_ci"
    r"|latin1_(?:general|german1|german2|danish|spanish)_(?:nopad_)?ci"
)
_CHARACTERS: Final = {"latin1": 0x2200, "utf8mb4": 0x32400}
"""The number of code points that are read; by default the basic plane. Of higher code points only private characters
and tags are in a charset."""
_AT_ONCE: Final = 0x8000
_DIGITS: Final = "(SELECT 0 n" + "".join(f" UNION ALL SELECT {number}" for number in range(1, 16)) + ")"
CHARACTER: Final = "CONVERT(UNHEX(LPAD(HEX(code), 8, '0')) USING utf32)"
"""SQL for the character of a code point."""


def is_compared_by_weights(collation: str) -> bool:
    """Return True if a collation compares text by its characters' weights (see the module docstring)."""
    return _KNOWN.fullmatch(collation) is not None


@dataclass(frozen=True)
class CollationWeights:
    """The weights of one collation. Picklable; equal to another instance with the same weights."""

    collation: str
    digest: str
    packed: bytes = field(compare=False, repr=False)

    def of(self, text: str) -> bytes:
        """Return the weight of a text. Raises CharacterWithoutWeight."""
        weights = _unpacked(self)
        try:
            return b"".join([weights[ord(character)] for character in text])
        except IndexError:
            raise CharacterWithoutWeight from None

    def order(self, left: bytes, right: bytes, *, pads: bool) -> int:
        """Compare the weights of two texts: a negative number, 0 or a positive number."""
        if pads and len(left) != len(right):
            space = _unpacked(self)[ord(" ")]
            missing = (len(left) - len(right)) // len(space)
            left, right = left + space * -missing, right + space * missing
        return (left > right) - (left < right)


@lru_cache(maxsize=16)
def _unpacked(weights: CollationWeights) -> list[bytes]:
    data = zlib.decompress(weights.packed)
    count = _count(weights.collation)
    return [data[start:end] for start, end in pairwise(accumulate(data[:count], initial=count))]


def _count(collation: str) -> int:
    return _CHARACTERS.get(collation.partition("_")[0], 0x10000)


_read: dict[str, CollationWeights] = {}
"""By server and collation; each process reads them once."""


def read_weights(connection: Connection, server: str, collations: Iterable[str]) -> tuple[CollationWeights, ...]:
    """Return the weights of collations that compare by weights. `server`: the name of the connection's server.

    Raises IncompleteResult, and the server's error if it lacks a collation.
    """
    found = []
    for name in sorted(collations):
        key = f"{server}/{name}"
        if key not in _read:
            _read[key] = _queried(connection, name)
        found.append(_read[key])
    return tuple(found)


def _queried(connection: Connection, collation: str) -> CollationWeights:
    weights: list[bytes] = []
    count = _count(collation)
    for first in range(0, count, _AT_ONCE):
        blocks = range(first >> 8, min(first + _AT_ONCE, count) >> 8)
        weights += (weight or b"" for weight in weights_in(connection, collation, blocks))
    data = bytes(map(len, weights)) + b"".join(weights)
    return CollationWeights(collation, hashlib.sha256(data).hexdigest()[:16], zlib.compress(data))


def weights_in(connection: Connection, collation: str, blocks: Iterable[int]) -> Iterator[bytes | None]:
    """Return the weights of all characters in blocks of 256, in order. Raises IncompleteResult."""
    blocks = sorted(blocks)
    numbers = f"SELECT {blocks[0]} n" + "".join(f" UNION ALL SELECT {block}" for block in blocks[1:])
    codes = f"SELECT 256 * c.n + 16 * b.n + a.n code FROM ({numbers}) c, {_DIGITS} b, {_DIGITS} a"
    weight = weight_of(CHARACTER, collation)
    rows = query(connection, f"SELECT {weight} FROM ({codes}) codes ORDER BY code")
    if len(rows) != 256 * len(blocks):
        raise IncompleteResult(f"the weights of {collation}", len(rows), 256 * len(blocks))
    return (None if one is None else bytes(one) for (one,) in rows)


def weight_of(text: str, collation: str) -> str:
    """Return the SQL for the weight of a text."""
    return f"WEIGHT_STRING(CONVERT({text} USING {collation.partition('_')[0]}) COLLATE {collation})"
