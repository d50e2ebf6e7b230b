r"""MariaDB's UUID, INET4 and INET6: from the bytes of a row image to the text that the server prints.

The log holds a value as its bytes in network order, without trailing zero bytes. (On disk the parts of a UUID are
reordered, so that it sorts by time; in the log they are in their original order.)
"""

from __future__ import annotations

from operator import not_
from typing import Final
from uuid import UUID

from airflow_provider_dm.engine.schema.errors import MalformedValue

UUID_SIZE: Final = 16
INET4_SIZE: Final = 4
INET6_SIZE: Final = 16


def uuid_text(data: bytes) -> bytes:
    r"""Return a UUID as text.

    >>> uuid_text(bytes.fromhex("123e4567e89b12d3a456426655440000").rstrip(b"\0"))
    b'123e4567-e89b-12d3-a456-426655440000'
    """
    return str(UUID(bytes=_whole(data, UUID_SIZE))).encode()


def inet4_text(data: bytes) -> bytes:
    r"""Return an INET4 address as text.

    >>> inet4_text(b"\x0a\0\0\1"), inet4_text(b"")
    (b'10.0.0.1', b'0.0.0.0')
    """
    return b"%d.%d.%d.%d" % tuple(_whole(data, INET4_SIZE))


def inet6_text(data: bytes) -> bytes:
    r"""Return an INET6 address in the format of MariaDB's `Inet6::to_string`: the longest run of zero groups (of
    equal runs the first, even a single group) is left out; IPv4-compatible and IPv4-mapped addresses end as IPv4.

    >>> inet6_text(bytes.fromhex("20010db8000000000000000000000001")), inet6_text(b"")
    (b'2001:db8::1', b'::')
    >>> inet6_text(bytes.fromhex("00000000000000000000ffff01020304")), inet6_text(b"\0\1\0\0\0\2\0\3\0\4\0\5\0\6\0\7")
    (b'::ffff:1.2.3.4', b'1::2:3:4:5:6:7')
    """
    whole = _whole(data, INET6_SIZE)
    groups = [whole[index] << 8 | whole[index + 1] for index in range(0, INET6_SIZE, 2)]
    start, length = _longest_zeros(groups)
    if start == 0 and (length == 6 or (length == 5 and groups[5] == 0xFFFF)):
        mapped = b"" if length == 6 else b"ffff:"
        return b"::" + mapped + inet4_text(whole[12:])
    if not length:
        return _joined(groups)
    return _joined(groups[:start]) + b"::" + _joined(groups[start + length :])


def _joined(groups: list[int]) -> bytes:
    return b":".join([b"%x" % group for group in groups])


def _longest_zeros(groups: list[int]) -> tuple[int, int]:
    """Return (index, length) of the longest run of zeros, of equally long ones the first; (-1, 0) if there is none."""
    zeros = bytes(map(not_, groups))
    for length in range(len(groups), 0, -1):
        if (start := zeros.find(b"\1" * length)) >= 0:
            return start, length
    return -1, 0


def _whole(data: bytes, size: int) -> bytes:
    if len(data) > size:
        raise MalformedValue(f"{len(data)} bytes, where at most {size} are possible")
    return data.ljust(size, b"\0")
