r"""A coarse form of text, which is the same for two texts that a collation takes for equal. For bucket hashing.

What a collation takes for equal only its server's tables say: 'é' may be 'e', 'ß' may be 'ss', a zero-width space
nothing. So the target is asked for the weights of the characters (`target/weights.py`), and a fold is made of them:

    a weight            the string that WEIGHT_STRING gives, in units of the length that 'a' has
    its letters         those units that are the whole weight of a character of the alphabet, each written as the first
                        such character: 'a', 'A', 'á' are A; all other units count for nothing
    the fold of a text  the letters of its characters, one after the other

Equal texts have equal weights, but for the padding; spaces count for nothing here, so they have equal letters. That
needs that the weight of a text is that of its characters, one after the other, as far as letters go. So:

- Only collations count of which this is known: `general_ci`, those of latin1 and ascii, and the Unicode algorithm's
  without a language. A language has letters of several characters ('ch', 'aa'). The root's contractions are of other
  scripts (or add what is no letter, as 'l·' does). A text with all pairs of letters is asked for, too: `pairs`.
- The alphabet is where nothing contracts: for the Unicode algorithm ASCII letters and digits, elsewhere everything
  below U+0600 but the space, the question mark, which stands for what a charset lacks, and what is one for many
  characters.
- Of collations with several levels (`as_cs`) the first decides: that of `ai_ci`.
- Ideographs, Hangul, Tangut and private characters are no letters, nor is anything in planes 2 and beyond: `blocks_of`.

The weights of a name never change, as indexes on disk are sorted by them; `digest` notices if they do (`plan`).
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from string import ascii_letters, digits
from typing import Final

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


def is_known(collation: str) -> bool:
    """Tell whether a fold may be made of a collation's weights (module docstring)."""
    return bool(_UNICODE.fullmatch(collation) or _SIMPLE.fullmatch(collation))


def first_level(collation: str) -> str:
    """Return the collation whose weights are the first level of this one's.

    >>> first_level("utf8mb4_0900_as_cs"), first_level("utf8mb4_uca1400_nopad_as_ci"), first_level("latin1_general_cs")
    ('utf8mb4_0900_ai_ci', 'utf8mb4_uca1400_nopad_ai_ci', 'latin1_general_cs')
    """
    return re.sub(r"_a[is]_c[is]$", "_ai_ci", collation)


def blocks_of(collation: str) -> tuple[int, ...]:
    """Return the blocks of 256 code points in which a collation may have characters with letters.

    >>> [len(blocks_of(name)) for name in ("latin1_swedish_ci", "utf8mb4_general_ci", "utf8mb4_0900_ai_ci")]
    [5, 69, 260]
    """
    if collation.partition("_")[0] in ("latin1", "ascii"):
        return tuple(sorted({ord(character) >> 8 for character in LATIN1}))
    plane_1 = (*range(0x100, 0x170), *range(0x1B0, 0x200)) if _UNICODE.fullmatch(collation) else (_ASTRAL >> 8,)
    return (*range(0x34), *range(0xA4, 0xAC), 0xD7, *range(0xF9, 0x100), *plane_1)


def all_pairs() -> str:
    """Return a text that has every letter and digit behind every other."""
    return "".join(map("".join, product(ALPHANUMERIC, repeat=2)))


@dataclass(frozen=True)
class TextFold:
    """The fold of one collation of the target. It is equal to another one with the same letters."""

    collation: str
    digest: str
    letters: Mapping[int, str] = field(compare=False, repr=False)
    """Code point -> letters, of those that have any."""

    @staticmethod
    def takes(charset: str | None) -> bool:
        """Tell whether text in a source's charset has a form."""
        return _decoder(charset) is not None

    def form(self, charset: str | None) -> Callable[[bytes], bytes] | None:
        """Return the function from text in a source's charset to its fold; None where that is not decoded here."""
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
    # What cannot be decoded cannot be in the target either, so it is equal to nothing there.
    if charset in UTF8_CHARSETS or charset == "ascii":
        return lambda value: value.decode("utf-8", "replace")
    return latin1_text if charset == "latin1" else None


def fold_of(collation: str, weights: Mapping[int, bytes], pairs: bytes) -> TextFold | None:
    """Return the fold of a collation; None where its weights are not of the form that a fold needs.

    `weights`: of each code point of its blocks, as WEIGHT_STRING gives them; `pairs`: of `all_pairs`.
    """
    width = len(weights.get(ord("a"), b""))
    if not width or any(len(weight) % width for weight in weights.values()):
        return None
    if b"".join(weights.get(ord(one), b"") for one in all_pairs()) != pairs:
        return None
    alphabet = map(ord, ALPHANUMERIC) if _UNICODE.fullmatch(collation) else range(_SIMPLE_ALPHABET)
    left_out = {weights.get(code) for code in (ord(" "), ord("?"), _ASTRAL)}
    written: dict[bytes, str] = {}
    for code in sorted(alphabet):
        unit = weights.get(code, b"")
        if len(unit) == width and unit not in left_out:
            written.setdefault(unit, chr(code))
    letters: dict[int, str] = {}
    for code, weight in weights.items():
        units = (weight[at : at + width] for at in range(0, len(weight), width))
        if found := "".join([written[unit] for unit in units if unit in written]):
            letters[code] = found
    if any(len(letters.get(code, "")) > 1 or not letters.get(code, "").isascii() for code in range(128)):
        return None
    if any(ord(one) not in letters for one in ALPHANUMERIC):
        return None
    digest = hashlib.sha256(repr(sorted(letters.items())).encode()).hexdigest()[:16]
    return TextFold(collation, digest, letters)
