"""Two servers' tables of one name: rows as text, definitions, and the row that an INSERT without values makes.

Plain SQL; nothing of the product is used. What into-tidb.md documents as different in TiDB is not a difference."""

import json
import re
from collections import Counter
from decimal import Decimal
from typing import Any, Final

import pymysql

from testbed import Server
from tests.integration.sync.year.definitions import in_our_words

TEXTS: Final = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
MEMBERS: Final = ("enum", "set")
BYTES: Final = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "geometry", "point", "vector")
FLOATS: Final = ("float", "double")
NEW: Final = -7
"""The id of the row that is inserted without other values."""

_COLLATION: Final = re.compile(
    r"\b(?:utf8|utf8mb3|utf8mb4|ascii|latin[1257]|gbk|big5|sjis|cp932|ujis|euckr|cp125[017]|cp8\d\d|greek|koi8[ru]|ucs2"
    r"|utf16|utf16le|utf32)_\w+"
)
_IN_TIDB: Final = frozenset(
    {f"{charset}_{one}" for charset in ("utf8mb4", "utf8mb3", "utf8") for one in ("bin", "general_ci", "unicode_ci")}
    | {"utf8mb4_0900_ai_ci", "utf8mb4_0900_bin", "latin1_bin", "ascii_bin", "gbk_bin", "gbk_chinese_ci", "binary"}
)
_REPLACED: Final = {
    "utf8mb4_uca1400_ai_ci": "utf8mb4_0900_ai_ci",
    "utf8mb4_uca1400_nopad_ai_ci": "utf8mb4_0900_ai_ci",
    "utf8mb4_unicode_520_ci": "utf8mb4_0900_ai_ci",
    "utf8mb4_unicode_520_nopad_ci": "utf8mb4_0900_ai_ci",
    "utf8mb4_0900_as_cs": "utf8mb4_0900_bin",
    "utf8mb4_nopad_bin": "utf8mb4_0900_bin",
}
"""The table of docs/how-to/into-tidb.md."""

_SHOWN_OTHERWISE: Final = tuple(
    (re.compile(pattern), becomes)
    for pattern, becomes in (
        (r" INVISIBLE| zerofill| /\*M?!\d+ COMPRESSED\*/", ""),
        (r" (YES|NO) .* (None|[a-z0-9]+_\w+|binary) ", r" \1 \2 "),
        (r"\butf8_", "utf8mb3_"),
        (r" D\b(?=[,)])", " A"),
        (r"\bNULL A\b", "A"),
    )
)
"""What TiDB lacks or shows in other words: the direction of a key's part, an expression in a key."""

Columns = list[tuple[str, str, str]]
"""(name, type, EXTRA)"""


def different(source: Server, target: Server, schema: str, tables: list[str], *, definitions: bool = True) -> list[str]:
    """Return what differs in tables that are of these names on both sides, or of names that begin with one and `_`.

    Without `definitions` only rows are compared.
    """
    found = []
    ours, theirs = (_definitions(server, schema, target, tables) for server in (source, target))
    found += [
        f"{name}: {ours.get(name)} at the source, {theirs.get(name)} in the target"
        for name in sorted(ours.keys() | theirs.keys())
        if definitions and ours.get(name) != theirs.get(name)
    ]
    for name in sorted({one for one in ours if " " not in one and "." not in one and one in theirs}):
        kinds = _columns(source, schema, name), _columns(target, schema, name)
        as_json = {one for columns in kinds for one, kind, _ in columns if kind == "json"}
        here, there = (_rows(server, schema, name, as_json) for server in (source, target))
        if here != there:
            few = {"source": list((here - there).elements())[:2], "target": list((there - here).elements())[:2]}
            found.append(f"{name}: rows differ: {few}")
        new = [_inserted(server, schema, name, as_json) for server in (source, target)]
        year_in_tidb = target.flavour == "tidb" and "year" in {kind for _, kind, _ in kinds[1]}
        if definitions and new[0] != new[1] and not (year_in_tidb and new[0] == "refused"):
            found.append(f"{name}: an INSERT without values: {new[0]} at the source, {new[1]} in the target")
    return found


def columns_of(server: Server, schema: str, table: str) -> list[str]:
    """Return the names of the columns that an INSERT may name."""
    return [name for name, _, extra in _columns(server, schema, table) if "GENERATED" not in extra.split(" ")]


def _columns(server: Server, schema: str, table: str) -> Columns:
    rows = server.sql(
        "SELECT column_name, data_type, extra FROM information_schema.columns "
        "WHERE table_schema = %s AND table_name = %s",
        [schema, table],
    )
    return sorted((str(name), str(kind).lower(), str(extra)) for name, kind, extra in rows)


def _cell(name: str, kind: str, as_json: set[str]) -> str:
    if name in as_json or kind in TEXTS:
        return f"CONVERT(`{name}` USING utf8mb4)"
    if kind in MEMBERS:
        return f"CONCAT(`{name}` + 0, ' ', CONVERT(`{name}` USING utf8mb4))"
    if kind in BYTES:
        return f"HEX(`{name}`)"
    if kind in FLOATS:
        return f"`{name}` + 0e0"
    if kind == "bit" or kind.endswith("int"):
        return f"`{name}` + 0"
    return f"CONCAT(`{name}`)"


def _rows(server: Server, schema: str, table: str, as_json: set[str]) -> Counter[str]:
    with server.connect(database=schema, charset="utf8mb4") as connection, connection.cursor() as cursor:
        return _read(cursor, _columns(server, schema, table), table, as_json)


def _read(cursor: Any, columns: Columns, table: str, as_json: set[str], where: str = "") -> Counter[str]:
    cursor.execute("SET time_zone = '+00:00'")
    cells = ", ".join(_cell(name, kind, as_json) for name, kind, _ in columns)
    cursor.execute(f"SELECT {cells} FROM `{table}` {where}")
    return Counter(
        " ".join(
            f"{name}={_canonical(value, as_json=name in as_json)}"
            for (name, *_), value in zip(columns, row, strict=True)
        )
        for row in cursor.fetchall()
    )


def _canonical(value: Any, *, as_json: bool) -> str:
    if as_json and value is not None:
        try:
            return json.dumps(_as_value(json.loads(value)), sort_keys=True)
        except ValueError:
            return repr(value)
    return str(value) if isinstance(value, Decimal) else repr(value)


def _as_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_value(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_as_value(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _inserted(server: Server, schema: str, table: str, as_json: set[str]) -> str:
    """Return the row that INSERT (id) makes, or that it is refused; nothing remains of it, nor in the log."""
    columns = [one for one in _columns(server, schema, table) if "auto_increment" not in one[2].lower()]
    if "id" not in [name for name, *_ in columns]:
        return "not tried"
    with server.connect(database=schema, charset="utf8mb4", autocommit=False) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SET timestamp = 1700000000.5, sql_mode = 'STRICT_TRANS_TABLES', time_zone = '+00:00'")
            try:
                cursor.execute(f"INSERT INTO `{table}` (id) VALUES ({NEW})")
                shown = str(dict(_read(cursor, columns, table, as_json, f"WHERE id = {NEW}")))
            except pymysql.err.Error:
                shown = "refused"
        connection.rollback()
    return shown


def _definitions(server: Server, schema: str, target: Server, tables: list[str]) -> dict[str, str]:
    found = in_our_words(server, schema)
    names = server.sql(
        "SELECT table_name, GROUP_CONCAT(partition_name ORDER BY partition_ordinal_position) "
        "FROM information_schema.partitions WHERE table_schema = %s AND partition_name IS NOT NULL GROUP BY 1",
        [schema],
    )
    found |= {f"{table} partitions": str(text).lower() for table, text in names}
    prefixes = tuple(f"{one}{end}" for one in tables for end in (" ", ".", "_"))
    found = {name: text for name, text in found.items() if name in tables or name.startswith(prefixes)}
    return as_in_tidb(found) if target.flavour == "tidb" else found


def as_in_tidb(found: dict[str, str]) -> dict[str, str]:
    """Return definitions as TiDB has them by its page of the documentation.

    Texts of defaults are left out, as each server pads and rounds them in its way: INSERTs compare them.
    """
    changed = {}
    for name, text in found.items():
        if "FULLTEXT" in text:
            continue
        for pattern, becomes in _SHOWN_OTHERWISE:
            text = pattern.sub(becomes, text)
        text = _COLLATION.sub(lambda one: _collation(one[0]), text)
        is_table = " " not in name and "." not in name
        changed[name] = text.partition(" ")[2] if is_table else text  # its default collation stays as it was
    return changed


def _collation(name: str) -> str:
    if name in _IN_TIDB:
        return name
    if name in _REPLACED:
        return _REPLACED[name]
    if re.search(r"_nopad_|_0900_", name):
        return "utf8mb4_0900_bin"
    by_code_points = f"{name.partition('_')[0]}_bin"
    return by_code_points if by_code_points in _IN_TIDB else "utf8mb4_bin"
