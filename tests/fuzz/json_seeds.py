"""Random JSON documents and their texts, which are known again.

A seed log needs the document of a text that was drawn for a cell; reading JSON text is nothing that the oracle does, so
what `text_of` has printed is remembered.
"""

from random import Random

from tests.fuzz.json_text import DATE, DATETIME, DECIMAL, TIME, packed_time, text
from tests.fuzz.json_value import Document, Opaque


def some(dice: Random, depth: int = 0) -> Document:
    """A random document."""
    if depth < 3 and dice.random() < (0.9 if depth == 0 else 0.3):
        count = dice.choice((0, 1, 2, 3))
        if dice.random() < 0.5:
            return [some(dice, depth + 1) for _ in range(count)]
        keys = dice.sample(("a", "b", "ab", "", "é", 'q"', "a key"), count)
        return {key: some(dice, depth + 1) for key in sorted(keys, key=lambda key: (len(key.encode()), key.encode()))}
    scalars: list[Document] = [
        *(None, True, False, 0, -1, 40_000, -(1 << 31), 1 << 40, (1 << 64) - 1, -(1 << 63), dice.getrandbits(16)),
        *(0.5, -0.0, 1e300, 1e-9, dice.uniform(-1, 1), "", 'x"\\\n\x01é😀', "t" * dice.choice((3, 130))),
        Opaque(DECIMAL, b"\x05\x02" + _some_decimal(dice)),
        Opaque(DATETIME, packed_time(dice.randint(0, 9999), 12, 31, 23, 59, 58, 999_999)),
        Opaque(TIME, packed_time(0, 0, 0, dice.randint(0, 500), 1, 2, 30)),
        Opaque(DATE, packed_time(2020, dice.randint(0, 12), 10, 0, 0, 0, 0)),
        Opaque(252, dice.randbytes(dice.choice((0, 5, 60)))),
    ]
    return dice.choice(scalars)


def _some_decimal(dice: Random) -> bytes:
    """DECIMAL(5,2): two bytes of three digits, one of two."""
    cell = dice.randrange(1000).to_bytes(2, "big") + bytes([dice.randrange(100)])
    if dice.random() < 0.5:
        return bytes([cell[0] | 0x80]) + cell[1:]
    return bytes(byte ^ 0xFF for byte in bytes([cell[0] | 0x80]) + cell[1:])


def parsed(value: bytes) -> Document:
    """The document of a text that `text` made, for writing seeds: opaque values only as far as `some` makes them."""
    return _texts[value]


_texts: dict[bytes, Document] = {}


def some_text(dice: Random) -> bytes:
    """The text of a random document, which `parsed` knows again."""
    return text_of(some(dice))


def text_of(document: Document) -> bytes:
    """Its text, which `parsed` knows again."""
    found = text(document)
    _texts.setdefault(found, document)
    return found
