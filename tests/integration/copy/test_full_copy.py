"""The full copy on real servers: nasty keys, merges, refusals that change nothing."""

import pytest

from airflow_provider_dm.engine.copy import begin_load
from airflow_provider_dm.engine.copy.errors import DuplicateDuringCopy, TargetNotEmpty
from airflow_provider_dm.engine.ddl.errors import CannotCreateTarget
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.merge.errors import RowsCollide
from airflow_provider_dm.engine.reading.errors import EngineNotTransactional, NotBegunYet
from airflow_provider_dm.engine.rules.errors import TargetTableMismatch
from airflow_provider_dm.engine.schema.errors import UnsupportedColumnType
from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.copy.migrations import Migration, assert_same, differences, merging, set_page_rows

TABLES = {
    "composite": """CREATE TABLE composite (a INT NOT NULL, b VARCHAR(20) NOT NULL, c DATE NOT NULL, v DOUBLE,
        PRIMARY KEY (a, b, c))""",
    "ci_key": "CREATE TABLE ci_key (k VARCHAR(40) NOT NULL PRIMARY KEY, v TEXT)",
    "big_key": "CREATE TABLE big_key (k BIGINT UNSIGNED NOT NULL PRIMARY KEY, v VARBINARY(30))",
    "negative": "CREATE TABLE negative (k BIGINT NOT NULL PRIMARY KEY, v DECIMAL(20,5))",
    "keyless": "CREATE TABLE keyless (a INT, b VARCHAR(20))",
    "second": "CREATE TABLE second (id INT PRIMARY KEY AUTO_INCREMENT, email VARCHAR(60), UNIQUE KEY email (email))",
    "enum_key": "CREATE TABLE enum_key (e ENUM('b','a') NOT NULL, n INT NOT NULL, PRIMARY KEY (e, n))",
    "unique_only": "CREATE TABLE unique_only (u BINARY(4) NOT NULL, v DATETIME(6) NULL, UNIQUE KEY u (u))",
    "types": """CREATE TABLE types (id INT PRIMARY KEY, f FLOAT, y YEAR, t TIME(3), ts TIMESTAMP(6) NULL,
        l VARCHAR(20) CHARACTER SET latin1, bits BIT(12), s SET('x','y'), blb BLOB, z INT(6) ZEROFILL)""",
    "vacant": "CREATE TABLE vacant (id INT PRIMARY KEY)",
}


def fill(server: Server, schema: str) -> None:
    for statement in TABLES.values():
        server.sql(statement, database=schema)
    with server.connect(database=schema) as connection, connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO composite VALUES (%s, %s, %s, %s)",
            [(a, b, f"2020-01-{c:02}", a / 7) for a in range(7) for b in ("x", "Y", "z'\\", "ä") for c in (1, 2, 3)],
        )
        words = ["Zebra", "apple", "äpfel", "b'c", "back\\slash", "", "0", "日本", "😀 smile"]
        cursor.executemany("INSERT INTO ci_key VALUES (%s, %s)", [(word, word * 3) for word in words])
        cursor.executemany(
            "INSERT INTO big_key VALUES (%s, %s)",
            [(k, b"\x00\xff'\\") for k in (0, 1, 2**63 - 1, 2**63, 2**64 - 3, 2**64 - 2, 2**64 - 1)],
        )
        cursor.executemany(
            "INSERT INTO negative VALUES (%s, %s)", [(k, "-1.50000") for k in (-(2**63), -5, 0, 2**63 - 1)]
        )
        cursor.executemany("INSERT INTO keyless VALUES (%s, %s)", [(1, "twin"), (1, "twin"), (None, None), (2, "b")])
        cursor.executemany("INSERT INTO second (email) VALUES (%s)", [(f"m{n}@example.org",) for n in range(50)])
        cursor.executemany("INSERT INTO enum_key VALUES (%s, %s)", [(e, n) for e in "ab" for n in range(5)])
        cursor.executemany("INSERT INTO unique_only VALUES (%s, %s)", [(bytes([n, 0]), None) for n in range(9)])
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(
            "INSERT INTO types VALUES (1, 0.1, 2024, '-838:59:59', '2024-01-02 03:04:05.678901', 'café', b'101', 'x,y',"
            " x'00ff27', 7), (2, -1e-30, 1901, '00:00:00.5', NULL, '', 0, '', '', 0),"
            " (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
        )


def test_every_kind_of_table_is_replicated(
    source: Server, target: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(source, schema)
    set_page_rows(monkeypatch, 3, 5)

    result = Migration.of(target, source, schema).finish()

    report = assert_same(source, target, schema, *TABLES)
    assert result["rows"] == report.rows
    assert result["sources"]["one"]["tables"] == len(TABLES)
    assert not result["sources"]["one"]["written_to_meanwhile"]


def test_shards_of_two_sources_merge_into_a_table_that_is_created(
    mariadb_source: Server, mysql_source: Server, target: Server, schema: str
) -> None:
    for server, shard, first in ((mariadb_source, "t_0", 0), (mariadb_source, "t_1", 100), (mysql_source, "t_0", 200)):
        server.sql(f"CREATE TABLE {shard} (id INT PRIMARY KEY, v VARCHAR(9), KEY v (v))", database=schema)
        with server.connect(database=schema) as connection, connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {shard} VALUES (%s, %s)", [(first + n, f"v{n}") for n in range(100)])
    migration = merging(target, {"maria": mariadb_source, "my": mysql_source}, schema, into=f"{schema}_all")

    result = migration.finish()
    again = migration.finish()

    shards = [(mariadb_source, f"{schema}.t_0"), (mariadb_source, f"{schema}.t_1"), (mysql_source, f"{schema}.t_0")]
    report = differences(target, {f"{schema}_all.t": shards})
    assert report.equal, report
    assert result["rows"] == 300
    assert again["rows"] == 300, "a finished load is not done again"


def test_shards_that_share_a_key_stop_and_nothing_is_replaced(
    mariadb_source: Server, target: Server, schema: str
) -> None:
    for shard in ("t_0", "t_1"):
        mariadb_source.sql(
            f"CREATE TABLE {shard} (id INT PRIMARY KEY, v CHAR(3));"
            f"INSERT INTO {shard} VALUES (1, '{shard}'), (1{shard[-1]}, 'own')",
            database=schema,
        )
    migration = merging(target, mariadb_source, schema)

    migration.stops(RowsCollide)
    caught = migration.stops(RowsCollide)  # each run reports it

    assert {caught.table, caught.other_table} == {f"{schema}.t_0", f"{schema}.t_1"}
    assert (caught.key, caught.values) == ("PRIMARY", ("(1)",))
    assert [row[0] for row in target.sql("SELECT id FROM t ORDER BY id", database=schema)] == [1, 10, 11]


def test_many_rows_that_collide_stop_at_once(
    mariadb_source: Server, mysql_target: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both shards count from 1: the copy does not continue to the end."""
    for shard in ("t_0", "t_1"):
        mariadb_source.sql(
            f"CREATE TABLE {shard} (id INT PRIMARY KEY AUTO_INCREMENT, v CHAR(3));"
            f"INSERT INTO {shard} (v) SELECT 'x' FROM seq_1_to_6000",
            database=schema,
        )
    set_page_rows(monkeypatch, 600)
    migration = merging(mysql_target, mariadb_source, schema)

    migration.stops(RowsCollide)

    ((waiting,),) = mysql_target.sql("SELECT COUNT(*) FROM dm_contested_row", database=f"{schema}_meta")
    assert 0 < waiting <= 1000


def test_sources_that_share_a_key_stop_beside_a_further_unique_key(
    mariadb_source: Server, mysql_source: Server, target: Server, schema: str
) -> None:
    """Where such a table has one owner it is written with REPLACE, which would take the other one's row away."""
    for server, name in ((mariadb_source, "a"), (mysql_source, "b")):
        server.sql(
            "CREATE TABLE t (id INT PRIMARY KEY, u VARCHAR(9), UNIQUE KEY (u)) COLLATE utf8mb4_bin;"
            f"INSERT INTO t VALUES (1, '{name}1'), (2, '{name}2')",
            database=schema,
        )
    migration = Migration.of(target, {"one": mariadb_source, "two": mysql_source}, schema)

    migration.stops(RowsCollide)

    rows = dict(target.sql("SELECT id, u FROM t ORDER BY id", database=schema))
    assert (rows[1], rows[2]) in [(f"{one}1", f"{two}2") for one in "ab" for two in "ab"]


def test_sources_that_share_only_a_further_unique_value_stop(
    mariadb_source: Server, mysql_source: Server, target: Server, schema: str
) -> None:
    for server, first in ((mariadb_source, 1), (mysql_source, 11)):
        server.sql(
            "CREATE TABLE t (id INT PRIMARY KEY, u VARCHAR(80) NOT NULL, UNIQUE KEY u (u)) COLLATE utf8mb4_bin;"
            f"INSERT INTO t VALUES ({first}, REPEAT('same', 20)), ({first + 1}, '{first}')",
            database=schema,
        )
    migration = Migration.of(target, {"one": mariadb_source, "two": mysql_source}, schema)

    caught = migration.stops(RowsCollide)

    assert (caught.key, caught.columns) == ("u", ("u",))
    assert caught.values == (f"({'same' * 15}\u2026)",)
    assert len(target.sql("SELECT * FROM t", database=schema)) == 3


def test_keys_that_only_the_targets_collation_equates_stop(
    mysql_source: Server, mariadb_target: Server, fresh_schema: FreshSchema
) -> None:
    schema = fresh_schema(mysql_source, mariadb_target)
    mysql_source.sql(
        "CREATE TABLE t (c VARCHAR(9) COLLATE utf8mb4_bin PRIMARY KEY); INSERT INTO t VALUES ('abc'), ('ABC')",
        database=schema,
    )
    mysql_source.sql(
        "CREATE TABLE t_1 (c VARCHAR(9) COLLATE utf8mb4_bin PRIMARY KEY); INSERT INTO t_1 VALUES ('x')", database=schema
    )
    mariadb_target.sql("CREATE TABLE t (c VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY)", database=schema)
    caught = merging(mariadb_target, mysql_source, schema).stops(RowsCollide)

    assert (caught.table, caught.other_table) == (f"{schema}.t", f"{schema}.t")


def test_shards_overwrite_each_other_if_configured(mysql_source: Server, mariadb_target: Server, schema: str) -> None:
    for shard in ("t_0", "t_1"):
        mysql_source.sql(f"CREATE TABLE {shard} (id INT PRIMARY KEY); INSERT INTO {shard} VALUES (1)", database=schema)

    merging(mariadb_target, mysql_source, schema, loader={"on-duplicate-logical": "replace"}).finish()

    assert mariadb_target.sql("SELECT * FROM t", database=schema) == [(1,)]


@pytest.mark.parametrize("target_keys", ["PRIMARY KEY (id), UNIQUE KEY u (u)", "PRIMARY KEY (u)"])
def test_rows_that_a_key_of_the_target_equates_are_refused(
    mariadb_source: Server, mysql_target: Server, fresh_schema: FreshSchema, target_keys: str
) -> None:
    schema = fresh_schema(mariadb_source, mysql_target)
    mariadb_source.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, u INT NOT NULL); INSERT INTO t VALUES (1, 7), (2, 7)", database=schema
    )
    mysql_target.sql(f"CREATE TABLE t (id INT NOT NULL, u INT NOT NULL, {target_keys})", database=schema)
    migration = Migration.of(mysql_target, mariadb_source, schema)

    migration.stops(DuplicateDuringCopy)
    assert mysql_target.sql("SELECT * FROM t", database=schema) == []

    mariadb_source.sql("UPDATE t SET u = 8 WHERE id = 2", database=schema)
    migration.finish()
    assert mysql_target.sql("SELECT * FROM t", database=schema) == [(1, 7), (2, 8)]


def test_foreign_keys_that_change_rows_are_created_if_the_log_has_their_changes(
    mysql_source: Server, mysql_target: Server, schema: str
) -> None:
    child = "CREATE TABLE z (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES a (id) ON DELETE CASCADE)"
    mysql_source.sql(f"CREATE TABLE a (id INT PRIMARY KEY); {child}; INSERT INTO a VALUES (1)", database=schema)
    mysql_source.sql("INSERT INTO z VALUES (1, 1)", database=schema)

    Migration.of(mysql_target, mysql_source, schema).finish()

    shown = [server.sql("SHOW CREATE TABLE z", database=schema) for server in (mysql_source, mysql_target)]
    assert shown[0] == shown[1]
    assert mysql_target.sql("SELECT a FROM z", database=schema) == [(1,)]


def test_refusals_leave_the_target_as_it_was(source: Server, mariadb_target: Server, schema: str) -> None:
    """The last table is the bad one; the first must not have been created."""
    source.sql("CREATE TABLE a (id INT PRIMARY KEY); INSERT INTO a VALUES (1)", database=schema)

    def refused(create: str, error: type[Exception], *, there: str = "") -> None:
        source.sql(f"CREATE TABLE {create}", database=schema)
        if there:
            mariadb_target.sql(f"CREATE DATABASE {schema}; USE {schema}; {there}")
        before = mariadb_target.sql(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = %s", [schema]
        )
        Migration.of(mariadb_target, source, schema).stops(error)
        after = mariadb_target.sql("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", [schema])
        assert after == before
        source.sql("DROP TABLE z", database=schema)
        mariadb_target.sql(f"DROP DATABASE IF EXISTS {schema}")

    cascading = "FOREIGN KEY (a) REFERENCES a (id) ON DELETE CASCADE"
    refused_here = {"mariadb": cascading, "mysql": "g INT AS (a + 1)"}[source.flavour]
    refused(f"z (id INT PRIMARY KEY, a INT, {refused_here})", CannotCreateTarget)
    enum = "z (id INT PRIMARY KEY, e ENUM('😀') CHARACTER SET utf8mb4)"
    refused(enum, UnsupportedColumnType)
    refused(enum, UnsupportedColumnType, there=f"CREATE TABLE {enum}")
    refused("z (id INT PRIMARY KEY) ENGINE=MyISAM", EngineNotTransactional)
    refused("z (id INT PRIMARY KEY)", EngineNotTransactional, there="CREATE TABLE z (id INT PRIMARY KEY) ENGINE=Aria")
    refused("z (id INT PRIMARY KEY, v INT)", TargetTableMismatch, there="CREATE TABLE z (id INT PRIMARY KEY, w INT)")
    refused(
        "z (id INT PRIMARY KEY)", TargetNotEmpty, there="CREATE TABLE z (id INT PRIMARY KEY); INSERT INTO z VALUES (7)"
    )


def test_replace_overwrites_existing_rows(
    mysql_source: Server, mariadb_target: Server, fresh_schema: FreshSchema
) -> None:
    schema = fresh_schema(mysql_source, mariadb_target)
    for server, value in ((mysql_source, "new"), (mariadb_target, "old")):
        server.sql(
            f"CREATE TABLE t (id INT PRIMARY KEY, v CHAR(3)); INSERT INTO t VALUES (1, '{value}')", database=schema
        )

    instance = {"loader": {"on-duplicate-logical": "replace"}}
    Migration.of(mariadb_target, mysql_source, schema, instance=instance).finish()

    assert mariadb_target.sql("SELECT v FROM t", database=schema) == [("new",)]


def test_nothing_selected_and_no_relay_are_reported(
    mysql_source: Server, mariadb_target: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    migration = Migration(mariadb_target, {"one": mysql_source}, {"one": [f"{schema}_misspelt"]}, f"{schema}_meta")
    migration.stops(InvalidInput, match="the block-allow-list selects none of the")
    migration.schemas = {"one": [schema]}

    mysql_source.sql("CREATE TABLE t (id INT PRIMARY KEY)", database=schema)
    migration.task = {"task-mode": "all"}
    monkeypatch.setattr(begin_load, "RELAY_WAIT_SECONDS", 0.0)
    migration.stops(NotBegunYet, match="no relay log of this server began")
