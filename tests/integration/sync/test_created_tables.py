"""CREATE TABLE in the log, where the target has a table of that name: whose rows those may be that it has."""

import pytest

from airflow_provider_dm.engine.meta.records import OperatorKind, SqlPattern
from airflow_provider_dm.engine.sync import following
from airflow_provider_dm.engine.sync.errors import DdlNotSupported
from tests.integration.sync.conftest import SyncKit, rows_of
from tests.integration.sync.test_by_hand import wanted

COLUMNS = "id int PRIMARY KEY, v int"


def begin(kit: SyncKit, *rows: str) -> None:
    """Create a table at the source for which the target has one already, with these rows."""
    kit.begin_with("plain")
    kit.target.sql(f"CREATE TABLE made ({COLUMNS})", database=kit.schema)
    for row in rows:
        kit.target.sql(f"INSERT INTO made VALUES {row}", database=kit.schema)
    kit.write(f"CREATE TABLE made ({COLUMNS})")
    kit.write("INSERT INTO made VALUES (1, 1)")


def stops(kit: SyncKit) -> None:
    kit.stops(DdlNotSupported, match=rf"DM-6032.*{kit.schema}\.made.*with rows.*binlog skip")


def test_a_table_with_rows_is_not_adopted_as_a_new_table(one_kit: SyncKit) -> None:
    begin(one_kit, "(7, 7)")
    stops(one_kit)
    stops(one_kit)
    assert rows_of(one_kit.target, one_kit.schema, "made") == [(7, 7)]
    one_kit.target.sql("RENAME TABLE made TO others", database=one_kit.schema)
    one_kit.sync()
    assert rows_of(one_kit.target, one_kit.schema, "made") == [(1, 1)]
    assert rows_of(one_kit.target, one_kit.schema, "others") == [(7, 7)]


def test_a_user_may_adopt_the_table_with_its_rows(one_kit: SyncKit) -> None:
    begin(one_kit, "(7, 7)")
    stops(one_kit)
    wanted(one_kit, OperatorKind.SKIP, SqlPattern("CREATE TABLE made"))
    one_kit.sync()
    assert rows_of(one_kit.target, one_kit.schema, "made") == [(1, 1), (7, 7)]
    one_kit.write("ALTER TABLE made ADD w int NOT NULL DEFAULT 3")
    one_kit.sync()
    assert rows_of(one_kit.target, one_kit.schema, "made") == [(1, 1, 3), (7, 7, 3)]


def test_an_injected_statement_is_executed_before_the_check_for_existing_tables(one_kit: SyncKit) -> None:
    begin(one_kit, "(7, 7)")
    wanted(
        one_kit, OperatorKind.INJECT, SqlPattern("CREATE TABLE made"), f"ALTER TABLE `{one_kit.schema}`.plain ADD x int"
    )
    stops(one_kit)
    one_kit.target.sql("DROP TABLE made", database=one_kit.schema)
    one_kit.sync()
    assert rows_of(one_kit.target, one_kit.schema, "made") == [(1, 1)]


def test_an_empty_existing_table_is_accepted(one_kit: SyncKit) -> None:
    begin(one_kit)
    one_kit.sync()
    assert rows_of(one_kit.target, one_kit.schema, "made") == [(1, 1)]


def test_create_or_replace_does_not_replace_a_table_outside_of_the_task(mariadb11_kit: SyncKit) -> None:
    """For a table outside of the task, the target's table must not be dropped."""
    begin(mariadb11_kit)
    mariadb11_kit.sync()
    mariadb11_kit.write(f"CREATE OR REPLACE TABLE made ({COLUMNS})")
    mariadb11_kit.write("INSERT INTO made VALUES (2, 2)")
    mariadb11_kit.sync()
    assert rows_of(mariadb11_kit.target, mariadb11_kit.schema, "made") == [(2, 2)]
    mariadb11_kit.target.sql(f"CREATE TABLE second ({COLUMNS})", database=mariadb11_kit.schema)
    mariadb11_kit.target.sql("INSERT INTO second VALUES (7, 7)", database=mariadb11_kit.schema)
    mariadb11_kit.write(f"CREATE OR REPLACE TABLE second ({COLUMNS})")
    mariadb11_kit.stops(DdlNotSupported, match=r"second.*with rows")


def test_a_table_that_this_task_has_created_is_accepted_with_rows(
    one_kit: SyncKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run died between the CREATE and its commit, and another client wrote to the new table."""
    begin(one_kit)
    one_kit.target.sql("DROP TABLE made", database=one_kit.schema)

    def dies(*_arguments: object, **_named: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(following, "plan_for", dies)
        one_kit.stops(ZeroDivisionError)
    one_kit.target.sql("INSERT INTO made VALUES (7, 7)", database=one_kit.schema)
    one_kit.sync()
    assert rows_of(one_kit.target, one_kit.schema, "made") == [(1, 1), (7, 7)]


def test_rows_of_a_shard_that_was_dropped_stay(one_kit: SyncKit) -> None:
    """The target table is the task's own, also when none of its source tables is left."""
    names = {"schema-pattern": one_kit.schema, "target-schema": one_kit.schema}
    one_kit.task_keys = {"routes": {"merged": {**names, "table-pattern": "o_*", "target-table": "o"}}}
    one_kit.instance_keys = {"route_rules": ["merged"]}
    one_kit.begin_with("plain")
    one_kit.write(f"CREATE TABLE o_1 ({COLUMNS})", f"CREATE TABLE o_2 ({COLUMNS})")
    one_kit.write("INSERT INTO o_1 VALUES (1, 1)", "INSERT INTO o_2 VALUES (2, 2)")
    one_kit.sync()
    one_kit.write("DROP TABLE o_1, o_2", f"CREATE TABLE o_3 ({COLUMNS})")
    one_kit.write("INSERT INTO o_3 VALUES (3, 3)")
    one_kit.sync()
    assert rows_of(one_kit.target, one_kit.schema, "o") == [(1, 1), (2, 2), (3, 3)]
