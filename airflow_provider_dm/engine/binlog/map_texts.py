"""Compares the charsets, and the members of ENUM and SET, in a table map with the table's definition.

    binlog_row_metadata        fields of a table map
    MINIMAL (MySQL's default)  2 and 3: a collation for each text column
    FULL                       also 5 and 6: the members, in the column's charset
    NO_LOG (MariaDB's default) none of these, so nothing is compared

With a wrong definition a row would be decoded to wrong text without an error. Charsets are not compared either if the
table has a type that not every server counts as text (`_UNCERTAIN`), or if the charset of an id is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pymysqlreplication.constants import FIELD_TYPE

from airflow_provider_dm.engine.binlog import cells
from airflow_provider_dm.engine.binlog.byte_reader import ByteReader
from airflow_provider_dm.engine.binlog.client_charsets import charset_name
from airflow_provider_dm.engine.schema.charsets import decoder
from airflow_provider_dm.engine.schema.codec import enum_members
from airflow_provider_dm.engine.schema.model import Column, Table

_DEFAULT_CHARSET, _COLUMN_CHARSET, _SET_MEMBERS, _ENUM_MEMBERS = 2, 3, 5, 6

_TEXTS: Final = frozenset({FIELD_TYPE.VARCHAR, FIELD_TYPE.VAR_STRING, FIELD_TYPE.BLOB, FIELD_TYPE.STRING})
_UNCERTAIN: Final = frozenset(
    {FIELD_TYPE.GEOMETRY, cells.VECTOR, cells.MARIADB_BLOB_COMPRESSED, cells.MARIADB_VARCHAR_COMPRESSED}
)
_NO_TEXTS: Final = frozenset({"uuid", "inet4", "inet6", "vector"})
"""Types of MariaDB without a charset that the log stores as strings."""
_UTF8: Final = frozenset({"utf8", "utf8mb3", "utf8mb4"})


def contradictions(
    fields: Mapping[int, bytes], types: bytes, metadata: Sequence[bytes], table: Table, at: str
) -> Iterator[tuple[Column, str]]:
    """Yield each column that differs from the fields, with the charset or members there. Raises MalformedEvent."""
    columns = list(zip(table.columns, map(_stored_as, types, metadata), strict=False))
    if _UNCERTAIN.isdisjoint(types) and not any(column.data_type in _NO_TEXTS for column, _ in columns):
        yield from _other_charsets(fields, [column for column, code in columns if code in _TEXTS], at)
    for kind, code in ((_ENUM_MEMBERS, FIELD_TYPE.ENUM), (_SET_MEMBERS, FIELD_TYPE.SET)):
        if kind in fields:
            named = [column for column, stored in columns if stored == code]
            yield from _other_members(table, named, ByteReader(fields[kind], at, "a TABLE_MAP's list of members"))


def _stored_as(code: int, metadata: bytes) -> int:
    return cells.real_type(metadata)[0] if code == FIELD_TYPE.STRING else code


def _other_charsets(fields: Mapping[int, bytes], columns: Sequence[Column], at: str) -> Iterator[tuple[Column, str]]:
    for column, number in _collations(fields, columns, at):
        log = charset_name(number)
        ours = "utf8" if column.charset in _UTF8 else column.charset or "binary"
        if log is not None and log != ours:
            yield column, f"CHARACTER SET {log}"


def _collations(fields: Mapping[int, bytes], columns: Sequence[Column], at: str) -> Iterator[tuple[Column, int]]:
    """Yield the text columns with the id of their collation in the fields.

    Yield nothing if the fields have another number of columns: they are optional and only used as a check.
    """
    numbers = {kind: _numbers(fields[kind], at) for kind in (_DEFAULT_CHARSET, _COLUMN_CHARSET) if kind in fields}
    if listed := numbers.get(_COLUMN_CHARSET):
        if len(listed) == len(columns):
            yield from zip(columns, listed, strict=True)
    elif given := numbers.get(_DEFAULT_CHARSET):
        usual, others = given[0], dict(zip(given[1::2], given[2::2], strict=False))
        if all(index < len(columns) for index in others):
            yield from ((column, others.get(index, usual)) for index, column in enumerate(columns))


def _numbers(field: bytes, at: str) -> list[int]:
    read, numbers = ByteReader(field, at, "a TABLE_MAP's list of charsets"), list[int]()
    while read.left:
        numbers.append(read.number())
    return numbers


def _other_members(table: Table, columns: Sequence[Column], read: ByteReader) -> Iterator[tuple[Column, str]]:
    for column in columns:
        log = _in_utf8([bytes(read.take(read.number())) for _ in range(read.number())], column.charset or "binary")
        if log is not None and log != enum_members(table.name, column):
            yield column, f"the members {', '.join(member.decode() for member in log)}"


def _in_utf8(members: Sequence[bytes], charset: str) -> tuple[bytes, ...] | None:
    """Return the members in UTF-8; None if Python and the servers decode the charset differently."""
    read = decoder(charset)
    try:
        return None if read is None else tuple(read(member).encode() for member in members)
    except UnicodeDecodeError:
        return None
