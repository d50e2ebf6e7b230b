"""A compressed log gives the same rows, statements and ids as a plain one: MySQL's transactions, MariaDB's events.

Oracles: the same statements without compression, the table itself, and the servers' own tools.
"""

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import pytest

from airflow_provider_dm.engine.binlog import events as codes
from airflow_provider_dm.engine.binlog.compressed import PLAIN_ROWS, uncompressed_query, uncompressed_rows
from airflow_provider_dm.engine.binlog.errors import ChangeNotInLog
from airflow_provider_dm.engine.binlog.planned import DdlStatement, Epoch
from airflow_provider_dm.engine.binlog.rows import RowChange
from airflow_provider_dm.engine.mysql.connection import Connection, query
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.schema.codec import Row
from testbed import Server, debian_sid
from testbed.mysql_apt import MYSQL
from tests.integration.binlog.reading import FreshSchema, definition, here, logged, raw_rows, session
from tests.integration.binlog.walking import Event, end_xa, events_between, plans, ranges_between, rows_of, run

DIGITS: Final = "(SELECT 0 AS d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4)"
MANY: Final = " JOIN ".join(f"{DIGITS} AS {alias}" for alias in "abcef")
NUMBER: Final = "1000 + 625 * a.d + 125 * b.d + 25 * c.d + 5 * e.d + f.d"
TABLE: Final = "CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT, b BLOB, n DECIMAL(20,5), w TIMESTAMP(6) NULL)"
WORKLOAD: Final = (
    "INSERT INTO t VALUES (1, 'é😀', x'00ff', -1.5, '2024-01-02 03:04:05.678901'), (2, NULL, NULL, NULL, NULL)",
    "UPDATE t SET v = 'short' WHERE id = 2",
    f"INSERT INTO t SELECT 10 + d, repeat(sha2(d, 512), 12000), NULL, d, NULL FROM {DIGITS} AS many",  # 1.5 MB a row
    f"INSERT INTO t SELECT {NUMBER}, 'v', 'b', 1.25, NULL FROM {MANY}",
    "ALTER TABLE t COMMENT 'a text in the middle of the rows, with é'",
    "BEGIN",
    "DELETE FROM t WHERE id BETWEEN 10 AND 12",
    "SAVEPOINT a",
    "INSERT INTO t (id, v) VALUES (3, 'gone')",
    "ROLLBACK TO a",
    "SAVEPOINT b",
    "UPDATE t SET v = concat(v, '!'), n = n + 1 WHERE id > 3000",
    "INSERT INTO t (id, v) VALUES (4, repeat('x', 300))",
    "COMMIT",
    "CREATE TABLE copied AS SELECT * FROM t WHERE id < 1000",
    "CREATE TABLE m (id INT PRIMARY KEY) ENGINE=MyISAM",
    "INSERT INTO m VALUES (1), (2), (3)",
    "UPDATE t JOIN copied USING (id) SET t.v = 'both', copied.v = 'both' WHERE id = 1",
    "DELETE FROM t WHERE id >= 4000",
    "DROP TABLE copied",
)


class Run(NamedTuple):
    """Traces of one run of the workload in the log."""

    lo: Location
    hi: Location
    changes: list[RowChange]
    statements: list[str]
    transactions: int
    events: list[Event]


@contextmanager
def compression(server: Server, connection: Connection, *, on: bool) -> Iterator[None]:
    """Set for this session (MySQL) or for the server (MariaDB, where events of 10 bytes are worth it)."""
    if server.flavour == "mysql":
        query(connection, f"SET SESSION binlog_transaction_compression = {'ON' if on else 'OFF'}")
        yield
        return
    server.sql(f"SET GLOBAL log_bin_compress = {'ON' if on else 'OFF'}; SET GLOBAL log_bin_compress_min_len = 10")
    try:
        yield
    finally:
        server.sql("SET GLOBAL log_bin_compress = OFF; SET GLOBAL log_bin_compress_min_len = DEFAULT")


def ran(server: Server, schema: str, *, on: bool, range_bytes: int = 1 << 20) -> Run:
    """The workload on a new table `t` of the schema."""
    name = TableName(schema, "t")
    connection = session(server)
    run(connection, name, "DROP TABLE IF EXISTS t, m", TABLE)
    table = definition(connection, name)
    with compression(server, connection, on=on):
        lo = here(connection)
        run(connection, name, *WORKLOAD)
        hi = here(connection)
    found = list(plans(server, lo, hi, range_bytes=range_bytes))
    return Run(
        lo,
        hi,
        rows_of(ranges_between(server, lo, hi, range_bytes=range_bytes), table),
        [one.sql.split(" /*")[0] for one in found if isinstance(one, DdlStatement)],
        sum(one.transactions for one in found if isinstance(one, Epoch)),
        events_between(server, lo, hi),
    )


@pytest.fixture
def schema(source: Server, fresh_schema: FreshSchema) -> str:
    return fresh_schema(source)


def test_the_same_statements_have_the_same_changes_with_compression(source: Server, schema: str) -> None:
    plain, packed = ran(source, schema, on=False), ran(source, schema, on=True)
    assert packed.changes == plain.changes
    assert (packed.statements, packed.transactions) == (plain.statements, plain.transactions)
    assert len(packed.changes) > 3125 + 1000
    used = {event.code for event in packed.events} - {event.code for event in plain.events}
    if source.flavour == "mysql":
        assert used == {codes.TRANSACTION_PAYLOAD}
        assert [len(event.body) for event in packed.events if event.inside and len(event.body) > 1 << 20]
    else:
        assert used == {
            codes.QUERY_COMPRESSED,
            codes.WRITE_ROWS_V1_COMPRESSED,
            codes.UPDATE_ROWS_V1_COMPRESSED,
            codes.DELETE_ROWS_V1_COMPRESSED,
        }


def test_the_logged_rows_result_in_the_rows_of_the_table(source: Server, schema: str) -> None:
    packed = ran(source, schema, on=True, range_bytes=50_000)
    connection = session(source)
    state: dict[bytes | None, Row] = {}
    for change in packed.changes:
        if change.before is not None:
            assert state.pop(change.before[0]) == change.before
        if change.after is not None:
            state[change.after[0]] = change.after
    table = definition(connection, TableName(schema, "t"))
    assert sorted(state.values()) == sorted(raw_rows(connection, table))


def test_mariadb_s_events_uncompressed_are_the_plain_ones(mariadb_source: Server, fresh_schema: FreshSchema) -> None:
    schema = fresh_schema(mariadb_source)
    plain, packed = ran(mariadb_source, schema, on=False), ran(mariadb_source, schema, on=True)
    assert [comparable(event) for event in packed.events] == [comparable(event) for event in plain.events]


_NUMBERS_OF_A_QUERY: Final = re.compile(rb"\x81........", re.DOTALL)  # the xid of DDL


def comparable(event: Event) -> tuple[str, bytes]:
    """An event without the numbers that differ from run to run."""
    code, body = event.code, event.body
    if code in PLAIN_ROWS:
        code, body = uncompressed_rows(code, body, "here")
    elif code == codes.QUERY_COMPRESSED:
        code, body = codes.QUERY, uncompressed_query(body, "here")
    name = codes.EVENTS[code].name
    if code in (codes.MARIADB_GTID, codes.XID):
        return name, b""
    if code == codes.QUERY:
        return name, _NUMBERS_OF_A_QUERY.sub(b"", body[8:])
    return (name, body[6:]) if codes.ROLES[code] >= codes.EventRole.MAP else (name, body)


def test_the_server_s_own_tool_counts_the_same_rows(source: Server, schema: str) -> None:
    packed = ran(source, schema, on=True)
    own = ["mariadb-binlog"] if source.flavour == "mariadb" else debian_sid.tree(MYSQL).command("mysqlbinlog")
    position = [f"--start-position={packed.lo.position}", f"--stop-position={packed.hi.position}"]
    file = str(source.datadir / packed.lo.file)
    output = subprocess.run(
        [*own, "--no-defaults", "-v", "--base64-output=DECODE-ROWS", *position, file], check=True, capture_output=True
    ).stdout
    theirs = Counter(
        line.split()[1] for line in output.splitlines() if line.startswith(b"### ") and line.endswith(b".`t`")
    )
    kinds = {(False, True): b"INSERT", (True, True): b"UPDATE", (True, False): b"DELETE"}
    ours = Counter(kinds[change.before is not None, change.after is not None] for change in packed.changes)
    assert ours == theirs


def test_ids_of_compressed_transactions_join_the_set(mysql_source: Server, fresh_schema: FreshSchema) -> None:
    name = TableName(fresh_schema(mysql_source), "t")
    connection = session(mysql_source)
    run(connection, name, "CREATE TABLE t (id INT PRIMARY KEY)", "FLUSH BINARY LOGS")
    lo = Location(here(connection).file, 4)
    run(connection, name, "SET SESSION binlog_transaction_compression = ON", "INSERT INTO t VALUES (1)")
    run(connection, name, "SET gtid_next = 'AUTOMATIC:squeezed'", "INSERT INTO t VALUES (2)")
    run(connection, name, "SET gtid_next = 'AUTOMATIC'", "INSERT INTO t VALUES (3)")
    hi = here(connection)
    assert {"GTID_TAGGED", "TRANSACTION_PAYLOAD"} <= {one.name for one in events_between(mysql_source, lo, hi)}
    *_, last = plans(mysql_source, lo, hi)
    assert isinstance(last, Epoch)
    ((executed,),) = query(connection, "SELECT @@gtid_executed")
    assert last.hi.gtid_set == bytes(executed).decode().replace("\n", "")


def test_a_prepared_transaction_is_found_in_a_payload_too(mysql_source: Server, fresh_schema: FreshSchema) -> None:
    name = TableName(fresh_schema(mysql_source), "t")
    connection = session(mysql_source)
    run(connection, name, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(10))")
    run(connection, name, "SET SESSION binlog_transaction_compression = ON")
    table, lo = definition(connection, name), here(connection)
    run(connection, name, "XA START 'x'", "INSERT INTO t VALUES (1, 'a')", "XA END 'x'", "XA PREPARE 'x'")
    hi = here(connection)
    connection.close()
    other = session(mysql_source)
    run(other, name, "INSERT INTO t VALUES (-2, 'b')")
    end_xa(mysql_source, "'x'")
    assert {"TRANSACTION_PAYLOAD", "XA_PREPARE"} <= {one.name for one in events_between(mysql_source, lo, hi)}
    assert [one.after for one in logged(mysql_source, table, lo, here(other))] == [(b"-2", b"b"), (b"1", b"a")]


def test_a_compressed_statement_that_changes_rows_stops(mariadb_source: Server, fresh_schema: FreshSchema) -> None:
    name = TableName(fresh_schema(mariadb_source), "t")
    connection = session(mariadb_source)
    run(connection, name, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(10))")
    lo = here(connection)
    with compression(mariadb_source, connection, on=True):
        run(connection, name, "SET SESSION binlog_format = STATEMENT", "INSERT INTO t VALUES (1, 'compressed')")
    hi = here(connection)
    assert "MARIADB_QUERY_COMPRESSED" in {one.name for one in events_between(mariadb_source, lo, hi)}
    with pytest.raises(ChangeNotInLog, match="INSERT INTO t"):
        list(plans(mariadb_source, lo, hi))
