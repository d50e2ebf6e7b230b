"""INSERT, REPLACE and UPSERT statements written by a kernel, equal to those that `row_statements.write_rows` makes.

Rows that the kernel does not support (JSON documents with decimals for some servers, an ENUM's index 0, columns that
the target generates, text to be converted to UTF-8) are written row by row in Python, and so are all rows if no kernel
is compiled. test_tuples compares both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from airflow_provider_dm.engine.binlog.images import Buffer, Cells
from airflow_provider_dm.engine.binlog.kernels import build
from airflow_provider_dm.engine.downstream.bound_rows import bound_rows
from airflow_provider_dm.engine.downstream.row_statements import (
    Dialect,
    Literals,
    SqlStatement,
    Verb,
    around,
    deletes_first,
    key_text,
    write_rows,
)
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.codec import LiteralStyle, Row, codec_for, row_literals

FEWEST_FOR_KERNEL: Final = 32
"""Fewer rows than this are written without a kernel."""


@dataclass(frozen=True)
class _Tuples:
    """Tuples one after the other, separated by one byte: tuple i ends at ends[i] in `text`."""

    text: Buffer
    ends: Any

    def pieces(self, most_rows: int, most_bytes: int) -> Iterator[tuple[bytes, int]]:
        """Yield (text, number of tuples) with as many tuples as the limits allow; a larger tuple is yielded alone."""
        first = start = 0
        while first < len(self.ends):
            fitting = int(np.searchsorted(self.ends, start + most_bytes, "right"))
            following = min(max(fitting, first + 1), first + most_rows)
            end = int(self.ends[following - 1])
            yield bytes(self.text[start:end]), following - first
            first, start = following, end + 1


def write_values(
    mapping: TableMapping, rows: Sequence[Row], verb: Verb, literals: Callable[[Row], Literals], *, dialect: Dialect
) -> Iterator[SqlStatement]:
    """Yield INSERT, REPLACE or UPSERT statements for rows in the column order of `mapping.source`.

    `literals`: the function from a row to its literals, for rows that the kernel does not support.
    """
    if len(rows) < FEWEST_FOR_KERNEL or _for_kernel(mapping, dialect.server.flavour) is None:
        return write_rows(mapping, map(literals, rows), verb, dialect=dialect)
    return write_tuple_cells(mapping, Cells.of(rows), np.arange(len(rows)), verb, dialect)


def write_tuple_cells(
    mapping: TableMapping, cells: Cells, numbers: Any, verb: Verb, dialect: Dialect
) -> Iterator[SqlStatement]:
    """Yield INSERT, REPLACE or UPSERT statements for the rows of `cells` with these row numbers (int64)."""
    plain = deletes_first(mapping, verb, dialect)
    if not plain:
        for statement in bound_rows(mapping, cells, numbers, verb, dialect):
            yield statement
            numbers = numbers[statement.rows :]
    tuples = None if plain else _tuples(cells, numbers, mapping, dialect.server.flavour)
    literals = row_literals(mapping.source, dialect.server.flavour)
    if tuples is None:
        yield from write_rows(mapping, map(literals, cells.some_rows(numbers)), verb, dialect=dialect)
        return
    head, tail = around(mapping, verb, dialect)
    done = 0
    for text, rows in tuples.pieces(dialect.most_rows, dialect.most_bytes - len(head) - len(tail)):
        key = key_text(mapping, literals(*cells.some_rows(numbers[done : done + 1]))) if rows == 1 else ""
        yield SqlStatement(head + text + tail, rows, mapping.target.name, verb, key=key)
        done += rows


def _tuples(cells: Cells, numbers: Any, mapping: TableMapping, target: Flavour) -> _Tuples | None:
    """Return these rows as `(…)`; None if the kernel does not support them."""
    described = _for_kernel(mapping, target)
    if described is None:
        return None
    from airflow_provider_dm.engine.binlog.kernels.literals import FULL, MOST_OF_A_NUMBER, OTHER, write_tuples

    columns, charsets = described
    text, status = np.frombuffer(cells.text, np.uint8), np.zeros(2, np.int64)
    text.setflags(write=False)
    ends, done = np.empty(len(numbers), np.int64), 0
    spare = (len(columns) + 1) * MOST_OF_A_NUMBER + len(charsets)
    out = np.empty(len(numbers) * (spare + len(text) // max(len(cells), 1)) + len(text) // 8, np.uint8)
    while True:
        done = int(
            write_tuples(
                *(text, cells.ends, cells.columns, numbers, done, columns, charsets, out, int(status[1]), ends, status)
            )
        )
        if status[0] == OTHER:
            return None
        if status[0] != FULL:
            return _Tuples(out[: int(status[1])].data, ends)
        larger = np.empty(2 * len(out) + 2 * len(text) // max(len(cells), 1) + spare, np.uint8)
        larger[: status[1]] = out[: status[1]]
        out = larger


def _for_kernel(mapping: TableMapping, target: Flavour) -> tuple[Any, Any] | None:
    build.warm_in_background()
    return _columns_for_kernel(mapping, target) if build.ready() else None


@lru_cache(maxsize=1024)
def _columns_for_kernel(mapping: TableMapping, target: Flavour) -> tuple[Any, Any] | None:
    """Return columns and charset introducers for `write_tuples`; None if the kernel does not support the table."""
    if mapping.computed:
        return None
    charsets, columns = b"", []
    for index in mapping.written:
        codec = codec_for(mapping.source.name, mapping.source.columns[index])
        style = codec.style
        if style is LiteralStyle.JSON:
            if CAPABILITIES[target].json_keeps_decimals:
                return None
            style = LiteralStyle.TEXT
        introduced = codec.introducer and not CAPABILITIES[target].text_is_utf8
        name = b"_" + codec.introducer + b" " if introduced else b""
        columns.append((index, int(style), len(charsets), len(name)))
        charsets += name
    return np.array(columns, np.int64).reshape(-1, 4), np.frombuffer(charsets + bytes(8), np.uint8)
