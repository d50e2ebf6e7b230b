"""The merger: many rows of one table and one operation as few SQL statements.

Values arrive as SQL literals (`schema.codec.row_literals`), in the column order of the mapping's source table; column
names are always written, so the target's column order does not matter. A statement ends at the dialect's `most_rows`,
or before it would exceed its `most_bytes`; a larger row is written alone.

Values of columns that the target generates are left out; the target's results are compared with them
(`differing_rows`).

An ENUM may have its index 0, the value after an invalid insert, which a strict session rejects. Rows with it are
written in statements of their own, without strict mode; `Statement.invalid` has the expected warnings, and any other
warning is an error (`session.execute`).

Affected rows, on a connection with FOUND_ROWS: INSERT 1 a row; UPSERT 1 for a new row, 2 for a changed row, 1 for an
unchanged row; DELETE 1 for an existing row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby, islice, tee
from typing import TYPE_CHECKING, Final

from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES, Capabilities
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote
from airflow_provider_dm.engine.mysql.literals import NULL
from airflow_provider_dm.engine.mysql.pinned import SQL_MODE
from airflow_provider_dm.engine.schema.codec import ENUM_INVALID
from airflow_provider_dm.engine.schema.model import Column

if TYPE_CHECKING:
    from airflow_provider_dm.engine.rules.mapping import TableMapping

MAX_ROWS: Final = 512
MAX_BYTES: Final = 1 << 20
MAX_TRANSACTION_BYTES: Final = 32 << 20
_BETWEEN: Final = 4
"""Bytes between two rows, or two conditions."""
MAX_INVALID: Final = 30
"""Rows with an ENUM's index 0 in one statement: a server shows at most this many warnings (MariaDB 64, MySQL 1024)."""
_LENIENT: Final = ",".join(mode for mode in SQL_MODE.split(",") if not mode.startswith("STRICT"))

_MOST_OF_AN_INDEX: Final = 3072 * 2
"""Maximum bytes of a value, or of its hexadecimal form, in an index lookup."""

MOST_COMPARED: Final = 100
"""Rows in one comparison of generated values: each row that is found is compared with all of them."""

_MOST_SHOWN: Final = 200
"""Bytes of a value in a message."""

Literals = tuple[bytes, ...]
"""A row, or a key, as SQL literals."""
_EMPTY: Final = (ENUM_INVALID, b"''")
"""An ENUM's index 0, and its empty member, whose text is as empty."""
UNKNOWN: Final = b""
"""The placeholder of a generated value that the log does not have."""


class Verb(Enum):
    """The operation of a statement on its rows."""

    INSERT = "INSERT"  # fails at a row with the same unique key
    REPLACE = "REPLACE"  # first removes any row with the same unique key
    UPSERT = "UPSERT"  # changes a row with the same key to this image
    DELETE = "DELETE"
    COUNT = "SELECT COUNT(*)"


@dataclass(frozen=True, slots=True)
class SqlStatement:
    """SQL text, the number of its rows, and the target table."""

    sql: bytes
    rows: int
    table: TableName
    verb: Verb
    invalid: frozenset[tuple[str, int]] = frozenset()
    """(column, row, counted from 1) of each ENUM with index 0."""
    session_mode: str = ""
    """The sql_mode that the session needs for this statement alone; empty: its own."""
    computing: Computing | None = None
    """For tables with columns that the target generates."""
    key: str = ""
    """The identity key of its row, if it has only one."""
    parameters: memoryview | None = None
    """The rows, whose placeholders are in `sql`; None: it has literals."""

    def __str__(self) -> str:
        return f"{self.verb.value} of {self.rows} {'row' if self.rows == 1 else 'rows'}"


@dataclass(frozen=True)
class Dialect:
    """The differences between targets."""

    server: Capabilities = CAPABILITIES[Flavour.MARIADB]
    most_bytes: int = MAX_BYTES
    """Maximum bytes of a statement with several rows."""
    most_rows: int = MAX_ROWS
    """Maximum rows of a statement; less than MAX_ROWS if the user wants so."""
    transaction_bytes: int = MAX_TRANSACTION_BYTES
    """Bytes of rows after which a transaction ends, if it may."""
    executes_bulk: bool = False
    """The server executes a statement for many rows of parameters (`bound_rows`), whose number is not limited."""


@dataclass(frozen=True)
class Computing:
    """The rows of one statement whose generated columns the target computes."""

    mapping: TableMapping
    dialect: Dialect
    rows: tuple[Literals, ...]
    lenient: bool
    """True if they are written without strict mode."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The target's names of the generated columns."""
        return tuple(self.mapping.target_columns[index].name for index in self.mapping.computed)

    def differing(self, columns: Sequence[int] | None = None) -> Iterator[SqlStatement]:
        """Yield statements that count rows whose generated values differ. `columns`: default all."""
        wanted = self.mapping.computed if columns is None else columns
        return differing_rows(self.mapping, self.rows, wanted, dialect=self.dialect)


def write_rows(
    mapping: TableMapping, rows: Iterable[Literals], verb: Verb, *, dialect: Dialect = Dialect()
) -> Iterator[SqlStatement]:
    """Yield INSERT, REPLACE or UPSERT statements for rows in the column order of `mapping.source`."""
    if not deletes_first(mapping, verb, dialect):
        yield from _written(mapping, rows, verb, dialect)
        return
    every_row = _reverses_bits(mapping, verb, dialect)
    blurred = () if dialect.server.updates_index_0 else mapping.enums_with_empty
    for deleted, run in groupby(rows, lambda row: every_row or any(row[place] in _EMPTY for place in blurred)):
        some = list(run)
        if deleted:
            yield from delete_rows(
                mapping, (tuple([row[at] for at in mapping.key_places]) for row in some), dialect=dialect
            )
        how = Verb.INSERT if deleted and verb is Verb.UPSERT else verb
        yield from _written(mapping, some, how, dialect)


def deletes_first(mapping: TableMapping, verb: Verb, dialect: Dialect) -> bool:
    """Return True if the target stores other values of some columns when it changes or replaces a row: such rows are
    deleted first, and the values of columns that only the target has are lost with them. Without a key nothing is
    changed or replaced."""
    if verb is Verb.INSERT or mapping.target.identity is None:
        return False
    blurs_enums = bool(mapping.enums_with_empty) and not dialect.server.updates_index_0
    return blurs_enums or _reverses_bits(mapping, verb, dialect)


def _reverses_bits(mapping: TableMapping, verb: Verb, dialect: Dialect) -> bool:
    return verb is Verb.UPSERT and mapping.has_wide_bits and not dialect.server.upserts_wide_bits


def _written(mapping: TableMapping, rows: Iterable[Literals], verb: Verb, dialect: Dialect) -> Iterator[SqlStatement]:
    max_bytes, max_rows = dialect.most_bytes, dialect.most_rows
    plain, tail = around(mapping, verb, dialect)
    for run, invalid in _runs(mapping, rows):
        head, mode = _leniently(plain, dialect) if invalid else (plain, "")
        most = max(1, min(max_rows, MAX_INVALID // len(mapping.enums))) if invalid else max_rows
        texts, again = tee(run)
        for batch in _batches(_row_texts(mapping, texts), most, max_bytes - len(head) - len(tail)):
            mine = tuple(islice(again, len(batch)))
            yield SqlStatement(
                head + b",".join(batch) + tail,
                len(batch),
                mapping.target.name,
                verb,
                _invalid(mapping, mine) if invalid else frozenset(),
                mode,
                Computing(mapping, dialect, mine, invalid) if mapping.computed else None,
                key_text(mapping, mine[0]) if len(mine) == 1 else "",
            )


def around(mapping: TableMapping, verb: Verb, dialect: Dialect) -> tuple[bytes, bytes]:
    """Return the text before and after the rows of a writing statement."""
    names = [quote(mapping.source.columns[index].name) for index in mapping.written]
    word = "REPLACE" if verb is Verb.REPLACE else "INSERT"
    head = f"{word} INTO {mapping.target.name.quoted()} ({', '.join(names)}) VALUES "
    return head.encode(), _on_duplicate(names, dialect).encode() if verb is Verb.UPSERT else b""


def key_text(mapping: TableMapping, row: Literals) -> str:
    """Return the identity key of a row for a message: "`id` = 7"; empty without a key."""
    names = mapping.target.identity.columns if mapping.target.identity else ()
    values = (row[place][:_MOST_SHOWN].decode("utf-8", "replace") for place in mapping.key_places)
    return ", ".join(f"{quote(name)} = {value}" for name, value in zip(names, values, strict=True))


def _runs(mapping: TableMapping, rows: Iterable[Literals]) -> Iterable[tuple[Iterable[Literals], bool]]:
    """Group adjacent rows for one statement, with whether they contain an ENUM's index 0. The order is kept."""
    if not mapping.enums:
        return [(rows, False)]
    runs = groupby(rows, lambda row: any(row[index] == ENUM_INVALID for index in mapping.enums))
    return ((run, lenient) for lenient, run in runs)


def _row_texts(mapping: TableMapping, rows: Iterable[Literals]) -> Iterator[bytes]:
    written = mapping.written
    if len(written) == len(mapping.source.columns):
        return (b"(" + b",".join(row) + b")" for row in rows)
    return (b"(" + b",".join([row[index] for index in written]) + b")" for row in rows)


def _invalid(mapping: TableMapping, rows: Sequence[Literals]) -> frozenset[tuple[str, int]]:
    return frozenset(
        (mapping.target_columns[index].name, number)
        for number, row in enumerate(rows, 1)
        for index in mapping.enums
        if row[index] == ENUM_INVALID
    )


def _leniently(head: bytes, dialect: Dialect) -> tuple[bytes, str]:
    """Return a statement's head with strict mode turned off for this statement alone, and the session's sql_mode."""
    form = dialect.server.under_sql_mode
    if form is None:
        return head, _LENIENT
    verb, rest = head.split(b" ", 1)
    return form % {b"mode": _LENIENT.encode(), b"verb": verb, b"rest": rest}, ""


def delete_rows(
    mapping: TableMapping, keys: Iterable[Literals], *, dialect: Dialect = Dialect()
) -> Iterator[SqlStatement]:
    """Yield DELETE statements by identity key; each key in the column order of `mapping.target.identity`."""
    head = _where_key_in("DELETE", mapping)
    for batch in _batches(_key_texts(keys), min(MAX_ROWS, dialect.most_rows), dialect.most_bytes - len(head)):
        yield SqlStatement(head + b",".join(batch) + b")", len(batch), mapping.target.name, Verb.DELETE)


def count_rows(
    mapping: TableMapping, keys: Iterable[Literals], *, dialect: Dialect = Dialect()
) -> Iterator[SqlStatement]:
    """Yield SELECT COUNT(*) of the rows with these identity keys, locked until the transaction ends."""
    head = _where_key_in("SELECT COUNT(*)", mapping)
    for batch in _batches(_key_texts(keys), MAX_ROWS, dialect.most_bytes - len(head)):
        yield SqlStatement(head + b",".join(batch) + b") FOR UPDATE", len(batch), mapping.target.name, Verb.COUNT)


def delete_holders(
    mapping: TableMapping, columns: Sequence[str], values: Sequence[bytes], key: Literals
) -> SqlStatement:
    """Delete the row with these values of a unique key, unless it has this identity key."""
    identity = mapping.target.identity
    if identity is None:
        raise ValueError(f"{mapping.target.name} has no key")

    def are(names: Sequence[str], literals: Sequence[bytes]) -> bytes:
        return b" AND ".join(
            b"%s = %s" % (quote(name).encode(), literal) for name, literal in zip(names, literals, strict=True)
        )

    held, own = are(columns, values), are(identity.columns, key)
    sql = b"DELETE FROM %s WHERE %s AND NOT (%s)" % (mapping.target.name.quoted().encode(), held, own)
    return SqlStatement(sql, 1, mapping.target.name, Verb.DELETE)


def differing_rows(
    mapping: TableMapping, rows: Iterable[Literals], computed: Sequence[int], *, dialect: Dialect = Dialect()
) -> Iterator[SqlStatement]:
    """Yield statements that count the rows of the target whose generated values differ from these rows.

    Rows are found by the identity key; in a table without one by all their values, which needs a scan.
    """
    head = f"SELECT COUNT(*) FROM {mapping.target.name.quoted()} WHERE ".encode()
    terms = (term for row in rows if (term := _differs(mapping, row, computed)))
    for batch in _batches(terms, MOST_COMPARED, dialect.most_bytes - len(head)):
        yield SqlStatement(head + b" OR ".join(batch), len(batch), mapping.target.name, Verb.COUNT)


def _differs(mapping: TableMapping, row: Literals, computed: Sequence[int]) -> bytes:
    """Return the condition that the target's row differs in a generated value; empty if no value is known."""
    columns = mapping.target_columns
    values = [_is_exactly(columns[index], row[index]) for index in computed if row[index] != UNKNOWN]
    if not values:
        return b""
    if mapping.found_by is None:
        same = [_is_exactly(columns[index], row[index]) for index in mapping.written]
    else:
        same = [b"%s = %s" % (quote(columns[place].name).encode(), row[place]) for place in mapping.found_by]
    return b"(%s AND (%s) IS NOT TRUE)" % (b" AND ".join(same), b" AND ".join(values))


def in_pieces(count: int, most: int) -> Iterator[int]:
    """Yield numbers of at most `most` whose sum is `count`.

    >>> list(in_pieces(7, 3))
    [3, 3, 1]
    """
    return (min(most, count - done) for done in range(0, count, most))


def delete_image(mapping: TableMapping, image: Literals, count: int) -> SqlStatement:
    """Delete `count` of the rows that equal `image`, in a table without a key. Must affect `count` rows."""
    columns = mapping.target_columns
    conditions = b" AND ".join(_is_exactly(columns[index], image[index]) for index in mapping.written)
    sql = b"DELETE FROM %s WHERE %s LIMIT %d" % (mapping.target.name.quoted().encode(), conditions, count)
    return SqlStatement(sql, count, mapping.target.name, Verb.DELETE)


def _is_exactly(column: Column, literal: bytes) -> bytes:
    name = quote(column.name).encode()
    if literal == NULL:
        return name + b" IS NULL"
    if column.data_type == "json":
        # Documents are compared by value, 1.0 equals 1.00; their texts distinguish them.
        text_of = b"CAST(CONVERT(%s USING utf8mb4) AS BINARY)"
        return b"%s <=> %s" % (text_of % name, text_of % (b"CAST(%s AS JSON)" % literal))
    if column.data_type == "vector":  # MySQL compares vectors only with vectors
        return b"CAST(%s AS BINARY) <=> %s" % (name, literal)
    if column.data_type == "enum" and literal == ENUM_INVALID:
        return name + b" + 0 = 0"
    if column.data_type == "enum" and literal in _EMPTY:  # as text they are equal
        return b"%s <=> '' AND %s + 0 <> 0" % (name, name)
    if column.charset is None or column.charset == "binary":
        return b"%s <=> %s" % (name, literal)
    # A collation treats 'a', 'A' and 'a ' as equal; the bytes, in the column's own charset, distinguish such rows. The
    # plain comparison comes first, as it can use an index. (TiDB's CAST of a VARCHAR(n) AS BINARY keeps only n bytes.)
    bytes_of = b"CONVERT(%s USING binary)"
    converted = b"CONVERT(%s USING %s)" % (literal, column.charset.encode())
    same_bytes = b"%s <=> %s" % (bytes_of % name, bytes_of % converted)
    return same_bytes if len(literal) > _MOST_OF_AN_INDEX else b"%s <=> %s AND %s" % (name, literal, same_bytes)


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
    if dialect.server.row_alias:
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
        size += len(item) + _BETWEEN
    if batch:
        yield batch
