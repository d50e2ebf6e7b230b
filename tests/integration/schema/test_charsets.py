"""Charsets that audits decode by themselves: Python reads every character as the servers do."""

from typing import Final

import pytest

from airflow_provider_dm.engine.schema.charsets import CODECS, decoder
from testbed import Server

SINGLE_BYTES: Final = [bytes([code]) for code in range(256)]
PAIRS: Final = [bytes([lead, trail]) for lead in range(0x80, 0x100) for trail in range(0x40, 0x100)]
WIDE: Final = {"utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be", "ucs2": "utf-16-be"}
CODE_POINTS: Final = [*range(0x20, 0xD800, 7), *range(0xE000, 0xFFFE, 5), 0x10000, 0x1F600, 0x10FFFF]
UTF8: Final = ("utf8mb4", "utf8mb3", "utf8")


def samples(charset: str) -> list[bytes]:
    if charset in UTF8:
        return [chr(code).encode() for code in CODE_POINTS if code < 0x10000 or charset == "utf8mb4"]
    if charset in WIDE:
        return [chr(code).encode(WIDE[charset]) for code in CODE_POINTS if code < 0x10000 or charset != "ucs2"]
    return [*SINGLE_BYTES, *(PAIRS if charset in ("gbk", "gb2312") else [])]


@pytest.mark.parametrize("charset", sorted({*CODECS, "latin1", "ucs2"}))
def test_python_and_the_server_read_the_same(charset: str, source: Server, schema: str) -> None:
    read = decoder(charset)
    assert read is not None
    ours = {}
    for sample in samples(charset):
        try:
            ours[sample] = read(sample)
        except UnicodeDecodeError:
            continue
    values = ",".join(f"(x'{sample.hex()}')" for sample in ours)
    source.sql(f"CREATE TABLE `{schema}`.t (b VARBINARY(8)); INSERT INTO `{schema}`.t VALUES {values}")
    rows = source.sql(f"SELECT b, CAST(CONVERT(CONVERT(b USING {charset}) USING utf8mb4) AS BINARY) FROM `{schema}`.t")
    assert {sample: theirs.decode() for sample, theirs in rows} == ours
    assert len(ours) > 100
