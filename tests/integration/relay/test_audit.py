"""`spark.read.format("dm_relay")` on relays of real servers: its rows equal those of the servers."""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from airflow_provider_dm.engine.audit.arrow import AnyTable, OneTable, schema_of
from airflow_provider_dm.engine.audit.errors import TableUndefined
from airflow_provider_dm.engine.audit.pieces import audit_pieces
from airflow_provider_dm.engine.binlog.errors import SchemaMismatch
from airflow_provider_dm.engine.downstream.claim import claim_generation
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.meta_tables import ensure_meta_tables
from airflow_provider_dm.engine.downstream.session import run_transaction
from airflow_provider_dm.engine.downstream.subtask import UNIT_SYNC, begin_subtask
from airflow_provider_dm.engine.downstream.table_schema import TableSchema, put_table_schemas
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.mysql.connection import Connection, connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.catalogue import read_tables
from airflow_provider_dm.engine.schema.definitions_file import current_definitions, write_definitions
from spark_apps.relay_source import RelaySource
from spark_apps.runner import SparkRunner
from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.relay.conftest import RelayKit
from tests.spark_fixtures import spark  # noqa: F401 (a fixture)

PASSWORD: Final = "au-d-it"

# column -> (type, values as SQL, Spark's type)
COLUMNS: Final = {
    "tiny": ("tinyint", ["-128", "127"], "bigint"),
    "big": ("bigint", ["-9223372036854775808", "9223372036854775807"], "bigint"),
    "ubig": ("bigint unsigned", ["18446744073709551615", "0"], "decimal(20,0)"),
    "zero": ("int(6) unsigned zerofill", ["7", "4294967295"], "bigint"),
    "money": ("decimal(12,3)", ["-123456789.125", "0.001"], "decimal(12,3)"),
    "wide": ("decimal(65,30)", ["'" + "9" * 35 + "." + "9" * 30 + "'", "'-0.5'"], "string"),
    "single": ("float", ["0.1", "-3.4028234663852886e38"], "double"),
    "twice": ("double", ["5e-324", "1.7976931348623157e308"], "double"),
    "flags": ("bit(9)", ["x'01ff'", "b'1'"], "bigint"),
    "all_bits": ("bit(64)", ["x'ffffffffffffffff'", "0"], "decimal(20,0)"),
    "y": ("year", ["2024", "0"], "string"),
    "d": ("date", ["'0000-00-00'", "'2024-02-29'"], "string"),
    "dt": ("datetime(3)", ["'9999-12-31 23:59:59.999'", "'1000-01-01'"], "string"),
    "ts": ("timestamp(6) null", ["'2024-10-27 00:30:00.000001'", "'1970-01-01 00:00:01'"], "string"),
    "t": ("time(1)", ["'-838:59:58.9'", "'00:00:00'"], "string"),
    "txt": ("text", ["'😀 it''s'", "''"], "string"),
    "west": ("varchar(20) character set latin1", ["'€ä'", "'a'"], "string"),
    "raw": ("varbinary(9)", ["x'00ff'", "''"], "binary"),
    "fixed": ("binary(3)", ["x'01'", "'abc'"], "binary"),
    "size": ("enum('s','m','ö')", ["'ö'", "'s'"], "string"),
    "marks": ("set('a','b')", ["'a,b'", "''"], "string"),
}


@pytest.fixture(scope="module")
def session(spark: SparkRunner) -> SparkSession:  # noqa: F811
    session = SparkSession.builder.getOrCreate()
    session.dataSource.register(RelaySource)
    return session


@pytest.fixture
def source_yaml(kit: RelayKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An account that may only read, whose password the file does not hold."""
    plugin = "caching_sha2_password" if kit.server.flavour == "mysql" else ""
    kit.server.create_user("auditor", PASSWORD, privileges="SELECT", plugin=plugin)
    (tmp_path / "password").write_text(PASSWORD)
    path = tmp_path / "source.yaml"
    login = {"host": kit.server.host, "port": kit.server.port, "user": "auditor"}
    login["password-file"] = str(tmp_path / "password")
    path.write_text(json.dumps({"source-id": kit.source_id, "from": login}))
    yield path
    kit.server.sql("DROP USER auditor")


def create(kit: RelayKit, schema: str) -> None:
    columns = ", ".join(f"`{name}` {kind}" for name, (kind, _, _) in COLUMNS.items())
    mode = "SET sql_mode = 'ALLOW_INVALID_DATES'"
    kit.server.sql(f"{mode}; CREATE TABLE `{schema}`.things (id INT PRIMARY KEY, {columns})")


def fill(kit: RelayKit, schema: str) -> None:
    """Inserts with edges and with NULLs, an update and a delete."""
    with kit.server.connect(database=schema) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
        for number in range(2):
            values = ", ".join(edges[number] for _, edges, _ in COLUMNS.values())
            cursor.execute(f"INSERT INTO things VALUES ({number}, {values})")
        cursor.execute("INSERT INTO things (id) VALUES (2), (3)")
        cursor.execute("UPDATE things SET big = 5, txt = NULL WHERE id IN (0, 3)")
        cursor.execute("DELETE FROM things WHERE id = 2")


def read(session: SparkSession, kit: RelayKit, **options: object) -> DataFrame:
    named = {name.replace("_", "-"): str(value) for name, value in options.items()}
    return session.read.format("dm_relay").options(**named).load(str(kit.root))


def read_here(kit: RelayKit, **options: object) -> list[dict[str, Any]]:
    """The same in this process, without Spark, which tries four times what fails."""
    source = RelaySource({"path": str(kit.root), **{name: str(value) for name, value in options.items()}})
    reader = source.reader(source.schema())
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def rows_of(frame: DataFrame) -> list[Row]:
    """Return the rows in the log's order; sorted here, as Spark would exchange them for it."""
    return sorted(frame.collect(), key=lambda row: (row.sub_dir, row.file, row.position, row.row))


def replayed(rows: list[Row]) -> dict[Any, dict[str, Any]]:
    """The table after these changes; each change finds its `before` row."""
    table: dict[Any, dict[str, Any]] = {}
    for row in rows:
        if row.before is not None:
            before = row.before.asDict()
            assert table.pop(before["id"]) == before
        if row.after is not None:
            after = row.after.asDict()
            assert table.setdefault(after["id"], after) is after
    return table


def selected(kit: RelayKit, schema: str) -> dict[Any, dict[str, Any]]:
    """The same table, asked for with casts that have nothing to do with the engine."""
    as_text = ("y", "d", "dt", "ts", "t", "wide")
    numbers = {"flags": "flags + 0", "all_bits": "all_bits + 0", "single": "single * 1e0", "zero": "zero + 0"}
    numbers |= {name: f"CAST({name} AS CHAR)" for name in as_text}
    names = ["id", *COLUMNS]
    with kit.server.connect(database=schema) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(f"SELECT {', '.join(numbers.get(name, f'`{name}`') for name in names)} FROM things")
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    for row in rows:
        for name in ("ubig", "all_bits"):
            row[name] = None if row[name] is None else Decimal(row[name])
        row["marks"] = row["marks"] if row["marks"] is None or isinstance(row["marks"], str) else ",".join(row["marks"])
    return {row["id"]: row for row in rows}


def test_typed_columns_replay_to_what_the_server_has(
    session: SparkSession, kit: RelayKit, source_yaml: Path, fresh_schema: FreshSchema
) -> None:
    schema = fresh_schema(kit.server)
    create(kit, schema)
    fill(kit, schema)
    kit.catch_up()
    changes = read(session, kit, source=source_yaml, table=f"{schema}.things")
    types = dict(changes.select("after.*").dtypes)
    assert types == {"id": "bigint", **{name: kind for name, (_, _, kind) in COLUMNS.items()}}
    rows = rows_of(changes)
    assert [row.operation for row in rows] == ["insert"] * 4 + ["update"] * 2 + ["delete"]
    assert replayed(rows) == selected(kit, schema)


def test_changes_of_all_tables_have_location_time_and_transaction(
    session: SparkSession, kit: RelayKit, source_yaml: Path, fresh_schema: FreshSchema
) -> None:
    schema = fresh_schema(kit.server)
    one, other = f"`{schema}`.one", f"`{schema}`.other"
    kit.server.sql(f"CREATE TABLE {one} (id INT PRIMARY KEY, b BLOB); CREATE TABLE {other} (k VARCHAR(9), n INT)")
    (before,) = kit.server.sql("SELECT UNIX_TIMESTAMP()")
    kit.server.sql(
        f"BEGIN; INSERT INTO {one} VALUES (1, x'00'), (2, NULL); INSERT INTO {other} VALUES ('x', 7); COMMIT"
    )
    kit.server.sql(f"CREATE TABLE `{schema}`.between_them (a INT); UPDATE {one} SET b = 'a' WHERE id = 2")
    kit.server.sql(f"DELETE FROM {other}")
    kit.catch_up()
    rows = rows_of(read(session, kit, source=source_yaml, schema=schema))
    assert [(row.table, row.operation, row.before, row.after) for row in rows] == [
        ("one", "insert", None, {"id": "1", "b": "0x00"}),
        ("one", "insert", None, {"id": "2", "b": None}),
        ("other", "insert", None, {"k": "x", "n": "7"}),
        ("one", "update", {"id": "2", "b": None}, {"id": "2", "b": "0x61"}),
        ("other", "delete", {"k": "x", "n": "7"}, None),
    ]
    assert {row.schema for row in rows} == {schema}
    assert {row.file for row in rows} == {kit.first_file}
    assert {row.server_id for row in rows} == {kit.server.server_id}
    assert len({row.sub_dir for row in rows}) == 1
    assert [row.row for row in rows] == [0, 1, 0, 0, 0]
    positions = [row.position for row in rows]
    assert positions == sorted(positions)
    assert len(set(positions)) == 4
    assert all(row.end_position > row.position for row in rows)
    (after,) = kit.server.sql("SELECT UNIX_TIMESTAMP()")
    assert all(before[0] <= row.timestamp.timestamp() <= after[0] for row in rows)
    assert len({row.gtid for row in rows}) == 3
    assert rows[0].gtid == rows[2].gtid
    upstream = kit.upstream().gtid_set
    last = int(rows[4].gtid.replace("-", ":").rsplit(":", 1)[1])
    assert str(last) in upstream.replace("-", ":").replace(",", ":").split(":")


def test_definitions_from_a_file_and_pieces_of_any_size_give_one_result(
    kit: RelayKit, fresh_schema: FreshSchema, tmp_path: Path
) -> None:
    schema = fresh_schema(kit.server)
    create(kit, schema)
    fill(kit, schema)
    kit.server.sql(f"CREATE TABLE `{schema}`.many (id INT PRIMARY KEY, v VARCHAR(200))")
    with kit.server.connect(database=schema, autocommit=False) as connection, connection.cursor() as cursor:
        for number in range(300):  # one transaction of many statements, and so of many pieces
            cursor.execute("INSERT INTO many VALUES (%s, REPEAT('v', 200))", (number,))
        connection.commit()
    kit.catch_up()
    with connected(kit.endpoint.resolve()) as connection:
        write_definitions(tmp_path / "tables.json", current_definitions(connection))
    kit.server.sql(f"DROP TABLE `{schema}`.things, `{schema}`.many")
    options = {"definitions": tmp_path / "tables.json", "schema": schema}
    rows = read_here(kit, **options)
    assert read_here(kit, **{"piece-bytes": 20_000}, **options) == rows
    assert len({row["operation"] for row in rows}) == 3
    many = [row for row in rows if row["table"] == "many"]
    assert [dict(row["after"])["id"] for row in many] == [str(number) for number in range(300)]
    assert len({row["gtid"] for row in many}) == 1
    assert len(audit_pieces(kit.root, piece_bytes=20_000)) > len(audit_pieces(kit.root))


def test_a_start_and_an_end_bound_what_is_read(
    session: SparkSession, kit: RelayKit, source_yaml: Path, fresh_schema: FreshSchema
) -> None:
    schema = fresh_schema(kit.server)
    places = []
    kit.server.sql(f"CREATE TABLE `{schema}`.t (id INT PRIMARY KEY)")
    for number in range(4):
        places.append(kit.upstream())
        kit.server.sql(f"INSERT INTO `{schema}`.t VALUES ({number})")
        if number == 1:
            kit.server.sql("FLUSH BINARY LOGS")
    kit.catch_up()
    table = {"source": source_yaml, "table": f"{schema}.t"}
    assert [row["after"]["id"] for row in read_here(kit, **table)] == [0, 1, 2, 3]
    assert [row["after"]["id"] for row in read_here(kit, start=places[1], end=places[3], **table)] == [1, 2]
    end = kit.upstream()
    if kit.server.flavour == "mysql":  # Spark makes a partition of its own where there is none
        assert read(session, kit, start=end, **table).collect() == []
    assert read_here(kit, start=end, **table) == []
    with pytest.raises(InvalidInput, match=r"the relay log in .* ends with"):
        read_here(kit, end=f"{end.file}:{end.position + 1}", **table)


def test_a_definition_that_contradicts_the_log_stops_and_later_rows_are_read(
    session: SparkSession, kit: RelayKit, source_yaml: Path, fresh_schema: FreshSchema
) -> None:
    schema = fresh_schema(kit.server)
    kit.server.sql(f"CREATE TABLE `{schema}`.t (id INT PRIMARY KEY); INSERT INTO `{schema}`.t VALUES (1)")
    kit.server.sql(f"ALTER TABLE `{schema}`.t ADD n INT")
    behind = kit.upstream()
    kit.server.sql(f"INSERT INTO `{schema}`.t VALUES (2, 3)")
    kit.catch_up()
    table = {"source": source_yaml, "table": f"{schema}.t"}
    with pytest.raises(SchemaMismatch, match=rf"{kit.first_file}:\d+"):
        read_here(kit, **table)
    if kit.server.flavour == "mysql":  # once, that Spark passes on what an executor says; it tries four times
        with pytest.raises(PySparkException, match=rf"DM-5010.*{kit.first_file}:\d+"):
            rows_of(read(session, kit, **table))
    (row,) = read_here(kit, start=behind, **table)
    assert row["after"] == {"id": 2, "n": 3}


def test_a_task_has_the_former_definitions_of_its_tables(
    kit: RelayKit, source_yaml: Path, tmp_path: Path, fresh_schema: FreshSchema
) -> None:
    schema = fresh_schema(kit.server)
    kit.server.sql(f"CREATE TABLE `{schema}`.t (id INT PRIMARY KEY); INSERT INTO `{schema}`.t VALUES (1)")
    behind = kit.upstream()
    endpoint = Endpoint("test", kit.server.host, kit.server.port, kit.server.user)
    ref = SubtaskRef(f"{schema}_meta", "task", kit.source_id)
    name = TableName(schema, "t")
    with connected(endpoint) as connection:
        tables = read_tables(connection, [name])
    task = {
        "name": "task",
        "task-mode": "all",
        "meta-schema": ref.meta_schema,
        "target-database": json.loads(source_yaml.read_text())["from"],
        "mysql-instances": [{"source-id": kit.source_id}],
    }
    (tmp_path / "task.yaml").write_text(json.dumps(task))
    options = {"source": source_yaml, "task": tmp_path / "task.yaml", "table": f"{schema}.t"}
    fence = Fence(ref, 1)
    ensure_meta_tables(endpoint, ref.meta_schema)
    with pytest.raises(InvalidInput, match="has not begun"):
        read_here(kit, **options)

    claim_generation(endpoint, fence)

    def begin(tx: Connection) -> None:
        begin_subtask(tx, fence, unit=UNIT_SYNC, start=behind)
        put_table_schemas(tx, ref, [TableSchema(tables[name], name)])

    run_transaction(endpoint, begin)
    kit.server.sql(f"ALTER TABLE `{schema}`.t ADD n INT")
    kit.catch_up()
    (row,) = read_here(kit, **options)
    assert row["after"] == {"id": 1}


def test_a_dropped_table_stops_the_audit_unless_it_may_be_omitted(
    kit: RelayKit, source_yaml: Path, fresh_schema: FreshSchema
) -> None:
    schema = fresh_schema(kit.server)
    kit.server.sql(f"CREATE TABLE `{schema}`.gone (id INT); INSERT INTO `{schema}`.gone VALUES (1)")
    kit.server.sql(f"CREATE TABLE `{schema}`.kept (id INT); INSERT INTO `{schema}`.kept VALUES (2)")
    kit.server.sql(f"DROP TABLE `{schema}`.gone")
    kit.catch_up()
    with pytest.raises(TableUndefined, match=rf"{schema}\.gone.*{kit.first_file}"):
        read_here(kit, source=source_yaml, schema=schema)
    (row,) = read_here(kit, source=source_yaml, schema=schema, undefined="skip")
    assert row["after"] == [("id", "2")]
    with pytest.raises(InvalidInput, match="no definition"):
        read_here(kit, source=source_yaml, table=f"{schema}.gone")


def test_nothing_that_spark_is_given_holds_the_password(
    kit: RelayKit, source_yaml: Path, fresh_schema: FreshSchema
) -> None:
    schema = fresh_schema(kit.server)
    kit.server.sql(f"CREATE TABLE `{schema}`.t (id INT PRIMARY KEY); INSERT INTO `{schema}`.t VALUES (1)")
    kit.catch_up()
    source = RelaySource({"path": str(kit.root), "source": str(source_yaml), "schema": schema})
    reader = source.reader(source.schema())
    for travels in (source, reader, reader.partitions()):
        assert PASSWORD.encode() not in cloudpickle.dumps(travels)


def test_sparks_schema_is_the_batches_schema(source: Server, fresh_schema: FreshSchema) -> None:
    """Spark compares it with the first batch only, and a difference would be read as garbage."""
    name = TableName(fresh_schema(source), "things")
    columns = ", ".join(f"`{column}` {kind}" for column, (kind, _, _) in COLUMNS.items())
    source.sql(f"CREATE TABLE {name.quoted()} (id INT PRIMARY KEY, {columns})")
    with connected(Endpoint("test", source.host, source.port, source.user)) as connection:
        table = read_tables(connection, [name])[name]
    for shape in (OneTable(table), OneTable(table, text_as_bytes=True), AnyTable([table])):
        schema = schema_of(shape)
        assert to_arrow_schema(from_arrow_schema(schema), timezone="UTC") == schema
