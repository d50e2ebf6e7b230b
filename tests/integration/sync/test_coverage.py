"""The border of a table that is covered in part lies where its server has it, for every type that a page is read by."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest

from airflow_provider_dm.engine.binlog.changes import RowChange
from airflow_provider_dm.engine.copy.page import PageReader
from airflow_provider_dm.engine.downstream.copy_progress import ChunkProgress
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading import key_comparison
from airflow_provider_dm.engine.reading.keyset import KeyOrder, write_key
from airflow_provider_dm.engine.reading.source_session import read, source_connection
from airflow_provider_dm.engine.schema.catalogue import read_tables
from airflow_provider_dm.engine.schema.codec import Row, row_reader
from airflow_provider_dm.engine.sync.coverage import ALL, NONE, CoverageFilter, coverages
from testbed import Server
from tests.before import before
from tests.conftest import FreshSchema
from tests.jobs import endpoint

WORDS = (
    *("", "a", "A", "a ", "A  ", "ab", "a\t", "a b", "á", "ä", "ae", "b", "B", "ss", "ß", "SS", "straße", "strasse"),
    *(
        "z",
        "Z",
        "å",
        "ø",
        "ch",
        "cz",
        "ll",
        "ñ",
        "n",
        "o'b",
        "\\",
        "0",
        "1",
        "10",
        "9",
        "-",
        "_",
        "~",
        "é",
        "e",
        "中",
        "文",
    ),
)
NUMBERS = ("0", "1", "2", "9", "10", "99", "100", "127", "2147483647")
DATES = ("1970-01-02 00:00:00", "2000-01-01 00:00:00.5", "2000-01-01 00:00:00.25", "2037-12-31 23:59:59.999999")
TIMES = ("-838:59:59", "-100:00:00", "-00:00:01", "-00:00:00.5", "00:00:00", "00:00:00.05", "99:59:59", "100:00:00")
BYTES = ("", "a", "b", "a\0", "a\0b", "A", "\0", "z")
UUIDS = tuple(
    f"{a}-{b}-4{b[1:]}-8abc-{c}"
    for a, b, c in product(("00000001", "ffffffff"), ("0001", "f001"), ("0" * 12, "f" * 12))
)

VALUES: dict[str, tuple[str, ...]] = {
    "bigint unsigned": (*NUMBERS, "9223372036854775807", "9223372036854775808", "18446744073709551615"),
    "bigint": (*NUMBERS, "-1", "-2", "-10", "-9223372036854775808"),
    "int(9) unsigned zerofill": NUMBERS,
    "decimal(30,10)": (*NUMBERS, "-1", "-0.5", "-0.0000000001", "0.0000000001", "0.1", "0.09", "1e19"),
    "decimal(65,0)": ("9" * 65, "9" * 64, "-" + "9" * 65, "1", "0"),
    "datetime(6)": (*DATES, "0001-01-01", "9999-12-31 23:59:59.999999"),
    "timestamp(2) DEFAULT '2000-01-01'": DATES,
    "date": ("0001-01-01", "1999-12-31", "2000-01-01", "9999-12-31"),
    "time(2)": TIMES,
    "year": ("1901", "1999", "2155", "0"),
    "binary(3)": BYTES,
    "varbinary(9)": BYTES,
    **{
        f"{kind} CHARACTER SET {collation.split('_')[0]} COLLATE {collation}": WORDS
        for kind, collation in product(
            ("varchar(20)", "char(10)"),
            ("utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_bin", "utf8mb3_danish_ci", "latin1_german2_ci"),
        )
    },
    **{
        f"varchar(20) CHARACTER SET {collation.split('_')[0]} COLLATE {collation}": WORDS
        for collation in ("latin1_swedish_ci", "ascii_bin", "gbk_chinese_ci", "utf16_spanish2_ci", "utf32_general_ci")
    },
}
"""Values of one key column, by its type; those that the server holds equal to another one are not in the table."""
OF_MYSQL: dict[str, tuple[str, ...]] = {
    f"{kind} CHARACTER SET utf8mb4 COLLATE {collation}": WORDS
    for kind, collation in product(
        ("varchar(20)", "char(10)"),
        ("utf8mb4_0900_ai_ci", "utf8mb4_0900_as_cs", "utf8mb4_0900_bin", "utf8mb4_es_trad_0900_ai_ci"),
    )
}
OF_MARIADB: dict[str, tuple[str, ...]] = {
    "uuid": UUIDS,
    "inet4": ("0.0.0.0", "9.0.0.1", "10.0.0.1", "100.0.0.1", "255.255.255.255"),
    "inet6": ("::", "::1", "9::", "10::", "ffff::", "::ffff:1.2.3.4"),
    **{
        f"{kind} CHARACTER SET utf8mb4 COLLATE utf8mb4_{collation}": WORDS
        for kind, collation in (
            ("varchar(20)", "nopad_bin"),
            ("varchar(20)", "general_nopad_ci"),
            ("varchar(20)", "uca1400_ai_ci"),
            ("char(10)", "uca1400_ai_ci"),
        )
    },
}
PAIRS = (
    ("int", "varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"),
    ("varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci", "decimal(5,2)"),
    (
        "varchar(20) CHARACTER SET latin1 COLLATE latin1_german2_ci",
        "varchar(20) CHARACTER SET gbk COLLATE gbk_chinese_ci",
    ),
    ("time(1)", "varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"),
)
FEW: dict[str, tuple[str, ...]] = {
    "int": ("-1", "0", "10"),
    "time(1)": ("-00:00:01", "00:00:00", "100:00:00"),
    "decimal(5,2)": ("-1", "0.5", "10"),
}
FEW_WORDS = ("a", "A ", "ä", "ae", "ß", "ss", "b")


class Keys:
    """A table `every` with all values, and a table `t` whose key is made of them: of equal values it has the first."""

    def __init__(self, server: Server, schema: str, kinds: Sequence[str], values: Sequence[Sequence[str]]) -> None:
        self.server, self.schema = server, schema
        self.source = endpoint("source-01", server)
        self.names = [f"k{number}" for number in range(len(kinds))]
        columns = ", ".join(f"{name} {kind} NOT NULL" for name, kind in zip(self.names, kinds, strict=True))
        rows = ", ".join(f"({', '.join(map(_literal, row))})" for row in product(*values))
        keys = ", ".join(self.names)
        server.sql(
            f"SET sql_mode = ''; DROP TABLE IF EXISTS t, every; "
            f"CREATE TABLE every ({columns}, n INT AUTO_INCREMENT PRIMARY KEY); "
            f"CREATE TABLE t ({columns}, n INT, PRIMARY KEY ({keys})); "
            f"INSERT IGNORE INTO every ({keys}) VALUES {rows}; INSERT IGNORE INTO t SELECT * FROM every ORDER BY n",
            database=schema,
        )
        with connected(self.source) as connection:
            tables = read_tables(connection, [TableName(schema, name) for name in ("t", "every")])
        self.table, self.every = tables[TableName(schema, "t")], tables[TableName(schema, "every")]
        order = KeyOrder.of(self.table)
        assert order is not None
        self.order = order

    def in_order(self) -> list[Row]:
        """The rows of `t` as pages of one row have them."""
        reader = PageReader.of(self.table, self.order)
        found: list[Row] = []
        progress = ChunkProgress(0, self.table.name)
        while len((page := reader.page(source_connection(self.source), progress, 1)).cells):
            found += page.cells.rows()
            progress = replace(progress, last_key=page.last_key)
        return found

    def all_rows(self) -> list[Row]:
        select, to_row = row_reader(self.every)
        return [
            to_row(cells) for cells in read(self.source, f"SELECT {select} FROM {self.every.name.quoted()}".encode())
        ]

    def not_behind(self) -> set[tuple[bytes, bytes]]:
        """The numbers of (a row of `t`, a row of `every` that is not after it), as the server compares the columns."""
        ours, theirs = (", ".join(f"{table}.{name}" for name in self.names) for table in ("t", "every"))
        found = self.server.sql(f"SELECT t.n, every.n FROM t, every WHERE ({theirs}) <= ({ours})", database=self.schema)
        return {(b"%d" % one, b"%d" % other) for one, other in found}

    def covered(self, last: Row, rows: Sequence[Row]) -> set[bytes]:
        """The numbers of the rows that are covered once `last` is copied."""
        last_key = write_key(tuple(last[position] or b"" for position in self.order.positions))
        part = coverages([ChunkProgress(0, self.table.name, last_key=last_key, rows_copied=1)])[self.table.name]
        assert part not in (ALL, NONE)
        inserts = [RowChange(0, None, row) for row in rows]
        kept = CoverageFilter({0: (self.table, part)}, self.source).covered(inserts)
        return {change.after[-1] for change in kept if change.after is not None and change.after[-1] is not None}


def _literal(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("\0", "\\0").replace("'", "''") + "'"


def check_border(keys: Keys) -> None:
    rows, copied, expected = keys.all_rows(), keys.in_order(), keys.not_behind()
    assert {row[-1] for row in copied} == {
        b"%d" % n for (n,) in keys.server.sql("SELECT n FROM t", database=keys.schema)
    }
    assert len(copied) > 1
    seen: set[bytes] = set()
    for last in copied:
        number = last[-1]
        assert number is not None
        seen.add(number)

        covered = keys.covered(last, rows)

        assert covered == {other for one, other in expected if one == number}, f"{keys.table.columns} up to {last}"
        assert covered.intersection(row[-1] for row in copied if row[-1] is not None) == seen  # as pages have them


@pytest.mark.parametrize("kind", VALUES)
def test_coverage_of_a_key_of_one_column(source: Server, fresh_schema: FreshSchema, kind: str) -> None:
    check_border(Keys(source, fresh_schema(source), [kind], [VALUES[kind]]))


@pytest.mark.parametrize("kind", OF_MYSQL)
def test_one_column_of_mysql(mysql_source: Server, fresh_schema: FreshSchema, kind: str) -> None:
    check_border(Keys(mysql_source, fresh_schema(mysql_source), [kind], [OF_MYSQL[kind]]))


@pytest.mark.parametrize("kind", OF_MARIADB)
def test_one_column_of_mariadb(mariadb_source: Server, fresh_schema: FreshSchema, kind: str) -> None:
    check_border(Keys(mariadb_source, fresh_schema(mariadb_source), [kind], [OF_MARIADB[kind]]))


@pytest.mark.parametrize("kinds", PAIRS)
def test_coverage_of_a_key_of_two_columns(source: Server, fresh_schema: FreshSchema, kinds: tuple[str, str]) -> None:
    check_border(Keys(source, fresh_schema(source), kinds, [FEW.get(kind, FEW_WORDS) for kind in kinds]))


def test_the_source_is_queried_if_nothing_else_decides(
    source: Server, fresh_schema: FreshSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of (int, text) keys those that have the number of the border, so many in a statement as are allowed."""
    asked: list[bytes] = []
    before(monkeypatch, key_comparison, "read", lambda _, sql: asked.append(sql))
    keys = Keys(source, fresh_schema(source), PAIRS[0], [("1", "2", "3"), [f"w{n:03}" for n in range(500)]])
    (last,) = [row for row in keys.all_rows() if row[:2] == (b"2", b"w100")]

    assert len(keys.covered(last, keys.all_rows())) == 500 + 101
    assert sum(sql.count(b">=") for sql in asked) == 499
    asked.clear()
    monkeypatch.setattr(key_comparison, "KEYS_OF_A_STATEMENT", 100)
    monkeypatch.setattr(key_comparison, "BYTES_OF_A_STATEMENT", 100 * 150)

    assert len(keys.covered(last, keys.all_rows())) == 500 + 101
    assert len(asked) >= 5


UNPAGED = ("bit(9)", "enum('a','b')", "float")
UNPAGED_OF_MARIADB = tuple(f"char(9) COLLATE utf8mb4_{name}" for name in ("nopad_bin", "uca1400_nopad_ai_ci"))


def test_a_key_of_which_no_pages_are_read_is_never_covered_in_part(source: Server, schema: str) -> None:
    """Such a table is copied whole."""
    kinds = (*UNPAGED, *(UNPAGED_OF_MARIADB if source.flavour == "mariadb" else ()))
    for number, kind in enumerate(kinds):
        source.sql(f"CREATE TABLE t{number} (k {kind} NOT NULL PRIMARY KEY)", database=schema)
    with connected(endpoint("source-01", source)) as connection:
        tables = read_tables(connection, [TableName(schema, f"t{number}") for number in range(len(kinds))])

    assert [KeyOrder.of(table) for table in tables.values()] == [None] * len(kinds)
