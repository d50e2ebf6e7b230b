"""Rows as cells side by side: the kernel gives what the plain splitting gives, however the bytes arrive."""

import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.binlog.kernels import build
from airflow_provider_dm.engine.reading import blocks as reading
from airflow_provider_dm.engine.reading import text_rows
from airflow_provider_dm.engine.reading.blocks import blocks
from airflow_provider_dm.engine.schema.codec import Row, RowReader
from tests.unit.reading.test_text_rows import EOF, Wire, cell, packet, tables

LARGEST = 0xFFFFFF


@pytest.fixture(autouse=True)
def _without_head(monkeypatch: pytest.MonkeyPatch) -> None:
    build.warm()
    assert build.ready()
    for module in (reading, text_rows):
        monkeypatch.setattr(module, "begin_reading", lambda _wire, sql: int(sql))


def stream_of(rows: list[Row]) -> bytes:
    bodies = [b"".join(map(cell, row)) for row in rows]
    return b"".join(packet(body, LARGEST) for body in [*bodies, EOF])


def received(wire: Wire, width: int) -> list[Row]:
    return [row for block in blocks(wire, b"%d" % width, RowReader(())) for row in block.cells.rows()]  # type: ignore[arg-type]


@given(table=tables, sizes=st.lists(st.integers(1, 400)))
def test_rows_are_read_from_blocks_of_any_size(table: tuple[int, list[Row]], sizes: list[int]) -> None:
    width, expected = table
    wire = Wire(stream_of(expected), sizes)

    assert received(wire, width) == expected
    assert not wire.closed


@pytest.mark.parametrize("size", [250, 251, 65_535, 65_536, LARGEST - 4, LARGEST - 1, LARGEST, 2 * LARGEST, 40 << 20])
def test_cells_of_every_length(size: int) -> None:
    rows: list[Row] = [(b"before", None), (bytes(size), b""), (None, b"behind")]
    wire = Wire(stream_of(rows), [1 << 18] * 1000)

    assert received(wire, 2) == rows
    assert not wire.closed


@given(table=tables, sizes=st.lists(st.integers(1, 400)), data=st.data())
def test_columns_are_converted_as_single_rows_are(
    table: tuple[int, list[Row]], sizes: list[int], data: st.DataObject
) -> None:
    width, rows = table
    columns = data.draw(st.sets(st.integers(0, width - 1)))
    to_row = RowReader(tuple((column, lambda cell: b"<" + cell + b">") for column in columns))

    found = blocks(Wire(stream_of(rows), sizes), b"%d" % width, to_row)  # type: ignore[arg-type]

    assert [row for block in found for row in block.cells.rows()] == list(map(to_row, rows))


def test_an_error_in_the_middle_is_raised_and_closes_the_connection() -> None:
    error = b"\xff" + (1317).to_bytes(2, "little") + b"#70100Query execution was interrupted"
    wire = Wire(packet(cell(b"1"), LARGEST) + packet(error, LARGEST), [])

    with pytest.raises(pymysql.err.Error, match="interrupted"):
        received(wire, 1)
    assert wire.closed


@given(body=st.binary(min_size=1, max_size=40), width=st.integers(1, 4))
def test_a_damaged_row_gives_an_error_or_cells_inside_the_row(body: bytes, width: int) -> None:
    wire = Wire(packet(body, LARGEST) + packet(EOF, LARGEST), [])
    try:
        found = received(wire, width)
    except (pymysql.err.Error, IndexError, KeyError):
        return
    assert all(cell is None or cell in body for row in found for cell in row)


def test_stopping_early_or_losing_the_server_closes_the_connection() -> None:
    one = packet(cell(b"1"), LARGEST)
    early, lost = Wire(one + one + packet(EOF, LARGEST), [6]), Wire(one, [])

    with pytest.raises(pymysql.err.OperationalError, match="Lost connection"):
        received(lost, 1)
    some = blocks(early, b"1", RowReader(()))  # type: ignore[arg-type]
    assert len(next(some).cells) == 1
    some.close()

    assert lost.closed
    assert early.closed
