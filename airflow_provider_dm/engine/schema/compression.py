r"""MariaDB's compressed columns: a row image holds the stored form, a byte for the method and then the value.

The upper four bits are the method: 0 is the plain value, 8 is zlib. With zlib the lower four bits are a flag for an
omitted zlib header, and the size of the length that follows (MariaDB `sql/field_comp.cc`). An empty cell is the empty
value.
"""

from __future__ import annotations

import zlib
from typing import Final

from airflow_provider_dm.engine.schema.errors import MalformedValue

_METHOD_SHIFT: Final = 4
_PLAIN, _ZLIB = 0, 8
_WITHOUT_HEADER: Final = 0x08
_LENGTH_BITS: Final = 0x07
LARGEST_VALUE: Final = 128 << 20
"""The maximum size of a decompressed value, as for compressed events (`binlog.header.LARGEST_UNPACKED`)."""


def decompress_cell(data: bytes, most: int = LARGEST_VALUE) -> bytes:
    r"""Return the value of a compressed column. Raises MalformedValue, also for a value of more than `most` bytes.

    >>> decompress_cell(b"\x00abc"), decompress_cell(b""), decompress_cell(bytes.fromhex("89644b4ca43d0000"))[:3]
    (b'abc', b'', b'aaa')
    """
    if not data:
        return b""
    method = data[0] >> _METHOD_SHIFT
    if method == _PLAIN:
        return data[1:]
    if method != _ZLIB:
        raise MalformedValue(f"compression method {method}")
    size = data[0] & _LENGTH_BITS
    length = int.from_bytes(data[1 : 1 + size], "big")
    if len(data) < 1 + size or not 0 < length <= most:
        raise MalformedValue(f"a compressed value of {length} bytes, where at most {most} are read")
    inflater = zlib.decompressobj(-zlib.MAX_WBITS if data[0] & _WITHOUT_HEADER else zlib.MAX_WBITS)
    try:
        value = inflater.decompress(data[1 + size :], length + 1)  # one more, to reach the end of the input
    except zlib.error as error:
        raise MalformedValue(str(error)) from error
    if len(value) != length or not inflater.eof or inflater.unused_data:
        raise MalformedValue(f"a compressed value whose size is not {length} bytes")
    return value
