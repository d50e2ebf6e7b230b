"""Splitting the text protocol: against a server that is only bytes."""

import io

import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.reading import text_rows
from airflow_provider_dm.engine.reading.text_rows import TextCells, rows, split_row

EOF = b"\xfe\x00\x00\x02\x00"


def cell(value: bytes | None) -> bytes:
    if value is None:
        return b"\xfb"
    for prefix, size in ((b"", 1), (b"\xfc", 2), (b"\xfd", 3), (b"\xfe", 8)):
        if len(value) < (251 if size == 1 else 1 << 8 * size):
            return prefix + len(value).to_bytes(size, "little") + value
    raise AssertionError


def packet(body: bytes, largest: int) -> bytes:
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
    """Part of a PyMySQL connection that `rows` uses."""

    def __init__(self, stream: bytes, sizes: list[int]) -> None:
        self._rfile = Trickle(stream, sizes)
        self.closed = False

    def _force_close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def _without_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_rows, "begin_reading", lambda _wire, sql: int(sql))


tables = st.integers(1, 5).flatmap(
    lambda width: st.tuples(
        st.just(width), st.lists(st.tuples(*[st.none() | st.binary(max_size=300)] * width), max_size=20)
    )
)


@given(table=tables, sizes=st.lists(st.integers(1, 400)), largest=st.sampled_from([0xFFFFFF, 7]))
def test_rows_are_read_from_blocks_of_any_size(
    table: tuple[int, list[TextCells]], sizes: list[int], largest: int
) -> None:
    width, expected = table
    bodies = [b"".join(map(cell, row)) for row in expected]
    stream = b"".join(packet(body, largest) for body in [*bodies, EOF])
    wire = Wire(stream, sizes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_rows, "LARGEST_PACKET", largest)
        found = [row for batch in rows(wire, b"%d" % width) for row in batch.rows]  # type: ignore[arg-type]

    assert found == expected
    assert not wire.closed


def test_cells_with_the_longest_length_prefixes() -> None:
    big = bytes(70_000)

    assert split_row(cell(big) + cell(None) + cell(b"x" * 300), 3) == (big, None, b"x" * 300)


def test_an_error_in_the_middle_is_raised_and_closes_the_connection() -> None:
    error = b"\xff" + (1317).to_bytes(2, "little") + b"#70100Query execution was interrupted"
    wire = Wire(packet(cell(b"1"), 0xFFFFFF) + packet(error, 0xFFFFFF), [6])

    with pytest.raises(pymysql.err.Error, match="interrupted"):
        list(rows(wire, b"1"))  # type: ignore[arg-type]
    assert wire.closed


def test_stopping_early_or_losing_the_server_closes_the_connection() -> None:
    stream = packet(cell(b"1"), 0xFFFFFF)
    early, lost = Wire(stream + stream + packet(EOF, 0xFFFFFF), [6]), Wire(stream, [])

    with pytest.raises(pymysql.err.OperationalError, match="Lost connection"):
        list(rows(lost, b"1"))  # type: ignore[arg-type]
    batches = rows(early, b"1")  # type: ignore[arg-type]
    assert next(batches).rows == [(b"1",)]
    batches.close()

    assert lost.closed
    assert early.closed
