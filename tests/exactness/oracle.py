"""The values of a table's cells according to the servers: plain SQL, no code of the product.

Text, binary strings and all that is one are their bytes in hexadecimal, in the column's own charset, or all text in
UTF-8 (for a server that has it so); ENUM and SET also their number; documents their text, or their value; floating
point what comes back from all its digits."""

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from testbed import Server

Cells = list[tuple[bytes | None, ...]]

INTEGERS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
TIMES: Final = frozenset({"year", "date", "time", "datetime", "timestamp"})
NUMBERS: Final = INTEGERS | {"decimal"}
PLAIN: Final = NUMBERS | TIMES | {"uuid", "inet4", "inet6"}
FLOATS: Final = frozenset({"float", "double"})


def expression(name: str, data_type: str, *, as_utf8: bool) -> str:
    shown = f"hex(convert({name} using utf8mb4))" if as_utf8 else f"hex({name})"
    if as_utf8 and data_type in NUMBERS:  # TiDB shows no zeros of ZEROFILL, and its CAST cuts decimal(9,9)
        return f"{name} + 0"
    if data_type in PLAIN:
        return f"cast({name} as char)"
    if data_type in FLOATS:
        return f"{name} * 1e0"
    if data_type == "enum" or (data_type == "set" and not as_utf8):  # TiDB's number of 64 members goes through a double
        return f"concat(cast({name} as unsigned), ':', {shown})"
    return shown


def columns(server: Server, schema: str, table: str) -> list[tuple[str, str, bool]]:
    """(name, data type, is text) in order."""
    rows = server.sql(
        "SELECT column_name, data_type, coalesce(character_set_name, 'binary') <> 'binary' "
        "FROM information_schema.columns "
        "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
        (schema, table),
    )
    return [(str(name), str(kind).lower(), bool(text)) for name, kind, text in rows]


def cells(
    server: Server, schema: str, table: str, *, documents: frozenset[str] = frozenset(), as_utf8: bool = False
) -> Cells:
    """All rows in the order of the first column. `documents`: columns that hold JSON, as JSON or as text. `as_utf8`:
    all text is shown in UTF-8, and of documents the value, with decimal numbers as doubles (TiDB has no others)."""
    found = columns(server, schema, table)
    shown = ", ".join(
        expression(f"`{name}`", kind, as_utf8=name in documents or (as_utf8 and (text or kind in NUMBERS)))
        for name, kind, text in found
    )
    options: dict[str, Any] = {"use_unicode": False, "conv": {}, "autocommit": None}
    with server.connect(database=schema, **options) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
        cursor.execute(f"SELECT {shown} FROM `{table}` ORDER BY {found[0][0]}")
        floating = {index: _double for index, (_, kind, _) in enumerate(found) if kind in FLOATS}
        values = {index: _value for index, (name, _, _) in enumerate(found) if as_utf8 and name in documents}
        return [_exact(row, floating | values) for row in cursor.fetchall()]


def without_minus_zero(rows: Cells) -> Cells:
    """The rows as MariaDB and TiDB store them."""
    return [tuple(b"0x0.0p+0" if cell == b"-0x0.0p+0" else cell for cell in row) for row in rows]


def _exact(row: tuple[bytes | None, ...], shapes: Mapping[int, Callable[[bytes], bytes]]) -> tuple[bytes | None, ...]:
    return tuple(
        shapes[index](cell) if cell is not None and index in shapes else cell for index, cell in enumerate(row)
    )


def _double(cell: bytes) -> bytes:
    return float(cell).hex().encode()


def _value(cell: bytes) -> bytes:
    document = json.loads(bytes.fromhex(cell.decode()), parse_int=_number)
    return json.dumps(document, sort_keys=True).encode()


def _number(digits: str) -> int | float:
    """An integer, unless its digits are those of a double."""
    number = float(digits)
    is_double = Decimal(repr(number)) == Decimal(digits) or not -(2**63) <= int(digits) < 2**64
    return number if is_double else int(digits)
