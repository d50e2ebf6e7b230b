"""A transaction larger than a range, as servers write it: every part names the tables of its own rows."""

from collections.abc import Iterator

import pytest

from airflow_provider_dm.engine.binlog import events as codes
from airflow_provider_dm.engine.binlog.planned import Epoch
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from testbed import Server
from tests.integration.binlog.reading import FreshSchema, definition, here, session
from tests.integration.binlog.walking import events_between, plans, ranges_between, rows_of, run

RANGE: int = 20_000


@pytest.fixture
def connection(source: Server) -> Iterator[Connection]:
    opened = session(source)
    yield opened
    opened.close()  # a test that fails in a transaction must not keep its locks


def test_a_large_transaction_is_cut_between_statements_of_every_kind(
    source: Server, connection: Connection, schema: str
) -> None:
    name, other, log = (TableName(schema, table) for table in ("t", "o", "l"))
    run(
        connection,
        name,
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(200))",
        "CREATE TABLE o (id INT PRIMARY KEY, v VARCHAR(200)) ENGINE=InnoDB",
        "CREATE TABLE l (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(200))",
        "CREATE TABLE m (id INT) ENGINE=MyISAM",
        "CREATE TRIGGER tr AFTER INSERT ON o FOR EACH ROW INSERT INTO l (v) VALUES (concat('added ', NEW.id))",
    )
    tables = [definition(connection, one) for one in (name, other, log)]
    lo = here(connection)
    run(connection, name, "INSERT INTO t (v) VALUES ('before')", "BEGIN")
    for number in range(60):
        values = ", ".join(f"('{'x' * 100}{number}')" for _ in range(20))
        run(connection, name, f"INSERT INTO t (v) VALUES {values}", f"INSERT INTO o VALUES ({number}, 'o')")
        run(connection, name, f"SAVEPOINT s{number}")
        if source.flavour == "mariadb":  # MySQL with GTIDs has no such mixture
            run(connection, name, f"INSERT INTO m VALUES ({number})")
        run(
            connection,
            name,
            f"UPDATE t JOIN o ON t.id = 20 * o.id + 5 SET t.v = 'both', o.v = 'both' WHERE o.id = {number}",
        )
    run(connection, name, "DELETE FROM t WHERE id % 3 = 0", "COMMIT", "INSERT INTO t (v) VALUES ('after')")
    hi = here(connection)

    (whole,) = [one for one in plans(source, lo, hi, range_bytes=1 << 30) if isinstance(one, Epoch)]
    cut = ranges_between(source, lo, hi, range_bytes=RANGE)
    assert rows_of(cut, *tables) == rows_of(whole.ranges, *tables)
    (large,) = {one.closes for one in cut} - {0}
    assert sum(one.inside for one in cut) > 5
    assert all(one.closes == large for one in cut if one.end < large and one.inside)
    assert max(one.end - one.start for one in cut) < 6 * RANGE, "only the last statement is larger than a range"


def test_a_compressed_transaction_of_mariadb_is_cut_too(mariadb_source: Server, fresh_schema: FreshSchema) -> None:
    name = TableName(fresh_schema(mariadb_source), "t")
    connection = session(mariadb_source)
    run(connection, name, "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(200))")
    table, lo = definition(connection, name), here(connection)
    mariadb_source.sql("SET GLOBAL log_bin_compress = ON; SET GLOBAL log_bin_compress_min_len = 10")
    try:
        run(connection, name, "BEGIN", *["INSERT INTO t (v) VALUES (uuid()), (uuid()), (uuid())"] * 50, "COMMIT")
    finally:
        mariadb_source.sql("SET GLOBAL log_bin_compress = OFF; SET GLOBAL log_bin_compress_min_len = DEFAULT")
    hi = here(connection)
    assert codes.WRITE_ROWS_V1_COMPRESSED in {one.code for one in events_between(mariadb_source, lo, hi)}
    cut = ranges_between(mariadb_source, lo, hi, range_bytes=1000)
    assert len(cut) > 5
    assert [change.after and change.after[0] for change in rows_of(cut, table)] == [b"%d" % n for n in range(1, 151)]
