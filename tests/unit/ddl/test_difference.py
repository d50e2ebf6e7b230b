"""The changes of a table's copy follow from the two definitions, or are refused."""

import pytest

from airflow_provider_dm.engine.ddl.difference import alter_between
from airflow_provider_dm.engine.ddl.errors import CannotTrack
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.ddl.server import Server
from airflow_provider_dm.engine.ddl.statements import AlterTable
from airflow_provider_dm.engine.ddl.tracker import AS_SHOWN, Tracker
from airflow_provider_dm.engine.ddl.write import statement_sql
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName

T, GHOST = TableName("shop", "t"), TableName("shop", "_t_gho")
SERVERS = (Server(Flavour.MYSQL, (8, 4, 0)), Server(Flavour.MARIADB, (11, 4, 0)))
CREATE = """CREATE TABLE `t` (
  `id` bigint NOT NULL AUTO_INCREMENT, `a` int DEFAULT NULL, `v` varchar(20) DEFAULT 'x', `e` enum('p','q') NOT NULL,
  `c` int GENERATED ALWAYS AS (`a` + 1) VIRTUAL, `at` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `p` int DEFAULT NULL, PRIMARY KEY (`id`), UNIQUE KEY `u` (`v`(9), `a`), KEY `k` (`e`),
  CONSTRAINT `positive` CHECK (`a` > 0), CONSTRAINT `parent` FOREIGN KEY (`p`) REFERENCES `parent` (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=9 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci COMMENT='tee'"""
ALTERS = (
    "ADD x int",
    "ADD x int NOT NULL DEFAULT 4 FIRST, ADD y datetime AFTER a, ADD KEY (y, x)",
    "DROP a, DROP c, DROP KEY u",
    "DROP v, MODIFY e varchar(9)",
    "MODIFY at datetime(3), MODIFY a bigint unsigned NOT NULL DEFAULT 7",
    "CHANGE e E enum('p', 'q') NOT NULL",
    "DROP PRIMARY KEY, MODIFY id bigint NOT NULL, ADD PRIMARY KEY (e, id)",
    "DROP KEY k, ADD UNIQUE KEY k (e, id), RENAME KEY u TO w",
    "CONVERT TO CHARACTER SET latin1",
    "DEFAULT CHARSET latin1, ROW_FORMAT=DYNAMIC, COMMENT ''",
    "ADD CONSTRAINT less CHECK (a < 9)",
    "PARTITION BY HASH (id) PARTITIONS 3",
    "DROP c, ADD d int",
    "ALTER v DROP DEFAULT, ALTER a SET DEFAULT 5",
)
LEFT_OPEN = {
    "CHANGE a b int": "b may be a under a new name",
    "DROP a, DROP c, ADD b varchar(9) DEFAULT 'b'": "b may be a under a new name",
    "DROP c, ADD c int": "c was or became a generated column",
    "CHANGE a p int, CHANGE p a int": "moved or have exchanged names",
    "MODIFY e varchar(9) NOT NULL FIRST": "moved or have exchanged names",
    "MODIFY e enum('?','?') CHARACTER SET ascii NOT NULL": "column e has a member twice",
    "ADD FOREIGN KEY (a) REFERENCES parent (id)": "foreign keys",
}


def with_ghost(server: Server, *alters: str) -> Tracker:
    tracker = Tracker.of(server, {T: CREATE}, {})
    for sql in ("CREATE TABLE _t_gho LIKE t", *(f"ALTER TABLE _t_gho {alter}" for alter in alters)):
        tracker = tracker.after(parse(sql, 0, "shop"), AS_SHOWN)
    return tracker


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.flavour.value)
@pytest.mark.parametrize("alter", ALTERS)
def test_the_alter_that_is_found_makes_the_one_table_the_other(alter: str, server: Server) -> None:
    tracker = with_ghost(server, alter)
    found = alter_between(tracker, T, GHOST)
    assert isinstance(found, AlterTable)
    text = statement_sql(found, AS_SHOWN.sql_mode, server.flavour)
    assert parse(text, AS_SHOWN.sql_mode, "shop") == found
    became = tracker.after(found, AS_SHOWN)
    assert became.table(T).columns == tracker.table(GHOST).columns
    assert set(became.table(T).unique_keys) == set(tracker.table(GHOST).unique_keys)
    assert alter_between(became, T, GHOST) is None


@pytest.mark.parametrize(
    "alter",
    [
        "ADD COLUMN `x` int",
        "ADD COLUMN `x` varchar ( 9 ) NOT NULL DEFAULT '', ADD COLUMN `y` datetime NULL, ADD KEY `xy` ( `x` , `y` )",
        "ADD COLUMN `x` decimal ( 9 , 2 ) NOT NULL DEFAULT 4.50 AFTER `id`",
        "DROP COLUMN `v`, DROP COLUMN `at`, DROP KEY `u`",
        "MODIFY COLUMN `v` varchar ( 99 ) DEFAULT 'x'",
    ],
)
def test_the_difference_is_the_original_alter(alter: str) -> None:
    """Also of what a server shows otherwise."""
    tracker = with_ghost(SERVERS[0], alter)
    shown = tracker.create_sql(GHOST).replace("DEFAULT 4.50", "DEFAULT '4.50'")
    found = alter_between(tracker.with_table(GHOST, shown), T, GHOST)
    assert isinstance(found, AlterTable)
    parsed = parse(f"ALTER TABLE t {alter.replace('datetime NULL', 'datetime')}", 0, "shop")
    assert found == parsed


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.flavour.value)
def test_an_unchanged_copy_has_no_difference(server: Server) -> None:
    assert alter_between(with_ghost(server), T, GHOST) is None


@pytest.mark.parametrize("alter", LEFT_OPEN)
def test_ambiguous_definitions_are_refused(alter: str) -> None:
    with pytest.raises(CannotTrack, match=LEFT_OPEN[alter]):
        alter_between(with_ghost(SERVERS[0], alter), T, GHOST)
