"""From type codes, metadata and the catalogue's column to a cell; what contradicts each other is no cell."""

import pytest
from pymysqlreplication.constants import FIELD_TYPE

from airflow_provider_dm.engine.binlog import cells
from airflow_provider_dm.engine.binlog.cells import Cell, CellKind, cell_for
from airflow_provider_dm.engine.binlog.errors import Contradiction
from airflow_provider_dm.engine.schema.errors import UnsupportedColumnType
from airflow_provider_dm.engine.schema.model import Column
from tests.unit.binlog.building import NAME, column


def string(kind: int, length: int) -> bytes:
    """Metadata of a STRING."""
    return bytes([kind ^ ((length & 0x300) >> 4), length & 0xFF])


COMPRESSED = "/*M!100301 COMPRESSED*/"
FITTING = [
    (column(0, "c", "mediumint"), FIELD_TYPE.INT24, b"", Cell(CellKind.SIGNED, 3)),
    (column(0, "c", "bigint(20) unsigned"), FIELD_TYPE.LONGLONG, b"", Cell(CellKind.UNSIGNED, 8)),
    (column(0, "c", "decimal(5,2)", numeric_precision=5, numeric_scale=2), FIELD_TYPE.NEWDECIMAL, b"\x05\x02",
     Cell(CellKind.DECIMAL, 3, precision=5, scale=2)),
    (column(0, "c", "bit(9)", numeric_precision=9), FIELD_TYPE.BIT, b"\x01\x01", Cell(CellKind.BITS, 2)),
    (column(0, "c", "time(3)", datetime_precision=3), FIELD_TYPE.TIME2, b"\x03", Cell(CellKind.TIME2, 5, precision=3)),
    (column(0, "c", "datetime", datetime_precision=0), FIELD_TYPE.DATETIME, b"", Cell(CellKind.OLD_DATETIME, 8)),
    (column(0, "c", "binary(4)", octet_length=4), FIELD_TYPE.STRING, string(254, 4),
     Cell(CellKind.PADDED, prefix=1, precision=4)),
    (column(0, "c", "char(100)", octet_length=400), FIELD_TYPE.STRING, string(254, 400),
     Cell(CellKind.BYTES, prefix=2)),
    (column(0, "c", "mediumblob", octet_length=1), FIELD_TYPE.BLOB, b"\x03", Cell(CellKind.BYTES, prefix=3)),
    (column(0, "c", "enum('a','b')", charset="ucs2"), FIELD_TYPE.STRING, b"\xf7\x01",
     Cell(CellKind.ENUM, 1, members=(b"a", b"b"))),
    (column(0, "c", "set('é')", charset="latin1"), FIELD_TYPE.STRING, b"\xf8\x01",
     Cell(CellKind.SET, 1, members=("é".encode(),))),
    (column(0, "c", "json"), FIELD_TYPE.JSON, b"\x04", Cell(CellKind.JSON, prefix=4)),
    (column(0, "c", "point"), FIELD_TYPE.GEOMETRY, b"\x04", Cell(CellKind.BYTES, prefix=4)),
    (column(0, "c", "geomcollection"), FIELD_TYPE.GEOMETRY, b"\x04", Cell(CellKind.BYTES, prefix=4)),
    (column(0, "c", "vector(3)", octet_length=12), cells.VECTOR, b"\x04", Cell(CellKind.BYTES, prefix=4)),
    (column(0, "c", "vector(100)", octet_length=400), FIELD_TYPE.VARCHAR, b"\x90\x01", Cell(CellKind.BYTES, prefix=2)),
    (column(0, "c", "uuid"), FIELD_TYPE.STRING, b"\xfe\x10", Cell(CellKind.UUID, prefix=1)),
    (column(0, "c", "inet4"), FIELD_TYPE.STRING, b"\xfe\x04", Cell(CellKind.INET4, prefix=1)),
    (column(0, "c", "inet6"), FIELD_TYPE.STRING, b"\xfe\x10", Cell(CellKind.INET6, prefix=1)),
    (column(0, "c", f"varchar(63) {COMPRESSED}", octet_length=254), cells.MARIADB_VARCHAR_COMPRESSED, b"\xff\0",
     Cell(CellKind.COMPRESSED, prefix=1, precision=254)),
    (column(0, "c", f"varchar(255) {COMPRESSED}", octet_length=255), cells.MARIADB_VARCHAR_COMPRESSED, b"\0\1",
     Cell(CellKind.COMPRESSED, prefix=2, precision=255)),
    (column(0, "c", f"text {COMPRESSED}", octet_length=65535), cells.MARIADB_BLOB_COMPRESSED, b"\2",
     Cell(CellKind.COMPRESSED, prefix=2, precision=65535)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("described", "code", "metadata", "cell"), FITTING, ids=lambda value: getattr(value, "column_type", "")
)
def test_a_cell_for_each_type(described: Column, code: int, metadata: bytes, cell: Cell) -> None:
    assert cell_for(NAME, described, code, metadata) == cell


@pytest.mark.parametrize(
    ("described", "code", "metadata"),
    [
        (column(0, "c", "bit(9)", numeric_precision=9), FIELD_TYPE.BIT, b"\x09\x00"),  # a server would read one byte
        (column(0, "c", "bit(9)", numeric_precision=9), FIELD_TYPE.LONG, b"\x01\x01"),
        (column(0, "c", "decimal(5,2)", numeric_precision=5, numeric_scale=2), FIELD_TYPE.NEWDECIMAL, b"\x05\x03"),
        (column(0, "c", "datetime(3)", datetime_precision=3), FIELD_TYPE.DATETIME, b""),  # the old form has no fraction
        (column(0, "c", "json"), FIELD_TYPE.JSON, b"\x02"),
        (column(0, "c", "point"), FIELD_TYPE.GEOMETRY, b"\x03"),
        (column(0, "c", "uuid"), FIELD_TYPE.STRING, b"\xfe\x04"),
        (column(0, "c", "inet4"), FIELD_TYPE.VARCHAR, b"\x04\x00"),
        (column(0, "c", "vector(3)", octet_length=12), FIELD_TYPE.VARCHAR, b"\x08\x00"),
        (column(0, "c", "varchar(63)", octet_length=252), cells.MARIADB_VARCHAR_COMPRESSED, b"\xfd\0"),
        (column(0, "c", f"varchar(63) {COMPRESSED}", octet_length=252), cells.MARIADB_VARCHAR_COMPRESSED, b"\xfc\0"),
        (column(0, "c", f"varchar(63) {COMPRESSED}", octet_length=252), FIELD_TYPE.VARCHAR, b"\xfd\0"),
        (column(0, "c", f"text {COMPRESSED}", octet_length=65535), cells.MARIADB_BLOB_COMPRESSED, b"\3"),
        (column(0, "c", "int"), cells.MARIADB_BLOB_COMPRESSED, b"\3"),
    ],
    ids=lambda value: getattr(value, "column_type", ""),
)
def test_a_table_map_that_contradicts_the_catalogue_is_refused(described: Column, code: int, metadata: bytes) -> None:
    with pytest.raises(Contradiction):
        cell_for(NAME, described, code, metadata)


def test_a_json_column_of_another_type_in_the_log_is_refused() -> None:
    for kind in ("json", "geometry"):
        with pytest.raises((Contradiction, UnsupportedColumnType)):
            cell_for(NAME, column(0, "c", kind), FIELD_TYPE.BLOB, b"\x04")
