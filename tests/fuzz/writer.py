"""Binlogs made by hand: events as values, and whole files of them. Every number a server would write is right here.

Nothing of the engine's decoding is used; `forms` says how values lie in a row image. What is damaged later is damaged
by `mutate`, so this module has no option for anything wrong.
"""

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple
from uuid import UUID

import zstandard

from airflow_provider_dm.engine.schema.model import Table
from tests.fuzz import codes
from tests.fuzz.anatomy import read_rows_head
from tests.fuzz.cell import Form
from tests.fuzz.forms import cached_form
from tests.fuzz.string_forms import members_of
from tests.fuzz.values import NUMERIC_CODES, declared

SOURCE: Final = UUID("3e11fa47-71ca-11e1-9e33-c80aa9429562")
VERSIONS: Final = {"mysql": "9.7.0", "mariadb": "10.11.19-MariaDB-log"}
NOW: Final = 1_700_000_000
_POST_HEADERS: Final = {
    2: 13,
    4: 8,
    15: 98,
    18: 0x1A,
    19: 8,
    23: 8,
    24: 8,
    25: 8,
    26: 2,
    30: 10,
    31: 10,
    32: 10,
    33: 42,
    34: 42,
    36: 18,
    37: 52,
    39: 10,
    162: 19,
    163: 4,
    165: 13,
    166: 8,
    167: 8,
    168: 8,
    169: 10,
    170: 10,
    171: 10,
}
_KNOWN_CODES: Final = {"mysql": 42, "mariadb": 171}

Row = tuple[bytes | None, ...]


class Event(NamedTuple):
    """One event without what follows from its place in a file: size, position, checksum."""

    code: int
    body: bytes
    flags: int = 0
    timestamp: int = NOW
    server_id: int = 7


@dataclass(frozen=True)
class Log:
    """A file's events, format description first. `checksum`: each event ends with a CRC32."""

    events: tuple[Event, ...]
    checksum: bool

    def data(self) -> bytes:
        """The file."""
        return codes.MAGIC + assemble(self.events, checksum=self.checksum, position=len(codes.MAGIC))


def assemble(events: Iterable[Event], *, checksum: bool, position: int, inner: bool = False) -> bytes:
    """Events as they lie in a file from `position` on; `inner`: in a payload, where none has a checksum."""
    pieces = []
    for event in events:
        trailed = (checksum or event.code == codes.FORMAT) and not inner
        pieces.append(written(event, checksum=trailed, position=position))
        position += len(pieces[-1])
    return b"".join(pieces)


def written(event: Event, *, checksum: bool, position: int) -> bytes:
    """One event with header and, if wanted, checksum."""
    size = 19 + len(event.body) + (4 if checksum else 0)
    end = (position + size) & 0xFFFFFFFF
    head = struct.pack("<IBIIIH", event.timestamp, event.code, event.server_id, size, end, event.flags)
    data = head + event.body
    return data + struct.pack("<I", zlib.crc32(data)) if checksum else data


def length(number: int) -> bytes:
    """An integer as the protocol writes lengths."""
    if number < 251:
        return bytes([number])
    if number < 1 << 16:
        return b"\xfc" + struct.pack("<H", number)
    if number < 1 << 24:
        return b"\xfd" + struct.pack("<I", number)[:3]
    return b"\xfe" + struct.pack("<Q", number)


# The events around rows


def format_description(flavour: str, *, checksum: bool) -> Event:
    sizes = bytes(_POST_HEADERS.get(code, 0) for code in range(1, _KNOWN_CODES[flavour] + 1))
    version = VERSIONS[flavour].encode().ljust(50, b"\0")
    return Event(codes.FORMAT, struct.pack("<H50sIB", 4, version, 0, 19) + sizes + bytes([checksum]))


def query(sql: bytes, schema: bytes = b"shop", variables: bytes = b"") -> Event:
    head = struct.pack("<IIBHH", 1, 0, len(schema), 0, len(variables))
    return Event(codes.QUERY, head + variables + schema + b"\0" + sql)


STATUS: Final = (
    b"\0\0\0\0\0"  # flags2
    b"\1\0\0\x20\x45\0\0\0\0"  # sql_mode
    b"\6\3std"  # catalog
    b"\4\xff\0\xff\0\xff\0"  # charset
    b"\5\6SYSTEM"  # time zone
    b"\x0c\1shop\0"  # databases that it touches: a variable that ends the reading
)


def xid() -> Event:
    return Event(codes.XID, struct.pack("<Q", 5))


def gtid(flavour: str, number: int, *, standalone: bool = False, group: bool = False) -> Event:
    if flavour == "mysql":
        clock = struct.pack("<BQQ", 2, number - 1, number) + bytes(7) + b"\xfc\x40\1" + struct.pack("<I", 90700)
        return Event(codes.GTID, struct.pack("<B16sQ", 1, SOURCE.bytes, number) + clock)
    flags = standalone | (2 if group else 0) | 8
    tail = struct.pack("<Q", number) if group else bytes(6)
    return Event(codes.MARIADB_GTID, struct.pack("<QIB", number, 0, flags) + tail)


def anonymous(number: int) -> Event:
    return gtid("mysql", number)._replace(code=codes.ANONYMOUS_GTID)


def varint(number: int) -> bytes:
    size = next((size for size in range(1, 9) if number < 1 << 7 * size), 9)
    if size == 9:
        return b"\xff" + number.to_bytes(8, "little")
    return ((number << size) | ((1 << size - 1) - 1)).to_bytes(size, "little")


def tagged_gtid(number: int, tag: bytes = b"audit") -> Event:
    """MySQL's own serialisation: numbered fields of integers of variable length; signed ones zigzag."""
    fields = [
        varint(0) + varint(1),  # flags
        varint(1) + b"".join(map(varint, SOURCE.bytes)),
        varint(2) + varint(number << 1),
        varint(3) + varint(len(tag)) + tag,
        varint(4) + varint((number - 1) << 1),
        varint(5) + varint(number << 1),
        varint(6) + varint(NOW * 1_000_000),
        varint(8) + varint(300),
        varint(9) + varint(90700),
    ]
    body = b"".join(fields)
    return Event(codes.GTID_TAGGED, varint(1) + varint(len(body) + 4) + varint(0) + body)


def previous_gtids(last: int, tag: bytes | None = None) -> Event:
    """The numbers 1 to `last` of our source; 0: none."""
    if not last:
        return Event(codes.PREVIOUS_GTIDS, bytes(8))
    one = SOURCE.bytes + (b"" if tag is None else varint(len(tag)) + tag) + struct.pack("<QQQ", 1, 1, last + 1)
    count = struct.pack("<Q", 1) if tag is None else b"\1" + (1).to_bytes(6, "little") + b"\1"
    return Event(codes.PREVIOUS_GTIDS, count + one)


def gtid_list(last: int) -> Event:
    """`last` of domain 0; 0: none."""
    if not last:
        return Event(codes.GTID_LIST, bytes(4))
    return Event(codes.GTID_LIST, struct.pack("<IIIQ", 1, 0, 7, last))


def rotate(to: bytes) -> Event:
    return Event(codes.ROTATE, struct.pack("<Q", 4) + to)


def checkpoint(name: bytes) -> Event:
    return Event(codes.CHECKPOINT, struct.pack("<I", len(name)) + name)


# Rows


@dataclass(frozen=True)
class Sample:
    """A table and how its columns are stored."""

    table: Table
    old_times: bool = False

    @property
    def stored(self) -> list[tuple[int, bytes]]:
        return [declared(column, old_times=self.old_times) for column in self.table.columns]

    @property
    def forms(self) -> list[Form]:
        found = []
        for column, (code, metadata) in zip(self.table.columns, self.stored, strict=True):
            form = cached_form(column, code, metadata)
            assert form is not None, column
            found.append(form)
        return found


def table_map(sample: Sample, number: int, *, detail: str = "minimal") -> Event:
    """`detail`: what the server's binlog_row_metadata says: none (MariaDB's NO_LOG), minimal or full."""
    stored = sample.stored
    body = number.to_bytes(6, "little") + b"\1\0"
    for part in sample.table.name:
        body += bytes([len(part.encode())]) + part.encode() + b"\0"
    metadata = b"".join(one for _, one in stored)
    body += length(len(stored)) + bytes(code for code, _ in stored)
    body += length(len(metadata)) + metadata + b"\xff" * ((len(stored) + 7) // 8)
    return Event(codes.TABLE_MAP, body + _optional(sample, detail))


TEXT_TYPES: Final = frozenset(
    {"char", "varchar", "binary", "varbinary"}
    | {f"{size}{kind}" for size in ("tiny", "", "medium", "long") for kind in ("text", "blob")}
)
COLLATION_IDS: Final[dict[str | None, int]] = {
    None: 63,
    "latin1": 8,
    "swe7": 10,
    "ascii": 11,
    "sjis": 13,
    "gbk": 28,
    "utf8mb3": 33,
    "utf8mb4": 45,
    "utf16": 54,
}


def _optional(sample: Sample, detail: str) -> bytes:
    columns = sample.table.columns
    if detail == "none":
        return b""
    unsigned = [
        column.unsigned or column.data_type == "year"
        for column, (code, _) in zip(columns, sample.stored, strict=True)
        if code in NUMERIC_CODES
    ]
    fields = [(1, _bits(unsigned))] if unsigned else []
    collations = [COLLATION_IDS[column.charset] for column in columns if column.data_type in TEXT_TYPES]
    if collations:
        alike = len(set(collations)) == 1
        fields.append((2, length(collations[0])) if alike else (3, b"".join(map(length, collations))))
    if detail == "full":
        fields.append((4, b"".join(length(len(c.name.encode())) + c.name.encode() for c in columns)))
        for kind, data_type in ((5, "set"), (6, "enum")):
            texts = [members_of(column) for column in columns if column.data_type == data_type]
            if texts:
                joined = (length(len(each)) + b"".join(length(len(m)) + m for m in each) for each in texts)
                fields.append((kind, b"".join(joined)))
        fields.append((8, length(0)))
        fields.append((12, _bits([True] * len(columns))))
    return b"".join(bytes([kind]) + length(len(value)) + value for kind, value in fields)


def _bits(flags: Sequence[bool]) -> bytes:
    padded = [*flags, *[False] * (-len(flags) % 8)]
    return bytes(sum(flag << 7 - i for i, flag in enumerate(padded[n : n + 8])) for n in range(0, len(padded), 8))


def image(forms: Sequence[Form], row: Row) -> bytes:
    """A row image. The bits after the last column are ones, as servers write them."""
    nulls = sum(1 << index for index, value in enumerate(row) if value is None)
    size = (len(row) + 7) // 8
    unused = (1 << 8 * size) - (1 << len(row))
    cells = []
    for form, value in zip(forms, row, strict=True):
        if value is not None:
            cell = form.write(value)
            cells.append(len(cell).to_bytes(form.prefix, "little") + cell if form.prefix else cell)
    return (nulls | unused).to_bytes(size, "little") + b"".join(cells)


def rows_event(
    sample: Sample, kind: str, rows: Sequence[Row], number: int, *, version: int, extra: bytes = b"", last: bool = True
) -> Event:
    """`kind`: insert, update (rows are before, after, before, …) or delete. `last`: the statement ends with it."""
    code = {"insert": codes.WRITE, "update": codes.UPDATE, "delete": codes.DELETE}[kind] - (0 if version == 2 else 7)
    head = number.to_bytes(6, "little") + struct.pack("<H", codes.END_OF_STATEMENT if last else 0)
    if version == 2:
        head += struct.pack("<H", 2 + len(extra)) + extra
    count = len(sample.table.columns)
    present = ((1 << count) - 1).to_bytes((count + 7) // 8, "little")
    head += length(count) + present * (2 if kind == "update" else 1)
    forms = sample.forms
    return Event(code, head + b"".join(image(forms, row) for row in rows))


def end_of_statement(version: int) -> Event:
    """MySQL's rows event of no table, which only ends a statement."""
    extra = b"\2\0" if version == 2 else b""
    return Event(
        codes.WRITE if version == 2 else codes.WRITE_V1,
        b"\xff" * 6 + struct.pack("<H", codes.END_OF_STATEMENT) + extra + b"\0",
    )


def without_checksums(log: Log, flavour: str) -> Log:
    """The same events in a file whose server writes no checksums."""
    return replace(log, events=(format_description(flavour, checksum=False), *log.events[1:]), checksum=False)


# What is packed


def packed_by_mariadb(data: bytes, says: int | None = None, *, head: int = 0x80) -> bytes:
    """MariaDB's compressed record; `says`: a length that is not so."""
    wanted = len(data) if says is None else says
    size = max(1, (wanted.bit_length() + 7) // 8)
    return bytes([head | size]) + wanted.to_bytes(size, "big") + zlib.compress(data)


def compressed(event: Event) -> Event:
    """MariaDB's compressed twin of a QUERY or rows event (log_bin_compress)."""
    if event.code == codes.QUERY:
        start = 13 + int.from_bytes(event.body[11:13], "little") + event.body[8] + 1
        return event._replace(
            code=codes.QUERY_COMPRESSED, body=event.body[:start] + packed_by_mariadb(event.body[start:])
        )
    start = read_rows_head(event.code, event.body).start
    code = event.code + (codes.WRITE_COMPRESSED - codes.WRITE_V1 if event.code < codes.WRITE else 169 - codes.WRITE)
    return event._replace(code=code, body=event.body[:start] + packed_by_mariadb(event.body[start:]))


def payload(data: bytes, *, kind: int = 0, lie: int | None = None) -> Event:
    """MySQL's TRANSACTION_PAYLOAD around events; `kind` 0: zstd, 255: as they are. `lie`: says another length."""
    packed = zstandard.ZstdCompressor().compress(data) if kind == 0 else data
    return Event(codes.PAYLOAD, payload_of(packed, len(data) if lie is None else lie, kind=kind))


def payload_of(packed: bytes, says: int | None, kind: int = 0) -> bytes:
    """A payload's body. `says` None: without the field of its length."""
    numbers = [(2, kind), *([] if says is None else [(3, says)]), (1, len(packed))]
    return b"".join(payload_field(*one) for one in numbers) + b"\0" + packed


def payload_field(field: int, number: int) -> bytes:
    return length(field) + length(len(length(number))) + length(number)
