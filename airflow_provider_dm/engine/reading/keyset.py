r"""Paging through a table by its identity key, with conditions that a server evaluates as a range of the index.

A page consists of the next `limit` rows in key order after the last key. For a key (a, b) after (1, 2) there are two
*steps*, `a = 1 AND b > 2` and then `a > 1`; each is one range of the index and one query. A single condition with OR is
equivalent, but servers do not reliably use the index for it. Only the server compares: text keys are equal, lower or
higher by the column's own collation; this module does not interpret values.

Chunks are ranges over the *first* key column if that is an integer. Some keys cannot be paged: ENUM, SET and BIT are
ordered by number but compared with a literal by text, FLOAT has no exact literals, and a prefix does not order rows.
CHAR keys of MariaDB's NOPAD collations cannot either: their index orders values padded with spaces, but `>` compares
them without, so a page would omit rows ("a" after "a\t")."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from airflow_provider_dm.engine.mysql.identifiers import quote
from airflow_provider_dm.engine.schema.codec import Codec, codec_for
from airflow_provider_dm.engine.schema.model import Column, Table

PageKey = tuple[bytes, ...]

INTEGERS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "integer", "bigint"})
_PAGEABLE: Final = INTEGERS | frozenset(
    {"decimal", "year", "date", "time", "datetime", "timestamp", "char", "varchar", "binary", "varbinary"}
    | {"uuid", "inet4", "inet6"}
)


@dataclass(frozen=True)
class KeyOrder:
    """The order of a table's rows by its identity key."""

    index: str
    columns: tuple[Column, ...]
    codecs: tuple[Codec, ...]

    @classmethod
    def of(cls, table: Table) -> KeyOrder | None:
        """Return the order of a table; None if it has no key by which rows can be paged (module docstring)."""
        key = table.identity
        if key is None or key.expression or any(key.prefixes):
            return None
        columns = tuple(table.column(name) for name in key.columns)
        if any(column.data_type.lower() not in _PAGEABLE or _is_padded_in_keys_only(column) for column in columns):
            return None
        return cls(key.name, columns, tuple(codec_for(table.name, column) for column in columns))

    @property
    def splittable(self) -> bool:
        """Return True if ranges over the first column can be computed."""
        return self.columns[0].data_type.lower() in INTEGERS

    @property
    def positions(self) -> tuple[int, ...]:
        """The positions of the key columns in a row."""
        return tuple(column.position for column in self.columns)

    def hint(self) -> str:
        return f"FORCE INDEX ({quote(self.index)})"

    def order_by(self) -> str:
        return ", ".join(quote(column.name) for column in self.columns)

    def steps(self, after: PageKey | None, low: int | None = None, high: int | None = None) -> Iterator[bytes]:
        """Yield conditions that, one after the other, select the rows after `after` in key order.

        `low` and `high` are inclusive limits of the first key column.
        """
        first, *_ = names = [quote(column.name).encode() for column in self.columns]
        limits = [b"%b >= %d" % (first, low)] if low is not None and after is None else []
        if high is not None:
            limits.append(b"%b <= %d" % (first, high))
        if after is None:
            yield b" AND ".join(limits) or b"TRUE"
            return
        literals = [codec.literal()(value) for codec, value in zip(self.codecs, after, strict=True)]
        for depth in reversed(range(len(names))):
            same = [b"%b = %b" % pair for pair in zip(names[:depth], literals[:depth], strict=True)]
            beyond = b"%b > %b" % (names[depth], literals[depth])
            yield b" AND ".join([*same, beyond, *limits])


def _is_padded_in_keys_only(column: Column) -> bool:
    return column.data_type.lower() == "char" and "_nopad_" in (column.collation or "")


def write_key(key: PageKey) -> str:
    r"""Write a key as ASCII text that is legible where the key is, and that `read_key` reads back exactly.

    >>> write_key((b"42", b"caf\xe9"))
    '["42", "caf\\u00e9"]'
    """
    return json.dumps([value.decode("latin-1") for value in key])


def read_key(written: str) -> PageKey:
    r"""Read the text of a key that `write_key` has written.

    >>> read_key('["42", "caf\\u00e9"]')
    (b'42', b'caf\xe9')
    """
    return tuple(value.encode("latin-1") for value in json.loads(written))
