"""Rows of a SELECT as cells side by side, taken from the packets by a kernel: no object for each row or cell.

Numbers whose text is not canonical are then converted in Python: ZEROFILL, and a FLOAT or DOUBLE that the kernel left.
Until the kernels are compiled, all rows are read by `text_rows.rows`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np

from airflow_provider_dm.engine.binlog.images import Cells
from airflow_provider_dm.engine.binlog.kernels import build
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.reading.text_rows import (
    ReceivedBytes,
    begin_reading,
    is_eof,
    rows,
    split_packets,
    split_row,
)
from airflow_provider_dm.engine.schema.codec import RowReader, Transform
from airflow_provider_dm.engine.schema.numbers import float_from_text


class RowBlock(NamedTuple):
    """The cells of rows that arrived together, at least one, and their size in bytes."""

    cells: Cells
    bytes: int


def blocks(connection: Connection, sql: bytes, to_row: RowReader) -> Generator[RowBlock, None, None]:
    """Yield the rows of one SELECT in blocks, as they arrive.

    Raises pymysql's errors. Closes the connection if it is not exhausted.
    """
    build.warm_in_background()
    if not build.ready():
        with closing(rows(connection, sql)) as batches:
            for batch in batches:
                yield RowBlock(Cells.of(list(map(to_row, batch.rows))), batch.bytes)
        return
    finished = False
    try:
        yield from _read_blocks(connection, begin_reading(connection, sql), to_row)
        finished = True
    finally:
        if not finished:
            connection._force_close()  # type: ignore[attr-defined]


def _canonical(cells: Cells, converted: Sequence[tuple[int, Transform]]) -> Cells:
    for number, convert in converted:
        cells = cells.with_column(number, [cell if cell is None else convert(cell) for cell in cells.column(number)])
    return cells


def _read_blocks(connection: Any, width: int, to_row: RowReader) -> Iterator[RowBlock]:
    """Yield the rows of a result. Rows that the kernel does not take are split here."""
    from airflow_provider_dm.engine.binlog.kernels.results import room_for, take_rows

    floats = np.zeros(width, np.uint8)
    floats[[number for number, convert in to_row.converted if convert is float_from_text]] = 1
    others = [(number, convert) for number, convert in to_row.converted if convert is not float_from_text]
    arriving, parts = ReceivedBytes(connection._rfile), list[bytes]()
    while True:
        data, at = arriving.more(), 0
        if not parts:
            out, ends = np.empty(room_for(len(data), floats), np.uint8), np.empty(len(data), np.int64)
            at, size, count, left = take_rows(np.frombuffer(data, np.uint8), width, floats, out, ends)
            if count:
                cells = Cells(out[:size].data, ends[:count], width)
                yield RowBlock(_canonical(cells, to_row.converted if left else others), at)
        bodies, more = split_packets(data[at:], parts)
        arriving.keep(data, at + more)
        if bodies:
            ended = is_eof(bodies[-1])
            rows = [split_row(body, width) for body in (bodies[:-1] if ended else bodies)]
            if rows:
                yield RowBlock(Cells.of(list(map(to_row, rows))), more)
            if ended:
                return
