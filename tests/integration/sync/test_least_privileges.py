"""The privileges that docs/how-to/airflow.md names are all that a sync needs, whatever it does."""

from dataclasses import replace

from tests.integration.sync.conftest import SyncKit

USER = "dm_least"
ROWS = "SELECT, INSERT, UPDATE, DELETE"


def test_a_sync_with_ddl_needs_only_the_documented_privileges(kit: SyncKit) -> None:
    monitor = "BINLOG MONITOR" if kit.source.flavour == "mariadb" else "REPLICATION CLIENT"
    kit.source.create_user(USER, "", privileges=f"REPLICATION SLAVE, {monitor}")
    kit.source.sql(f"GRANT SELECT ON {kit.schema}.* TO {USER}")
    kit.target.create_user(USER, "", privileges="USAGE")
    kit.target.sql(
        f"GRANT {ROWS}, CREATE, ALTER, DROP, INDEX, REFERENCES ON {kit.schema}.* TO {USER};"
        f"GRANT {ROWS}, CREATE ON {kit.meta_schema}.* TO {USER}"
    )
    owner, reader, _ = kit.target, kit.source, kit.first_file
    kit.target, kit.source = replace(owner, user=USER), replace(reader, user=USER)
    try:
        for server in (owner, reader):
            server.sql(
                "CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE, v INT); CREATE TABLE k (v INT)", database=kit.schema
            )
        kit.tables = ("t", "k")
        kit.begin()
        reader.sql(
            "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2); INSERT INTO k VALUES (1), (1);"
            "UPDATE t SET u = 5 - u; DELETE FROM k LIMIT 1;"
            "ALTER TABLE t ADD COLUMN w VARCHAR(9) DEFAULT 'w', ADD INDEX (v); ALTER TABLE t CHANGE v x BIGINT;"
            "CREATE TABLE n LIKE t; INSERT INTO n SELECT * FROM t; RENAME TABLE n TO m; ALTER TABLE m DROP INDEX u;"
            "CREATE TABLE gone (id INT PRIMARY KEY); DROP TABLE gone; TRUNCATE TABLE k; CREATE INDEX i ON k (v);"
            "CREATE TABLE child (id INT PRIMARY KEY, t INT, FOREIGN KEY (t) REFERENCES t (id));"
            "INSERT INTO child VALUES (1, 2);"
            "ALTER TABLE m ADD CONSTRAINT FOREIGN KEY (id) REFERENCES t (id); INSERT INTO k VALUES (7)",
            database=kit.schema,
        )
        kit.sync()
        kit.tables = ("t", "k", "m", "child")
        kit.target, kit.source = owner, reader
        assert kit.differences() == []
    finally:
        for server in (owner, reader):
            server.sql(f"DROP USER IF EXISTS {USER}@'%'")
