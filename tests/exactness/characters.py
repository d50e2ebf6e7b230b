"""Characters of each charset, and columns of it.

Values are made by the source's own conversion from UTF-8; which characters a charset has is asked of Python where it
knows the charset, and guessed from its script where it does not. A character that the server lacks becomes a `?`."""

from collections.abc import Iterable
from functools import lru_cache
from random import Random
from typing import Final

from tests.exactness.sorts import Draw, Sample, Sort, cut

ASCII: Final = "".join(map(chr, range(128)))
CODECS: Final = {
    **{name: name for name in ("ascii", "big5", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866")},
    **{name: name for name in ("cp932", "euckr", "gb18030", "gb2312", "gbk", "utf32")},
    "dec8": "latin1",
    "eucjpms": "euc_jp",
    "greek": "iso8859_7",
    "hebrew": "iso8859_8",
    "hp8": "hp_roman8",
    "keybcs2": "cp852",
    "koi8r": "koi8_r",
    "koi8u": "koi8_u",
    "latin1": "cp1252",
    "latin2": "iso8859_2",
    "latin5": "iso8859_9",
    "latin7": "iso8859_13",
    "macce": "mac_latin2",
    "macroman": "mac_roman",
    "sjis": "shift_jis",
    "tis620": "tis_620",
    "ujis": "euc_jp",
}
"""What Python calls them, or something near."""
SCRIPTS: Final = {"armscii8": range(0x531, 0x590), "geostd8": range(0x10D0, 0x10F6), "swe7": range(0xC0, 0x100)}
LETTERS: Final = {"armscii8": "ա", "geostd8": "ა", "swe7": "ö", "keybcs2": "č"}
EVERYTHING: Final = frozenset({"utf8mb4", "utf16", "utf16le", "utf32", "gb18030"})
WITHOUT_ASTRAL: Final = frozenset({"utf8mb3", "ucs2"})
_ONE_BYTE: Final = (
    "armscii8 cp1250 cp1251 cp1256 cp1257 cp850 cp852 cp866 dec8 geostd8 greek hebrew hp8 keybcs2 koi8r koi8u latin1 "
    "latin2 latin5 latin7 macce macroman swe7 tis620"
)
ONE_BYTE: Final = frozenset(_ONE_BYTE.split())
"""Any byte is a character of theirs, if only one without a meaning."""
MYSQL_ONLY: Final = frozenset({"gb18030"})
_OTHERS: Final = "ascii big5 cp932 eucjpms euckr gb18030 gb2312 gbk sjis ucs2 ujis utf16 utf16le utf32 utf8mb3 utf8mb4"
CHARSETS: Final = tuple(sorted([*ONE_BYTE, *_OTHERS.split()]))
"""What information_schema.character_sets lists (the test looks), without `binary`."""


@lru_cache
def alphabet(charset: str) -> str:
    """Characters that the charset has, or may have, beyond ASCII."""
    if charset in EVERYTHING or charset in WITHOUT_ASTRAL:
        return ""
    if charset in SCRIPTS:
        return "".join(map(chr, SCRIPTS[charset]))
    if charset in ONE_BYTE:
        known = bytes(range(256)).decode(CODECS[charset], "ignore")
        return "".join(sorted({found for found in known if found >= "\x80"}))
    return "".join(
        one for block in range(0x80, 0x10000, 64) for one in _known(range(block, block + 64), CODECS[charset])
    )


def _known(codes: range, codec: str) -> list[str]:
    """Return those of some characters that a codec has, which are none in most blocks."""
    characters = [chr(code) for code in codes]
    if not "".join(characters).encode(codec, "ignore"):
        return []
    return [character for character in characters if character.encode(codec, "ignore")]


def word(dice: Random, charset: str, most: int) -> str:
    """Some characters, `most` at most, of which some are ASCII."""
    letters = []
    for _ in range(dice.randint(0, most)):
        if dice.random() < 0.3:
            letters.append(dice.choice(ASCII))
        elif charset in WITHOUT_ASTRAL or (charset in EVERYTHING and dice.random() < 0.6):
            letters.append(chr(dice.choice([dice.randint(0x80, 0xD7FF), dice.randint(0xE000, 0xFFFD)])))
        elif charset in EVERYTHING:
            letters.append(chr(dice.randint(0x10000, 0x10FFFF)))
        else:
            letters.append(dice.choice(alphabet(charset) or ASCII))
    return "".join(letters)


def text(characters: str, charset: str) -> str:
    """SQL for text of a charset."""
    return f"convert(_utf8mb4 x'{characters.encode().hex()}' using {charset})"


def in_charset(charset: str, most: int, *, only_text: bool = False) -> Draw:
    def draw(dice: Random) -> str:
        if charset in ONE_BYTE and not only_text and dice.random() < 0.5:
            return f"_{charset} x'{bytes(dice.randint(0, 255) for _ in range(dice.randint(0, most))).hex()}'"
        return text(word(dice, charset, most), charset)

    return draw


def a_letter(charset: str) -> str:
    """A letter beyond ASCII, if the charset has one."""
    if charset in LETTERS:
        return LETTERS[charset]
    letters = [character for character in alphabet(charset) or "é漢" if character.islower() or ord(character) > 0x5D0]
    letters = [letter for letter in letters if letter.isalpha()]
    return letters[len(letters) // 2] if letters else "w"


def sorts_of(charset: str, *, only_text: bool = False) -> list[Sort]:
    """A column of each string type. Members are written in ASCII and in what the charset has. `only_text`: no bytes
    that are no character of it."""
    charset_clause = f"character set {charset}"
    letter = a_letter(charset)
    members = ["a", "it's", "x y", "z" + letter, letter + "q", *([r"b\c"] if charset != "swe7" else [])]
    nasty = ("", "a  ", " ", "'\"\\`%_\0\n\r\x1a", ASCII[:40])
    edges = tuple(text(characters, charset) for characters in nasty)
    return [
        Sort(f"char(40) {charset_clause}", edges, in_charset(charset, 40, only_text=only_text)),
        Sort(f"varchar(70) {charset_clause}", edges, in_charset(charset, 70, only_text=only_text)),
        Sort(
            f"text {charset_clause}",
            (*edges, f"repeat({text(letter, charset)}, 3000)"),
            in_charset(charset, 200, only_text=only_text),
        ),
        *member_sorts(members, charset_clause),
    ]


def member_sorts(members: Iterable[str], charset_clause: str) -> list[Sort]:
    names = list(members)
    listed = ",".join(quoted(name) for name in names)
    plain = [name for name in names if name and "," not in name]
    return [
        # 0: the value of an invalid insert.
        Sort(
            f"enum({listed}) {charset_clause}",
            tuple(map(str, range(len(names) + 1))),
            lambda dice: str(dice.randint(0, len(names))),
        ),
        Sort(
            f"set({','.join(map(quoted, plain))}) {charset_clause}",
            ("0", str((1 << len(plain)) - 1)),
            lambda dice: str(dice.getrandbits(len(plain))),
        ),
    ]


def quoted(name: str) -> str:
    return "'" + name.replace("\\", r"\\").replace("'", "''").replace("\n", r"\n") + "'"


def charset_samples() -> list[Sample]:
    """Eight charsets side by side in each table. TiDB stores text, and no other bytes."""
    shared = [charset for charset in CHARSETS if charset not in MYSQL_ONLY]
    bytes_too = cut([sort for charset in shared for sort in sorts_of(charset)], 40)
    only_text = cut([sort for charset in shared for sort in sorts_of(charset, only_text=True)], 40)
    samples = [
        Sample(f"charsets_{kind}{number}", group, targets=frozenset(targets), weight=0.5)
        for kind, targets, groups in (("", {"mysql", "mariadb"}, bytes_too), ("text_", {"tidb"}, only_text))
        for number, group in enumerate(groups)
    ]
    only = tuple(sort for charset in sorted(MYSQL_ONLY) for sort in sorts_of(charset))
    return [*samples, Sample("charsets_mysql", only, frozenset({"mysql"}), frozenset({"mysql"}))]
