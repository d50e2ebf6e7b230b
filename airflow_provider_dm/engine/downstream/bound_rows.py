"""Many rows of one table as executions of one prepared statement, so that the target parses no literals.

The target needs a third less CPU than for an INSERT of literals (MySQL a quarter, TiDB a tenth), but a half more for
the execution that prepares the statement (docs/benchmarks.md). So only full statements of many rows are bound.

Each value is sent as the bytes of its canonical form: text in its column's own character set, which the target does not
convert, and numbers and times as text. A table whose columns need a conversion is written by literals: text into
another character set, a number into another type.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import numpy as np
from pymysql.constants import FIELD_TYPE

from airflow_provider_dm.engine.binlog.images import Cells
from airflow_provider_dm.engine.binlog.kernels import build
from airflow_provider_dm.engine.downstream.row_statements import Dialect, SqlStatement, Verb, around
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.guarded import Parameters
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.codec import INTEGERS, LiteralStyle, codec_for
from airflow_provider_dm.engine.schema.model import Column
from airflow_provider_dm.engine.schema.strings import UTF8_CHARSETS

ROWS: Final = (256, 16)
"""Rows of a statement, so that it is prepared once for each table: as many as its bytes and parameters allow."""
FEWEST: Final = 4
"""Statements for which it pays to prepare one."""
_MOST_PARAMETERS: Final = 1 << 14
"""Of a statement. The target keeps 600 to 900 bytes for each."""

_OF_THE_SAME_TYPE: Final = frozenset({LiteralStyle.PLAIN, LiteralStyle.FLOAT, LiteralStyle.QUOTED, LiteralStyle.BITS})
_UTF8: Final = frozenset({LiteralStyle.TEXT, LiteralStyle.ENUM, LiteralStyle.JSON})
_TEXT: Final = frozenset({LiteralStyle.PLAIN, LiteralStyle.FLOAT, LiteralStyle.QUOTED})
"""Styles that are sent as text: MariaDB takes bytes for a UUID's or an address's own. The others are sent as bytes,
whose character set is the column's."""


def bound_rows(
    mapping: TableMapping, cells: Cells, numbers: Any, verb: Verb, dialect: Dialect
) -> Iterator[SqlStatement]:
    """Yield bound INSERT, REPLACE or UPSERT statements for the first of the rows of `cells` with these numbers (int64);
    the others, possibly all, have to be written as literals."""
    described = _described(mapping, dialect.server.flavour)
    if described is None or not build.ready() or not len(numbers):
        return
    from airflow_provider_dm.engine.binlog.kernels.parameters import MOST_OF_A_LENGTH, write_parameters

    columns, types = described
    width, lengths = len(columns), MOST_OF_A_LENGTH * len(columns)
    last = cells.ends[cells.columns - 1 :: cells.columns]
    sizes = np.diff(last ^ (last >> 63), prepend=0)[numbers] + lengths  # an end is ~end if the last value is NULL
    most = min(dialect.most_rows, _MOST_PARAMETERS // width, dialect.most_bytes // int(sizes.mean()))
    rows = next((rows for rows in ROWS if rows <= most), 0)
    if not rows or len(numbers) < FEWEST * rows:
        return
    head, tail = around(mapping, verb, dialect)
    sql = head + b",".join([b"(" + b",".join([b"?"] * width) + b")"] * rows) + tail
    unconverted = dialect.server.converts_parameters and sql.isascii()
    text = np.frombuffer(cells.text, np.uint8)
    text.setflags(write=False)
    frame = struct.pack("<BI", 0, 1)  # no cursor, one execution
    nulls_end = len(frame) + (rows * width + 7) // 8
    frame = frame.ljust(nulls_end, b"\0") + b"\1" + types * rows
    for first in range(0, len(numbers) - rows + 1, rows):
        size = int(sizes[first : first + rows].sum())
        if len(frame) + size > dialect.most_bytes:
            return
        out = np.empty(len(frame) + size, np.uint8)
        out[: len(frame)] = np.frombuffer(frame, np.uint8)
        nulls, values = out[struct.calcsize("<BI") : nulls_end], out[len(frame) :]
        some = numbers[first : first + rows]
        written = int(write_parameters(text, cells.ends, cells.columns, some, columns, nulls, values))
        if written < 0:
            return
        parameters = Parameters(out[: len(frame) + written].data, unconverted)
        yield SqlStatement(sql, rows, mapping.target.name, verb, parameters=parameters)


@lru_cache(maxsize=1024)
def _described(mapping: TableMapping, target: Flavour) -> tuple[Any, bytes] | None:
    """Return the columns for `write_parameters`, and the types of their parameters; None if the table is not bound."""
    if mapping.computed:
        return None
    columns, types = [], b""
    for index in mapping.written:
        ours, theirs = mapping.source.columns[index], mapping.target_columns[index]
        style = codec_for(mapping.source.name, ours).style
        if not _is_bound(style, ours, theirs, target):
            return None
        columns.append((index, int(style is LiteralStyle.ENUM)))
        types += bytes([FIELD_TYPE.VAR_STRING if style in _TEXT else FIELD_TYPE.BLOB, 0])
    return np.array(columns, np.int64).reshape(-1, 2), types


def _is_bound(style: LiteralStyle, ours: Column, theirs: Column, target: Flavour) -> bool:
    if style in _OF_THE_SAME_TYPE:
        return ours.data_type == theirs.data_type or {ours.data_type, theirs.data_type} <= INTEGERS
    if style in _UTF8:
        converted = style is LiteralStyle.JSON and CAPABILITIES[target].json_keeps_decimals
        return theirs.charset in UTF8_CHARSETS and not converted
    return style is LiteralStyle.HEX or (ours.charset == theirs.charset and not CAPABILITIES[target].text_is_utf8)
