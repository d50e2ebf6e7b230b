"""Splitting the text protocol, plainly and by the kernel, against a server that is only bytes: both give the same."""

import io
from collections.abc import Callable

import numpy as np
import pymysql
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_dm.engine.binlog.kernels import build
from airflow_provider_dm.engine.binlog.kernels.results import room_for, take_rows
from airflow_provider_dm.engine.reading import blocks as reading
from airflow_provider_dm.engine.reading import text_rows
from airflow_provider_dm.engine.reading.blocks import blocks
from airflow_provider_dm.engine.reading.text_rows import rows, split_row
from airflow_provider_dm.engine.schema.codec import Row, RowReader
from airflow_provider_dm.engine.schema.numbers import float_from_text

EOF = b"\xfe\x00\x00\x02\x00"
LARGEST = 0xFFFFFF


def cell(value: bytes | None) -> bytes:
    if value is None:
        return b"\xfb"
    for prefix, size in ((b"", 1), (b"\xfc", 2), (b"\xfd", 3), (b"\xfe", 8)):
        if len(value) < (251 if size == 1 else 1 << 8 * size):
            return prefix + len(value).to_bytes(size, "little") + value
    raise AssertionError


def packet(body: bytes, largest: int = LARGEST) -> bytes:
    pieces = [body[at : at + largest] for at in range(0, len(body), largest)] or [b""]
    if len(pieces[-1]) == largest:
        pieces.append(b"")
    return b"".join(len(piece).to_bytes(3, "little") + b"\x00" + piece for piece in pieces)


class Trickle(io.RawIOBase):
    """A socket that returns its bytes in pieces of the given sizes."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self.data, self.sizes = data, sizes

    def read1(self, most: int) -> bytes:
        size = min(self.sizes.pop(0) if self.sizes else len(self.data), most)
        piece, self.data = self.data[:size], self.data[size:]
        return piece


class Wire:
    """Part of a PyMySQL connection that `rows` and `blocks` use."""

    def __init__(self, stream: bytes, sizes: list[int]) -> None:
        self._rfile = Trickle(stream, sizes)
        self.closed = False

    def _force_close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def _without_head(monkeypatch: pytest.MonkeyPatch) -> None:
    build.warm()
    assert build.ready()
    for module in (reading, text_rows):
        monkeypatch.setattr(module, "begin_reading", lambda _wire, sql: int(sql))


tables = st.integers(1, 5).flatmap(
    lambda width: st.tuples(
        st.just(width), st.lists(st.tuples(*[st.none() | st.binary(max_size=300)] * width), max_size=20)
    )
)


def stream_of(rows: list[Row], largest: int = LARGEST) -> bytes:
    bodies = [b"".join(map(cell, row)) for row in rows]
    return b"".join(packet(body, largest) for body in [*bodies, EOF])


def split_plainly(wire: Wire, width: int) -> list[Row]:
    return [row for batch in rows(wire, b"%d" % width) for row in batch.rows]  # type: ignore[arg-type]


def split_by_kernel(wire: Wire, width: int) -> list[Row]:
    return [row for block in blocks(wire, b"%d" % width, RowReader(())) for row in block.cells.rows()]  # type: ignore[arg-type]


Split = Callable[[Wire, int], list[Row]]
BOTH = pytest.mark.parametrize("split", [split_plainly, split_by_kernel])


@given(table=tables, sizes=st.lists(st.integers(1, 400)), largest=st.sampled_from([LARGEST, 7]))
def test_rows_are_read_plainly_from_pieces_of_any_size(
    table: tuple[int, list[Row]], sizes: list[int], largest: int
) -> None:
    width, expected = table
    wire = Wire(stream_of(expected, largest), sizes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_rows, "LARGEST_PACKET", largest)
        assert split_plainly(wire, width) == expected
    assert not wire.closed


@given(table=tables, sizes=st.lists(st.integers(1, 400)))
def test_rows_are_read_by_the_kernel_from_pieces_of_any_size(table: tuple[int, list[Row]], sizes: list[int]) -> None:
    width, expected = table
    wire = Wire(stream_of(expected), sizes)

    assert split_by_kernel(wire, width) == expected
    assert not wire.closed


@pytest.mark.parametrize("size", [250, 251, 65_535, 65_536, LARGEST - 4, LARGEST - 1, LARGEST, 2 * LARGEST, 40 << 20])
def test_cells_of_every_length(size: int) -> None:
    rows: list[Row] = [(b"before", None), (bytes(size), b""), (None, b"behind")]
    wire = Wire(stream_of(rows), [1 << 18] * 1000)

    assert split_by_kernel(wire, 2) == rows
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


def text_of(value: float, form: str) -> bytes:
    return (f"{value:{form}}" if form else repr(value)).replace("e+", "e").encode()


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SHORT = st.builds(lambda digits, power: float(f"{digits}e{power}"), st.integers(-(10**6), 10**6), st.integers(-30, 30))
SINGLE = st.floats(width=32, allow_nan=False, allow_infinity=False)
FORMS = st.sampled_from(["", ".17g", ".15g", ".6g", ".2f", "020.4f"])
OTHERS = ["0", "-0", "0.00", "5e-324", "1e22", "1.7976931348623157e308", "9007199254740993", "100000000000000000000"]
TEXTS = st.builds(text_of, st.floats(-1e300, 1e300) | SHORT | SINGLE, FORMS) | st.sampled_from(OTHERS).map(str.encode)


@settings(max_examples=300)
@given(values=st.lists(TEXTS | st.none(), min_size=1, max_size=20))
def test_floats_become_canonical_as_single_ones_do(values: list[bytes | None]) -> None:
    rows = [(value, b"beside", value) for value in values]
    to_row = RowReader(((0, float_from_text), (2, float_from_text)))

    found = blocks(Wire(stream_of(rows), [1 << 18]), b"3", to_row)  # type: ignore[arg-type]

    assert [row for block in found for row in block.cells.rows()] == list(map(to_row, rows))


@given(value=FLOATS)
def test_the_kernel_converts_the_shortest_text_of_a_double(value: float) -> None:
    """It leaves none but those close to the largest and the smallest doubles."""
    data, out, ends = stream_of([(text_of(value, ""),)]), np.empty(100, np.uint8), np.empty(100, np.int64)

    _, size, _, left = take_rows(np.frombuffer(data, np.uint8), 1, np.ones(1, np.uint8), out, ends)

    assert left == 0 or not 1e-270 < abs(value) < 1e280
    assert left == 1 or out[:size].tobytes() == repr(value).encode()


def test_short_numbers_of_an_incomplete_row_have_room() -> None:
    width = 400
    data, floats = packet(cell(b"1e15") * (width // 5 - 1)), np.ones(width, np.uint8)
    room, behind = room_for(len(data), floats), 1 << 14
    out = np.zeros(room + behind, np.uint8)

    at, *_ = take_rows(np.frombuffer(data, np.uint8), width, floats, out, np.empty(len(data), np.int64))

    assert at == 0
    assert not out[room:].any()


def test_cells_with_the_longest_length_prefixes() -> None:
    big = bytes(70_000)

    assert split_row(cell(big) + cell(None) + cell(b"x" * 300), 3) == (big, None, b"x" * 300)


@BOTH
def test_an_error_in_the_middle_is_raised_and_closes_the_connection(split: Split) -> None:
    error = b"\xff" + (1317).to_bytes(2, "little") + b"#70100Query execution was interrupted"
    wire = Wire(packet(cell(b"1")) + packet(error), [6])

    with pytest.raises(pymysql.err.Error, match="interrupted"):
        split(wire, 1)
    assert wire.closed


@BOTH
def test_losing_the_server_closes_the_connection(split: Split) -> None:
    lost = Wire(packet(cell(b"1")), [])

    with pytest.raises(pymysql.err.OperationalError, match="Lost connection"):
        split(lost, 1)
    assert lost.closed


@given(body=st.binary(min_size=1, max_size=40), width=st.integers(1, 4))
def test_a_damaged_row_gives_an_error_or_cells_inside_the_row(body: bytes, width: int) -> None:
    wire = Wire(packet(body) + packet(EOF), [])
    try:
        found = split_by_kernel(wire, width)
    except (pymysql.err.Error, IndexError, KeyError):
        return
    assert all(cell is None or cell in body for row in found for cell in row)


def test_stopping_early_closes_the_connection() -> None:
    one = packet(cell(b"1"))
    plain, compiled = (Wire(one + one + packet(EOF), [6]) for _ in range(2))

    batches, some = rows(plain, b"1"), blocks(compiled, b"1", RowReader(()))  # type: ignore[arg-type]
    assert next(batches).rows == [(b"1",)]
    assert len(next(some).cells) == 1
    batches.close()
    some.close()

    assert plain.closed
    assert compiled.closed
