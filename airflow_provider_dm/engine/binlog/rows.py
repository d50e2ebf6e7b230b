"""The row changes of a byte range, in log order.

A range contains complete transactions, or complete statements of one, and is decoded without earlier bytes: every
statement repeats the table maps of its rows. Every event's checksum is verified. Each distinct table map is parsed and
compiled once; rows of unwanted tables are skipped. A rows event that is invalid (its table, columns or length) stops
the decoding at its location.

Events are divided into row images (`split_range`), which the caller converts to values (`images`). A kernel divides
ordinary events; the code here handles every event at which the kernel stops, and all events if there is no kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

import numpy as np

from airflow_provider_dm.engine.binlog import events as codes
from airflow_provider_dm.engine.binlog import splitting
from airflow_provider_dm.engine.binlog.boundary import OpenLog, scan_xa
from airflow_provider_dm.engine.binlog.byte_reader import ByteReader
from airflow_provider_dm.engine.binlog.cells import Cell
from airflow_provider_dm.engine.binlog.changes import Batch, RowChange
from airflow_provider_dm.engine.binlog.compressed import PLAIN_ROWS, uncompressed_rows
from airflow_provider_dm.engine.binlog.errors import (
    MalformedEvent,
    MalformedImage,
    MalformedRows,
    PartialRowImage,
    UnknownEvent,
)
from airflow_provider_dm.engine.binlog.events import ROLES, EventRole
from airflow_provider_dm.engine.binlog.format import BinlogFormat
from airflow_provider_dm.engine.binlog.header import HEADER_SIZE, START, verify_checksum
from airflow_provider_dm.engine.binlog.kernels import build
from airflow_provider_dm.engine.binlog.maps import Maps, WantedTables
from airflow_provider_dm.engine.binlog.partial_rows import columns_of, whole_images
from airflow_provider_dm.engine.binlog.payload import inner_place, open_payload
from airflow_provider_dm.engine.binlog.planned import ByteRange
from airflow_provider_dm.engine.binlog.row_decoder import CellPlace, image_end
from airflow_provider_dm.engine.binlog.table_map import ID_AND_FLAGS
from airflow_provider_dm.engine.binlog.transaction import BEGUN, OUTSIDE, FoundXaPrepare
from airflow_provider_dm.engine.binlog.window import CHUNK_SIZE, Bytes, MemoryWindow, Window
from airflow_provider_dm.engine.errors import NotSupportedYet
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.schema.errors import MalformedValue

__all__ = ["MalformedRows", "PartialRowImage", "RowChange", "decode_range", "split_range"]

T = TypeVar("T")

_FIRST_CHANGES, _MOST_CHANGES = 1 << 12, 1 << 16
"""The initial and the maximum space for changes of one batch: converting them to values must fit into memory, however
many an event has."""
_WHAT: Final = np.frombuffer(splitting.WHAT, np.uint8)
_NO_TABLE: Final = frozenset({0xFFFFFFFFFFFF, 0xFFFFFF, 0xFFFFFFFF})
_NOWHERE: Final = (splitting.NO_ROW, splitting.NO_ROW)


def decode_range(
    byte_range: ByteRange,
    wanted: WantedTables,
    *,
    compiled: bool | None = None,
    take: Callable[[Batch], Batch] | None = None,
) -> Iterator[RowChange]:
    """Yield every change of a wanted table in `byte_range`, as canonical values.

    `compiled`: use the kernels; None: if they are ready. `take`: removes changes from a batch before their conversion
    to values, and returns the other ones. Raises ChecksumMismatch, MalformedEvent, UnknownEvent, SchemaMismatch,
    UnsupportedColumnType, PartialRowImage, MalformedRows, and the errors of `wanted.other`. A file that is shorter than
    its range raises MalformedEvent.
    """
    for batch in split_range(byte_range, wanted, compiled=compiled):
        if take is not None:
            with located(batch, byte_range.file):
                batch = take(batch)
        with located(batch, byte_range.file):
            changes = batch.rows()
        yield from changes


@contextmanager
def located(batch: Batch, file: str) -> Iterator[None]:
    """Raise MalformedRows instead of MalformedImage."""
    try:
        yield
    except MalformedImage as error:
        raise malformed(batch, file, error) from error


def malformed(batch: Batch, file: str, error: MalformedImage) -> MalformedRows:
    """Return the error for users: `error.index` is a change of this batch."""
    layout, position = batch.changes[error.index, :2].tolist()
    return MalformedRows(f"{file}:{position}", str(batch.layouts[layout].layout.table.name), str(error))


def split_range(byte_range: ByteRange, wanted: WantedTables, *, compiled: bool | None = None) -> Iterator[Batch]:
    """Yield the same as `decode_range`, with rows still encoded.

    Raises the same errors, but MalformedRows only for lengths.
    """
    with byte_range.opened() as window:
        stream = _Stream(window, byte_range.start, byte_range.end, byte_range.format, byte_range.file)
        yield from _Splitter(_Range(byte_range, window, wanted, compiled), stream).batches()


class _Range:
    """One pass over a range."""

    def __init__(
        self, byte_range: ByteRange, window: Window | MemoryWindow, wanted: WantedTables, compiled: bool | None
    ) -> None:
        self.range = byte_range
        self.window = window
        if compiled is None:
            build.warm_in_background()
        self.compiled = build.ready() if compiled is None else compiled
        skip_before = {key: self._skip_before(key) for key in {table.skip_until for table in wanted.tables}}
        self.maps = Maps(wanted, [skip_before[table.skip_until] for table in wanted.tables], byte_range.end)
        self.room = np.empty((_FIRST_CHANGES, splitting.FIELDS), np.int64)

    def _skip_before(self, key: str) -> int:
        """Return the last boundary of the range at or before location `key`: earlier transactions are skipped."""
        if self.range.counts_at:  # skipped as a whole: `key` is between two transactions
            return 0 if key <= self.range.counts_at else self.range.end
        if key <= self._sort_key(self.range.start):
            return 0
        if key >= self._sort_key(self.range.last_boundary):
            return self.range.end
        window = self.window.up_to(int(key.rsplit(".", 1)[1]))
        log = OpenLog(window, self.range.format, self.range.file)
        state = BEGUN if self.range.inside else OUTSIDE
        walked = scan_xa(log, self.range.start, cut=self.range.end, state=state)
        last = walked.xa[-1] if walked.xa else None
        # Between a prepared transaction and its commit: its changes are not before `key`.
        return last.start if isinstance(last, FoundXaPrepare) and last.end == walked.end else walked.end

    def _sort_key(self, position: int) -> str:
        return Location(self.range.file, position, "", self.range.suffix).sort_key


@dataclass(frozen=True)
class _Stream:
    """Consecutive events: of the file, or of an envelope at position `envelope` in it."""

    window: Bytes
    start: int
    end: int
    format: BinlogFormat
    file: str
    envelope: int | None = None

    def at(self, position: int) -> str:
        if self.envelope is None:
            return f"{self.file}:{position}"
        return inner_place(f"{self.file}:{self.envelope}", position)

    def file_position(self, position: int) -> int:
        return position if self.envelope is None else self.envelope

    def inside(self, position: int, window: Bytes) -> _Stream:
        """Return the stream of the events inside the event at `position`."""
        inner = self.format.without_checksum()
        return _Stream(window, 0, window.size, inner, self.file, self.file_position(position))


class _Splitter:
    """The loop over the events of one stream."""

    def __init__(self, of: _Range, stream: _Stream) -> None:
        self.range = of
        self.maps = of.maps
        self.stream = stream

    def batches(self) -> Iterator[Batch]:
        """Yield all changes, in order."""
        position, needed = self.stream.start, HEADER_SIZE
        while position < self.stream.end:
            data = self.stream.window.read(position, max(CHUNK_SIZE, needed))[: self.stream.end - position]
            if len(data) < needed:
                raise MalformedEvent(self.stream.at(position), f"{self.stream.file} ends within it")
            offset = yield from self._buffer(position, data)
            position += offset
            if position < self.stream.end:
                needed = self._size_of_next(position, data, offset)

    def _size_of_next(self, position: int, data: bytes, offset: int) -> int:
        """Return the bytes to read for the event at `position`, at `offset` in a buffer that is too short for it."""
        if offset + HEADER_SIZE > len(data):
            return HEADER_SIZE
        size: int = START.unpack_from(data, offset)[3]
        if position + size > self.stream.end:
            raise MalformedEvent(self.stream.at(position), f"a size of {size} bytes")
        return size

    def _buffer(self, base: int, data: bytes) -> Generator[Batch, None, int]:
        """Yield the changes of the complete events of `data`, which begins at `base`; return their end in it."""
        offset = 0
        while True:
            offset, why = yield from self._ordinary(base, data, offset)
            if why != splitting.LOOK:
                return offset
            size = self._checked_size(base, data, offset)
            if size is None:
                return offset
            yield from self._event(base + offset, data, offset, offset + size)
            offset += size

    def _ordinary(self, base: int, data: bytes, offset: int) -> Generator[Batch, None, tuple[int, int]]:
        """Yield the changes of events that the kernel handles; return (position, reason) of its stop."""
        if not self.range.compiled:
            return offset, splitting.LOOK
        from airflow_provider_dm.engine.binlog.kernels.split import split

        maps, stream = self.maps.arrays(), self.stream
        base, step = (base, 1) if stream.envelope is None else (stream.envelope, 0)
        readable = np.frombuffer(data, np.uint8)
        while True:
            events = readable, offset, len(data), base, step, int(stream.format.checksum), _WHAT
            offset, count, why = split(*[*events, *maps, self.range.room, 0])
            if count:
                yield self._batch(data, self.range.room[:count].copy())
            if why != splitting.FULL:
                return offset, why
            if not count:  # one event has more changes than there is space for
                if len(self.range.room) >= _MOST_CHANGES:
                    return offset, splitting.LOOK
                self.range.room = np.empty((2 * len(self.range.room), splitting.FIELDS), np.int64)

    def _batch(self, data: bytes, changes: np.ndarray) -> Batch:
        return Batch(data, changes, self.maps.layouts, self.range.compiled)

    # One event, without a kernel

    def _checked_size(self, base: int, data: bytes, offset: int) -> int | None:
        """Return the size of the event at `offset` after checking it; None if it is incomplete."""
        if offset + HEADER_SIZE > len(data):
            return None
        position, trailer = base + offset, self.stream.format.trailer_size
        size: int = START.unpack_from(data, offset)[3]
        if size < HEADER_SIZE + trailer or position + size > self.stream.end:
            raise MalformedEvent(self.stream.at(position), f"a size of {size} bytes")
        if offset + size > len(data):
            return None
        if trailer:
            verify_checksum(memoryview(data)[offset : offset + size], self.stream.at(position))
        return size

    def _event(self, position: int, data: bytes, start: int, end: int) -> Iterator[Batch]:
        """Yield the changes of the event data[start:end] of any kind."""
        code, body = data[start + 4], start + HEADER_SIZE
        end -= self.stream.format.trailer_size
        at = self.stream.at(position)
        match ROLES[code]:
            case EventRole.ROWS if code in PLAIN_ROWS:
                plain_code, plain_body = uncompressed_rows(code, data[body:end], at)
                yield from self._rows(position, at, plain_code, plain_body, 0, len(plain_body))
            case EventRole.ROWS:
                yield from self._rows(position, at, code, data, body, end)
            case EventRole.MAP:
                self.maps.name(data[body:end], at)
            case EventRole.BOUNDARY:
                self.maps.forget()
            case EventRole.PAYLOAD:
                yield from self._payload(position, data[body:end])
            case EventRole.STOP if code == codes.START_ENCRYPTION and self._is_decrypted():
                pass
            case EventRole.STOP:
                raise UnknownEvent.of(at, code)

    def _is_decrypted(self) -> bool:
        """Return True if checksums prove that the server sent the log decrypted, as the planner has checked."""
        return self.stream.format.checksum and self.stream.format.flavour is Flavour.MARIADB

    def _payload(self, position: int, body: bytes) -> Iterator[Batch]:
        if self.stream.envelope is not None:
            raise MalformedEvent(self.stream.at(position), "a compressed transaction inside another one")
        window = open_payload(body, self.stream.at(position))
        yield from _Splitter(self.range, self.stream.inside(position, window)).batches()

    def _rows(self, position: int, at: str, code: int, data: bytes, start: int, end: int) -> Iterator[Batch]:
        if start + ID_AND_FLAGS > end:
            raise MalformedEvent(at, "a rows event without a header")
        number = int.from_bytes(data[start : start + 6], "little")
        table = self.maps.find(number)
        if table is None:
            if not _is_end_of_statement_only(number, code, data[start:end]):
                raise MalformedEvent(at, "rows of a table that was not named before")
        else:
            name, layout = table
            event = self.stream.file_position(position)
            if layout != splitting.UNWANTED and event >= self.maps.layouts[layout].skip_before:
                try:
                    yield from self._images(event, at, str(name), layout, code, data, start, end)
                except MalformedValue as error:
                    raise MalformedRows(at, str(name), str(error)) from error
        if int.from_bytes(data[start + 6 : start + ID_AND_FLAGS], "little") & splitting.END_OF_STATEMENT:
            self.maps.forget()

    def _images(
        self, event: int, at: str, table: str, layout: int, code: int, data: bytes, start: int, end: int
    ) -> Iterator[Batch]:
        """Yield the changes of one rows event, at position `event` of its file.

        Raises MalformedValue before the first batch, and NotSupportedYet.
        """
        if code == codes.PARTIAL_UPDATE_ROWS:
            raise NotSupportedYet(
                "an update that is logged as changes of JSON documents",
                f"{table} at {at}",
                "Set binlog_row_value_options='' for every session of the source, leave the table out by "
                "block-allow-list, and migrate it with another task.",
            )
        of = self.maps.layouts[layout].layout
        operation = splitting.OPERATIONS[code]
        reader = ByteReader(memoryview(data)[start + ID_AND_FLAGS : end], at, "the head of its rows")
        present = _present(reader, table, len(of.cells), operation)
        start += ID_AND_FLAGS + reader.position
        whole = (1 << len(of.cells)) - 1
        if any(those != whole for those in present):
            self._check_left_out(at, table, layout, present)
            data = b"".join(whole_images(of.cells, present, data, start, end))
            start, end = 0, len(data)
            layout = self.maps.without(layout, whole & ~present[-1])
        rows = sum(1 for _ in _places(of.cells, data, start, end))
        if operation & splitting.OPERATION == splitting.UPDATES and rows % 2:
            raise MalformedValue("an update without its new row")
        for places in _pieces(_places(of.cells, data, start, end)):
            yield self._piece(data, layout, event, operation & splitting.OPERATION, places)

    def _check_left_out(self, at: str, table: str, layout: int, present: Sequence[int]) -> None:
        """Check that no needed column is missing. Raises PartialRowImage."""
        of, optional_columns = self.maps.layouts[layout].layout, self.maps.layouts[layout].optional_columns
        needed = (1 << len(of.cells)) - 1 & ~optional_columns
        missing = {index for those in present for index in columns_of(needed & ~those)}
        if missing:
            names = [column.name for column in of.table.columns] + ["(hidden)"] * of.table.hidden
            raise PartialRowImage(at, table, tuple(names[index] for index in sorted(missing)))

    def _piece(self, data: bytes, layout: int, event: int, operation: int, places: Iterable[CellPlace]) -> Batch:
        changes: Iterable[tuple[CellPlace, CellPlace]]
        if operation == splitting.UPDATES:
            pairs = iter(places)
            changes = zip(pairs, pairs, strict=True)
        elif operation == splitting.INSERTS:
            changes = ((_NOWHERE, place) for place in places)
        else:
            changes = ((place, _NOWHERE) for place in places)
        rows = [(layout, event, *before, *after) for before, after in changes]
        return self._batch(data, np.array(rows, np.int64).reshape(len(rows), splitting.FIELDS))


def _places(cells: Sequence[Cell], data: bytes, start: int, end: int) -> Iterator[CellPlace]:
    """Yield start and end of each image of data[start:end]. Raises MalformedValue."""
    while start < end:
        stop = image_end(cells, data, start, end)
        yield start, stop
        start = stop


def _pieces(items: Iterator[T]) -> Iterator[list[T]]:
    """Yield an even number of items at a time, so that both rows of an update stay together."""
    while piece := list(islice(items, _FIRST_CHANGES)):
        yield piece


def _is_end_of_statement_only(number: int, code: int, body: bytes) -> bool:
    """Return True if a rows event has no table (number ~0), column or row: MySQL ends some statements this way."""
    extra = b"\2\0" if splitting.OPERATIONS.get(code, splitting.HAS_EXTRA) & splitting.HAS_EXTRA else b""
    return number in _NO_TABLE and body[ID_AND_FLAGS:] == extra + b"\0"


def _present(reader: ByteReader, table: str, columns: int, operation: int) -> list[int]:
    """Read the bytes between the flags of a rows event and its images.

    Return bitmaps of the columns that each image has (of an update: before and after).
    """
    if operation & splitting.HAS_EXTRA:
        extra = reader.fixed(2)
        if extra < 2:
            raise MalformedEvent(reader.at, f"extra data of {extra} bytes, its own length included")
        reader.take(extra - 2)
    bits = reader.number()
    if bits != columns:
        raise MalformedRows(reader.at, table, f"{bits} columns where its table map has {columns}")
    images, everything = 2 if operation & splitting.OPERATION == splitting.UPDATES else 1, (1 << columns) - 1
    return [reader.fixed((columns + 7) // 8) & everything for _ in range(images)]
