"""The precheck of a task's start location, at which its source's tables may have had other definitions."""

from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.precheck.result import PrecheckReport, State
from testbed import Server
from tests.conftest import FreshSchema

from .test_precheck import check, location_of, result


def check_start(source: Server, target: Server, schema: str, start: Location) -> PrecheckReport:
    """Return the precheck's report of an incremental task that begins there."""
    meta = {"binlog-name": start.file, "binlog-pos": start.position}
    instance = {"source-id": "one", "block-allow-list": "ba", "meta": meta}
    task = {"task-mode": "incremental", "meta-schema": f"{schema}_meta", "mysql-instances": [instance]}
    return check(source, target, [schema], task=task)


def test_ddl_since_a_start_in_the_past(source: Server, target: Server, fresh_schema: FreshSchema) -> None:
    """A dump, DDL, then the task: what the target lacks comes by the log, unless the task begins after the DDL."""
    schema = fresh_schema(source, target)
    for server in (source, target):
        server.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))", database=schema)
    start = location_of(source)
    source.sql("ALTER TABLE t ADD w INT; CREATE TABLE made (id INT PRIMARY KEY)", database=schema)

    past = check_start(source, target, schema, start)
    now = check_start(source, target, schema, location_of(source))

    assert past.passed, past
    assert "missing: w int" in result(past, "table_columns", "target", State.WARN).message
    assert "leave the target's table as it was" in result(past, "table_columns", "target", State.WARN).remedy
    assert f"{schema}.made does not exist" in result(past, "table_creation", "target", State.WARN).message
    assert {one.name for one in now.failures} == {"table_columns", "table_creation"}


def test_a_unique_key_of_the_target_alone(source: Server, target: Server, fresh_schema: FreshSchema) -> None:
    """A start in the past may meet two rows that were never there together; a load and an exact start do not."""
    schema = fresh_schema(source, target)
    source.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", database=schema)
    target.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT UNIQUE)", database=schema)
    start = location_of(source)
    source.sql("INSERT INTO t VALUES (1, 1)", database=schema)

    past = check_start(source, target, schema, start)

    assert "unique key v" in result(past, "table_columns", "target", State.WARN).message
    assert check_start(source, target, schema, location_of(source)).passed
    assert check(source, target, [schema]).passed


def test_with_filters_the_target_must_distinguish_all_rows_of_the_source(
    source: Server, target: Server, fresh_schema: FreshSchema
) -> None:
    schema = fresh_schema(source, target)
    source.sql("CREATE TABLE t (c VARCHAR(9) COLLATE utf8mb4_bin PRIMARY KEY)", database=schema)
    target.sql("CREATE TABLE t (c VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY)", database=schema)
    rule = {"schema-pattern": schema, "events": ["delete"], "action": "Ignore"}
    instance = {"source-id": "one", "block-allow-list": "ba", "filter-rules": ["kept"]}

    report = check(source, target, [schema], task={"mysql-instances": [instance], "filters": {"kept": rule}})

    assert "unique key PRIMARY" in result(report, "table_columns", "target", State.FAIL).message
    assert check(source, target, [schema]).passed


def test_a_source_without_tables_yet(mysql_source: Server, target: Server, fresh_schema: FreshSchema) -> None:
    schema = fresh_schema(mysql_source, target)
    mode = {"task-mode": "full"}

    follows = check_start(mysql_source, target, schema, location_of(mysql_source))
    copies = check(mysql_source, target, [schema], task=mode)

    assert follows.passed, follows
    assert "sees none of the tables" in result(follows, "dump_privilege", state=State.WARN).message
    assert "sees none of the tables" in result(copies, "dump_privilege", state=State.FAIL).message
