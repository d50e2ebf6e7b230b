"""Images are cut where their cells end, and never past the end of their event."""

import struct

import pytest

from airflow_provider_dm.engine.binlog.cells import Cell, CellKind
from airflow_provider_dm.engine.binlog.row_decoder import decoder_of, image_end
from airflow_provider_dm.engine.schema.errors import MalformedValue

TEXT = (Cell(CellKind.BYTES, prefix=1),)
PAIR = (Cell(CellKind.SIGNED, 4), Cell(CellKind.BYTES, prefix=1))


def test_an_image_ends_with_its_last_cell() -> None:
    event = b"\xfc" + struct.pack("<i", -7) + b"\x02ab" + b"next"
    assert image_end(PAIR, event, 0, len(event)) == 8
    assert decoder_of(PAIR, (0, 1))(event, 0, 8) == (b"-7", b"ab")
    assert decoder_of(PAIR, (1,))(event, 0, 8) == (b"ab",)


def test_null_takes_no_room() -> None:
    assert image_end(PAIR, b"\xff", 0, 1) == 1
    assert decoder_of(PAIR, (1, 0))(b"\xfd\x01a", 0, 3) == (b"a", None)


@pytest.mark.parametrize("event", [b"", b"\xfe\x05hell", b"\xfe\xff" + b"x" * 10, b"\xfe"])
def test_a_row_that_ends_after_its_event_is_refused(event: bytes) -> None:
    with pytest.raises(MalformedValue):
        image_end(TEXT, event, 0, len(event))
    with pytest.raises(MalformedValue):
        decoder_of(TEXT, (0,))(event + b"neighbour", 0, len(event))


def test_bytes_after_the_last_cell_are_refused() -> None:
    with pytest.raises(MalformedValue):
        decoder_of(TEXT, (0,))(b"\xfe\x01ab", 0, 4)


def test_a_length_of_four_gigabytes_is_refused_without_memory() -> None:
    cells = (Cell(CellKind.BYTES, prefix=4),)
    event = b"\xfe" + struct.pack("<I", 0xFFFFFFFF) + b"x"
    with pytest.raises(MalformedValue):
        image_end(cells, event, 0, len(event))
