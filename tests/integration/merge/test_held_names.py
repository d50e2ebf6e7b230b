"""Shards that get other names, or are dropped, while their rows are held back; and what a user skips or replaces."""

from typing import Any

import pytest

from airflow_provider_dm.engine.errors import NotSupportedYet
from airflow_provider_dm.engine.meta.records import Operator, OperatorKind, SqlPattern
from airflow_provider_dm.engine.shard.errors import ShardDdlNotSupported
from airflow_provider_dm.engine.shard.lock import Action, Lock, with_decision
from tests.integration.merge.conftest import EACH_TRANSACTION, PESSIMISTIC, PLAIN, Shops
from tests.integration.merge.sharding import columns, locks, waiting_for

UNIQUE = "id int NOT NULL PRIMARY KEY, v varchar(20), u int UNIQUE"
C = "ADD COLUMN c int NOT NULL DEFAULT 7"


def resolved(shops: Shops, **how: Any) -> None:
    """Sync until nothing is held back."""
    waits = [one.unresolved_groups for _ in range(3) for one in shops.sync(**how)]
    assert (waits[-1], locks(shops), shops.meta_rows("dm_shard_member")) == ((), [], 0)


@pytest.mark.parametrize(
    ("how", "size"), [("RENAME TABLE {} TO {}", None), ("ALTER TABLE {} RENAME TO {}", EACH_TRANSACTION)]
)
def test_a_held_shard_gets_other_names(pair: Shops, how: str, size: Any) -> None:
    """Also the name of another shard, and one that waits for its place is known by its newest name."""
    pair.create(UNIQUE, "a:o_1", "a:o_2", "b:o_3")
    pair.write("a", "INSERT INTO o_1 VALUES (1, 'V1', 1), (2, 'V1', 2)", "INSERT INTO o_2 VALUES (3, 'V1', 3)")
    pair.load()
    pair.write("a", f"ALTER TABLE o_1 {C}", how.format("o_1", "o_9"), "UPDATE o_9 SET c = 8, u = 11 WHERE id = 1")
    pair.write("a", how.format("o_2", "o_1"), "INSERT INTO o_1 VALUES (4, 'V1', 4)", f"ALTER TABLE o_1 {C}")
    pair.write("a", "UPDATE o_1 SET c = 9 WHERE id = 3", how.format("o_1", "o_5"), "DELETE FROM o_5 WHERE id = 4")
    pair.write(
        "a", "INSERT INTO o_9 VALUES (5, 'V2', 5, 5)", how.format("o_9", "o_10"), "DELETE FROM o_10 WHERE id = 2"
    )
    pair.write("a", "ALTER TABLE o_10 ADD d int", "UPDATE o_10 SET d = 1", how.format("o_10", "o_11"))
    pair.sync("a", size=size)
    pair.write("b", f"ALTER TABLE o_3 {C}", "INSERT INTO o_3 VALUES (2, 'moved', 2, 2)")
    pair.write("a", "UPDATE o_11 SET c = c + 1")
    pair.sync("b", "a", size=size)
    pair.write("b", "ALTER TABLE o_3 ADD d int")
    pair.write("a", "ALTER TABLE o_5 ADD d int", "INSERT INTO o_11 VALUES (6, 'V3', 6, 6, 6)")
    resolved(pair, size=size)
    assert columns(pair) == ["id", "v", "u", "c", "d"]
    assert pair.compared().equal, pair.compared()
    assert pair.meta_rows("dm_contested_row") == 0


def test_a_shard_is_altered_and_renamed_by_one_statement(single: Shops) -> None:
    single.create(PLAIN, "a:o_1", "a:o_2")
    single.write("a", "INSERT INTO o_1 VALUES (1, 'V1')", "INSERT INTO o_2 VALUES (2, 'V1')")
    single.load()
    single.write("a", f"ALTER TABLE o_1 {C}, RENAME TO o_9", "UPDATE o_9 SET c = 8", "INSERT INTO o_2 VALUES (3, 'V1')")
    single.sync()
    single.write("a", f"ALTER TABLE o_2 RENAME TO o_1, {C}", "UPDATE o_1 SET c = 9 WHERE id = 3")
    resolved(single)
    assert single.compared().equal, single.compared()


def test_rows_of_a_held_shard_that_is_dropped_stay(pair: Shops) -> None:
    """A table that gets its name begins anew; the dropped one needs no further DDL."""
    pair.create(UNIQUE, "a:o_1", "a:o_2", "b:o_3")
    pair.write("a", "INSERT INTO o_1 VALUES (1, 'V1', 1), (2, 'V1', 2)", "INSERT INTO o_2 VALUES (3, 'V1', 3)")
    pair.write("b", "INSERT INTO o_3 VALUES (30, 'V1', 30)")
    pair.load()
    pair.write("a", "INSERT INTO o_1 VALUES (30, 'waits', 31), (31, 'waits', 30)", f"ALTER TABLE o_1 {C}")
    pair.write("a", "UPDATE o_1 SET c = 8 WHERE id = 1", "DELETE FROM o_1 WHERE id IN (2, 30)")
    pair.write("a", "INSERT INTO o_1 VALUES (4, 'V2', 4, 4), (5, 'V2', 5, 5)", "DROP TABLE o_1")
    pair.write("a", "CREATE TABLE o_1 LIKE o_2", "INSERT INTO o_1 VALUES (6, 'V1', 6)")
    (result,) = pair.sync("a")
    assert waiting_for(result) == [f"for {pair.schema}.o_1, {pair.schema}.o_2 of this source"]
    for source, name in (("a", "o_1"), ("a", "o_2"), ("b", "o_3")):
        pair.write(source, f"ALTER TABLE {name} {C}", f"ALTER TABLE {name} ADD d int")
    resolved(pair)
    here = [(1, "V1", 1, 8), (3, "V1", 3, 7), (4, "V2", 4, 4), (5, "V2", 5, 5), (6, "V1", 6, 7), (30, "V1", 30, 7)]
    assert [row[:4] for row in pair.rows()] == here
    assert pair.meta_rows("dm_contested_row") == 0


def test_a_new_shard_has_made_the_ddl_of_the_shard_that_it_is_like(single: Shops) -> None:
    """Also of two with the same definition, as one of them has added a column and dropped it again."""
    single.create(PLAIN, "a:o_1", "a:o_2")
    single.load()
    ddls = (C, "DROP COLUMN c")
    single.write("a", *(f"ALTER TABLE o_1 {ddl}" for ddl in ddls))
    for new, like in ((8, 1), (9, 2)):
        single.write("a", f"CREATE TABLE o_{new} LIKE o_{like}", f"INSERT INTO o_{new} VALUES ({new}, 'V1')")
    for ddl in ddls:
        single.write("a", *(f"ALTER TABLE {name} {ddl}" for name in ("o_2", "o_9")))
    single.write("a", "INSERT INTO o_9 VALUES (10, 'V3')")
    resolved(single)
    assert single.compared().equal, single.compared()


def test_held_shards_whose_long_names_begin_alike_are_dropped_by_one_statement(single: Shops) -> None:
    names = [f"o_items_of_the_archive_of_{number}" for number in (1, 2, 3)]
    single.create(PLAIN, *(f"a:{name}" for name in names))
    single.load()
    for number, name in enumerate(names[:2], 1):
        single.write("a", f"ALTER TABLE {name} {C}", f"INSERT INTO {name} VALUES ({number}, 'V2', {number})")
    single.write("a", f"DROP TABLE {names[0]}, {names[1]}")
    single.sync()
    single.write("a", f"ALTER TABLE {names[2]} {C}", f"INSERT INTO {names[2]} VALUES (3, 'V2', 3)")
    resolved(single)
    assert single.rows() == [(1, "V2", 1), (2, "V2", 2), (3, "V2", 3)]


def test_the_only_shard_of_a_source_is_dropped_while_it_is_held(pair: Shops) -> None:
    """Its DDL has a lock, which a user can unlock."""
    pair.create(PLAIN, "a:o_1", "b:o_3")
    pair.load()
    pair.sync()
    pair.write("a", f"ALTER TABLE o_1 {C}", "INSERT INTO o_1 VALUES (1, 'V2', 8)", "DROP TABLE o_1")
    (result,) = pair.sync("a")
    assert waiting_for(result) == ["for b"]
    ((body, _),) = pair.store.ddl_locks()
    lock = Lock.from_json(body)
    pair.store.change_ddl_lock(
        lock.task, lock.id, lock.number, lambda _: with_decision(lock, Action.EXEC, None, force=True).to_json()
    )
    pair.sync("a")
    assert pair.rows() == [(1, "V2", 8)]
    pair.write("b", "INSERT INTO o_3 VALUES (3, 'V1')", f"ALTER TABLE o_3 {C}", "INSERT INTO o_3 VALUES (4, 'V2', 4)")
    resolved(pair)
    assert pair.rows() == [(1, "V2", 8), (3, "V1", 7), (4, "V2", 4)]


def test_one_shard_is_left_beside_a_dropped_one_that_is_held(pair: Shops) -> None:
    pair.create(PLAIN, "a:o_1", "b:o_3")
    pair.load()
    pair.write("a", f"ALTER TABLE o_1 {C}", "INSERT INTO o_1 VALUES (1, 'V2', 8)", "DROP TABLE o_1")
    pair.sync("a")
    pair.write("b", "INSERT INTO o_3 VALUES (3, 'V1')", f"ALTER TABLE o_3 {C}", "INSERT INTO o_3 VALUES (4, 'V2', 4)")
    resolved(pair)
    assert pair.rows() == [(1, "V2", 8), (3, "V1", 7), (4, "V2", 4)]


def test_shards_get_names_by_which_their_rows_go_elsewhere(single: Shops) -> None:
    """The first of them stops with the remedy: a route."""
    single.create(PLAIN, "a:o_1", "a:o_2")
    single.load()
    single.write("a", "RENAME TABLE o_1 TO p_1", "INSERT INTO p_1 VALUES (1, 'V1')", "RENAME TABLE o_2 TO p_2")
    single.stops(ShardDdlNotSupported, match=r"is renamed to .*p_1, which is routed to .*Add a route")
    goes = {"schema-pattern": single.schema, "target-schema": single.schema, "target-table": "o"}
    routes = {"merge": {**goes, "table-pattern": "o_*"}, "again": {**goes, "table-pattern": "p_*"}}
    single.task, single.instance = {**PESSIMISTIC, "routes": routes}, {"route-rules": ["merge", "again"]}
    single.write("a", f"ALTER TABLE p_1 {C}", f"ALTER TABLE p_2 {C}", "INSERT INTO p_2 VALUES (2, 'V2', 2)")
    resolved(single)
    assert single.rows() == [(1, "V1", 7), (2, "V2", 2)]


@pytest.mark.parametrize("kind", ["skip", "replace"])
def test_a_user_decides_about_a_statement_of_a_held_shard(single: Shops, kind: str) -> None:
    """DM-6032 names both remedies."""
    single.create(PLAIN, "a:o_1", "a:o_2")
    single.load()
    moment = "ADD COLUMN m timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP"
    single.write("a", f"ALTER TABLE o_1 {C}", "INSERT INTO o_1 VALUES (1, 'V2', 8)", f"ALTER TABLE o_1 {moment}")
    single.write("a", "INSERT INTO o_1 VALUES (2, 'V3', 9, '2024-01-02 03:04:05')")
    single.write("a", f"ALTER TABLE o_2 {C}", f"ALTER TABLE o_2 {moment}", "INSERT INTO o_2 (id, v) VALUES (3, 'V3')")
    instead = f"ALTER TABLE {single.schema}.{{}} ADD COLUMN m timestamp NULL"
    for name in ("o_1", "o_2"):
        single.stops(NotSupportedYet, match="its own current time")
        statements = (instead.format(name),) if kind == "replace" else ()
        place = SqlPattern(f"{name} ADD COLUMN m")
        single.store.put_operators([Operator("test", "a", OperatorKind(kind), place, statements)])
    if kind == "skip":  # the target is to have it by then
        single.target.sql("ALTER TABLE o ADD COLUMN m timestamp NULL", database=single.schema)
    resolved(single)
    assert [row[:2] for row in sorted(single.target.sql("SELECT id, v FROM o", database=single.schema))] == [
        (1, "V2"),
        (2, "V3"),
        (3, "V3"),
    ]
    assert columns(single) in (["id", "v", "c", "m"], ["id", "v", "m", "c"])


def test_a_row_of_a_dropped_shard_that_waits_keeps_no_ddl_waiting(pair: Shops) -> None:
    """Its source cannot be asked for it any more."""
    pair.create(PLAIN, "a:o_1", "b:o_8", "b:o_9")
    pair.write("a", "INSERT INTO o_1 VALUES (1, 'a'), (2, 'a')")
    pair.load()
    d = "ADD COLUMN d int"
    pair.write("a", f"ALTER TABLE o_1 {C}", f"ALTER TABLE o_1 {d}", "DELETE FROM o_1 WHERE id = 1")
    pair.write("b", f"ALTER TABLE o_8 {C}", "INSERT INTO o_8 (id) VALUES (1), (3)", f"ALTER TABLE o_8 {d}")
    pair.write("b", "DELETE FROM o_8", "DROP TABLE o_8", f"ALTER TABLE o_9 {C}", f"ALTER TABLE o_9 {d}")
    resolved(pair)
    assert pair.rows() == [(2, "a", 7, None)]
    assert pair.meta_rows("dm_contested_row") == 0
