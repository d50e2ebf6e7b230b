"""What real servers write around rows: commits, rollbacks, savepoints, DDL, ids."""

from collections.abc import Iterator

import pytest
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from airflow_provider_dm.engine.binlog.errors import MixedEngineRollback, StatementDml, TwoPhaseAlter, XaTransaction
from airflow_provider_dm.engine.binlog.events import UnknownEvent
from airflow_provider_dm.engine.binlog.planner import DdlStatement, Epoch, UpToDate, plan_epoch
from airflow_provider_dm.engine.binlog.rows import PartialRowImage
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.connection import Connection, query, text
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.gtid import GtidSet
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from testbed import Server
from tests.integration.binlog.reading import FreshSchema, definition, here, log_files, logged, session


@pytest.fixture
def name(source: Server, fresh_schema: FreshSchema) -> TableName:
    created = TableName(fresh_schema(source), "t")
    run(session(source), created, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(10)) ENGINE=InnoDB")
    return created


def run(connection: Connection, name: TableName, *statements: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"USE `{name.schema}`")
        for statement in statements:
            cursor.execute(statement)


def plans(server: Server, lo: Location, hi: Location) -> Iterator[Epoch | DdlStatement]:
    """Everything between two locations."""
    while True:
        planned = plan_epoch(log_files(server), lo, goal=hi, max_bytes=1 << 30, range_bytes=1 << 20)
        match planned:
            case UpToDate():
                return
            case Epoch():
                yield planned
                lo = planned.hi
            case DdlStatement():
                yield planned
                lo = planned.end


def test_a_transaction_of_an_engine_without_transactions_ends_with_commit_as_text(
    source: Server, name: TableName
) -> None:
    connection = session(source)
    run(connection, name, "CREATE TABLE m (id INT PRIMARY KEY, v VARCHAR(10)) ENGINE=MyISAM")
    lo = here(connection)
    run(connection, name, "INSERT INTO m VALUES (1, 'a')", "INSERT INTO t VALUES (1, 'a')")
    planned = list(plans(source, lo, here(connection)))
    assert [one.transactions for one in planned if isinstance(one, Epoch)] == [2]


def test_a_savepoint_that_was_rolled_back_leaves_no_row(source: Server, name: TableName) -> None:
    connection = session(source)
    table, lo = definition(connection, name), here(connection)
    run(connection, name, "BEGIN", "INSERT INTO t VALUES (1, 'a')", "SAVEPOINT s", "INSERT INTO t VALUES (2, 'b')")
    run(connection, name, "ROLLBACK TO s", "INSERT INTO t VALUES (3, 'c')", "COMMIT")
    assert [change.after and change.after[0] for change in logged(source, table, lo, here(connection))] == [b"1", b"3"]


def test_a_rollback_that_could_not_undo_everything_stops(mariadb_source: Server, fresh_schema: FreshSchema) -> None:
    name = TableName(fresh_schema(mariadb_source), "t")
    connection = session(mariadb_source)
    run(connection, name, "CREATE TABLE t (id INT) ENGINE=InnoDB", "CREATE TABLE m (id INT) ENGINE=MyISAM")
    lo = here(connection)
    run(connection, name, "BEGIN", "INSERT INTO t VALUES (1)", "SAVEPOINT s", "INSERT INTO m VALUES (1)")
    run(connection, name, "INSERT INTO t VALUES (2)", "ROLLBACK TO s", "COMMIT")
    with pytest.raises(MixedEngineRollback):
        list(plans(mariadb_source, lo, here(connection)))


def test_ddl_comes_alone_with_its_text_and_create_table_select_says_that_rows_follow(
    source: Server, name: TableName
) -> None:
    connection = session(source)
    lo = here(connection)
    run(
        connection,
        name,
        "INSERT INTO t VALUES (1, 'a')",
        "ALTER TABLE t ADD `größe` INT",
        "CREATE TABLE c AS SELECT * FROM t",
        "TRUNCATE TABLE c",
        "CREATE TEMPORARY TABLE x (a INT)",
        "INSERT INTO x VALUES (1)",
        "DROP TEMPORARY TABLE x",
        "ANALYZE TABLE t",
        "INSERT INTO t VALUES (2, 'b', 2)",
    )
    found = [one for one in plans(source, lo, here(connection)) if isinstance(one, DdlStatement)]
    assert [(one.sql.split(" /*")[0][:30], one.rows is not None) for one in found if "TEMPORARY" not in one.sql] == [
        ("ALTER TABLE t ADD `größe` INT", False),
        ("CREATE TABLE `c` (\n  `id` int(" if source.flavour == "mariadb" else "CREATE TABLE `c` (\n  `id` int ", True),
        ("TRUNCATE TABLE c", False),
        ("ANALYZE TABLE t", False),
    ]
    assert {one.schema for one in found} == {name.schema}


def test_the_set_of_a_location_is_the_servers(source: Server, name: TableName) -> None:
    connection = session(source)
    run(connection, name, "FLUSH BINARY LOGS")
    lo = Location(here(connection).file, 4)
    run(
        connection, name, "INSERT INTO t VALUES (1, 'a')", "ALTER TABLE t ADD z INT", "INSERT INTO t VALUES (2, 'a', 2)"
    )
    if source.flavour == "mysql":
        run(connection, name, "SET gtid_next = 'AUTOMATIC:tagged'", "INSERT INTO t VALUES (3, 'a', 3)")
        run(connection, name, "SET gtid_next = 'AUTOMATIC'")
    run(connection, name, "FLUSH BINARY LOGS", "INSERT INTO t VALUES (4, 'a', 4)")
    ends = [one.end if isinstance(one, DdlStatement) else one.hi for one in plans(source, lo, here(connection))]
    variable = "@@gtid_binlog_pos" if source.flavour == "mariadb" else "@@gtid_executed"
    flavour = Flavour(source.flavour)
    theirs = GtidSet.parse(text(query(connection, f"SELECT {variable}")[0][0]), flavour)
    assert GtidSet.parse(ends[-1].gtid_set, flavour) == theirs


COMMON: list[tuple[list[str], type[DmError]]] = [
    (["SET SESSION binlog_format = STATEMENT", "INSERT INTO t VALUES (1, 'a')"], StatementDml),
    (["SET SESSION binlog_format = STATEMENT", "SET @a = 5", "INSERT INTO t VALUES (@a, rand())"], UnknownEvent),
    (["XA START 'x'", "INSERT INTO t VALUES (1, 'a')", "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'"], XaTransaction),
]


@pytest.mark.parametrize(("statements", "error"), COMMON, ids=["statement", "user variable", "xa"])
def test_what_cannot_be_applied_stops(
    source: Server, name: TableName, statements: list[str], error: type[DmError]
) -> None:
    connection = session(source)
    lo = here(connection)
    run(connection, name, *statements)
    with pytest.raises(error):
        list(plans(source, lo, here(connection)))


def test_what_only_mysql_writes_stops(mysql_source: Server, fresh_schema: FreshSchema) -> None:
    name = TableName(fresh_schema(mysql_source), "t")
    connection = session(mysql_source)
    run(connection, name, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(10))", "INSERT INTO t VALUES (0, 'a')")
    lo = here(connection)
    run(connection, name, "SET SESSION binlog_transaction_compression = ON", "INSERT INTO t VALUES (1, 'a')")
    with pytest.raises(UnknownEvent, match="binlog_transaction_compression=OFF"):
        list(plans(mysql_source, lo, here(connection)))


def test_what_only_mariadb_writes_stops(mariadb_source: Server, fresh_schema: FreshSchema) -> None:
    name = TableName(fresh_schema(mariadb_source), "t")
    connection = session(mariadb_source)
    run(connection, name, "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (0, 'a')")
    lo = here(connection)
    run(connection, name, "SET SESSION binlog_alter_two_phase = ON", "ALTER TABLE t ADD z INT, ALGORITHM=COPY")
    with pytest.raises(TwoPhaseAlter):
        list(plans(mariadb_source, lo, here(connection)))

    lo = here(connection)
    run(connection, name, "SET GLOBAL log_bin_compress = ON")
    try:
        run(connection, name, "INSERT INTO t VALUES (5, repeat('x', 10000), 1)")
    finally:
        run(connection, name, "SET GLOBAL log_bin_compress = OFF")
    with pytest.raises(UnknownEvent, match="log_bin_compress=OFF"):
        list(plans(mariadb_source, lo, here(connection)))


def test_a_minimal_image_stops(source: Server, name: TableName) -> None:
    connection = session(source)
    run(connection, name, "INSERT INTO t VALUES (1, 'a')")
    table, lo = definition(connection, name), here(connection)
    run(connection, name, "SET SESSION binlog_row_image = MINIMAL", "UPDATE t SET v = 'b'")
    with pytest.raises(PartialRowImage):
        logged(source, table, lo, here(connection))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_mysql_replication_sees_the_same_rows(mysql_source: Server, fresh_schema: FreshSchema) -> None:
    name = TableName(fresh_schema(mysql_source), "t")
    connection = session(mysql_source)
    run(connection, name, "CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY, v VARCHAR(10), d DECIMAL(9,3), n INT)")
    run(connection, name, "SET GLOBAL binlog_row_metadata = FULL")
    table, lo = definition(connection, name), here(connection)
    run(connection, name, "INSERT INTO t VALUES (18446744073709551615, 'é', -1.5, NULL), (2, '', 0, -7)")
    run(connection, name, "UPDATE t SET n = 3 WHERE id = 2", "DELETE FROM t")
    ours = [(change.before, change.after) for change in logged(mysql_source, table, lo, here(connection))]
    try:
        assert seen_by_mysql_replication(mysql_source, name, lo) == ours
    finally:
        run(connection, name, "SET GLOBAL binlog_row_metadata = MINIMAL")  # it asks the variable, not the event


Image = tuple[bytes | None, ...] | None


def seen_by_mysql_replication(server: Server, name: TableName, lo: Location) -> list[tuple[Image, Image]]:
    """(before, after) of every row, in canonical values."""
    stream = BinLogStreamReader(
        connection_settings={
            "host": server.host,
            "port": server.port,
            "user": server.user,
            "passwd": server.password,
        },
        server_id=4_000_000_001,
        log_file=lo.file,
        log_pos=lo.position,
        resume_stream=True,
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
        only_tables=[name.table],
        only_schemas=[name.schema],
    )
    found: list[tuple[Image, Image]] = []
    for event in stream:
        for row in event.rows:
            match event:
                case UpdateRowsEvent():
                    found.append((canonical(row["before_values"]), canonical(row["after_values"])))
                case WriteRowsEvent():
                    found.append((None, canonical(row["values"])))
                case _:
                    found.append((canonical(row["values"]), None))
    stream.close()
    return found


def canonical(values: dict[str, object]) -> Image:
    return tuple(None if value is None else str(value).encode() for value in values.values())
