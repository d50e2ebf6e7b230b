"""Binlog events as servers write them, for tests: header, body, CRC32."""

import struct
from zlib import crc32

MAGIC = b"\xfebin"
QUERY, ROTATE, FORMAT, XID, HEARTBEAT, GTID_LIST, MARIADB_GTID = 2, 4, 15, 16, 27, 163, 162


def event(
    code: int, body: bytes, end: int, *, timestamp: int = 1_700_000_000, flags: int = 0, crc: bool = True
) -> bytes:
    size = 19 + len(body) + 4 * crc
    head = struct.pack("<IBIIIH", timestamp, code, 7, size, end & 0xFFFF_FFFF, flags)
    return head + body + (struct.pack("<I", crc32(head + body)) if crc else b"")


def real(code: int, body: bytes, start: int, **options: int) -> bytes:
    """An event of a file, at `start`."""
    crc = bool(options.pop("crc", True))
    return event(code, body, start + 19 + len(body) + 4 * crc, crc=crc, **options)


def format_description(start: int = 4) -> bytes:
    sizes = bytearray(180)
    sizes[18] = 8  # TABLE_MAP
    body = struct.pack("<H50sIB", 4, b"10.11.6-MariaDB-log", 1_700_000_000, 19) + bytes(sizes) + b"\x01"
    return real(FORMAT, body, start)


def fake_rotate(name: str, position: int = 4) -> bytes:
    return event(ROTATE, struct.pack("<Q", position) + name.encode(), 0, timestamp=0, flags=0x20, crc=True)


def begin(number: int, start: int) -> bytes:
    return real(MARIADB_GTID, struct.pack("<QIB", number, 0, 0) + bytes(6), start)


def filler(size: int, start: int) -> bytes:
    """An ANNOTATE_ROWS event: bytes that no transaction depends on."""
    return real(160, b"x" * size, start)


def commit(start: int) -> bytes:
    return real(XID, bytes(8), start)


def file_of(transactions: int) -> tuple[bytes, list[int]]:
    """A whole file and its transaction boundaries, oldest first."""
    data = MAGIC + format_description()
    data += real(GTID_LIST, struct.pack("<I", 0), len(data))
    boundaries = [len(MAGIC + format_description()), len(data)]
    for number in range(1, transactions + 1):
        data += begin(number, len(data))
        data += filler(20 * number, len(data))
        data += commit(len(data))
        boundaries.append(len(data))
    return data, boundaries


def packets(payload: bytes, sequence: int = 0) -> bytes:
    """A payload as packets, split at 16 MiB."""
    out, full = b"", 0xFFFFFF
    for at in range(0, len(payload) + 1, full):
        part = payload[at : at + full]
        out += len(part).to_bytes(3, "little") + bytes([sequence & 255]) + part
        sequence += 1
    return out


def streamed(*events: bytes) -> bytes:
    return b"".join(packets(b"\0" + one, sequence) for sequence, one in enumerate(events))
