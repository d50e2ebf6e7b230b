"""An incremental task begins in the past, with DDL after its start: its tables are what they were there."""

from collections.abc import Sequence

import pytest

from airflow_provider_dm.engine.binlog.errors import SchemaMismatch
from airflow_provider_dm.engine.downstream.errors import NoTargetTable
from airflow_provider_dm.engine.meta.records import OperatorKind, OperatorState, SqlPattern
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.sync.errors import DdlNotSupported, DefinitionNeeded
from tests.integration.sync.conftest import SyncKit, rows_of
from tests.integration.sync.test_by_hand import given, states, wanted
from tests.integration.sync.test_follows_ddl import check_equal

TABLES = (
    "CREATE TABLE a (id int PRIMARY KEY, v varchar(20))",
    "CREATE TABLE b (id int PRIMARY KEY, v varchar(20))",
    "CREATE TABLE d (id int PRIMARY KEY)",
    "CREATE TABLE e (id int PRIMARY KEY, s enum('x', 'y'))",
)
LIFE = (
    "INSERT INTO a VALUES (1, 'one'), (2, 'two')",
    "INSERT INTO b VALUES (1, 'one')",
    "INSERT INTO d VALUES (1)",
    "ALTER TABLE a ADD COLUMN w int NOT NULL DEFAULT 7 FIRST",
    "UPDATE a SET w = 8 WHERE id = 1",
    "CREATE INDEX i ON b (v)",
    "CREATE TABLE c LIKE a",
    "INSERT INTO c VALUES (3, 3, 'three')",
    "DROP TABLE d",
    "ALTER TABLE a DROP COLUMN v",
    "INSERT INTO a VALUES (9, 9)",
    "INSERT INTO e VALUES (1, 'x'), (2, 'y')",
)


def lived(kit: SyncKit, life: Sequence[str]) -> Location:
    """Both sides have the tables; what happens since is in the log of the source only. Returns the start."""
    _ = kit.first_file
    for server in (kit.source, kit.target):
        for statement in TABLES:
            server.sql(statement, database=kit.schema)
    kit.pull()
    start = kit.upstream()
    for statement in life:
        kit.write(statement)
    return start


@pytest.mark.every_pair
def test_ddl_after_the_start_is_followed(kit: SyncKit) -> None:
    kit.sync(start=lived(kit, [*LIFE, "ALTER TABLE e MODIFY s enum('y', 'x')"]))
    check_equal(kit)


def test_a_column_that_the_target_already_has(kit: SyncKit) -> None:
    """A user has added it there, where the rows before the statement do not have it."""
    kit.target.sql(f"CREATE TABLE `{kit.schema}`.f (id int PRIMARY KEY, n int, own int)")
    kit.source.sql(f"CREATE TABLE `{kit.schema}`.f (id int PRIMARY KEY, own int)")
    kit.write("INSERT INTO f VALUES (1, 1)")
    kit.sync(start=lived(kit, ["INSERT INTO f VALUES (2, 2)", "ALTER TABLE f ADD n int AFTER id"]))
    assert rows_of(kit.target, kit.schema, "f") == [(2, None, 2)]


def test_a_user_sets_the_former_definition(one_kit: SyncKit) -> None:
    start = lived(one_kit, ["INSERT INTO a VALUES (1, 'one')", "ALTER TABLE a MODIFY v varchar(300)"])
    one_kit.target.sql(f"ALTER TABLE `{one_kit.schema}`.a MODIFY v varchar(300)")
    one_kit.stops(SchemaMismatch, match="dmctl binlog-schema update", start=start)
    given(one_kit, "a", TABLES[0])
    one_kit.sync(start=start)
    check_equal(one_kit)


def test_without_ddl_the_tables_are_the_current_ones(kit: SyncKit) -> None:
    kit.target.sql(f"CREATE TABLE `{kit.schema}`.only_there (id int PRIMARY KEY)")
    kit.sync(start=lived(kit, LIFE[:3]))
    for table in "abd":
        assert rows_of(kit.target, kit.schema, table) == rows_of(kit.source, kit.schema, table)


def test_tables_that_were_renamed_since(kit: SyncKit) -> None:
    life = ("INSERT INTO a VALUES (1, 'one')", "RENAME TABLE a TO z", "INSERT INTO z VALUES (2, 'two')")
    kit.sync(start=lived(kit, life))
    check_equal(kit)


def test_a_definition_that_neither_server_has(one_kit: SyncKit) -> None:
    start = lived(one_kit, ["ALTER TABLE a ADD w int, MODIFY v varchar(30)"])
    one_kit.target.sql(f"ALTER TABLE `{one_kit.schema}`.a DROP COLUMN v")
    one_kit.stops(
        DefinitionNeeded, match=f"{one_kit.schema}.a was altered since .* the column v is not known", start=start
    )


def test_a_source_that_has_no_table_yet(kit: SyncKit) -> None:
    kit.pull()
    start = kit.upstream()
    kit.sync(start=start)
    for statement in ("CREATE TABLE a (id int PRIMARY KEY, v varchar(20))", "INSERT INTO a VALUES (1, 'one')"):
        kit.write(statement)
    kit.sync()
    check_equal(kit)


def test_a_start_before_any_table_exists(kit: SyncKit) -> None:
    kit.pull()
    start = kit.upstream()
    for statement in ("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)", "ALTER TABLE a ADD v int"):
        kit.write(statement)
    kit.sync(start=start)
    check_equal(kit)


def test_a_target_table_that_is_missing_is_created_by_hand(one_kit: SyncKit) -> None:
    start = lived(one_kit, ["INSERT INTO a VALUES (1, 'one')"])
    one_kit.target.sql(f"DROP TABLE `{one_kit.schema}`.a")
    one_kit.stops(NoTargetTable, match=rf"{one_kit.schema}\.a", start=start)
    one_kit.target.sql(TABLES[0], database=one_kit.schema)
    one_kit.sync(start=start)
    check_equal(one_kit)


def test_a_user_decides_about_statements_after_the_start(kit: SyncKit) -> None:
    """One that is refused is skipped, another one replaced, between DDL that is followed."""
    life = (
        "INSERT INTO a VALUES (1, 'one')",
        "ALTER TABLE a ADD COLUMN w int NOT NULL DEFAULT 7 FIRST",
        "ALTER TABLE b ENGINE=MyISAM",
        "INSERT INTO b VALUES (1, 'one')",
        "ALTER TABLE b ADD COLUMN w int NULL",
        "INSERT INTO b VALUES (2, 'two', 2)",
        "INSERT INTO a VALUES (8, 2, 'two')",
        "ALTER TABLE a DROP COLUMN v",
    )
    start = lived(kit, life)
    kit.stops(DdlNotSupported, start=start)
    wanted(kit, OperatorKind.SKIP, SqlPattern("MyISAM"))
    instead = f"ALTER TABLE `{kit.schema}`.b ADD COLUMN w bigint NULL"
    wanted(kit, OperatorKind.REPLACE, SqlPattern("ADD COLUMN w int NULL"), instead)
    kit.sync()
    assert states(kit) == [OperatorState.PASSED, OperatorState.PASSED]
    assert rows_of(kit.target, kit.schema, "a") == [(7, 1), (8, 2)]
    assert rows_of(kit.target, kit.schema, "b") == [(1, b"one", None), (2, b"two", 2)]
    kinds = "SELECT data_type FROM information_schema.columns WHERE table_schema = %s AND column_name = 'w'"
    assert ("bigint",) in kit.target.sql(f"{kinds} AND table_name = 'b'", [kit.schema])
