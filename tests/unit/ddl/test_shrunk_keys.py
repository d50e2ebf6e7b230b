"""What MySQL makes of a unique key whose column is dropped, as a MariaDB is told it."""

from __future__ import annotations

import pytest

from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.server import Server, SessionDefaults
from airflow_provider_dm.engine.ddl.shrunk_keys import with_shrunk_keys
from airflow_provider_dm.engine.ddl.statements import AlterTable
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.ddl.write_statement import statement_sql
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName

T = TableName("s", "t")
COLUMNS = "CREATE TABLE t (a int NOT NULL, b int NOT NULL, c int, {})"


@pytest.mark.parametrize(
    ("keys", "specs", "told"),
    [
        ("UNIQUE KEY k (a, b)", "DROP COLUMN b", "DROP KEY `k`, ADD UNIQUE KEY `k` ( `a` ), DROP COLUMN `b`"),
        ("PRIMARY KEY (a, b)", "DROP COLUMN a", "DROP PRIMARY KEY, ADD PRIMARY KEY ( `b` ), DROP COLUMN `a`"),
        (
            "UNIQUE KEY k (a, b)",
            "DROP b, RENAME COLUMN a TO d",
            "DROP KEY `k`, ADD UNIQUE KEY `k` ( `d` ), DROP COLUMN `b`, RENAME COLUMN `a` TO `d`",
        ),
        ("UNIQUE KEY k (a, b)", "DROP KEY k, DROP b", "DROP KEY `k`, DROP COLUMN `b`"),
        (
            "UNIQUE KEY k (a, b)",
            "DROP KEY k, DROP b, ADD UNIQUE KEY k (a)",
            "DROP KEY `k`, DROP COLUMN `b`, ADD UNIQUE KEY `k` ( `a` )",
        ),
        (
            "UNIQUE KEY k (a, b), UNIQUE KEY l (c)",
            "DROP b",
            "DROP KEY `k`, DROP KEY `l`, ADD UNIQUE KEY `k` ( `a` ), ADD UNIQUE KEY `l` ( `c` ), DROP COLUMN `b`",
        ),
        ("UNIQUE KEY k (b)", "DROP COLUMN b", "DROP COLUMN `b`"),
        ("KEY k (a, b)", "DROP COLUMN b", "DROP COLUMN `b`"),
        ("UNIQUE KEY k (a, b)", "DROP COLUMN c", "DROP COLUMN `c`"),
    ],
)
def test_key_that_loses_a_column_is_dropped_and_made_anew(keys: str, specs: str, told: str) -> None:
    session = SessionDefaults(explicit_timestamp_defaults=True)
    server = Server(Flavour.MYSQL, (9, 7, 0))
    before = Tracker.of(server, {}, {"s": "utf8mb4_bin"}).after(parse(COLUMNS.format(keys), 0, "s"), session)
    statement = parse(f"ALTER TABLE t {specs}", 0, "s")
    assert isinstance(statement, AlterTable)

    found = with_shrunk_keys(statement, before.definition(T), before.after(statement, session).definition(T))

    assert statement_sql(found, 0, Flavour.MARIADB) == f"ALTER TABLE `s`.`t` {told}"
