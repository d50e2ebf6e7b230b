"""Implicit changes of keys by an ALTER TABLE become explicit for a server of the other family."""

from collections.abc import Callable
from functools import partial

import pytest

from airflow_provider_dm.engine.ddl.explicit_keys import (
    with_cut_keys,
    with_recollated_keys,
    with_shrunk_keys,
    without_dropped_columns,
)
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.server import Server, SessionDefaults
from airflow_provider_dm.engine.ddl.statements import AlterTable, TableDefinition
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.ddl.write import statement_sql
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName

T = TableName("s", "t")
MYSQL, MARIADB = Server(Flavour.MYSQL, (9, 7, 0)), Server(Flavour.MARIADB, (10, 11, 0))


def telling(
    how: Callable[[AlterTable, TableDefinition, TableDefinition], AlterTable], server: Server, create: str, specs: str
) -> str:
    """Return the explicit clauses of `ALTER TABLE t`."""
    session = SessionDefaults(explicit_timestamp_defaults=True)
    before = Tracker.of(server, {}, {"s": "utf8mb4_bin"}).after(parse(create, 0, "s"), session)
    statement = parse(f"ALTER TABLE t {specs}", 0, "s")
    assert isinstance(statement, AlterTable)
    found = how(statement, before.definition(T), before.after(statement, session).definition(T))
    other = Flavour.MARIADB if server is MYSQL else Flavour.MYSQL
    return statement_sql(found, 0, other).removeprefix("ALTER TABLE `s`.`t` ")


@pytest.mark.parametrize(
    ("keys", "specs", "expected"),
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
def test_key_that_loses_a_column_is_dropped_and_recreated(keys: str, specs: str, expected: str) -> None:
    create = f"CREATE TABLE t (a int NOT NULL, b int NOT NULL, c int, {keys})"
    assert telling(with_shrunk_keys, MYSQL, create, specs) == expected


@pytest.mark.parametrize("server", [MYSQL, MARIADB], ids=["mysql", "mariadb"])
@pytest.mark.parametrize(
    ("keys", "specs", "expected"),
    [
        ("KEY k (a, b)", "DROP b", "DROP KEY `k`, ADD KEY `k` ( `a` ), DROP COLUMN `b`"),
        ("KEY k (a, b)", "DROP a, DROP b", "DROP KEY `k`, DROP COLUMN `a`, DROP COLUMN `b`"),
        ("KEY k (a, b)", "DROP a, DROP b, DROP KEY k", "DROP COLUMN `a`, DROP COLUMN `b`, DROP KEY `k`"),
        ("KEY k (b)", "DROP b", "DROP COLUMN `b`"),
        ("KEY k (a, b)", "DROP c", "DROP COLUMN `c`"),
        ("UNIQUE KEY k (a, b)", "RENAME KEY k TO l", "RENAME KEY `k` TO `l`"),
        (
            "UNIQUE KEY k (a, b)",
            "RENAME KEY k TO l, DROP b",
            "DROP KEY `k`, ADD UNIQUE KEY `l` ( `a` ), DROP COLUMN `b`",
        ),
        (
            "KEY k (a, b), KEY l (c)",
            "DROP KEY l, DROP b, RENAME KEY k TO l",
            "DROP KEY `k`, ADD KEY `l` ( `a` ), DROP KEY `l`, DROP COLUMN `b`",
        ),
        (
            "KEY k (a, b), KEY l (b, a)",
            "RENAME KEY k TO l, RENAME KEY l TO k, DROP a",
            "DROP KEY `k`, DROP KEY `l`, ADD KEY `l` ( `b` ), ADD KEY `k` ( `b` ), DROP COLUMN `a`",
        ),
        (
            "KEY k (b)",
            "DROP b, ADD b bigint",
            "DROP KEY `k`, DROP COLUMN `b`, ADD COLUMN `b` bigint, ADD KEY `k` ( `b` )",
        ),
        (
            "UNIQUE KEY k (a, b)",
            "DROP b, ADD b bigint",
            "DROP KEY `k`, DROP COLUMN `b`, ADD COLUMN `b` bigint, ADD UNIQUE KEY `k` ( `a` , `b` )",
        ),
        (
            "PRIMARY KEY (a, b)",
            "DROP b, ADD b bigint NOT NULL",
            "DROP PRIMARY KEY, DROP COLUMN `b`, ADD COLUMN `b` bigint NOT NULL, ADD PRIMARY KEY ( `a` , `b` )",
        ),
    ],
)
def test_a_key_over_several_columns_is_dropped_before_its_column_in_tidb(
    server: Server, keys: str, specs: str, expected: str
) -> None:
    create = f"CREATE TABLE t (i int, a int, b int, c int, {keys})"
    assert telling(without_dropped_columns, server, create, specs) == expected


@pytest.mark.parametrize(
    ("keys", "specs", "expected"),
    [
        (
            "KEY k (b(3), a)",
            "CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
            (
                "DROP KEY `k`, ADD KEY `k` ( `b` ( 3 ) , `a` ), "
                "CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
            ),
        ),
        ("KEY k (b)", "MODIFY b varchar(9) COLLATE utf8mb4_bin", "MODIFY COLUMN `b` varchar ( 9 ) COLLATE utf8mb4_bin"),
        ("KEY k (a)", "CONVERT TO CHARACTER SET utf8mb4", "CONVERT TO CHARACTER SET utf8mb4"),
    ],
)
def test_a_key_is_dropped_before_a_column_of_it_gets_another_collation_in_tidb(
    keys: str, specs: str, expected: str
) -> None:
    create = f"CREATE TABLE t (a int, b varchar(9) COLLATE utf8mb4_swedish_ci, {keys})"
    becomes = {"utf8mb4_swedish_ci": "utf8mb4_bin"}
    how = partial(with_recollated_keys, becomes=lambda name: becomes.get(name, name))
    assert telling(how, MYSQL, create, specs) == expected


@pytest.mark.parametrize(
    ("keys", "specs", "expected"),
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
def test_key_that_is_cut_is_dropped_and_recreated(keys: str, specs: str, expected: str) -> None:
    create = f"CREATE TABLE t (a int, b varchar(20), c text, {keys})"
    assert telling(with_cut_keys, MARIADB, create, specs) == expected
