"""Each supported type has its way; each other one stops with its name."""

import re
from dataclasses import replace

import pytest

from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.literals import quote_utf8
from airflow_provider_dm.engine.schema import strings
from airflow_provider_dm.engine.schema.codec import check_source_column, codec_for, row_literals, row_reader
from airflow_provider_dm.engine.schema.errors import MalformedValue, UnknownCharacter, UnsupportedColumnType
from airflow_provider_dm.engine.schema.model import Column
from tests.unit.ddl.tracked import table_of

NAME = TableName("shop", "orders")


def column(column_type: str, *, charset: str | None = None, collation: str | None = None, **options: bool) -> Column:
    data_type = re.split(r"[ (]", column_type, maxsplit=1)[0]
    plain = Column("c", 0, data_type, column_type, True, charset=charset, collation=collation)
    return replace(plain, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("described", "value", "literal"),
    [
        (column("int(11)"), b"-5", b"-5"),
        (column("bigint unsigned"), b"18446744073709551615", b"18446744073709551615"),
        (column("decimal(5,2)"), b"-1.50", b"-1.50"),
        (column("double"), b"0.1", b"0.1e0"),
        (column("bit(9)"), b"\x01\xff", b"511"),
        (column("year"), b"0000", b"'0000'"),
        (column("datetime(6)"), b"2020-00-10 00:00:00.000001", b"'2020-00-10 00:00:00.000001'"),
        (column("varchar(9)", charset="utf8mb4"), "é'\\".encode(), "'é\\'\\\\'".encode()),
        (column("varchar(9)", charset="latin1"), b"\x80", b"_latin1 x'80'"),
        (column("varchar(9)", charset="latin1"), b"it's", b"'it\\'s'"),
        (column("blob"), b"", b"x''"),
        (column("varchar(9)", charset="gbk"), b"it's", b"'it\\'s'"),
        (column("varchar(9)", charset="gbk"), b"\xc4\x5c", b"_gbk x'c45c'"),
        (column("varchar(9)", charset="sjis"), b"a\\", b"_sjis x'615c'"),
        (column("varchar(9)", charset="ucs2"), b"\0a", b"_ucs2 x'0061'"),
        (column("varchar(9) /*M!100301 COMPRESSED*/", charset="utf8mb4"), b"a", b"'a'"),
        (column("enum('a','b')", charset="utf8mb4"), b"b", b"'b'"),
        (column("enum('a','b')", charset="latin1"), "é".encode(), "'é'".encode()),
        (column("enum('a','b')", charset="latin1"), strings.INVALID_MEMBER, b"0"),
        (column("enum('a','')", charset="latin1"), b"", b"''"),
        (column("set('a','b')", charset="ucs2"), b"a,b", b"'a,b'"),
        (column("geometry"), b"\0\0\0\0\1", b"x'0000000001'"),
        (column("vector(1)"), b"\0\0\x80\x3f", b"x'0000803f'"),
        (column("uuid"), b"00000000-0000-0000-0000-000000000000", b"'00000000-0000-0000-0000-000000000000'"),
        (column("inet6"), b"::1", b"'::1'"),
        (column("json"), b'{"a": 1.50}', b"'{\"a\": 1.50}'"),
        (column("int(11)", generated=True), b"1", b"1"),
    ],
    ids=lambda value: value.column_type if isinstance(value, Column) else None,
)
def test_canonical_values_become_literals(described: Column, value: bytes, literal: bytes) -> None:
    assert codec_for(NAME, described).literal()(value) == literal


@pytest.mark.parametrize(
    ("charset", "value", "text"),
    [
        ("latin1", b"caf\xe9 \x80", "café €"),
        ("latin1", b"it's", "it's"),
        ("gbk", b"\xc4\x5c", "腬"),
        ("cp1251", b"\xc6", "Ж"),
        ("cp866", b"\xfc", "ⁿ"),
        ("sjis", b"a\\\x81\x5f", "a\\\\"),
        ("ucs2", b"\0a", "a"),
        ("utf16le", b"=\xd8\x00\xde", "😀"),
        ("armscii8", b"\xb2", "Ա"),
        ("swe7", b"a[", "aÄ"),
    ],
)
def test_text_for_a_server_of_utf_8_is_utf_8(charset: str, value: bytes, text: str) -> None:
    codec = codec_for(NAME, column("varchar(9)", charset=charset))
    assert codec.literal(Flavour.TIDB)(value) == quote_utf8(text.encode())


@pytest.mark.parametrize(
    ("charset", "value"),
    [("cp1256", b"\x8a"), ("gbk", b"\x80"), ("big5", b"\xa1\x5a"), ("utf16", b"\xd8\0"), ("ucs2", b"a")],
)
def test_an_unknown_character_stops_the_task_without_showing_the_value(charset: str, value: bytes) -> None:
    codec = codec_for(NAME, column("varchar(9)", charset=charset))
    with pytest.raises(UnknownCharacter) as raised:
        codec.literal(Flavour.TIDB)(value)
    assert "shop.orders.c" in str(raised.value)
    assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    "described",
    [
        column("varchar(9)"),
        column("varchar(9)", charset="utf7"),
        column("enum('?','a')", charset="utf8mb4"),
        column("enum('?','a')"),
        column("set('a','')", charset="latin1"),
        column("xmltype"),
        column("something of tomorrow"),
    ],
    ids=lambda described: f"{described.column_type} {described.charset}",
)
def test_other_types_stop_with_their_names(described: Column) -> None:
    with pytest.raises(UnsupportedColumnType) as raised:
        check_source_column(NAME, described)
    assert "shop.orders" in str(raised.value)
    assert described.column_type in raised.value.type


@pytest.mark.parametrize(
    ("described", "value", "key"),
    [
        (column("bigint"), b"7", b"7"),
        (column("decimal(5,2)"), b"1.50", b"1.5"),
        (column("datetime(3)"), b"2020-01-01 00:00:00.100", b"2020-01-01 00:00:00.1"),
        (column("varchar(9)", charset="utf8mb4", collation="utf8mb4_bin"), b"a  ", b"a"),
        (column("varchar(9)", charset="latin1", collation="latin1_bin"), b"\xe9", "é".encode()),
        (column("binary(4)"), b"a\0\0\0", b"a"),
        (column("bit(16)"), b"\0\x07", b"\x07"),
        (column("enum('A')", charset="latin1", collation="latin1_bin"), b"A", b"A"),
        (column("inet4"), b"1.2.3.4", b"1.2.3.4"),
    ],
    ids=lambda value: value.column_type if isinstance(value, Column) else None,
)
def test_key_forms_are_coarse(described: Column, value: bytes, key: bytes) -> None:
    key_form = codec_for(NAME, described).key_form
    assert key_form is not None
    assert key_form(value) == key


@pytest.mark.parametrize(
    "described",
    [
        column("double"),
        column("varchar(9)", charset="utf8mb4", collation="utf8mb4_general_ci"),
        column("varchar(9)", charset="gbk", collation="gbk_bin"),
        column("enum('a')", charset="utf8mb4", collation="utf8mb4_general_ci"),
        column("json"),
        column("geometry"),
    ],
    ids=lambda described: described.column_type,
)
def test_without_an_exact_comparison_there_is_no_key_form(described: Column) -> None:
    assert codec_for(NAME, described).key_form is None


def test_a_row_is_converted_from_select_to_literals() -> None:
    table = table_of("id int(10) unsigned zerofill NOT NULL, `weird``name` float, note text")
    select, read = row_reader(table)
    assert select == "`id`, `weird``name` * 1e0, `note`"
    row = read((b"0000000042", b"0.10000000149011612", None))
    assert row == (b"42", b"0.10000000149011612", None)
    assert row_literals(table, Flavour.MYSQL)(row) == (b"42", b"0.10000000149011612e0", b"NULL")


def test_latin1_is_cp1252_with_the_five_codes_that_it_leaves_open() -> None:
    every = bytes(range(256))
    text = strings.latin1_text(every)
    assert len(set(text)) == 256
    assert [text[code] for code in (0x80, 0x81, 0x8D, 0x8F, 0x90, 0x9D, 0xE9)] == list("€\x81\x8d\x8f\x90\x9dé")


@pytest.mark.parametrize(
    ("column_type", "charset", "members"),
    [
        (
            r"enum('a','it''s','b\\c','n\nl','','x,y','(')",
            "utf8mb4",
            [b"a", b"it's", b"b\\c", b"n\nl", b"", b"x,y", b"("],
        ),
        ("set('é','€')", "latin1", ["é".encode(), "€".encode()]),
        ("enum('?')", "latin1", [b"?"]),
    ],
)
def test_members_are_read_as_the_catalogue_writes_them(column_type: str, charset: str, members: list[bytes]) -> None:
    assert list(strings.members(column_type, charset)) == members


@pytest.mark.parametrize("column_type", ["enum", "enum()", "enum('a'", "enum('a' 'b')", "enum(a)"])
def test_members_that_cannot_be_read_are_refused(column_type: str) -> None:
    with pytest.raises(MalformedValue):
        strings.members(column_type, "utf8mb4")


def test_the_invalid_value_of_an_enum_is_read_as_its_own_value() -> None:
    select = codec_for(NAME, column("enum('')", charset="latin1")).select("`e`")
    assert select == "IF(`e` + 0 = 0, x'ff', CAST(CONVERT(`e` USING utf8mb4) AS BINARY))"


def test_json_goes_to_each_flavour_in_its_own_way() -> None:
    codec = codec_for(NAME, column("json"))
    assert codec.literal(Flavour.MARIADB)(b"[1.50]") == b"'[1.50]'"
    assert codec.literal(Flavour.MYSQL)(b"[1.50]") == b"JSON_ARRAY(1.50)"


def test_every_charset_has_a_codec() -> None:
    assert len(strings.CHARSETS) == 41
    for charset in strings.CHARSETS:
        codec_for(NAME, column("varchar(9)", charset=charset, collation=f"{charset}_bin"))
