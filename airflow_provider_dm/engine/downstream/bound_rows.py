"""Many rows of one table as one bulk execution of a prepared statement, so that MariaDB parses no literals.

Such a row takes half of the CPU of one in an INSERT of literals (docs/how-to/sync-modes.md).

The server converts parameters as it converts literals, even if a column's character set was changed after the table's
definition was read. UTF-8 text, numbers and times are sent as text. Text in another character set is sent as bytes, and
the statement names the character set. A table with a number that goes into a column of another type is written by
literals.

Protocol: https://mariadb.com/docs/server/reference/clientserver-protocol/3-binary-protocol-prepared-statements/com_stmt_bulk_execute
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from pymysql.constants import FIELD_TYPE

from airflow_provider_dm.engine.binlog.images import Cells
from airflow_provider_dm.engine.binlog.kernels import build
from airflow_provider_dm.engine.downstream.row_statements import Dialect, SqlStatement, Verb, around
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.charsets import MULTI_BYTE
from airflow_provider_dm.engine.schema.codec import INTEGERS, Codec, LiteralStyle, codec_for
from airflow_provider_dm.engine.schema.model import Column

FEWEST: Final = 64
"""Fewer rows than this are not worth another statement."""
_TYPES_ARE_SENT: Final = 128  # a flag of COM_STMT_BULK_EXECUTE

_NUMBERS_AND_TIMES: Final = frozenset({LiteralStyle.PLAIN, LiteralStyle.FLOAT, LiteralStyle.QUOTED, LiteralStyle.BITS})
_SENT_AS_BYTES: Final = frozenset({LiteralStyle.HEX, LiteralStyle.BITS, LiteralStyle.CHARSET})


@dataclass(frozen=True)
class _Binding:
    """How a table's rows are bound. `columns`: for `write_parameters`; `types`: of a row's parameters."""

    columns: Any
    types: bytes
    placeholders: bytes


def bound_rows(
    mapping: TableMapping, cells: Cells, numbers: Any, verb: Verb, dialect: Dialect
) -> Iterator[SqlStatement]:
    """Yield bound INSERT, REPLACE or UPSERT statements for the first of the rows of `cells` with these numbers (int64);
    the others, possibly all, have to be written as literals."""
    if not dialect.executes_bulk or not build.ready() or len(numbers) < FEWEST or dialect.most_rows < FEWEST:
        return
    binding = _binding(mapping)
    if binding is None:
        return
    from airflow_provider_dm.engine.binlog.kernels.parameters import MOST_BEFORE_A_VALUE, write_parameters

    head, tail = around(mapping, verb, dialect)
    frame = struct.pack("<H", _TYPES_ARE_SENT) + binding.types
    last = cells.ends[cells.columns - 1 :: cells.columns]  # an end is ~end if the last value is NULL
    sizes = np.diff(last ^ (last >> 63), prepend=0)[numbers] + MOST_BEFORE_A_VALUE * len(binding.columns)
    ends = np.cumsum(sizes) + len(frame)
    text = np.frombuffer(cells.text, np.uint8)
    text.setflags(write=False)
    first = passed = 0
    while (following := int(np.searchsorted(ends, passed + dialect.most_bytes, "right"))) - first >= FEWEST:
        out = np.empty(int(ends[following - 1]) - passed, np.uint8)
        out[: len(frame)] = np.frombuffer(frame, np.uint8)
        some = numbers[first:following]
        written = int(write_parameters(text, cells.ends, cells.columns, some, binding.columns, out[len(frame) :]))
        if written < 0:
            return
        parameters = out[: len(frame) + written].data
        yield SqlStatement(
            head + binding.placeholders + tail, len(some), mapping.target.name, verb, parameters=parameters
        )
        first, passed = following, int(ends[following - 1]) - len(frame)


@lru_cache(maxsize=1024)
def _binding(mapping: TableMapping) -> _Binding | None:
    if mapping.computed:
        return None
    columns, types, placeholders = [], b"", []
    for index in mapping.written:
        ours, theirs = mapping.source.columns[index], mapping.target_columns[index]
        codec = codec_for(mapping.source.name, ours)
        if not _is_bound(codec, ours, theirs):
            return None
        columns.append((index, int(codec.style is LiteralStyle.ENUM)))
        types += bytes([FIELD_TYPE.BLOB if codec.style in _SENT_AS_BYTES else FIELD_TYPE.VAR_STRING, 0])
        placeholders.append(b"CONVERT(? USING %b)" % codec.introducer if codec.introducer else b"?")
    return _Binding(np.array(columns, np.int64).reshape(-1, 2), types, b"(" + b",".join(placeholders) + b")")


def _is_bound(codec: Codec, ours: Column, theirs: Column) -> bool:
    if codec.style in _NUMBERS_AND_TIMES:
        return ours.data_type == theirs.data_type or {ours.data_type, theirs.data_type} <= INTEGERS
    if codec.introducer:  # bytes that are no character would become NULL: there are none in these character sets
        return ours.charset not in (*MULTI_BYTE, "ascii") and codec.style is LiteralStyle.CHARSET
    return True
