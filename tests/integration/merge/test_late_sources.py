"""Sources of a merged table that begin later than others, and shards that do not begin alike."""

import pytest

from airflow_provider_dm.engine.shard.lock import Action
from airflow_provider_dm.launch.ddl_locks import stored_locks, unlock
from tests.integration.merge.conftest import PESSIMISTIC, PLAIN, Shops
from tests.integration.merge.sharding import columns, locks, waiting_for

C = "ADD COLUMN c int NOT NULL DEFAULT 7"


def differing(shops: Shops) -> list[str]:
    return [one.message for one in shops.prechecked().failures if one.name == "shard_tables"]


@pytest.mark.parametrize("shards", [("a:o_1",), ("a:o_1", "a:o_2")], ids=["one shard", "two shards"])
def test_ddl_waits_for_a_source_that_has_not_begun(pair: Shops, shards: tuple[str, ...]) -> None:
    pair.create(PLAIN, *shards, "b:o_9")
    pair.write("a", "INSERT INTO o_1 VALUES (1, 'a')")
    pair.write("b", "INSERT INTO o_9 VALUES (9, 'b')")
    pair.load(["a"])
    for shard in shards:
        pair.write("a", f"ALTER TABLE {shard[2:]} {C}")
    pair.write("a", "INSERT INTO o_1 VALUES (2, 'a', 2)")
    (result,) = pair.sync("a", only=True)
    assert (waiting_for(result), columns(pair)) == (["for b"], ["id", "v"])
    ((lock, _),) = stored_locks(pair.store)
    assert (lock.synced, lock.unsynced) == (["a"], ["b"])

    assert differing(pair) == [], "it begins like those whose DDL is not executed yet"
    pair.load(["b"])
    pair.write("b", "INSERT INTO o_9 VALUES (10, 'b')", f"ALTER TABLE o_9 {C}", "INSERT INTO o_9 VALUES (11, 'b', 3)")
    pair.sync("b", "a", "b")
    assert pair.compared().equal, pair.compared()
    assert locks(pair) == []


def test_a_source_that_begins_later_has_to_be_as_the_others_are(pair: Shops) -> None:
    pair.create(PLAIN, "a:o_1", "b:o_9")
    pair.load(["a"])
    pair.write("a", f"ALTER TABLE o_1 {C}")
    pair.sync("a", only=True)
    ((lock, _),) = stored_locks(pair.store)
    unlock(pair.store, lock.id, owner=None, action=Action.EXEC, force=True)
    pair.sync("a", only=True)
    assert columns(pair) == ["id", "v", "c"]
    assert len(differing(pair)) == 1
    pair.write("b", f"ALTER TABLE o_9 {C}")  # as the error says
    assert differing(pair) == []
    pair.load(["b"])
    pair.write("b", "ALTER TABLE o_9 ADD d int", "INSERT INTO o_9 VALUES (9, 'b', 1, 2)")
    pair.write("a", "ALTER TABLE o_1 ADD d int")
    pair.sync("b", "a", "b", "a")
    assert pair.compared().equal, pair.compared()
    assert locks(pair) == []


def test_shards_that_differ_and_begin_nevertheless(one_pair: Shops) -> None:
    """DDL that one of them has made already waits for it, and a user resolves it by the remedy of DM-7402."""
    one_pair.task = {**PESSIMISTIC, "ignore-checking-items": ["shard_tables"]}
    one_pair.create(PLAIN, "b:o_9")
    one_pair.create("id int NOT NULL PRIMARY KEY, v varchar(40)", "a:o_1")
    assert len(differing(one_pair)) == 0, "ignored"
    one_pair.load()
    one_pair.write("b", "INSERT INTO o_9 VALUES (9, 'b')", "ALTER TABLE o_9 MODIFY v varchar(40)")
    one_pair.write("b", f"INSERT INTO o_9 VALUES (10, '{'b' * 30}')")
    one_pair.write("a", "INSERT INTO o_1 VALUES (1, 'a')")
    results = one_pair.sync("a", "b")
    assert waiting_for(results[1]) == ["for a"]
    ((lock, _),) = stored_locks(one_pair.store)
    unlock(one_pair.store, lock.id, owner=None, action=Action.EXEC, force=True)
    assert [one.unresolved_groups for one in one_pair.sync("b", "a")] == [(), ()]
    assert one_pair.compared().equal, one_pair.compared()
