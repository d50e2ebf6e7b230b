r"""The identity of a row, and a whole row, as bytes in the tables of the meta-schema.

Keys are compared byte by byte: `abc` and `ABC` are two keys, regardless of collations. Each value follows its length,
so ("a", "bc") and ("ab", "c") differ; and since integers are decimal text, a shorter one sorts first and a page of a
copy inserts its keys mostly in their order.

>>> row_key([b"7"])
b'\x017'
>>> decode_row(encode_row((b"7", None, b"", ABSENT)))
(b'7', None, b'', ABSENT)
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from typing import Final

from airflow_provider_dm.engine.binlog.partial_rows import ABSENT
from airflow_provider_dm.engine.schema.codec import Row, Value

LONGEST_KEY_BYTES: Final = 64
"""Maximum bytes of a key that is stored unchanged. A longer key is stored as a prefix and a digest: 65 bytes."""
_PREFIX: Final = 48
_DIGEST: Final = 16
_LONG_VALUE_MARK: Final = 0xFF
_LENGTH: Final = struct.Struct(">I")
_NULL_SIZE: Final = 0xFFFFFFFF
_ABSENT_SIZE: Final = 0xFFFFFFFE


def row_key(values: Iterable[bytes]) -> bytes:
    """Return the key of a row from its canonical identity values."""
    key = b"".join([_with_length(value) for value in values])
    if len(key) <= LONGEST_KEY_BYTES:
        return key
    return key[:_PREFIX] + hashlib.blake2b(key, digest_size=_DIGEST).digest() + b"#"


def _with_length(value: bytes) -> bytes:
    size = len(value)
    return (
        bytes((size,)) + value if size < _LONG_VALUE_MARK else bytes((_LONG_VALUE_MARK,)) + _LENGTH.pack(size) + value
    )


def encode_row(row: Row) -> bytes:
    """Encode all values of a row. The value of a generated column that the log does not have is ABSENT."""
    return b"".join(map(_encode, row))


def _encode(value: Value) -> bytes:
    if value is None:
        return _LENGTH.pack(_NULL_SIZE)
    return _LENGTH.pack(_ABSENT_SIZE) if value is ABSENT else _LENGTH.pack(len(value)) + value


def decode_row(data: bytes) -> Row:
    """Return the row that was encoded."""
    row: list[Value] = []
    at = 0
    while at < len(data):
        (size,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if size == _NULL_SIZE:
            row.append(None)
        elif size == _ABSENT_SIZE:
            row.append(ABSENT)
        else:
            row.append(data[at : at + size])
            at += size
    return tuple(row)
