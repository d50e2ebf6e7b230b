"""Decoding of text in the servers' charsets.

For a charset in CODECS the servers' own conversion to UTF-8 and Python's codec agree on every sequence of bytes that
Python can decode; Python raises an error for all others. Text in other charsets is split into characters, which are
decoded one by one by the codec in `_SPLIT_CHARSETS`; characters that the servers decode differently are listed there.
MySQL and MariaDB agree on every character (tests/integration/schema/test_charsets.py and
tests/integration/binlog/test_statements.py).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from airflow_provider_dm.engine.schema.strings import latin1_text

TextDecoder: TypeAlias = Callable[[bytes], str]
"""Raises UnicodeDecodeError."""

CODECS: Final = {
    **dict.fromkeys(("utf8mb4", "utf8mb3", "utf8"), "utf-8"),
    "ascii": "ascii",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "latin2": "iso8859-2",
    "latin5": "iso8859-9",
    "latin7": "iso8859-13",
    "koi8r": "koi8-r",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "macroman": "mac_roman",
    "macce": "mac_latin2",
    "hp8": "hp-roman8",
    "gbk": "gbk",
    "gb2312": "gb2312",
}
"""Charset -> Python's codec."""

UNSURE: Final = "\N{REPLACEMENT CHARACTER}"
"""Replaces a character that could not be decoded with certainty."""

_ONE_BYTE: Final = rb"[\x80-\xff]"
_TO_FE: Final = rb"[\x81-\xfe][\x40-\x7e\x80-\xfe]"
_EUC: Final = rb"\x8f[\xa1-\xfe]{2}|\x8e[\xa1-\xdf]|[\xa1-\xfe]{2}"
_SJIS: Final = rb"[\x81-\x9f\xe0-\xfc][\x40-\x7e\x80-\xfc]"
MULTI_BYTE: Final[Mapping[str, bytes]] = {
    "gbk": _TO_FE,
    "gb2312": rb"[\xa1-\xf7][\xa1-\xfe]",
    "gb18030": rb"(?:[\x81-\xfe][\x30-\x39]){2}|" + _TO_FE,
    "big5": rb"[\xa1-\xf9][\x40-\x7e\xa1-\xfe]",
    "sjis": _SJIS,
    "cp932": _SJIS,
    "euckr": rb"[\x81-\xfe][\x41-\x5a\x61-\x7a\x81-\xfe]",
    "ujis": _EUC,
    "eucjpms": _EUC,
}
"""Charset -> pattern of its multi-byte characters, for charsets in which ASCII takes one byte."""


class _SplitCharset(NamedTuple):
    """A charset whose characters are decoded one by one: by Python's codec, except for those that the servers decode as
    `exceptions` lists (code in hexadecimal -> character)."""

    codec: str
    exceptions: Mapping[str, str] = {}


def _unsure(*codes: str) -> dict[str, str]:
    return dict.fromkeys(codes, UNSURE)


def _row(first: str, characters: str) -> dict[str, str]:
    """Return consecutive characters by their codes."""
    return {f"{code:x}": character for code, character in enumerate(characters, int(first, 16))}


_USER_DEFINED: Final = {
    f"{prefix}{lead:02x}{trail:02x}": chr(base + 94 * (lead - 0xF5) + trail - 0xA1)
    for prefix, base in (("", 0xE000), ("8f", 0xE3AC))
    for lead in range(0xF5, 0xFF)
    for trail in range(0xA1, 0xFF)
}
"""The private characters of ujis and eucjpms."""


def _from_80(characters: str) -> _SplitCharset:
    return _SplitCharset("ascii", {f"{code:02x}": character for code, character in enumerate(characters, 0x80)})


_SPLIT_CHARSETS: Final[Mapping[str, _SplitCharset]] = {
    "cp1256": _SplitCharset("cp1256", _unsure("8a", "8f", "98", "9a", "9f", "aa", "c0", "ff")),
    "cp866": _SplitCharset("cp866", {"fc": "ⁿ", "fd": "²"}),
    "koi8u": _SplitCharset("koi8-u", {"95": "•"}),
    "greek": _SplitCharset("iso8859-7", {"a1": "ʽ", "a2": "ʼ", **_unsure("a4", "a5", "aa")}),
    "hebrew": _SplitCharset("iso8859-8", {"af": "‾"}),
    "tis620": _SplitCharset("tis-620"),
    "gb18030": _SplitCharset("gb18030", {"a8bc": "ḿ", "8135f437": "\ue7c7"}),
    "big5": _SplitCharset(
        "big5",
        {**_row("f9d6", "碁銹裏墻恒粧嫺"), **_unsure("a15a", "a1c3", "a1c5", "a1fe", "a240", "a2cc", "a2ce")},
    ),
    "sjis": _SplitCharset("shift_jis", {"815f": "\\"}),
    "cp932": _SplitCharset("cp932", _unsure("80", "a0", "fd", "fe", "ff")),
    "euckr": _SplitCharset("cp949"),
    "ujis": _SplitCharset("euc_jp", {"a1c0": "\\", **_USER_DEFINED}),
    "eucjpms": _SplitCharset(
        "euc_jp",
        {
            "a1c1": "～",
            "a1c2": "∥",
            "a1dd": "－",
            "a1f1": "￠",
            "a1f2": "￡",
            "a2cc": "￢",
            "8fa2b7": "～",
            "8fa2c3": "￤",
            **_row("ada1", "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳ⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ"),
            **_row("adc0", "㍉㌔㌢㍍㌘㌧㌃㌶㍑㍗㌍㌦㌣㌫㍊㌻㎜㎝㎞㎎㎏㏄㎡"),
            **_row("addf", "㍻〝〟№㏍℡㊤㊥㊦㊧㊨㈱㈲㈹㍾㍽㍼≒≡∫∮∑√⊥∠∟⊿∵∩∪"),
            **_row("8ff3f3", "ⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅠⅡ"),
            **_row("8ff4a1", "ⅢⅣⅤⅥⅦⅧⅨⅩ＇＂㈱№℡"),
            **_row(
                "8ff4ae",
                "炻仼僴凬匇匤\ufa0e咊坙\ufa0f\ufa10增寬峵嵓\ufa11德悅愠敎昻晥\ufa12\uf929栁\ufa13\ufa14橫櫢淸淲瀨",
            ),
            **_row(
                "8ff4ce",
                "\ufa15\ufa16甁皂皞\ufa17礰\ufa18\ufa19\ufa1a\ufa1b竧\ufa1c\ufa1d綠緖\ufa1e荢\ufa1f薰\ufa20\ufa21蠇\ufa22譿賴赶\ufa23",
            ),
            **_row("8ff4ea", "\ufa24\ufa25郞\ufa26鄕\ufa27\ufa28閒\uf9dc\ufa29霻靍靑\ufa2a\ufa2b\ufa2c馞髙魲\ufa2d黑"),
            **_USER_DEFINED,
        },
    ),
    "armscii8": _from_80(
        "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f"
        "\xa0❁§։\x29\x28»«—\x2e՝\x2c\x2d՟…՜՛՞ԱաԲբԳգԴդԵեԶզԷէ"
        "ԸըԹթԺժԻիԼլԽխԾծԿկՀհՁձՂղՃճՄմՅյՆնՇշ"
        "ՈոՉչՊպՋջՌռՍսՎվՏտՐրՑցՒւՓփՔքՕօՖֆ’\x27"
    ),
    "dec8": _from_80(
        "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f"
        "\xa0¡¢£\ufffd¥\ufffd§¤©ª«\ufffd\ufffd\ufffd\ufffd°±²³\ufffdµ¶·\ufffd¹º»¼½\ufffd¿"
        "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏ\ufffdÑÒÓÔÕÖŒØÙÚÛÜŸ\ufffdß"
        "àáâãäåæçèéêëìíîï\ufffdñòóôõöœøùúûüÿ\ufffd\ufffd"
    ),
    "geostd8": _from_80(
        "€\ufffd‚\ufffd„…†‡\ufffd‰\ufffd‹\ufffd\ufffd\ufffd\ufffd\ufffd‘’“”•–—\ufffd\ufffd\ufffd›\ufffd\ufffd\ufffd\ufffd"
        "\xa0¡¢£¤¥¦§¨©ª«¬\xad®¯°±²³´µ¶·¸¹º»¼½¾¿"
        "აბგდევზჱთიკლმნჲოპჟრსტჳუფქღყშჩცძწ"
        "ჭხჴჯჰჵ\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd№\ufffd\ufffd"
    ),
    "keybcs2": _from_80(
        "ČüéďäĎŤčěĚĹÍľĺÄÁÉžŽôöÓůÚýÖÜŠĽÝŘť"
        "áíóúňŇŮÔšřŕŔ¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐"
        "└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀"
        "αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\xa0"
    ),
}
_SWE7: Final = str.maketrans("@[\\]^`{|}~", "ÉÄÖÅÜéäöåü")


def _ucs2(value: bytes) -> str:
    text = value.decode("utf-16-be")
    if len(text) * 2 != len(value):  # two halves of a character that ucs2 does not have
        raise UnicodeDecodeError("ucs2", value, 0, len(value), "surrogates")
    return text


def _swe7(value: bytes) -> str:
    return value.decode("ascii").translate(_SWE7)


_OWN_DECODERS: Final[dict[str, TextDecoder]] = {"latin1": latin1_text, "ucs2": _ucs2, "swe7": _swe7}


def decoder(charset: str) -> TextDecoder | None:
    """Return the function that decodes a whole text of this charset; None if its characters are decoded one by one.

    >>> decoder("latin1")(b"\\x80")
    '€'
    """
    if charset in _OWN_DECODERS:
        return _OWN_DECODERS[charset]
    name = CODECS.get(charset)
    return None if name is None else partial(_decode, codecs.getdecoder(name))


def _decode(decode: Callable[[bytes], tuple[str, int]], value: bytes) -> str:
    return decode(value)[0]


def text_with_gaps(charset: str, value: bytes) -> str:
    """Return a statement in a charset in which ASCII takes one byte, with UNSURE for each unknown character.

    A character is also unknown if it is not stored as ASCII, but decoded to ASCII: a parser could mistake it for a
    quote or a backslash.

    >>> text_with_gaps("dec8", b"a\\xd7\\xff"), text_with_gaps("sjis", b"\\x81_")
    ('aŒ\N{REPLACEMENT CHARACTER}', '\N{REPLACEMENT CHARACTER}')
    """
    return _by_character(charset, value, lambda text: UNSURE if text.isascii() else text)


def text_of(charset: str, value: bytes) -> str:
    """Return a value in any charset as text. Raises UnicodeDecodeError for an unknown character.

    >>> text_of("sjis", b"\\x81_"), text_of("swe7", b"\\x5b")
    ('\\\\', 'Ä')
    """
    whole = decoder(charset)
    if whole is not None:
        return whole(value)
    text = _by_character(charset, value, str)
    if UNSURE in text:
        raise UnicodeDecodeError(charset, value, 0, len(value), "unknown character")
    return text


def _by_character(charset: str, value: bytes, keep: Callable[[str], str]) -> str:
    """Return the text; every character that is not one byte of ASCII is decoded separately and passed to `keep`."""
    multi_byte = MULTI_BYTE.get(charset)
    characters: list[str] = []
    position = 0
    for match in re.finditer(multi_byte + b"|" + _ONE_BYTE if multi_byte else _ONE_BYTE, value):
        characters += (value[position : match.start()].decode("ascii"), keep(_character(charset, match.group())))
        position = match.end()
    return "".join((*characters, value[position:].decode("ascii")))


def _character(charset: str, code: bytes) -> str:
    split = _SPLIT_CHARSETS.get(charset, _SplitCharset("ascii"))
    known = split.exceptions.get(code.hex())
    try:
        return known or (decoder(charset) or partial(_decode, codecs.getdecoder(split.codec)))(code)
    except UnicodeDecodeError:
        return UNSURE
