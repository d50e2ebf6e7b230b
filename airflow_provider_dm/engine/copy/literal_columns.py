"""Rows as SQL literals, a page at a time: the fast twin of `schema.codec.row_literals`.

A page is turned on its side. Then a column without NULL and without anything to escape, which nearly every column of
nearly every page is, costs one comprehension instead of a call for each cell. test_literal_columns holds the two to
each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from airflow_provider_dm.engine.mysql.literals import NULL, quote_utf8
from airflow_provider_dm.engine.schema.codec import Codec, Row, Value, codec_for
from airflow_provider_dm.engine.schema.model import Column, Table
from airflow_provider_dm.engine.schema.temporal import quoted
from airflow_provider_dm.engine.target.statements import Literals

ColumnWriter = Callable[[Sequence[Value]], Sequence[bytes]]

_PLAIN = frozenset({"tinyint", "smallint", "mediumint", "int", "integer", "bigint", "decimal"})


def page_literals(table: Table) -> Callable[[Sequence[Row]], Sequence[Literals]]:
    """The function from rows of `table` to their literals, in column order."""
    writers = [_writer(column, codec_for(table.name, column)) for column in table.columns]

    def literals(rows: Sequence[Row]) -> Sequence[Literals]:
        columns = zip(*rows, strict=True)
        return list(zip(*[write(column) for write, column in zip(writers, columns, strict=False)], strict=True))

    return literals


def _writer(column: Column, codec: Codec) -> ColumnWriter:
    if column.data_type in _PLAIN:
        return _plain
    literal = codec.literal
    if literal is quoted:
        return _quoted
    if literal is quote_utf8:
        return _text
    return lambda values: _cells(values, literal)


def _plain(values: Sequence[Value]) -> Sequence[bytes]:
    return [NULL if value is None else value for value in values]


def _text(values: Sequence[Value]) -> Sequence[bytes]:
    try:
        everything = b"".join(values)  # type: ignore[arg-type]  # None is what the except is for
    except TypeError:
        return _cells(values, quote_utf8)
    if b"'" in everything or b"\\" in everything:
        return _cells(values, quote_utf8)
    return [b"'" + value + b"'" for value in values if value is not None]


def _quoted(values: Sequence[Value]) -> Sequence[bytes]:
    return [NULL if value is None else b"'" + value + b"'" for value in values]


def _cells(values: Sequence[Value], literal: Callable[[bytes], bytes]) -> list[bytes]:
    return [NULL if value is None else literal(value) for value in values]
