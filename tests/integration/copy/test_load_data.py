"""Pages are loaded where the target allows it; what a LOAD cannot write exactly, INSERTs write or refuse."""

import numpy as np
import pytest

from airflow_provider_dm.engine.binlog.images import Cells
from airflow_provider_dm.engine.binlog.kernels import build
from airflow_provider_dm.engine.downstream import load_data
from airflow_provider_dm.engine.downstream.load_data import load_data_of, run_load_data
from airflow_provider_dm.engine.downstream.row_statements import Dialect
from airflow_provider_dm.engine.downstream.session import close_target, target_connection, target_dialect
from airflow_provider_dm.engine.merge.errors import RowsCollide
from airflow_provider_dm.engine.mysql.connection import Connection, connected, query
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.mapping import map_table
from airflow_provider_dm.engine.schema.catalogue import read_tables
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.strings import ASCII_CHARSETS
from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.conftest import loads_of
from tests.integration.copy.migrations import Migration, assert_same, merging
from tests.jobs import endpoint

ROWS = 5_000
COLUMNS = "id INT PRIMARY KEY, u INT NOT NULL UNIQUE, v VARCHAR(3)"


@pytest.fixture
def filled(source: Server, fresh_schema: FreshSchema, target: Server) -> str:
    schema = fresh_schema(source, target)
    digits = "(SELECT 0 d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 "
    digits += "UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)"
    number = "a.d + 10 * b.d + 100 * c.d + 1000 * e.d"
    source.sql(
        "CREATE TABLE plain (id INT PRIMARY KEY, v VARCHAR(40), b VARBINARY(20));"
        "CREATE TABLE counted (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(40), b VARBINARY(20));"
        f"INSERT INTO plain SELECT {number}, CONCAT('it''s\\t', {number}), UNHEX(LEFT(SHA2({number}, 256), 40)) "
        f"FROM {digits} a, {digits} b, {digits} c, {digits} e WHERE e.d < {ROWS // 1000};"
        "INSERT INTO counted SELECT id + 1, v, b FROM plain",
        database=schema,
    )
    return schema


@pytest.mark.parametrize("table", ["plain", "counted"])
def test_a_page_is_loaded_where_the_target_allows_it(source: Server, loading: Server, filled: str, table: str) -> None:
    build.warm()
    lists = {"one": {"do-tables": [{"db-name": filled, "tbl-name": table}]}}
    before = loads_of(loading)

    Migration.of(loading, source, filled, task={"block-allow-list": lists}).finish()

    assert_same(source, loading, filled, table)
    ((mode,),) = loading.sql("SELECT @@innodb_autoinc_lock_mode")
    loads = loading.flavour != "tidb" and (table == "plain" or int(mode) == 2)
    assert (loads_of(loading) > before) == loads


class Target:
    """A table of the target, and rows for it."""

    def __init__(self, server: Server, schema: str, columns: str = f"{COLUMNS}, CHECK (u < 100)") -> None:
        self.endpoint = endpoint("target", server)
        name = TableName(schema, "t")
        server.sql(f"CREATE TABLE t ({columns})", database=schema)
        with connected(self.endpoint) as connection:
            (table,) = read_tables(connection, [name]).values()
        self.mapping = map_table(table, table)
        close_target(self.endpoint)
        self.connection: Connection = target_connection(self.endpoint)
        self.dialect: Dialect = target_dialect(self.endpoint)

    def load(self, *rows: Row) -> bool:
        load = load_data_of(self.mapping, Cells.of(rows), np.arange(len(rows)), self.dialect)
        assert load is not None
        self.connection.begin()
        wrote = run_load_data(self.connection, load)
        self.connection.commit()
        return wrote

    def rows(self) -> list[tuple[object, ...]]:
        return query(self.connection, f"SELECT id FROM {self.mapping.target.name.quoted()} ORDER BY id")


GOOD: Row = (b"1", b"1", b"abc")
REFUSED: dict[str, Row] = {
    "the key is there": (b"7", b"2", None),
    "a unique value is there": (b"2", b"7", None),
    "the key comes twice": (b"1", b"3", None),
    "too long": (b"2", b"2", b"abcd"),
    "no number": (b"2", b"x", None),
    "too large": (b"2", b"2147483648", None),
    "a CHECK": (b"2", b"200", None),
    "no UTF-8": (b"2", b"2", b"\xff"),
    "half a character": (b"2", b"2", b"a\xc3"),
}


@pytest.mark.without_tidb
@pytest.mark.parametrize("row", REFUSED.values(), ids=REFUSED)
def test_a_load_that_cannot_write_every_row_leaves_no_trace(
    loading: Server, fresh_schema: FreshSchema, row: Row
) -> None:
    build.warm()
    it = Target(loading, fresh_schema(loading))
    assert it.load((b"7", b"7", None))

    assert not it.load(GOOD, row)

    assert it.rows() == [(7,)]
    assert it.load(GOOD)
    assert it.rows() == [(1,), (7,)]


@pytest.mark.without_tidb
def test_the_target_that_allows_no_load_any_more_is_written_by_inserts(
    loading: Server, fresh_schema: FreshSchema
) -> None:
    build.warm()
    it = Target(loading, fresh_schema(loading))
    loading.sql("SET GLOBAL local_infile = OFF")

    assert not it.load(GOOD)

    assert it.rows() == []


@pytest.mark.without_tidb
def test_every_byte_of_text_in_any_charset_is_loaded_unchanged(loading: Server, fresh_schema: FreshSchema) -> None:
    build.warm()
    schema = fresh_schema(loading)
    known = {name for (name,) in loading.sql("SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS")}
    charsets = sorted(ASCII_CHARSETS & known)
    columns = ", ".join(f"{charset} VARCHAR(40) CHARACTER SET {charset}" for charset in charsets)
    it = Target(loading, schema, f"id INT PRIMARY KEY, {columns}")
    loaded: dict[tuple[str, int], bytes] = {}
    for number, charset in enumerate(charsets):
        rows: list[Row] = []
        for byte in range(256):
            row: list[bytes | None] = [b"%d" % (256 * number + byte), *[None] * len(charsets)]
            row[1 + number] = b"1234567" + bytes([byte])
            if load_data_of(it.mapping, Cells.of([tuple(row)]), np.arange(1), it.dialect) is not None:
                rows.append(tuple(row))
                loaded[charset, byte] = row[1 + number] or b""
        assert it.load(*rows), charset

    found = {
        (charset, byte): value
        for number, charset in enumerate(charsets)
        for byte, value in loading.sql(
            f"SELECT id - {256 * number}, CAST({charset} AS BINARY) FROM t WHERE {charset} IS NOT NULL", database=schema
        )
    }

    assert found == loaded
    assert {byte for charset, byte in loaded if charset == "latin1"} == set(range(256))
    assert {byte for charset, byte in loaded if charset == "gbk"} == set(range(128))


@pytest.mark.parametrize("charset", ["latin1", "cp1251", "greek", "koi8u", "armscii8"])
def test_text_becomes_in_utf8_what_the_source_says(
    source: Server, loading: Server, fresh_schema: FreshSchema, charset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    build.warm()
    monkeypatch.setattr(load_data, "FEWEST_LOADED", 1)
    schema = fresh_schema(source, loading)
    values = ", ".join(f"({byte}, x'{byte:02x}')" for byte in range(1, 256))
    text = "CREATE TABLE {} (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET {})".format
    source.sql(f"{text('t', charset)}; INSERT INTO t VALUES {values}", database=schema)
    as_utf8 = "SELECT id, CAST(CONVERT(v USING utf8mb4) AS BINARY) FROM t ORDER BY id"
    # A byte without a character is `?` in UTF-8; such a row could not be written.
    source.sql("DELETE FROM t WHERE id <> 63 AND CONVERT(v USING utf8mb4) = '?'", database=schema)
    loading.sql(text("t", "utf8mb4"), database=schema)
    before = loads_of(loading)

    Migration.of(loading, source, schema).finish()

    expected = source.sql(as_utf8, database=schema)
    assert loading.sql(as_utf8, database=schema) == expected
    assert len(expected) > 200
    assert (loads_of(loading) > before) == (loading.flavour != "tidb" and charset != "armscii8")


@pytest.mark.parametrize("fewest", [1, 1_000_000], ids=["loaded", "inserted"])
def test_rows_of_a_merged_table_that_meet_others_wait_as_if_they_were_inserted(
    source: Server, loading: Server, fresh_schema: FreshSchema, fewest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    build.warm()
    monkeypatch.setattr(load_data, "FEWEST_LOADED", fewest)
    schema = fresh_schema(source, loading)
    for number in range(2):
        rows = ", ".join(f"({one}, {one}, 'a')" for one in (number, 2 + number, 4))
        source.sql(f"CREATE TABLE t_{number} ({COLUMNS}); INSERT INTO t_{number} VALUES {rows}", database=schema)
    before = loads_of(loading)
    migration = merging(loading, source, schema)

    migration.stops(RowsCollide)

    assert (loads_of(loading) > before) == (fewest == 1 and loading.flavour != "tidb")
    assert loading.sql(f"SELECT id FROM {schema}.t ORDER BY id") == [(number,) for number in range(5)]
    assert loading.sql(f"SELECT COUNT(*) FROM {schema}_meta.dm_contested_row") == [(1,)]
