"""What the log tells of a table's columns, and how it is copied on by those that are left."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from airflow_provider_dm.engine.binlog.planned import DdlStatement
from airflow_provider_dm.engine.copy.lineage import Lineage, Logged, NotTold, lineage
from airflow_provider_dm.engine.copy.remaining import remaining
from airflow_provider_dm.engine.ddl.server import STRICT_ALL_TABLES, Server, SessionDefaults
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.reading.logged_ddl import read_ddl
from airflow_provider_dm.engine.rules.mapping import map_table

NAME, TARGET = TableName("s", "t"), TableName("x", "t")
COLUMNS = (
    "id int NOT NULL, n int DEFAULT 3, v varchar(20) NOT NULL, w varchar(20) NOT NULL, d decimal(6,2), "
    "e enum('p') NOT NULL, b varbinary(3), u int, PRIMARY KEY (id), UNIQUE KEY u (u), KEY k (v)"
)
INTS = "BETWEEN -2147483648 AND 2147483647"
SERVERS = [Server(Flavour.MYSQL, (9, 7, 0)), Server(Flavour.MARIADB, (10, 11, 0))]


def left(statements: Sequence[str], server: Server, columns: str = COLUMNS) -> tuple[Tracker, Lineage]:
    tracker = Tracker.of(server, {NAME: f"CREATE TABLE t ({columns}) DEFAULT CHARSET=utf8mb4"}, {})
    here = Location("bin.000001", 4)
    ddls = [DdlStatement(here, here, "s", one, 0, sql_mode=STRICT_ALL_TABLES) for one in statements]
    logged = [Logged(read_ddl(one), SessionDefaults(one.sql_mode)) for one in ddls]
    return tracker, lineage(NAME, tracker, logged)


@pytest.mark.parametrize("server", SERVERS, ids=["mysql", "mariadb"])
@pytest.mark.parametrize(
    ("statements", "read", "only"),
    [
        (["ALTER TABLE other DROP v", "GRANT SELECT ON *.* TO x", "CREATE TABLE y LIKE t"], "id n v w d e b u", ""),
        (["ALTER TABLE t ADD x int NOT NULL DEFAULT 3 FIRST, ADD KEY x (x)", "DROP INDEX k ON t"], "id n v w d e b u",
         ""),
        (["ALTER TABLE t DROP n", "ALTER TABLE t DROP w, ADD x text"], "id v d e b u w=''", ""),
        (["ALTER TABLE t DROP w, ADD w int"], "id n v d e b u w=''", ""),  # another one of its name
        (["ALTER TABLE t DROP w", "ALTER TABLE t ADD w varchar(20) NOT NULL AFTER v"], "id n v d e b u w=''", ""),
        (
            ["ALTER TABLE t MODIFY id bigint NOT NULL", "ALTER TABLE t MODIFY n bigint, MODIFY v varchar(99) NOT NULL",
             "ALTER TABLE t MODIFY w text, MODIFY d decimal(8,2), MODIFY b blob"],
            "id n v w d e b u",
            (f"id {INTS}; n IS NULL OR n {INTS}; CHAR_LENGTH(v) <= 20; CHAR_LENGTH(w) <= 20; d IS NULL OR "
            "ABS(d) < 10000; b IS NULL OR LENGTH(b) <= 3"),
        ),
        (["ALTER TABLE t MODIFY v varchar(20)"], "id n v w d e b u", "v IS NOT NULL"),
        (["ALTER TABLE t CHANGE v x varchar(20) NOT NULL"], None, None),
        (["ALTER TABLE t CHANGE v x varchar(20) NOT NULL, CHANGE w v varchar(20) NOT NULL"], None, None),
        (["ALTER TABLE t DROP v, RENAME COLUMN w TO v"], None, None),
        (["ALTER TABLE t MODIFY n smallint"], None, None),
        (["ALTER TABLE t MODIFY n int unsigned"], None, None),
        (["ALTER TABLE t MODIFY n int NOT NULL"], None, None),
        (["ALTER TABLE t MODIFY v varchar(20) CHARACTER SET latin1 NOT NULL"], None, None),
        (["ALTER TABLE t MODIFY n bigint", "ALTER TABLE t MODIFY n int"], None, None),
        (["ALTER TABLE t MODIFY d decimal(9,3)"], None, None),
        (["ALTER TABLE t CONVERT TO CHARACTER SET latin1"], None, None),
        (["ALTER TABLE t ADD UNIQUE KEY x (n)", "ALTER TABLE t DROP KEY x"], "id n v w d e b u", ""),
        (["ALTER TABLE t ADD UNIQUE KEY x (n)"], None, None),
        (["ALTER TABLE t DROP KEY u", "ALTER TABLE t ADD UNIQUE KEY u (u)"], None, None),
        (["ALTER TABLE t DROP u"], None, None),
        (["ALTER TABLE t ADD x int AS (n + 1)"], None, None),
        (["ALTER TABLE t ADD x int AUTO_INCREMENT UNIQUE"], None, None),
        (["ALTER TABLE t MODIFY id int NOT NULL AUTO_INCREMENT"], None, None),
        (["ALTER TABLE t DROP e"], None, None),  # nobody knows a value that the target's takes
        (["TRUNCATE TABLE t", "ALTER TABLE t TRUNCATE PARTITION p"], "id n v w d e b u", ""),
        (["ALTER TABLE t EXCHANGE PARTITION p WITH TABLE y"], None, None),
        (["ALTER TABLE t RENAME TO y"], None, None),
        (["RENAME TABLE y TO t"], None, None),
        (["DROP DATABASE s"], None, None),
        (["ALTER TABLE t FLY (n)"], None, None),
    ],
)  # fmt: skip
def test_a_table_is_copied_on_by_what_is_left_of_it(
    statements: Sequence[str], read: str | None, only: str | None, server: Server
) -> None:
    try:
        tracker, found = left(statements, server)
        table = tracker.table(NAME)
        mapping, condition = remaining(map_table(table, replace(table, name=TARGET)), found)
    except NotTold:
        assert read is None
        return
    shown = [
        one.name if one.constant is None else f"{one.name}='{one.constant.decode()}'" for one in mapping.source.columns
    ]
    assert " ".join(shown) == read
    assert [one.position for one in mapping.source.columns] == list(range(len(shown)))
    assert "; ".join(re.sub(r"^\(|\)$|`", "", one) for one in condition.split(") AND (")).strip() == only


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("id int PRIMARY KEY, v int", "id int PRIMARY KEY, v int, UNIQUE KEY v (v)"),
        ("id int PRIMARY KEY, v int, g int AS (id) STORED", "id int PRIMARY KEY, v int, g int AS (id) STORED"),
        ("id int PRIMARY KEY, v int", "id int PRIMARY KEY, v int, g int AS (v) STORED"),
    ],
    ids=["a key of the target", "computed", "computed in the target"],
)
def test_a_dropped_column_that_matters_in_the_target_is_not_left_out(ours: str, theirs: str) -> None:
    tracker, found = left(["ALTER TABLE t DROP v"], SERVERS[0], ours)
    there = Tracker.of(SERVERS[0], {TARGET: f"CREATE TABLE t ({theirs}) DEFAULT CHARSET=utf8mb4"}, {}).table(TARGET)
    with pytest.raises(NotTold):
        remaining(map_table(tracker.table(NAME), there), found)
