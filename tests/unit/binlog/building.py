"""Binlog files made by hand, event by event, with right sizes and checksums. Positions are what `add` returns."""

import re
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from airflow_provider_dm.engine.binlog import cells
from airflow_provider_dm.engine.binlog.planner import LogFile
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.model import Column, Index, Table

UUID_OF_SOURCE = UUID("3e11fa47-71ca-11e1-9e33-c80aa9429562")
VERSIONS = {"mysql": "9.7.4", "mariadb": "10.11.19-MariaDB-log"}
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
ORDERS_MAP = (bytes([cells.LONG, cells.VARCHAR]), struct.pack("<H", 80))


@dataclass
class Log:
    """A growing file's bytes. Every method appends one event and returns where it begins."""

    flavour: str = "mysql"
    checksum: bool = True
    name: str = "mysql-bin.000001"
    data: bytearray = field(default_factory=lambda: bytearray(b"\xfebin"))
    sequence: int = 0

    def __post_init__(self) -> None:
        self.format_description()

    @property
    def position(self) -> int:
        return len(self.data)

    def add(self, code: int, body: bytes, *, timestamp: int = 1_700_000_000, flags: int = 0) -> int:
        trailer = 4 if self.checksum or code == 15 else 0
        start = self.position
        size = 19 + len(body) + trailer
        event = struct.pack("<IBIIIH", timestamp, code, 7, size, (start + size) & 0xFFFFFFFF, flags) + body
        self.data += event + (struct.pack("<I", zlib.crc32(event)) if trailer else b"")
        return start

    def format_description(self, *, version: int = 4) -> int:
        sizes = bytearray(172)
        for code, size in {2: 13, 4: 8, 19: 8, 23: 8, 24: 8, 25: 8, 30: 10, 31: 10, 32: 10}.items():
            sizes[code - 1] = size
        server = VERSIONS[self.flavour].encode().ljust(50, b"\0")
        body = struct.pack("<H50sIB", version, server, 0, 19) + bytes(sizes) + bytes([1 if self.checksum else 0])
        return self.add(15, body)

    def gtid(self, *, standalone: bool = False, sequence: int | None = None) -> int:
        self.sequence = self.sequence + 1 if sequence is None else sequence
        if self.flavour == "mysql":
            return self.add(33, struct.pack("<B16sQ", 1, UUID_OF_SOURCE.bytes, self.sequence) + bytes(17))
        return self.add(162, struct.pack("<QIB", self.sequence, 0, 1 if standalone else 0) + bytes(6))

    def query(self, sql: str | bytes, schema: str = "shop", variables: bytes = b"") -> int:
        text = sql.encode() if isinstance(sql, str) else sql
        head = struct.pack("<IIBHH", 1, 0, len(schema), 0, len(variables))
        return self.add(2, head + variables + schema.encode() + b"\0" + text)

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

    def rows(self, kind: str, images: Iterable[bytes], *, columns: int = 2, number: int = 9, present: int = 255) -> int:
        """`kind`: insert, update or delete. MySQL writes version 2 of the event, MariaDB version 1."""
        offset = ("insert", "update", "delete").index(kind)
        code, extra = (30 + offset, b"\2\0") if self.flavour == "mysql" else (23 + offset, b"")
        bitmap = bytes([present]) * ((columns + 7) // 8) * (2 if kind == "update" else 1)
        head = number.to_bytes(6, "little") + b"\1\0" + extra + bytes([columns]) + bitmap
        return self.add(code, head + b"".join(images))

    def xid(self, *, timestamp: int = 1_700_000_000) -> int:
        return self.add(16, struct.pack("<Q", 5), timestamp=timestamp)

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

    def file(self, folder: Path, *, last: bool = True, size: int | None = None, suffix: int = 1) -> LogFile:
        path = folder / self.name
        path.write_bytes(self.data)
        return LogFile(str(path), suffix, self.name, len(self.data) if size is None else size, last)


def order(number: int, note: bytes | None = b"x") -> bytes:
    """A row image of ORDERS."""
    if note is None:
        return b"\xfe" + struct.pack("<i", number)
    return b"\xfc" + struct.pack("<i", number) + bytes([len(note)]) + note
