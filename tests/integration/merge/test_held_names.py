"""Shards that get other names, or are dropped, while their rows are held back; and what a person skips or replaces."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_dm.engine.errors import NotSupportedYet
from airflow_provider_dm.engine.meta.records import Operator, OperatorKind, SqlPattern
from airflow_provider_dm.engine.shard.errors import ShardDdlNotSupported
from airflow_provider_dm.engine.shard.lock import Action, Lock, with_decision
from tests.integration.merge.conftest import EACH_TRANSACTION, Shops
from tests.integration.merge.sharding import PESSIMISTIC, PLAIN, columns, locks, waiting_for

UNIQUE = "id int NOT NULL PRIMARY KEY, v varchar(20), u int UNIQUE"
C = "ADD COLUMN c int NOT NULL DEFAULT 7"


def resolved(shops: Shops, **how: Any) -> None:
    """Sync until nothing is held back."""
    waits = [one.unresolved_groups for _ in range(3) for one in shops.sync(**how)]
    assert (waits[-1], locks(shops), shops.meta_rows("dm_shard_member")) == ((), [], 0)


@pytest.mark.parametrize("size", [None, EACH_TRANSACTION], ids=["at once", "each transaction"])
@pytest.mark.parametrize("how", ["RENAME TABLE {} TO {}", "ALTER TABLE {} RENAME TO {}"])
def test_a_held_shard_gets_other_names(one_pair: Shops, how: str, size: Any) -> None:
    """Also the name of another shard, and one that waits for its place is known by its newest name."""
    shops = one_pair
    shops.task = PESSIMISTIC
    shops.create(UNIQUE, "a:o_1", "a:o_2", "b:o_3")
    shops.write("a", "INSERT INTO o_1 VALUES (1, 'V1', 1), (2, 'V1', 2)", "INSERT INTO o_2 VALUES (3, 'V1', 3)")
    shops.load()
    shops.write("a", f"ALTER TABLE o_1 {C}", how.format("o_1", "o_9"), "UPDATE o_9 SET c = 8, u = 11 WHERE id = 1")
    shops.write("a", how.format("o_2", "o_1"), "INSERT INTO o_1 VALUES (4, 'V1', 4)", f"ALTER TABLE o_1 {C}")
    shops.write("a", "UPDATE o_1 SET c = 9 WHERE id = 3", how.format("o_1", "o_5"), "DELETE FROM o_5 WHERE id = 4")
    shops.write(
        "a", "INSERT INTO o_9 VALUES (5, 'V2', 5, 5)", how.format("o_9", "o_10"), "DELETE FROM o_10 WHERE id = 2"
    )
    shops.write("a", "ALTER TABLE o_10 ADD d int", "UPDATE o_10 SET d = 1", how.format("o_10", "o_11"))
    shops.sync("a", size=size)
    shops.write("b", f"ALTER TABLE o_3 {C}", "INSERT INTO o_3 VALUES (2, 'moved', 2, 2)")
    shops.write("a", "UPDATE o_11 SET c = c + 1")
    shops.sync("b", "a", size=size)
    shops.write("b", "ALTER TABLE o_3 ADD d int")
    shops.write("a", "ALTER TABLE o_5 ADD d int", "INSERT INTO o_11 VALUES (6, 'V3', 6, 6, 6)")
    resolved(shops, size=size)
    assert columns(shops) == ["id", "v", "u", "c", "d"]
    assert shops.compared().equal, shops.compared()
    assert shops.meta_rows("dm_contested_row") == 0


def test_a_shard_is_altered_and_renamed_by_one_statement(one_source: Shops) -> None:
    shops = one_source
    shops.task = PESSIMISTIC
    shops.create(PLAIN, "a:o_1", "a:o_2")
    shops.write("a", "INSERT INTO o_1 VALUES (1, 'V1')", "INSERT INTO o_2 VALUES (2, 'V1')")
    shops.load()
    shops.write("a", f"ALTER TABLE o_1 {C}, RENAME TO o_9", "UPDATE o_9 SET c = 8", "INSERT INTO o_2 VALUES (3, 'V1')")
    shops.sync()
    shops.write("a", f"ALTER TABLE o_2 RENAME TO o_1, {C}", "UPDATE o_1 SET c = 9 WHERE id = 3")
    resolved(shops)
    assert shops.compared().equal, shops.compared()


def test_rows_of_a_held_shard_that_is_dropped_stay(one_pair: Shops) -> None:
    """A table that gets its name begins anew; the dropped one needs no further DDL."""
    shops = one_pair
    shops.task = PESSIMISTIC
    shops.create(UNIQUE, "a:o_1", "a:o_2", "b:o_3")
    shops.write("a", "INSERT INTO o_1 VALUES (1, 'V1', 1), (2, 'V1', 2)", "INSERT INTO o_2 VALUES (3, 'V1', 3)")
    shops.write("b", "INSERT INTO o_3 VALUES (30, 'V1', 30)")
    shops.load()
    shops.write("a", "INSERT INTO o_1 VALUES (30, 'waits', 31), (31, 'waits', 30)", f"ALTER TABLE o_1 {C}")
    shops.write("a", "UPDATE o_1 SET c = 8 WHERE id = 1", "DELETE FROM o_1 WHERE id IN (2, 30)")
    shops.write("a", "INSERT INTO o_1 VALUES (4, 'V2', 4, 4), (5, 'V2', 5, 5)", "DROP TABLE o_1")
    shops.write("a", "CREATE TABLE o_1 LIKE o_2", "INSERT INTO o_1 VALUES (6, 'V1', 6)")
    (result,) = shops.sync("a")
    assert waiting_for(result) == [f"for {shops.schema}.o_1, {shops.schema}.o_2 of this source"]
    for source, name in (("a", "o_1"), ("a", "o_2"), ("b", "o_3")):
        shops.write(source, f"ALTER TABLE {name} {C}", f"ALTER TABLE {name} ADD d int")
    resolved(shops)
    here = [(1, "V1", 1, 8), (3, "V1", 3, 7), (4, "V2", 4, 4), (5, "V2", 5, 5), (6, "V1", 6, 7), (30, "V1", 30, 7)]
    assert [row[:4] for row in shops.rows()] == here
    assert shops.meta_rows("dm_contested_row") == 0


def test_held_shards_whose_long_names_begin_alike_are_dropped_by_one_statement(one_source: Shops) -> None:
    shops = one_source
    shops.task = PESSIMISTIC
    names = [f"o_items_of_the_archive_of_{number}" for number in (1, 2, 3)]
    shops.create(PLAIN, *(f"a:{name}" for name in names))
    shops.load()
    for number, name in enumerate(names[:2], 1):
        shops.write("a", f"ALTER TABLE {name} {C}", f"INSERT INTO {name} VALUES ({number}, 'V2', {number})")
    shops.write("a", f"DROP TABLE {names[0]}, {names[1]}")
    shops.sync()
    shops.write("a", f"ALTER TABLE {names[2]} {C}", f"INSERT INTO {names[2]} VALUES (3, 'V2', 3)")
    resolved(shops)
    assert shops.rows() == [(1, "V2", 1), (2, "V2", 2), (3, "V2", 3)]


def test_the_only_shard_of_a_source_is_dropped_while_it_is_held(one_pair: Shops) -> None:
    """Its DDL has a lock, which a person can unlock."""
    shops = one_pair
    shops.task = PESSIMISTIC
    shops.create(PLAIN, "a:o_1", "b:o_3")
    shops.load()
    shops.sync()
    shops.write("a", f"ALTER TABLE o_1 {C}", "INSERT INTO o_1 VALUES (1, 'V2', 8)", "DROP TABLE o_1")
    (result,) = shops.sync("a")
    assert waiting_for(result) == ["for b"]
    ((body, _),) = shops.store.ddl_locks()
    lock = Lock.from_json(body)
    shops.store.change_ddl_lock(
        lock.task, lock.id, lock.number, lambda _: with_decision(lock, Action.EXEC, None, force=True).to_json()
    )
    shops.sync("a")
    assert shops.rows() == [(1, "V2", 8)]
    shops.write("b", "INSERT INTO o_3 VALUES (3, 'V1')", f"ALTER TABLE o_3 {C}", "INSERT INTO o_3 VALUES (4, 'V2', 4)")
    resolved(shops)
    assert shops.rows() == [(1, "V2", 8), (3, "V1", 7), (4, "V2", 4)]


def test_one_shard_is_left_beside_a_dropped_one_that_is_held(one_pair: Shops) -> None:
    shops = one_pair
    shops.task = PESSIMISTIC
    shops.create(PLAIN, "a:o_1", "b:o_3")
    shops.load()
    shops.write("a", f"ALTER TABLE o_1 {C}", "INSERT INTO o_1 VALUES (1, 'V2', 8)", "DROP TABLE o_1")
    shops.sync("a")
    shops.write("b", "INSERT INTO o_3 VALUES (3, 'V1')", f"ALTER TABLE o_3 {C}", "INSERT INTO o_3 VALUES (4, 'V2', 4)")
    resolved(shops)
    assert shops.rows() == [(1, "V2", 8), (3, "V1", 7), (4, "V2", 4)]


def test_shards_get_names_by_which_their_rows_go_elsewhere(one_source: Shops) -> None:
    """The first of them stops with the remedy: a route."""
    shops = one_source
    shops.task = PESSIMISTIC
    shops.create(PLAIN, "a:o_1", "a:o_2")
    shops.load()
    shops.write("a", "RENAME TABLE o_1 TO p_1", "INSERT INTO p_1 VALUES (1, 'V1')", "RENAME TABLE o_2 TO p_2")
    with pytest.raises(ShardDdlNotSupported, match=r"is renamed to .*p_1, which is routed to .*Add a route"):
        shops.sync()
    goes = {"schema-pattern": shops.schema, "target-schema": shops.schema, "target-table": "o"}
    routes = {"merge": {**goes, "table-pattern": "o_*"}, "again": {**goes, "table-pattern": "p_*"}}
    shops.task, shops.instance = {**PESSIMISTIC, "routes": routes}, {"route-rules": ["merge", "again"]}
    shops.write("a", f"ALTER TABLE p_1 {C}", f"ALTER TABLE p_2 {C}", "INSERT INTO p_2 VALUES (2, 'V2', 2)")
    resolved(shops)
    assert shops.rows() == [(1, "V1", 7), (2, "V2", 2)]


@pytest.mark.parametrize("kind", ["skip", "replace"])
def test_a_person_decides_about_a_statement_of_a_held_shard(one_source: Shops, kind: str) -> None:
    """DM-6032 names both remedies."""
    shops = one_source
    shops.task = PESSIMISTIC
    shops.create(PLAIN, "a:o_1", "a:o_2")
    shops.load()
    moment = "ADD COLUMN m timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP"
    shops.write("a", f"ALTER TABLE o_1 {C}", "INSERT INTO o_1 VALUES (1, 'V2', 8)", f"ALTER TABLE o_1 {moment}")
    shops.write("a", "INSERT INTO o_1 VALUES (2, 'V3', 9, '2024-01-02 03:04:05')")
    shops.write("a", f"ALTER TABLE o_2 {C}", f"ALTER TABLE o_2 {moment}", "INSERT INTO o_2 (id, v) VALUES (3, 'V3')")
    instead = f"ALTER TABLE {shops.schema}.{{}} ADD COLUMN m timestamp NULL"
    for name in ("o_1", "o_2"):
        with pytest.raises(NotSupportedYet, match="its own current time"):
            shops.sync()
        statements = (instead.format(name),) if kind == "replace" else ()
        place = SqlPattern(f"{name} ADD COLUMN m")
        shops.store.put_operators([Operator("test", "a", OperatorKind(kind), place, statements)])
    if kind == "skip":  # the target is to have it by then
        shops.target.sql("ALTER TABLE o ADD COLUMN m timestamp NULL", database=shops.schema)
    resolved(shops)
    assert [row[:2] for row in sorted(shops.target.sql("SELECT id, v FROM o", database=shops.schema))] == [
        (1, "V2"),
        (2, "V3"),
        (3, "V3"),
    ]
    assert columns(shops) in (["id", "v", "c", "m"], ["id", "v", "m", "c"])


def test_a_row_of_a_dropped_shard_that_waits_keeps_no_ddl_waiting(one_pair: Shops) -> None:
    """Its source cannot be asked for it any more."""
    shops = one_pair
    shops.task = PESSIMISTIC
    shops.create(PLAIN, "a:o_1", "b:o_8", "b:o_9")
    shops.write("a", "INSERT INTO o_1 VALUES (1, 'a'), (2, 'a')")
    shops.load()
    d = "ADD COLUMN d int"
    shops.write("a", f"ALTER TABLE o_1 {C}", f"ALTER TABLE o_1 {d}", "DELETE FROM o_1 WHERE id = 1")
    shops.write("b", f"ALTER TABLE o_8 {C}", "INSERT INTO o_8 (id) VALUES (1), (3)", f"ALTER TABLE o_8 {d}")
    shops.write("b", "DELETE FROM o_8", "DROP TABLE o_8", f"ALTER TABLE o_9 {C}", f"ALTER TABLE o_9 {d}")
    resolved(shops)
    assert shops.rows() == [(2, "a", 7, None)]
    assert shops.meta_rows("dm_contested_row") == 0
