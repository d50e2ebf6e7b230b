"""MariaDB's compressed cells."""

import zlib

import pytest

from airflow_provider_dm.engine.schema.compression import decompress_cell
from airflow_provider_dm.engine.schema.errors import MalformedValue


def compressed(value: bytes, *, header: bool) -> bytes:
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS if header else -zlib.MAX_WBITS)
    size = (len(value).bit_length() + 7) // 8
    method = 0x80 + size + (0 if header else 8)
    return bytes([method]) + len(value).to_bytes(size, "big") + packer.compress(value) + packer.flush()


@pytest.mark.parametrize(
    "data",
    [
        b"\x10abc",  # no such method
        b"\x89",  # no length
        b"\x88" + zlib.compress(b"abc"),  # a length of no bytes
        b"\x8f" + b"\xff" * 7 + zlib.compress(b"abc"),
        b"\x81\x04" + zlib.compress(b"abc"),
        b"\x81\x02" + zlib.compress(b"abc"),
        b"\x81\x03" + zlib.compress(b"abc")[:-1],
        b"\x81\x03nonsense",
    ],
)
def test_damage_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedValue):
        decompress_cell(data)


def test_no_more_is_decompressed_than_the_stated_length() -> None:
    bomb = b"\x82\x03\xe8" + zlib.compress(bytes(50_000_000))
    with pytest.raises(MalformedValue):
        decompress_cell(bomb)


def test_a_value_larger_than_its_column_is_refused_before_it_is_made() -> None:
    packed = b"\x84" + (1 << 29).to_bytes(4, "big") + zlib.compress(b"x")
    with pytest.raises(MalformedValue, match="at most"):
        decompress_cell(packed, most=65535)


def test_bytes_after_the_value_are_refused() -> None:
    packed = b"\x81\x01" + zlib.compress(b"x")
    assert decompress_cell(packed) == b"x"
    with pytest.raises(MalformedValue):
        decompress_cell(packed + b"garbage")
