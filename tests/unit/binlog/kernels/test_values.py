"""A kernel and the plain decoder give the same value for a cell, or both refuse the cell."""

import struct
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_provider_dm.engine.binlog.cells import Cell, CellKind
from airflow_provider_dm.engine.binlog.errors import MalformedImage
from airflow_provider_dm.engine.binlog.images import Cells, canonical_cells, rows_of
from airflow_provider_dm.engine.binlog.layout import PLAIN_ONLY, Layout
from airflow_provider_dm.engine.schema import numbers
from airflow_provider_dm.engine.schema.codec import Row
from tests.unit.binlog.building import ORDERS


def described(cell: Cell) -> str:
    return f"{cell.kind.name}-{cell.size or cell.prefix}-{cell.precision}-{cell.scale}"


def _decimals() -> list[Cell]:
    sizes = [(1, 0), (1, 1), (5, 0), (9, 9), (10, 2), (18, 9), (19, 10), (30, 30), (38, 38), (65, 0), (65, 30)]
    return [Cell(CellKind.DECIMAL, numbers.decimal_size(p, s), precision=p, scale=s) for p, s in sizes]


_MEMBERS = (b"a", b"it's", b"back\\slash", b"", "é".encode())
_FRACTION = (0, 1, 1, 2, 2, 3, 3)
WAYS = [
    *(Cell(kind, size) for kind in (CellKind.SIGNED, CellKind.UNSIGNED) for size in (1, 2, 3, 4, 8)),
    Cell(CellKind.FLOAT, 4),
    Cell(CellKind.DOUBLE, 8),
    *_decimals(),
    *(Cell(CellKind.BITS, size) for size in range(1, 9)),
    Cell(CellKind.YEAR, 1),
    Cell(CellKind.DATE, 3),
    *(
        Cell(kind, size + _FRACTION[fsp], precision=fsp)
        for kind, size in ((CellKind.TIME2, 3), (CellKind.DATETIME2, 5), (CellKind.TIMESTAMP2, 4))
        for fsp in range(7)
    ),
    Cell(CellKind.OLD_TIME, 3),
    Cell(CellKind.OLD_DATETIME, 8),
    Cell(CellKind.OLD_TIMESTAMP, 4),
    *(Cell(CellKind.BYTES, prefix=prefix) for prefix in (1, 2, 3, 4)),
    Cell(CellKind.PADDED, prefix=1, precision=20),
    Cell(CellKind.PADDED, prefix=2, precision=300),
    *(Cell(CellKind.ENUM, size, members=_MEMBERS) for size in (1, 2)),
    *(Cell(CellKind.SET, size, members=_MEMBERS) for size in (1, 2, 3, 4, 8)),
    Cell(CellKind.SET, 8, members=tuple(b"m%d" % number for number in range(64))),
]
Places = list[tuple[int, int]]
_ESCAPES = st.binary(max_size=40) | st.text("a'\\é€😀", max_size=40).map(str.encode)


def layout_of(ways: list[Cell]) -> Layout:
    return Layout(ORDERS, tuple(ways))


@st.composite
def stored(draw: st.DrawFn, cell: Cell) -> bytes:
    """A cell's bytes: anything of its length, which for half of the kinds is nothing that a server writes."""
    if cell.prefix:
        value = draw(_ESCAPES)
        return len(value).to_bytes(cell.prefix, "little") + value
    if cell.kind in (CellKind.ENUM, CellKind.SET) and draw(st.booleans()):
        return draw(st.integers(0, 2 ** len(cell.members))).to_bytes(9, "little")[: cell.size]
    return draw(st.binary(min_size=cell.size, max_size=cell.size) | st.just(bytes(cell.size)))


@st.composite
def images(draw: st.DrawFn, ways: st.SearchStrategy[list[Cell]]) -> tuple[Layout, bytes, Places]:
    """A layout, and a few images of it between other bytes."""
    chosen = draw(ways)
    around = draw(st.binary(max_size=9))
    data, places = around, []
    bitmap = (len(chosen) + 7) // 8
    for _ in range(draw(st.integers(0, 3))):
        nulls = draw(st.integers(0, (1 << len(chosen)) - 1)) if draw(st.booleans()) else 0
        unused = ((1 << 8 * bitmap) - 1) ^ ((1 << len(chosen)) - 1)
        image = (nulls | unused).to_bytes(bitmap, "little")
        for index, one in enumerate(chosen):
            if not nulls >> index & 1:
                image += draw(stored(one))
        places.append((len(data), len(data) + len(image)))
        data += image
    return layout_of(chosen), data + around, places


def array(places: Places) -> np.ndarray:
    return np.array(places, np.int64).reshape(len(places), 2)


def outcome(make: Callable[[], object]) -> object:
    try:
        return make()
    except MalformedImage as error:
        return "malformed", error.index


def cells(layout: Layout, data: bytes, places: Places, picked: list[int], *, compiled: bool) -> list[Row]:
    return canonical_cells(layout, data, array(places), picked, compiled=compiled).rows()


def assert_one_truth(layout: Layout, data: bytes, places: Places) -> None:
    """Rows and cells by kernels are those by Python."""
    everything = list(layout.everything)
    for picked in (everything, everything[::-1][:3]):
        plain = outcome(partial(cells, layout, data, places, picked, compiled=False))
        assert outcome(partial(cells, layout, data, places, picked, compiled=True)) == plain
    plain = outcome(partial(rows_of, layout, data, array(places), compiled=False))
    assert outcome(partial(rows_of, layout, data, array(places), compiled=True)) == plain


@pytest.mark.parametrize("one", WAYS, ids=described)
@given(st.data())
@settings(max_examples=60)
def test_the_kernel_equals_the_reference_for_each_kind(one: Cell, choose: st.DataObject) -> None:
    assert_one_truth(*choose.draw(images(st.just([one]))))


@given(images(st.lists(st.sampled_from(WAYS), min_size=1, max_size=20)))
@settings(max_examples=150)
def test_the_kernel_equals_the_reference_for_kinds_together(made: tuple[Layout, bytes, Places]) -> None:
    assert_one_truth(*made)


@given(images(st.lists(st.sampled_from(WAYS), min_size=1, max_size=6)), st.data())
@settings(max_examples=150)
def test_damaged_images_are_refused_by_both_readers_or_read_equally(
    made: tuple[Layout, bytes, Places], choose: st.DataObject
) -> None:
    layout, data, places = made
    if not places:
        return
    damaged = bytearray(data)
    for _ in range(choose.draw(st.integers(1, 3))):
        damaged[choose.draw(st.integers(0, len(data) - 1))] = choose.draw(st.integers(0, 255))
    start, end = places[-1]
    places[-1] = start, choose.draw(st.integers(start, end))
    assert_one_truth(layout, bytes(damaged), places)


@given(st.floats(allow_nan=True) | st.floats(width=32) | st.integers(-(2**70), 2**70).map(float))
@example(5e-324)
@example(2.2250738585072014e-308)
@example(1.7976931348623157e308)
@example(9007199254740993.0)
@example(1e22)
@example(1e23)
@example(-0.0)
@settings(max_examples=2000)
def test_a_double_is_written_as_python_writes_it(value: float) -> None:
    layout = layout_of([Cell(CellKind.DOUBLE, 8)])
    data = b"\xfe" + struct.pack("<d", value)
    assert_one_truth(layout, data, [(0, len(data))])


def test_powers_of_two_and_their_neighbours() -> None:
    exponents = [*range(-1074, 1024, 7), -1022, 52, 53, 1023]
    bits = [struct.unpack("<Q", struct.pack("<d", 2.0**exponent))[0] for exponent in exponents]
    data = b"".join(b"\xfe" + struct.pack("<Q", one + near) for one in bits for near in (-1, 0, 1))
    assert_one_truth(layout_of([Cell(CellKind.DOUBLE, 8)]), data, list(pairwise(range(0, len(data) + 1, 9))))


def test_every_day_of_a_timestamp_and_the_end_of_its_time() -> None:
    layout = layout_of([Cell(CellKind.TIMESTAMP2, 4)])
    seconds = [*range(0, 2**32, 86400 * 3 + 1), 2**31 - 1, 2**31, 2**32 - 1]
    data = b"".join(b"\xfe" + one.to_bytes(4, "big") for one in seconds)
    assert_one_truth(layout, data, list(pairwise(range(0, len(data) + 1, 5))))


def test_columns_that_only_python_decodes_among_others() -> None:
    ways = [Cell(CellKind.SIGNED, 1), Cell(CellKind.INET4, prefix=1)]
    layout = layout_of([ways[1], *ways, *ways])
    image = b"\xe4" + b"\x04\x7f\0\0\1" + b"\x05" + b"\x07" + b"\x01\x0a"
    assert_one_truth(layout, image, [(0, len(image))])
    assert rows_of(layout, image, array([(0, len(image))]), compiled=True) == [
        (b"127.0.0.1", b"5", None, b"7", b"10.0.0.0")
    ]


def test_a_buffer_that_is_too_small_grows() -> None:
    layout = layout_of([Cell(CellKind.SET, 8, members=(b"'" * 200,) * 64)] * 20)
    image = b"\0" * 3 + b"\xff" * 160
    assert_one_truth(layout, image * 300, list(pairwise(range(0, 300 * 163 + 1, 163))))


def test_kinds_that_only_python_writes_are_named() -> None:
    kinds = {one.kind for one in WAYS}
    assert kinds | PLAIN_ONLY == set(CellKind)
    assert not kinds & PLAIN_ONLY


def test_a_column_of_integers_is_read_as_numbers() -> None:
    cells = Cells.of([(b"x", b"-7"), (None, None), (b"", b"18446744073709551615"), (b"y", b"0")])

    assert cells.integers(1).view(np.uint64).tolist() == [2**64 - 7, 0, 2**64 - 1, 0]
