"""Many rows are the parameters of a bulk execution: they arrive in MariaDB, or are refused, as literals are."""

import struct
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from airflow_provider_dm.engine.binlog.images import Cells
from airflow_provider_dm.engine.binlog.kernels import build
from airflow_provider_dm.engine.downstream.bound_rows import FEWEST
from airflow_provider_dm.engine.downstream.errors import DuplicateInTarget, TargetLimit, TargetRefused, TargetWarned
from airflow_provider_dm.engine.downstream.row_statements import Dialect, SqlStatement, Verb
from airflow_provider_dm.engine.downstream.session import (
    execute,
    fresh_target,
    run_transaction,
    target_connection,
    target_dialect,
)
from airflow_provider_dm.engine.downstream.tuples import write_tuple_cells
from airflow_provider_dm.engine.merge.errors import RowsCollide
from airflow_provider_dm.engine.mysql import guarded
from airflow_provider_dm.engine.mysql.connection import Connection, query
from airflow_provider_dm.engine.mysql.guarded import GuardedConnection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.mapping import TableMapping, map_table
from airflow_provider_dm.engine.schema.catalogue import read_tables
from airflow_provider_dm.engine.schema.charsets import MULTI_BYTE
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.schema.strings import ASCII_CHARSETS
from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.conftest import bound_on
from tests.integration.copy.migrations import Migration, assert_same, merging, set_page_rows
from tests.jobs import endpoint

MANY = 5_000
COLUMNS = "id INT PRIMARY KEY, u INT NOT NULL UNIQUE, v VARCHAR(3)"


@pytest.fixture(autouse=True, scope="module")
def _kernels() -> None:
    build.warm()


@pytest.mark.parametrize("table", ["plain", "größe"])
def test_a_page_is_bound(
    source: Server, target: Server, fresh_schema: FreshSchema, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_page_rows(monkeypatch, MANY)
    schema = fresh_schema(source, target)
    digits = f"(SELECT 0 d {' '.join(f'UNION SELECT {digit}' for digit in range(1, 10))})"
    number = "a.d + 10 * b.d + 100 * c.d + 1000 * e.d"
    source.sql(
        f"CREATE TABLE {table} (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(40), b VARBINARY(20));"
        f"INSERT INTO {table} SELECT 1 + {number}, CONCAT('it''s é\\t', {number}), "
        f"UNHEX(LEFT(SHA2({number}, 256), 40)) FROM {digits} a, {digits} b, {digits} c, {digits} e "
        f"WHERE e.d < {MANY // 1000}",
        database=schema,
    )
    before = bound_on(target)

    Migration.of(target, source, schema).finish()

    assert_same(source, target, schema, table)
    assert (bound_on(target) > before) == (target.flavour == "mariadb")


class Written:
    """A table of the target, and a connection that writes rows to it."""

    def __init__(self, connection: Connection, dialect: Dialect, name: TableName) -> None:
        self.connection, self.dialect = connection, dialect
        self.name = name
        self.mapping = self.described()

    def described(self) -> TableMapping:
        (table,) = read_tables(self.connection, [self.name]).values()
        return map_table(table, table)

    def statements(self, rows: Sequence[Row], verb: Verb = Verb.INSERT) -> list[SqlStatement]:
        return list(write_tuple_cells(self.mapping, Cells.of(rows), np.arange(len(rows)), verb, self.dialect))

    def write(self, rows: Sequence[Row], verb: Verb = Verb.INSERT) -> int:
        """Write the rows, at least FEWEST, in one transaction. Return the rows affected."""
        statements = self.statements(rows, verb)
        assert (statements[0].parameters is not None) == self.dialect.executes_bulk
        self.connection.begin()
        try:
            affected = sum(execute(self.connection, statement) for statement in statements)
        except BaseException:
            self.connection.rollback()
            raise
        self.connection.commit()
        return affected

    def ids(self) -> list[int]:
        return [number for (number,) in query(self.connection, f"SELECT id FROM {self.name.quoted()} ORDER BY id")]


def rows_from(first: int, count: int = FEWEST) -> list[Row]:
    return [(b"%d" % number, b"%d" % number, "é".encode()) for number in range(first, first + count)]


REFUSED: dict[str, tuple[Row, type[Exception]]] = {
    "the key is there": ((b"7", b"2", None), DuplicateInTarget),
    "a unique value is there": ((b"2", b"7", None), DuplicateInTarget),
    "the key comes twice": ((b"100", b"3", None), DuplicateInTarget),
    "too long": ((b"2", b"2", b"abcd"), TargetRefused),
    "no number": ((b"2", b"x", None), TargetRefused),
    "too large": ((b"2", b"2147483648", None), TargetRefused),
    "no UTF-8": ((b"2", b"2", b"\xff"), TargetRefused),
    "half a character": ((b"2", b"2", b"a\xc3"), TargetRefused),
    "no value": ((b"2", None, b"a"), TargetRefused),
}


@pytest.mark.parametrize(("row", "error"), REFUSED.values(), ids=REFUSED)
def test_a_row_that_the_target_refuses_is_an_error_and_nothing_is_written(
    target: Server, fresh_schema: FreshSchema, row: Row, error: type[Exception]
) -> None:
    schema, at = fresh_schema(target), endpoint("target", target)
    target.sql(f"CREATE TABLE t ({COLUMNS}) CHARACTER SET utf8mb4; INSERT INTO t VALUES (7, 7, 'a')", database=schema)
    with fresh_target(at) as connection:
        it = Written(connection, target_dialect(at), TableName(schema, "t"))

        with pytest.raises(error):
            it.write([*rows_from(100, FEWEST - 1), row])

        assert it.ids() == [7]
        it.write(rows_from(100))
        assert it.ids() == [7, *range(100, 100 + FEWEST)]


KINDS = {
    "plain": "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, u INT UNIQUE, v VARCHAR(9))",
    "without a key": "CREATE TABLE t (id INT, u INT, v VARCHAR(9))",
    "trigger": "CREATE TABLE seen (id INT, v INT); CREATE TABLE t (id INT PRIMARY KEY, u INT, v VARCHAR(9)); "
    "CREATE TRIGGER one AFTER INSERT ON t FOR EACH ROW INSERT INTO seen VALUES (NEW.id, NEW.u)",
    "partitions": "CREATE TABLE t (id INT PRIMARY KEY, u INT, v VARCHAR(9)) PARTITION BY HASH (id) PARTITIONS 3",
    "foreign key": "CREATE TABLE p (u INT PRIMARY KEY); INSERT INTO p SELECT seq FROM seq_0_to_999; "
    "CREATE TABLE t (id INT PRIMARY KEY, u INT, v VARCHAR(9), FOREIGN KEY (u) REFERENCES p (u))",
    "check": "CREATE TABLE t (id INT PRIMARY KEY, u INT CHECK (u < 1000), v VARCHAR(9))",
    "Aria": "CREATE TABLE t (id INT PRIMARY KEY, u INT, v VARCHAR(9)) ENGINE = Aria",
}


@pytest.mark.parametrize("kind", KINDS)
def test_bulk_execution_has_the_effects_of_literals(
    mariadb_target: Server, fresh_schema: FreshSchema, kind: str
) -> None:
    """Rows, affected rows, errors, and the rows that a trigger writes."""

    schema, at = fresh_schema(mariadb_target), endpoint("target", mariadb_target)

    def effects(*, bulk: bool) -> list[object]:
        mariadb_target.sql(f"DROP TABLE IF EXISTS t, p, seen; {KINDS[kind]}", database=schema)
        with fresh_target(at) as connection:
            it = Written(connection, replace(target_dialect(at), executes_bulk=bulk), TableName(schema, "t"))
            found: list[object] = [it.write(rows_from(0)), it.write(rows_from(FEWEST // 2), Verb.UPSERT)]
            found.append(it.write([(key, u, b"new") for key, u, _ in rows_from(0)], Verb.UPSERT))
            found.append(it.write(rows_from(10), Verb.REPLACE))
            for bad in ((b"7", b"7", None), (b"999", b"1000", None)):
                try:
                    found.append(it.write([*rows_from(500), bad]))
                except (DuplicateInTarget, TargetRefused) as error:
                    found.append(error.message())
            tables = ("t", "seen") if kind == "trigger" else ("t",)
            return [
                *found,
                *(mariadb_target.sql(f"SELECT * FROM {one} ORDER BY id, v", database=schema) for one in tables),
            ]

    assert effects(bulk=True) == effects(bulk=False)


@pytest.mark.parametrize("time", ["BEFORE", "AFTER"])
def test_only_warnings_outside_triggers_are_errors(
    mariadb_target: Server, fresh_schema: FreshSchema, time: str
) -> None:
    """After a bulk execution MariaDB counts the warnings inside triggers too, but does not show them."""
    schema, at = fresh_schema(mariadb_target), endpoint("target", mariadb_target)
    mariadb_target.sql(
        "CREATE TABLE none (id INT); CREATE TABLE t (id INT PRIMARY KEY, u DECIMAL(5), v VARCHAR(3)); "
        f"CREATE TRIGGER one {time} INSERT ON t FOR EACH ROW SELECT id FROM none INTO @found",
        database=schema,
    )
    with fresh_target(at) as connection:
        it = Written(connection, target_dialect(at), TableName(schema, "t"))

        assert it.write(rows_from(0)) == FEWEST
        with pytest.raises(TargetWarned):
            it.write([(b"1000", b"1.5", None), *rows_from(100)])

        assert it.ids() == list(range(FEWEST))


@pytest.mark.without_tidb
def test_every_byte_of_text_in_any_charset_is_stored_unchanged(target: Server, fresh_schema: FreshSchema) -> None:
    schema, at = fresh_schema(target), endpoint("target", target)
    known = {name for (name,) in target.sql("SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS")}
    charsets = sorted((ASCII_CHARSETS & known) - {"ascii", *MULTI_BYTE})
    columns = ", ".join(f"{charset} VARCHAR(40) CHARACTER SET {charset}" for charset in charsets)
    target.sql(f"CREATE TABLE t (id INT PRIMARY KEY, {columns})", database=schema)
    rows = [(b"%d" % byte, *[b"1234567" + bytes([byte])] * len(charsets)) for byte in range(256)]
    with fresh_target(at) as connection:
        Written(connection, target_dialect(at), TableName(schema, "t")).write(rows)

    found = target.sql(
        f"SELECT {', '.join(f'CAST({charset} AS BINARY)' for charset in charsets)} FROM t ORDER BY id", database=schema
    )

    assert "latin1" in charsets
    assert found == [row[1:] for row in rows]


def test_literals_and_ddl_between_bound_statements(target: Server, fresh_schema: FreshSchema) -> None:
    """The server prepares a statement again after DDL, and reads literals in UTF-8."""
    schema, at = fresh_schema(target), endpoint("target", target)
    with fresh_target(at) as connection:
        for name in ("plain", "größe"):
            target.sql(f"CREATE TABLE {name} ({COLUMNS}) CHARACTER SET utf8mb4", database=schema)
            it = Written(connection, target_dialect(at), TableName(schema, name))
            it.write(rows_from(0, FEWEST + 1))  # the last is a literal
            query(connection, f"ALTER TABLE {it.name.quoted()} MODIFY v VARCHAR(50) CHARACTER SET utf8mb4 DEFAULT 'ß'")
            it.write(rows_from(1000, FEWEST + 1))
            query(connection, f"INSERT INTO {it.name.quoted()} (id, u) VALUES (5000, 5000)")
            found = query(connection, f"SELECT v, COUNT(*) FROM {it.name.quoted()} GROUP BY v ORDER BY 2")
            assert found == [("ß".encode(), 1), ("é".encode(), 2 * (FEWEST + 1))]


@pytest.mark.without_tidb
def test_text_is_converted_for_a_column_that_has_another_charset_meanwhile(
    target: Server, fresh_schema: FreshSchema
) -> None:
    schema, at = fresh_schema(target), endpoint("target", target)
    column = "{} VARCHAR(9) CHARACTER SET {}".format
    target.sql(
        f"CREATE TABLE t (id INT PRIMARY KEY, {column('u', 'utf8mb4')}, {column('v', 'latin1')})", database=schema
    )
    with fresh_target(at) as connection:
        it = Written(connection, target_dialect(at), TableName(schema, "t"))
        target.sql(f"ALTER TABLE t MODIFY {column('u', 'latin1')}, MODIFY {column('v', 'utf8mb4')}", database=schema)
        it.write([(b"%d" % number, "é".encode(), "é".encode("latin1")) for number in range(FEWEST)])
        read = "SELECT DISTINCT CONVERT(u USING utf8mb4), CONVERT(v USING utf8mb4) FROM t"
        assert target.sql(read, database=schema) == [("é", "é")]


def test_a_statement_that_the_server_has_lost_is_prepared_by_another_connection(
    mariadb_target: Server, fresh_schema: FreshSchema
) -> None:
    """As a proxy loses it when it changes the connection to the server."""
    schema, at = fresh_schema(mariadb_target), endpoint("target", mariadb_target)
    mariadb_target.sql(f"CREATE TABLE t ({COLUMNS})", database=schema)
    first = target_connection(at)
    assert isinstance(first, GuardedConnection)
    it = Written(first, target_dialect(at), TableName(schema, "t"))
    it.write(rows_from(0))
    (prepared,) = first._prepared.values()
    first._execute_command(0x19, struct.pack("<I", prepared))

    run_transaction(at, lambda connection: [execute(connection, one) for one in it.statements(rows_from(1000))])

    assert target_connection(at) is not first
    assert mariadb_target.sql("SELECT COUNT(*) FROM t", database=schema) == [(2 * FEWEST,)]


def test_a_connection_that_is_opened_again_prepares_its_statements_again(
    mariadb_target: Server, fresh_schema: FreshSchema
) -> None:
    """The numbers of statements begin at 1 in each session: an old number may be that of another table's statement."""
    schema, at = fresh_schema(mariadb_target), endpoint("target", mariadb_target)
    mariadb_target.sql(f"CREATE TABLE a ({COLUMNS}); CREATE TABLE b ({COLUMNS})", database=schema)
    with fresh_target(at) as connection:
        a, b = (Written(connection, target_dialect(at), TableName(schema, name)) for name in ("a", "b"))
        a.write(rows_from(0))
        connection.close()
        connection.connect()
        b.write(rows_from(1000))
        a.write(rows_from(2000))

        assert a.ids() == [*range(FEWEST), *range(2000, 2000 + FEWEST)]
        assert b.ids() == list(range(1000, 1000 + FEWEST))


def test_a_connection_keeps_few_statements(
    mariadb_target: Server, fresh_schema: FreshSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded, "_MOST_PREPARED", 10)
    schema, at = fresh_schema(mariadb_target), endpoint("target", mariadb_target)
    mariadb_target.sql("; ".join(f"CREATE TABLE t{number} ({COLUMNS})" for number in range(15)), database=schema)

    def kept() -> int:
        ((_, count),) = mariadb_target.sql("SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'")
        return int(count)

    before = kept()
    with fresh_target(at) as connection:
        assert isinstance(connection, GuardedConnection)
        tables = [Written(connection, target_dialect(at), TableName(schema, f"t{number}")) for number in range(15)]
        for first in (0, 1000):
            for table in tables:
                table.write(rows_from(first))
        assert all(table.ids() == [*range(FEWEST), *range(1000, 1000 + FEWEST)] for table in tables)
        assert kept() - before == 10
        connection.reset()
        assert kept() == before
        query(connection, "SET autocommit = 1")
        tables[-1].write(rows_from(2000))


def test_a_target_without_prepared_statements_is_named(mariadb_target: Server, fresh_schema: FreshSchema) -> None:
    schema, at = fresh_schema(mariadb_target), endpoint("target", mariadb_target)
    mariadb_target.sql(f"CREATE TABLE t ({COLUMNS})", database=schema)
    ((usual,),) = mariadb_target.sql("SELECT @@GLOBAL.max_prepared_stmt_count")
    with fresh_target(at) as connection:
        it = Written(connection, target_dialect(at), TableName(schema, "t"))
        mariadb_target.sql("SET GLOBAL max_prepared_stmt_count = 0")
        try:
            with pytest.raises(TargetLimit, match="Raise max_prepared_stmt_count"):
                it.write(rows_from(0))
        finally:
            mariadb_target.sql(f"SET GLOBAL max_prepared_stmt_count = {usual}")
        it.write(rows_from(0))
        assert it.ids() == list(range(FEWEST))


def test_rows_of_a_merged_table_that_meet_others_wait(
    source: Server, target: Server, fresh_schema: FreshSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_page_rows(monkeypatch, MANY)
    schema = fresh_schema(source, target)
    for number in range(2):
        rows = ", ".join(f"({one}, {one}, 'a')" for one in (*range(number, MANY, 2), MANY))
        source.sql(f"CREATE TABLE t_{number} ({COLUMNS}); INSERT INTO t_{number} VALUES {rows}", database=schema)
    before = bound_on(target)
    migration = merging(target, source, schema)

    migration.stops(RowsCollide)

    assert (bound_on(target) > before) == (target.flavour == "mariadb")
    assert target.sql(f"SELECT COUNT(*), MAX(id) FROM {schema}.t") == [(MANY + 1, MANY)]
    assert target.sql(f"SELECT COUNT(*) FROM {schema}_meta.dm_contested_row") == [(1,)]
