"""What `engine.ddl.conversions` calls the same everywhere is: each conversion on two servers, with the edges of its
values, in a strict session and in one that is not. Each is computed by both, so it is tried in both directions. TiDB is
a target only."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pymysql
import pytest

from airflow_provider_dm.engine.ddl.conversions import column_pairs, computed
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.server import STRICT_TRANS_TABLES, SessionDefaults
from airflow_provider_dm.engine.ddl.server import Server as Upstream
from airflow_provider_dm.engine.ddl.statements import AlterTable
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from testbed import Server
from tests.conftest import FreshSchema

INTEGERS: Final = ("tinyint", "smallint", "mediumint", "int", "bigint")
NUMBERS: Final = (
    *("NULL", "0", "-1", "1", "-128", "127", "255", "-32768", "65535", "8388607", "16777215", "-2147483648"),
    *("4294967295", "-9223372036854775808", "9223372036854775807", "18446744073709551615"),
)
DECIMALS: Final = ("NULL", "0", "-1", "1.005", "-1.005", "0.5", "123456.789", "999999999.999", "-999999999.999")
HALVES: Final = (
    *("NULL", "-0.4", "0.5", "-0.5", "1.5", "-2.5", "0.005", "-0.005", "99999999.995", "1e-30", "-1e-30"),
    *("0.0499999999999999999999999999", "9.99999999949999999999999999", "-9.9999999995", "0.9999999999999999995"),
    *("123456789012345678.0000000005", "-123456789012345678901234567890.12345678901234567895", f"{'9' * 35}.95"),
)
"""They are rounded: away from zero at halves, over words of nine digits, beyond what a double keeps, to 0."""
FLOATS: Final = ("NULL", "0", "0.1", "-1.5", "2.5", "123.456", "16777217", "-3.4e38", "1e-38")
WORDS: Final = ("NULL", "''", "'a'", "'a  '", "' b'", "'é'", "'12'", "'-7x'", "'ÿ€'", "'ABCDEFGH'")
BYTES: Final = ("NULL", "''", "'a  '", "x'00'", "x'00ff'", "x'ff00'", "x'e9'")
SECONDS: Final = (
    "NULL", "'2024-02-29 23:59:59.999999'", "'2024-02-29 12:34:56.5'", "'2024-01-01 00:00:00.499999'",
    "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'", "'0000-00-00 00:00:00'",
)  # fmt: skip
MORE_SECONDS: Final = (*SECONDS, "'1000-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'", "'2024-00-00'")
TIMES: Final = ("NULL", "'-838:59:59'", "'838:59:59'", "'00:00:00.999999'", "'-12:34:56.5'", "'-00:00:01'")
DAYS: Final = ("NULL", "'2024-02-29'", "'1000-01-01'", "'9999-12-31'", "'0000-00-00'", "'2024-00-00'")
LATIN1: Final = tuple(f"_latin1 x'{code:02x}'" for code in range(256))
ENUMS: Final = ("NULL", "'a'", "'b'", "'c '", "''", "'x'")
SETS: Final = ("NULL", "'a'", "'a,c'", "''", "'x'", "'c,b'")

TEXTS: Final = (
    *("char(8)", "char(12)", "varchar(8)", "varchar(20)", "varchar(4)", "varchar(255)"),
    *("tinytext", "text", "mediumtext", "longtext"),
)
STRINGS: Final = (
    *("binary(8)", "binary(12)", "varbinary(8)", "varbinary(20)", "varbinary(4)", "tinyblob", "blob", "longblob"),
)
NULLABLE: Final[dict[str, Sequence[str]]] = {
    "int": NUMBERS,
    "decimal(12,3)": DECIMALS,
    "float": FLOATS,
    "double": FLOATS,
    "varchar(8)": WORDS,
    "char(8)": WORDS,
    "text": WORDS,
    "blob": BYTES,
    "binary(8)": BYTES,
    "datetime(6)": MORE_SECONDS,
    "timestamp": SECONDS,
    "time(6)": TIMES,
    "date": DAYS,
    "year": ("NULL", "0", "1901", "2155"),
    "enum('a','b','c')": ENUMS,
    "set('a','b','c')": SETS,
    "bit(8)": ("NULL", "b'101'"),
}

Conversion = tuple[str, str, Sequence[str]]
"""(type before, type after, the values of the rows)"""
Cell = tuple[int, int]
"""(number of the conversion, number of its value)"""
AT_ONCE: Final = 30
"""Conversions in one table."""


def _all() -> Iterator[Conversion]:
    kinds = [*INTEGERS, *(f"{one} unsigned" for one in INTEGERS), "int(8) zerofill"]
    for old in kinds:
        yield from ((old, new, NUMBERS) for new in (*kinds, "decimal(20,0)", "decimal(25,5)", "decimal(9,2)"))
        yield from ((old, new, NUMBERS) for new in ("varchar(21)", "char(21)", "varchar(3)", "text"))
    for new in ("decimal(12,3)", "decimal(14,5)", "decimal(20,3)", "decimal(11,3)", "decimal(13,3) unsigned"):
        yield "decimal(12,3)", new, DECIMALS
    for new in ("65,20", "37,1", "36,0", "54,18", "10,2", "20,9"):
        yield from (("decimal(65,30)", f"decimal({new}){sign}", HALVES) for sign in ("", " unsigned"))
    yield "float", "double", FLOATS
    for old in TEXTS:
        yield from ((old, new, WORDS) for new in TEXTS)
        yield from (
            (f"{old} CHARACTER SET {one}", f"{old} CHARACTER SET utf8mb4", WORDS) for one in ("utf8mb3", "ascii")
        )
    for new in ("varchar(3) CHARACTER SET utf8mb4", "varchar(1) CHARACTER SET utf8mb4", "text CHARACTER SET utf8mb4"):
        yield "varchar(1) CHARACTER SET latin1", new, LATIN1
    yield "varchar(1) CHARACTER SET utf8mb4", "varchar(1) CHARACTER SET latin1", LATIN1
    for new in ("utf8mb3", "ascii"):
        yield "varchar(8) CHARACTER SET utf8mb4", f"varchar(8) CHARACTER SET {new}", (*WORDS, "'🙂'")
    yield "varchar(8) COLLATE utf8mb4_bin", "varchar(8) COLLATE utf8mb4_general_ci", WORDS
    for old in STRINGS:
        yield from ((old, new, BYTES) for new in STRINGS)
    for clock, values in (("datetime", MORE_SECONDS), ("timestamp", SECONDS), ("time", TIMES)):
        digits = ("", "(3)", "(6)")
        for one in digits:
            yield from ((f"{clock}{one}", f"{clock}{other}", values) for other in digits)
    for old, new in (("timestamp", "datetime"), ("timestamp(3)", "datetime(6)"), ("timestamp(6)", "datetime(6)")):
        yield old, new, SECONDS
    yield from (("date", new, DAYS) for new in ("datetime", "datetime(6)"))
    yield "enum('a','b','c')", "enum('a','b','c','d','e')", ENUMS
    yield "enum('a','b','c')", "enum('x','c','b','d','a')", ENUMS
    yield "enum('b','é','a') CHARACTER SET latin1", "enum('é','a','x','b') CHARACTER SET utf8mb4", (*ENUMS, "'é'")
    yield "enum('a','b','c') CHARACTER SET latin1", "enum('a','b','c','d') CHARACTER SET utf8mb4", ENUMS
    yield "set('a','b','c')", "set('a','b','c','d')", SETS
    yield "bit(8)", "bit(9)", ("NULL", "b'0'", "b'11111111'", "b'101'")
    for kind, rows in NULLABLE.items():
        yield kind, f"{kind} NOT NULL", rows


UNLIKE: Final = (
    "datetime(6) → date", "datetime(6) → datetime", "datetime → timestamp", "timestamp(6) → datetime",
    "timestamp(6) → date", "date → timestamp",
    "time → datetime", "varchar(9) → int", "varbinary(9) → int", "varchar(9) → date", "varchar(9) → decimal(5,2)",
    "int(8) zerofill → varchar(20)", "int → float", "float → decimal(20,3)", "double → float", "double → int",
    "float(5,2) → double", "decimal(12,3) → double", "enum('a','') → enum('','a')",
    "enum('a','b') → enum('a')", "enum('a','b') → varchar(9)", "set('a','b') → set('b','a')", "varchar(9) → char(9)",
    "varchar(9) → varbinary(40)",
    "varchar(9) CHARACTER SET gbk → varchar(9) CHARACTER SET utf8mb4", "blob → text", "varbinary(9) → binary(9)",
    "bit(8) → int", "bit(9) → bit(8)", "year → int", "int → json", "varchar(9) → json", "date → year",
)  # fmt: skip
"""Conversions that no session may execute."""
LOSSY: Final = (
    "int → smallint", "int → int unsigned", "int unsigned → int", "varchar(9) → varchar(8)", "text → varchar(9)",
    "varbinary(9) → varbinary(8)", "varchar(9) CHARACTER SET utf8mb4 → varchar(9) CHARACTER SET latin1",
    "decimal(12,3) → decimal(11,3)", "decimal(12,3) → decimal(11,2)", "longtext → text", "tinytext → varchar(63)",
    "text CHARACTER SET latin1 → text CHARACTER SET utf8mb4", "varchar(9) → tinytext NOT NULL COLLATE utf8mb4_bin",
)  # fmt: skip
"""Conversions whose values a strict session has shown to fit; all but the last, which fits anyway."""

REFUSED_BY_TIDB: Final = (
    "char(8) CHARACTER SET ascii → char(8) CHARACTER SET utf8mb4", "int → int NOT NULL",
    "text CHARACTER SET utf8mb4 → text CHARACTER SET ascii", "text CHARACTER SET utf8mb4 → text CHARACTER SET latin1",
    "char(8) CHARACTER SET utf8mb4 → char(8) CHARACTER SET utf8mb3",
)  # fmt: skip
"""In every session, whatever the rows: the task stops there."""


def verdict(old: str, new: str, *, strict: bool) -> str | None:
    """Return what `computed` finds of `ALTER TABLE t MODIFY c`."""
    name, session = TableName("s", "t"), SessionDefaults(STRICT_TRANS_TABLES * strict, None, True)
    create = f"CREATE TABLE t (id int PRIMARY KEY, c {old}{'' if 'NULL' in old else ' NULL'})"
    before = Tracker.of(Upstream(Flavour.MYSQL, (9, 7)), {name: create}, {"s": "utf8mb4_0900_ai_ci"})
    statement = parse(f"ALTER TABLE t MODIFY c {new}{'' if 'NULL' in new else ' NULL'}", 0, "s")
    assert isinstance(statement, AlterTable)
    behind = before.after(statement, session)
    pairs = column_pairs(before.definition(name), behind.definition(name), statement.specs)
    found = [computed(pair, strict=strict) for pair in pairs]
    return found[-1]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("text", UNLIKE)
def test_other_conversions_are_not_called_the_same(text: str, strict: bool) -> None:
    old, new = text.split(" → ")
    assert verdict(old, new, strict=strict) is not None


def test_a_strict_session_rejects_values_that_do_not_fit() -> None:
    verdicts = {text: [verdict(*text.split(" → "), strict=one) is None for one in (True, False)] for text in LOSSY}
    last = verdicts.pop(LOSSY[-1])
    assert set(map(tuple, verdicts.values())) == {(True, False)}
    assert last == [True, True]


@pytest.mark.server
@pytest.mark.parametrize("strict", [True, False], ids=["strict", "loose"])
def test_conversions_listed_as_equal_are_equal(
    strict: bool, mariadb_source: Server, mysql_source: Server, schema: str
) -> None:
    compare(mariadb_source, mysql_source, schema, strict=strict)


@pytest.mark.server
@pytest.mark.parametrize("strict", [True, False], ids=["strict", "loose"])
def test_a_conversion_is_equal_in_tidb_or_refused(
    strict: bool, source: Server, tidb_target: Server, fresh_schema: FreshSchema
) -> None:
    """Or TiDB refuses it."""
    schema = fresh_schema(source, tidb_target)
    for number, text in enumerate(REFUSED_BY_TIDB):
        old, new = text.split(" → ")
        tidb_target.sql(f"CREATE TABLE r{number} (c {old}); INSERT INTO r{number} VALUES (NULL)", database=schema)
        with pytest.raises(pymysql.err.Error, match=r"Unsupported modify charset|Data truncated"):
            tidb_target.sql(f"SET sql_mode = ''; ALTER TABLE r{number} MODIFY c {new}", database=schema)
    compare(
        source, tidb_target, schema, strict=strict, leave_out=r"ascii →|utf8mb4 → .*(ascii|latin1|utf8mb3)|NOT NULL"
    )


def compare(one: Server, other: Server, schema: str, *, strict: bool, leave_out: str = "-") -> None:
    """A value that a server refuses in a strict session is left out: a target that refuses it stops the task."""
    tried = [one for one in _all() if verdict(one[0], one[1], strict=strict) is None]
    tried = [one for one in tried if not re.search(leave_out, " → ".join(one[:2]))]
    if strict:
        tried = [one for one in tried if "NOT NULL" not in one[1]]
    assert len(tried) > (250 if strict else 150)
    wrong, compared = [], 0
    for at in range(0, len(tried), AT_ONCE):
        group = tried[at : at + AT_ONCE]
        refused: set[Cell] = set()
        before, after = _converted(one, schema, group, refused, strict=strict)
        other_before, other_after = _converted(other, schema, group, refused, strict=strict)
        for cell in other_after.keys() - refused:
            if before[cell] != other_before[cell]:
                continue  # it was written in two ways already
            compared += 1
            if after[cell] != other_after[cell]:
                wrong.append((group[cell[0]][:2], group[cell[0]][2][cell[1]], after[cell], other_after[cell]))
    assert wrong == []
    assert compared > 5 * len(tried)


def _converted(
    server: Server, schema: str, group: Sequence[Conversion], refused: set[Cell], *, strict: bool
) -> tuple[dict[Cell, str | None], dict[Cell, str | None]]:
    """Return the values of all cells before one ALTER TABLE that makes these conversions, and after it.

    Cells that are `refused` are emptied; those that this server refuses are added.
    """
    mode = "STRICT_TRANS_TABLES," * strict + ("TIME_ROUND_FRACTIONAL" if server.flavour == "mariadb" else "")
    height = max(len(values) for *_, values in group)
    columns = ", ".join(f"c{number} {old} NULL" for number, (old, *_) in enumerate(group))
    changes = [
        f"MODIFY c{number} {new}{'' if 'NOT NULL' in new else ' NULL'}" for number, (_, new, _) in enumerate(group)
    ]
    with server.connect(database=schema) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00', timestamp = 1700000000, sql_mode = 'ALLOW_INVALID_DATES'")
        cursor.execute("DROP TABLE IF EXISTS t")
        cursor.execute(f"CREATE TABLE t (id int PRIMARY KEY, {columns})")
        for row in range(height):
            cells = ", ".join(values[row] if row < len(values) else "NULL" for *_, values in group)
            cursor.execute(f"INSERT INTO t VALUES ({row}, {cells if server.flavour != 'tidb' else in_utf8(cells)})")
        before = _cells(cursor, group)
        for number, row in refused:
            cursor.execute(f"UPDATE t SET c{number} = NULL WHERE id = {row}")
        while not _alters(cursor, changes, mode, refused):
            pass
        return before, _cells(cursor, group)


def in_utf8(cells: str) -> str:
    """Return literals for TiDB, where an introducer does not convert, and latin1 is UTF-8."""
    return re.sub(r"_latin1 x'(..)'", lambda found: f"x'{_of_latin1(found[1]).encode().hex()}'", cells)


def _of_latin1(code: str) -> str:
    """Return the character: the servers' latin1 is cp1252, with control characters where that has none."""
    byte = bytes.fromhex(code)
    return byte.decode("latin1" if byte in b"\x81\x8d\x8f\x90\x9d" else "cp1252")


def _alters(cursor: Any, changes: Sequence[str], mode: str, refused: set[Cell]) -> bool:
    """Return True if the server takes the changes; else empty the cell that it refuses."""
    cursor.execute("SET sql_mode = %s", [mode])
    try:
        cursor.execute(f"ALTER TABLE t {', '.join(changes)}")
    except pymysql.err.Error as error:
        found = re.search(r"column '?(?:`\w+`\.`t`\.)?[`']?c(\d+)[`']?'? at row (\d+)", str(error))
        if found is None:
            raise
        cell = int(found[1]), int(found[2]) - 1
        if cell in refused:
            raise
        refused.add(cell)
        cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES'")
        cursor.execute(f"UPDATE t SET c{cell[0]} = NULL WHERE id = {cell[1]}")
        return False
    return True


def _cells(cursor: Any, group: Sequence[Conversion]) -> dict[Cell, str | None]:
    shown = ", ".join(f"HEX({_shown(number, *one[:2])})" for number, one in enumerate(group))
    cursor.execute(f"SELECT {shown} FROM t ORDER BY id")
    rows = cursor.fetchall()
    return {(number, row): rows[row][number] for number, (*_, values) in enumerate(group) for row in range(len(values))}


def _shown(number: int, old: str, new: str) -> str:
    """Return an expression that each server shows alike, whatever it stores text in, and fills up with zeros."""
    if "latin1" in old + new:
        return f"CONVERT(c{number} USING utf8mb4)"
    return f"CONCAT(c{number} + 0)" if "zerofill" in old + new else f"CONCAT(c{number})"
