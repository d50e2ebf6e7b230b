"""Images that leave columns out become the images that they would have been with NULL in those columns."""

from random import Random

import pytest

from airflow_provider_dm.engine.binlog.cells import Cell, CellKind
from airflow_provider_dm.engine.binlog.partial_rows import columns_of, whole_images
from airflow_provider_dm.engine.schema.errors import MalformedValue

CELLS = [
    Cell(CellKind.SIGNED, size=4),
    Cell(CellKind.BYTES, prefix=1),
    Cell(CellKind.BYTES, prefix=2),
    Cell(CellKind.DOUBLE, size=8),
]


def image(cells: list[Cell], values: list[bytes | None]) -> bytes:
    """Return it as a server writes it."""
    nulls = sum(1 << index for index, value in enumerate(values) if value is None)
    written = [
        (len(value).to_bytes(cell.prefix, "little") if cell.prefix else b"") + value
        for cell, value in zip(cells, values, strict=True)
        if value is not None
    ]
    return nulls.to_bytes((len(cells) + 7) // 8, "little") + b"".join(written)


def value(cell: Cell, dice: Random) -> bytes | None:
    return dice.choice([None, dice.randbytes(dice.randrange(40) if cell.prefix else cell.size)])


@pytest.mark.parametrize("seed", range(50))
def test_omitted_columns_become_null(seed: int) -> None:
    dice = Random(seed)
    cells = dice.choices(CELLS, k=dice.randint(1, 20))
    present = [dice.randrange(1, 1 << len(cells)) for _ in range(dice.choice([1, 2]))]
    given, expected = [], []
    for number in range(dice.randrange(9)):
        there = set(columns_of(present[number % len(present)]))
        values = [value(cell, dice) if index in there else None for index, cell in enumerate(cells)]
        given.append(image([cells[index] for index in sorted(there)], [values[index] for index in sorted(there)]))
        expected.append(image(cells, values))
    data = dice.randbytes(3) + b"".join(given)
    assert list(whole_images(cells, present, data, 3, len(data))) == expected


def test_an_image_that_ends_after_its_event_is_refused() -> None:
    whole = image(CELLS[:2], [b"\0\0\0\1", b"abc"])
    with pytest.raises(MalformedValue):
        list(whole_images(CELLS, [0b0011], whole, 0, len(whole) - 1))
