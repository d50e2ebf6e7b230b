"""The charsets that are decoded here. tests/integration/binlog compares the decoding with servers."""

import pytest

from airflow_provider_dm.engine.schema.charsets import decoder


@pytest.mark.parametrize("charset", ["big5", "sjis", "cp932", "ujis", "euckr", "greek", "cp866", "koi8u", "x"])
def test_charsets_that_servers_decode_differently_have_no_decoder(charset: str) -> None:
    assert decoder(charset) is None


@pytest.mark.parametrize("value", [b"\xd8\x3d", b"\xd8\x3d\xde\x00"])
def test_ucs2_has_no_surrogates(value: bytes) -> None:
    read = decoder("ucs2")
    assert read is not None
    with pytest.raises(UnicodeDecodeError):
        read(value)
