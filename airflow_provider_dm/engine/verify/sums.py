"""Sums of row hashes by class: a fingerprint of a table's rows. The sums of pieces and of shards add up.

Each row has a 128-bit hash with a fixed seed. The rows of a class are counted, and both halves of their hashes are
added modulo 2^64. XOR would be wrong: equal duplicates would cancel out. The low 8 bits of the first half assign a row
to one of 256 classes, the next 8 bits to a class within that class, and so on: `HashFocus` is one class. If the sums
of all classes are equal, so are the tables, except with a probability of about 2^-128. An unequal class is read again
one level deeper, until it is small enough to compare its rows one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import xxhash
from numpy.typing import NDArray

LEVEL_BITS: Final = 8
CLASSES: Final = 1 << LEVEL_BITS
SEED: Final = 0x444D_7665_7269_6679

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class HashFocus:
    """The rows whose hash ends with `value`, a number of `level` times 8 bits. Level 0 is all rows."""

    level: int = 0
    value: int = 0

    def inside(self, number: int) -> HashFocus:
        """Return the focus on class `number` inside this focus."""
        return HashFocus(self.level + 1, self.value | number << self.level * LEVEL_BITS)


@dataclass(eq=False)
class Sums:
    """The number of rows and the sums of both hash halves, for each class."""

    counts: Words
    first: Words
    second: Words

    @classmethod
    def zero(cls) -> Sums:
        return cls(*(np.zeros(CLASSES, dtype=np.uint64) for _ in range(3)))

    @property
    def rows(self) -> int:
        return int(self.counts.sum())

    def add(self, hashes: Words, focus: HashFocus) -> None:
        """Add rows given by `hash_rows`; ignore rows outside the focus."""
        hashes = hashes[in_focus(hashes, focus)]
        classes = ((hashes[:, 0] >> np.uint64(focus.level * LEVEL_BITS)) & np.uint64(CLASSES - 1)).astype(np.intp)
        self.counts += np.bincount(classes, minlength=CLASSES).astype(np.uint64)
        np.add.at(self.first, classes, hashes[:, 0])
        np.add.at(self.second, classes, hashes[:, 1])

    def add_all(self, other: Sums) -> None:
        self.counts += other.counts
        self.first += other.first
        self.second += other.second

    def unequal(self, other: Sums) -> list[int]:
        """Return the numbers of the classes in which the two differ."""
        differs = (self.counts != other.counts) | (self.first != other.first) | (self.second != other.second)
        return [int(number) for number in np.flatnonzero(differs)]


def total(parts: Iterable[Sums]) -> Sums:
    """Return the sum over all pieces of one side."""
    whole = Sums.zero()
    for part in parts:
        whole.add_all(part)
    return whole


def hash_rows(rows: Iterable[bytes]) -> Words:
    """Return the hash of each row as two words."""
    digest = xxhash.xxh3_128_digest
    joined = b"".join([digest(row, SEED) for row in rows])
    return np.frombuffer(joined, dtype=">u8").astype(np.uint64).reshape(-1, 2)


def in_focus(hashes: Words, focus: HashFocus) -> NDArray[np.bool_]:
    """Return a mask of the rows that are in the focus."""
    mask = (1 << focus.level * LEVEL_BITS) - 1
    selected: NDArray[np.bool_] = (hashes[:, 0] & np.uint64(mask)) == np.uint64(focus.value)
    return selected
