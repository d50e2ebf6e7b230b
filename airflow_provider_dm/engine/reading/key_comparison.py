"""Compares keys by the order of the source's identity key, which is the order in which pages read a table.

Numbers, temporal values and binary strings are compared here. The order of text is that of the column's collation, so
the source compares texts, and also UUID and INET values (MariaDB). Equal bytes are equal under every collation and need
no query.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeAlias

from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.literals import introduced
from airflow_provider_dm.engine.reading.keyset import INTEGERS, KeyOrder, PageKey
from airflow_provider_dm.engine.reading.source_session import read
from airflow_provider_dm.engine.schema.codec import TEXTS
from airflow_provider_dm.engine.schema.model import Column

KEYS_OF_A_STATEMENT: Final = 1_000
BYTES_OF_A_STATEMENT: Final = 256 << 10
"""Below the default of `max_allowed_packet` in every release. One comparison of two keys may be larger."""


class KeyPair(NamedTuple):
    """Two SQL expressions whose order only the source knows."""

    left: bytes
    right: bytes


class KeyOrders(dict[KeyPair, int]):
    """The sign of each comparison: -1, 0 or 1. An unanswered question is recorded and counts as equal.

    A comparison continues after equal values, so all questions on which it may depend are recorded at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unanswered: set[KeyPair] = set()

    def __missing__(self, question: KeyPair) -> int:
        self.unanswered.add(question)
        return 0

    def complete(self, source: Endpoint) -> None:
        """Query the source for all unanswered comparisons. Raises the errors of `source_session.read`."""
        for batch in _batches(self.unanswered):
            both = b",".join(b"%b>=%b,%b<=%b" % (left, right, left, right) for left, right in batch)
            ((bits,),) = read(source, b"SELECT CONCAT(%b)" % both)
            assert bits is not None, "no key value is NULL"
            self.update(zip(batch, map(int.__sub__, bits[::2], bits[1::2]), strict=True))
        self.unanswered.clear()


Sortable: TypeAlias = Callable[[bytes], Any]
"""Canonical value of a column -> value whose order is the column's."""


def time_order(value: bytes) -> int:
    """Return a number that sorts as the values of one TIME column do.

    >>> sorted([b"100:00:00", b"-00:00:01", b"00:00:00", b"99:59:59", b"-10:00:00"], key=time_order)
    [b'-10:00:00', b'-00:00:01', b'00:00:00', b'99:59:59', b'100:00:00']
    """
    return int(value.replace(b":", b"").replace(b".", b""))


_SORTABLE: Final[dict[str, Sortable]] = {
    **dict.fromkeys(INTEGERS, int),
    "decimal": lambda value: Decimal(value.decode("ascii")),
    "time": time_order,
    **dict.fromkeys(("year", "date", "datetime", "timestamp", "binary", "varbinary"), bytes),
}
"""The types of key columns (`keyset`) whose values are compared here."""


@dataclass(frozen=True)
class KeyComparison:
    """The comparison of keys of one table."""

    order: KeyOrder
    sortable: tuple[Sortable | None, ...]
    """For each key column; None: the source compares its values."""

    @classmethod
    def of(cls, order: KeyOrder) -> KeyComparison:
        return cls(order, tuple(_SORTABLE.get(column.data_type.lower()) for column in order.columns))

    def compare(self, left: PageKey, right: PageKey, answers: KeyOrders) -> int:
        """Return the sign of the comparison. It is final only if `answers` has no unanswered question."""
        for number, (one, other) in enumerate(zip(left, right, strict=True)):
            if one == other:
                continue
            sortable = self.sortable[number]
            if sortable is not None:
                sign = _sign(sortable(one), sortable(other))
            else:
                column = self.order.columns[number]
                sign = answers[KeyPair(_expression(column, one), _expression(column, other))]
            if sign:
                return sign
        return 0


def _batches(questions: Collection[KeyPair]) -> Iterator[list[KeyPair]]:
    held: list[KeyPair] = []
    size = 0
    for question in questions:
        cost = 2 * (len(question.left) + len(question.right))
        if held and (len(held) == KEYS_OF_A_STATEMENT or size + cost > BYTES_OF_A_STATEMENT):
            yield held
            held, size = [], 0
        held.append(question)
        size += cost
    if held:
        yield held


def _expression(column: Column, value: bytes) -> bytes:
    """Return an expression for a value that the source orders like values of the column."""
    if column.data_type.lower() not in TEXTS:
        return b"CAST('%b' AS %b)" % (value, column.data_type.encode())
    assert column.charset is not None, "a text column has a charset"
    assert column.collation is not None, "and a collation"
    return b"%b COLLATE %b" % (introduced(column.charset.encode(), value), column.collation.encode())


def _sign(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)
