"""Filters on real servers: what is left out never comes, what depends on it is right, and the checkpoint moves on."""

import pytest

from airflow_provider_dm.engine.meta.records import Operator, OperatorKind, SqlPattern
from airflow_provider_dm.engine.rules.errors import (
    ExpressionNotSupported,
    StoppedByFilter,
    TargetKeyNotKept,
    TargetTableMismatch,
)
from airflow_provider_dm.engine.sync import following
from airflow_provider_dm.engine.sync.errors import DdlNotSupported
from tests.integration.sync.conftest import SOURCE_ID, SyncKit


def rows(kit: SyncKit, table: str) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in kit.target.sql(f"SELECT * FROM `{kit.schema}`.`{table}`")), key=repr)


def filters(kit: SyncKit, **rules: dict[str, object]) -> None:
    """Rules of the task; `schema-pattern` is the test's schema by default."""
    named = {name: {"schema-pattern": kit.schema} | rule for name, rule in rules.items()}
    kit.task_keys["filters"] = named
    kit.instance_keys["filter_rules"] = list(named)


def ignoring(table: str, *events: str) -> dict[str, object]:
    return {"table-pattern": table, "events": events, "action": "Ignore"}


def test_omitted_rows_are_never_applied_and_later_rows_are_exact(kit: SyncKit) -> None:
    """`plain` and `uniq` keep what was deleted; of the others some changes are about rows that never came."""
    filters(
        kit,
        kept=ignoring("plain", "delete"),
        unique=ignoring("uniq", "delete"),
        pairs=ignoring("pair", "insert"),
        codes=ignoring("code", "update"),
        without=ignoring("keyless", "insert"),
    )
    kit.source_keys["filters"] = [{"schema-pattern": kit.schema, **ignoring("loose", "all dml")}]
    kit.create()
    for server in (kit.source, kit.target):
        server.sql(f"INSERT INTO `{kit.schema}`.pair VALUES (9, 'old', 0), (9, 'gone', 0)")
        server.sql(f"INSERT INTO `{kit.schema}`.keyless VALUES (9, 'twin'), (9, 'twin'), (8, 'x')")
    kit.begin()
    kit.write("INSERT INTO plain VALUES (1, 'a'), (2, 'b')", "INSERT INTO uniq VALUES (1, 10, 'a'), (2, 20, 'b')")
    kit.write("DELETE FROM plain", "DELETE FROM uniq WHERE id = 1", "INSERT INTO plain VALUES (2, 'again')")
    kit.write("UPDATE uniq SET u = 30, v = 'moved' WHERE id = 2", "INSERT INTO loose VALUES (1, 1)")
    kit.write("INSERT INTO pair VALUES (1, 'new', 1)", "UPDATE pair SET v = v + 1", "DELETE FROM pair WHERE b = 'gone'")
    kit.write("UPDATE pair SET a = 7 WHERE b IN ('new', 'old')")
    kit.write("INSERT INTO code VALUES ('abc', 1), ('x', 1)", "UPDATE code SET c = 'y' WHERE c = 'x'")
    kit.write("INSERT INTO code VALUES ('X', 2)", "DELETE FROM code WHERE c = 'ABC'")
    kit.write("INSERT INTO keyless VALUES (1, 'new')", "UPDATE keyless SET b = 'B' WHERE a = 1")
    kit.write(
        "DELETE FROM keyless WHERE a = 9 LIMIT 1", "UPDATE keyless SET b = 'y' WHERE a = 8", "DELETE FROM keyless"
    )
    kit.sync()

    assert rows(kit, "plain") == [(1, "a"), (2, "again")]
    assert rows(kit, "uniq") == [(1, 10, "a"), (2, 30, "moved")]
    assert rows(kit, "pair") == [(7, "old", 1)]
    assert rows(kit, "code") == [("X", 2)]
    assert rows(kit, "keyless") == []
    assert rows(kit, "loose") == []
    # One after the other, in runs of their own: the same comes out.
    kit.write("INSERT INTO plain VALUES (1, 'new')")
    kit.sync()
    kit.write("DELETE FROM plain WHERE id = 1")
    assert kit.sync().finished
    assert rows(kit, "plain") == [(1, "new"), (2, "again")]


@pytest.mark.parametrize("event", ["delete", "insert"])
def test_rows_that_are_one_in_the_target_only_do_not_replace_each_other(one_kit: SyncKit, event: str) -> None:
    filters(one_kit, some=ignoring("code", event))
    one_kit.create("code")
    one_kit.source.sql("ALTER TABLE code MODIFY c varchar(20) COLLATE utf8mb4_bin NOT NULL", database=one_kit.schema)
    one_kit.both("INSERT INTO code VALUES ('a', 1)")
    with pytest.raises(TargetKeyNotKept):
        one_kit.begin()
    one_kit.target.sql("ALTER TABLE code MODIFY c varchar(20) COLLATE utf8mb4_bin NOT NULL", database=one_kit.schema)
    one_kit.begin()
    one_kit.write("INSERT INTO code VALUES ('A', 2)", "UPDATE code SET c = 'b' WHERE c = 'A'")
    one_kit.sync()
    assert rows(one_kit, "code") == ([("a", 1), ("b", 2)] if event == "delete" else [("a", 1)])


def test_expression_filters_as_dm_has_them(kit: SyncKit) -> None:
    """DM's own test (dm/tests/expression_filter), but for what needs the clock."""
    expressions = {
        "even_c": {"table": "t2", "insert-value-expr": "c % 2 = 0"},
        "pythagorean": {"table": "t4", "insert-value-expr": "a*a + b*b = c*c"},
        "update_old_lt_100": {"table": "t5", "update-old-value-expr": "c > 100"},
        "update_new_lt_100": {"table": "t5", "update-new-value-expr": "c > 100"},
        "update_old_and_new": {"table": "t5", "update-old-value-expr": "c = 1", "update-new-value-expr": "c = 2"},
        "only_muller": {"table": "t6", "insert-value-expr": "name != 'Müller'"},
        "e02": {"table": "t7", "update-new-value-expr": "r COLLATE utf8mb4_bin = 'a'"},
        "kept": {"table": "t7", "delete-value-expr": "s >= 2"},
    }
    kit.task_keys["expression_filters"] = {name: {"schema": kit.schema} | one for name, one in expressions.items()}
    kit.instance_keys["expression_filters"] = list(expressions)
    kit.begin_with("plain")
    kit.write(
        "CREATE TABLE t2 (id int PRIMARY KEY, should_skip int, c int)",
        "INSERT INTO t2 (id, should_skip, c) VALUES (1, 0, 1), (2, 1, 2)",
        "ALTER TABLE t2 ADD COLUMN d int",
        "INSERT INTO t2 (id, should_skip, c) VALUES (3, 0, 3), (4, 1, 4)",
        "ALTER TABLE t2 DROP COLUMN c",
        "INSERT INTO t2 (id, should_skip) VALUES (5, 0), (6, 0)",
        "ALTER TABLE t2 ADD COLUMN c int",
        "INSERT INTO t2 (id, should_skip, d, c) VALUES (7, 1, 100, 8), (8, 0, 200, 9)",
        "CREATE TABLE t4 (id int PRIMARY KEY, should_skip int, a double, b double, c double)",
        "INSERT INTO t4 VALUES (1, 0, 1, 2, 3), (2, 1, 3, 4, 5)",
        "CREATE TABLE t5 (id int PRIMARY KEY, should_skip int, c int)",
        "INSERT INTO t5 VALUES (1, 0, 99), (2, 0, 101), (3, 0, 1)",
        "UPDATE t5 SET should_skip = 1, c = 110 WHERE id = 1",
        "UPDATE t5 SET should_skip = 1, c = 20 WHERE id = 2",
        "UPDATE t5 SET should_skip = 1, c = 2 WHERE c = 1",
        "INSERT INTO t5 VALUES (4, 1, 1)",
        "UPDATE t5 SET should_skip = 0, c = 3 WHERE c = 1",
        "CREATE TABLE t6 (id int, name varchar(20), msg text, PRIMARY KEY (id)) CHARACTER SET latin1",
        "INSERT INTO t6 VALUES (1, 'Müller', 'Müller'), (2, 'X Æ A-12', 'X Æ A-12')",
        "CREATE TABLE t7 (a int PRIMARY KEY, r varchar(10), s int) CHARACTER SET utf8mb4",
        "INSERT INTO t7 VALUES (1, 'a', 2), (2, 'b', 1), (3, 'b', 2)",
        "UPDATE t7 SET s = s + 1",
        "DELETE FROM t7 WHERE a > 1",
    )
    kit.sync()

    skipped = "SELECT COUNT(*), COALESCE(SUM(should_skip), 0) FROM `{}`.{}"
    counted = [kit.target.sql(skipped.format(kit.schema, table))[0] for table in ("t2", "t4", "t5")]
    assert [tuple(map(int, one)) for one in counted] == [(5, 0), (1, 0), (4, 0)]
    assert [row[1] for row in rows(kit, "t6")] == ["Müller"]
    assert rows(kit, "t7") == [(1, "a", 2), (2, "b", 2), (3, "b", 3)]
    assert rows(kit, "t5") == [(1, 0, 99), (2, 0, 101), (3, 0, 1), (4, 0, 3)]


@pytest.mark.parametrize("collation", ["utf8mb4_general_ci", "utf8mb4_unicode_ci", ""])
def test_expressions_over_text_of_the_usual_collations_and_over_timestamps(kit: SyncKit, collation: str) -> None:
    """The source is asked how it compares text; a TIMESTAMP is a local time of the task's `timezone`."""
    collation = collation or ("utf8mb4_0900_ai_ci" if kit.source.flavour == "mysql" else "utf8mb4_unicode_520_ci")
    expressions = {
        "named": {"table": "t1", "insert-value-expr": "name = 'MÜLLER' OR name LIKE 'x%'"},
        "old": {"table": "t1", "update-new-value-expr": "at >= '2024-03-31 02:00:00'"},
        "gone": {"table": "t1", "delete-value-expr": "name > 'm'"},
    }
    kit.task_keys |= {
        "timezone": "Europe/London",
        "expression_filters": {name: {"schema": kit.schema} | one for name, one in expressions.items()},
    }
    kit.instance_keys["expression_filters"] = list(expressions)
    kit.begin_with("plain")
    kit.write(
        "SET time_zone = '+00:00'",
        f"CREATE TABLE t1 (id int PRIMARY KEY, name varchar(20), at timestamp NULL) COLLATE {collation}",
        "INSERT INTO t1 (id, name) VALUES (1, 'Muller'), (2, 'Xaver'), (3, 'Á'), (4, 'zoë'), (5, '')",
        "UPDATE t1 SET at = '2024-03-31 00:59:59' WHERE id = 3",
        "UPDATE t1 SET at = '2024-03-31 01:00:00' WHERE id = 4",
        "DELETE FROM t1 WHERE id > 3",
    )
    kit.sync()

    found = [(id_, name, at and str(at)) for id_, name, at in rows(kit, "t1")]
    assert found == [(3, "Á", "2024-03-31 00:59:59"), (4, "zoë", None)]


def test_filtered_ddl_is_followed_by_the_model_only(one_kit: SyncKit) -> None:
    """The source's tables are followed, the target keeps its own; what rows need there stops the task, not the rows."""
    filters(
        one_kit,
        keeps={"events": ["drop table", "truncate table", "drop database"], "action": "Ignore"},
        alters={"sql-pattern": [r"add\s+column\s+ours", "optimiz"], "events": ["drop index"], "action": "Ignore"},
        careful={"table-pattern": "plain", "events": ["drop column", "delete"], "action": "Error"},
    )
    one_kit.begin_with("plain", "uniq", "pair")
    one_kit.write("INSERT INTO uniq VALUES (1, 10, 'a')", "INSERT INTO pair VALUES (1, 'b', 1)")
    one_kit.write("TRUNCATE TABLE uniq", "DROP TABLE pair", "ALTER TABLE uniq DROP INDEX u, ADD COLUMN w int")
    one_kit.write("INSERT INTO uniq VALUES (2, 20, 'b', 5)")
    one_kit.sync()
    assert (rows(one_kit, "uniq"), rows(one_kit, "pair")) == ([(1, 10, "a", None), (2, 20, "b", 5)], [(1, "b", 1)])
    assert "u" in {row[2] for row in one_kit.target.sql(f"SHOW INDEX FROM `{one_kit.schema}`.uniq")}

    one_kit.write("ALTER TABLE uniq ADD COLUMN ours int", "INSERT INTO uniq VALUES (3, 30, 'c', 6, 7)")
    one_kit.stops(TargetTableMismatch, match="ours")
    one_kit.target.sql(f"ALTER TABLE `{one_kit.schema}`.uniq ADD COLUMN ours int")
    one_kit.sync()
    assert rows(one_kit, "uniq")[2] == (3, 30, "c", 6, 7)

    one_kit.write("INSERT INTO plain VALUES (1, 'a')", "ALTER TABLE plain ADD COLUMN n int, DROP COLUMN v")
    one_kit.stops(StoppedByFilter, match=r"drop column of .*plain")
    one_kit.target.sql(f"ALTER TABLE `{one_kit.schema}`.plain ADD COLUMN n int")
    skip = Operator("test", SOURCE_ID, OperatorKind.SKIP, SqlPattern("DROP COLUMN v"), ())
    one_kit.store.put_operators([skip])
    one_kit.write("INSERT INTO plain VALUES (2, 2)")
    one_kit.sync()
    assert rows(one_kit, "plain") == [(1, "a", None), (2, None, 2)]

    one_kit.write("DELETE FROM plain WHERE id = 1")
    one_kit.stops(StoppedByFilter, match="delete")


def test_an_object_kept_by_a_filter_is_not_the_new_object(one_kit: SyncKit, monkeypatch: pytest.MonkeyPatch) -> None:
    filters(one_kit, keeps={"events": ["drop table", "drop column", "rename column"], "action": "Ignore"})
    one_kit.begin_with("plain", "pair")
    one_kit.write("INSERT INTO plain VALUES (1, 'old')", "ALTER TABLE plain DROP COLUMN v")
    one_kit.write("ALTER TABLE plain ADD COLUMN w int, ADD COLUMN V varchar(30)")
    one_kit.stops(DdlNotSupported, match=r"column v of .*plain.*binlog skip")
    one_kit.target.sql(f"ALTER TABLE `{one_kit.schema}`.plain DROP COLUMN v")

    def dies(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(following.Following, "_commit", dies)
        one_kit.stops(KeyboardInterrupt)
    one_kit.write("INSERT INTO plain VALUES (2, 3, 'new')")
    one_kit.sync()
    assert rows(one_kit, "plain") == [(1, None, None), (2, 3, "new")]

    one_kit.write("INSERT INTO pair VALUES (1, 'b', 1)", "DROP TABLE pair", "CREATE TABLE pair (a int PRIMARY KEY)")
    one_kit.stops(DdlNotSupported, match=r"table .*pair")


def test_an_unsupported_expression_is_refused_before_anything_is_read(one_kit: SyncKit) -> None:
    one_kit.task_keys["expression_filters"] = {
        "x": {"schema": one_kit.schema, "table": "plain", "insert-value-expr": "v > NOW()"}
    }
    one_kit.instance_keys["expression_filters"] = ["x"]
    one_kit.create("plain")
    with pytest.raises(ExpressionNotSupported, match="NOW"):
        one_kit.begin()
