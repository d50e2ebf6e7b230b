"""Writes rows by LOAD DATA LOCAL INFILE from memory instead of an INSERT, so that the server parses no SQL literals.

With LOCAL a server reports values that it cannot store as warnings, and skips rows with an existing key. So a LOAD is
kept only if it has written every row without a warning. Otherwise it is undone, and the same rows are written by
INSERTs, which raise the error of a rejected row. INSERTs are also used if the server does not allow LOAD.

Values arrive as by INSERT (tests/exactness): text in UTF-8, bytes as hexadecimal digits, a BIT as a number. A table is
not loaded if one of its columns
- has text of a charset without ASCII,
- is generated in the target,
- is a number that the target stores in another type (a LOAD has texts only),
- is nullable at the source only: a LOAD would replace NULL by the current time, without a warning.

Rows are not loaded if the conversion of their text to UTF-8 and back may change a character: all but ASCII in
multi-byte charsets, and characters that a charset has twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from typing import Any, Final

import numpy as np
import pymysql

from airflow_provider_dm.engine.binlog.images import Buffer, Cells
from airflow_provider_dm.engine.binlog.kernels import build
from airflow_provider_dm.engine.downstream.errors import translate
from airflow_provider_dm.engine.downstream.row_statements import Dialect, LoadData, SqlStatement, Verb
from airflow_provider_dm.engine.downstream.tuples import write_tuple_cells
from airflow_provider_dm.engine.errors import Reaction
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES
from airflow_provider_dm.engine.mysql.connection import Connection, query
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.guarded import GuardedConnection
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.charsets import MULTI_BYTE, text_of
from airflow_provider_dm.engine.schema.codec import LiteralStyle, codec_for

_AS_NUMBERS: Final = frozenset({LiteralStyle.PLAIN, LiteralStyle.FLOAT, LiteralStyle.BITS})
"""Styles whose literals are numbers."""
_QUOTES_AND_SEPARATORS_BYTES: Final = 32


@dataclass(frozen=True)
class LoadDataStatement:
    sql: bytes
    content: Buffer
    rows: int
    largest: int
    """Upper bound of the bytes of one row as a literal."""
    table: TableName


def load_data_of(mapping: TableMapping, cells: Cells, numbers: Any, dialect: Dialect) -> LoadDataStatement | None:
    """Return the LOAD of the rows of `cells` with these row numbers (int64); None if they have to be inserted."""
    has_auto_increment = any(column.auto_increment for column in mapping.target.columns)
    if (
        dialect.loads is LoadData.NONE
        or (has_auto_increment and dialect.loads is LoadData.UNCOUNTED)
        or not build.ready()
    ):
        return None
    described = _load_statement(mapping, dialect.server.flavour)
    if described is None:
        return None
    from airflow_provider_dm.engine.binlog.kernels.lines import MOST_OF_A_BYTE, MOST_OF_A_CELL, write_lines

    sql, columns, characters = described
    text = np.frombuffer(cells.text, np.uint8)
    text.setflags(write=False)
    last = cells.ends[cells.columns - 1 :: cells.columns]
    sizes = np.diff(last ^ (last >> 63), prepend=0)[numbers]  # an end is stored as ~end if the last value is NULL
    out = np.empty(MOST_OF_A_BYTE * int(sizes.sum()) + MOST_OF_A_CELL * cells.columns * len(numbers), np.uint8)
    size = write_lines(text, cells.ends, cells.columns, numbers, columns, characters, out)
    if size < 0:
        return None
    largest = MOST_OF_A_BYTE * int(sizes.max()) + _QUOTES_AND_SEPARATORS_BYTES * cells.columns
    return LoadDataStatement(sql, out[:size].data, len(numbers), largest, mapping.target.name)


def run_load_data(connection: Connection, load: LoadDataStatement) -> bool:
    """Run the LOAD inside a transaction. Return False, after undoing it, if it has not written every row unchanged.

    Raises the transient errors of `translate`.
    """
    assert isinstance(connection, GuardedConnection)
    if load.largest + len(load.sql) >= connection.most_bytes:
        return False  # the INSERT raises the error that names a row which is too large
    query(connection, "SAVEPOINT load_data")
    try:
        if connection.load(load.sql, load.content) == (load.rows, 0):
            return True
    except pymysql.err.Error as error:
        found = translate(error, table=str(load.table), statement=f"LOAD of {load.rows} rows")
        if found.reaction is Reaction.RETRY:
            raise found from None
    query(connection, "ROLLBACK TO SAVEPOINT load_data")
    return False


@lru_cache(maxsize=1024)
def _load_statement(mapping: TableMapping, target: Flavour) -> tuple[bytes, Any, Any] | None:
    """Return the statement, and the columns and characters for `write_lines`; None if the table is not loaded."""
    from airflow_provider_dm.engine.binlog.kernels.lines import CHARSET, DIGITS, ESCAPED, MEMBER, NUMBER, RAW

    conversions: dict[LiteralStyle, tuple[int, Callable[[str], str] | None]] = {
        LiteralStyle.PLAIN: (RAW, None),
        LiteralStyle.FLOAT: (RAW, None),
        LiteralStyle.QUOTED: (RAW, None),
        LiteralStyle.TEXT: (ESCAPED, None),
        LiteralStyle.CHARSET: (CHARSET, None),
        LiteralStyle.ENUM: (MEMBER, None),
        LiteralStyle.HEX: (DIGITS, "UNHEX({})".format),
        LiteralStyle.BITS: (NUMBER, "CAST({} AS UNSIGNED)".format),
    }
    if not CAPABILITIES[target].json_keeps_decimals:
        conversions[LiteralStyle.JSON] = (ESCAPED, None)
    places: list[str] = []
    computed: list[str] = []
    columns: list[tuple[int, int, int]] = []
    characters = b""
    for index, (ours, theirs) in enumerate(zip(mapping.source.columns, mapping.target_columns, strict=True)):
        codec = codec_for(mapping.source.name, ours)
        style = codec.style
        number_in_other_type = style in _AS_NUMBERS and ours.data_type != theirs.data_type
        if (
            style not in conversions
            or number_in_other_type
            or theirs.generated
            or (ours.nullable and not theirs.nullable)
        ):
            return None
        kind, convert = conversions[style]
        columns.append((index, kind, len(characters)))
        if kind == CHARSET:
            characters += _characters(codec.introducer.decode())
        places.append(f"@v{index}" if convert else quote(theirs.name))
        if convert:
            computed.append(f"{quote(theirs.name)} = {convert(f'@v{index}')}")
    sql = (
        f"LOAD DATA LOCAL INFILE 'rows' INTO TABLE {mapping.target.name.quoted()} CHARACTER SET utf8mb4 "
        r"FIELDS TERMINATED BY '\t' ENCLOSED BY '' ESCAPED BY '\\' LINES STARTING BY '' TERMINATED BY '\n' "
        f"({', '.join(places)})"
    )
    if computed:
        sql += f" SET {', '.join(computed)}"
    return sql.encode(), np.array(columns, np.int64).reshape(-1, 3), np.frombuffer(characters + bytes(8), np.uint8)


@cache
def _characters(charset: str) -> bytes:
    """Return a charset's entries for `write_lines`: the characters of one byte that are not ASCII and occur once."""
    chars = [b"" if charset in MULTI_BYTE else _in_utf8(charset, byte) for byte in range(128, 256)]
    once = [char if chars.count(char) == 1 and not char.isascii() else b"" for char in chars]
    return b"".join(bytes([len(char)]) + char.ljust(3, b"\0") for char in once)


def _in_utf8(charset: str, byte: int) -> bytes:
    try:
        return text_of(charset, bytes([byte])).encode()
    except UnicodeError:
        return b""


FEWEST_LOADED: Final = 200
"""A LOAD takes three round trips, an INSERT one."""


class Insertion:
    """The rows of `cells` with these numbers (int64).

    The constructor makes the statements, so that the transaction holds no locks meanwhile.
    """

    def __init__(self, mapping: TableMapping, cells: Cells, numbers: Any, verb: Verb, dialect: Dialect) -> None:
        loaded = verb is Verb.INSERT and len(numbers) >= FEWEST_LOADED
        self._numbers = numbers
        self._load = load_data_of(mapping, cells, numbers, dialect) if loaded else None
        self._write = partial(write_tuple_cells, mapping, cells, numbers, verb, dialect)
        if self._load is None:
            _ = self._inserts

    @cached_property
    def _inserts(self) -> list[SqlStatement]:
        return list(self._write())

    def run(self, connection: Connection, insert: Callable[[SqlStatement, Any], object]) -> None:
        """Insert the rows, inside a transaction. `insert` executes a statement with the rows of these numbers.

        Raises what `run_load_data` and `insert` raise.
        """
        if self._load is not None and run_load_data(connection, self._load):
            return
        at = 0
        for statement in self._inserts:
            insert(statement, self._numbers[at : at + statement.rows])
            at += statement.rows
