"""The merger: many rows of one table and one operation as few SQL statements.

Values arrive as SQL literals (`schema.codec.row_literals`), in the column order of the mapping's source table; names
are always written out, so the target's column order is free. A statement ends at `max_rows` rows or when it would
exceed `max_bytes`; a single row larger than that goes alone.

The affected-row counts, on a connection with FOUND_ROWS (ours): INSERT 1 a row; UPSERT 1 for a new row, 2 for a changed
one, 1 for one that was so already; DELETE 1 for a row that was there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from airflow_provider_dm.engine.mysql.identifiers import TableName, quote
from airflow_provider_dm.engine.mysql.literals import NULL
from airflow_provider_dm.engine.schema.model import Column

if TYPE_CHECKING:
    from airflow_provider_dm.engine.rules.mapping import TableMapping

MAX_ROWS: Final = 500
MAX_BYTES: Final = 1 << 20

Literals = tuple[bytes, ...]
"""A row, or a key, as SQL literals."""


class Verb(Enum):
    """What a statement does with its rows."""

    INSERT = "INSERT"  # a row with the same unique key stops it
    REPLACE = "REPLACE"  # any row with the same unique key is removed first
    UPSERT = "UPSERT"  # a row with the same key is changed to this image
    DELETE = "DELETE"
    COUNT = "SELECT COUNT(*)"


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL text, the number of rows it is about, and the target table."""

    sql: bytes
    rows: int
    table: TableName
    verb: Verb


@dataclass(frozen=True)
class Dialect:
    """Where targets differ. `row_alias`: MySQL from 8.0.19 on warns about VALUES(), others know no alias."""

    row_alias: bool = False


def write_rows(
    mapping: TableMapping,
    rows: Iterable[Literals],
    verb: Verb,
    *,
    dialect: Dialect = Dialect(),
    max_rows: int = MAX_ROWS,
    max_bytes: int = MAX_BYTES,
) -> Iterator[Statement]:
    """INSERT, REPLACE or UPSERT statements for rows in the column order of `mapping.source`."""
    names = [quote(column.name) for column in mapping.source.columns]
    word = "REPLACE" if verb is Verb.REPLACE else "INSERT"
    head = f"{word} INTO {mapping.target.name.quoted()} ({', '.join(names)}) VALUES ".encode()
    tail = _on_duplicate(names, dialect).encode() if verb is Verb.UPSERT else b""
    tuples = (b"(" + b",".join(row) + b")" for row in rows)
    for batch in _batches(tuples, max_rows, max_bytes - len(head) - len(tail)):
        yield Statement(head + b",".join(batch) + tail, len(batch), mapping.target.name, verb)


def delete_rows(
    mapping: TableMapping, keys: Iterable[Literals], *, max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES
) -> Iterator[Statement]:
    """DELETE statements by identity key; each key in the column order of `mapping.target.identity`."""
    head = _where_key_in("DELETE", mapping)
    for batch in _batches(_key_texts(keys), max_rows, max_bytes - len(head)):
        yield Statement(head + b",".join(batch) + b")", len(batch), mapping.target.name, Verb.DELETE)


def count_rows(
    mapping: TableMapping, keys: Iterable[Literals], *, max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES
) -> Iterator[Statement]:
    """SELECT COUNT(*) of the rows with these identity keys, locked until the transaction ends."""
    head = _where_key_in("SELECT COUNT(*)", mapping)
    for batch in _batches(_key_texts(keys), max_rows, max_bytes - len(head)):
        yield Statement(head + b",".join(batch) + b") FOR UPDATE", len(batch), mapping.target.name, Verb.COUNT)


def delete_image(mapping: TableMapping, image: Literals, count: int) -> Statement:
    """Delete `count` of the rows that are exactly `image`: for tables without a key. Must affect `count` rows."""
    conditions = b" AND ".join(
        _is_exactly(column, literal) for column, literal in zip(mapping.source.columns, image, strict=True)
    )
    sql = b"DELETE FROM %s WHERE %s LIMIT %d" % (mapping.target.name.quoted().encode(), conditions, count)
    return Statement(sql, count, mapping.target.name, Verb.DELETE)


def _is_exactly(column: Column, literal: bytes) -> bytes:
    name = quote(column.name).encode()
    if literal == NULL:
        return name + b" IS NULL"
    if column.charset is None or column.charset == "binary":
        return b"%s <=> %s" % (name, literal)
    # A collation takes 'a', 'A' and 'a ' for equal; twins that differ so must not be mixed up. The plain comparison
    # comes first, as it can use an index.
    exact = b"CAST(CONVERT(%s USING utf8mb4) AS BINARY)"
    return b"%s <=> %s AND %s <=> %s" % (name, literal, exact % name, exact % literal)


def _key_texts(keys: Iterable[Literals]) -> Iterator[bytes]:
    return (key[0] if len(key) == 1 else b"(" + b",".join(key) + b")" for key in keys)


def _where_key_in(head: str, mapping: TableMapping) -> bytes:
    # `(a,b) IN ((1,2),…)` is a range over the key on MariaDB 10.11 and MySQL 9.7 (EXPLAIN), as `a IN (1,…)` is.
    identity = mapping.target.identity
    if identity is None:
        raise ValueError(f"{mapping.target.name} has no key")
    names = ",".join(quote(name) for name in identity.columns)
    columns = f"({names})" if len(identity.columns) > 1 else names
    return f"{head} FROM {mapping.target.name.quoted()} WHERE {columns} IN (".encode()


def _on_duplicate(names: Sequence[str], dialect: Dialect) -> str:
    if dialect.row_alias:
        return " AS _new ON DUPLICATE KEY UPDATE " + ", ".join(f"{name} = _new.{name}" for name in names)
    return " ON DUPLICATE KEY UPDATE " + ", ".join(f"{name} = VALUES({name})" for name in names)


def _batches(items: Iterable[bytes], max_rows: int, max_bytes: int) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for item in items:
        if batch and (len(batch) >= max_rows or size + len(item) > max_bytes):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += len(item) + 4
    if batch:
        yield batch
