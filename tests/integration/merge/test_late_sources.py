"""Sources of a merged table that begin later than others, and shards that do not begin alike."""

from __future__ import annotations

import pytest

from airflow_provider_dm.engine.shard.lock import Action
from airflow_provider_dm.launch.ddl_locks import stored_locks, unlock
from tests.integration.merge.conftest import Shops
from tests.integration.merge.sharding import PESSIMISTIC, PLAIN, columns, locks, waiting_for

C = "ADD COLUMN c int NOT NULL DEFAULT 7"


def differing(shops: Shops) -> list[str]:
    return [one.message for one in shops.prechecked().failures if one.name == "shard_tables"]


@pytest.mark.parametrize("shards", [("a:o_1",), ("a:o_1", "a:o_2")], ids=["one shard", "two shards"])
def test_ddl_waits_for_a_source_that_has_not_begun(one_pair: Shops, shards: tuple[str, ...]) -> None:
    shops = one_pair
    shops.task = PESSIMISTIC
    shops.create(PLAIN, *shards, "b:o_9")
    shops.write("a", "INSERT INTO o_1 VALUES (1, 'a')")
    shops.write("b", "INSERT INTO o_9 VALUES (9, 'b')")
    shops.load(["a"])
    for shard in shards:
        shops.write("a", f"ALTER TABLE {shard[2:]} {C}")
    shops.write("a", "INSERT INTO o_1 VALUES (2, 'a', 2)")
    (result,) = shops.sync("a", only=True)
    assert (waiting_for(result), columns(shops)) == (["for b"], ["id", "v"])
    ((lock, _),) = stored_locks(shops.store)
    assert (lock.synced, lock.unsynced) == (["a"], ["b"])

    assert differing(shops) == [], "it begins like those whose DDL is not executed yet"
    shops.load(["b"])
    shops.write("b", "INSERT INTO o_9 VALUES (10, 'b')", f"ALTER TABLE o_9 {C}", "INSERT INTO o_9 VALUES (11, 'b', 3)")
    shops.sync("b", "a", "b")
    assert shops.compared().equal, shops.compared()
    assert locks(shops) == []


def test_a_source_that_begins_later_has_to_be_as_the_others_are(one_pair: Shops) -> None:
    shops = one_pair
    shops.task = PESSIMISTIC
    shops.create(PLAIN, "a:o_1", "b:o_9")
    shops.load(["a"])
    shops.write("a", f"ALTER TABLE o_1 {C}")
    shops.sync("a", only=True)
    ((lock, _),) = stored_locks(shops.store)
    unlock(shops.store, lock.id, owner=None, action=Action.EXEC, force=True)
    shops.sync("a", only=True)
    assert columns(shops) == ["id", "v", "c"]
    assert len(differing(shops)) == 1
    shops.write("b", f"ALTER TABLE o_9 {C}")  # as the error says
    assert differing(shops) == []
    shops.load(["b"])
    shops.write("b", "ALTER TABLE o_9 ADD d int", "INSERT INTO o_9 VALUES (9, 'b', 1, 2)")
    shops.write("a", "ALTER TABLE o_1 ADD d int")
    shops.sync("b", "a", "b", "a")
    assert shops.compared().equal, shops.compared()
    assert locks(shops) == []


def test_shards_that_differ_and_begin_all_the_same(one_pair: Shops) -> None:
    """DDL that one of them has made already waits for it, and a person resolves it by the remedy of DM-7402."""
    shops = one_pair
    shops.task = {**PESSIMISTIC, "ignore-checking-items": ["shard_tables"]}
    shops.create(PLAIN, "b:o_9")
    shops.create("id int NOT NULL PRIMARY KEY, v varchar(40)", "a:o_1")
    assert len(differing(shops)) == 0, "ignored"
    shops.load()
    shops.write("b", "INSERT INTO o_9 VALUES (9, 'b')", "ALTER TABLE o_9 MODIFY v varchar(40)")
    shops.write("b", f"INSERT INTO o_9 VALUES (10, '{'b' * 30}')")
    shops.write("a", "INSERT INTO o_1 VALUES (1, 'a')")
    results = shops.sync("a", "b")
    assert waiting_for(results[1]) == ["for a"]
    ((lock, _),) = stored_locks(shops.store)
    unlock(shops.store, lock.id, owner=None, action=Action.EXEC, force=True)
    assert [one.unresolved_groups for one in shops.sync("b", "a")] == [(), ()]
    assert shops.compared().equal, shops.compared()
