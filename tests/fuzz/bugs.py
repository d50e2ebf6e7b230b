"""Seeded bugs: an engine that is wrong in one way. The harness must find each of them (test_seeded_bugs.py).

A bug wraps the public functions of the engine, so that it stays the same bug whatever the engine looks like inside.
Most do harm only to some logs, as real bugs do.
"""

import os
import re
import signal
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.binlog.errors import MalformedRows
from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.binlog.maps import WantedTables
from airflow_provider_dm.engine.binlog.planned import ByteRange, Epoch, Planned
from airflow_provider_dm.engine.binlog.rows import RowChange
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.model import Column, Table
from tests.fuzz import anatomy, codes
from tests.fuzz.subject import Reading, Subject, own_plan, own_way

BUGS: Final[dict[str, Subject]] = {}
"""The bugs by name."""

_Decode = Callable[[ByteRange, WantedTables], Iterable[RowChange]]


def _decoding(decode: _Decode) -> _Decode:
    """Register a bug of decoding; its name is the function's."""
    name = decode.__name__.strip("_").replace("_", "-")
    BUGS[name] = Subject({"rows": {name: decode}})
    return decode


# Rows that are not those of the log


def _with_values(name: str, wrong: Callable[[Column, bytes | None], bytes | None]) -> None:
    """A bug of one kind of value."""

    def changed(row: Row | None, table: Table) -> Row | None:
        if row is None:
            return None
        return tuple(wrong(column, value) for column, value in zip(table.columns, row, strict=True))

    def decode(byte_range: ByteRange, wanted: WantedTables) -> Iterator[RowChange]:
        for row in own_way(byte_range, wanted):
            its = wanted.tables[row.table].table
            yield RowChange(row.table, changed(row.before, its), changed(row.after, its))

    BUGS[name] = Subject({"rows": {name: decode}})


def _small_negative_decimal(column: Column, value: bytes | None) -> bytes | None:
    lost = column.data_type == "decimal" and value is not None and value.startswith(b"-0.")
    return value[1:] if lost and value else value


def _long_decimal(column: Column, value: bytes | None) -> bytes | None:
    """The first group of a fraction read as nine digits, whatever its size."""
    if column.data_type != "decimal" or value is None or (column.numeric_scale or 0) % 9 == 0 or b"." not in value:
        return value
    whole, fraction = value.split(b".")
    return whole + b"." + fraction[1:] + b"0"


def _large_unsigned(column: Column, value: bytes | None) -> bytes | None:
    if column.column_type != "bigint unsigned" or value is None or int(value) < 1 << 63:
        return value
    return b"%d" % (int(value) - (1 << 64))


def _null(column: Column, value: bytes | None) -> bytes | None:
    return b"" if value is None and column.charset else value


def _float(column: Column, value: bytes | None) -> bytes | None:
    return repr(float(f"{float(value):.6g}")).encode() if value and column.data_type == "float" else value


def _fraction(column: Column, value: bytes | None) -> bytes | None:
    return re.sub(rb"\.(\d{5})\d$", rb".\g<1>0", value) if value and column.data_type == "time" else value


def _padding(column: Column, value: bytes | None) -> bytes | None:
    return value.rstrip(b"\0") if value and column.data_type == "binary" else value


_with_values("sign-of-a-small-decimal-lost", _small_negative_decimal)
_with_values("decimal-mis-sized", _long_decimal)
_with_values("large-unsigned-as-signed", _large_unsigned)
_with_values("null-as-empty-text", _null)
_with_values("float-in-six-digits", _float)
_with_values("last-microsecond-lost", _fraction)
_with_values("binary-not-padded", _padding)


@_decoding
def _last_row_dropped(byte_range: ByteRange, wanted: WantedTables) -> Iterable[RowChange]:
    return list(own_way(byte_range, wanted))[:-1]


@_decoding
def _update_turned_around(byte_range: ByteRange, wanted: WantedTables) -> Iterator[RowChange]:
    for row in own_way(byte_range, wanted):
        yield row._replace(before=row.after, after=row.before) if row.before and row.after else row


@_decoding
def _second_table_taken_for_the_first(byte_range: ByteRange, wanted: WantedTables) -> Iterator[RowChange]:
    first: int | None = None
    for row in own_way(byte_range, wanted):
        first = row.table if first is None else first
        yield row._replace(table=first)


# Damage that is not noticed


def _bytes_of(byte_range: ByteRange) -> bytearray:
    if byte_range.data is not None:
        return bytearray(byte_range.data)
    return bytearray(Path(byte_range.path).read_bytes()[byte_range.start : byte_range.end])


def _resealed(byte_range: ByteRange, change: Callable[[bytearray, anatomy.Span], None]) -> ByteRange:
    """The same range with changed events, whose checksums are right."""
    data, trailer = _bytes_of(byte_range), byte_range.format.trailer_size
    try:
        for span in anatomy.split(bytes(data), trailer, 0):
            change(data, span)
            if trailer:
                struct.pack_into("<I", data, span.end - 4, zlib.crc32(data[span.position : span.end - 4]))
    except anatomy.Malformed:
        pass
    return replace(byte_range, data=bytes(data))


@_decoding
def _checksums_ignored(byte_range: ByteRange, wanted: WantedTables) -> Iterable[RowChange]:
    return own_way(_resealed(byte_range, lambda data, span: None), wanted)


@_decoding
def _maps_never_forgotten(byte_range: ByteRange, wanted: WantedTables) -> Iterable[RowChange]:
    def change(data: bytearray, span: anatomy.Span) -> None:
        if span.code in anatomy.ROWS and span.end - span.position > 26 and data[span.position + 19] != 0xFF:
            data[span.position + 25] &= ~codes.END_OF_STATEMENT

    return own_way(_resealed(byte_range, change), wanted)


@_decoding
def _error_swallowed(byte_range: ByteRange, wanted: WantedTables) -> Iterator[RowChange]:
    try:
        yield from own_way(byte_range, wanted)
    except DmError:
        return


@_decoding
def _row_invented(byte_range: ByteRange, wanted: WantedTables) -> Iterator[RowChange]:
    """Seed this: where a row ends after its event, one of neighbouring bytes comes out."""
    last = None
    try:
        for row in own_way(byte_range, wanted):
            last = row
            yield row
    except MalformedRows:
        if last is not None:
            yield last


# Errors that are none, and what never ends


def _on_malformed_rows(name: str, harm: Callable[[], object]) -> None:
    def decode(byte_range: ByteRange, wanted: WantedTables) -> Iterator[RowChange]:
        try:
            yield from own_way(byte_range, wanted)
        except MalformedRows:
            harm()
            raise

    BUGS[name] = Subject({"rows": {name: decode}})


def _index_error() -> None:
    raise IndexError("bytes index out of range")


def _endless() -> None:
    while True:
        pass


_on_malformed_rows("untyped-error", _index_error)
_on_malformed_rows("endless-loop", _endless)
_on_malformed_rows("endless-loop-in-c", lambda: sum(range(1 << 60)))
_on_malformed_rows("allocation-before-the-check", lambda: bytearray(1 << 30))
_on_malformed_rows("segmentation-fault", lambda: os.kill(os.getpid(), signal.SIGSEGV))


# Plans


def _planning(change: Callable[[Epoch, Sequence[LogFile]], Epoch]) -> None:
    """Register a bug of planning; its name is the function's."""

    def plan(files: Sequence[LogFile], lo: Location, reading: Reading) -> Planned:
        planned = own_plan(files, lo, reading)
        return change(planned, files) if isinstance(planned, Epoch) else planned

    name = change.__name__.strip("_").replace("_", "-")
    BUGS[name] = Subject({"rows": {name: own_way}}, {name: plan})


@_planning
def _second_range_forgotten(epoch: Epoch, files: Sequence[LogFile]) -> Epoch:
    return replace(epoch, ranges=(epoch.ranges[0], *epoch.ranges[2:]))


@_planning
def _unfinished_transaction_applied(epoch: Epoch, files: Sequence[LogFile]) -> Epoch:
    size = files[-1].size
    if epoch.hi.file != files[-1].name or epoch.hi.position == size:
        return epoch
    last = replace(epoch.ranges[-1], end=size)
    return replace(epoch, ranges=(*epoch.ranges[:-1], last), hi=replace(epoch.hi, position=size))


# Two ways, two stories


def _without_last_digit(byte_range: ByteRange, wanted: WantedTables) -> Iterator[RowChange]:
    """A kernel that is wrong about one value in a thousand."""
    for row in own_way(byte_range, wanted):
        yield row._replace(after=(b"0", *row.after[1:])) if row.after and (row.after[0] or b"").endswith(b"48") else row


def _one_range(files: Sequence[LogFile], lo: Location, reading: Reading) -> Planned:
    """A plan that never looks for seams."""
    return own_plan(files, lo, replace(reading, range_bytes=1 << 30))


BUGS["kernel-that-differs"] = Subject({"rows": {"plain": own_way, "kernels": _without_last_digit}})
BUGS["plan-that-differs"] = Subject({"rows": {"plain": own_way}}, {"as it is": own_plan, "plain": _one_range})
