r"""A coarse form of text for hashing rows to buckets: two texts that a collation treats as equal have the same form.

Only the server's tables know which texts a collation treats as equal: 'é' may equal 'e', 'ß' may equal 'ss', a
zero-width space may be ignored. So the weights of the characters are read from the target (`read_folds`),
and a fold is computed from them:

    a weight            the result of WEIGHT_STRING, in units of the length of the weight of 'a'
    its letters         the units that are the whole weight of a character of the alphabet, each written as the first
                        such character: 'a', 'A', 'á' are A; all other units are ignored
    the fold of a text  the concatenated letters of its characters

Equal texts have equal weights except for padding; spaces are ignored here, so equal texts have equal letters. This
requires that the weight of a text without its other units is the concatenation of its characters' weights:

- Only collations for which this is known are supported: `general_ci`, those of latin1 and ascii, and the Unicode
  collation algorithm without a language. Languages have letters of several characters ('ch', 'aa'). The root's
  contractions belong to other scripts (or add a unit that is not a letter, as 'l·' does). The weight of a text with all
  pairs of letters is verified as well (`all_pairs`).
- The alphabet has no contractions: for the Unicode algorithm it is the ASCII letters and digits, otherwise everything
  below U+0600 except the space, the question mark, which replaces characters that a charset lacks, and a character that
  has the same weight as many others.
- Collations with several levels (`as_cs`) are folded by their first level, that of `ai_ci`.
- Ideographs, Hangul, Tangut and private characters are not letters, nor is anything in planes 2 and higher:
  `blocks_of`.

The weights of a collation never change, as indexes on disk are sorted by them. The fingerprint of a plan contains
`digest`, which would show a change.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from string import ascii_letters, digits
from typing import Final

import pymysql
from pymysql.constants import ER

from airflow_provider_dm.engine.mysql.connection import Connection, query, server_info
from airflow_provider_dm.engine.schema.collation_weights import weight_of, weights_in
from airflow_provider_dm.engine.schema.strings import LATIN1, UTF8_CHARSETS, latin1_text

ALPHANUMERIC: Final = digits + ascii_letters
_UNICODE: Final = re.compile(
    r"(?:utf8|utf8mb3|utf8mb4)_(?:(?:unicode|unicode_520)_(?:nopad_)?ci|uca1400_(?:nopad_)?a[is]_c[is])"
    r"|utf8mb4_0900_a[is]_c[is]"
)
_SIMPLE: Final = re.compile(
    r"(?:utf8|utf8mb3|utf8mb4|ascii)_general_(?:nopad_)?ci"
    r"|latin1_(?:swedish|general|german1|german2|danish|spanish)_(?:nopad_)?ci|latin1_general_cs"
)
_SIMPLE_ALPHABET: Final = 0x600
_ASTRAL: Final = 0x1F600


def can_fold(collation: str) -> bool:
    """Return True if a fold can be computed from a collation's weights (see the module docstring)."""
    return bool(_UNICODE.fullmatch(collation) or _SIMPLE.fullmatch(collation))


def first_level(collation: str) -> str:
    """Return the collation that has only the first level of a collation's weights.

    >>> first_level("utf8mb4_0900_as_cs"), first_level("utf8mb4_uca1400_nopad_as_ci"), first_level("latin1_general_cs")
    ('utf8mb4_0900_ai_ci', 'utf8mb4_uca1400_nopad_ai_ci', 'latin1_general_cs')
    """
    return re.sub(r"_a[is]_c[is]$", "_ai_ci", collation)


def blocks_of(collation: str) -> tuple[int, ...]:
    """Return the blocks of 256 code points in which a collation can have characters with letters.

    >>> [len(blocks_of(name)) for name in ("latin1_swedish_ci", "utf8mb4_general_ci", "utf8mb4_0900_ai_ci")]
    [5, 69, 260]
    """
    if collation.partition("_")[0] in ("latin1", "ascii"):
        return tuple(sorted({ord(character) >> 8 for character in LATIN1}))
    plane_1 = (*range(0x100, 0x170), *range(0x1B0, 0x200)) if _UNICODE.fullmatch(collation) else (_ASTRAL >> 8,)
    return (*range(0x34), *range(0xA4, 0xAC), 0xD7, *range(0xF9, 0x100), *plane_1)


def all_pairs() -> str:
    """Return a text in which every letter and digit follows every other."""
    return "".join(map("".join, product(ALPHANUMERIC, repeat=2)))


@dataclass(frozen=True)
class TextFold:
    """The fold of one collation of the target. Instances with the same letters are equal."""

    collation: str
    digest: str
    letters: Mapping[int, str] = field(compare=False, repr=False)
    """Code point -> letters, for characters that have letters."""

    @staticmethod
    def supports(charset: str | None) -> bool:
        """Return True if text in a source's charset can be folded."""
        return _decoder(charset) is not None

    def form(self, charset: str | None) -> Callable[[bytes], bytes] | None:
        """Return a function from text in a source's charset to its fold; None if the charset cannot be decoded."""
        decode = _decoder(charset)
        if decode is None:
            return None
        letters = defaultdict(str, self.letters)
        drop = bytes(code for code in range(128) if code not in letters)
        ascii_letters_of = bytes(ord(letters.get(code, "\0")) if code < 128 else code for code in range(256))

        def fold(value: bytes) -> bytes:
            if value.isascii():
                return value.translate(ascii_letters_of, drop)
            return decode(value).translate(letters).encode("utf-8")

        return fold


def _decoder(charset: str | None) -> Callable[[bytes], str] | None:
    # Text that cannot be decoded cannot be in the target either, so it equals nothing there.
    if charset in UTF8_CHARSETS or charset == "ascii":
        return lambda value: value.decode("utf-8", "replace")
    return latin1_text if charset == "latin1" else None


def fold_of(collation: str, weights: Mapping[int, bytes], pairs: bytes) -> TextFold | None:
    """Return the fold of a collation; None if its weights do not have the required format.

    `weights`: the WEIGHT_STRING of each code point in `blocks_of`. `pairs`: the WEIGHT_STRING of `all_pairs`.
    """
    width = len(weights.get(ord("a"), b""))
    if not width or any(len(weight) % width for weight in weights.values()):
        return None
    if b"".join(weights.get(ord(character), b"") for character in all_pairs()) != pairs:
        return None
    alphabet = map(ord, ALPHANUMERIC) if _UNICODE.fullmatch(collation) else range(_SIMPLE_ALPHABET)
    left_out = {weights.get(code) for code in (ord(" "), ord("?"), _ASTRAL)}
    letter_of: dict[bytes, str] = {}
    for code in sorted(alphabet):
        unit = weights.get(code, b"")
        if len(unit) == width and unit not in left_out:
            letter_of.setdefault(unit, chr(code))
    letters: dict[int, str] = {}
    for code, weight in weights.items():
        units = (weight[at : at + width] for at in range(0, len(weight), width))
        if found := "".join([letter_of[unit] for unit in units if unit in letter_of]):
            letters[code] = found
    if any(len(letters.get(code, "")) > 1 or not letters.get(code, "").isascii() for code in range(128)):
        return None
    if any(ord(character) not in letters for character in ALPHANUMERIC):
        return None
    digest = hashlib.sha256(repr(sorted(letters.items())).encode()).hexdigest()[:16]
    return TextFold(collation, digest, letters)


_known: dict[tuple[str, int, str, str], TextFold | None] = {}


def read_folds(connection: Connection, collations: Iterable[str]) -> dict[str, TextFold]:
    """Return the folds of these collations, of those that have one. Raises IncompleteResult."""
    wanted = sorted(name for name in set(collations) if can_fold(name))
    info = server_info(connection) if wanted else None
    if info is None or not info.capabilities.weighs_text:
        return {}
    folds: dict[str, TextFold] = {}
    for name in wanted:
        key = (info.version, info.server_id, info.server_uuid, name)
        if key not in _known:
            _known[key] = _read(connection, name)
        fold = _known[key]
        if fold is not None:
            folds[name] = fold
    return folds


def _read(connection: Connection, collation: str) -> TextFold | None:
    """Return the fold; None also if the server lacks the collation: a table whose DDL was interrupted is planned with
    the source's definition until the DDL is completed (`plan_for`)."""
    first, blocks = first_level(collation), blocks_of(collation)
    codes = (256 * block + number for block in blocks for number in range(256))
    try:
        found = zip(codes, weights_in(connection, first, blocks), strict=True)
    except pymysql.err.OperationalError as error:
        if error.args[0] == ER.UNKNOWN_COLLATION:
            return None
        raise
    weights = {code: weight for code, weight in found if weight is not None}
    ((pairs,),) = query(connection, f"SELECT {weight_of('%s', first)}", (all_pairs(),))
    return fold_of(collation, weights, bytes(pairs or b""))
