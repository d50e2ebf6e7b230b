"""Many rows of one table as executions of one prepared statement, so that the target parses no literals.

MariaDB needs half of the CPU of an INSERT of literals for sysbench's rows, MySQL nine tenths, but half more for the
execution that prepares the statement (docs/how-to/sync-modes.md). So only full statements of many rows are bound.

The server converts what is sent as it converts literals, also if a column has got another character set meanwhile: text
in UTF-8, numbers and times are sent as text; other character sets as bytes that the statement names the character set
of. Tables with numbers that go into columns of another type are written by literals.
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
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.charsets import MULTI_BYTE
from airflow_provider_dm.engine.schema.codec import INTEGERS, Codec, LiteralStyle, codec_for
from airflow_provider_dm.engine.schema.model import Column

ROWS_OF_A_STATEMENT: Final = (512, 256, 128, 64, 32, 16)
"""The most that its bytes and parameters allow: the same for each page, so that it is prepared once."""
FEWEST: Final = 4
"""Statements for which it pays to prepare one."""
_MOST_PARAMETERS: Final = 1 << 14

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
    binding = _binding(mapping, dialect.server.flavour)
    if binding is None or not build.ready() or not len(numbers):
        return
    from airflow_provider_dm.engine.binlog.kernels.parameters import MOST_OF_A_LENGTH, write_parameters

    width = len(binding.columns)
    last = cells.ends[cells.columns - 1 :: cells.columns]  # an end is ~end if the last value is NULL
    sizes = np.diff(last ^ (last >> 63), prepend=0)[numbers] + MOST_OF_A_LENGTH * width
    most = min(dialect.most_rows, _MOST_PARAMETERS // width, dialect.most_bytes // int(sizes.mean()))
    rows = next((rows for rows in ROWS_OF_A_STATEMENT if rows <= most), 0)
    if not rows or len(numbers) < FEWEST * rows:
        return
    head, tail = around(mapping, verb, dialect)
    sql = head + b",".join([binding.placeholders] * rows) + tail
    text = np.frombuffer(cells.text, np.uint8)
    text.setflags(write=False)
    frame = struct.pack("<BI", 0, 1)  # no cursor, one execution
    nulls_at, nulls_end = len(frame), len(frame) + (rows * width + 7) // 8
    frame = frame.ljust(nulls_end, b"\0") + b"\1" + binding.types * rows
    for first in range(0, len(numbers) - rows + 1, rows):
        size = len(frame) + int(sizes[first : first + rows].sum())
        if size > dialect.most_bytes:
            return
        out = np.empty(size, np.uint8)
        out[: len(frame)] = np.frombuffer(frame, np.uint8)
        nulls, values = out[nulls_at:nulls_end], out[len(frame) :]
        some = numbers[first : first + rows]
        written = int(write_parameters(text, cells.ends, cells.columns, some, binding.columns, nulls, values))
        if written < 0:
            return
        parameters = out[: len(frame) + written].data
        yield SqlStatement(sql, rows, mapping.target.name, verb, parameters=parameters)


@lru_cache(maxsize=1024)
def _binding(mapping: TableMapping, target: Flavour) -> _Binding | None:
    if mapping.computed or not CAPABILITIES[target].binds_rows:
        return None
    columns, types, placeholders = [], b"", []
    for index in mapping.written:
        ours, theirs = mapping.source.columns[index], mapping.target_columns[index]
        codec = codec_for(mapping.source.name, ours)
        if not _is_bound(codec, ours, theirs, target):
            return None
        columns.append((index, int(codec.style is LiteralStyle.ENUM)))
        types += bytes([FIELD_TYPE.BLOB if codec.style in _SENT_AS_BYTES else FIELD_TYPE.VAR_STRING, 0])
        placeholders.append(b"CONVERT(? USING %b)" % codec.introducer if codec.introducer else b"?")
    return _Binding(np.array(columns, np.int64).reshape(-1, 2), types, b"(" + b",".join(placeholders) + b")")


def _is_bound(codec: Codec, ours: Column, theirs: Column, target: Flavour) -> bool:
    if codec.style in _NUMBERS_AND_TIMES:
        return ours.data_type == theirs.data_type or {ours.data_type, theirs.data_type} <= INTEGERS
    if codec.introducer:  # bytes that are no character would become NULL: there are none in these character sets
        return ours.charset not in (*MULTI_BYTE, "ascii") and codec.style is LiteralStyle.CHARSET
    return codec.style is not LiteralStyle.JSON or not CAPABILITIES[target].json_keeps_decimals
