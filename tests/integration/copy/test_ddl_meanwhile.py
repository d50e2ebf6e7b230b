"""Tables are altered while they are copied: each is copied again, or the sync follows, and both sides end the same.

The moments: before the survey's tables have a place in the log, in front of the first page, between two pages, between
the last page and the hand-over, and while no run is there. Behind the copy the sync replays the whole log.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_dm.engine.copy import again
from airflow_provider_dm.engine.copy.again import Watches
from airflow_provider_dm.engine.copy.design import TargetNotEmpty
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.chunks import TableSize
from airflow_provider_dm.engine.reading.survey import measure
from airflow_provider_dm.engine.rules.mapping import TargetTableMismatch
from airflow_provider_dm.engine.schema.catalogue import read_tables
from airflow_provider_dm.engine.sync.runner import LocalRunner
from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.copy.altering import MOMENTS, Kit
from tests.integration.copy.migrations import differences, endpoint
from tests.integration.sync.conftest import rows_of
from tests.integration.sync.test_follows_ddl import definition, keys

WRITES = (
    "UPDATE a SET v = CONCAT(v, 'x') WHERE id % 2 = 0",
    "DELETE FROM a WHERE id = 3",
    "INSERT INTO a (id, v) VALUES (100, '100')",
    "INSERT INTO nokey VALUES ('8'), ('new')",
    "DELETE FROM nokey WHERE v = '9'",
)

CHANGES: dict[str, Sequence[str]] = {
    "add": ("ALTER TABLE a ADD COLUMN w int NOT NULL DEFAULT 7 FIRST", "UPDATE a SET w = id"),
    "drop": ("ALTER TABLE a DROP COLUMN v",),
    "modify": ("UPDATE a SET v = id", "ALTER TABLE a MODIFY v bigint", "INSERT INTO a (v) VALUES (12345678901)"),
    "rename column": ("ALTER TABLE a CHANGE v w varchar(60)", "INSERT INTO a (w) VALUES ('w')"),
    "back and forth": (
        "ALTER TABLE b DROP KEY u",
        "INSERT INTO b VALUES (77, 'x', 3)",
        "DELETE FROM b WHERE id = 77",
        "ALTER TABLE b ADD UNIQUE KEY u (u)",
    ),
    "key": (
        "ALTER TABLE a MODIFY id int NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY (v, id)",
        "INSERT INTO a VALUES (4, 'n')",
    ),
    "no key any more": (
        "ALTER TABLE a MODIFY id int NOT NULL, DROP PRIMARY KEY",
        "INSERT INTO a VALUES (4, 'n'), (4, 'n')",
    ),
    "key of the keyless": (
        "ALTER TABLE nokey ADD id bigint AUTO_INCREMENT PRIMARY KEY",
        "INSERT INTO nokey (v) VALUES ('k')",
    ),
    "keyless": (
        "ALTER TABLE nokey ADD w int DEFAULT 4",
        "INSERT INTO nokey VALUES ('k', 5), ('k', 5)",
        "DELETE FROM nokey WHERE v = '8'",
    ),
    "truncate": (
        "TRUNCATE TABLE a",
        "INSERT INTO a VALUES (1, 'again')",
        "TRUNCATE TABLE nokey",
        "INSERT INTO nokey VALUES ('x')",
    ),
    "drop and create": ("DROP TABLE a", "CREATE TABLE a (k varchar(9) PRIMARY KEY)", "INSERT INTO a VALUES ('k')"),
    "gone": ("DROP TABLE a, nokey",),
    "renamed": ("RENAME TABLE a TO c, nokey TO d", "INSERT INTO c VALUES (55, 'c')", "INSERT INTO d VALUES ('c')"),
    "altered and renamed": ("ALTER TABLE a ADD x int, RENAME TO c", "INSERT INTO c VALUES (55, 'c', 6)"),
    "swapped": (
        "CREATE TABLE c LIKE a",
        "INSERT INTO c VALUES (5, 'c')",
        "RENAME TABLE a TO tmp, c TO a, tmp TO c",
        "INSERT INTO a VALUES (6, 'a')",
        "INSERT INTO c VALUES (66, 'c')",
    ),
    "rotated and gone": (
        "CREATE TABLE c LIKE a",
        "RENAME TABLE a TO old, c TO a",
        "INSERT INTO a VALUES (6, 'a')",
        "UPDATE old SET v = 1",
        "CREATE TABLE like_it LIKE a",
        "INSERT INTO like_it VALUES (1, 'x')",
        "DROP TABLE like_it",
        "DROP TABLE old",
    ),
    "new": (
        "CREATE TABLE c LIKE b",
        "INSERT INTO c VALUES (1, 'one', 1)",
        "CREATE TABLE d (k int PRIMARY KEY)",
        "INSERT INTO d VALUES (1)",
        "DROP TABLE d",
    ),
    "index": ("CREATE INDEX i ON a (v)", "ALTER TABLE b COMMENT 'b'"),
    "gh-ost": (
        "CREATE TABLE _a_gho LIKE a",
        "ALTER TABLE _a_gho ADD COLUMN w int NOT NULL DEFAULT 3",
        "CREATE TABLE _a_ghc (id bigint AUTO_INCREMENT PRIMARY KEY, hint varchar(64))",
        "INSERT INTO _a_gho (id, v) SELECT id, v FROM a",
        "CREATE TABLE _a_del (id int PRIMARY KEY)",
        "DROP TABLE _a_del",
        "RENAME TABLE a TO _a_del, _a_gho TO a",
        "DROP TABLE _a_del, _a_ghc",
        "INSERT INTO a VALUES (500, 'five', 5)",
    ),
    "gh-ost from before": (
        "ALTER TABLE _b_gho ADD COLUMN w int",
        "INSERT INTO _b_gho (id, v, u) SELECT id, v, u FROM b",
        "RENAME TABLE b TO _b_del, _b_gho TO b",
        "INSERT INTO b VALUES (500, 'five', 500, 5)",
    ),
}
"""What happens to the tables at one moment. The second one of gh-ost has its ghost from before the task began."""
MANY = """CREATE TABLE m (
    id bigint unsigned NOT NULL AUTO_INCREMENT, e enum('p', 'q') NOT NULL DEFAULT 'q', s set('x', 'y'),
    d decimal(20,5) DEFAULT 1.5, at timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
    dt datetime DEFAULT '2020-01-01', t text, b blob, n tinyint(1) DEFAULT 1, y year, f float DEFAULT 0,
    c char(3) CHARACTER SET latin1 DEFAULT 'c', bits bit(9) DEFAULT b'101', vb varbinary(9),
    PRIMARY KEY (id), KEY k (e, d), UNIQUE KEY u (c, id)) COMMENT='many'"""


@pytest.mark.by_turns
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_column_comes_at_any_moment(kit: Kit, moment: str) -> None:
    result = kit.copy(moment, lambda: kit.write((*CHANGES["add"], *WRITES)))
    assert result["copied_again"] == {f"{kit.schema}.a": 1}
    kit.write(("ALTER TABLE a ADD COLUMN z int DEFAULT 5", "INSERT INTO a (id, v) VALUES (900, 'z')"))
    kit.sync()
    kit.check()


@pytest.mark.parametrize(
    ("what", "moment"), list(zip(CHANGES, itertools.cycle(["between pages", "on resume"]), strict=False))
)
def test_whatever_is_changed_both_sides_end_the_same(one_kit: Kit, what: str, moment: str) -> None:
    one_kit.write(("CREATE TABLE _b_gho LIKE b",))
    one_kit.copy(moment, lambda: one_kit.write((*WRITES, *CHANGES[what])))
    one_kit.write(("INSERT INTO b (id, v, u) VALUES (901, 'end', 901)",))
    one_kit.sync()
    one_kit.check()


GHOSTS = (
    MANY,
    "INSERT INTO m (e, c, t) VALUES ('p', 'x', 'one'), ('q', 'y', 'two')",
    "CREATE TABLE _a_gho LIKE a",
    "ALTER TABLE _a_gho ADD COLUMN w int NOT NULL DEFAULT 3 FIRST, ADD COLUMN x varchar(9) AFTER id, MODIFY v text",
    (
        "CREATE TABLE __b_new (id bigint NOT NULL, v varchar(40) CHARACTER SET latin1, PRIMARY KEY (id), KEY v (v))"
        " COMMENT='b' ROW_FORMAT=DYNAMIC"
    ),
    "CREATE TABLE _nokey_gho LIKE nokey",
    "CREATE TABLE _m_gho LIKE m",
    (
        "ALTER TABLE _m_gho DROP KEY k, DROP d, MODIFY e enum('p','q','r') NOT NULL DEFAULT 'r', ADD KEY z (y),"
        " CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, COMMENT ''"
    ),
    "CREATE TABLE _b_new (x int)",
)
CUT_OVER = (
    "ALTER TABLE _nokey_gho ADD COLUMN w int DEFAULT 8, ADD KEY v (v)",
    "INSERT INTO _a_gho (id, v) SELECT id, v FROM a",
    "INSERT INTO __b_new SELECT id, v FROM b",
    "INSERT INTO _nokey_gho (v) SELECT v FROM nokey",
    (
        "INSERT INTO _m_gho (id, e, s, at, dt, t, b, n, y, f, c, bits, vb)"
        " SELECT id, e, s, at, dt, t, b, n, y, f, c, bits, vb FROM m"
    ),
    "RENAME TABLE a TO _a_del, _a_gho TO a",
    "RENAME TABLE b TO __b_old, __b_new TO b",
    "RENAME TABLE nokey TO _nokey_del, _nokey_gho TO nokey",
    "RENAME TABLE m TO _m_del, _m_gho TO m",
    "DROP TABLE _a_del, __b_old, _nokey_del, _m_del, _b_new",
    "INSERT INTO a (w, id, v) VALUES (1, 900, 'end')",
    "INSERT INTO b VALUES (12345678901, 'end')",
    "INSERT INTO nokey VALUES ('end', 1)",
    "INSERT INTO m (e, c, t) VALUES ('r', 'z', 'end')",
)


@pytest.mark.by_turns
def test_ghosts_from_before_the_copy_become_tables_behind_it(kit: Kit) -> None:
    """What the tools have done to them is in front of the log that is read, and told by their definitions."""
    kit.write(GHOSTS)
    kit.copy("behind the last page", lambda: kit.write(WRITES))
    kit.write(("UPDATE a SET v = 'x' WHERE id = 1", *CUT_OVER))
    kit.sync()
    kit.check()


def test_a_swap_in_two_steps_is_waited_for(one_kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is away when it is looked for, and behind the copy nobody could say what has taken its place."""
    one_kit.write(("CREATE TABLE _a_gho LIKE a", "ALTER TABLE _a_gho ADD w int DEFAULT 3"))
    second = iter(("RENAME TABLE _a_gho TO a", "INSERT INTO a (v) VALUES ('end')"))
    waits = SimpleNamespace(sleep=lambda _seconds: one_kit.write(tuple(second)), monotonic=time.monotonic)
    monkeypatch.setattr(again, "time", waits)
    monkeypatch.setattr(again, "SWAP_SECONDS", 3600.0)
    first = ("INSERT INTO _a_gho (id, v) SELECT id, v FROM a", "RENAME TABLE a TO _a_del")
    one_kit.copy("between pages", lambda: one_kit.write(first))
    one_kit.write(tuple(second))
    one_kit.sync()
    one_kit.check()


def test_a_table_that_is_altered_again_and_again_is_copied_as_often(one_kit: Kit) -> None:
    numbers = iter(range(3))
    run = LocalRunner(2).run

    def altering(*arguments: Any) -> Any:
        found = run(*arguments)
        number = next(numbers, None)
        if number is not None:
            one_kit.write(
                (f"ALTER TABLE a ADD c{number} int DEFAULT {number}", f"INSERT INTO a (v) VALUES ('{number}')")
            )
        return found

    one_kit.migration.run = altering
    result = one_kit.migration.finish()["sources"]["one"]
    assert result["copied_again"] == {f"{one_kit.schema}.a": 3}
    one_kit.sync()
    one_kit.check()


def test_what_is_altered_behind_its_last_page_comes_by_the_log(one_kit: Kit) -> None:
    """A table that was seen unchanged behind its last page is not copied again, whatever the others do."""
    looked = Watches.look

    def altered_behind(watches: Watches, **how: Any) -> bool:
        found = looked(watches, **how)
        if watches.each[0].sealed == frozenset({TableName(one_kit.schema, name) for name in ("a", "b", "nokey")}):
            one_kit.write(("ALTER TABLE a ADD w int NOT NULL DEFAULT 3", "TRUNCATE TABLE b", "DROP TABLE nokey"))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Watches, "look", altered_behind)
        result = one_kit.migration.finish()["sources"]["one"]
    assert result["copied_again"] == {}
    one_kit.sync()
    one_kit.check()


@pytest.mark.parametrize(
    ("when", "step"),
    [("before", "_doubt"), ("before", "_renew"), ("before", "_expect"), ("behind", "_expect"), ("before", "_begin"),
     ("behind", "_begin")],
)  # fmt: skip
def test_a_run_that_dies_while_it_begins_again_goes_on(one_kit: Kit, step: str, when: str) -> None:
    """Also if the tables are altered once more until then."""
    real = getattr(Watches, step)

    def dies(*arguments: Any) -> None:
        if when == "behind":
            real(*arguments)
        raise ZeroDivisionError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Watches, step, dies)
        with pytest.raises(ZeroDivisionError):
            one_kit.copy(
                "between pages", lambda: one_kit.write((*CHANGES["modify"], "DROP TABLE nokey", *CHANGES["new"]))
            )
    one_kit.migration.run = LocalRunner(2).run
    one_kit.write(("ALTER TABLE a ADD once_more int", "ALTER TABLE c ADD once_more int", "CREATE TABLE nokey (x int)"))
    one_kit.migration.finish()
    one_kit.sync()
    one_kit.check()


@pytest.mark.by_turns
def test_without_a_log_it_is_copied_again_as_well(kit: Kit) -> None:
    kit.migration.task = {"task-mode": "full"}
    result = kit.copy("behind the last page", lambda: kit.write((*WRITES, *CHANGES["add"], "DROP TABLE b")))
    assert result["copied_again"] == {f"{kit.schema}.a": 1}
    assert definition(kit.migration.target, kit.schema) == definition(kit.source, kit.schema)
    assert rows_of(kit.migration.target, kit.schema, "a") == rows_of(kit.source, kit.schema, "a")


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE a",
        "ALTER TABLE a CHANGE id i int",
        "ALTER TABLE a MODIFY id varchar(9); UPDATE a SET id = 'x' WHERE id = 3",
    ],
    ids=["gone", "renamed", "retyped"],
)
def test_what_is_altered_before_it_is_measured_is_not_measured(
    source: Server, fresh_schema: FreshSchema, change: str
) -> None:
    """The copy begins, or begins again: its next look finds what has become of the table."""
    schema = fresh_schema(source)
    source.sql("CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (3), (9)", database=schema)
    at, name = endpoint("source", source), TableName(schema, "a")
    with connected(at) as connection:
        table = read_tables(connection, [name])[name]
    assert measure(at, [(table, 7)]) == [TableSize(name, 7, (3, 9))]
    source.sql(change, database=schema)
    assert measure(at, [(table, 7)]) == [TableSize(name, 7, None)]


def test_a_table_that_a_person_has_made_is_emptied_or_refused(one_kit: Kit) -> None:
    target, schema = one_kit.migration.target, one_kit.schema
    target.sql("CREATE TABLE a (id bigint PRIMARY KEY, v varchar(99), KEY mine (v))", database=schema)

    with pytest.raises(TargetTableMismatch) as refused:
        one_kit.copy("between pages", lambda: one_kit.write(("ALTER TABLE a ADD w int, MODIFY v varchar(50)",)))
    assert "ADD COLUMN `w` int" in refused.value.workaround()
    target.sql("ALTER TABLE a ADD COLUMN w int", database=schema)
    one_kit.migration.run = LocalRunner(2).run
    one_kit.migration.finish()
    assert ("a", "mine", 1, 1, "v") in keys(target, schema)
    one_kit.sync()
    assert rows_of(target, schema, "a") == rows_of(one_kit.source, schema, "a")


def test_a_name_that_goes_to_the_same_target_is_copied_in_its_place(one_kit: Kit) -> None:
    """A plain table that becomes a shard, too: its rows are in no log."""
    route = {"schema-pattern": one_kit.schema, "target-schema": one_kit.schema, "target-table": "all"}
    one_kit.migration.task = {"task-mode": "all", "routes": {"r": route | {"table-pattern": "[ac]*"}}}
    one_kit.migration.instance = {"route-rules": ["r"]}
    one_kit.write(("CREATE TABLE plain LIKE a", "INSERT INTO plain VALUES (501, 'plain')"))
    moves = ("RENAME TABLE a TO c", "INSERT INTO c VALUES (77, 'c')", "RENAME TABLE plain TO c2", "UPDATE c2 SET v = 2")
    one_kit.copy("between pages", lambda: one_kit.write(moves))
    one_kit.write(("INSERT INTO c2 VALUES (502, 'c2')",))
    one_kit.sync()
    found = differences(
        one_kit.migration.target,
        {f"{one_kit.schema}.all": [(one_kit.source, f"{one_kit.schema}.{x}") for x in ("c", "c2")]},
    )
    assert found.equal, found


def test_rows_of_somebody_else_are_not_removed(one_kit: Kit) -> None:
    """The target has a table of the name of a new one; also where the run is begun again."""
    target, schema = one_kit.migration.target, one_kit.schema
    target.sql(
        "CREATE TABLE c (id int PRIMARY KEY, v varchar(40), u int); INSERT INTO c VALUES (5, 'mine', 5)",
        database=schema,
    )
    with pytest.raises(TargetNotEmpty, match=f"{schema}.c already has rows"):
        one_kit.copy("between pages", lambda: one_kit.write((*CHANGES["new"], "ALTER TABLE a ADD w int")))
    one_kit.migration.run = LocalRunner(2).run
    with pytest.raises(TargetNotEmpty):
        one_kit.migration.finish()
    assert target.sql("SELECT v FROM c", database=schema) == [("mine",)]
    target.sql("DROP TABLE c", database=schema)
    one_kit.migration.finish()
    one_kit.sync()
    one_kit.check()


def test_a_table_that_is_created_behind_the_load_does_not_stop_its_next_run(one_kit: Kit) -> None:
    one_kit.migration.finish()
    one_kit.write(("CREATE TABLE c LIKE a", "INSERT INTO c SELECT * FROM a"))
    one_kit.migration.finish()
    one_kit.sync()
    one_kit.check()


@pytest.mark.by_turns
def test_a_table_of_many_types_is_created_anew_as_often_as_it_is_altered(kit: Kit) -> None:
    """What the task has created it knows again, however the target's server writes it."""
    kit.write((MANY, "INSERT INTO m (id, t) VALUES (1, 'one'), (2, 'two'), (3, 'three'), (4, 'four'), (5, 'five')"))
    changes = iter(
        ("ALTER TABLE m ADD w int NOT NULL DEFAULT 4 FIRST", "ALTER TABLE m MODIFY t varchar(50), DROP KEY k")
    )
    run = LocalRunner(2).run

    def altering(*arguments: Any) -> Any:
        found = run(*arguments)
        kit.write(tuple(change for change in [next(changes, None)] if change))
        return found

    kit.migration.run = altering
    result = kit.migration.finish()["sources"]["one"]
    assert result["copied_again"] == {f"{kit.schema}.m": 2}
    kit.sync()
    assert definition(kit.migration.target, kit.schema) == definition(kit.source, kit.schema)
    assert keys(kit.migration.target, kit.schema) == keys(kit.source, kit.schema)
    report = differences(kit.migration.target, {f"{kit.schema}.m": [(kit.source, f"{kit.schema}.m")]})
    assert report.equal, report


def test_a_schema_without_a_table_gets_its_tables_by_the_log(kit: Kit) -> None:
    kit.write(["DROP TABLE a, b, nokey"])
    kit.copy(
        "before P0", lambda: kit.write(["CREATE TABLE early (id int PRIMARY KEY)", "INSERT INTO early VALUES (1)"])
    )
    kit.write(["CREATE TABLE late (id int PRIMARY KEY)", "INSERT INTO late VALUES (2)", "INSERT INTO early VALUES (2)"])
    kit.sync()
    kit.check()
    assert {str(one[0]) for one in definition(kit.migration.target, kit.schema)} == {"early", "late"}
