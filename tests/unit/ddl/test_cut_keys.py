"""What MariaDB makes of a plain key whose column becomes longer than an index, as a MySQL is told it."""

from __future__ import annotations

import pytest

from airflow_provider_dm.engine.ddl.cut_keys import with_cut_keys
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.server import Server, SessionDefaults
from airflow_provider_dm.engine.ddl.statements import AlterTable
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.ddl.write_statement import statement_sql
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName

T = TableName("s", "t")
COLUMNS = "CREATE TABLE t (a int, b varchar(20), c text, {})"


@pytest.mark.parametrize(
    ("keys", "specs", "told"),
    [
        ("KEY k (b)", "MODIFY b text", "DROP KEY `k`, ADD KEY `k` ( `b` ( 768 ) ), MODIFY COLUMN `b` text"),
        ("KEY k (b)", "CHANGE b g blob", "DROP KEY `k`, ADD KEY `k` ( `g` ( 3072 ) ), CHANGE COLUMN `b` `g` blob"),
        (
            "KEY k (b), KEY l (a, b)",
            "MODIFY b tinytext",
            (
                "DROP KEY `k`, DROP KEY `l`, ADD KEY `k` ( `b` ( 255 ) ), ADD KEY `l` ( `a` , `b` ( 255 ) ), "
                "MODIFY COLUMN `b` tinytext"
            ),
        ),
        (
            "KEY k (b)",
            "MODIFY b varchar(800)",
            "DROP KEY `k`, ADD KEY `k` ( `b` ( 768 ) ), MODIFY COLUMN `b` varchar ( 800 )",
        ),
        ("KEY k (b)", "MODIFY b varchar(40)", "MODIFY COLUMN `b` varchar ( 40 )"),
        ("KEY k (b)", "DROP KEY k, MODIFY b text", "DROP KEY `k`, MODIFY COLUMN `b` text"),
        ("KEY k (c(9))", "MODIFY c longtext", "MODIFY COLUMN `c` longtext"),
        ("KEY k (a, b)", "DROP b", "DROP COLUMN `b`"),
    ],
)
def test_key_that_is_cut_is_dropped_and_made_anew(keys: str, specs: str, told: str) -> None:
    session = SessionDefaults(explicit_timestamp_defaults=True)
    server = Server(Flavour.MARIADB, (10, 11, 0))
    before = Tracker.of(server, {}, {"s": "utf8mb4_bin"}).after(parse(COLUMNS.format(keys), 0, "s"), session)
    statement = parse(f"ALTER TABLE t {specs}", 0, "s")
    assert isinstance(statement, AlterTable)

    found = with_cut_keys(statement, before.definition(T), before.after(statement, session).definition(T))

    assert statement_sql(found, 0, Flavour.MYSQL) == f"ALTER TABLE `s`.`t` {told}"
