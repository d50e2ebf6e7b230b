"""Reads table definitions from a server's catalogue, in a few queries for any number of tables.

Text columns of the catalogue are UTF-8 in any session. MySQL and MariaDB represent generated columns and functional
indexes differently; both become the same `Table`. A table's columns are those of its row images: including invisible
columns, and MySQL's `my_row_id` even if the server is configured to hide it. Columns that no catalogue shows are
counted (`Table.hidden`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

import pymysql
from pymysql.constants import ER

from airflow_provider_dm.engine.errors import InvalidInput, NotSupportedYet
from airflow_provider_dm.engine.mysql.connection import Connection, query, query_whole, server_info, text
from airflow_provider_dm.engine.mysql.errors import IncompleteResult
from airflow_provider_dm.engine.mysql.identifiers import SYSTEM_SCHEMAS, TableName
from airflow_provider_dm.engine.schema.errors import TableNotFound
from airflow_provider_dm.engine.schema.model import Column, Index, Table

_SYSTEM_VERSIONED: Final = "SYSTEM VERSIONED"
_KEEPS_CASE: Final = 2
"""The lower_case_table_names of TiDB: names are stored as they were given, and compared without their case."""
_BATCH: Final = 500  # names in one query: keeps its text far below max_allowed_packet


class _CatalogueQuery(NamedTuple):
    """A query of the catalogue. `source`: FROM and WHERE."""

    columns: str
    source: str
    order: str = ""


_SYSTEM: Final = ", ".join(f"'{name}'" for name in sorted(SYSTEM_SCHEMAS))
OUTSIDE_SYSTEM: Final = f"FROM information_schema.tables WHERE CAST(LOWER(table_schema) AS BINARY) NOT IN ({_SYSTEM})"
"""The tables and views outside of the system schemas. With this condition MariaDB does not open the system tables:
that would take ten times as long."""
_BASE_TABLES: Final = f"{OUTSIDE_SYSTEM} AND table_type IN ('BASE TABLE', '{_SYSTEM_VERSIONED}')"
_VIEWS: Final = f"{OUTSIDE_SYSTEM} AND table_type = 'VIEW'"
_EXIST: Final = _CatalogueQuery("table_schema, table_name, table_type", "FROM information_schema.tables WHERE {names}")
_COLUMNS: Final = _CatalogueQuery(
    "table_schema, table_name, ordinal_position, column_name, data_type, column_type, is_nullable, "
    "character_set_name, collation_name, numeric_precision, numeric_scale, datetime_precision, character_octet_length, "
    "extra, generation_expression, column_default",
    "FROM information_schema.columns WHERE {names}",
    "ORDER BY table_schema, table_name, ordinal_position",
)
_KEYS: Final = _CatalogueQuery(
    "table_schema, table_name, index_name, column_name, sub_part, index_type",
    "FROM information_schema.statistics WHERE non_unique = 0 AND {names}",
    "ORDER BY table_schema, table_name, index_name, seq_in_index",
)
_FOREIGN_KEYS: Final = _CatalogueQuery(
    "table_schema, table_name",
    "FROM information_schema.table_constraints WHERE constraint_type = 'FOREIGN KEY' AND {names}",
)


def list_tables(connection: Connection) -> list[TableName]:
    """Return all base tables outside of the system schemas, sorted. Raises IncompleteResult.

    Views and MariaDB's sequences are left out.
    """
    return sorted(_name(*row) for row in query_whole(connection, "table_schema, table_name", _BASE_TABLES))


def list_views(connection: Connection, schemas: Callable[[str], bool]) -> frozenset[TableName]:
    """Return the views outside of the system schemas. `schemas`: returns True for each schema to search.

    Raises IncompleteResult.
    """
    rows = query_whole(connection, "table_schema, table_name", _VIEWS)
    return frozenset(name for row in rows if schemas((name := _name(*row)).schema))


def existing_tables(connection: Connection, names: Collection[TableName]) -> set[TableName]:
    """Return the names that are base tables, compared as the server compares names.

    Raises InvalidInput, IncompleteResult.
    """
    tables = set(list_tables(connection))
    return {name for name, stored in stored_names(connection, names).items() if stored in tables}


def stored_names(connection: Connection, names: Iterable[TableName]) -> dict[TableName, TableName]:
    """Return the server's spelling of each name, which may differ if the server compares names case-insensitively.

    Raises InvalidInput, IncompleteResult.
    """
    mode = _case_mode(connection)
    fold = name_fold_of(mode)
    wanted = {name: fold(name) for name in names}
    folded: dict[TableName, TableName] = {}
    for name, one in wanted.items():
        if (other := folded.setdefault(one, name)) != name:
            raise InvalidInput(
                f"{other} and {name} are the same table for the server (lower_case_table_names is not 0).",
                "Route one of the source tables to another name, or leave it out by block-allow-list.",
            )
    if mode != _KEEPS_CASE and all(name == one for name, one in wanted.items()):
        return wanted
    spellings = {fold(name): name for name in list_tables(connection)}
    return {name: spellings.get(one, one) for name, one in wanted.items()}


def names_fold(connection: Connection) -> Callable[[TableName], TableName]:
    """Return a function that maps names to equal values if the server treats them as equal (lower_case_table_names).

    Raises IncompleteResult.
    """
    return name_fold_of(_case_mode(connection))


def _case_mode(connection: Connection) -> int:
    rows = query(connection, "SELECT @@global.lower_case_table_names")
    if not rows:
        raise IncompleteResult("@@global.lower_case_table_names", 0, 1)
    return int(rows[0][0])


def name_fold_of(mode: int) -> Callable[[TableName], TableName]:
    """Return the function of `names_fold` for a server with this lower_case_table_names.

    >>> name_fold_of(2)(TableName("Shop", "T")), name_fold_of(0)(TableName("Shop", "T"))
    (TableName(schema='shop', table='t'), TableName(schema='Shop', table='T'))
    """
    return (lambda name: TableName(name.schema.lower(), name.table.lower())) if mode else (lambda name: name)


def has_table(connection: Connection, name: TableName) -> bool:
    """Return True if a table or view of this name exists and the account may see it."""
    sql = "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
    return bool(query(connection, sql, name))


def read_tables(connection: Connection, names: Iterable[TableName]) -> dict[TableName, Table]:
    """Return the definitions of `names`, in their order and spelling, even if the server's spelling differs in case.

    Raises TableNotFound, InvalidInput, IncompleteResult, and NotSupportedYet for a system-versioned table.
    """
    stored = stored_names(connection, dict.fromkeys(names))
    tables: dict[TableName, Table] = {}
    asked = list(stored)
    for start in range(0, len(asked), _BATCH):
        tables |= _read_batch(connection, {name: stored[name] for name in asked[start : start + _BATCH]})
    return {name: tables[name] for name in stored}


def create_statement(connection: Connection, name: TableName) -> str:
    """Return the SHOW CREATE TABLE of a base table. Defaults that are not UTF-8, which MariaDB shows as bytes, are
    written in hexadecimal.
    """
    ((_, shown, *_),) = query(connection, f"SHOW CREATE TABLE {name.quoted()}")
    return text(_DEFAULT.sub(_in_hexadecimal, shown) if isinstance(shown, bytes) else shown)


def create_statement_if_exists(connection: Connection, name: TableName) -> str | None:
    """Return `create_statement`; None if the table does not exist."""
    try:
        return create_statement(connection, name)
    except pymysql.err.MySQLError as error:
        if error.args and error.args[0] in (ER.BAD_DB_ERROR, ER.NO_SUCH_TABLE):
            return None
        raise


_DEFAULT: Final = re.compile(rb" DEFAULT '((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_ESCAPED: Final = re.compile(rb"''|\\(.)", re.DOTALL)
_ESCAPES: Final = {b"0": b"\0", b"n": b"\n", b"r": b"\r"}


def _in_hexadecimal(default: re.Match[bytes]) -> bytes:
    try:
        default[1].decode()
    except UnicodeDecodeError:
        value = _ESCAPED.sub(lambda one: _ESCAPES.get(one[1], one[1]) if one[1] else b"'", default[1])
        return b" DEFAULT 0x" + value.hex().encode()
    return default[0]


def schema_collations(connection: Connection) -> dict[str, str]:
    """Return the default collation of each schema except the system schemas. Raises IncompleteResult."""
    rows = query_whole(connection, "schema_name, default_collation_name", "FROM information_schema.schemata")
    collations = {text(name): text(collation) for name, collation in rows}
    return {name: collation for name, collation in collations.items() if name.lower() not in SYSTEM_SCHEMAS}


def _read_batch(connection: Connection, names: Mapping[TableName, TableName]) -> dict[TableName, Table]:
    """Return the definitions of tables. `names`: name -> the server's spelling."""
    wanted = {stored: name for name, stored in names.items()}

    def select(what: _CatalogueQuery) -> list[tuple[Any, ...]]:
        """Return the rows of exactly these tables, under the given names. The catalogue may return rows of other tables
        as well, whose names differ by case or accents."""
        condition, arguments = named([*wanted])
        rows = query_whole(connection, what.columns, what.source.format(names=condition), arguments, tail=what.order)
        names = (wanted.get(_name(*row[:2])) for row in rows)
        return [(name, *row[2:]) for name, row in zip(names, rows, strict=True) if name is not None]

    _check_kinds(list(names), select(_EXIST))
    columns = _by_table(select(_COLUMNS))
    utf8_alias = _utf8_alias(connection)
    keys = _by_table(select(_KEYS))
    foreign = {name for (name,) in select(_FOREIGN_KEYS)}
    return {
        name: Table(
            name,
            tuple(_column(position, row[1:], utf8_alias) for position, row in enumerate(columns[name])),
            _unique_keys(keys.get(name, []), {text(row[1]).lower() for row in columns[name]}),
            has_foreign_keys=name in foreign,
            hidden=_count_hidden_columns(keys.get(name, [])),
        )
        for name in names
    }


def named(names: Collection[TableName]) -> tuple[str, tuple[str, ...]]:
    """Return a condition that selects the catalogue's rows of these tables, and its arguments.

    MariaDB treats two names that are equal without case or accents as one if the list has no other name, and returns
    only one of the tables. So every list of several names contains the empty name, which no table has.
    """
    asked = (*names, TableName("", "")) if len(names) > 1 else tuple(names)
    condition = "(table_schema, table_name) IN (" + ", ".join(["(%s, %s)"] * len(asked)) + ")"
    return condition, tuple(part for name in asked for part in name)


def _check_kinds(names: list[TableName], rows: list[tuple[Any, ...]]) -> None:
    kinds = {name: text(kind) for name, kind in rows}
    for name in names:
        match kinds.get(name):
            case "BASE TABLE":
                pass
            case "SYSTEM VERSIONED":
                raise NotSupportedYet("a system-versioned table", str(name), "Leave it out by block-allow-list.")
            case _:
                raise TableNotFound(str(name))


def _by_table(rows: list[tuple[Any, ...]]) -> dict[TableName, list[tuple[Any, ...]]]:
    # Not groupby: the server interleaves tables whose names differ in case only.
    tables: defaultdict[TableName, list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        tables[row[0]].append(row[1:])
    return dict(tables)


def _utf8_alias(connection: Connection) -> str | None:
    """Return the other charset whose columns the server stores in UTF-8 (TiDB: latin1); None if there is none."""
    return "latin1" if server_info(connection).capabilities.text_is_utf8 else None


def _column(position: int, row: tuple[Any, ...], utf8_alias: str | None) -> Column:
    """Return a column. `position`: in row images. The catalogue's position has gaps, as MySQL hides some columns."""
    name, data_type, column_type, nullable, charset, collation, precision, scale, fsp, octets, *more = row
    extra, expression, default = more
    charset = _optional_text(charset)
    extras = text(extra or b"").upper()
    auto_increment = "AUTO_INCREMENT" in extras
    return Column(
        name=text(name),
        position=position,
        data_type=text(data_type).lower(),
        column_type=text(column_type),
        nullable=text(nullable) == "YES",
        charset="utf8mb4" if charset is not None and charset == utf8_alias else charset,
        collation=_optional_text(collation),
        numeric_precision=_optional_int(precision),
        numeric_scale=_optional_int(scale),
        datetime_precision=_optional_int(fsp),
        octet_length=_optional_int(octets),
        # MySQL shows DEFAULT_GENERATED for an expression as default; that is not a generated column.
        generated=bool(expression) or "VIRTUAL GENERATED" in extras or "STORED GENERATED" in extras,
        invisible="INVISIBLE" in extras,
        expression=text(expression or b""),
        # NULL if there is no default; for a nullable column MariaDB has the text "NULL".
        filled=auto_increment or (default is not None and text(default) != "NULL"),
        auto_increment=auto_increment,
    )


def _unique_keys(rows: list[tuple[Any, ...]], names: Collection[str]) -> tuple[Index, ...]:
    # Not groupby: the server treats `a` and `ä` as one name and interleaves their rows.
    parts: defaultdict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        parts[text(row[0])].append(row)
    keys = [_index(name, found, names) for name, found in parts.items()]
    return tuple(sorted(keys, key=lambda key: (not key.primary, key.name)))


def _count_hidden_columns(rows: list[tuple[Any, ...]]) -> int:
    """Return the number of hidden columns: MariaDB has a hash for each unique key that is longer than an index."""
    return len({text(name) for name, _, _, kind in rows if text(kind) == "HASH"})


def _index(name: str, rows: list[tuple[Any, ...]], names: Collection[str]) -> Index:
    # For an expression the catalogue has no column name, and in TiDB the text "NULL".
    known = ((text(column or b""), _optional_int(prefix)) for _, column, prefix, _ in rows)
    columns = [(column, prefix) for column, prefix in known if column.lower() in names]
    return Index(
        name=name,
        columns=tuple(column for column, _ in columns),
        prefixes=tuple(prefix for _, prefix in columns),
        expression=len(columns) < len(rows),
    )


def _name(schema: bytes, table: bytes) -> TableName:
    return TableName(text(schema), text(table))


def _optional_text(value: bytes | None) -> str | None:
    return None if value is None else text(value)


def _optional_int(value: Any) -> int | None:
    return None if value is None else int(value)
