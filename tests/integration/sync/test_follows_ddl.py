"""The sync lives through DDL: real servers, all four pairs of flavours, rows and definitions compared at the end."""

import threading
from collections.abc import Sequence

import pytest

from airflow_provider_dm.engine.downstream.errors import DdlRefused
from airflow_provider_dm.engine.sync.errors import DdlNotSupported
from testbed import Server
from tests.integration.sync.conftest import SyncKit, rows_of

_DEFINITION = (
    "SELECT table_name, ordinal_position, column_name, data_type, is_nullable, character_set_name, "
    "character_maximum_length, IF(data_type LIKE '%%int', NULL, numeric_precision), numeric_scale, datetime_precision "
    "FROM information_schema.columns WHERE table_schema = %s ORDER BY 1, 2"
)
_KEYS = (
    "SELECT table_name, index_name, non_unique + 0, seq_in_index, column_name FROM information_schema.statistics "
    "WHERE table_schema = %s ORDER BY 1, LOWER(index_name), 4"
)

PRIMARY_KEYS = (
    "CREATE TABLE b (id int, w int, v int, UNIQUE KEY k (id, w, v), PRIMARY KEY (id, w))",
    "INSERT INTO b VALUES (1, 1, 1)",  # MariaDB needs the keys in the statement, MySQL does not see that it is
    "ALTER TABLE b DROP w /*!100000 , DROP KEY k, ADD UNIQUE k (id, v), DROP PRIMARY KEY, ADD PRIMARY KEY (id) */",
    "UPDATE b SET id = 2",
)
"""TiDB does not drop a primary key that is clustered (docs/how-to/into-tidb.md)."""

LIVES: dict[str, Sequence[str]] = {
    "columns": (
        "CREATE TABLE a (id int PRIMARY KEY, v varchar(20))",
        "INSERT INTO a VALUES (1, 'one'), (2, 'two')",
        "ALTER TABLE a ADD COLUMN w int NOT NULL DEFAULT 7",
        "INSERT INTO a VALUES (3, 'three', 33)",
        "ALTER TABLE a ADD COLUMN first_one datetime(3) NULL FIRST, ADD COLUMN x varchar(10) AFTER v",
        "INSERT INTO a (id, v, x, w, first_one) VALUES (4, 'four', 'x', 44, '2024-02-29 12:34:56.789')",
        "ALTER TABLE a DROP COLUMN v, MODIFY w bigint unsigned NOT NULL DEFAULT 0",
        "UPDATE a SET x = 'y', w = w + 18446744073709551 WHERE id > 2",
        "ALTER TABLE a CHANGE x y varchar(40) CHARACTER SET latin1, ADD z enum('p', 'q') DEFAULT 'q'",
        "INSERT INTO a (id, y, w) VALUES (5, 'ärger', 1)",
        "DELETE FROM a WHERE id = 1",
    ),
    "keys": (
        "CREATE TABLE a (id int NOT NULL, u int, v varchar(20))",
        "INSERT INTO a VALUES (1, 10, 'one'), (2, 20, 'two'), (2, 20, 'two')",
        "DELETE FROM a WHERE id = 2 LIMIT 1",
        "ALTER TABLE a ADD PRIMARY KEY (id)",
        "UPDATE a SET v = 'TWO' WHERE id = 2",
        "CREATE UNIQUE INDEX uu ON a (u)",
        "UPDATE a SET u = u + 10 ORDER BY u DESC",
        "CREATE INDEX plain ON a (v, u)",
        "ALTER TABLE a DROP PRIMARY KEY, ADD UNIQUE KEY other (v, id)",
        "INSERT INTO a VALUES (9, 90, 'nine')",
        "DROP INDEX plain ON a",
        "ALTER TABLE a DROP INDEX uu, DROP INDEX other",
        "INSERT INTO a VALUES (9, 90, 'nine'), (9, 90, 'nine')",
        "DELETE FROM a WHERE id = 9 LIMIT 2",
        *PRIMARY_KEYS,
        "CREATE TABLE c (id int PRIMARY KEY, v varchar(20), KEY k (v))",
        "INSERT INTO c VALUES (1, 'one')",  # MySQL needs the key in the statement, MariaDB does not see that it is
        "ALTER TABLE c MODIFY v text /*!80000 , DROP KEY k, ADD KEY k (v(768)) */",
        "UPDATE c SET v = REPEAT('x', 1000)",
        "ALTER TABLE c ADD COLUMN once int UNIQUE FIRST",
        "UPDATE c SET once = 1",
    ),
    "tables": (
        "CREATE TABLE a (id int PRIMARY KEY, v varchar(20))",
        "INSERT INTO a VALUES (1, 'one')",
        "CREATE TABLE b LIKE a",
        "INSERT INTO b VALUES (2, 'two')",
        "RENAME TABLE a TO tmp, b TO a, tmp TO b",
        "INSERT INTO a VALUES (3, 'three')",
        "INSERT INTO b VALUES (3, 'three')",
        "ALTER TABLE b RENAME TO c",
        "UPDATE c SET v = 'c'",
        "TRUNCATE TABLE a",
        "INSERT INTO a VALUES (1, 'again')",
        "CREATE TABLE d (id int PRIMARY KEY)",
        "DROP TABLE d, c",
        "CREATE TABLE c (k varchar(10) PRIMARY KEY)",
        "INSERT INTO c VALUES ('k')",
        "CREATE TABLE IF NOT EXISTS c (other int)",
        "DROP TABLE IF EXISTS nothing",
        "CREATE TABLE e (id int PRIMARY KEY, s varchar(9)) SELECT 5 AS id, 'x' AS s",
        "INSERT INTO e VALUES (6, 'six')",
    ),
    "online": (
        "CREATE TABLE a (id int PRIMARY KEY, v varchar(20))",
        "INSERT INTO a VALUES (1, 'one'), (2, 'two')",
        "CREATE TABLE _a_gho LIKE a",
        "ALTER TABLE _a_gho ADD COLUMN w int NOT NULL DEFAULT 3, MODIFY v varchar(40)",
        "CREATE TABLE _a_ghc (id bigint AUTO_INCREMENT PRIMARY KEY, hint varchar(64))",
        "INSERT INTO _a_ghc (hint) VALUES ('state')",
        "INSERT INTO _a_gho (id, v) SELECT id, v FROM a",
        "UPDATE a SET v = 'ONE' WHERE id = 1",
        "REPLACE INTO _a_gho (id, v) VALUES (1, 'ONE')",
        "CREATE TABLE _a_del (id int PRIMARY KEY) COMMENT='ghost-cut-over-sentry'",
        "DROP TABLE _a_del",
        "RENAME TABLE a TO _a_del, _a_gho TO a",
        "DROP TABLE _a_del, _a_ghc",
        "INSERT INTO a VALUES (5, 'five', 5)",
        "CREATE TABLE _a_new LIKE a",
        "ALTER TABLE _a_new ADD INDEX v (v)",
        "INSERT INTO _a_new SELECT * FROM a",
        "RENAME TABLE a TO _a_old, _a_new TO a",
        "DROP TABLE IF EXISTS _a_old",
        "INSERT INTO a VALUES (6, 'six', 6)",
    ),
    "views": (
        "CREATE TABLE a (id int PRIMARY KEY, v varchar(20))",
        "INSERT INTO a VALUES (1, 'one')",
        "CREATE VIEW w AS SELECT * FROM a",
        "CREATE TABLE IF NOT EXISTS w (other int)",
        "CREATE TABLE IF NOT EXISTS w LIKE a",
        "RENAME TABLE w TO x",
        "CREATE TABLE w (id int PRIMARY KEY)",
        "INSERT INTO w VALUES (1)",
        "RENAME TABLE x TO y, w TO x",
        "INSERT INTO x VALUES (2)",
        "CREATE OR REPLACE VIEW y AS SELECT id FROM x",
        "DROP VIEW y",
        "CREATE TABLE IF NOT EXISTS y (id varchar(10) PRIMARY KEY)",
        "INSERT INTO y VALUES ('three')",
    ),
    "charsets": (
        "CREATE TABLE a (id int PRIMARY KEY, v varchar(20), w text) CHARSET latin1",
        "INSERT INTO a VALUES (1, 'é', 'ü')",
        "ALTER TABLE a ADD x varchar(5) DEFAULT 'ß'",
        "INSERT INTO a VALUES (2, 'è', 'ö', 'ä')",
        "ALTER TABLE a CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        "INSERT INTO a VALUES (3, '漢', '🙂', '€')",
        "ALTER TABLE a DEFAULT CHARSET latin2, ADD y varchar(3)",
        "INSERT INTO a VALUES (4, 'a', 'b', 'c', 'ł')",
    ),
}


def definition(server: Server, schema: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in server.sql(_DEFINITION, [schema])]


def keys(server: Server, schema: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in server.sql(_KEYS, [schema])]


def check_equal(kit: SyncKit) -> None:
    """Every table, column, key and row of the schema is the same on both sides."""
    wanted = definition(kit.source, kit.schema)
    if kit.target.flavour == "tidb":  # it has no latin2
        wanted = [tuple("utf8mb4" if cell == "latin2" else cell for cell in row) for row in wanted]
    assert definition(kit.target, kit.schema) == wanted
    assert keys(kit.target, kit.schema) == keys(kit.source, kit.schema)
    kit.tables = [str(name) for (name,) in kit.source.sql(f"SHOW TABLES FROM `{kit.schema}`")]
    assert kit.differences() == []


def begin(kit: SyncKit) -> None:
    """The subtask begins with an empty schema."""
    kit.begin_with("plain")


@pytest.mark.parametrize("life", LIVES)
def test_rows_and_definitions_are_replicated(kit: SyncKit, life: str) -> None:
    begin(kit)
    left_out = PRIMARY_KEYS if kit.target.flavour == "tidb" else ()
    for statement in LIVES[life]:
        if statement not in left_out:
            kit.write(statement)
    result = kit.sync()
    assert result.ddl_applied > 2
    check_equal(kit)


def test_views_are_known_from_the_start_and_from_run_to_run(kit: SyncKit) -> None:
    """Views of the catalogue, and one of the log, each met by another run than the one that has seen it first."""
    kit.create("plain")
    kit.write("CREATE VIEW old AS SELECT 1 AS one", "CREATE VIEW moved AS SELECT 1 AS one")
    kit.begin()
    kit.write("CREATE TABLE IF NOT EXISTS old (other int)", "CREATE VIEW new AS SELECT 2 AS two")
    kit.sync()
    kit.write("CREATE TABLE IF NOT EXISTS new (other int)", "RENAME TABLE new TO newer, moved TO new")
    kit.sync()
    kit.write("CREATE TABLE IF NOT EXISTS new (other int)", "DROP VIEW old, newer, new")
    kit.write("CREATE TABLE newer (id int PRIMARY KEY)", "CREATE TABLE IF NOT EXISTS old (id int PRIMARY KEY)")
    kit.write("INSERT INTO newer VALUES (1)", "INSERT INTO old VALUES (2)")
    kit.sync()
    check_equal(kit)


def test_a_recreated_schema_has_neither_its_views_nor_its_charset(kit: SyncKit) -> None:
    """Also if none of the task's tables was in it."""
    begin(kit)
    kit.write("CREATE VIEW w AS SELECT 1 AS one", "DROP TABLE plain")
    kit.sync()
    kit.source.sql(f"DROP DATABASE `{kit.schema}`")
    kit.source.sql(f"CREATE DATABASE IF NOT EXISTS `{kit.schema}` CHARACTER SET latin1")
    kit.write("CREATE TABLE IF NOT EXISTS w (id int PRIMARY KEY, v varchar(9))", "INSERT INTO w VALUES (1, 'é')")
    kit.sync()
    check_equal(kit)


def test_a_statement_that_cannot_be_followed_stops_at_its_place(one_kit: SyncKit) -> None:
    begin(one_kit)
    one_kit.write("CREATE TABLE s (id int PRIMARY KEY)")
    one_kit.write("INSERT INTO s VALUES (1)")
    one_kit.write("ALTER TABLE s ENGINE=MyISAM")
    one_kit.stops(DdlNotSupported, match="DM-6032")
    assert rows_of(one_kit.target, one_kit.schema, "s") == [(1,)]


def test_a_run_that_dies_anywhere_is_continued(one_kit: SyncKit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each statement of the journal's life is the last one of a run once; what it did is not done twice."""
    begin(one_kit)
    for statement in LIVES["columns"][:4]:
        one_kit.write(statement)
    steps = ("note_intent", "_send", "note_done", "plan_for", "fenced_transaction")
    died = 0
    for name in steps:
        for before in (True, False):
            died += _dies(one_kit, monkeypatch, name, before=before)
    assert died >= len(steps)
    one_kit.sync()
    check_equal(one_kit)


ALTERED = {
    "altered": "ALTER TABLE a ADD COLUMN w int NOT NULL DEFAULT 5, DROP COLUMN v",
    "dropped": "DROP TABLE a",
    "renamed": "RENAME TABLE a TO c",
    "swapped": "RENAME TABLE a TO tmp, b TO a, tmp TO b",
    "rows with it": "CREATE TABLE c (id int PRIMARY KEY) SELECT 5 AS id",
}


@pytest.mark.parametrize("sql", ALTERED.values(), ids=ALTERED.keys())
def test_a_run_begins_where_tables_are_altered_already(
    one_kit: SyncKit, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    """The statement is executed and not committed, once with its end noted and once without."""
    begin(one_kit)
    one_kit.write("CREATE TABLE a (id int PRIMARY KEY, v varchar(20))", "CREATE TABLE b LIKE a")
    one_kit.write("INSERT INTO a VALUES (1, 'a')", "INSERT INTO b VALUES (2, 'b')")
    one_kit.sync()
    one_kit.write(sql)
    assert _dies(one_kit, monkeypatch, "note_done", before=True)
    assert _dies(one_kit, monkeypatch, "plan_for", before=True)
    one_kit.sync()
    check_equal(one_kit)


class _Death(BaseException):
    """Simulates the end of a process."""


def _dies(kit: SyncKit, monkeypatch: pytest.MonkeyPatch, name: str, *, before: bool) -> bool:
    from airflow_provider_dm.engine.downstream import ddl_execution
    from airflow_provider_dm.engine.sync import following

    module = ddl_execution if hasattr(ddl_execution, name) else following
    real = getattr(module, name)

    def fatal(*arguments: object, **named: object) -> object:
        if before:
            raise _Death
        real(*arguments, **named)
        raise _Death

    with monkeypatch.context() as patch:
        patch.setattr(module, name, fatal)
        try:
            kit.sync()
        except _Death:
            return True
    return False


def test_a_plan_made_ahead_and_a_replaced_run_do_no_harm(one_kit: SyncKit) -> None:
    """A run that was replaced while it executes DDL neither repeats nor spoils it."""
    begin(one_kit)
    one_kit.write("CREATE TABLE z (id int PRIMARY KEY, v int)")
    one_kit.write("INSERT INTO z VALUES (1, 1)")
    one_kit.sync()
    one_kit.write("ALTER TABLE z ADD COLUMN w int DEFAULT 5")
    one_kit.write("INSERT INTO z VALUES (2, 2, 2)")
    blocker = one_kit.target.connect(database=one_kit.schema, autocommit=False)
    with blocker.cursor() as cursor:
        cursor.execute("SELECT * FROM z")  # the ALTER waits for this transaction
    first: list[BaseException] = []

    def run() -> None:
        try:
            one_kit.sync()
        except BaseException as error:  # noqa: BLE001 (looked at below)
            first.append(error)

    zombie = threading.Thread(target=run, name="zombie")
    zombie.start()
    while not one_kit.target.sql("SELECT 1 FROM information_schema.processlist WHERE info LIKE 'ALTER TABLE%%'"):
        pass
    second = threading.Thread(target=run, name="second")
    second.start()
    zombie.join(180)
    blocker.rollback()
    second.join(180)
    assert not zombie.is_alive()
    assert not second.is_alive()
    assert len(first) == 1
    check_equal(one_kit)


@pytest.mark.parametrize(
    ("change", "rows"), [("CHANGE v w int", [(1, 10)]), ("ADD COLUMN w int NOT NULL DEFAULT 5", [(1, 10, 5)])]
)
def test_a_column_of_the_target_alone_is_not_the_sources_column(
    one_kit: SyncKit, change: str, rows: list[tuple[int, ...]]
) -> None:
    begin(one_kit)
    one_kit.write("CREATE TABLE extra (id int PRIMARY KEY, v int)")
    one_kit.write("INSERT INTO extra VALUES (1, 10)")
    one_kit.sync()
    one_kit.target.sql("ALTER TABLE extra ADD COLUMN w int NULL", database=one_kit.schema)
    one_kit.write(f"ALTER TABLE extra {change}")
    one_kit.stops(DdlRefused, match=r"DM-6033.*has another definition")
    one_kit.target.sql("ALTER TABLE extra DROP COLUMN w", database=one_kit.schema)
    one_kit.sync()
    assert rows_of(one_kit.target, one_kit.schema, "extra") == rows


def test_a_key_with_neither_name_was_not_renamed(one_kit: SyncKit) -> None:
    begin(one_kit)
    one_kit.write("CREATE TABLE named (id int PRIMARY KEY, v int, KEY old_name (v, id))")
    one_kit.sync()
    one_kit.target.sql("ALTER TABLE named DROP KEY old_name", database=one_kit.schema)
    one_kit.write("ALTER TABLE named RENAME KEY old_name TO new_name", "INSERT INTO named VALUES (1, 10)")
    for _ in range(2):  # the second run begins after the first one's attempt
        one_kit.stops(DdlRefused, match=r"DM-6033.*1176.*no key of the new name.*create it there")
    one_kit.target.sql("ALTER TABLE named ADD KEY new_name (v, id)", database=one_kit.schema)
    one_kit.sync()
    check_equal(one_kit)


@pytest.mark.every_pair
def test_equal_columns_that_a_user_has_created_are_adopted(kit: SyncKit) -> None:
    begin(kit)
    kit.write("CREATE TABLE made (id int PRIMARY KEY, v int)")
    kit.write("INSERT INTO made VALUES (1, 10)")
    kit.sync()
    columns = (
        "a int NOT NULL DEFAULT -5, ADD b varchar(20) DEFAULT 'it''s', "
        "ADD d datetime(3) NOT NULL DEFAULT '2024-01-01', ADD f bool DEFAULT TRUE, "
        "ADD g timestamp NULL DEFAULT '2024-05-05 05:05:05', ADD h enum('x','y') DEFAULT 'y', ADD i double DEFAULT 1e3"
    )
    if kit.source.flavour == kit.target.flavour:
        columns += ", ADD j int AS ((v + 1) * 2) STORED, ADD k varchar(9) AS (CONCAT('x', v)) VIRTUAL"
    zone, change = "SET time_zone = '+05:00'", f"ALTER TABLE made ADD {columns}"
    kit.target.sql(f"{zone}; {change}", database=kit.schema)
    kit.write(zone, f"{change}, ADD z int DEFAULT 3")
    kit.sync()
    check_equal(kit)
