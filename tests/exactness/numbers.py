"""Numbers, bits and times."""

from collections.abc import Callable
from random import Random
from typing import Final

from tests.exactness.sorts import Draw, Sample, Sort

NINES: Final = "9" * 35 + "." + "9" * 30


def between(low: int, high: int) -> Draw:
    return lambda dice: str(dice.randint(low, high))


def integers() -> list[Sort]:
    sorts = []
    for name, bits in (("tinyint", 8), ("smallint", 16), ("mediumint", 24), ("int", 32), ("bigint", 64)):
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1
        sorts.append(Sort(name, (str(low), str(high), "0", "-1"), between(low, high)))
        top = (1 << bits) - 1
        sorts.append(Sort(f"{name} unsigned", (str(top), str(high + 1), "0"), between(0, top)))
    sorts.append(Sort("int(10) unsigned zerofill", ("4294967295", "7", "0"), between(0, 10_000)))
    sorts.append(Sort("bool", ("true", "false"), between(-128, 127)))
    return sorts


def decimal(precision: int, scale: int, *edges: str, kind: str = "") -> Sort:
    top = 10**precision - 1
    low = 0 if kind else -top

    def draw(dice: Random) -> str:
        return f"{dice.randint(low, top) // 10 ** dice.randint(0, precision - 1)}e-{scale}"

    return Sort(f"decimal({precision},{scale}) {kind}", edges or ("0", f"{top}e-{scale}", f"{low}e-{scale}"), draw)


def scaled(most: int) -> Draw:
    """Floating point numbers of all sizes."""
    return lambda dice: repr(dice.uniform(-1, 1) * 10.0 ** dice.randint(-most, most))


def rounded(places: int) -> Draw:
    return lambda dice: repr(round(dice.uniform(-10_000, 10_000), places))


def bits(count: int) -> Sort:
    top = (1 << count) - 1
    return Sort(f"bit({count})", ("0", str(top), str(1 << count - 1)), lambda dice: str(dice.getrandbits(count)))


FLOATS: Final = (
    "0.1",
    "3.4028234663852886e38",
    "-3.4028234663852886e38",
    "1.401298464324817e-45",
    "16777217",
    "-0.0e0",
)
DOUBLES: Final = (
    *("0.1", "1.7976931348623157e308", "-1.7976931348623157e308", "5e-324", "2.2250738585072014e-308"),
    *("9007199254740993e0", "-0.0e0", "1e15", "123456789012345678e0"),
)
NUMBERS: Final = Sample(
    "numbers",
    (
        *integers(),
        decimal(65, 30, f"-{NINES}", NINES, "0", "-1e-30", "12345678901234567890.5"),
        *(
            decimal(*sizes)
            for sizes in ((5, 0), (9, 9), (10, 2), (18, 9), (19, 1), (30, 30), (38, 10), (65, 0), (1, 1))
        ),
        decimal(10, 2, "1.5", "0", "0.05", kind="zerofill"),
        decimal(20, 5, kind="unsigned"),
        Sort("float", FLOATS, scaled(37)),
        Sort("float unsigned", ("0", "0.1"), lambda dice: repr(dice.random())),
        Sort("float(9,3) zerofill", ("1.5", "0.001"), lambda dice: repr(dice.uniform(0, 100_000))),
        Sort("float(7,0)", ("1.5", "-9999999"), rounded(1)),
        Sort("double(12,0)", ("0.5", "999999999999"), rounded(1)),
        Sort("double", DOUBLES, scaled(300)),
        *(bits(count) for count in (1, 7, 8, 9, 33, 63, 64)),
        Sort("year", ("0", "1901", "2155", "'0000'"), between(1901, 2155)),
    ),
)
ROUNDED: Final = Sample(
    "rounded",
    (Sort("double(20,4)", ("1.23456", "-99999.9999"), rounded(5)),),
    targets=frozenset({"mysql", "mariadb"}),  # TiDB rounds to the nearest double, others to the one beside it
    weight=0.2,
)


def clock(dice: Random, fsp: int) -> str:
    digits = f".{dice.randrange(10**fsp):0{fsp}d}" if fsp else ""
    return f"{dice.randint(0, 59):02d}:{dice.randint(0, 59):02d}{digits}"


def date(dice: Random) -> str:
    # Day 31 of every month: ALLOW_INVALID_DATES. Zero parts: so do years and months that are not known.
    month, day = dice.choice([(dice.randint(1, 12), dice.randint(1, 31)), (dice.randint(0, 12), 0)])
    return f"{dice.choice([dice.randint(0, 9999), dice.randint(1960, 2050)]):04d}-{month:02d}-{day:02d}"


def a_time(fsp: int) -> Draw:
    return lambda dice: f"'{dice.choice(['', '-'])}{dice.randint(0, 837)}:{clock(dice, fsp)}'"


def a_datetime(fsp: int) -> Draw:
    return lambda dice: f"'{date(dice)} {dice.randint(0, 23):02d}:{clock(dice, fsp)}'"


def a_timestamp(fsp: int) -> Draw:
    def draw(dice: Random) -> str:
        digits = f".{dice.randrange(10**fsp):0{fsp}d}" if fsp else ""
        return f"from_unixtime({dice.randint(1, 2**31 - 1)}{digits})"

    return draw


def fractions(
    kind: str, draw: Callable[[int], Draw], edges: Callable[[str], tuple[str, ...]], extra: str
) -> list[Sort]:
    """The same type with every number of digits after the point; `edges`: called with the last possible fraction."""
    return [Sort(f"{kind}({fsp}) {extra}", edges("." + "9" * fsp if fsp else ""), draw(fsp)) for fsp in range(7)]


TIMES: Final = Sample(
    "times",
    (
        Sort(
            "date",
            ("'0000-00-00'", "'2020-00-10'", "'2020-05-00'", "'1000-01-01'", "'9999-12-31'", "'2021-02-31'"),
            lambda dice: f"'{date(dice)}'",
        ),
        *fractions(
            "time",
            a_time,
            lambda last: ("'-838:59:59'", "'838:59:59'", "'0:0:0'", f"'-00:00:00{last}'", f"'838:59:58{last}'"),
            "",
        ),
        *fractions(
            "datetime",
            a_datetime,
            lambda last: (
                "'0000-00-00'",
                f"'9999-12-31 23:59:59{last}'",
                "'0001-01-01'",
                f"'2020-00-00 01:02:03{last}'",
            ),
            "",
        ),
        *fractions(
            "timestamp",
            a_timestamp,
            lambda last: (
                *("'0000-00-00'", "'1970-01-01 00:00:01'", f"'2038-01-19 03:14:07{last}'"),
                *("'2024-03-31 01:30:00'", "'2024-10-27 00:30:00'", "'2024-10-27 01:30:00'"),
            ),
            "null",
        ),
    ),
)
