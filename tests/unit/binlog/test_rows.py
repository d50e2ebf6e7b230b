"""Row changes come out in order, whole, and only of the tables and transactions that are wanted."""

import struct
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from pymysqlreplication.constants import FIELD_TYPE

from airflow_provider_dm.engine.binlog.errors import (
    ChecksumMismatch,
    MalformedEvent,
    MalformedRows,
    PartialRowImage,
    SchemaMismatch,
    UnknownEvent,
)
from airflow_provider_dm.engine.binlog.maps import WantedTable, WantedTables
from airflow_provider_dm.engine.binlog.partial_rows import ABSENT
from airflow_provider_dm.engine.binlog.planned import ByteRange, Epoch
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.binlog.rows import RowChange, decode_range
from airflow_provider_dm.engine.errors import DmError, NotSupportedYet
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.schema.model import Column
from tests.unit.binlog.building import FLAVOURS, ORDERS, ORDERS_MAP, Log, column, order


def range_of(log: Log, folder: Path) -> ByteRange:
    file = log.file(folder)
    planned = plan_epoch([file], Location(file.name, 4))
    assert isinstance(planned, Epoch)
    (byte_range,) = planned.ranges
    return byte_range


def changes(
    log: Log,
    folder: Path,
    *,
    skip_until: str = "",
    columns: tuple[Column, ...] = ORDERS.columns,
    hidden: int = 0,
    optional_columns: tuple[int, ...] = (),
) -> list[RowChange]:
    byte_range = range_of(log, folder)
    table = replace(ORDERS, columns=columns, hidden=hidden)
    wanted = WantedTables([WantedTable(table, skip_until, optional_columns)])
    data = bytes(log.data[byte_range.start : byte_range.end])
    in_memory = replace(byte_range, data=data, path="/nowhere")

    def decoded(which: ByteRange, compiled: bool) -> list[RowChange]:
        return list(decode_range(which, wanted, compiled=compiled))

    return both_ways(partial(decoded, byte_range), partial(decoded, in_memory))


def both_ways(*ways: Callable[[bool], list[RowChange]]) -> list[RowChange]:
    """Decode by kernels and plainly: one outcome, be it rows or an error."""
    plain, *others = [outcome(way, compiled) for way in ways for compiled in (False, True)]
    for other in others:
        assert str(other) == str(plain)
        assert type(other) is type(plain)
    if isinstance(plain, DmError):
        raise plain
    return plain


def outcome(way: Callable[[bool], list[RowChange]], compiled: bool) -> list[RowChange] | DmError:
    try:
        return way(compiled)
    except DmError as error:
        return error


def one_row(log: Log, **options: int) -> Log:
    log.begin()
    log.table_map()
    log.rows("insert", [order(1)], **options)
    log.xid()
    return log


def test_rows_of_excluded_tables_are_not_decoded(tmp_path: Path) -> None:
    log = Log()
    log.begin()
    log.table_map(TableName("shop", "secret"), (bytes([243]), b""), number=3)
    log.rows("insert", [b"nonsense"], number=3, columns=1)
    log.change(None, order(1))
    log.xid()
    assert changes(log, tmp_path) == [RowChange(0, None, (b"1", b"x"))]


@FLAVOURS
def test_transactions_that_end_at_or_before_the_skip_location_are_left_out(flavour: str, tmp_path: Path) -> None:
    log = Log(flavour)
    spans = [log.transaction(("insert", [order(number)])) for number in range(4)]

    def ids(position: int) -> list[bytes | None]:
        key = Location(log.name, position).sort_key
        return [change.after[0] for change in changes(log, tmp_path, skip_until=key) if change.after]

    assert ids(4) == [b"0", b"1", b"2", b"3"]
    assert ids(spans[1][1]) == [b"2", b"3"]
    assert ids(spans[1][1] - 1) == [b"1", b"2", b"3"], "a transaction that reaches behind the location is whole"
    assert ids(spans[1][1] + 1) == [b"2", b"3"]
    assert ids(spans[3][1]) == []
    assert ids(1 << 40) == []


def test_ddl_before_the_skip_location_does_not_matter(tmp_path: Path) -> None:
    log = one_row(Log())
    other, behind = ORDERS.columns[:1], Location(log.name, 1 << 40).sort_key
    assert changes(log, tmp_path, columns=other, skip_until=behind) == []
    assert changes(log, tmp_path, columns=(), skip_until=behind) == []
    with pytest.raises(SchemaMismatch):
        changes(log, tmp_path, columns=other)


def test_rows_of_a_table_that_no_longer_exists_are_those_of_no_wanted_table(tmp_path: Path) -> None:
    log = one_row(Log())
    asked: list[TableName] = []
    wanted = WantedTables([WantedTable(replace(ORDERS, columns=()), Location(log.name, 4).sort_key)], asked.append)
    assert list(decode_range(range_of(log, tmp_path), wanted, compiled=False)) == []
    assert asked == [ORDERS.name]


def test_every_event_is_checked_also_those_that_are_not_needed(tmp_path: Path) -> None:
    log = one_row(Log())
    byte_range = range_of(log, tmp_path)
    data = bytes(log.data[byte_range.start : byte_range.end])
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        with pytest.raises((ChecksumMismatch, MalformedEvent)):
            list(decode_range(replace(byte_range, data=bytes(damaged)), WantedTables.whole([ORDERS])))


@pytest.mark.parametrize("kind", ["insert", "update", "delete"])
def test_a_partial_image_stops(kind: str, tmp_path: Path) -> None:
    log = Log()
    log.begin()
    log.table_map()
    position = log.rows(kind, [order(1)] * 2, present=1)
    log.xid()
    with pytest.raises(PartialRowImage, match="lack columns: note") as raised:
        changes(log, tmp_path)
    assert raised.value.at == f"{log.name}:{position}"


@FLAVOURS
def test_a_column_that_is_not_needed_may_be_missing(flavour: str, tmp_path: Path) -> None:
    """It is left out by one image of a pair or by both, and by an event whose neighbours have it."""
    log, only_id, whole = Log(flavour), 1, 3
    log.transaction(("insert", [order(1), order(2, None)]))
    log.begin()
    for kind, present, images in (
        ("update", (only_id, only_id), [b"\0" + struct.pack("<i", 1), b"\0" + struct.pack("<i", 3)]),
        ("update", (only_id, whole), [b"\0" + struct.pack("<i", 3), order(4, b"y"), b"\1", order(5)]),
        ("delete", only_id, [b"\0" + struct.pack("<i", 4), b"\1"]),
    ):
        log.table_map()
        log.rows(kind, images, present=present)
    log.xid()
    log.transaction(("delete", [order(5)]))
    assert changes(log, tmp_path, optional_columns=(1,)) == [
        RowChange(0, None, (b"1", b"x")),
        RowChange(0, None, (b"2", None)),
        RowChange(0, (b"1", ABSENT), (b"3", ABSENT)),
        RowChange(0, (b"3", None), (b"4", b"y")),  # of an update only the row that stays can be held against anything
        RowChange(0, (None, None), (b"5", b"x")),
        RowChange(0, (b"4", ABSENT), None),
        RowChange(0, (None, ABSENT), None),
        RowChange(0, (b"5", b"x"), None),
    ]
    with pytest.raises(PartialRowImage, match="lack columns: note"):
        changes(log, tmp_path, optional_columns=(0,))


def test_a_hidden_column_may_always_be_left_out(tmp_path: Path) -> None:
    """MariaDB's hash of a UNIQUE over long values: a BIGINT after all columns."""
    log = Log("mariadb")
    types, metadata = ORDERS_MAP
    log.begin()
    for kind, present, end in (("insert", 7, struct.pack("<q", 5)), ("delete", 3, b"")):
        log.table_map(types=(types + bytes([FIELD_TYPE.LONGLONG]), metadata))
        log.rows(kind, [b"\0" + order(1)[1:] + end], columns=3, present=present)
    log.xid()
    assert changes(log, tmp_path, hidden=1) == [RowChange(0, None, (b"1", b"x")), RowChange(0, (b"1", b"x"), None)]


@pytest.mark.parametrize(
    "columns",
    [
        ORDERS.columns[:1],
        (*ORDERS.columns, column(2, "more", "int")),
        (column(0, "id", "bigint"), ORDERS.columns[1]),
        (ORDERS.columns[0], column(1, "note", "varchar(30)", charset="utf8mb4", octet_length=120)),
        (ORDERS.columns[0], column(1, "note", "text", charset="utf8mb4", octet_length=65535)),
        (ORDERS.columns[0], column(1, "note", "decimal(5,2)", numeric_precision=5, numeric_scale=2)),
    ],
)
def test_a_definition_of_another_time_stops_and_shows_both(columns: tuple[Column, ...], tmp_path: Path) -> None:
    log = one_row(Log())
    with pytest.raises(SchemaMismatch) as raised:
        changes(log, tmp_path, columns=columns)
    assert raised.value.log
    assert raised.value.catalogue


def test_signs_and_names_in_the_map_are_held_against_the_definition(tmp_path: Path) -> None:
    def log_with(optional: bytes) -> Log:
        log = Log()
        log.begin()
        start = log.table_map()
        body = bytes(log.data[start + 19 : -4]) + optional
        del log.data[start:]
        log.add(19, body)
        log.rows("insert", [order(1)])
        log.xid()
        return log

    assert changes(log_with(b"\x01\x01\x00\x04\x08\x02id\x04note"), tmp_path)
    with pytest.raises(SchemaMismatch, match="unsigned"):
        changes(log_with(b"\x01\x01\x80"), tmp_path)
    with pytest.raises(SchemaMismatch, match="memo"):
        changes(log_with(b"\x04\x08\x02id\x04memo"), tmp_path)


def test_rows_that_do_not_fit_stop(tmp_path: Path) -> None:
    wrong_count, cut, odd = one_row(Log(), columns=3), Log(), Log()
    cut.transaction(("insert", [order(1), order(2)[:-1]]))
    odd.transaction(("update", [order(1)]))
    for log in (wrong_count, cut, odd):
        with pytest.raises(MalformedRows):
            changes(log, tmp_path)


def test_rows_of_a_table_that_was_not_named_stop(tmp_path: Path) -> None:
    with pytest.raises(MalformedEvent, match="named"):
        changes(one_row(Log(), number=8), tmp_path)


def test_the_end_of_a_statement_without_a_table_is_no_row(tmp_path: Path) -> None:
    log = Log()
    log.begin()
    log.add(30, b"\xff" * 6 + b"\1\0" + b"\2\0" + b"\0")
    log.change(None, order(1))
    log.xid()
    assert len(changes(log, tmp_path)) == 1


def test_a_table_map_is_never_read_past_its_end(tmp_path: Path) -> None:
    log = Log()
    start = log.table_map()
    body = bytes(log.data[start + 19 : -4])
    for size in range(8, len(body)):
        cut = Log(checksum=False)
        cut.begin()
        cut.add(19, body[:size])
        cut.xid()
        with pytest.raises(MalformedEvent):
            changes(cut, tmp_path)


def test_a_stopping_event_inside_a_range_stops_the_decoder_too(tmp_path: Path) -> None:
    log = one_row(Log())
    byte_range = range_of(log, tmp_path)
    start = log.position
    log.add(26, b"x" * 20)
    log.file(tmp_path)
    grown = replace(byte_range, end=log.position)
    with pytest.raises(UnknownEvent) as raised:
        list(decode_range(grown, WantedTables.whole([ORDERS])))
    assert raised.value.at == f"{log.name}:{start}"


@pytest.mark.parametrize("last", [True, False])
def test_a_table_map_is_valid_until_its_statement_ends(last: bool, tmp_path: Path) -> None:
    log = Log()
    log.begin()
    log.table_map()
    log.rows("insert", [order(1)], last=last)
    log.rows("insert", [order(2)])
    log.xid()
    if last:
        with pytest.raises(MalformedEvent, match="named"):
            changes(log, tmp_path)
    else:
        assert len(changes(log, tmp_path)) == 2


def test_a_table_of_a_payload_is_unknown_after_it(tmp_path: Path) -> None:
    inner = Log.inner()
    inner.query("BEGIN")
    inner.table_map()
    inner.rows("insert", [order(1)], last=False)
    inner.xid()
    log = Log()
    log.gtid()
    log.payload(inner)
    log.begin()
    log.rows("insert", [order(2)])
    log.xid()
    with pytest.raises(MalformedEvent, match="named"):
        changes(log, tmp_path)


def test_changes_of_documents_are_refused_with_a_remedy(tmp_path: Path) -> None:
    log = Log()
    log.begin()
    log.table_map(types=(bytes([FIELD_TYPE.LONG, FIELD_TYPE.JSON]), b"\x04"))
    image = b"\xfe" + struct.pack("<i", 1)
    head = (9).to_bytes(6, "little") + b"\1\0" + b"\2\0" + b"\2" + b"\xff\xff"
    log.add(39, head + image + b"\1\0" + image)
    log.xid()
    columns = (ORDERS.columns[0], column(1, "note", "json"))
    with pytest.raises(NotSupportedYet, match=r"changes of JSON documents .*orders") as error:
        changes(log, tmp_path, columns=columns)
    assert "binlog_row_value_options=''" in error.value.workaround()


def test_a_payload_inside_a_payload_is_refused(tmp_path: Path) -> None:
    inner, middle = Log.inner(), Log.inner()
    inner.change(None, order(1))
    middle.payload(inner)
    log = one_row(Log())
    byte_range = range_of(log, tmp_path)
    start = log.position
    log.payload(middle)
    grown = replace(byte_range, end=log.position, data=bytes(log.data[byte_range.start :]))
    with pytest.raises(MalformedEvent, match="inside another one") as raised:
        both_ways(lambda compiled: list(decode_range(grown, WantedTables.whole([ORDERS]), compiled=compiled)))
    assert raised.value.at == f"{log.name}:{start}+0"


def test_many_tables_whose_numbers_change(tmp_path: Path) -> None:
    log = Log()
    log.begin()
    for number in range(300):
        log.table_map(TableName("shop", f"t{number % 150}"), number=number)
        log.rows("insert", [order(number)], number=number)
        if number % 3 == 0:
            log.table_map(number=1000 + number)
            log.rows("insert", [order(number)], number=1000 + number)
    log.xid()
    found = [change.after[0] for change in changes(log, tmp_path) if change.after]
    assert found == [b"%d" % number for number in range(0, 300, 3)]


def test_an_event_larger_than_the_reading_window(tmp_path: Path) -> None:
    lob = column(1, "note", "longtext", charset="utf8mb4", octet_length=(1 << 32) - 1)
    text = b"x" * (9 << 20)
    log = Log()
    log.begin()
    log.table_map(types=(bytes([FIELD_TYPE.LONG, FIELD_TYPE.BLOB]), b"\x04"))
    log.rows("insert", [b"\xfc" + struct.pack("<iI", 1, len(text)) + text])
    log.xid()
    assert changes(log, tmp_path, columns=(ORDERS.columns[0], lob)) == [RowChange(0, None, (b"1", text))]


def test_tables_with_more_columns_than_a_byte_counts(tmp_path: Path) -> None:
    count = 300
    columns = tuple(column(index, f"c{index}", "tinyint") for index in range(count))
    log = Log(checksum=False)
    log.begin()
    name = b"\x04shop\0\x06orders\0"
    log.add(19, (9).to_bytes(6, "little") + b"\1\0" + name + b"\xfc\x2c\x01" + b"\x01" * count + b"\0" + b"\0" * 38)
    image = b"\0" * 37 + b"\xf1" + b"\x05" * (count - 1)  # column 296 is NULL
    log.add(30, (9).to_bytes(6, "little") + b"\1\0\2\0\xfc\x2c\x01" + b"\xff" * 38 + image)
    log.xid()
    (change,) = changes(log, tmp_path, columns=columns)
    assert change.after is not None
    assert [index for index, value in enumerate(change.after) if value is None] == [296]
