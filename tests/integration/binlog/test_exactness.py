"""The same cell is the same bytes by SELECT and from the binlog, and its literal makes the same cell elsewhere.

Every edge value and a few hundred random rows of every supported type, from both flavours to both flavours."""

import random
from typing import Final

import pytest

from airflow_provider_dm.engine.mysql.connection import Connection, query, text
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.codec import Row, row_literals
from airflow_provider_dm.engine.schema.model import Table
from testbed import Server
from tests.integration.binlog.reading import FreshSchema, definition, here, logged, raw_rows, session

SEED: Final = 20_260
RANDOM_ROWS: Final = 150

NINES: Final = "9" * 35 + "." + "9" * 30
EVERY_BYTE: Final = "x'" + bytes(range(256)).hex() + "'"
LATIN1: Final = "_latin1 x'" + bytes([*range(1, 128), *range(128, 256)]).hex() + "'"

# type -> its edge values, as SQL
TYPES: Final[dict[str, list[str]]] = {
    "tinyint": ["-128", "127", "0"],
    "tinyint unsigned": ["255", "128"],
    "smallint": ["-32768", "32767"],
    "smallint unsigned": ["65535"],
    "mediumint": ["-8388608", "8388607", "-1"],
    "mediumint unsigned": ["16777215", "8388608"],
    "int": ["-2147483648", "2147483647"],
    "int(10) unsigned zerofill": ["4294967295", "7", "0"],
    "bigint": ["-9223372036854775808", "9223372036854775807"],
    "bigint unsigned": ["18446744073709551615", "9223372036854775808"],
    "decimal(65,30)": [f"-{NINES}", NINES, "0", "-0.000000000000000000000000000001", "12345678901234567890.5"],
    "decimal(5,0)": ["-99999", "0", "7"],
    "decimal(30,30)": ["0.123456789012345678901234567890", "-0.000000000000000000000000000001"],
    "decimal(18,9)": ["-123456789.123456789", "999999999.999999999", "0.000000001"],
    "decimal(10,2) zerofill": ["1.5", "0", "0.05"],
    "float": ["0.1", "3.4028234663852886e38", "-3.4028234663852886e38", "1.401298464324817e-45", "16777217", "-0.0e0"],
    "float(9,3) zerofill": ["1.5", "0.001"],
    "double": ["0.1", "1.7976931348623157e308", "5e-324", "2.2250738585072014e-308", "9007199254740993e0", "-0.0e0"],
    "double(20,4)": ["1.23456", "-99999.9999"],
    "bit(1)": ["b'1'", "b'0'"],
    "bit(9)": ["x'01ff'", "x'0001'"],
    "bit(64)": ["x'ffffffffffffffff'", "x'0000000000000001'", "0"],
    "year": ["'0000'", "1901", "2155"],
    "date": ["'0000-00-00'", "'2020-00-10'", "'2020-05-00'", "'1000-01-01'", "'9999-12-31'", "'2021-02-30'"],
    "datetime": ["'0000-00-00'", "'2020-00-10 23:59:59'", "'9999-12-31 23:59:59'", "'0001-01-01'"],
    "datetime(1)": ["'2020-01-01 00:00:00.9'"],
    "datetime(3)": ["'2020-01-01 00:00:00.120'", "'0000-00-00'"],
    "datetime(6)": ["'2020-01-01 00:00:00.000001'", "'9999-12-31 23:59:59.999999'"],
    "timestamp null": ["'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'", "'2024-03-31 01:30:00'", "'0000-00-00'"],
    "timestamp(2) null": ["'2024-10-27 00:30:00.25'", "'2024-10-27 01:30:00.25'"],
    "timestamp(5) null": ["'1970-01-01 00:00:01.00001'", "'2038-01-19 03:14:07.99999'", "'0000-00-00'"],
    "time": ["'-838:59:59'", "'838:59:59'", "'00:00:00'", "'-00:00:01'"],
    "time(1)": ["'-00:00:00.1'", "'-838:59:58.9'"],
    "time(4)": ["'-00:00:00.0001'", "'25:00:00.5'"],
    "time(6)": ["'-00:00:00.000001'", "'-01:00:00'", "'838:59:58.999999'", "'-00:00:01.5'"],
    "char(10)": ["'a  '", "''", "' '", r"'\'\\'", "'😀é'", "'NULL'"],
    "char(255)": ["repeat('😀', 255)", "'x'"],
    "char(100) character set latin1": [f"substr({LATIN1}, 120, 100)", "'€'", "''"],
    "varchar(63)": ["'a  '", "''", "' '", r"'\0\n\'\"\\%_'", "repeat('😀', 63)"],
    "varchar(300) character set latin1": [LATIN1, "repeat('a', 300)", "'€'"],
    "varchar(20) character set ascii": ["'abc'", "''"],
    "varchar(20) character set utf8mb3": ["'é€'", "''"],
    "varchar(20) character set utf8mb4 collate utf8mb4_bin": ["'A  '", "'a'"],
    "tinytext": ["''", "repeat('a', 255)"],
    "text": ["repeat('é', 32767)", "''"],
    "text character set latin1": [LATIN1],
    "mediumtext": ["repeat('😀', 70000)"],
    "longtext": ["'NULL'", "''"],
    "binary(5)": ["x'0100'", "''", "x'0000000000'", "'ab'", "x'2020'", "x'6120000020'"],
    "binary(255)": ["x'00ff00'"],
    "varbinary(10)": ["x'0100'", "''", "x'00'"],
    "varbinary(300)": [EVERY_BYTE, "repeat(x'00', 300)"],
    "tinyblob": ["x'ff'"],
    "blob": ["''", EVERY_BYTE, "repeat('a', 65535)"],
    "mediumblob": ["repeat(x'ff', 70000)"],
    "longblob": ["x'5c27'"],
    r"enum('a','it''s','b\\c','n\nl','','x,y','é')": ["'a'", "'it''s'", r"'b\\c'", r"'n\nl'", "''", "'x,y'", "'é'"],
    "enum(" + ",".join(f"'m{number}'" for number in range(300)) + ")": ["'m0'", "'m255'", "'m299'"],
    "enum('é','€') character set latin1": ["'é'", "'€'"],
    "set('a','b','ü''x')": ["'a,b'", "''", "'ü''x'", "'a,b,ü''x'"],
    "set(" + ",".join(f"'s{number}'" for number in range(64)) + ")": ["'s0,s63'", "''", "'s31,s32'"],
}
COLUMNS: Final = {f"c{number}": kind for number, kind in enumerate(TYPES)}
DDL: Final = "(id int primary key auto_increment, " + ", ".join(f"{n} {kind}" for n, kind in COLUMNS.items()) + ")"


def insert_edges(connection: Connection, name: TableName) -> None:
    """Each edge value of each type at least once, then random mixtures with NULLs."""
    dice = random.Random(SEED)
    edges = max(len(values) for values in TYPES.values())
    rows = [[values[turn % len(values)] for values in TYPES.values()] for turn in range(edges)]
    rows.append(["NULL"] * len(TYPES))
    rows += [[dice.choice([*values, "NULL"]) for values in TYPES.values()] for _ in range(30)]
    with connection.cursor() as cursor:
        for row in rows:
            cursor.execute(f"INSERT INTO {name.quoted()} ({', '.join(COLUMNS)}) VALUES ({', '.join(row)})")


def random_values(dice: random.Random) -> dict[str, str]:
    """Type -> a random value as SQL, for the types where edges are not the whole story."""
    pick = dice.randint
    clock = f"{pick(0, 59)}:{pick(0, 59)}.{pick(0, 999_999):06d}"
    letters = [pick(0, 127), pick(0xA0, 0xD7FF), pick(0x10000, 0x10FFFF)]
    word = "".join(chr(dice.choice(letters)) for _ in range(pick(0, 63)))

    def some_bytes(most: int) -> str:
        return f"x'{dice.randbytes(pick(0, most)).hex()}'"

    return {
        "decimal(65,30)": f"{pick(-(10**65) + 1, 10**65 - 1)}e-30",
        "decimal(18,9)": f"{pick(-(10**18) + 1, 10**18 - 1)}e-9",
        "double": repr(dice.uniform(-1, 1) * 10.0 ** pick(-300, 300)),
        "float": repr(dice.uniform(-1, 1) * 10.0 ** pick(-37, 37)),
        "bigint unsigned": str(dice.getrandbits(64)),
        "bit(64)": str(dice.getrandbits(64)),
        "datetime(6)": f"'{pick(1, 9999):04d}-{pick(1, 12)}-{pick(1, 28)} {pick(0, 23)}:{clock}'",
        "timestamp(5) null": f"from_unixtime({pick(1, 2**31 - 1)}.{pick(0, 99999):05d})",
        "time(6)": f"'{dice.choice(['', '-'])}{pick(0, 837)}:{clock}'",
        "varchar(63)": f"x'{word.encode().hex()}'",
        "varchar(300) character set latin1": some_bytes(300),
        "binary(5)": some_bytes(5),
        "varbinary(300)": some_bytes(300),
        "blob": some_bytes(2000),
    }


def insert_random(connection: Connection, name: TableName) -> None:
    dice = random.Random(SEED)
    with connection.cursor() as cursor:
        for _ in range(RANDOM_ROWS):
            values = random_values(dice)
            columns = ", ".join(column for column, kind in COLUMNS.items() if kind in values)
            in_order = ", ".join(values[kind] for kind in COLUMNS.values() if kind in values)
            cursor.execute(f"INSERT INTO {name.quoted()} ({columns}) VALUES ({in_order})")


def differences(table: Table, ours: list[Row], theirs: list[Row]) -> list[str]:
    """Readable, as a whole row would not be."""
    found = [f"{len(ours)} rows, not {len(theirs)}"] if len(ours) != len(theirs) else []
    for one, other in zip(ours, theirs, strict=False):
        for column, a, b in zip(table.columns, one, other, strict=True):
            if a != b:
                found.append(f"row {one[0]!r} {column.column_type[:40]}: {a and a[:60]!r} != {b and b[:60]!r}")
    return found


def without_negative_zero(row: Row) -> Row:
    """MariaDB stores no -0.0."""
    return tuple(b"0.0" if value == b"-0.0" else value for value in row)


@pytest.fixture
def cells(source: Server, fresh_schema: FreshSchema) -> tuple[Connection, Table, list[Row], list[Row]]:
    """(connection, table, rows by SELECT, rows from the binlog)."""
    connection = session(source)
    name = TableName(fresh_schema(source), "cells")
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name.quoted()} {DDL}")
    table = definition(connection, name)
    lo = here(connection)
    insert_edges(connection, name)
    insert_random(connection, name)
    changes = logged(source, table, lo, here(connection))
    return connection, table, raw_rows(connection, table), [change.after for change in changes if change.after]


def test_select_and_binlog_agree_and_literals_make_the_same_row(
    source: Server, target: Server, cells: tuple[Connection, Table, list[Row], list[Row]], unique_database: str
) -> None:
    _, table, selected, decoded = cells
    assert differences(table, decoded, selected) == []
    assert len(decoded) > RANDOM_ROWS

    connection = session(target)
    copy = TableName(f"{unique_database}_copy", "cells")
    literals = row_literals(table)
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE `{copy.schema}`")
        cursor.execute(f"CREATE TABLE {copy.quoted()} {DDL}")
        for row in decoded:
            statement = b"INSERT INTO " + copy.quoted().encode() + b" VALUES (" + b",".join(literals(row)) + b")"
            cursor.execute(statement)  # type: ignore[call-overload]  # bytes are sent as they are
    expected = [without_negative_zero(row) for row in decoded] if target.flavour == "mariadb" else decoded
    assert differences(table, raw_rows(connection, definition(connection, copy)), expected) == []


def test_updates_and_deletes_carry_the_same_images(
    source: Server, cells: tuple[Connection, Table, list[Row], list[Row]]
) -> None:
    connection, table, selected, _ = cells
    lo = here(connection)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table.name.quoted()} SET c0 = 1 - coalesce(c0, 0) DIV 2")
    updated = raw_rows(connection, table)
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {table.name.quoted()} ORDER BY id")
    changes = logged(source, table, lo, here(connection))
    updates = [change for change in changes if change.before and change.after]
    deletes = [change.before for change in changes if change.before and change.after is None]
    before = {change.before[0]: change.before for change in updates if change.before}
    after = {change.after[0]: change.after for change in updates if change.after}
    assert all(before[row[0]] == row for row in selected if row[0] in before)
    assert all(after[row[0]] == row for row in updated if row[0] in after)
    assert len(updates) > RANDOM_ROWS // 2
    assert differences(table, [row for row in deletes if row], updated) == []


def test_rows_do_not_depend_on_what_metadata_the_map_carries(source: Server, fresh_schema: FreshSchema) -> None:
    connection = session(source)
    name = TableName(fresh_schema(source), "meta")
    with connection.cursor() as cursor:
        cursor.execute(
            f"CREATE TABLE {name.quoted()} (id INT UNSIGNED PRIMARY KEY, y YEAR, d DECIMAL(5,2) UNSIGNED, f FLOAT, "
            "t TINYINT, e ENUM('a','b'), c CHAR(3) CHARACTER SET latin1)"
        )
        table = definition(connection, name)
        before = text(query(connection, "SELECT @@global.binlog_row_metadata")[0][0])
        try:
            for number, amount in enumerate(["FULL", "MINIMAL", *(["NO_LOG"] if source.flavour == "mariadb" else [])]):
                cursor.execute(f"SET GLOBAL binlog_row_metadata = {amount}")
                lo = here(connection)
                cursor.execute(
                    f"INSERT INTO {name.quoted()} VALUES ({2**32 - 1 - number}, 2000, 1.5, 0.1, -1, 'b', 'x')"
                )
                (change,) = logged(source, table, lo, here(connection))
                assert change.after in raw_rows(connection, table)
        finally:
            cursor.execute(f"SET GLOBAL binlog_row_metadata = {before}")
