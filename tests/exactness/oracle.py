"""What the servers themselves say of a table's cells: plain SQL, no line of the product.

Text, binary strings and all that is one are their bytes in hexadecimal, in the column's own charset; ENUM and SET also
their number; documents their text; floating point what comes back from all its digits."""

from typing import Any, Final

from testbed import Server

Cells = list[tuple[bytes | None, ...]]

INTEGERS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
TIMES: Final = frozenset({"year", "date", "time", "datetime", "timestamp"})
PLAIN: Final = INTEGERS | TIMES | {"decimal", "uuid", "inet4", "inet6"}
FLOATS: Final = frozenset({"float", "double"})


def expression(name: str, data_type: str, *, json: bool) -> str:
    if json:
        return f"hex(convert({name} using utf8mb4))"
    if data_type in PLAIN:
        return f"cast({name} as char)"
    if data_type in FLOATS:
        return f"{name} * 1e0"
    if data_type in ("enum", "set"):
        return f"concat(cast({name} as unsigned), ':', hex({name}))"
    return f"hex({name})"


def columns(server: Server, schema: str, table: str) -> list[tuple[str, str]]:
    """(name, data type) in order."""
    rows = server.sql(
        "SELECT column_name, data_type FROM information_schema.columns "
        "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
        (schema, table),
    )
    return [(str(name), str(kind).lower()) for name, kind in rows]


def cells(server: Server, schema: str, table: str, *, documents: frozenset[str] = frozenset()) -> Cells:
    """All rows in the order of the first column. `documents`: columns that hold JSON, as JSON or as text."""
    found = columns(server, schema, table)
    shown = ", ".join(expression(f"`{name}`", kind, json=name in documents) for name, kind in found)
    options: dict[str, Any] = {"use_unicode": False, "conv": {}, "autocommit": None}
    with server.connect(database=schema, **options) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
        cursor.execute(f"SELECT {shown} FROM `{table}` ORDER BY {found[0][0]}")
        floating = [index for index, (_, kind) in enumerate(found) if kind in FLOATS]
        return [_exact(row, floating) for row in cursor.fetchall()]


def _exact(row: tuple[bytes | None, ...], floating: list[int]) -> tuple[bytes | None, ...]:
    exact = list(row)
    for index in floating:
        cell = exact[index]
        exact[index] = None if cell is None else float(cell).hex().encode()
    return tuple(exact)
