"""Text in utf8mb4, binary strings, LOBs of all sizes, ENUM and SET of all sizes."""

from random import Random
from typing import Final

from tests.exactness.characters import in_charset, member_sorts
from tests.exactness.sorts import Draw, Sample, Sort, blob

EVERY_BYTE: Final = "x'" + bytes(range(256)).hex() + "'"
LATIN1: Final = "_latin1 " + EVERY_BYTE
TEXTS: Final = ("''", "' '", "'a  '", r"'\0\n\'\"\\%_'", "'NULL'", "'😀é'")


def bytes_of(most: int) -> Draw:
    return lambda dice: blob(dice, most)


def padded(length: int) -> Draw:
    """Bytes that end in zeros and spaces, which some types pad with."""

    def draw(dice: Random) -> str:
        body = dice.randbytes(dice.randint(0, length))
        return f"x'{(body + dice.choice([b'', bytes(2), b'  ']))[:length].hex()}'"

    return draw


STRINGS: Final = Sample(
    "strings",
    (
        Sort("char(10)", TEXTS, in_charset("utf8mb4", 10)),
        Sort("char(255)", (*TEXTS, "repeat('😀', 255)"), in_charset("utf8mb4", 100)),
        Sort("char(100) character set latin1", (f"substr({LATIN1}, 120, 100)", "'€'", "''"), in_charset("latin1", 100)),
        Sort("varchar(63)", (*TEXTS, "repeat('😀', 63)"), in_charset("utf8mb4", 63)),
        Sort("varchar(64)", (*TEXTS, "repeat('😀', 64)"), in_charset("utf8mb4", 64)),
        Sort("varchar(255) character set latin1", (f"substr({LATIN1}, 2)", "''"), in_charset("latin1", 255)),
        Sort("varchar(256) character set latin1", (LATIN1, "''"), in_charset("latin1", 256)),
        Sort("varchar(20) character set utf8mb4 collate utf8mb4_bin", ("'A  '", "'a'"), in_charset("utf8mb4", 20)),
        Sort("tinytext", (*TEXTS, "repeat('a', 255)"), in_charset("utf8mb4", 60)),
        Sort("binary(5)", ("x'0100'", "''", "x'0000000000'", "'ab'", "x'2020'", "x'6120000020'"), padded(5)),
        Sort("binary(255)", ("x'00ff00'", "''"), padded(255)),
        Sort("varbinary(255)", ("x'0100'", "''", "x'00'"), padded(255)),
        Sort("varbinary(256)", (EVERY_BYTE, "repeat(x'00', 256)", "''"), padded(256)),
        Sort("tinyblob", ("x'ff'", "''", "repeat(x'00', 255)"), padded(255)),
    ),
)
LOBS: Final = Sample(
    "lobs",
    (
        Sort("text", ("repeat('é', 32767)", "''"), in_charset("utf8mb4", 500)),
        Sort("text character set latin1", (LATIN1, "repeat('€', 21845)"), in_charset("latin1", 500)),
        Sort("mediumtext", ("repeat('😀', 70000)", "''"), in_charset("utf8mb4", 500)),
        Sort("longtext", ("'NULL'", "''", "repeat('ab😀', 50000)"), in_charset("utf8mb4", 500)),
        Sort("blob", ("''", EVERY_BYTE, "repeat('a', 65535)"), bytes_of(2000)),
        Sort("mediumblob", ("repeat(x'ff', 70000)", "''"), bytes_of(2000)),
        Sort("longblob", ("x'5c27'", f"repeat({EVERY_BYTE}, 700)"), bytes_of(2000)),
    ),
    weight=0.3,
)
FULL_LOB: Final = Sample(
    "full_lob",
    (Sort("text character set latin1", ("repeat('€', 65535)",), in_charset("latin1", 500)),),
    targets=frozenset({"mysql", "mariadb"}),  # in UTF-8 it has three times as many bytes
    weight=0.1,
)
MEMBERS: Final = Sample(
    "members",
    (
        *member_sorts(["a", "it's", "b\\c", "n\nl", "", "é"], "character set utf8mb3"),
        *member_sorts(["é", "€", "ÿ", "?"], "character set latin1"),
        *member_sorts([f"m{number}" for number in range(64)], ""),
        Sort(
            "enum(" + ",".join(f"'m{number}'" for number in range(300)) + ")",
            ("1", "255", "256", "300", "0"),
            lambda dice: str(dice.randint(0, 300)),
        ),
        *member_sorts(["ä", "b"], "character set binary"),
        *(
            Sort(f"set({','.join(repr(f's{n}') for n in range(size))})", ("0", str((1 << size) - 1)), drawn)
            for size, drawn in (
                (8, lambda dice: str(dice.getrandbits(8))),
                (9, lambda dice: str(dice.getrandbits(9))),
                (17, lambda dice: str(dice.getrandbits(17))),
                (25, lambda dice: str(dice.getrandbits(25))),
                (33, lambda dice: str(dice.getrandbits(33))),
            )
        ),
        Sort(
            "enum('A','b') character set utf8mb4 collate utf8mb4_bin not null",
            ("1", "2", "0"),
            lambda dice: str(dice.randint(0, 2)),
            extra="/* NOT NULL */",
        ),
    ),
)


def marked(dice: Random) -> str:
    """Text of what means something in the file of a LOAD."""
    pieces = ["\\t", "\\n", "\\r", "\\0", r"\\", "N", "a", "é", "😀", "bcdefgh"]
    return f"'{''.join(dice.choices(pieces, k=dice.randint(0, 30)))}'"


UNICODE: Final = Sample(
    "unicode",
    (
        *(sort for sort in (*STRINGS.sorts, *LOBS.sorts) if "latin1" not in sort.ddl),
        Sort("varchar(200)", (r"'\\N'", r"'\\'", r"'\t'", r"'\n'", r"'a\tb\nc\\'", "'NULL'", "'N'", "''"), marked),
        Sort("text character set utf8mb3", (r"'\\N\n'", "'é\\t'"), lambda dice: marked(dice).replace("😀", "ä")),
        Sort("enum('N','it''s','n\nl','é')", ("1", "2", "3", "4"), lambda dice: str(dice.randint(1, 4))),
        Sort("set('N','it''s','t\tt')", ("0", "7"), lambda dice: str(dice.getrandbits(3))),
        Sort("bit(17)", ("b'0'", "b'11111111111111111'"), lambda dice: f"b'{dice.getrandbits(17):b}'"),
        Sort("double", ("0", "-1.5e300", "1e-7"), lambda dice: repr(dice.gauss(0, 1e6))),
    ),
    weight=0.3,
)
"""What a LOAD writes: without text of other charsets, and without an ENUM's index 0."""
