"""All samples."""

from typing import Final

from tests.exactness.characters import charset_samples
from tests.exactness.documents import JSON
from tests.exactness.numbers import NUMBERS, ROUNDED, TIMES
from tests.exactness.others import ADDRESSES, COMPRESSED, COMPUTED, GEOMETRY, HIDDEN, VECTOR
from tests.exactness.strings import FULL_LOB, LOBS, MEMBERS, STRINGS, UNICODE

SAMPLES: Final = (
    *(NUMBERS, ROUNDED, TIMES, STRINGS, LOBS, FULL_LOB, MEMBERS, UNICODE, *charset_samples()),
    *(JSON, GEOMETRY, VECTOR, ADDRESSES, COMPRESSED, COMPUTED, HIDDEN),
)
