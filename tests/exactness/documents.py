r"""Random JSON documents, as SQL that makes a MySQL server store them: numbers of all kinds, times, binary strings.

Built by functions, so that scalars keep types that no JSON text has."""

import struct
from math import isfinite
from random import Random
from typing import Final

from tests.exactness.characters import word
from tests.exactness.numbers import clock
from tests.exactness.sorts import Sample, Sort, blob

INTEGERS: Final = tuple(
    str(sign * ((1 << bits) + step))
    for bits in (7, 8, 15, 16, 31, 32, 53, 63)
    for step in (-1, 0, 1)
    for sign in (1, -1)
    if -(1 << 63) <= sign * ((1 << bits) + step) < 1 << 64
)


def string(dice: Random, most: int = 20) -> str:
    return f"convert(x'{word(dice, 'utf8mb4', most).encode().hex()}' using utf8mb4)"


def double(dice: Random) -> str:
    value = struct.unpack("<d", dice.randbytes(8))[0]
    if not isfinite(value) or dice.random() < 0.5:
        value = round(dice.uniform(-1, 1) * 10.0 ** dice.randint(-20, 20), dice.randint(0, 20))
    return repr(value) if "e" in repr(value) else f"{value!r}e0"


def decimal(dice: Random) -> str:
    precision = dice.randint(1, 65)
    scale = dice.randint(0, min(30, precision))
    digits = dice.randint(-(10**precision) + 1, 10**precision - 1)
    return f"cast({digits}e-{scale} as decimal({precision},{scale}))"


def exact(dice: Random) -> str:
    """A DECIMAL that a literal can hold; through `e` it would have become a DOUBLE."""
    scale = dice.randint(1, dice.choice([30, 72]))
    digits = f"{dice.randint(0, 10 ** dice.randint(1, 81)):0{scale + 1}d}"
    return f"{dice.choice(['', '-'])}{digits[:-scale]}.{digits[-scale:]}"


def moment(dice: Random) -> str:
    day = f"{dice.randint(1, 9999):04d}-{dice.randint(1, 12):02d}-{dice.randint(1, 28):02d}"
    return dice.choice(
        [
            f"date'{day}'",
            f"timestamp'{day} {dice.randint(0, 23)}:{clock(dice, 6)}'",
            f"time'{dice.choice(['', '-'])}{dice.randint(0, 837)}:{clock(dice, dice.randint(0, 6))}'",
            f"cast('{day}' as datetime({dice.randint(0, 6)}))",
        ]
    )


def scalar(dice: Random) -> str:
    return dice.choice(
        [
            lambda: dice.choice(INTEGERS),
            lambda: str(dice.randint(-100_000, 100_000)),
            lambda: double(dice),
            lambda: decimal(dice),
            lambda: exact(dice),
            lambda: string(dice),
            lambda: string(dice, 300),
            lambda: moment(dice),
            lambda: blob(dice, 120),
            lambda: f"b'{dice.getrandbits(12):b}'",
            lambda: dice.choice(["true", "false", "null"]),
        ]
    )()


def document(dice: Random, depth: int) -> str:
    """A value; a container only while there is depth left."""
    roll = dice.random()
    if depth <= 0 or roll < 0.25:
        return scalar(dice)
    count = dice.choice([0, 1, 2, 3, 5, 8]) if depth < 4 else dice.randint(1, 3)
    if roll < 0.6:
        return f"json_array({', '.join(document(dice, depth - 1) for _ in range(count))})"
    names = [string(dice, dice.choice([1, 3, 40])) for _ in range(count)]
    return f"json_object({', '.join(f'{name}, {document(dice, depth - 1)}' for name in names)})"


def draw(dice: Random) -> str:
    """A whole document, which may be a scalar of any type."""
    return f"json_extract(json_array({document(dice, dice.randint(0, 6))}), '$[0]')"


def nested(depth: int, inner: str) -> str:
    return f"cast(concat(repeat('[', {depth}), '{inner}', repeat(']', {depth})) as json)"


EDGES: Final = (
    "'null'", "'[]'", "'{}'", "'\"\"'", "'true'", "cast(1.50 as json)", "cast(x'00ff' as json)",
    r"""'{"": 1, "b": {"a": []}, "aa": -0.0, "é": "\\u0000\\"\\\\\\/\\b", "a": 1e400}'""".replace("1e400", "1e300"),
    nested(100, ""), nested(99, "1.5"), "json_array(repeat('x', 70000), 1.50, json_array(-1, 2147483648, 65536, null))",
    "json_object(repeat('k', 70), repeat('v', 200), 'a', repeat('w', 66000), 'n', -2147483649, 't', true)",
    "json_array(18446744073709551615, -9223372036854775808, 18446744073709551616, 1e15, 123456789012345678901.5)",
    "json_array(cast('2020-00-00' as date), cast('0000-00-00' as date), time'-838:59:59')",
    f"json_array(0.{'1' * 40}, -0.{'9' * 72}, 0.{'0' * 71}1, {'9' * 81}, -{'8' * 41}.{'7' * 31}, 1.{'0' * 45})",
    "json_object('g', st_geomfromtext('POINT(1 2)'), 'y', cast(2020 as year), 'f', cast(0.1 as float))",
)  # fmt: skip
JSON: Final = Sample(
    "documents", tuple(Sort("json", EDGES, draw, there="longtext") for _ in range(12)), frozenset({"mysql"})
)
