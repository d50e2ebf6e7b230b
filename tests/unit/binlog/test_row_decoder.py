"""The compiled decoder equals the plain one, on good rows and on damaged ones."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.binlog.cells import Cell, enum_reader, set_reader
from airflow_provider_dm.engine.binlog.row_decoder import MalformedCells, compile_decoder, decode_rows
from airflow_provider_dm.engine.schema import numbers, temporal
from airflow_provider_dm.engine.schema.codec import Row

INTEGERS = [
    Cell(1, number="b", convert=lambda data: b"%d" % int.from_bytes(data, "little", signed=True)),
    Cell(4, number="I", convert=lambda data: b"%d" % int.from_bytes(data, "little")),
    Cell(8, number="q", convert=lambda data: b"%d" % int.from_bytes(data, "little", signed=True)),
]
OTHERS = [
    Cell(3, convert=lambda data: b"%d" % int.from_bytes(data, "little", signed=True)),
    Cell(8, convert=numbers.unpack_double),
    Cell(8, convert=temporal.datetime2_unpacker(6)),
    Cell(numbers.decimal_size(10, 2), convert=numbers.decimal_unpacker(10, 2)),
    Cell(1, convert=enum_reader((b"a", b"b"))),
    Cell(1, convert=set_reader((b"a", b"b", b"c"))),
    Cell(8),
    Cell(prefix=1),
    Cell(prefix=2),
    Cell(prefix=3),
    Cell(prefix=4),
    Cell(prefix=1, convert=lambda data: data.ljust(20, b"\0")),
]
CELLS = st.lists(st.sampled_from(INTEGERS + OTHERS), min_size=1, max_size=20)


@st.composite
def images(draw: st.DrawFn) -> tuple[list[Cell], bytes]:
    """Cells and a few row images for them; fixed cells hold anything, so some rows are damaged."""
    cells = draw(CELLS)
    data = b""
    for _ in range(draw(st.integers(0, 4))):
        nulls = draw(st.integers(0, (1 << len(cells)) - 1)) if draw(st.booleans()) else 0
        unused = ((1 << 8 * ((len(cells) + 7) // 8)) - 1) ^ ((1 << len(cells)) - 1)
        data += (nulls | unused).to_bytes((len(cells) + 7) // 8, "little")
        for index, cell in enumerate(cells):
            if nulls >> index & 1:
                continue
            if cell.prefix:
                value = draw(st.binary(max_size=20))
                data += len(value).to_bytes(cell.prefix, "little") + value
            else:
                data += draw(st.binary(min_size=cell.size, max_size=cell.size) | st.just(bytes(cell.size)))
    return cells, data


def outcome(decode: object, *arguments: object) -> list[Row] | None:
    try:
        return decode(*arguments)  # type: ignore[operator]
    except MalformedCells:
        return None


@given(images(), st.binary(max_size=30))
def test_compiled_equals_plain(made: tuple[list[Cell], bytes], around: bytes) -> None:
    cells, data = made
    event = around + data + around  # neighbours that must not be read
    limits = len(around), len(around) + len(data)
    assert outcome(compile_decoder(cells), event, *limits) == outcome(decode_rows, cells, event, *limits)


@given(images(), st.data())
def test_damage_is_an_error_or_the_same_rows_but_never_something_else(
    made: tuple[list[Cell], bytes], choose: st.DataObject
) -> None:
    cells, data = made
    if not data:
        return
    damaged = bytearray(data)
    for _ in range(choose.draw(st.integers(1, 3))):
        damaged[choose.draw(st.integers(0, len(data) - 1))] = choose.draw(st.integers(0, 255))
    end = choose.draw(st.integers(0, len(data)))
    event = bytes(damaged)
    assert outcome(compile_decoder(cells), event, 0, end) == outcome(decode_rows, cells, event, 0, end)


def test_a_row_that_ends_behind_its_event_is_refused() -> None:
    cells = [Cell(prefix=1)]
    event = b"\xfe\x05hello" + b"neighbour"
    assert compile_decoder(cells)(event, 0, 7) == [(b"hello",)]
    for decode in (compile_decoder(cells), lambda *arguments: decode_rows(cells, *arguments)):
        with pytest.raises(MalformedCells):
            decode(event, 0, 6)
        with pytest.raises(MalformedCells):
            decode(b"\xfe\xff" + b"x" * 10, 0, 12)


def test_a_length_of_four_gigabytes_is_refused_without_memory() -> None:
    cells = [Cell(prefix=4)]
    event = b"\xfe" + struct.pack("<I", 0xFFFFFFFF) + b"x"
    with pytest.raises(MalformedCells):
        compile_decoder(cells)(event, 0, len(event))
