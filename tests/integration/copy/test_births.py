"""Distinguishing a table from an equal one that was created in the same second."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest

from airflow_provider_dm.engine.config.rule_models import BlockAllowConfig
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading import births as births_room
from airflow_provider_dm.engine.reading.births import Birth, Births, check_birth, read_births
from airflow_provider_dm.engine.reading.errors import SchemaChangedDuringCopy
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from testbed import Server
from tests.jobs import endpoint


def rules(schema: str) -> BlockAllowRules:
    config = BlockAllowConfig.model_validate({"do-dbs": [schema]})
    return BlockAllowRules.from_config(config, case_sensitive=True, meta_schema="dm_meta")


def test_equal_tables_that_swap_names_are_distinguished(mysql_source: Server, schema: str) -> None:
    """Only their numbers differ, which need a privilege; without it they count as the same."""
    user = f"u{schema[-8:]}"
    mysql_source.sql(f"CREATE USER {user} IDENTIFIED BY ''; GRANT SELECT ON `{schema}`.* TO {user}")
    made: set[object] = set()
    while len(made) != 1:  # another second has begun between the two
        mysql_source.sql(
            "DROP TABLE IF EXISTS a, b; CREATE TABLE a (id int) PARTITION BY HASH (id) PARTITIONS 2; "
            "CREATE TABLE b (id int) PARTITION BY HASH (id) PARTITIONS 2",
            database=schema,
        )
        made = {
            when
            for (when,) in mysql_source.sql(
                "SELECT create_time FROM information_schema.tables WHERE table_schema = %s", [schema]
            )
        }
    names = [TableName(schema, "a"), TableName(schema, "b")]

    def births(server: Server) -> Births:
        return read_births(endpoint("one", server), rules(schema))

    poor = replace(mysql_source, user=user)
    before, seen_by_the_poor = births(mysql_source), births(poor)
    mysql_source.sql("RENAME TABLE a TO c, b TO a, c TO b", database=schema)
    after = births(mysql_source)

    assert not before.same(after, names)
    assert births(mysql_source).same(after, names)
    assert seen_by_the_poor.same(after, names)
    assert seen_by_the_poor.same(births(poor), names)
    for one in before.tables.values():
        assert Birth.of(str(one)) == one


def test_a_truncated_table_is_another_one(mysql_source: Server, schema: str) -> None:
    """A snapshot of MySQL 5.7 shows no row of it, without an error."""
    at, name = endpoint("one", mysql_source), TableName(schema, "t")
    mysql_source.sql("CREATE TABLE t (id int)", database=schema)
    birth = str(read_births(at, rules(schema)).tables[name])
    check_birth(at, name, birth)
    mysql_source.sql("TRUNCATE TABLE t", database=schema)
    with pytest.raises(SchemaChangedDuringCopy):
        check_birth(at, name, birth)


def test_a_query_during_a_snapshot_does_not_wait_for_blocked_ddl(
    mysql_source: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that a table's number is done without, as innodb_tables waits for DDL of any table."""
    mysql_source.sql("CREATE TABLE a (id int); CREATE TABLE b (id int)", database=schema)
    name, one = TableName(schema, "b"), endpoint("one", mysql_source)
    birth = read_births(one, rules(schema)).tables[name]
    assert birth.number
    monkeypatch.setattr(births_room, "_NUMBER", births_room._NUMBER.replace("5000", "200"))

    altering = (
        "SELECT 1 FROM information_schema.processlist WHERE db = %s AND state LIKE 'Waiting for table metadata%%'"
    )
    with ThreadPoolExecutor(1) as pool, closing(mysql_source.connect(database=schema)) as snapshot:
        with snapshot.cursor() as cursor:
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            cursor.execute("SELECT * FROM a")
        altered = pool.submit(mysql_source.sql, "ALTER TABLE a ADD b int", database=schema)
        while not mysql_source.sql(altering, [schema]):
            assert not altered.done()
        check_birth(one, name, str(birth))
        assert not altered.done()
        snapshot.rollback()
        altered.result()
