"""ALTER TABLE in the model of a source's tables."""

from dataclasses import replace

import pytest

from airflow_provider_dm.engine.ddl.errors import CannotTrack
from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.mysql.identifiers import TableName
from tests.unit.ddl.tracked import MARIADB, MYSQL_5, SESSION, T, after, lines


def test_a_foreign_key_creates_an_index_until_another_index_covers_it() -> None:
    named = "CONSTRAINT f FOREIGN KEY (b) REFERENCES u (id)"
    create = f"CREATE TABLE t (a int, b int, FOREIGN KEY (a) REFERENCES u (id), {named})"
    tracker = after(create)
    assert lines(tracker, "KEY a") + lines(tracker, "KEY f") == ["KEY a (a)", "KEY f (b)"]
    assert tracker.table(T).has_foreign_keys
    tracker = after(create, "ALTER TABLE t ADD KEY k (a, b)", "RENAME TABLE t TO w")
    name = TableName("shop", "w")
    assert [line.split(" (")[0] for line in lines(tracker, "KEY", name)] == [
        "KEY f", "KEY k", "CONSTRAINT f FOREIGN KEY", "CONSTRAINT w_ibfk_1 FOREIGN KEY",
    ]  # fmt: skip
    tracker = tracker.after(parse("ALTER TABLE w DROP FOREIGN KEY f, DROP CONSTRAINT w_ibfk_1", 0, "shop"), SESSION)
    assert not tracker.table(name).has_foreign_keys


def test_a_key_with_a_longer_key_of_the_same_column_was_created_explicitly() -> None:
    shown = "CREATE TABLE t (a int, b int, KEY a (a), KEY k (a, b), CONSTRAINT f FOREIGN KEY (a) REFERENCES u (id))"
    tracker = after().with_table(T, shown)
    assert lines(tracker, "KEY a") == ["KEY a (a)"]
    altered = tracker.after(parse("ALTER TABLE t ADD c int, ADD KEY (a, c)", 0, "shop"), SESSION)
    assert [line.split(" (")[0] for line in lines(altered, "KEY")][:3] == ["KEY a", "KEY k", "KEY a_2"]


def test_a_foreign_key_follows_renames_of_its_parent() -> None:
    tracker = after(
        "CREATE TABLE u (id int PRIMARY KEY)",
        "CREATE TABLE t (a int, FOREIGN KEY (a) REFERENCES u (id) ON DELETE RESTRICT ON UPDATE CASCADE)",
        "ALTER TABLE u CHANGE id number bigint, RENAME TO v",
    )
    assert lines(tracker, "REFERENCES") == [
        "CONSTRAINT t_ibfk_1 FOREIGN KEY (a) REFERENCES shop.v (number) ON UPDATE CASCADE"
    ]


def test_an_engine_without_foreign_keys_keeps_the_index() -> None:
    tracker = after("CREATE TABLE t (a int, FOREIGN KEY (a) REFERENCES u (id)) ENGINE=MyISAM")
    assert not tracker.table(T).has_foreign_keys
    assert lines(tracker, "KEY") == ["KEY a (a)"]


def test_mariadb_drops_using_hash_with_the_next_alter() -> None:
    create = "CREATE TABLE t (a int, UNIQUE (a) USING HASH)"
    assert after(create, server=MARIADB).table(T).hidden == 1
    assert after(create, "ALTER TABLE t RENAME TO t", server=MARIADB).table(T).hidden == 1
    assert after(create, "ALTER TABLE t COMMENT 'x'", server=MARIADB).table(T).hidden == 0


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        ("ADD KEY (g), MODIFY COLUMN IF EXISTS g int UNIQUE", ["UNIQUE KEY g_2 (g)", "KEY g (g)"]),
        ("MODIFY COLUMN IF EXISTS g int UNIQUE, ADD KEY IF NOT EXISTS (g)", ["UNIQUE KEY g (g)", "KEY g_2 (g)"]),
        ("ADD UNIQUE g (e), MODIFY COLUMN IF EXISTS g int UNIQUE", ["UNIQUE KEY g (e)"]),
        ("ADD KEY g (e), ADD KEY IF NOT EXISTS (g)", ["KEY g (e)"]),
    ],
)
def test_earlier_keys_of_a_statement_exist_for_later_keys_of_their_kind(specs: str, expected: list[str]) -> None:
    """MariaDB 10.11 and 11.8 do it so."""
    tracker = after("CREATE TABLE t (e int, g int)", f"ALTER TABLE t {specs}", server=MARIADB)
    assert lines(tracker, "KEY") == expected


def test_older_servers_pass_over_what_they_do_not_have() -> None:
    create = "CREATE TABLE t (a int CHECK (a > 0), b int REFERENCES u (id), KEY (a DESC), CHECK (b > 0))"
    assert lines(after(create, server=MYSQL_5), "(a") == ["KEY a (a)"]
    assert not after(create, server=MYSQL_5).table(T).has_foreign_keys
    assert len(lines(after(create), "CHECK")) == 2
    assert after(create).table(T).has_foreign_keys


def test_a_prefix_that_is_the_whole_column_is_none() -> None:
    create = "CREATE TABLE t (a varchar(20), b text, UNIQUE (a(10), b(5)))"
    prefixes = [
        after(create, f"ALTER TABLE t MODIFY a {kind}").table(T).unique_keys[0].prefixes
        for kind in ("varchar(11)", "char(10)", "varchar(9)", "int")
    ]
    assert prefixes == [(10, 5), (None, 5), (None, 5), (None, 5)]


@pytest.mark.parametrize(
    ("table", "alter", "expected"),
    [
        ("a int", "ADD d timestamp", "timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE"),
        ("a timestamp NULL", "ADD d timestamp", "timestamp NOT NULL DEFAULT '0000-00-00 00:00:00'"),
        ("a timestamp NULL", "ADD d timestamp FIRST", "timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE"),
        ("d int, a timestamp NULL", "MODIFY d timestamp AFTER a", "timestamp NOT NULL DEFAULT '0000-00-00 00:00:00'"),
        ("b int, a timestamp NULL", "DROP a, ADD d timestamp", "timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON"),
    ],
)
def test_only_the_first_timestamp_of_the_table_is_the_current_time(table: str, alter: str, expected: str) -> None:
    create, alter = f"CREATE TABLE t ({table})", f"ALTER TABLE t {alter}"
    implicit = replace(SESSION, explicit_timestamp_defaults=False)
    assert lines(after(create, alter, session=implicit), "d timestamp")[0].startswith(f"d {expected}")


def test_a_timestamp_that_a_server_before_mysql_8_may_fill_is_refused() -> None:
    """Its log does not say whether the rows get the current time or zero."""
    unsaid, add = replace(SESSION, explicit_timestamp_defaults=None), "ALTER TABLE t ADD d timestamp NOT NULL"
    with pytest.raises(CannotTrack, match="the TIMESTAMP d has no default"):
        after("CREATE TABLE t (a int)", add, server=MYSQL_5, session=unsaid)
    create, comment = "CREATE TABLE t (a timestamp NOT NULL)", "ALTER TABLE t MODIFY a timestamp NOT NULL COMMENT 'x'"
    after(create, add, comment, "ALTER TABLE t CHANGE a b timestamp NOT NULL", server=MYSQL_5, session=unsaid)
    with pytest.raises(CannotTrack, match="the TIMESTAMP a has no default"):
        after("CREATE TABLE t (a timestamp NULL)", comment, server=MYSQL_5, session=unsaid)
