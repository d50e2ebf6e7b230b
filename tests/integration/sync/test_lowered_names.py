"""Targets that take no notice of the case of names (lower_case_table_names=1; TiDB, which stores them as given)."""

from collections.abc import Iterator

import pytest

from airflow_provider_dm.engine.downstream.schema_by_hand import definition_at
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.precheck.result import State
from testbed import Server, ServerSpec
from tests.conftest import StartServers
from tests.integration.copy.migrations import Migration, differences
from tests.integration.precheck.test_precheck import check, result
from tests.integration.sync.conftest import NewKit, SyncKit, rows_of


@pytest.fixture(params=["mariadb", "mysql"])
def lowering(request: pytest.FixtureRequest, start_own: StartServers) -> Server:
    (server,) = start_own(ServerSpec("lowering", request.param, ("--lower-case-table-names=1",)))
    return server


@pytest.fixture
def lowered_kit(mysql_source: Server, lowering: Server, new_kit: NewKit) -> SyncKit:
    """Make syncs into such a target."""
    return new_kit(SyncKit, mysql_source, lowering)


@pytest.fixture
def source_schema(mysql_source: Server) -> Iterator[str]:
    """Make a schema with capital letters."""
    mysql_source.sql("DROP DATABASE IF EXISTS LowerShop; CREATE DATABASE LowerShop")
    yield "LowerShop"
    mysql_source.sql("DROP DATABASE LowerShop")


def test_tables_with_capital_letters_are_copied(mysql_source: Server, lowering: Server, source_schema: str) -> None:
    """Into a table that is there, and into one that the task creates; a second run finds both."""
    mysql_source.sql(
        "CREATE TABLE Orders (id INT PRIMARY KEY); INSERT INTO Orders VALUES (1);"
        "CREATE TABLE Parts (id INT PRIMARY KEY); INSERT INTO Parts VALUES (2)",
        database=source_schema,
    )
    lowering.sql("CREATE DATABASE LowerShop; CREATE TABLE LowerShop.Orders (id INT PRIMARY KEY)")
    migration = Migration(lowering, {"one": mysql_source}, {"one": [source_schema]}, "LowerMeta")

    report = check(mysql_source, lowering, [source_schema])
    migration.finish()
    migration.finish()

    assert report.passed, report
    tables = {f"LowerShop.{one}": [(mysql_source, f"LowerShop.{one}")] for one in ("Orders", "Parts")}
    found = differences(lowering, tables)
    assert found.equal, found


def test_two_names_that_are_equal_in_the_target(mysql_source: Server, lowering: Server, source_schema: str) -> None:
    mysql_source.sql("CREATE TABLE a (id INT PRIMARY KEY); CREATE TABLE A (id INT PRIMARY KEY)", database=source_schema)

    report = check(mysql_source, lowering, [source_schema])
    Migration(lowering, {"one": mysql_source}, {"one": [source_schema]}, "lowermeta").stops(
        InvalidInput, match=r"LowerShop\.[aA] and LowerShop\.[aA] are the same table"
    )

    assert "are the same table for the server" in result(report, "table_columns", "target", State.FAIL).message


def test_ddl_is_followed_under_the_names_of_the_source(lowered_kit: SyncKit) -> None:
    lowered_kit.both("CREATE TABLE Mixed (id INT PRIMARY KEY)")
    lowered_kit.pull()
    start = lowered_kit.upstream()
    for statement in (
        "INSERT INTO Mixed VALUES (1)",
        "ALTER TABLE Mixed ADD v INT DEFAULT 3",
        "CREATE TABLE Made LIKE Mixed",
        "INSERT INTO Made SELECT * FROM Mixed",
        "RENAME TABLE Mixed TO Moved",
        "UPDATE Moved SET v = 4",
    ):
        lowered_kit.write(statement)
    lowered_kit.sync(start=start)

    assert rows_of(lowered_kit.target, lowered_kit.schema, "Made") == [(1, 3)]
    assert rows_of(lowered_kit.target, lowered_kit.schema, "Moved") == [(1, 4)]
    name = TableName(lowered_kit.schema, "Moved")
    with connected(lowered_kit.endpoint(lowered_kit.target, "target").resolve()) as connection:
        assert name.quoted() in definition_at(connection, name).create_sql


def test_a_new_table_whose_name_is_that_of_another_one_in_the_target(lowered_kit: SyncKit) -> None:
    lowered_kit.both("CREATE TABLE Mixed (id INT PRIMARY KEY)")
    lowered_kit.pull()
    start = lowered_kit.upstream()
    lowered_kit.write("CREATE TABLE MIXED (id INT PRIMARY KEY)")
    lowered_kit.write("INSERT INTO MIXED VALUES (1)")
    with pytest.raises(InvalidInput, match="Route one of the source tables to another name"):
        lowered_kit.sync(start=start)
    assert rows_of(lowered_kit.target, lowered_kit.schema, "Mixed") == []


def test_tidb_finds_tables_by_names_of_another_case(tidb_kit: SyncKit) -> None:
    tidb_kit.source.sql("CREATE TABLE orders (id INT PRIMARY KEY)", database=tidb_kit.schema)
    tidb_kit.target.sql("CREATE TABLE Orders (id INT PRIMARY KEY)", database=tidb_kit.schema)
    tidb_kit.pull()
    start = tidb_kit.upstream()
    for statement in (
        "INSERT INTO orders VALUES (1)",
        "ALTER TABLE orders ADD v INT DEFAULT 3",
        "RENAME TABLE orders TO ORDERS",
        "UPDATE ORDERS SET v = 4",
        "ALTER TABLE ORDERS RENAME TO other, ADD w INT DEFAULT 5",
        "ALTER TABLE other RENAME TO Other",
        "INSERT INTO Other VALUES (2, 6, 7)",
    ):
        tidb_kit.write(statement)
    tidb_kit.sync(start=start)
    assert rows_of(tidb_kit.target, tidb_kit.schema, "Other") == [(1, 4, 5), (2, 6, 7)]
