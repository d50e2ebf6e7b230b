"""The row changes of a byte range, in the order of the log.

A range holds whole transactions and is decoded without anything that lies before it: every statement repeats the table
maps of its rows. Every event's checksum is verified. A table map is parsed and compiled once for each of its texts;
rows of tables that nobody wants are not looked at. What a row event can be wrong about (its table, its columns, its
length) stops at its location.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from airflow_provider_dm.engine.binlog import events as codes
from airflow_provider_dm.engine.binlog.boundary import scan
from airflow_provider_dm.engine.binlog.errors import ChecksumMismatch, MalformedEvent
from airflow_provider_dm.engine.binlog.events import DO, Do, UnknownEvent
from airflow_provider_dm.engine.binlog.format import BinlogFormat
from airflow_provider_dm.engine.binlog.header import CHECKSUM_SIZE, HEADER_SIZE, START
from airflow_provider_dm.engine.binlog.planner import ByteRange
from airflow_provider_dm.engine.binlog.row_decoder import Decoder, MalformedCells, compile_decoder
from airflow_provider_dm.engine.binlog.table_map import ID_AND_FLAGS, cells_of, map_name, parse_map
from airflow_provider_dm.engine.binlog.window import CHUNK_SIZE, Bytes, MemoryWindow, Window
from airflow_provider_dm.engine.errors import DmError, Scope
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.model import Table

Wanted = Callable[[TableName], int | None]

_MAP, _ROWS, _STOP = int(Do.MAP), int(Do.ROWS), int(Do.STOP)
_INSERTS: Final = frozenset({codes.WRITE_ROWS_V1, codes.WRITE_ROWS})
_UPDATES: Final = frozenset({codes.UPDATE_ROWS_V1, codes.UPDATE_ROWS})
_WITH_EXTRA: Final = frozenset({codes.WRITE_ROWS, codes.UPDATE_ROWS, codes.DELETE_ROWS})
_LENGTH_SIZES: Final = {0xFC: 2, 0xFD: 3, 0xFE: 8}
_STORED_CHECKSUM: Final = struct.Struct("<I")


@dataclass(eq=False)
class PartialRowImage(DmError):
    """A row event that leaves columns out."""

    at: str
    table: str

    code: ClassVar[str] = "DM-3020"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    what: ClassVar[str] = "the rows of {table} at {at} lack some of the columns."
    hint: ClassVar[str] = "Set binlog_row_image=FULL for every session of the source; copy this table again."


@dataclass(eq=False)
class MalformedRows(DmError):
    """Row images that do not fit their table's columns."""

    at: str
    table: str
    reason: str

    code: ClassVar[str] = "DM-3021"
    scope: ClassVar[Scope] = Scope.UPSTREAM
    what: ClassVar[str] = "the rows of {table} at {at} cannot be decoded: {reason}."
    hint: ClassVar[str] = "The relay's copy is damaged, or the table's definition is not the one of this location."


class RowChange(NamedTuple):
    """What happened to one row: before None is an insert, after None a delete. `table`: index into the tables."""

    table: int
    before: Row | None
    after: Row | None


class _Mapped(NamedTuple):
    """A table map that is in force. `decode` None: nobody wants its rows.

    `headers`: by event code, what stood between flags and rows when it was last read and found complete.
    """

    name: TableName
    headers: dict[int, bytes]
    decode: Decoder | None = None
    table: int = -1
    columns: int = 0
    skip_before: int = 0
    """Rows at positions before this are skipped."""


def decode_range(
    byte_range: ByteRange, tables: Sequence[Table], skip_until: Sequence[str], wanted: Wanted
) -> Iterator[RowChange]:
    """Every change of a wanted table in `byte_range`.

    `wanted(name)`: the table's index in `tables`, or None. `skip_until[i]`: a location's sort key; changes of table i
    in transactions that end at or before it are left out ("" leaves out none).
    Raises ChecksumMismatch, MalformedEvent, UnknownEvent, SchemaMismatch, UnsupportedColumnType, PartialRowImage,
    MalformedRows, and what `wanted` raises. A file that ends before its range does raises MalformedEvent.
    """
    if byte_range.data is not None:
        memory = MemoryWindow(byte_range.data, byte_range.start)
        yield from _Decoding(byte_range, memory, tables, skip_until, wanted).changes()
        return
    with Window(byte_range.path, byte_range.end) as window:
        yield from _Decoding(byte_range, window, tables, skip_until, wanted).changes()


class _Decoding:
    """One pass over a range."""

    def __init__(
        self, byte_range: ByteRange, window: Bytes, tables: Sequence[Table], skip_until: Sequence[str], wanted: Wanted
    ) -> None:
        self.range = byte_range
        self.window = window
        self.tables = tables
        self.wanted = wanted
        self.format: BinlogFormat = byte_range.format
        self.skip_before = {key: self._skip_before(key) for key in set(skip_until)}
        self.skip_until = skip_until
        self.by_text: dict[bytes, _Mapped] = {}
        self.by_id: dict[bytes, _Mapped] = {}

    def at(self, position: int) -> str:
        return f"{self.range.file}:{position}"

    def _skip_before(self, key: str) -> int:
        """The last boundary of the range at or before the location `key`: transactions before it are skipped."""
        if key <= self._sort_key(self.range.start):
            return 0
        if key >= self._sort_key(self.range.end):
            return self.range.end
        window = self.window.up_to(int(key.rsplit(".", 1)[1]))
        walked = scan(
            window, self.range.start, cut=self.range.end, log_format=self.format, name=self.range.file, apply=False
        )
        return walked.end

    def _sort_key(self, position: int) -> str:
        return Location(self.range.file, position, "", self.range.suffix).sort_key

    def changes(self) -> Iterator[RowChange]:
        """The loop over events."""
        trailer, checksum = self.format.trailer_size, self.format.checksum
        smallest = HEADER_SIZE + trailer
        position = base = limit = self.range.start
        buffer, view = b"", memoryview(b"")
        while position < self.range.end:
            if position + HEADER_SIZE > limit:
                buffer, view, base, limit = self._load(position, HEADER_SIZE)
            offset = position - base
            _timestamp, code, _server, size = START.unpack_from(buffer, offset)
            behind = position + size
            if size < smallest or behind > self.range.end:
                raise MalformedEvent(self.at(position), f"a size of {size} bytes")
            if behind > limit:
                buffer, view, base, limit = self._load(position, size)
                offset = 0
            end = offset + size
            if checksum:
                (stored,) = _STORED_CHECKSUM.unpack_from(buffer, end - CHECKSUM_SIZE)
                computed = zlib.crc32(view[offset : end - CHECKSUM_SIZE])
                if computed != stored:
                    raise ChecksumMismatch(self.at(position), stored, computed)
            do = DO[code]
            if do == _ROWS:
                yield from self._rows(position, code, buffer, offset + HEADER_SIZE, end - trailer)
            elif do == _MAP:
                self._map(position, buffer[offset + HEADER_SIZE : end - trailer])
            elif do == _STOP:
                raise UnknownEvent.of(self.at(position), code)
            position = behind

    def _load(self, position: int, needed: int) -> tuple[bytes, memoryview, int, int]:
        buffer = self.window.read(position, max(CHUNK_SIZE, needed))
        if len(buffer) < needed:
            raise MalformedEvent(self.at(position), f"{self.range.file} ends inside of it")
        return buffer, memoryview(buffer), position, position + len(buffer)

    def _map(self, position: int, body: bytes) -> None:
        if len(body) < ID_AND_FLAGS:
            raise MalformedEvent(self.at(position), "a TABLE_MAP without its number")
        text = body[ID_AND_FLAGS:]
        mapped = self.by_text.get(text)
        if mapped is None:
            mapped = self.by_text[text] = self._compiled(text, self.at(position))
        self.by_id[body[:6]] = mapped

    def _compiled(self, text: bytes, at: str) -> _Mapped:
        name = map_name(text, at)
        index = self.wanted(name)
        if index is None:
            return _Mapped(name, {})
        columns, decode = compiled(text, self.tables[index], at)
        return _Mapped(name, {}, decode, index, columns, self.skip_before[self.skip_until[index]])

    def _rows(self, position: int, code: int, data: bytes, start: int, end: int) -> Sequence[RowChange]:
        mapped = self.by_id.get(data[start : start + 6])
        if mapped is None:
            if self._is_end_of_statement_only(code, data, start, end):
                return ()
            raise MalformedEvent(self.at(position), "rows of a table that was not named before")
        index, decode = mapped.table, mapped.decode
        if decode is None or position < mapped.skip_before:
            return ()
        header = mapped.headers.get(code)
        if header is not None and data.startswith(header, start + ID_AND_FLAGS):
            start += ID_AND_FLAGS + len(header)
        else:
            first = start + ID_AND_FLAGS
            start = self._row_images(position, mapped, code, data, start, end)
            mapped.headers[code] = data[first:start]
        try:
            rows = decode(data, start, end)
        except MalformedCells as error:
            raise MalformedRows(self.at(position), str(mapped.name), str(error)) from error
        if code in _INSERTS:
            return [RowChange(index, None, row) for row in rows]
        if code in _UPDATES:
            if len(rows) % 2:
                raise MalformedRows(self.at(position), str(mapped.name), "an update without its new row")
            pairs = iter(rows)
            return [RowChange(index, before, after) for before, after in zip(pairs, pairs, strict=True)]
        return [RowChange(index, row, None) for row in rows]

    @staticmethod
    def _is_end_of_statement_only(code: int, data: bytes, start: int, end: int) -> bool:
        """MySQL ends some statements with a rows event of no table (number ~0), no column and no row."""
        return data[start : start + 6] in _NO_TABLE and end - start <= _DUMMY_SIZE + (code in _WITH_EXTRA) * 2

    def _row_images(self, position: int, mapped: _Mapped, code: int, data: bytes, start: int, end: int) -> int:
        """Where the row images begin, once the event is seen to have all columns."""
        start += ID_AND_FLAGS
        if code in _WITH_EXTRA:
            start += max(2, int.from_bytes(data[start : start + 2], "little"))
        if start >= end:
            raise MalformedEvent(self.at(position), "a rows event without a header")
        columns = data[start]
        start += 1
        if columns in _LENGTH_SIZES:
            size = _LENGTH_SIZES[columns]
            columns, start = int.from_bytes(data[start : start + size], "little"), start + size
        if columns != mapped.columns:
            reason = f"{columns} columns where its table map has {mapped.columns}"
            raise MalformedRows(self.at(position), str(mapped.name), reason)
        bitmap, everything = (columns + 7) // 8, (1 << columns) - 1
        for _ in range(2 if code in _UPDATES else 1):
            present = int.from_bytes(data[start : start + bitmap], "little")
            if present & everything != everything:
                raise PartialRowImage(self.at(position), str(mapped.name))
            start += bitmap
        if start > end:
            raise MalformedEvent(self.at(position), "a rows event that ends in its header")
        return start


_NO_TABLE: Final = frozenset({b"\xff" * 6, b"\xff\xff\xff\0\0\0", b"\xff\xff\xff\xff\0\0"})
_DUMMY_SIZE: Final = 6 + 2 + 1  # number, flags, no columns


_CACHED_DECODERS: Final = 1024
_decoders: dict[tuple[bytes, Table], tuple[int, Decoder]] = {}


def compiled(text: bytes, table: Table, at: str) -> tuple[int, Decoder]:
    """(columns, decoder) for a table map's text and a definition; kept for the next range in this process."""
    found = _decoders.get((text, table))
    if found is None:
        cells = cells_of(parse_map(text, at), table, at)
        found = len(cells), compile_decoder(cells)
        if len(_decoders) >= _CACHED_DECODERS:
            _decoders.clear()
        _decoders[text, table] = found
    return found
