"""Random JSON documents and partial updates that fit them, and their texts, which are known again.

A seed log needs the document of a text that was drawn for a cell; reading JSON text is nothing that the oracle does, so
what `text_of` has printed is remembered.
"""

from collections.abc import Iterator
from random import Random

from tests.fuzz.json_changes import INSERT, REMOVE, REPLACE, Change, Leg, changed
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


def some_changes(dice: Random, document: Document) -> list[Change]:
    """A few that fit."""
    changes: list[Change] = []
    for _ in range(dice.choice((1, 1, 2, 3))):
        places = list(_places(document, ()))
        if not places:
            break
        path, container = dice.choice(places)
        if isinstance(container, dict):
            new = f"new{len(changes)}"
            keys = list(container)
            options = [Change(INSERT, (*path, new), some(dice, 3))]
            if keys:
                key = dice.choice(keys)
                options += [Change(REPLACE, (*path, key), some(dice, 2)), Change(REMOVE, (*path, key))]
        else:
            options = [Change(INSERT, (*path, dice.randint(0, len(container))), some(dice, 3))]
            if container:
                index = dice.randrange(len(container))
                options += [Change(REPLACE, (*path, index), some(dice, 2)), Change(REMOVE, (*path, index))]
        changes.append(dice.choice(options))
        document = changed(document, changes[-1:])
    return changes


def _places(
    document: Document, path: tuple[Leg, ...]
) -> Iterator[tuple[tuple[Leg, ...], list[Document] | dict[str, Document]]]:
    """Containers and how to get there."""
    if isinstance(document, dict):
        yield path, document
        for key, value in document.items():
            yield from _places(value, (*path, key))
    elif isinstance(document, list):
        yield path, document
        for index, value in enumerate(document):
            yield from _places(value, (*path, index))


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
