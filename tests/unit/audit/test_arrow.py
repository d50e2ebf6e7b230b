"""Rows to Arrow: each style's values are exactly what the canonical bytes say, and what cannot be shown stops."""

import struct
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymysqlreplication.constants import FIELD_TYPE

from airflow_provider_dm.engine.audit.arrow import (
    EVENT_BATCH_ROWS,
    AnyTable,
    InvalidCell,
    OneTable,
    Shape,
    arrow_form,
    record_batches,
    schema_of,
)
from airflow_provider_dm.engine.audit.errors import UndecodableText
from airflow_provider_dm.engine.binlog.maps import WantedTables
from airflow_provider_dm.engine.binlog.planned import ByteRange
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.model import Column, Table
from tests.unit.binlog.building import ORDERS, ORDERS_MAP, UUID_OF_SOURCE, Log, column, order
from tests.unit.binlog.test_located import range_of


def table_of(*columns: Column) -> Table:
    return Table(TableName("shop", "things"), columns, ())


def cells(*values: bytes | None) -> pa.Array:
    return pa.array(values, pa.binary())


def seen(one: Column, value: bytes, *, text_as_bytes: bool = False) -> tuple[pa.DataType, object, object]:
    """(type, value in a struct, value in a map)"""
    table = table_of(one)
    typed, plain = OneTable(table, text_as_bytes=text_as_bytes), AnyTable([table], text_as_bytes=text_as_bytes)
    in_struct = typed.rows(0, [cells(value, None)])
    in_map = plain.rows(0, [cells(value, None)])
    for array, shape in ((in_struct, typed), (in_map, plain)):
        array.validate(full=True)
        assert array.type == shape.type
    assert in_struct[1].as_py() == {one.name: None}
    assert in_map[1].as_py() == [(one.name, None)]
    return in_struct.type.field(0).type, in_struct[0].as_py()[one.name], dict(in_map[0].as_py())[one.name]


def decimal(precision: int, scale: int) -> Column:
    return column(0, "c", "decimal", numeric_precision=precision, numeric_scale=scale)


UUID_TEXT = "5ab0cf4b-e4e6-11f1-88bf-02fc00000001"
CASES = [
    (column(0, "c", "tinyint(4)"), b"-128", pa.int64(), -128, "-128"),
    (column(0, "c", "bigint"), b"-9223372036854775808", pa.int64(), -(2**63), "-9223372036854775808"),
    (column(0, "c", "int unsigned"), b"4294967295", pa.int64(), 2**32 - 1, "4294967295"),
    (
        *(column(0, "c", "bigint unsigned"), b"18446744073709551615", pa.decimal128(20, 0)),
        *(Decimal(2**64 - 1), "18446744073709551615"),
    ),
    (decimal(10, 2), b"-0.05", pa.decimal128(10, 2), Decimal("-0.05"), "-0.05"),
    (decimal(38, 38), b"0." + b"9" * 38, pa.decimal128(38, 38), Decimal("0." + "9" * 38), "0." + "9" * 38),
    (decimal(39, 1), b"9" * 38 + b".9", pa.string(), "9" * 38 + ".9", "9" * 38 + ".9"),
    (column(0, "c", "float"), b"0.10000000149011612", pa.float64(), 0.10000000149011612, "0.10000000149011612"),
    (column(0, "c", "double"), b"5e-324", pa.float64(), 5e-324, "5e-324"),
    (column(0, "c", "bit(9)", numeric_precision=9), b"\x01\xff", pa.int64(), 511, "511"),
    (
        column(0, "c", "bit(64)", numeric_precision=64),
        b"\xff" * 8,
        pa.decimal128(20, 0),
        Decimal(2**64 - 1),
        str(2**64 - 1),
    ),
    (column(0, "c", "date"), b"0000-00-00", pa.string(), "0000-00-00", "0000-00-00"),
    (column(0, "c", "time(6)"), b"-838:59:58.999999", pa.string(), "-838:59:58.999999", "-838:59:58.999999"),
    (column(0, "c", "year"), b"0000", pa.string(), "0000", "0000"),
    (column(0, "c", "varchar(9)", charset="utf8mb4"), "😀".encode(), pa.string(), "😀", "😀"),
    (column(0, "c", "text", charset="latin1"), b"\x80\x81", pa.string(), "€\x81", "€\x81"),
    (column(0, "c", "varbinary(9)"), b"\x00\xff", pa.binary(), b"\x00\xff", "0x00ff"),
    (column(0, "c", "longblob"), b"", pa.binary(), b"", "0x"),
    (column(0, "c", "enum('a','ü')", charset="latin1"), "ü".encode(), pa.string(), "ü", "ü"),
    (column(0, "c", "enum('a','b')", charset="utf8mb4"), b"\xff", pa.string(), "", ""),
    (column(0, "c", "set('a','b')", charset="utf8mb4"), b"a,b", pa.string(), "a,b", "a,b"),
    (column(0, "c", "json"), b'{"a": 1.50}', pa.string(), '{"a": 1.50}', '{"a": 1.50}'),
    (column(0, "c", "uuid"), UUID_TEXT.encode(), pa.string(), *[UUID_TEXT] * 2),
    (column(0, "c", "inet6"), b"::1", pa.string(), "::1", "::1"),
    (column(0, "c", "vector(1)", octet_length=4), b"\x00\x00\x80?", pa.binary(), b"\x00\x00\x80?", "0x0000803f"),
    (column(0, "c", "geometry"), b"\x00\x01", pa.binary(), b"\x00\x01", "0x0001"),
    (column(0, "c", "varchar(9)", charset="big5"), b"\xa1\x40", pa.binary(), b"\xa1\x40", "0xa140"),
]


@pytest.mark.parametrize(("one", "value", "kind", "typed", "text"), CASES, ids=[case[0].column_type for case in CASES])
def test_a_canonical_value_is_converted_to_its_arrow_type(
    one: Column, value: bytes, kind: pa.DataType, typed: object, text: str
) -> None:
    assert seen(one, value) == (kind, typed, text)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_are_exact(number: float) -> None:
    _, typed, _ = seen(column(0, "c", "double"), repr(number).encode())
    assert isinstance(typed, float)
    assert struct.pack("<d", typed) == struct.pack("<d", number)


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38))
def test_decimals_are_exact(digits: int, scale: int) -> None:
    padded = f"{abs(digits):0{scale + 1}d}"
    text = "-" * (digits < 0) + (f"{padded[:-scale]}.{padded[-scale:]}" if scale else padded)
    _, typed, _ = seen(decimal(38, scale), text.encode())
    assert typed == Decimal(text)


@pytest.mark.parametrize(
    ("charset", "value"), [("utf8mb3", b"\xed\xa0\xbd"), ("utf16", b"\xd8\x3d"), ("ascii", b"\x80"), ("gbk", b"\xff")]
)
def test_text_that_its_charset_does_not_allow_is_not_shown_as_text(charset: str, value: bytes) -> None:
    one = column(1, "c", "varchar(9)", charset=charset)
    table = table_of(column(0, "id", "int"), one)
    for shape in (OneTable(table), AnyTable([table])):
        with pytest.raises(InvalidCell) as refused:
            shape.rows(0, [cells(b"1", b"2", b"3"), cells(b"", value, None)])
        assert (refused.value.index, refused.value.column, refused.value.value) == (1, one, value)
    assert seen(one, value, text_as_bytes=True) == (pa.binary(), value, "0x" + value.hex())


def test_a_type_without_a_codec_is_refused() -> None:
    with pytest.raises(Exception, match="DM-5101"):
        arrow_form(table_of(), column(0, "c", "hologram"))


# Whole batches, from a log


RAW = column(1, "raw", "varbinary(80)", octet_length=80)
OTHER = replace(ORDERS, name=TableName("shop", "others"), columns=(ORDERS.columns[0], RAW))


def lines(one: ByteRange, shape: Shape, *tables: Table, **options: str) -> list[dict[str, Any]]:
    found = []
    for batch in record_batches(one, WantedTables.whole(tables), shape, **options):
        assert batch.schema == schema_of(shape)
        batch.validate(full=True)
        found += batch.to_pylist()
    return found


@pytest.fixture(params=["off", "on"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of decoding; "on" is the plain one, too, where the kernels are not compiled yet."""
    monkeypatch.setenv("DM_KERNELS", request.param)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_a_record_has_the_value_before_and_after_the_change(flavour: str, tmp_path: Path) -> None:
    log = Log(flavour)
    log.begin()
    log.table_map()
    inserts = log.rows("insert", [order(1), order(2, None)])
    behind = log.table_map()
    log.rows("update", [order(1), order(1, "é".encode())])
    log.table_map(OTHER.name, number=10)
    log.rows("delete", [order(7, b"\xff")], number=10)
    log.xid()
    one = range_of(log, tmp_path)

    plain = lines(one, AnyTable([ORDERS, OTHER]), ORDERS, OTHER, sub_dir="uuid.000001")
    assert [(line["table"], line["operation"], line["before"], line["after"]) for line in plain] == [
        ("orders", "insert", None, [("id", "1"), ("note", "x")]),
        ("orders", "insert", None, [("id", "2"), ("note", None)]),
        ("orders", "update", [("id", "1"), ("note", "x")], [("id", "1"), ("note", "é")]),
        ("others", "delete", [("id", "7"), ("raw", "0xff")], None),
    ]
    typed = lines(one, OneTable(ORDERS), ORDERS)
    assert [(line["before"], line["after"]) for line in typed] == [
        (None, {"id": 1, "note": "x"}),
        (None, {"id": 2, "note": None}),
        ({"id": 1, "note": "x"}, {"id": 1, "note": "é"}),
    ]
    about = {name: value for name, value in plain[1].items() if name not in ("before", "after", "timestamp")}
    gtid = "0-7-1" if flavour == "mariadb" else f"{UUID_OF_SOURCE}:1"
    assert about == {
        "sub_dir": "uuid.000001",
        "file": log.name,
        "position": inserts,
        "end_position": behind,
        "row": 1,
        "server_id": 7,
        "gtid": gtid,
        "schema": "shop",
        "table": "orders",
        "operation": "insert",
    }
    assert plain[1]["timestamp"].timestamp() == 1_700_000_000


@pytest.mark.usefixtures("kernels")
def test_value_that_cannot_be_shown_stops_at_its_event(tmp_path: Path) -> None:
    log = Log()
    log.transaction()
    log.begin()
    log.change(None, order(1))
    log.table_map()
    at = log.rows("update", [order(1), order(1, b"\xff")])
    log.xid()
    for shape in (OneTable(ORDERS), AnyTable([ORDERS])):
        with pytest.raises(UndecodableText) as stopped:
            lines(range_of(log, tmp_path), shape, ORDERS)
        assert stopped.value.details() == {
            "at": f"{log.name}:{at}",
            "table": "shop.orders",
            "column": "note",
            "charset": "utf8mb4",
            "value": "0xff",
        }


@pytest.mark.usefixtures("kernels")
def test_many_small_events_make_few_batches_and_a_large_one_is_cut(tmp_path: Path) -> None:
    log = Log()
    for number in range(300):
        log.transaction(("insert", [order(number)]))
    log.transaction(("delete", [order(number) for number in range(2 * EVENT_BATCH_ROWS)]))
    shape = OneTable(ORDERS)
    one = range_of(log, tmp_path)
    batches = list(record_batches(one, WantedTables.whole([ORDERS]), shape))
    assert sum(batch.num_rows for batch in batches) == 300 + 2 * EVENT_BATCH_ROWS
    assert all(batch.num_rows <= EVENT_BATCH_ROWS for batch in batches)
    assert len(batches) <= 5
    found = lines(one, shape, ORDERS)
    assert [line["after"]["id"] for line in found[:300]] == list(range(300))
    assert [line["row"] for line in found] == [0] * 300 + list(range(2 * EVENT_BATCH_ROWS))
    assert [line["before"]["id"] for line in found[300:]] == list(range(2 * EVENT_BATCH_ROWS))


@pytest.mark.usefixtures("kernels")
def test_a_column_that_the_catalogue_hides_is_not_shown(tmp_path: Path) -> None:
    table = replace(ORDERS, hidden=1)
    types, metadata = ORDERS_MAP
    log = Log()
    log.begin()
    log.table_map(types=(types + bytes([FIELD_TYPE.LONGLONG]), metadata))
    log.rows("insert", [b"\xf8" + order(1)[1:] + bytes(8)], columns=3)
    log.xid()
    one = range_of(log, tmp_path)
    assert [line["after"] for line in lines(one, OneTable(table), table)] == [{"id": 1, "note": "x"}]
    assert [dict(line["after"]) for line in lines(one, AnyTable([table]), table)] == [{"id": "1", "note": "x"}]


@pytest.mark.usefixtures("kernels")
def test_large_rows_make_small_batches(tmp_path: Path) -> None:
    table = table_of(column(0, "b", "longblob", octet_length=2**32 - 1))
    log = Log()
    for _ in range(5):
        log.begin()
        log.table_map(table.name, (b"\xfc", b"\x04"))
        log.rows("insert", [b"\xfe" + (7 << 20).to_bytes(4, "little") + bytes(7 << 20)], columns=1)
        log.xid()
    batches = list(record_batches(range_of(log, tmp_path), WantedTables.whole([table]), OneTable(table)))
    assert [batch.num_rows for batch in batches] == [2, 2, 1]
    assert all(len(row["b"]) == 7 << 20 for batch in batches for row in batch.column("after").to_pylist())


def test_no_change_makes_no_batch(tmp_path: Path) -> None:
    log = Log()
    log.transaction()
    assert lines(range_of(log, tmp_path), OneTable(OTHER), OTHER) == []


@pytest.mark.usefixtures("kernels")
def test_a_row_that_does_not_fit_stops_at_its_event(tmp_path: Path) -> None:
    dates = table_of(column(0, "d", "enum('a')", charset="utf8mb4", octet_length=4))
    log = Log()
    log.begin()
    log.table_map(dates.name, (b"\xfe", b"\xf7\x01"))
    at = log.rows("insert", [b"\xfe\x01", b"\xfe\x09"], columns=1)  # the ninth member of one
    log.xid()
    with pytest.raises(Exception, match=rf"DM-3021.*{log.name}:{at}"):
        lines(range_of(log, tmp_path), OneTable(dates), dates)
