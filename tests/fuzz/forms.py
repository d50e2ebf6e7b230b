"""The layout of a value in a row image: the oracle's own encoder, from canonical value to the bytes of a cell.

Written from the formats' descriptions and not from the engine's decoder, and in the other direction: a decoder that is
wrong in the same way would have to be wrong twice. `form_of` says how a column's cells lie for what a table map names
(type code, metadata), or that the map contradicts the catalogue. A `Form` is described in `cell`.

Two cells may mean the same value; `Form.normal` turns a cell into the one that a server would have written:

- DECIMAL: minus zero is zero.
- TIME, DATETIME, TIMESTAMP of 1, 3 or 5 digits: the fraction is stored with one digit more, which no statement shows.
- BINARY(n): a server drops trailing zeros; a cell that kept them pads to the same.
- JSON and compressed columns: many encodings of one value, so a cell is read and compared with the value (`Form.says`).
"""

from functools import lru_cache
from typing import Final

from airflow_provider_dm.engine.schema.model import Column
from tests.fuzz import number_forms, string_forms, time_forms
from tests.fuzz.cell import Form, Make
from tests.fuzz.string_forms import compressed_form

_FORMS: Final[dict[str, Make]] = {**number_forms.FORMS, **time_forms.FORMS, **string_forms.FORMS}
_COMPRESSED: Final = (140, 141)
"""Type codes of MariaDB's compressed LOBs and strings."""


def form_of(column: Column, code: int, metadata: bytes) -> Form | None:
    """Return how cells of `column` lie in rows whose map has this code and metadata; None: it means another type."""
    if code in _COMPRESSED:
        return compressed_form(column, code, metadata) if "COMPRESSED" in column.column_type else None
    make = _FORMS.get(column.data_type)
    return None if make is None else make(column, code, metadata)


@lru_cache(maxsize=4096)
def cached_form(column: Column, code: int, metadata: bytes) -> Form | None:
    """`form_of`, remembered: a campaign asks for the same few again and again."""
    return form_of(column, code, metadata)
