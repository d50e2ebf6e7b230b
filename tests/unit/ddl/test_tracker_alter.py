"""What ALTER TABLE makes of a table, in the model of a source's tables."""

from __future__ import annotations

import pytest

from airflow_provider_dm.engine.ddl.parse import parse
from airflow_provider_dm.engine.mysql.identifiers import TableName
from tests.unit.ddl.tracked import (
    MARIADB,
    MYSQL_5,
    SESSION,
    T,
    after,
    keys,
    lines,
    names,
)


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        ("ADD d int", "a b c d"),
        ("ADD d int FIRST, ADD e int AFTER d", "d e a b c"),
        ("ADD d int AFTER a, ADD e int AFTER a", "a e d b c"),
        ("MODIFY c int FIRST, MODIFY a int AFTER b", "c b a"),
        ("CHANGE a b int, CHANGE b a int", "b a c"),
        ("RENAME COLUMN a TO b, RENAME COLUMN b TO a", "b a c"),
        ("DROP a, ADD a int", "b c a"),
        ("CHANGE A x int AFTER C, ADD y int AFTER X", "b c x y"),
        ("DROP b, DROP c, ADD (x int, y int)", "a x y"),
    ],
)
def test_columns_get_their_places(specs: str, expected: str) -> None:
    assert names(after("CREATE TABLE t (a int, b int, c int)", f"ALTER TABLE t {specs}")) == expected


def test_columns_leave_their_keys() -> None:
    create = "CREATE TABLE t (a int, b int, c int, PRIMARY KEY (a, b), UNIQUE (b), UNIQUE u (c, b), KEY (b, c))"
    tracker = after(create, "ALTER TABLE t DROP b, RENAME COLUMN c TO d")
    assert keys(tracker) == ["PRIMARY(a)", "u(d)"]
    assert lines(tracker, "KEY b") == ["KEY b_2 (d)"]
    assert keys(after(create, "ALTER TABLE t DROP b, ADD b bigint FIRST")) == ["PRIMARY(a,b)", "b(b)", "u(c,b)"]


def test_a_prefix_that_is_the_whole_column_is_none() -> None:
    create = "CREATE TABLE t (a varchar(20), b text, UNIQUE (a(10), b(5)))"
    prefixes = [
        after(create, f"ALTER TABLE t MODIFY a {kind}").table(T).unique_keys[0].prefixes
        for kind in ("varchar(11)", "char(10)", "varchar(9)", "int")
    ]
    assert prefixes == [(10, 5), (None, 5), (None, 5), (None, 5)]


def test_a_text_is_in_its_keys_as_far_as_the_varchar_was() -> None:
    create = "CREATE TABLE t (a varchar(20), UNIQUE (a))"
    assert after(create, "ALTER TABLE t MODIFY a text").table(T).unique_keys[0].prefixes == (20,)
    assert after(create, "ALTER TABLE t MODIFY a text", server=MARIADB).table(T).hidden == 1


def test_what_was_an_enum_is_in_its_unique_key_with_one_character() -> None:
    create = "CREATE TABLE t (a enum('x', 'yz') CHARSET latin1, b enum('x', 'yz'), UNIQUE (a), UNIQUE (b))"
    alter = "ALTER TABLE t MODIFY a varchar(9), MODIFY b varchar(9)"
    assert [key.prefixes for key in after(create, alter).table(T).unique_keys] == [(1,), (None,)]
    assert [key.prefixes for key in after(create, alter, server=MARIADB).table(T).unique_keys] == [(None,), (None,)]


def test_keys_are_named_in_the_order_of_the_text() -> None:
    named = "UNIQUE x (b), CONSTRAINT y UNIQUE (b)"
    create = f"CREATE TABLE t (a int, b int UNIQUE, KEY (a), UNIQUE (a), UNIQUE (a, b), {named})"
    assert keys(after(create)) == ["a_2(a)", "a_3(a,b)", "b(b)", "x(b)", "y(b)"]
    altered = after(
        create, "ALTER TABLE t DROP KEY a_2, ADD UNIQUE (a), RENAME KEY x TO z", "CREATE UNIQUE INDEX i ON t (A)"
    )
    assert keys(altered) == ["a_2(a)", "a_3(a,b)", "b(b)", "i(a)", "y(b)", "z(b)"]


def test_a_foreign_key_brings_an_index_until_there_is_another() -> None:
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


def test_a_key_beside_a_longer_one_was_made_by_hand() -> None:
    shown = "CREATE TABLE t (a int, b int, KEY a (a), KEY k (a, b), CONSTRAINT f FOREIGN KEY (a) REFERENCES u (id))"
    tracker = after().with_table(T, shown)
    assert lines(tracker, "KEY a") == ["KEY a (a)"]
    altered = tracker.after(parse("ALTER TABLE t ADD c int, ADD KEY (a, c)", 0, "shop"), SESSION)
    assert [line.split(" (")[0] for line in lines(altered, "KEY")][:3] == ["KEY a", "KEY k", "KEY a_2"]


def test_a_foreign_key_follows_the_names_it_points_to() -> None:
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


def test_mariadb_hides_a_hash_for_a_unique_key_that_is_too_long() -> None:
    create = (
        "CREATE TABLE t (a text, b varchar(769), c varchar(768), UNIQUE (a), UNIQUE (b), UNIQUE (c), UNIQUE (a(9)))"
    )
    tracker = after(create, server=MARIADB)
    assert tracker.table(T).hidden == 2
    assert after(create, "ALTER TABLE t MODIFY a varchar(9)", server=MARIADB).table(T).hidden == 1


def test_mariadb_forgets_with_the_next_alter_that_a_hash_was_asked_for() -> None:
    create = "CREATE TABLE t (a int, UNIQUE (a) USING HASH)"
    assert after(create, server=MARIADB).table(T).hidden == 1
    assert after(create, "ALTER TABLE t RENAME TO t", server=MARIADB).table(T).hidden == 1
    assert after(create, "ALTER TABLE t COMMENT 'x'", server=MARIADB).table(T).hidden == 0


def test_what_is_there_already_or_not_at_all_does_nothing() -> None:
    before = after("CREATE TABLE t (a int, b int, KEY k (a))", server=MARIADB)
    for specs in (
        "ADD COLUMN IF NOT EXISTS A bigint", "DROP COLUMN IF EXISTS c", "MODIFY IF EXISTS c int",
        "CHANGE IF EXISTS c d int", "RENAME COLUMN IF EXISTS c TO d", "ADD KEY IF NOT EXISTS K (b)",
        "DROP KEY IF EXISTS x", "DROP CONSTRAINT IF EXISTS k", "DROP FOREIGN KEY IF EXISTS x",
    ):  # fmt: skip
        assert before.after(parse(f"ALTER TABLE t {specs}", 0, "shop"), SESSION) == before, specs
    for statement in ("CREATE TABLE IF NOT EXISTS t (x int)", "CREATE INDEX IF NOT EXISTS k ON t (b)"):
        assert before.after(parse(statement, 0, "shop"), SESSION) == before
    replaced = before.after(parse("CREATE OR REPLACE INDEX k ON t (b)", 0, "shop"), SESSION)
    assert lines(replaced, "KEY") == ["KEY k (b)"]


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        ("ADD KEY (g), MODIFY COLUMN IF EXISTS g int UNIQUE", ["UNIQUE KEY g_2 (g)", "KEY g (g)"]),
        ("MODIFY COLUMN IF EXISTS g int UNIQUE, ADD KEY IF NOT EXISTS (g)", ["UNIQUE KEY g (g)", "KEY g_2 (g)"]),
        ("ADD UNIQUE g (e), MODIFY COLUMN IF EXISTS g int UNIQUE", ["UNIQUE KEY g (e)"]),
        ("ADD KEY g (e), ADD KEY IF NOT EXISTS (g)", ["KEY g (e)"]),
    ],
)
def test_keys_of_one_statement_are_there_already_for_their_own_kind(specs: str, expected: list[str]) -> None:
    """MariaDB 10.11 and 11.8 do it so."""
    tracker = after("CREATE TABLE t (e int, g int)", f"ALTER TABLE t {specs}", server=MARIADB)
    assert lines(tracker, "KEY") == expected


def test_older_servers_pass_over_what_they_do_not_have() -> None:
    create = "CREATE TABLE t (a int CHECK (a > 0), b int REFERENCES u (id), KEY (a DESC), CHECK (b > 0))"
    assert lines(after(create, server=MYSQL_5), "(a") == ["KEY a (a)"]
    assert not after(create, server=MYSQL_5).table(T).has_foreign_keys
    assert len(lines(after(create), "CHECK")) == 2
    assert after(create).table(T).has_foreign_keys


def test_invisible_and_generated_columns_are_marked() -> None:
    tracker = after(
        "CREATE TABLE t (a int INVISIBLE, b int AS (a + 1), c int AS (a) STORED, d int)",
        "ALTER TABLE t ALTER COLUMN d SET INVISIBLE, ALTER COLUMN a SET VISIBLE",
    )
    found = tracker.table(T).columns
    assert [(column.invisible, column.generated) for column in found] == [
        (False, False), (False, True), (False, True), (True, False),
    ]  # fmt: skip
