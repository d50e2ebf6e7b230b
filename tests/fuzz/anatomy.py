"""A log taken apart naively: which events lie where, and which bytes of an event mean what.

`split` goes from event to event by their sizes, as any reader must. `maps_and_rows` knows table maps and rows events
well enough to say where each row image and each cell lies. `fields` labels the bytes of an event for those who damage
them. Nothing here is shared with the engine; what does not fit raises Malformed.
"""

import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

import zstandard

from airflow_provider_dm.engine.schema.model import Table
from tests.fuzz import codes
from tests.fuzz.cell import Form
from tests.fuzz.forms import cached_form
from tests.fuzz.values import NUMERIC_CODES

METADATA_SIZES: Final = {
    **dict.fromkeys((1, 2, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14), 0),
    **dict.fromkeys((4, 5, 17, 18, 19, 140, 242, 245, 252, 255), 1),
    **dict.fromkeys((15, 16, 141, 246, 247, 248, 253, 254), 2),
}
_VERSION: Final = re.compile(rb"(\d+)\.(\d+)\.(\d+)")
_HEADER: Final = struct.Struct("<IBIIIH")
IN_USE: Final = 1
ID_AND_FLAGS: Final = 8
_CODES_BEFORE_CHECKSUMS: Final = 30
"""No server that knows no checksums lists as many; so one flipped digit of a version cannot turn checksums off."""

INSERTS: Final = frozenset({23, 30, 166, 169})
UPDATES: Final = frozenset({24, 31, 39, 167, 170})
DELETES: Final = frozenset({25, 32, 168, 171})
ROWS: Final = INSERTS | UPDATES | DELETES
WITH_EXTRA: Final = frozenset({30, 31, 32, 39, 169, 170, 171})
COMPRESSED_ROWS: Final = frozenset(range(166, 172))
MOST_UNPACKED: Final = 64 << 20
"""The oracle does not unpack more than this; our logs are small, and bombs must be refused."""


class Malformed(Exception):
    """Bytes that no server writes."""


class Torn(Malformed):
    """The bytes end inside the event that begins at `position`."""

    def __init__(self, position: int) -> None:
        super().__init__(f"the bytes end inside the event at {position}")
        self.position = position


class Span(NamedTuple):
    """One event of a file: `data[position:end]`."""

    position: int
    code: int
    flags: int
    end: int


@dataclass(frozen=True)
class Format:
    """Word of the first event about the others."""

    checksum: bool

    @property
    def trailer(self) -> int:
        return 4 if self.checksum else 0


def format_of(data: bytes) -> Format:
    """Raises Malformed where the file does not begin with a whole format description whose own checksum is right.

    One that says that events have no checksums, and gives no position, need not have its own right: so a server sends
    it to who starts after it, with fields changed.
    """
    if data[:4] != codes.MAGIC or len(data) < 23:
        raise Malformed("no binlog")
    _, code, _, size, log_position, _ = _HEADER.unpack_from(data, 4)
    event = data[4 : 4 + size]
    if code != codes.FORMAT or len(event) < size or size < 19 + 57 + 5:
        raise Malformed("no format description")
    match = _VERSION.match(event[21:71])
    mariadb = b"mariadb" in event[21:71].split(b"\0")[0].lower()
    if match is None or tuple(map(int, match.groups())) < ((5, 3, 0) if mariadb else (5, 6, 1)):
        if len(event) > 19 + 57 + _CODES_BEFORE_CHECKSUMS:
            raise Malformed("more kinds of events than a server without checksums knows")
        return Format(False)
    if not _sound(event) and (event[-5] or log_position):
        raise Malformed("the format description's checksum")
    return Format(event[-5] == 1)


def _sound(event: bytes) -> bool:
    """Return True if an event's checksum is that of its bytes. A format description's is made before IN_USE is set."""
    body = bytearray(event[:-4])
    if body[4] == codes.FORMAT:
        body[17] &= ~IN_USE
    return zlib.crc32(body) == int.from_bytes(event[-4:], "little")


def split(data: bytes, trailer: int, start: int = 4) -> Iterator[Span]:
    """The events from `start` on. Raises Torn, and Malformed after the last one whose size can be."""
    position = start
    while position < len(data):
        if position + 19 > len(data):
            raise Torn(position)
        _, code, _, size, _, flags = _HEADER.unpack_from(data, position)
        if size < 19 + trailer:
            raise Malformed(f"a size of {size} bytes at {position}")
        if position + size > len(data):
            raise Torn(position)
        yield Span(position, code, flags, position + size)
        position += size


def first_damage(data: bytes, start: int = 4) -> int | None:
    """Return where the first event lies that is torn, or whose size or checksum is wrong. None: every event is sound.

    Events before `start` are not looked at, apart from the format description.
    """
    try:
        trailer = format_of(data).trailer
    except Malformed:
        return 4 if data[:4] == codes.MAGIC or len(data) < 23 else 0
    behind = start
    try:
        for span in split(data, trailer, start):
            if trailer and not _sound(data[span.position : span.end]):
                return span.position
            behind = span.end
    except Malformed:
        return behind
    return None


class _Cursor:
    """Bytes from left to right."""

    def __init__(self, data: bytes, position: int = 0, end: int | None = None) -> None:
        self.data = data
        self.position = position
        self.end = len(data) if end is None else end

    @property
    def left(self) -> int:
        return self.end - self.position

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise Malformed(f"{size - self.left} bytes are missing")
        self.position += size
        return self.data[self.position - size : self.position]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def length(self) -> int:
        first = self.number(1)
        if first < 0xFB:
            return first
        if first not in (0xFC, 0xFD, 0xFE):
            raise Malformed("no length")
        return self.number({0xFC: 2, 0xFD: 3, 0xFE: 8}[first])


# Table maps


@dataclass(frozen=True)
class Map:
    """A table map; `forms` where the catalogue knows the table and agrees with the map."""

    name: tuple[bytes, bytes]
    types: bytes
    metadata: tuple[bytes, ...]
    unsigned: tuple[bool, ...] | None
    names: tuple[bytes, ...] | None
    _forms: dict[int, tuple[Table, list[Form]]] = field(default_factory=dict, compare=False, repr=False)

    def forms(self, table: Table) -> list[Form]:
        """Return how its rows lie. Raises Malformed where the map is not this table's."""
        known = self._forms.get(id(table))
        if known is None or known[0] is not table:
            known = self._forms[id(table)] = (table, self._found_forms(table))
        return known[1]

    def _found_forms(self, table: Table) -> list[Form]:
        if len(self.types) != len(table.columns):
            raise Malformed("another number of columns")
        if self.names is not None and self.names != tuple(column.name.encode() for column in table.columns):
            raise Malformed("other names")
        found = []
        for column, code, metadata in zip(table.columns, self.types, self.metadata, strict=True):
            form = cached_form(column, code, metadata)
            if form is None:
                raise Malformed(f"{column.column_type} as {code}/{metadata.hex()}")
            found.append(form)
        numeric = [column for column, code in zip(table.columns, self.types, strict=True) if code in NUMERIC_CODES]
        if self.unsigned is not None and len(self.unsigned) >= len(numeric):
            for column, unsigned in zip(numeric, self.unsigned, strict=False):
                if column.data_type != "year" and column.unsigned != unsigned:
                    raise Malformed(f"the sign of {column.name}")
        return found


def map_name(body: bytes) -> tuple[bytes, bytes]:
    """The table of a TABLE_MAP. Raises Malformed."""
    return _name(_Cursor(body, ID_AND_FLAGS))


def _name(cursor: _Cursor) -> tuple[bytes, bytes]:
    schema = cursor.take(cursor.number(1))
    cursor.take(1)
    name = cursor.take(cursor.number(1))
    cursor.take(1)
    return schema, name


@lru_cache(1024)
def read_map(body: bytes) -> Map:
    """Read the body of a TABLE_MAP. Raises Malformed."""
    cursor = _Cursor(body, ID_AND_FLAGS)
    name = _name(cursor)
    types = cursor.take(cursor.length())
    block = _Cursor(cursor.take(cursor.length()))
    if not set(types) <= METADATA_SIZES.keys():
        raise Malformed("an unknown type")
    metadata = tuple(block.take(METADATA_SIZES[code]) for code in types)
    if block.left:
        raise Malformed("too much metadata")
    cursor.take((len(types) + 7) // 8)
    unsigned = names = None
    while cursor.left:
        kind, value = cursor.number(1), cursor.take(cursor.length())
        if kind == 1:
            unsigned = tuple(bool(byte & 128 >> bit) for byte in value for bit in range(8))
        elif kind == 4:
            part, found = _Cursor(value), []
            while part.left:
                found.append(part.take(part.length()))
            names = tuple(found)
    return Map(name, types, metadata, unsigned, names)


# Rows events


@dataclass(frozen=True)
class RowsHead:
    """Head of a rows event, before its images."""

    number: bytes
    flags: int
    columns: int
    complete: bool
    start: int
    """The place of the images, in the event's body."""


def read_rows_head(code: int, body: bytes) -> RowsHead:
    """Raises Malformed."""
    cursor = _Cursor(body)
    number, flags = cursor.take(6), cursor.number(2)
    if code in WITH_EXTRA:
        extra = cursor.number(2)
        if extra < 2:
            raise Malformed("a length of extra data that does not count itself")
        cursor.take(extra - 2)
    columns = cursor.length()
    if columns > 4096:
        raise Malformed("more columns than a table can have")
    complete = True
    for _ in range(2 if code in UPDATES else 1):
        present = cursor.number((columns + 7) // 8)
        complete &= present & (1 << columns) - 1 == (1 << columns) - 1
    return RowsHead(number, flags, columns, complete, cursor.position)


Cells = tuple[tuple[int, int] | None, ...]
"""(start, end) of each cell of one row image; None: NULL."""


def cells(forms: Sequence[Form], data: bytes, start: int) -> tuple[Cells, int]:
    """One row image's cells and where it ends. Raises Malformed where it ends after the data."""
    size = (len(forms) + 7) // 8
    nulls = int.from_bytes(data[start : start + size], "little")
    position = start + size
    found: list[tuple[int, int] | None] = []
    for index, form in enumerate(forms):
        if nulls >> index & 1:
            found.append(None)
            continue
        begin, position = form.extent(data, position)
        if begin > len(data) or position > len(data):
            raise Malformed(f"column {index + 1} ends behind its event")
        found.append((begin, position))
    if position > len(data):
        raise Malformed("the last row ends behind its event")
    return tuple(found), position


# What is packed


def unpack_mariadb(packed: bytes) -> bytes:
    """MariaDB's compressed record: a byte of 1, algorithm (0: zlib) and length's size; the length; zlib.

    Raises Malformed.
    """
    cursor = _Cursor(packed)
    head = cursor.number(1)
    size = head & 7
    if head & 0xF8 != 0x80 or not 1 <= size <= 4:
        raise Malformed("no compressed record")
    wanted = int.from_bytes(cursor.take(size), "big")
    if wanted > MOST_UNPACKED:
        raise Malformed("a bomb")
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(cursor.take(cursor.left), wanted + 1)
    except zlib.error as error:
        raise Malformed(str(error)) from error
    if len(found) != wanted or not unpacker.eof or unpacker.unused_data:
        raise Malformed("another length than it says")
    return found


@dataclass
class Payload:
    """The fields of a TRANSACTION_PAYLOAD."""

    numbers: dict[int, int] = field(default_factory=dict)
    packed: bytes = b""


def read_payload(body: bytes) -> Payload:
    """Fields of type, length and value up to type 0; then the payload. Raises Malformed."""
    cursor, payload = _Cursor(body), Payload()
    while kind := cursor.length():
        value = _Cursor(cursor.take(cursor.length()))
        payload.numbers[kind] = value.length()
    payload.packed = cursor.take(cursor.left)
    return payload


def unpack_payload(body: bytes) -> bytes:
    """The events of a TRANSACTION_PAYLOAD, one after the other. Raises Malformed."""
    payload = read_payload(body)
    if payload.numbers.get(1, len(payload.packed)) != len(payload.packed):
        raise Malformed("another size of the payload than it says")
    match payload.numbers.get(2):
        case 255:
            found = payload.packed
        case 0:
            found = _unpack_zstd(payload.packed)
        case _:
            raise Malformed("no known compression")
    if payload.numbers.get(3, len(found)) != len(found):
        raise Malformed("another length than it says")
    return found


def _unpack_zstd(packed: bytes) -> bytes:
    pieces, total = [], 0
    try:
        reader = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)
        while piece := reader.read(1 << 20):
            total += len(piece)
            if total > MOST_UNPACKED:
                raise Malformed("a bomb")
            pieces.append(piece)
    except zstandard.ZstdError as error:
        raise Malformed(str(error)) from error
    return b"".join(pieces)
