"""Maps against the catalogue: hidden columns, and optional fields that are of no interest."""

import struct
from dataclasses import replace

import pytest
from pymysqlreplication.constants import FIELD_TYPE

from airflow_provider_dm.engine.binlog import cells
from airflow_provider_dm.engine.binlog.cells import Cell, CellKind
from airflow_provider_dm.engine.binlog.errors import MalformedEvent, SchemaMismatch
from airflow_provider_dm.engine.binlog.table_map import TableMap, map_cells, parse_map
from airflow_provider_dm.engine.schema.model import Table
from tests.unit.binlog.building import NAME, column

TABLE = Table(NAME, (column(0, "id", "int"), column(1, "b", "blob", octet_length=65535)), (), hidden=1)
MAP = TableMap(NAME, bytes([FIELD_TYPE.LONG, FIELD_TYPE.BLOB, FIELD_TYPE.LONGLONG]), (b"", b"\x02", b""))
HASH = Cell(CellKind.HIDDEN, 8)


def test_a_hidden_hash_is_a_cell_without_a_column() -> None:
    assert map_cells(MAP, TABLE, "here") == (Cell(CellKind.SIGNED, 4), Cell(CellKind.BYTES, prefix=2), HASH)
    named = replace(MAP, names=("id", "b", "DB_ROW_HASH_1"), unsigned=(False, True))
    assert map_cells(named, TABLE, "here")[-1] == HASH


@pytest.mark.parametrize(
    ("found", "table"),
    [
        (MAP, replace(TABLE, hidden=0)),
        (MAP, replace(TABLE, hidden=2)),
        (replace(MAP, types=bytes([FIELD_TYPE.LONG, FIELD_TYPE.BLOB, FIELD_TYPE.LONG])), TABLE),
        (replace(MAP, names=("id", "b", "c")), TABLE),
        (replace(MAP, names=("id", "c", "DB_ROW_HASH_1")), TABLE),
        (replace(MAP, names=("id", "b")), TABLE),
        (replace(MAP, unsigned=(True, True)), TABLE),
    ],
)
def test_other_columns_after_the_last_are_a_mismatch(found: TableMap, table: Table) -> None:
    with pytest.raises(SchemaMismatch, match=r"shop\.orders has changed"):
        map_cells(found, table, "here")


def body(*fields: tuple[int, bytes]) -> bytes:
    """A map of (INT, VECTOR), with optional fields after it."""
    head = b"\x04shop\0\x06orders\0" + b"\x02" + bytes([FIELD_TYPE.LONG, cells.VECTOR]) + b"\x01\x04" + b"\x03"
    return head + b"".join(bytes([kind]) + length(field) + field for kind, field in fields)


def length(field: bytes) -> bytes:
    return bytes([len(field)]) if len(field) < 251 else b"\xfc" + struct.pack("<H", len(field))


def test_optional_fields_that_are_not_needed_are_skipped() -> None:
    # As MySQL 9.7 writes with binlog_row_metadata=FULL: charsets, enum strings, geometry types, key, visibility,
    # dimensions of vectors, and one of tomorrow.
    others = [(kind, bytes(kind * 20)) for kind in (2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 99)]
    found = parse_map(body(*others[:3], (1, b"\x80"), *others[3:], (4, b"\x02id\x01v")), "here")
    assert (found.unsigned, found.names) == ((True,), ("id", "v"))
    assert found.metadata == (b"", b"\x04")


def test_a_truncated_optional_field_is_malformed() -> None:
    with pytest.raises(MalformedEvent):
        parse_map(body((12, b"\x80"))[:-1], "here")
