"""Row changes as Arrow record batches, for audits: one record for each changed row.

All batches have the columns of `schema_of`. The last two, `before` and `after`, are null if the row did not exist
before or after the change. They have one of two shapes: with `AnyTable`, for changes of many tables, a row is a map
from column name to text; with `OneTable` it is a struct with a typed field for each column. The codec's style decides
the type:

    style          struct                                          text in a map
    PLAIN          long, or decimal(20,0) for BIGINT UNSIGNED      its digits
                   decimal(p,s) up to 38 digits, else string
    FLOAT          double (exact, also for FLOAT)                  its shortest digits
    BITS           long, or decimal(20,0) for BIT(64)              the same number
    QUOTED         string: a date may be 0000-00-00                the same
    TEXT, JSON     string                                          the same
    ENUM           string; the invalid value is "", as in SELECT   the same
    CHARSET(_HEX)  string if `charsets` knows the charset,         the same, or 0x and hexadecimal
                   else binary
    HEX            binary                                          0x and hexadecimal

Text that is invalid in its charset raises UndecodableText; with `text_as_bytes` text is returned as the stored bytes.
Canonical values are adjacent in one buffer (`images.canonical_cells`), which Arrow uses without a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_dm.engine.audit.errors import UndecodableText
from airflow_provider_dm.engine.binlog.changes import Batch
from airflow_provider_dm.engine.binlog.errors import MalformedImage
from airflow_provider_dm.engine.binlog.images import Cells, canonical_cells
from airflow_provider_dm.engine.binlog.layout import Layout
from airflow_provider_dm.engine.binlog.located import Events
from airflow_provider_dm.engine.binlog.maps import WantedTables
from airflow_provider_dm.engine.binlog.planned import ByteRange
from airflow_provider_dm.engine.binlog.rows import malformed, split_range
from airflow_provider_dm.engine.binlog.splitting import AFTER, AFTER_END, BEFORE, BEFORE_END, EVENT, LAYOUT
from airflow_provider_dm.engine.errors import NotSupportedYet
from airflow_provider_dm.engine.schema.charsets import TextDecoder, decoder
from airflow_provider_dm.engine.schema.codec import LiteralStyle, codec_for
from airflow_provider_dm.engine.schema.model import Column, Table
from airflow_provider_dm.engine.schema.strings import INVALID_MEMBER

EVENT_BATCH_ROWS: Final = 8192
EVENT_BATCH_BYTES: Final = 16 << 20
"""Maximum bytes of row images in a batch; a single row may have more."""
LONGEST_DECIMAL: Final = 38
"""Maximum digits of Spark's decimals."""

_LARGEST_OFFSET: Final = (1 << 31) - 1
_MICROSECONDS: Final = 1_000_000
_INSERT, _UPDATE, _DELETE = range(3)
_OPERATIONS: Final = ("insert", "update", "delete")


# One column


@dataclass(eq=False)
class InvalidText(ValueError):
    """The value at `index` is invalid in its charset."""

    index: int
    value: bytes


@dataclass(frozen=True)
class ArrowForm:
    """The Arrow type of a column, and a function from canonical values (binary) to an array of that type.

    `text`: a function to an array of strings. Both functions raise InvalidText.
    """

    type: pa.DataType
    array: Callable[[pa.Array], pa.Array]
    text: Callable[[pa.Array], pa.Array]


def arrow_form(table: Table, column: Column, *, text_as_bytes: bool = False) -> ArrowForm:
    """Return the Arrow form of a column. Raises UnsupportedColumnType."""
    style = codec_for(table.name, column).style
    read: TextDecoder | None = None
    match style:
        case LiteralStyle.PLAIN:
            return _cast_to(_number_type(column))
        case LiteralStyle.FLOAT:
            return _cast_to(pa.float64())
        case LiteralStyle.BITS:
            wide = (column.numeric_precision or 0) == 64
            kind = pa.decimal128(20, 0) if wide else pa.int64()
            return ArrowForm(kind, _by_value(_bits, kind), _by_value(lambda value: str(_bits(value)), pa.string()))
        case LiteralStyle.QUOTED:
            return _cast_to(pa.string())
        case LiteralStyle.ENUM:
            return ArrowForm(pa.string(), _members, _members)
        case LiteralStyle.TEXT | LiteralStyle.JSON:
            read = _utf8
        case LiteralStyle.CHARSET | LiteralStyle.CHARSET_HEX:
            read = decoder(column.charset or "")
        case LiteralStyle.HEX:
            pass
        case _:
            assert_never(style)
    if read is None or text_as_bytes:
        return ArrowForm(pa.binary(), lambda values: values, _by_value(_hexadecimal, pa.string()))
    convert = _utf8_array if read is _utf8 else _by_value(read, pa.string())
    return ArrowForm(pa.string(), convert, convert)


def _number_type(column: Column) -> pa.DataType:
    if column.data_type == "decimal":
        precision = column.numeric_precision or 0
        return pa.decimal128(precision, column.numeric_scale or 0) if precision <= LONGEST_DECIMAL else pa.string()
    return pa.decimal128(20, 0) if column.data_type == "bigint" and column.unsigned else pa.int64()


def _cast_to(kind: pa.DataType) -> ArrowForm:
    """Return the form of a column whose canonical values Arrow can parse."""

    def text(values: pa.Array) -> pa.Array:
        return values.cast(pa.string())

    return ArrowForm(kind, text if kind == pa.string() else lambda values: text(values).cast(kind), text)


def _by_value(convert: Callable[[bytes], object], kind: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    """Return a function that converts one value at a time, in Python."""

    def array(values: pa.Array) -> pa.Array:
        found: list[object] = []
        for index, value in enumerate(values.to_pylist()):
            try:
                found.append(None if value is None else convert(value))
            except UnicodeDecodeError as error:
                raise InvalidText(index, value) from error
        return pa.array(found, kind)

    return array


def _utf8_array(values: pa.Array) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return _by_value(_utf8, pa.string())(values)  # raises InvalidText for the invalid value


def _members(values: pa.Array) -> pa.Array:
    return _utf8_array(pc.if_else(pc.equal(values, pa.scalar(INVALID_MEMBER)), pa.scalar(b""), values))


def _bits(value: bytes) -> int:
    return int.from_bytes(value, "big")


def _utf8(value: bytes) -> str:
    return value.decode("utf-8")


def _hexadecimal(value: bytes) -> str:
    return "0x" + value.hex()


# One row


@dataclass(eq=False)
class InvalidCell(ValueError):
    """The row at `index` has text that is invalid in the charset of `column`."""

    index: int
    table: Table
    column: Column
    value: bytes


class Shape(Protocol):
    """The shape of the columns `before` and `after`."""

    @property
    def type(self) -> pa.DataType: ...

    def rows(self, table: int, columns: Sequence[pa.Array]) -> pa.Array:
        """Return the rows of a table (by index), given its columns as binary arrays of canonical values.

        Raises InvalidCell.
        """


class AnyTable:
    """A row is a map from column name to text, with null for NULL."""

    def __init__(self, tables: Sequence[Table], *, text_as_bytes: bool = False) -> None:
        self._tables = tables
        self._text_as_bytes = text_as_bytes
        self._forms: dict[int, list[ArrowForm]] = {}

    @cached_property
    def type(self) -> pa.DataType:
        return pa.map_(pa.string(), pa.string())

    def rows(self, table: int, columns: Sequence[pa.Array]) -> pa.Array:
        definition = self._tables[table]
        forms = self._forms.get(table)
        if forms is None:
            forms = [arrow_form(definition, column, text_as_bytes=self._text_as_bytes) for column in definition.columns]
            self._forms[table] = forms
        texts = _converted(definition, [form.text for form in forms], columns)
        rows, width = len(columns[0]), len(columns)
        by_row = np.arange(rows * width).reshape(width, rows).T.ravel()  # from column by column to row by row
        names = pa.array([column.name for column in definition.columns], pa.string())
        return pa.MapArray.from_arrays(
            pa.array(np.arange(0, rows * width + 1, width), pa.int32()),
            names.take(pa.array(np.tile(np.arange(width), rows))),
            pa.concat_arrays(texts).take(pa.array(by_row)),
        )


class OneTable:
    """A row is a struct with the columns of the only table."""

    def __init__(self, table: Table, *, text_as_bytes: bool = False) -> None:
        self._table = table
        self._forms = [arrow_form(table, column, text_as_bytes=text_as_bytes) for column in table.columns]

    @cached_property
    def type(self) -> pa.DataType:
        pairs = zip(self._table.columns, self._forms, strict=True)
        return pa.struct([pa.field(column.name, form.type) for column, form in pairs])

    def rows(self, table: int, columns: Sequence[pa.Array]) -> pa.Array:
        arrays = _converted(self._table, [form.array for form in self._forms], columns)
        return pa.StructArray.from_arrays(arrays, fields=list(self.type))


def _converted(
    table: Table, converters: Sequence[Callable[[pa.Array], pa.Array]], columns: Sequence[pa.Array]
) -> list[pa.Array]:
    arrays = []
    for column, convert, values in zip(table.columns, converters, columns, strict=True):
        try:
            arrays.append(convert(values))
        except InvalidText as error:
            raise InvalidCell(error.index, table, column, error.value) from error
    return arrays


# Batches


def schema_of(shape: Shape) -> pa.Schema:
    """Return the schema of every batch; only the types of `before` and `after` depend on the shape."""
    columns = [
        ("sub_dir", pa.string(), False),
        ("file", pa.string(), False),
        ("position", pa.int64(), False),
        ("end_position", pa.int64(), False),
        ("row", pa.int32(), False),
        ("timestamp", pa.timestamp("us", tz="UTC"), False),
        ("server_id", pa.int64(), False),
        ("gtid", pa.string(), True),
        ("schema", pa.string(), False),
        ("table", pa.string(), False),
        ("operation", pa.string(), False),
        ("before", shape.type, True),
        ("after", shape.type, True),
    ]
    return pa.schema([pa.field(name, kind, nullable) for name, kind, nullable in columns])


def record_batches(
    byte_range: ByteRange, wanted: WantedTables, shape: Shape, *, sub_dir: str = "", gtid: str | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield every change of a wanted table in a range, in order, in batches of bounded size.

    `sub_dir`: the value of that column. `gtid`: the GTID of the transaction in which the range begins, if it begins
    inside a transaction. Raises the errors of `rows.decode_range`, and UndecodableText.
    """
    changes = split_range(byte_range, wanted)
    with Events(byte_range, gtid) as events:
        writer = _Writer(byte_range, wanted, shape, events, sub_dir)
        for batch in _sized(changes):
            yield writer.batch(batch)


def _sized(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Split and join batches so that they are large but within the limits."""
    held: list[Batch] = []
    rows = size = 0
    for batch in batches:
        for part in _cut(batch):
            part_size = int(_image_sizes(part).sum())
            if held and (rows + len(part) > EVENT_BATCH_ROWS or size + part_size > EVENT_BATCH_BYTES):
                yield _joined(held)
                held, rows, size = [], 0, 0
            held.append(part)
            rows, size = rows + len(part), size + part_size
    if held:
        yield _joined(held)


def _image_sizes(batch: Batch) -> Any:
    changes = batch.changes
    return (changes[:, BEFORE_END] - changes[:, BEFORE]) + (changes[:, AFTER_END] - changes[:, AFTER])


def _cut(batch: Batch) -> Iterator[Batch]:
    passed = np.cumsum(_image_sizes(batch))
    first = 0
    while first < len(batch):
        limit = int(passed[first - 1] if first else 0) + EVENT_BATCH_BYTES
        end = max(first + 1, min(first + EVENT_BATCH_ROWS, int(np.searchsorted(passed, limit, "right"))))
        whole = first == 0 and end == len(batch)
        yield batch if whole else Batch(batch.data, batch.changes[first:end], batch.layouts, batch.compiled)
        first = end


def _joined(batches: Sequence[Batch]) -> Batch:
    """Join batches into one over the bytes of all of them; adjacent batches mostly share their bytes."""
    if len(batches) == 1:
        return batches[0]
    pieces: list[bytes] = []
    shifted = []
    base = end = 0
    for batch in batches:
        if not pieces or batch.data is not pieces[-1]:
            pieces.append(batch.data)
            base, end = end, end + len(batch.data)
        changes = batch.changes
        if base:
            changes = changes.copy()
            places = changes[:, BEFORE : AFTER_END + 1]
            places[places >= 0] += base
        shifted.append(changes)
    data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    return Batch(data, np.concatenate(shifted), batches[-1].layouts, batches[-1].compiled)


class _Writer:
    def __init__(self, byte_range: ByteRange, wanted: WantedTables, shape: Shape, events: Events, sub_dir: str) -> None:
        self._file = byte_range.file
        self._names = [table.table.name for table in wanted.tables]
        self._shape = shape
        self._events = events
        self._sub_dir = sub_dir
        self._schema = schema_of(shape)
        self._event, self._rows_of_event = -1, 0

    def batch(self, batch: Batch) -> pa.RecordBatch:
        columns = [*self._about(batch), self._side(batch, BEFORE), self._side(batch, AFTER)]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _about(self, batch: Batch) -> list[pa.Array]:
        changes, rows = batch.changes, len(batch)
        positions, first, counts = np.unique(changes[:, EVENT], return_index=True, return_counts=True)
        events = [self._events.at(position) for position in positions.tolist()]
        which = np.repeat(np.arange(len(events)), counts)
        tables = np.array([layout.table for layout in batch.layouts])[changes[:, LAYOUT]]
        operations = np.where(changes[:, BEFORE] < 0, _INSERT, np.where(changes[:, AFTER] < 0, _DELETE, _UPDATE))

        def spread(values: Sequence[object], kind: pa.DataType, indices: Any) -> pa.Array:
            return pa.array(values, kind).take(pa.array(indices))

        return [
            spread([self._sub_dir], pa.string(), np.zeros(rows, np.int64)),
            spread([self._file], pa.string(), np.zeros(rows, np.int64)),
            pa.array(changes[:, EVENT], pa.int64()),
            spread([event.end for event in events], pa.int64(), which),
            pa.array(self._numbers(positions, first, counts), pa.int32()),
            spread([event.timestamp * _MICROSECONDS for event in events], pa.timestamp("us", tz="UTC"), which),
            spread([event.server_id for event in events], pa.int64(), which),
            spread([event.gtid for event in events], pa.string(), which),
            spread([name.schema for name in self._names], pa.string(), tables),
            spread([name.table for name in self._names], pa.string(), tables),
            spread(_OPERATIONS, pa.string(), operations),
        ]

    def _numbers(self, positions: Any, first: Any, counts: Any) -> Any:
        """Return the number of each change in its event, which may have begun in the previous batch."""
        starts = first.copy()
        if int(positions[0]) == self._event:
            starts[0] -= self._rows_of_event
        numbers = np.arange(int(counts.sum())) - np.repeat(starts, counts)
        self._event, self._rows_of_event = int(positions[-1]), int(numbers[-1]) + 1
        return numbers

    def _side(self, batch: Batch, place: int) -> pa.Array:
        """Return `before` or `after` of all changes."""
        index = np.full(len(batch), -1, np.int64)
        parts, done = [], 0
        for number in np.unique(batch.changes[:, LAYOUT]).tolist():
            chosen, images = batch.images(number, place)
            if len(chosen):
                parts.append(self._rows(batch, number, chosen, images))
                index[chosen] = np.arange(done, done + len(chosen))
                done += len(chosen)
        if not parts:
            return pa.nulls(len(batch), self._shape.type)
        return pa.concat_arrays(parts).take(pa.array(index, mask=index < 0))

    def _rows(self, batch: Batch, number: int, chosen: Any, images: Any) -> pa.Array:
        layout, table = batch.layouts[number].layout, batch.layouts[number].table
        try:
            columns = _columns(layout, batch.data, images, compiled=batch.compiled)
            return self._shape.rows(table, columns)
        except MalformedImage as error:
            raise malformed(batch, self._file, MalformedImage(int(chosen[error.index]), str(error))) from error
        except InvalidCell as error:
            at = f"{self._file}:{int(batch.changes[int(chosen[error.index]), EVENT])}"
            charset, value = error.column.charset or "utf8mb4", _hexadecimal(error.value[:40])
            raise UndecodableText(at, str(error.table.name), error.column.name, charset, value) from error


def _columns(layout: Layout, data: bytes, images: Any, *, compiled: bool) -> list[pa.Array]:
    """Return the canonical values of all columns as binary arrays. Raises MalformedImage."""
    plain = layout.for_kernels.plain_only if compiled else frozenset()
    every = layout.everything
    arrays: dict[int, pa.Array] = {}
    for picked in ([one for one in every if one not in plain], [one for one in every if one in plain]):
        if picked:
            cells = canonical_cells(layout, data, images, picked, compiled=compiled)
            arrays |= zip(picked, _arrays(layout, cells, len(images)), strict=True)
    return [arrays[column] for column in every]


def _arrays(layout: Layout, cells: Cells, rows: int) -> list[pa.Array]:
    """Return one binary array for each column; the cells are stored row by row."""
    present = cells.ends >= 0
    ends = np.where(present, cells.ends, ~cells.ends)
    if len(ends) and int(ends[-1]) > _LARGEST_OFFSET:
        raise NotSupportedYet("a row of more than 2 GiB as text", str(layout.table.name), "Leave its table out.")
    offsets = np.concatenate([np.zeros(1, np.int32), ends.astype(np.int32)])
    buffers = [np.packbits(present, bitorder="little"), offsets, cells.text]
    flat = pa.Array.from_buffers(pa.binary(), len(ends), [pa.py_buffer(buffer) for buffer in buffers])
    width = cells.columns
    return [flat.take(pa.array(np.arange(column, rows * width, width))) for column in range(width)]
