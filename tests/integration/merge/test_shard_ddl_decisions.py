"""DDL that the shards of a merged table do not make alike, or the target does not take, and what users decide."""

import pytest

from airflow_provider_dm.engine.downstream.ddl_execution import end_earlier_ddl
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.downstream.shard_groups import ddl_lane
from airflow_provider_dm.engine.errors import NotSupportedYet
from airflow_provider_dm.engine.meta.records import Operator, OperatorKind, SqlPattern
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.shard.errors import (
    LockRefuses,
    ShardDdlConflict,
    ShardDdlOutOfSequence,
    ShardDdlRunWithoutSource,
)
from airflow_provider_dm.engine.shard.lock import Action, Phase
from airflow_provider_dm.engine.sync.errors import ShardDdlRefused
from airflow_provider_dm.engine.sync.shard_ddl import source_shards
from airflow_provider_dm.launch.awaited import Broken
from airflow_provider_dm.launch.ddl_locks import lock_json, stored_locks, unlock
from airflow_provider_dm.launch.ddl_state import ddl_state_in
from tests.integration.merge.conftest import PLAIN, Shops
from tests.integration.merge.sharding import columns, keys, locks, waiting_for


def test_different_ddl_is_refused_with_both_sides_shown(pair: Shops) -> None:
    pair.create(PLAIN, "a:o_1", "a:o_2", "b:o_3")
    pair.load()
    pair.write("b", "ALTER TABLE o_3 ADD c int")
    pair.write("a", "ALTER TABLE o_1 ADD c bigint")
    pair.sync()
    pair.write("a", "ALTER TABLE o_2 ADD c bigint DEFAULT 5")
    pair.stops(ShardDdlOutOfSequence, "a", match=r"(?s)o_2 has executed: .*DEFAULT 5.*o_1 has executed.*bigint")
    assert columns(pair) == ["id", "v"]

    # A user takes it for the same; the rows of that shard fit as well.
    pair.write("a", "INSERT INTO o_2 VALUES (2, 'a', 3)")
    pair.store.put_operators([Operator("test", "a", OperatorKind.SKIP, SqlPattern("DEFAULT 5"))])
    pair.stops(ShardDdlConflict, "a")
    ((lock, _),) = stored_locks(pair.store)
    unlock(pair.store, lock.id, owner="a", action=Action.EXEC, force=False)
    pair.sync("a", "b")
    assert pair.rows() == [(2, "a", 3)]


def test_the_statement_of_another_shard_replaces_that_of_a_shard(single: Shops) -> None:
    """DM-6051 names `binlog replace` as well."""
    single.create(PLAIN, "a:o_1", "a:o_2")
    single.load()
    single.write("a", "ALTER TABLE o_1 ADD c bigint", "INSERT INTO o_1 VALUES (1, 'a', 1)")
    single.write("a", "ALTER TABLE o_2 ADD c bigint DEFAULT 5", "INSERT INTO o_2 (id) VALUES (2)")
    single.stops(ShardDdlOutOfSequence)
    instead = (f"ALTER TABLE {single.schema}.o_2 ADD c bigint",)
    single.store.put_operators([Operator("test", "a", OperatorKind.REPLACE, SqlPattern("DEFAULT 5"), instead)])
    single.sync()
    assert single.rows() == [(1, "a", 1), (2, None, 5)]


def test_a_user_decides_a_conflict(pair: Shops) -> None:
    pair.create(PLAIN, "a:o_1", "b:o_3")
    pair.load()
    pair.write("a", "ALTER TABLE o_1 ADD c int", "INSERT INTO o_1 VALUES (1, 'a', 1)")
    pair.write("b", "ALTER TABLE o_3 ADD c bigint", "INSERT INTO o_3 VALUES (2, 'b', 2)")
    pair.sync("a")
    pair.stops(ShardDdlConflict, "b")
    ((lock, _),) = stored_locks(pair.store)
    assert lock_json(lock, 0)["conflict"].keys() == {"a", "b"}
    unlock(pair.store, lock.id, owner="b", action=Action.EXEC, force=False)
    pair.sync("a", "b", "a")
    assert locks(pair) == []
    assert pair.rows() == [(1, "a", 1), (2, "b", 2)]
    assert pair.target.sql("SHOW COLUMNS FROM o LIKE 'c'", database=pair.schema)[0][1].startswith("bigint")


def test_a_user_has_made_the_change(pair: Shops, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = list[str]()

    def end(endpoint: Endpoint, fence: Fence) -> None:
        ended.append(fence.ref.lane_key[-1])
        end_earlier_ddl(endpoint, fence)

    monkeypatch.setattr(source_shards, "end_earlier_ddl", end)
    pair.create(PLAIN, "a:o_1", "b:o_3")
    pair.load()
    pair.write("a", "ALTER TABLE o_1 ADD c int")
    pair.sync()
    lock = f"test-`{pair.schema}`.`o`"
    with pytest.raises(LockRefuses, match="b have not reported"):
        unlock(pair.store, lock, owner=None, action=Action.SKIP, force=False)
    pair.write("b", "ALTER TABLE o_3 ADD c int")
    unlock(pair.store, lock, owner=None, action=Action.SKIP, force=True)
    pair.target.sql("ALTER TABLE o ADD c bigint", database=pair.schema)
    pair.write("a", "INSERT INTO o_1 VALUES (1, 'a', 1)")
    pair.sync("a", "a")
    assert ended == [ddl_lane(TableName(pair.schema, "o"))], "an earlier owner may still be altering the table"
    assert pair.rows() == [(1, "a", 1)]


def test_ddl_that_the_target_refuses_waits_for_a_correction_of_the_table(single: Shops) -> None:
    single.create(PLAIN, "a:o_1", "a:o_2")
    single.load()
    single.write("a", "INSERT INTO o_1 VALUES (1, 'same')", "INSERT INTO o_2 VALUES (2, 'same')")
    single.write("a", *(f"ALTER TABLE {name} ADD UNIQUE KEY u (v)" for name in ("o_1", "o_2")))
    for _ in range(2):
        single.stops(ShardDdlRefused, match="1062")
    single.target.sql("ALTER TABLE o ADD KEY u (v)", database=single.schema)
    ((lock, _),) = stored_locks(single.store)
    unlock(single.store, lock.id, owner=None, action=Action.SKIP, force=False)
    single.sync()
    assert single.compared().equal, single.compared()


@pytest.mark.parametrize(
    ("ddl", "why"),
    [
        ("ADD c timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP", "its own current time"),
        ("DROP PRIMARY KEY, ADD n int NOT NULL AUTO_INCREMENT PRIMARY KEY", "numbers"),
    ],
)
def test_ddl_with_different_results_per_shard_is_not_followed(single: Shops, ddl: str, why: str) -> None:
    single.create(PLAIN, "a:o_1", "a:o_2")
    single.load()
    single.write("a", f"ALTER TABLE o_1 {ddl}")
    single.stops(NotSupportedYet, match=why)
    assert single.meta_rows("dm_shard_member") == 0


def test_a_later_different_ddl_of_a_skipped_source_is_not_lost(pair: Shops) -> None:
    """A decision without `b` is about the text that was decided: another one of `b` stops, and has a remedy."""
    pair.create(PLAIN, "a:o_1", "b:o_3")
    pair.load()
    pair.write("a", "ALTER TABLE o_1 ADD c int")
    pair.sync("a", "b")
    lock = f"test-`{pair.schema}`.`o`"
    unlock(pair.store, lock, owner=None, action=Action.EXEC, force=True)
    pair.sync("a")
    assert columns(pair) == ["id", "v", "c"]

    pair.write("b", "INSERT INTO o_3 VALUES (3, 'b')", "ALTER TABLE o_3 ADD KEY k (v)")
    pair.write("a", "ALTER TABLE o_1 ADD KEY k (v)", "INSERT INTO o_1 VALUES (1, 'a', 1)")
    pair.write("b", "INSERT INTO o_3 VALUES (4, 'b')")
    pair.sync("a")
    for _ in range(2):
        pair.stops(ShardDdlRunWithoutSource, "b", match=r"number 0 .*without b: .*`c`.*b has executed .*ADD KEY `k`")
    assert keys(pair) == set()
    ((number_0, _), _) = stored_locks(pair.store)
    assert (number_0.phase, lock_json(number_0, 0)["conflict"].keys()) == (Phase.DIFFERS, {"a", "b"})
    assert isinstance(ddl_state_in(pair.store, "test", lock), Broken)

    # The remedies of the error: the DDL of `b` counts as the decided one, and `a` need not wait for what b has made.
    with pytest.raises(LockRefuses, match="has been executed"):
        unlock(pair.store, lock, owner=None, action=Action.EXEC, force=True)
    unlock(pair.store, lock, owner=None, action=Action.SKIP, force=False)
    pair.sync("b")
    unlock(pair.store, lock, owner=None, action=Action.EXEC, force=True)
    pair.sync("a", "b")
    assert keys(pair) == {"k"}
    assert pair.rows() == [(1, "a", 1), (3, "b", None), (4, "b", None)]


def test_a_default_stays_until_the_rows_of_every_source_have_the_column(pair: Shops) -> None:
    """Both DDL are decided without `b`, whose rows take what the target has for a column that they do not name."""
    pair.create(PLAIN, "a:o_1", "b:o_3")
    pair.load()
    ddls = ("ADD c int NOT NULL DEFAULT 7", "MODIFY c bigint NULL")
    for ddl in ddls:
        pair.write("a", f"ALTER TABLE o_1 {ddl}")
        pair.sync("a")
        ((lock, _),) = [one for one in stored_locks(pair.store) if one[0].phase is not Phase.SKIP]
        unlock(pair.store, lock.id, owner=None, action=Action.EXEC, force=True)
        pair.sync("a")
    why = f"for {pair.schema}.o_3 of b, whose rows lack the column c that it alters"
    assert waiting_for(pair.sync("a")[0]) == [why]
    pair.write("b", "INSERT INTO o_3 VALUES (3, 'b')")
    pair.sync("b", "a")
    for ddl in ddls:
        pair.write("b", f"ALTER TABLE o_3 {ddl}")
        pair.sync("b", "a")
    pair.sync("b", "a")
    assert (pair.rows(), locks(pair)) == ([(3, "b", 7)], [])
    assert pair.compared().equal, pair.compared()


def test_names_are_given_to_other_columns_after_all_rows_have_lost_them(pair: Shops) -> None:
    """The DDL is decided without `b`, whose rows fit the table before and after it, with other meanings."""
    pair.create("id int NOT NULL PRIMARY KEY, x int, y int", "a:o_1", "b:o_3")
    pair.load()
    swap = "CHANGE x y int, CHANGE y x int"
    pair.write("a", f"ALTER TABLE o_1 {swap}", "INSERT INTO o_1 (id, x, y) VALUES (1, 10, 20)")
    pair.sync("a")
    unlock(pair.store, f"test-`{pair.schema}`.`o`", owner=None, action=Action.EXEC, force=True)
    why = f"for {pair.schema}.o_3 of b, whose rows have another column x than the one that it adds"
    assert waiting_for(pair.sync("a")[0]) == [why]
    pair.write("b", "INSERT INTO o_3 (id, x, y) VALUES (3, 30, 40)", f"ALTER TABLE o_3 {swap}")
    pair.sync("b", "a", "b", "a")
    assert (sorted(pair.target.sql("SELECT id, x, y FROM o", database=pair.schema)), locks(pair)) == (
        [(1, 10, 20), (3, 40, 30)],
        [],
    )


def test_a_column_that_the_target_has_already_is_no_other_column(pair: Shops) -> None:
    """`a` has executed the DDL while it was the only source, before `b` created a shard without the column."""
    pair.create(PLAIN, "a:o_1", "b:q")
    pair.load()
    pair.write("b", "CREATE TABLE o_3 LIKE q")
    pair.write("a", "ALTER TABLE o_1 ADD c int NOT NULL DEFAULT 7")
    pair.sync("a", "b")
    pair.write("b", "ALTER TABLE o_3 ADD c int NOT NULL DEFAULT 7", "INSERT INTO o_3 VALUES (3, 'b', 3)")
    pair.sync("b")
    unlock(pair.store, f"test-`{pair.schema}`.`o`", owner=None, action=Action.EXEC, force=True)
    pair.sync("b")
    assert pair.rows() == [(3, "b", 3)]


def test_a_decision_does_not_cover_ddl_that_is_reported_later(pair: Shops) -> None:
    """`b` reports other DDL between the decision and its execution, and a metadata DB that was lost changes nothing."""
    pair.create(PLAIN, "a:o_1", "b:o_3")
    pair.load()
    pair.write("a", "ALTER TABLE o_1 ADD c int")
    pair.write("b", "ALTER TABLE o_3 ADD d int", "INSERT INTO o_3 VALUES (3, 'b', 3)")
    pair.sync("a")
    ((lock, _),) = stored_locks(pair.store)
    unlock(pair.store, lock.id, owner=None, action=Action.EXEC, force=True)
    pair.sync("b")
    pair.sync("a")
    assert columns(pair) == ["id", "v", "c"]
    pair.store.change_ddl_lock("test", lock.id, 0, lambda _found: None)
    pair.stops(ShardDdlRunWithoutSource, "b", match="`d`")
    pair.target.sql("ALTER TABLE o ADD d int", database=pair.schema)
    unlock(pair.store, lock.id, owner=None, action=Action.SKIP, force=False)
    pair.sync("b", "a")
    assert pair.rows() == [(3, "b", None, 3)]
    assert pair.meta_rows("dm_shard_member") == 0


def test_a_ddl_waits_for_contested_rows_of_a_skipped_source(pair: Shops) -> None:
    """Its image has the form before a DDL that was run without its source."""
    pair.create(PLAIN, "a:o_1", "b:o_9")
    pair.write("a", "INSERT INTO o_1 VALUES (1, 'a')")
    pair.load()
    pair.sync()
    pair.write("a", "ALTER TABLE o_1 ADD c int NOT NULL DEFAULT 7")
    pair.sync("a")
    ((lock, _),) = stored_locks(pair.store)
    unlock(pair.store, lock.id, owner=None, action=Action.EXEC, force=True)
    pair.sync("a")
    pair.write("a", "DELETE FROM o_1")
    pair.write("b", "INSERT INTO o_9 VALUES (1, 'moved')", "ALTER TABLE o_9 ADD c int NOT NULL DEFAULT 7")
    pair.write("b", "UPDATE o_9 SET c = 8")
    (result,) = pair.sync("b")
    assert waiting_for(result) == [f"for 1 rows of {pair.schema}.o that wait for their places"]
    pair.sync("a", "b")
    assert pair.compared().equal, pair.compared()
    assert locks(pair) == []
