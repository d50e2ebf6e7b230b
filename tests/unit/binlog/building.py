"""Binlog files made by hand, event by event, with right sizes and checksums. Positions are what `add` returns."""

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import pytest
import zstandard
from pymysqlreplication.constants import FIELD_TYPE

from airflow_provider_dm.engine.binlog.gtid_events import encoded
from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.mysql.gtid import MariadbGtidSet, MysqlGtidSet
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.model import Column, Index, Table
from tests.fuzz.writer import Event, packed_by_mariadb, payload_of, varint, written

FLAVOURS = pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
UUID_OF_SOURCE = UUID("3e11fa47-71ca-11e1-9e33-c80aa9429562")
# What servers write into a FORMAT_DESCRIPTION: their version, and the sizes of post-headers by event code (9.7, 10.11
# and 11.8 as seen, the others as their sources have it).
_ROWS_V1, _ROWS_V2 = (8, 8, 8), (10, 10, 10)
_BEFORE_8_0_31 = (56, 13, 0, 8, 0, 18, 0, 4, 4, 4, 4, 18, 0, 0)
_SINCE_THEN = (0, 13, 0, 8, 0, 0, 0, 0, 4, 0, 4, 0, 0, 0)
_MIDDLE = (0, 4, 26, 8, 0, 0, 0)


def _of_mysql(codes: int, head: tuple[int, ...], rows_v1: tuple[int, ...] = _ROWS_V1) -> bytes:
    tail = (42, 42, 0, 18, 52, 0, 10, 40, 0, 0)
    listed = (*head, codes + 57, *_MIDDLE, *rows_v1, 2, 0, 0, 0, *_ROWS_V2, *tail)
    return bytes(listed[:codes])


def _of_mariadb(codes: int) -> bytes:
    gap = (0,) * (160 - 33)
    own = (0, 4, 19, 4, 0, 13, *_ROWS_V1, *_ROWS_V2)
    listed = (*_BEFORE_8_0_31, 228, *_MIDDLE, *_ROWS_V1, 2, 0, 0, 0, *_ROWS_V2, *gap, *own)
    return bytes(listed[:codes])


SERVERS = {
    "mysql-5.6": ("5.6.51-log", _of_mysql(35, _BEFORE_8_0_31)),
    "mysql-5.7": ("5.7.44-log", _of_mysql(38, _BEFORE_8_0_31)),
    "mysql-8.0": ("8.0.42", _of_mysql(41, _SINCE_THEN)),
    "mysql-8.4": ("8.4.6", _of_mysql(42, _SINCE_THEN)),
    "mysql-9.7": ("9.7.4-2", _of_mysql(42, _SINCE_THEN, (0, 0, 0))),
    "mariadb-10.0": ("10.0.38-MariaDB", _of_mariadb(163)),
    "mariadb-10.1": ("10.1.48-MariaDB-log", _of_mariadb(164)),
    "mariadb-10.11": ("10.11.19-MariaDB-0+deb12u1-log", _of_mariadb(171)),
    "mariadb-11.8": ("11.8.9-MariaDB-4 from Debian-log", _of_mariadb(171)),
}
DEFAULT_SERVER = {"mysql": "mysql-9.7", "mariadb": "mariadb-10.11"}
NAME = TableName("shop", "orders")


def column(position: int, name: str, column_type: str, **options: object) -> Column:
    """A column as the catalogue would describe it."""
    data_type = re.split(r"[ (]", column_type, maxsplit=1)[0]
    return Column(name, position, data_type, column_type, nullable=True, **options)  # type: ignore[arg-type]


ORDERS = Table(
    NAME,
    (column(0, "id", "int"), column(1, "note", "varchar(20)", charset="utf8mb4", octet_length=80)),
    (Index("PRIMARY", ("id",), prefixes=(None,)),),
)
ORDERS_MAP = (bytes([FIELD_TYPE.LONG, FIELD_TYPE.VARCHAR]), struct.pack("<H", 80))


@dataclass
class Log:
    """A growing file's bytes. Every method appends one event and returns where it begins."""

    flavour: str = "mysql"
    checksum: bool = True
    name: str = "mysql-bin.000001"
    data: bytearray = field(default_factory=lambda: bytearray(b"\xfebin"))
    sequence: int = 0
    server: str = ""

    def __post_init__(self) -> None:
        self.server = self.server or DEFAULT_SERVER[self.flavour]
        self.flavour = self.server.partition("-")[0]
        if self.data:
            self.format_description()

    @classmethod
    def inner(cls) -> "Log":
        """Events as they lie in a TRANSACTION_PAYLOAD: nothing before them, no checksums."""
        return cls(checksum=False, name="", data=bytearray())

    @property
    def position(self) -> int:
        return len(self.data)

    def add(self, code: int, body: bytes, *, timestamp: int = 1_700_000_000, flags: int = 0, server_id: int = 7) -> int:
        start, event = self.position, Event(code, body, flags, timestamp, server_id)
        self.data += written(event, checksum=self.checksum or code == 15, position=start)
        return start

    def format_description(self) -> int:
        name, sizes = SERVERS[self.server]
        body = struct.pack("<H50sIB", 4, name.encode(), 0, 19) + sizes + bytes([1 if self.checksum else 0])
        return self.add(15, body)

    def gtid(
        self,
        *,
        standalone: bool = False,
        sequence: int | None = None,
        uuid: UUID = UUID_OF_SOURCE,
        domain: int = 0,
        server_id: int = 7,
    ) -> int:
        self.sequence = self.sequence + 1 if sequence is None else sequence
        if self.flavour == "mysql":
            return self.add(33, struct.pack("<B16sQ", 1, uuid.bytes, self.sequence) + bytes(17))
        body = struct.pack("<QIB", self.sequence, domain, 1 if standalone else 0) + bytes(6)
        return self.add(162, body, server_id=server_id)

    def before(self, gtid_set: str) -> int:
        """The event that says what was committed before this file."""
        if self.flavour == "mysql":
            return self.add(35, encoded(MysqlGtidSet.parse_text(gtid_set)))
        last = MariadbGtidSet.parse_text(gtid_set).last.values()
        entries = b"".join(struct.pack("<IIQ", one.domain, one.server_id, one.sequence) for one in last)
        return self.add(163, struct.pack("<I", len(last)) + entries)

    def tagged_gtid(self, tag: str, *, uuid: UUID = UUID_OF_SOURCE) -> int:
        self.sequence += 1
        return self.add(42, tagged_gtid_body(tag, self.sequence, uuid=uuid))

    def query(self, sql: str | bytes, schema: str = "shop", variables: bytes = b"", *, compressed: bool = False) -> int:
        text = sql.encode() if isinstance(sql, str) else sql
        head = query_head(schema, variables)
        return self.add(165, head + packed_by_mariadb(text)) if compressed else self.add(2, head + text)

    def begin(self) -> int:
        """The events that open a transaction of rows."""
        start = self.gtid()
        if self.flavour == "mysql":
            self.query("BEGIN")
        return start

    def table_map(self, name: TableName = NAME, types: tuple[bytes, bytes] = ORDERS_MAP, number: int = 9) -> int:
        codes, metadata = types
        body = number.to_bytes(6, "little") + b"\1\0"
        for part in (name.schema.encode(), name.table.encode()):
            body += bytes([len(part)]) + part + b"\0"
        body += bytes([len(codes)]) + codes + bytes([len(metadata)]) + metadata + bytes((len(codes) + 7) // 8)
        return self.add(19, body)

    def rows(
        self,
        kind: str,
        images: Iterable[bytes],
        *,
        columns: int = 2,
        number: int = 9,
        present: int | tuple[int, int] = 255,
        last: int = True,
        compressed: int = False,
        version: int = 0,
    ) -> int:
        """`kind`: insert, update or delete. MySQL writes version 2 of the event, MariaDB version 1.

        `last`: of its statement. `present`: the columns that images have, eight bits for all bytes of the bitmap; of
        an update two of them, for the images before and after, can be distinguished.
        """
        version = version or (2 if self.flavour == "mysql" else 1)
        offset = ("insert", "update", "delete").index(kind)
        code = {(1, False): 23, (2, False): 30, (1, True): 166, (2, True): 169}[version, bool(compressed)] + offset
        bitmaps = present if isinstance(present, tuple) else (present,) * (2 if kind == "update" else 1)
        bitmap = b"".join(bytes([one]) * ((columns + 7) // 8) for one in bitmaps)
        head = number.to_bytes(6, "little") + bytes([last, 0]) + (b"\2\0" if version == 2 else b"")
        joined = b"".join(images)
        return self.add(code, head + bytes([columns]) + bitmap + (packed_by_mariadb(joined) if compressed else joined))

    def change(self, before: bytes | None, after: bytes | None, name: TableName = NAME) -> None:
        """A statement that changes one row, from one image to another; None: no row."""
        self.table_map(name)
        kind = "insert" if before is None else "delete" if after is None else "update"
        self.rows(kind, [image for image in (before, after) if image is not None])

    def payload(self, inner: "Log", *, compression: str = "zstd") -> int:
        """Return what `inner` holds as one event."""
        return self.add(40, payload_body(bytes(inner.data), compression))

    def xid(self, *, timestamp: int = 1_700_000_000) -> int:
        return self.add(16, struct.pack("<Q", 5), timestamp=timestamp)

    def ddl(self, sql: str, *, compressed: bool = False) -> int:
        """A statement that is a transaction of its own."""
        start = self.gtid(standalone=True)
        self.query(sql, compressed=compressed)
        return start

    def rotate(self, to: str) -> int:
        return self.add(4, struct.pack("<Q", 4) + to.encode())

    def transaction(self, *changes: tuple[str, list[bytes]], timestamp: int = 1_700_000_000) -> tuple[int, int]:
        """One whole transaction on ORDERS; (start, end)."""
        start = self.begin()
        for kind, images in changes or (("insert", [order(1)]),):
            self.table_map()
            self.rows(kind, images)
        self.xid(timestamp=timestamp)
        return start, self.position

    def file(self, folder: Path, *, last: bool = True, suffix: int = 1) -> LogFile:
        path = folder / self.name
        path.write_bytes(self.data)
        return LogFile(str(path), suffix, self.name, len(self.data), last)


def query_head(schema: str = "shop", variables: bytes = b"") -> bytes:
    """All of a QUERY event's body but the statement."""
    return struct.pack("<IIBHH", 1, 0, len(schema), 0, len(variables)) + variables + schema.encode() + b"\0"


def payload_body(events: bytes, compression: str = "zstd", *, claimed: int | None = None) -> bytes:
    """The body of a TRANSACTION_PAYLOAD, its fields in the order that MySQL writes them in."""
    if compression != "zstd":
        return payload_of(events, None, kind=255)
    return payload_of(zstandard.ZstdCompressor().compress(events), len(events) if claimed is None else claimed)


def tagged_gtid_body(tag: str, number: int, *, uuid: UUID = UUID_OF_SOURCE) -> bytes:
    """GTID_TAGGED up to its tag."""
    field = [varint(n) for n in range(4)]
    its_uuid = b"".join(varint(byte) for byte in uuid.bytes)
    fields = field[0] + varint(0) + field[1] + its_uuid + field[2] + varint(number << 1)
    fields += field[3] + varint(len(tag)) + tag.encode()
    return varint(1) + varint(len(fields)) + varint(0) + fields


def order(number: int, note: bytes | None = b"x") -> bytes:
    """A row image of ORDERS."""
    if note is None:
        return b"\xfe" + struct.pack("<i", number)
    return b"\xfc" + struct.pack("<i", number) + bytes([len(note)]) + note
