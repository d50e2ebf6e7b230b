"""Rows as SQL literals, a page at a time: the fast twin of `schema.codec.row_literals`.

A page is turned on its side. Then a column without NULL and without anything to escape, which nearly every column of
nearly every page is, costs one comprehension instead of a call for each cell. test_literal_columns holds the two to
each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.literals import NULL, quote_utf8
from airflow_provider_dm.engine.schema.codec import Codec, Row, Style, Value, codec_for
from airflow_provider_dm.engine.schema.model import Table
from airflow_provider_dm.engine.target.statements import Literals

ColumnWriter = Callable[[Sequence[Value]], Sequence[bytes]]


def page_literals(table: Table, target: Flavour) -> Callable[[Sequence[Row]], Sequence[Literals]]:
    """Return the function from rows of `table` to their literals for a target of this flavour, in column order."""
    writers = [_writer(codec_for(table.name, column), target) for column in table.columns]

    def literals(rows: Sequence[Row]) -> Sequence[Literals]:
        columns = zip(*rows, strict=True)
        return list(zip(*[write(column) for write, column in zip(writers, columns, strict=False)], strict=True))

    return literals


def _writer(codec: Codec, target: Flavour) -> ColumnWriter:
    match codec.style:
        case Style.PLAIN:
            return _plain
        case Style.QUOTED:
            return _quoted
        case Style.TEXT:
            return _text
    literal = codec.literal(target)
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
