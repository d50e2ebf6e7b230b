"""Types that one flavour has, or each has in its own way; and columns that are computed, invisible or hidden."""

import struct
from random import Random
from typing import Final

from tests.exactness.characters import in_charset
from tests.exactness.numbers import between
from tests.exactness.sorts import Draw, Sample, Sort
from tests.exactness.strings import bytes_of

MYSQL, MARIADB = frozenset({"mysql"}), frozenset({"mariadb"})
SRIDS: Final = (0, 0, 4326, 3857)


def coordinate(dice: Random) -> float:
    return dice.choice([dice.uniform(-90, 90), float(dice.randint(-80, 80)), 0.0, 1e-300])


def point(dice: Random) -> bytes:
    return struct.pack("<dd", coordinate(dice), coordinate(dice))


def header(kind: int) -> bytes:
    return struct.pack("<BI", 1, kind)


def line(dice: Random, *, points: int = 0) -> bytes:
    count = points or dice.randint(2, 6)
    return struct.pack("<I", count) + b"".join(point(dice) for _ in range(count))


def ring(dice: Random) -> bytes:
    """Closed, as a polygon's has to be."""
    corners = [point(dice) for _ in range(dice.randint(3, 6))]
    return struct.pack("<I", len(corners) + 1) + b"".join([*corners, corners[0]])


def polygon(dice: Random) -> bytes:
    return struct.pack("<I", 1) + ring(dice)


def several(dice: Random, kind: int) -> bytes:
    makers = {1: point, 2: line, 3: polygon}
    count = dice.randint(1, 4)
    return struct.pack("<I", count) + b"".join(header(kind) + makers[kind](dice) for _ in range(count))


def shape(dice: Random, kind: int) -> bytes:
    """WKB of a type: 1 to 3 points, lines, polygons, 4 to 6 several of them, 7 a collection."""
    if kind <= 3:
        return header(kind) + {1: point, 2: line, 3: polygon}[kind](dice)
    if kind <= 6:
        return header(kind) + several(dice, kind - 3)
    parts = [shape(dice, dice.randint(1, 6)) for _ in range(dice.randint(0, 3))]
    return header(7) + struct.pack("<I", len(parts)) + b"".join(parts)


def geometry(*kinds: int) -> Draw:
    return lambda dice: f"x'{(struct.pack('<I', dice.choice(SRIDS)) + shape(dice, dice.choice(kinds))).hex()}'"


def geometries() -> tuple[Sort, ...]:
    names = ("point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection")
    return tuple(
        Sort(name, tuple(geometry(kind)(Random(seed)) for seed in range(2)), geometry(kind))
        for kind, name in enumerate(names, 1)
    )


EMPTY: Final = "x'00000000010700000000000000'"
GEOMETRY: Final = Sample(
    "geometry",
    (*geometries(), *[Sort("geometry", (EMPTY,), geometry(1, 2, 3, 4, 5, 6, 7))] * 2),
    targets=MYSQL | MARIADB,
    weight=0.6,
)


def vector(dimensions: int) -> Sort:
    def draw(dice: Random) -> str:
        return f"x'{struct.pack(f'<{dimensions}f', *[dice.gauss(0, 1) for _ in range(dimensions)]).hex()}'"

    return Sort(f"vector({dimensions})", (f"x'{bytes(4 * dimensions).hex()}'", draw(Random(1))), draw)


VECTOR: Final = Sample("vector", tuple(vector(size) for size in (1, 3, 63, 64, 1000)), MYSQL, MYSQL, weight=0.3)
"""MariaDB has them from 11.7 on."""


def uuid(dice: Random) -> str:
    """Any version; zero bytes at the end are what the log drops."""
    raw = bytearray(dice.randbytes(16))
    for index in range(dice.choice([16, 16, 12, 8, 6]), 16):
        raw[index] = 0
    if dice.random() < 0.1:
        raw = bytearray(16)
    if raw[6] & 0x80 and not raw[8] & 0x80:
        raw[6] &= 0x7F  # the server refuses such a pair of version and variant
    digits = raw.hex()
    return f"'{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}'"


def inet6(dice: Random) -> str:
    """Return an address with runs of zeros at any place, and IPv4 inside."""
    groups = [dice.choice([0, 0, 1, 0xFFFF, dice.randint(0, 0xFFFF)]) for _ in range(8)]
    if dice.random() < 0.2:
        groups[:6] = [0, 0, 0, 0, 0, dice.choice([0, 0xFFFF])]
    return f"'{':'.join(f'{group:x}' for group in groups)}'"


ADDRESSES: Final = Sample(
    "addresses",
    (
        *[Sort("uuid", ("'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-1fff-bfff-ffffffffffff'"), uuid)] * 3,
        *[Sort("inet4", ("'0.0.0.0'", "'255.255.255.255'", "'32.32.32.32'"),
               lambda dice: "'" + ".".join(str(dice.choice([0, dice.randint(0, 255)])) for _ in range(4)) + "'")] * 2,
        *[Sort("inet6", ("'::'", "'::1'", "'::1.2.3.4'", "'::ffff:1.2.3.4'", "'1::'", "'2020::2020'"), inet6)] * 5,
    ),
    MARIADB,
    MARIADB,
)  # fmt: skip


def wordy(charset: str, most: int) -> Draw:
    """Return what can be compressed, and what cannot."""
    draw = in_charset(charset, most)
    return lambda dice: draw(dice) if dice.random() < 0.5 else f"repeat({draw(dice)}, {dice.randint(1, 3)})"


LONG: Final = ("''", "'a'", "repeat('a', 90)", "repeat('ab', 45)")


def compressed(kind: str, attribute: str, draw: Draw, *edges: str) -> Sort:
    return Sort(f"{kind} compressed {attribute}", (*LONG, *edges), draw, there=f"{kind} {attribute}")


COMPRESSED: Final = Sample(
    "compressed",
    (
        compressed("varchar(100)", "", wordy("utf8mb4", 33)),
        compressed("varchar(60)", "character set latin1", wordy("latin1", 20), "repeat('€', 60)"),
        compressed("varchar(300)", "character set ucs2", wordy("ucs2", 100)),
        compressed("varbinary(254)", "", bytes_of(254)),
        compressed("varbinary(255)", "", bytes_of(255)),
        compressed("tinytext", "", wordy("utf8mb4", 20)),
        compressed("text", "", wordy("utf8mb4", 500), "repeat('xyz', 20000)"),
        compressed("mediumtext", "character set latin1", wordy("latin1", 500), "repeat('x', 100000)"),
        compressed("longtext", "character set utf16", wordy("utf16", 100)),
        compressed("tinyblob", "", bytes_of(255)),
        compressed("blob", "", bytes_of(1000), "repeat(x'00', 65535)"),
        compressed("mediumblob", "", bytes_of(1000)),
        compressed("longblob", "", bytes_of(1000), "repeat(x'00ff', 100000)"),
    ),
    MARIADB,
    weight=0.4,
)

COMPUTED: Final = Sample(
    "computed",
    (
        Sort("int", ("0", "2147483646"), between(-(2**31), 2**31 - 2)),
        Sort("varchar(60)", ("''", "'é'"), in_charset("utf8mb4", 60)),
        Sort("bigint", (), between(0, 0), extra="GENERATED ALWAYS AS (c0 + 1) VIRTUAL"),
        Sort("bigint", (), between(0, 0), extra="GENERATED ALWAYS AS (c0 + 2) STORED"),
        Sort("varchar(70)", (), between(0, 0), extra="GENERATED ALWAYS AS (concat(c1, '!')) VIRTUAL"),
        Sort("int", ("0", "-5"), between(-100, 100), extra="DEFAULT 7 INVISIBLE"),
        Sort("decimal(12,2)", (), between(0, 0), extra="GENERATED ALWAYS AS (c0 * 0.25) STORED"),
        Sort("varchar(100)", ("''", "x'00'"), in_charset("utf8mb4", 60)),
        Sort("int", (), between(0, 0), extra="GENERATED ALWAYS AS (length(c1)) VIRTUAL INVISIBLE"),
    ),
    keys={"mysql": "KEY a ((c0 * 2)), KEY b ((upper(c1))), KEY v (c2)", "mariadb": "KEY v (c2)", "tidb": "KEY v (c2)"},
)
HIDDEN: Final = Sample(
    "hidden",
    (
        Sort("blob", ("NULL",), lambda dice: f"x'{dice.randbytes(dice.randint(20, 300)).hex()}'"),
        Sort("text", ("NULL",), lambda dice: f"'{dice.randbytes(20).hex()}'"),
        Sort("int unsigned", ("1", "2"), between(0, 1000)),
        Sort("longtext", ("NULL",), in_charset("utf8mb4", 20)),
    ),
    MARIADB,
    keys={"mariadb": "UNIQUE u0 (c0), UNIQUE u1 (c1, c2), KEY k (c2)"},
    weight=0.5,
)
