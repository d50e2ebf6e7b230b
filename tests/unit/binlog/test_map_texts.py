"""The charsets and members in a table map, compared with a definition."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from pymysqlreplication.constants import FIELD_TYPE

from airflow_provider_dm.engine.binlog import cells
from airflow_provider_dm.engine.binlog.errors import MalformedEvent, SchemaMismatch
from airflow_provider_dm.engine.binlog.map_texts import contradictions
from airflow_provider_dm.engine.binlog.table_map import TableMap, map_cells
from airflow_provider_dm.engine.schema.model import Table
from tests.unit.binlog.building import NAME, column

DEFAULT, LISTED, SETS, ENUMS = 2, 3, 5, 6
UTF8MB4, UTF8MB3, LATIN1, BINARY, GBK, UCS2, TOMORROW = 255, 33, 8, 63, 28, 35, 9_999
TABLE = Table(
    NAME,
    (
        column(0, "id", "int"),
        column(1, "v", "varchar(9)", charset="utf8mb4", octet_length=36),
        column(2, "e", "enum('a','é')", charset="latin1"),
        column(3, "c", "char(3)", charset="latin1", octet_length=3),
        column(4, "b", "blob", octet_length=65535),
        column(5, "s", "set('x','y')", charset="utf8mb3"),
    ),
    (),
)
STORED = [
    (FIELD_TYPE.LONG, b""), (FIELD_TYPE.VARCHAR, b"\x24\0"), (FIELD_TYPE.STRING, b"\xf7\x01"),
    (FIELD_TYPE.STRING, b"\xfe\x03"),
    (FIELD_TYPE.BLOB, b"\x02"), (FIELD_TYPE.STRING, b"\xf8\x01"),
]  # fmt: skip
TYPES, METADATA = bytes(code for code, _ in STORED), tuple(one for _, one in STORED)


def packed(*numbers: int) -> bytes:
    return b"".join(bytes([one]) if one < 251 else b"\xfc" + one.to_bytes(2, "little") for one in numbers)


def members(*columns: tuple[bytes, ...]) -> bytes:
    return b"".join(packed(len(names)) + b"".join(packed(len(one)) + one for one in names) for names in columns)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {}),
        ({LISTED: packed(UTF8MB4, LATIN1, BINARY)}, {}),
        ({LISTED: packed(UTF8MB3, LATIN1, BINARY)}, {}),  # the same bytes
        ({LISTED: packed(LATIN1, LATIN1, BINARY)}, {"v": "CHARACTER SET latin1"}),
        ({LISTED: packed(UTF8MB4, UTF8MB4, BINARY)}, {"c": "CHARACTER SET utf8"}),
        ({LISTED: packed(UTF8MB4, BINARY, GBK)}, {"c": "CHARACTER SET binary", "b": "CHARACTER SET gbk"}),
        ({LISTED: packed(TOMORROW, UCS2, BINARY)}, {}),
        ({LISTED: packed(UTF8MB4, LATIN1)}, {}),  # about other columns than we think
        ({DEFAULT: packed(UTF8MB4, 1, LATIN1, 2, BINARY)}, {}),
        ({DEFAULT: packed(LATIN1, 2, BINARY)}, {"v": "CHARACTER SET latin1"}),
        ({DEFAULT: packed(UTF8MB4, 3, LATIN1)}, {}),
        ({ENUMS: members((b"a", b"\xe9")), SETS: members((b"x", b"y"))}, {}),
        ({ENUMS: members((b"\xe9", b"a"))}, {"e": "the members é, a"}),
        ({ENUMS: members((b"a", b"b"))}, {"e": "the members a, b"}),
        ({SETS: members((b"y", b"x"))}, {"s": "the members y, x"}),
        ({SETS: members((b"\xff", b"x"))}, {}),  # no text that Python reads
    ],
)  # fmt: skip
def test_a_difference_is_named(fields: Mapping[int, bytes], expected: dict[str, str]) -> None:
    found = contradictions(fields, TYPES, METADATA, TABLE, "here")
    assert {one.name: log for one, log in found} == expected


def test_a_truncated_field_is_malformed() -> None:
    for fields in ({LISTED: b"\xfc\x01"}, {ENUMS: members((b"a", b"b"))[:-1]}):
        with pytest.raises(MalformedEvent):
            list(contradictions(fields, TYPES, METADATA, TABLE, "here"))


@pytest.mark.parametrize("stored", [(FIELD_TYPE.GEOMETRY, b"\x04"), (cells.VECTOR, b"\x04")])
def test_charsets_are_left_alone_where_it_is_not_certain_whose_they_are(stored: tuple[int, bytes]) -> None:
    table = replace(TABLE, columns=(*TABLE.columns, column(6, "g", "point")))
    found = contradictions(
        {LISTED: packed(LATIN1, LATIN1, BINARY, BINARY)},
        TYPES + bytes([stored[0]]),
        (*METADATA, stored[1]),
        table,
        "here",
    )
    assert list(found) == []


def test_a_different_charset_in_the_map_stops_at_its_location() -> None:
    found = TableMap(NAME, TYPES, METADATA, fields={LISTED: packed(GBK, LATIN1, BINARY)})
    with pytest.raises(SchemaMismatch, match=r"at here the log has v with CHARACTER SET gbk.*CHARACTER SET utf8mb4"):
        map_cells(found, TABLE, "here")
    assert map_cells(replace(found, fields={}), TABLE, "here")
