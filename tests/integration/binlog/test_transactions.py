"""The events of real servers around rows: commits, rollbacks, savepoints, DDL, ids."""

from pathlib import Path

import pymysql
import pytest
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from airflow_provider_dm.engine.binlog.errors import ChangeNotInLog, PartialRowImage, UnknownEvent
from airflow_provider_dm.engine.binlog.planned import DdlStatement, Epoch
from airflow_provider_dm.engine.errors import DmError, NotSupportedYet
from airflow_provider_dm.engine.mysql.connection import query, text
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.gtid import GtidSet
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from testbed import Server, ServerSpec
from tests.conftest import StartServers
from tests.integration.binlog.reading import FreshSchema, definition, here, logged, session
from tests.integration.binlog.walking import end_xa, events_between, plans, run


@pytest.fixture
def name(source: Server, fresh_schema: FreshSchema) -> TableName:
    created = TableName(fresh_schema(source), "t")
    run(session(source), created, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(10)) ENGINE=InnoDB")
    return created


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
    with pytest.raises(ChangeNotInLog, match="was rolled back after"):
        list(plans(mariadb_source, lo, here(connection)))


def test_ddl_is_an_event_of_its_own_and_create_table_select_has_rows(source: Server, name: TableName) -> None:
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


STOPPED: list[tuple[list[str], type[DmError], str]] = [
    (["SET SESSION binlog_format = STATEMENT", "INSERT INTO t VALUES (1, 'a')"], ChangeNotInLog, "INSERT INTO t"),
    (["SET SESSION binlog_format = STATEMENT", "SET @a = 5", "INSERT INTO t VALUES (@a, 1)"], UnknownEvent, "USER_VAR"),
    (["SET SESSION binlog_format = STATEMENT", "INSERT INTO t VALUES (1, rand())"], UnknownEvent, "RAND"),
    (["SET SESSION binlog_format = STATEMENT", "INSERT INTO i VALUES (NULL)"], UnknownEvent, "INTVAR"),
    (["SET SESSION binlog_format = STATEMENT", "LOAD DATA"], UnknownEvent, "BEGIN_LOAD_QUERY"),
]


@pytest.mark.parametrize(
    ("statements", "error", "what"),
    STOPPED,
    ids=["statement", "user variable", "random seed", "automatic number", "loaded file"],
)
def test_events_that_cannot_be_applied_stop(
    source: Server, name: TableName, tmp_path: Path, statements: list[str], error: type[DmError], what: str
) -> None:
    connection = session(source)
    run(connection, name, "CREATE TABLE i (id INT AUTO_INCREMENT PRIMARY KEY)")
    (tmp_path / "rows").write_text("1\ta\n")
    tmp_path.chmod(0o755)
    lo = here(connection)
    load = f"LOAD DATA INFILE '{tmp_path / 'rows'}' INTO TABLE t"
    run(connection, name, *[load if one == "LOAD DATA" else one for one in statements])
    hi = here(connection)
    with pytest.raises(error, match=what):
        list(plans(source, lo, hi))


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_rows_of_an_xa_transaction_are_applied_at_its_commit(source: Server, name: TableName, end: str) -> None:
    connection = session(source)
    table, lo = definition(connection, name), here(connection)
    run(
        connection,
        name,
        "XA START 'x'",
        "INSERT INTO t VALUES (1, 'a')",
        "SAVEPOINT s",
        "INSERT INTO t VALUES (2, 'b')",
    )
    run(connection, name, "ROLLBACK TO s", "XA END 'x'", "XA PREPARE 'x'")
    connection.close()  # MySQL lets nothing else be done by a session with a prepared transaction
    other = session(source)
    run(other, name, "INSERT INTO t VALUES (-3, 'c')")  # after 1 lies a gap that is locked
    end_xa(source, "'x'", end)
    run(other, name, "INSERT INTO t VALUES (4, 'd')")
    found = [change.after and change.after[0] for change in logged(source, table, lo, here(other))]
    assert found == ([b"-3", b"1", b"4"] if end == "COMMIT" else [b"-3", b"4"])


def test_xa_in_one_phase_is_an_ordinary_transaction(source: Server, name: TableName) -> None:
    connection = session(source)
    table, lo = definition(connection, name), here(connection)
    run(connection, name, "XA START 'x'", "INSERT INTO t VALUES (1, 'a')", "XA END 'x'", "XA COMMIT 'x' ONE PHASE")
    hi = here(connection)
    assert [change.after for change in logged(source, table, lo, hi)] == [(b"1", b"a")]
    (epoch,) = plans(source, lo, hi)
    assert isinstance(epoch, Epoch)
    assert not epoch.prepared


@pytest.mark.parametrize("algorithm", ["COPY", "INPLACE"])
def test_an_alter_in_two_phases_is_read_once_and_a_failed_one_never(
    mariadb_source: Server, fresh_schema: FreshSchema, algorithm: str
) -> None:
    name = TableName(fresh_schema(mariadb_source), "t")
    connection = session(mariadb_source)
    run(connection, name, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (0, 1), (1, 1)")
    lo = here(connection)
    run(connection, name, "SET SESSION binlog_alter_two_phase = ON", f"ALTER TABLE t ADD z INT, ALGORITHM={algorithm}")
    with pytest.raises(pymysql.err.IntegrityError):
        run(connection, name, f"ALTER TABLE t ADD UNIQUE KEY v (v), ALGORITHM={algorithm}")
    run(connection, name, "INSERT INTO t VALUES (2, 2, 2)", "SET SESSION binlog_alter_two_phase = OFF")
    hi = here(connection)
    logged_ones = [one for one in events_between(mariadb_source, lo, hi) if b"ALTER TABLE" in one.body]
    assert len(logged_ones) == 4  # each of them twice
    before, alter, after = plans(mariadb_source, lo, hi)
    assert isinstance(alter, DdlStatement)
    assert alter.sql == f"ALTER TABLE t ADD z INT, ALGORITHM={algorithm}"
    assert isinstance(before, Epoch)  # its first phase
    assert isinstance(after, Epoch)
    assert (before.transactions, after.transactions) == (1, 3)


def test_a_loaded_file_is_rows(source: Server, name: TableName, tmp_path: Path) -> None:
    connection = session(source)
    table, lo = definition(connection, name), here(connection)
    (tmp_path / "rows").write_text("1\ta\n2\tb\n")
    tmp_path.chmod(0o755)
    run(connection, name, f"LOAD DATA INFILE '{tmp_path / 'rows'}' INTO TABLE t")
    assert [one.after for one in logged(source, table, lo, here(connection))] == [(b"1", b"a"), (b"2", b"b")]


def test_the_text_of_a_statement_beside_its_rows_changes_nothing(source: Server, name: TableName) -> None:
    connection = session(source)
    table = definition(connection, name)
    option, event = (
        ("binlog_annotate_row_events", "ANNOTATE_ROWS")
        if source.flavour == "mariadb"
        else ("binlog_rows_query_log_events", "ROWS_QUERY")
    )
    seen = []
    for setting in ("ON", "OFF"):
        lo = here(connection)
        run(connection, name, f"SET SESSION {option} = {setting}", "INSERT INTO t VALUES (1, 'DROP t')")
        run(connection, name, "UPDATE t SET v = 'b'", "DELETE FROM t")
        hi = here(connection)
        assert (event in {one.name for one in events_between(source, lo, hi)}) == (setting == "ON")
        seen.append(logged(source, table, lo, hi))
    assert seen[0] == seen[1]
    assert len(seen[0]) == 3


def test_changes_of_documents_are_planned_and_refused(mysql_source: Server, fresh_schema: FreshSchema) -> None:
    name = TableName(fresh_schema(mysql_source), "t")
    connection = session(mysql_source)
    run(connection, name, "CREATE TABLE t (id INT PRIMARY KEY, j JSON)")
    run(connection, name, "INSERT INTO t VALUES (1, JSON_OBJECT('a', repeat('x', 1000), 'b', 1))")
    table, lo = definition(connection, name), here(connection)
    run(connection, name, "SET SESSION binlog_row_value_options = PARTIAL_JSON")
    run(connection, name, "UPDATE t SET j = JSON_SET(j, '$.b', 2)")
    hi = here(connection)
    assert "PARTIAL_UPDATE_ROWS" in {one.name for one in events_between(mysql_source, lo, hi)}
    (epoch,) = plans(mysql_source, lo, hi)
    assert isinstance(epoch, Epoch)
    assert (epoch.transactions, epoch.hi.position) == (1, hi.position)
    with pytest.raises(NotSupportedYet, match="changes of JSON documents"):
        logged(mysql_source, table, lo, hi)


def test_transactions_without_ids_are_read_too(start_own: StartServers) -> None:
    (server,) = start_own(ServerSpec("anonymous", "mysql", ("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF")))
    server.sql("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY)")
    connection = session(server)
    name = TableName("shop", "t")
    table, lo = definition(connection, name), here(connection)
    run(connection, name, "INSERT INTO t VALUES (1)", "SET SESSION binlog_transaction_compression = ON")
    run(connection, name, "INSERT INTO t VALUES (2)")
    hi = here(connection)
    assert "ANONYMOUS_GTID" in {one.name for one in events_between(server, lo, hi)}
    assert [change.after for change in logged(server, table, lo, hi)] == [(b"1",), (b"2",)]
    (epoch,) = plans(server, lo, hi)
    assert isinstance(epoch, Epoch)
    assert epoch.hi.gtid_set == ""


def test_an_encrypted_file_stops(start_own: StartServers, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("1;" + "a7" * 16 + "\n")
    options = ("--plugin-load-add=file_key_management", f"--file-key-management-filename={key}", "--encrypt-binlog=ON")
    (server,) = start_own(ServerSpec("encrypted", "mariadb", options))
    server.sql("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY)")
    end = here(session(server))
    with pytest.raises(UnknownEvent, match="START_ENCRYPTION"):
        list(plans(server, Location(end.file, 4), end))


@pytest.mark.parametrize("checksum", ["NONE", "CRC32"])
def test_checksums_may_change_while_the_source_runs(source: Server, name: TableName, checksum: str) -> None:
    connection = session(source)
    table, lo = definition(connection, name), here(connection)
    other = "NONE" if checksum == "CRC32" else "CRC32"
    try:
        for number, setting in enumerate((other, checksum, other)):
            run(connection, name, f"SET GLOBAL binlog_checksum = {setting}", f"INSERT INTO t VALUES ({number}, 'a')")
        changes = logged(source, table, lo, here(connection))
    finally:
        run(connection, name, "SET GLOBAL binlog_checksum = CRC32")
    assert [change.after and change.after[0] for change in changes] == [b"0", b"1", b"2"]


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
        connection_settings={"host": server.host, "port": server.port, "user": server.user, "passwd": server.password},
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
