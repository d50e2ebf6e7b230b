"""Conversion of row images to values: canonical rows, or cells as columns. Kernels are used when they are compiled.

Both ways give the same result: the plain decoder and the codecs decode the columns that the kernels do not support, and
all columns until the kernels are compiled. `images` is int64[rows, 2]: start and end of each image in `data`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, Final

import numpy as np

from airflow_provider_dm.engine.binlog.errors import MalformedImage
from airflow_provider_dm.engine.binlog.layout import Layout
from airflow_provider_dm.engine.binlog.row_decoder import Decoder, decoder_of
from airflow_provider_dm.engine.schema.codec import Row, Value
from airflow_provider_dm.engine.schema.errors import MalformedValue

Buffer = bytes | memoryview

_LARGE_BUFFER_BYTES: Final = 4 << 20  # size of a buffer from which on the images may be a small part of it
_LONG_TEXT_ROWS: Final = 64  # number of rows with longer text than usual for which there is space at first


@dataclass(frozen=True)
class Cells:
    """Consecutive cells: cell i ends at ends[i] in `text`, or at ~ends[i] if it is NULL, which takes no space."""

    text: Buffer
    ends: Any
    columns: int

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Cells:
        """Return the cells of at least one row."""
        import pyarrow as pa

        return cls._of_array(pa.array(list(chain.from_iterable(rows)), pa.large_binary()), len(rows[0]))

    @classmethod
    def _of_array(cls, array: Any, columns: int) -> Cells:
        present, offsets, text = array.buffers()
        ends = np.frombuffer(offsets, np.int64)[1 : len(array) + 1].copy()
        if array.null_count:
            null = np.unpackbits(np.frombuffer(present, np.uint8), count=len(array), bitorder="little") == 0
            ends[null] = ~ends[null]
        return cls(memoryview(text or b""), ends, columns)

    @classmethod
    def none(cls, columns: int) -> Cells:
        return cls(b"", np.empty(0, np.int64), columns)

    @classmethod
    def joined(cls, pieces: Sequence[Cells]) -> Cells:
        """Return the cells of all pieces in order; they must have the same columns."""
        if len(pieces) == 1:
            return pieces[0]
        ends, base = [], 0
        for piece in pieces:
            ends.append(np.where(piece.ends < 0, piece.ends - base, piece.ends + base))
            base += len(piece.text)
        return cls(b"".join(piece.text for piece in pieces), np.concatenate(ends), pieces[0].columns)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.ends) // self.columns

    def rows(self) -> list[Row]:
        """Return the cells of each image as a tuple. Uses Arrow, the fastest conversion to Python's bytes."""
        values: Iterator[Value] = iter(self._array().to_pylist())
        return list(zip(*[values] * self.columns, strict=True))

    def _array(self) -> Any:
        import pyarrow as pa

        offsets = np.zeros(len(self.ends) + 1, np.int64)
        np.bitwise_xor(self.ends, self.ends >> 63, out=offsets[1:])  # ~end where it is negative
        present = pa.py_buffer(np.packbits(self.ends >= 0, bitorder="little"))
        buffers = [present, pa.py_buffer(offsets), pa.py_buffer(self.text)]
        return pa.Array.from_buffers(pa.large_binary(), len(self.ends), buffers)

    def some_rows(self, numbers: Any) -> list[Row]:
        """Return the cells of the images with these numbers."""
        values = iter(self._values((numbers[:, None] * self.columns + np.arange(self.columns)).ravel()))
        return list(zip(*[values] * self.columns, strict=True))

    def column(self, number: int) -> list[Value]:
        """Return one cell of each image."""
        return self._values(np.arange(number, len(self.ends), self.columns))

    def integers(self, number: int) -> Any:
        """Return a column of integers as int64: those above 2**63 in two's complement, NULL as 0. Needs the kernels."""
        from airflow_provider_dm.engine.binlog.kernels.digits import read_column

        text = np.frombuffer(self.text, np.uint8)
        text.setflags(write=False)
        return read_column(text, self.ends, self.columns, number)

    def with_column(self, number: int, values: Sequence[Value]) -> Cells:
        """Return the cells with other values in one column."""
        import pyarrow as pa
        import pyarrow.compute

        there = np.zeros(len(self.ends), np.bool_)
        there[number :: self.columns] = True
        replaced = pa.compute.replace_with_mask(self._array(), there, pa.array(values, pa.large_binary()))
        return self._of_array(replaced, self.columns)

    def _values(self, cells: Any) -> list[Value]:
        # Not by Arrow, which would need half a second of imports for these few cells.
        ends, text = self.ends[cells], bytes(self.text)
        starts = np.where(cells == 0, 0, self.ends[cells - 1])
        places = zip((starts ^ (starts >> 63)).tolist(), ends.tolist(), strict=True)
        return [None if end < 0 else text[start:end] for start, end in places]


def rows_of(layout: Layout, data: bytes, images: Any, *, compiled: bool) -> list[Row]:
    """Return canonical values. `compiled`: use the kernels for columns that they support. Raises MalformedImage."""
    everything = layout.everything
    if not compiled:
        return list(_plain_rows(layout, data, images, everything))
    plain = layout.for_kernels.plain_only.intersection(everything)
    fast = [index for index in everything if index not in plain]
    rows: list[Row] = [()] * len(images)
    if fast:
        rows = _kernel_cells(layout, data, images, fast).rows()
    return _with_columns(rows, sorted(plain), _plain_rows(layout, data, images, sorted(plain))) if plain else rows


def canonical_cells(layout: Layout, data: bytes, images: Any, picked: Sequence[int], *, compiled: bool) -> Cells:
    """Return canonical values of the columns `picked`, in that order. Raises MalformedImage."""
    if compiled and layout.for_kernels.plain_only.isdisjoint(picked):
        return _kernel_cells(layout, data, images, picked)
    parts: list[bytes] = []
    ends: list[int] = []
    end = 0
    for row in _plain_rows(layout, data, images, picked):
        for value in row:
            if value is None:
                ends.append(~end)
                continue
            parts.append(value)
            end += len(value)
            ends.append(end)
    return Cells(b"".join(parts), np.array(ends, np.int64), len(picked))


def _with_columns(rows: list[Row], columns: Sequence[int], values: Iterator[Row]) -> list[Row]:
    """Return the rows with these columns' values inserted."""
    merged = []
    for row, more in zip(rows, values, strict=True):
        whole = list(row)
        for column, value in zip(columns, more, strict=True):  # ascending, so earlier columns are already present
            whole.insert(column, value)
        merged.append(tuple(whole))
    return merged


def _plain_rows(layout: Layout, data: bytes, images: Any, picked: Sequence[int]) -> Iterator[Row]:
    decode = _decoder(layout, tuple(picked))
    for index, (start, end) in enumerate(images.tolist()):
        try:
            yield decode(data, start, end)
        except MalformedValue as error:
            raise MalformedImage(index, str(error)) from error


@lru_cache(maxsize=1024)  # a layout is compared by its identity, its cells one by one
def _decoder(layout: Layout, picked: tuple[int, ...]) -> Decoder:
    return decoder_of(layout.cells, picked)


@lru_cache(maxsize=1024)
def _numbers(picked: tuple[int, ...]) -> Any:
    return np.array(picked, np.int64)


def _kernel_cells(layout: Layout, data: bytes, images: Any, picked: Sequence[int]) -> Cells:
    """Write all images by a kernel into one buffer, which grows when it is full."""
    from airflow_provider_dm.engine.binlog.kernels.rows import MALFORMED, write_cells

    of, columns = layout.for_kernels, _numbers(tuple(picked))
    source, ends = np.frombuffer(data, np.uint8), np.empty(len(images) * len(picked), np.int64)
    room = of.room
    encoded = len(data) if len(data) <= _LARGE_BUFFER_BYTES else int((images[:, 1] - images[:, 0]).sum())
    out = np.empty(2 * encoded + min(len(images), _LONG_TEXT_ROWS) * room, np.uint8)
    done, status, described = 0, np.zeros(2, np.int64), (of.columns, of.constants, of.members, columns)
    while True:
        done = int(write_cells(source, images, done, *described, room, out, int(status[1]), ends, status))
        if status[0] == MALFORMED:
            _raise_malformed(layout, data, images, done, picked)
        if done == len(images):
            return Cells(out[: int(status[1])].data, ends, len(picked))
        larger = np.empty(2 * len(out) + int(images[done, 1] - images[done, 0]) + room, np.uint8)
        larger[: status[1]] = out[: status[1]]
        out = larger


def _raise_malformed(layout: Layout, data: bytes, images: Any, index: int, picked: Sequence[int]) -> None:
    """Raise MalformedImage with the plain decoder's reason."""
    try:
        _decoder(layout, tuple(picked))(data, int(images[index, 0]), int(images[index, 1]))
    except MalformedValue as error:
        raise MalformedImage(index, str(error)) from error
    raise MalformedImage(index, "the compiled decoder refuses an image that the plain one reads; please report this")
