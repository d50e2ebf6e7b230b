"""The verifier on real servers: equal after a full copy, and every kind of damage is found, down to the row."""

from contextlib import suppress
from typing import Any

import pymysql
import pytest

from airflow_provider_dm.engine.mysql.connection import Connection, query
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.reading import source_session
from airflow_provider_dm.engine.reading.errors import SourceReadFailed
from airflow_provider_dm.engine.sync.runner import LocalRunner
from airflow_provider_dm.engine.verify import piece, verification
from airflow_provider_dm.engine.verify.errors import ComparedTableMissing, SourceAltered
from airflow_provider_dm.engine.verify.verification import failure, verify
from testbed import Server
from tests.integration.copy.migrations import Migration, merging
from tests.integration.copy.test_full_copy import TABLES, fill


def verified(migration: Migration) -> dict[str, Any]:
    return verify(migration.spec, LocalRunner(2))


def test_copied_rows_are_equal_and_changed_rows_are_found(source: Server, target: Server, schema: str) -> None:
    fill(source, schema)
    migration = Migration.of(target, source, schema)
    copied = migration.finish()

    good = verified(migration)
    target.sql(
        "UPDATE ci_key SET v = UPPER(v) WHERE k = 'apple'; UPDATE types SET f = NULL WHERE id = 2;"
        "INSERT INTO keyless VALUES (1, 'twin'); DELETE FROM big_key WHERE k = 18446744073709551615;"
        "UPDATE unique_only SET v = '2020-01-01 00:00:00.000001' WHERE u = x'03000000'",
        database=schema,
    )
    bad = verified(migration)

    assert good["verified"], good
    assert failure(good) is None
    assert good["rows"] == copied["rows"]
    assert len(good["tables"]) == len(TABLES)
    assert not bad["verified"]
    found = {table["target"].split(".")[1]: table["differing"] for table in bad["tables"] if not table["equal"]}
    assert set(found) == {"ci_key", "types", "keyless", "big_key", "unique_only"}
    assert found["ci_key"] == [{"key": {"k": "apple"}, "in_sources": 1, "in_target": 1}]
    assert found["keyless"] == [{"key": {"a": "1", "b": "twin"}, "in_sources": 2, "in_target": 3}]
    assert found["big_key"] == [{"key": {"k": "18446744073709551615"}, "in_sources": 1, "in_target": 0}]
    error = failure(bad)
    assert error is not None
    assert f"{schema}.big_key (7 / 6 rows)" in str(error)
    assert "apple" not in str(error), "row values stay out of errors and logs"


def test_a_row_counts_once_in_a_table_that_is_compared_in_pieces(
    source: Server, mariadb_target: Server, schema: str
) -> None:
    """The first piece has no lower limit, and the last one no upper limit."""
    source.sql("CREATE TABLE t (id BIGINT PRIMARY KEY); INSERT INTO t VALUES (-5), (1), (4294967295)", database=schema)
    migration = Migration.of(mariadb_target, source, schema)
    migration.finish()
    assert verified(migration)["rows"] == 3


def test_a_schema_without_a_table_is_equal(source: Server, mariadb_target: Server, schema: str) -> None:
    migration = Migration.of(mariadb_target, source, schema)
    migration.finish()
    found = verified(migration)
    assert (found["verified"], found["tables"]) == (True, [])


def test_merged_shards_add_up(mariadb_source: Server, mysql_target: Server, schema: str) -> None:
    for number in range(3):
        mariadb_source.sql(
            f"CREATE TABLE t_{number} (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET latin1);"
            f"INSERT INTO t_{number} VALUES ({number}, 'é'), ({number + 10}, NULL)",
            database=schema,
        )
    migration = merging(mysql_target, mariadb_source, schema)
    with pytest.raises(ComparedTableMissing):
        verified(migration)
    migration.finish()
    mysql_target.sql(
        "ALTER TABLE t MODIFY v TEXT CHARACTER SET utf8mb4, MODIFY id BIGINT UNSIGNED AFTER v", database=schema
    )

    result = verified(migration)

    assert result["verified"], result
    assert result["rows"] == 6
    assert len(result["tables"][0]["sources"]) == 3


def test_one_wrong_row_among_many_is_named(
    mysql_source: Server, mariadb_target: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bisection, with room for few rows only, has to go down some levels."""
    mysql_source.sql(
        "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT); INSERT INTO t (v) VALUES (1), (2), (3), (4);"
        + "INSERT INTO t (v) SELECT a.v FROM t a, t b LIMIT 3000;" * 6,
        database=schema,
    )
    migration = Migration.of(mariadb_target, mysql_source, schema)
    copied = migration.finish()
    ((victim,),) = mariadb_target.sql("SELECT id FROM t ORDER BY id LIMIT 1 OFFSET 4321", database=schema)
    mariadb_target.sql(f"UPDATE t SET v = 5 WHERE id = {victim}", database=schema)
    monkeypatch.setattr(verification, "FEW_ROWS", 3)

    result = verified(migration)

    assert copied["rows"] > 6000
    (table,) = result["tables"]
    assert table["differing"] == [{"key": {"id": str(victim)}, "in_sources": 1, "in_target": 1}]
    assert table["unequal_classes"] in (1, 2)


def test_the_current_tables_of_the_sources_are_compared(source: Server, target: Server, schema: str) -> None:
    """What was created by DDL is compared, what was dropped is not, and what has not arrived yet differs."""
    source.sql(
        "CREATE TABLE a (id INT PRIMARY KEY); CREATE TABLE b (id INT PRIMARY KEY); CREATE TABLE c (id INT PRIMARY KEY);"
        "INSERT INTO a VALUES (1); INSERT INTO b VALUES (1), (2); INSERT INTO c VALUES (1)",
        database=schema,
    )
    migration = Migration.of(target, source, schema)
    migration.finish()
    source.sql(
        "DROP TABLE a; ALTER TABLE b ADD w INT; CREATE TABLE d (id INT PRIMARY KEY); INSERT INTO d VALUES (4)",
        database=schema,
    )

    early = verified(migration)
    target.sql(
        "DROP TABLE a; ALTER TABLE b ADD w INT; CREATE TABLE d (id INT PRIMARY KEY); INSERT INTO d VALUES (4)",
        database=schema,
    )
    late = verified(migration)

    why = {table["target"].split(".")[1]: table["why"] for table in early["tables"] if not table["equal"]}
    assert set(why) == {"b", "d"}
    assert "missing: w int" in why["b"]
    assert "does not exist" in why["d"]
    error = failure(early)
    assert error is not None
    assert f"{schema}.d" in str(error)
    assert late["verified"], late
    assert {table["target"].split(".")[1]: table["target_rows"] for table in late["tables"]} == {"b": 2, "c": 1, "d": 1}


def test_tables_that_are_altered_while_they_are_compared_are_compared_again(
    mysql_source: Server, mariadb_target: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mysql_source.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1)", database=schema)
    migration = Migration.of(mariadb_target, mysql_source, schema)
    migration.finish()
    sum_up = verification._sum_up

    def sum_up_amid_ddl(*arguments: Any) -> Any:
        mysql_source.sql("ALTER TABLE t RENAME COLUMN v TO w", database=schema)
        try:
            return sum_up(*arguments)
        finally:
            mysql_source.sql("ALTER TABLE t RENAME COLUMN w TO v", database=schema)

    with monkeypatch.context() as patch:
        patch.setattr(verification, "COMPARISONS", 2)
        patch.setattr(verification, "_sum_up", sum_up_amid_ddl)
        with pytest.raises(SourceAltered, match="Compare again when no DDL is under way"):
            verified(migration)
    assert verified(migration)["verified"]


def test_a_source_that_does_not_answer_is_read_again(
    mysql_source: Server, mariadb_target: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mysql_source.sql("CREATE TABLE t (id BIGINT PRIMARY KEY); INSERT INTO t VALUES (1)", database=schema)
    migration = Migration.of(mariadb_target, mysql_source, schema)
    migration.finish()

    def killed(at: Endpoint) -> Connection:
        connection = source_session.source_connection(at)
        with suppress(pymysql.err.Error):
            query(connection, "KILL CONNECTION_ID()")
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(source_session, "READ_ATTEMPTS", 2)
        patch.setattr(piece, "source_connection", killed)
        with pytest.raises(SourceReadFailed, match="Start the task again"):
            verified(migration)
    assert verified(migration)["verified"]
