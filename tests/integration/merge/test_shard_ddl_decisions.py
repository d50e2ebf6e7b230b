"""DDL that the shards of a merged table do not make alike, or the target does not take, and what people decide."""

from __future__ import annotations

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
from tests.integration.merge.conftest import Shops
from tests.integration.merge.sharding import PESSIMISTIC, PLAIN, columns, keys, locks, waiting_for


def test_different_ddl_is_refused_with_both_sides_shown(one_pair: Shops) -> None:
    shops = one_pair
    shops.task = PESSIMISTIC
    shops.create(PLAIN, "a:o_1", "a:o_2", "b:o_3")
    shops.load()
    shops.write("b", "ALTER TABLE o_3 ADD c int")
    shops.write("a", "ALTER TABLE o_1 ADD c bigint")
    shops.sync()
    shops.write("a", "ALTER TABLE o_2 ADD c bigint DEFAULT 5")
    with pytest.raises(ShardDdlOutOfSequence, match=r"(?s)o_2 has executed: .*DEFAULT 5.*o_1 has executed.*bigint"):
        shops.sync("a")
    assert columns(shops) == ["id", "v"]

    # A person takes it for the same; the rows of that shard fit as well.
    shops.write("a", "INSERT INTO o_2 VALUES (2, 'a', 3)")
    shops.store.put_operators([Operator("test", "a", OperatorKind.SKIP, SqlPattern("DEFAULT 5"))])
    with pytest.raises(ShardDdlConflict):
        shops.sync("a")
    ((lock, _),) = stored_locks(shops.store)
    unlock(shops.store, lock.id, owner="a", action=Action.EXEC, force=False)
    shops.sync("a", "b")
    assert shops.rows() == [(2, "a", 3)]


def test_the_others_statement_counts_as_that_of_a_shard(one_source: Shops) -> None:
    """DM-6051 names `binlog replace` as well."""
    shops = one_source
    shops.task = PESSIMISTIC
    shops.create(PLAIN, "a:o_1", "a:o_2")
    shops.load()
    shops.write("a", "ALTER TABLE o_1 ADD c bigint", "INSERT INTO o_1 VALUES (1, 'a', 1)")
    shops.write("a", "ALTER TABLE o_2 ADD c bigint DEFAULT 5", "INSERT INTO o_2 (id) VALUES (2)")
    with pytest.raises(ShardDdlOutOfSequence):
        shops.sync()
    instead = (f"ALTER TABLE {shops.schema}.o_2 ADD c bigint",)
    shops.store.put_operators([Operator("test", "a", OperatorKind.REPLACE, SqlPattern("DEFAULT 5"), instead)])
    shops.sync()
    assert shops.rows() == [(1, "a", 1), (2, None, 5)]


def test_a_person_decides_a_conflict(one_pair: Shops) -> None:
    shops = one_pair
    shops.task = PESSIMISTIC
    shops.create(PLAIN, "a:o_1", "b:o_3")
    shops.load()
    shops.write("a", "ALTER TABLE o_1 ADD c int", "INSERT INTO o_1 VALUES (1, 'a', 1)")
    shops.write("b", "ALTER TABLE o_3 ADD c bigint", "INSERT INTO o_3 VALUES (2, 'b', 2)")
    shops.sync("a")
    with pytest.raises(ShardDdlConflict):
        shops.sync("b")
    ((lock, _),) = stored_locks(shops.store)
    assert lock_json(lock, 0)["conflict"].keys() == {"a", "b"}
    unlock(shops.store, lock.id, owner="b", action=Action.EXEC, force=False)
    shops.sync("a", "b", "a")
    assert locks(shops) == []
    assert shops.rows() == [(1, "a", 1), (2, "b", 2)]
    assert shops.target.sql("SHOW COLUMNS FROM o LIKE 'c'", database=shops.schema)[0][1].startswith("bigint")


def test_a_person_has_made_the_change(one_pair: Shops, monkeypatch: pytest.MonkeyPatch) -> None:
    shops, ended = one_pair, []

    def end(endpoint: Endpoint, fence: Fence) -> None:
        ended.append(fence.ref.lane_key[-1])
        end_earlier_ddl(endpoint, fence)

    monkeypatch.setattr(source_shards, "end_earlier_ddl", end)
    shops.task = PESSIMISTIC
    shops.create(PLAIN, "a:o_1", "b:o_3")
    shops.load()
    shops.write("a", "ALTER TABLE o_1 ADD c int")
    shops.sync()
    lock = f"test-`{shops.schema}`.`o`"
    with pytest.raises(LockRefuses, match="b have not reported"):
        unlock(shops.store, lock, owner=None, action=Action.SKIP, force=False)
    shops.write("b", "ALTER TABLE o_3 ADD c int")
    unlock(shops.store, lock, owner=None, action=Action.SKIP, force=True)
    shops.target.sql("ALTER TABLE o ADD c bigint", database=shops.schema)
    shops.write("a", "INSERT INTO o_1 VALUES (1, 'a', 1)")
    shops.sync("a", "a")
    assert ended == [ddl_lane(TableName(shops.schema, "o"))], "an earlier owner may still be altering the table"
    assert shops.rows() == [(1, "a", 1)]


def test_ddl_that_the_target_refuses_waits_for_its_cure(one_source: Shops) -> None:
    shops = one_source
    shops.task = PESSIMISTIC
    shops.create(PLAIN, "a:o_1", "a:o_2")
    shops.load()
    shops.write("a", "INSERT INTO o_1 VALUES (1, 'same')", "INSERT INTO o_2 VALUES (2, 'same')")
    shops.write("a", *(f"ALTER TABLE {name} ADD UNIQUE KEY u (v)" for name in ("o_1", "o_2")))
    for _ in range(2):
        with pytest.raises(ShardDdlRefused, match="1062"):
            shops.sync()
    shops.target.sql("ALTER TABLE o ADD KEY u (v)", database=shops.schema)
    ((lock, _),) = stored_locks(shops.store)
    unlock(shops.store, lock.id, owner=None, action=Action.SKIP, force=False)
    shops.sync()
    assert shops.compared().equal, shops.compared()


@pytest.mark.parametrize(
    ("ddl", "why"),
    [
        ("ADD c timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP", "its own current time"),
        ("DROP PRIMARY KEY, ADD n int NOT NULL AUTO_INCREMENT PRIMARY KEY", "numbers"),
    ],
)
def test_what_no_two_shards_make_alike_stops_in_front_of_it(one_source: Shops, ddl: str, why: str) -> None:
    one_source.task = PESSIMISTIC
    one_source.create(PLAIN, "a:o_1", "a:o_2")
    one_source.load()
    one_source.write("a", f"ALTER TABLE o_1 {ddl}")
    with pytest.raises(NotSupportedYet, match=why):
        one_source.sync()
    assert one_source.meta_rows("dm_shard_member") == 0


def test_a_later_different_ddl_of_a_source_that_was_not_waited_for_is_not_swallowed(one_pair: Shops) -> None:
    """A decision without `b` is about the text that was decided: another one of `b` stops, and has a remedy."""
    shops = one_pair
    shops.task = PESSIMISTIC
    shops.create(PLAIN, "a:o_1", "b:o_3")
    shops.load()
    shops.write("a", "ALTER TABLE o_1 ADD c int")
    shops.sync("a", "b")
    lock = f"test-`{shops.schema}`.`o`"
    unlock(shops.store, lock, owner=None, action=Action.EXEC, force=True)
    shops.sync("a")
    assert columns(shops) == ["id", "v", "c"]

    shops.write("b", "INSERT INTO o_3 VALUES (3, 'b')", "ALTER TABLE o_3 ADD KEY k (v)")
    shops.write("a", "ALTER TABLE o_1 ADD KEY k (v)", "INSERT INTO o_1 VALUES (1, 'a', 1)")
    shops.write("b", "INSERT INTO o_3 VALUES (4, 'b')")
    shops.sync("a")
    for _ in range(2):
        with pytest.raises(
            ShardDdlRunWithoutSource, match=r"number 0 .*without b: .*`c`.*b has executed .*ADD KEY `k`"
        ):
            shops.sync("b")
    assert keys(shops) == set()
    ((number_0, _), _) = stored_locks(shops.store)
    assert (number_0.phase, lock_json(number_0, 0)["conflict"].keys()) == (Phase.DIFFERS, {"a", "b"})
    assert isinstance(ddl_state_in(shops.store, "test", lock), Broken)

    # The remedies of the error: the DDL of `b` counts as the decided one, and `a` need not wait for what b has made.
    with pytest.raises(LockRefuses, match="has been executed"):
        unlock(shops.store, lock, owner=None, action=Action.EXEC, force=True)
    unlock(shops.store, lock, owner=None, action=Action.SKIP, force=False)
    shops.sync("b")
    unlock(shops.store, lock, owner=None, action=Action.EXEC, force=True)
    shops.sync("a", "b")
    assert keys(shops) == {"k"}
    assert shops.rows() == [(1, "a", 1), (3, "b", None), (4, "b", None)]


def test_a_default_stays_until_the_rows_of_every_source_have_the_column(one_pair: Shops) -> None:
    """Both DDL are decided without `b`, whose rows take what the target has for a column that they do not name."""
    shops = one_pair
    shops.task = PESSIMISTIC
    shops.create(PLAIN, "a:o_1", "b:o_3")
    shops.load()
    ddls = ("ADD c int NOT NULL DEFAULT 7", "MODIFY c bigint NULL")
    for ddl in ddls:
        shops.write("a", f"ALTER TABLE o_1 {ddl}")
        shops.sync("a")
        ((lock, _),) = [one for one in stored_locks(shops.store) if one[0].phase is not Phase.SKIP]
        unlock(shops.store, lock.id, owner=None, action=Action.EXEC, force=True)
        shops.sync("a")
    why = f"for {shops.schema}.o_3 of b, whose rows lack the column c that it alters"
    assert waiting_for(shops.sync("a")[0]) == [why]
    shops.write("b", "INSERT INTO o_3 VALUES (3, 'b')")
    shops.sync("b", "a")
    for ddl in ddls:
        shops.write("b", f"ALTER TABLE o_3 {ddl}")
        shops.sync("b", "a")
    shops.sync("b", "a")
    assert (shops.rows(), locks(shops)) == ([(3, "b", 7)], [])
    assert shops.compared().equal, shops.compared()


def test_a_decision_does_not_cover_ddl_that_is_reported_behind_it(one_pair: Shops) -> None:
    """`b` reports other DDL between the decision and its execution, and a metadata DB that was lost changes nothing."""
    shops = one_pair
    shops.task = PESSIMISTIC
    shops.create(PLAIN, "a:o_1", "b:o_3")
    shops.load()
    shops.write("a", "ALTER TABLE o_1 ADD c int")
    shops.write("b", "ALTER TABLE o_3 ADD d int", "INSERT INTO o_3 VALUES (3, 'b', 3)")
    shops.sync("a")
    ((lock, _),) = stored_locks(shops.store)
    unlock(shops.store, lock.id, owner=None, action=Action.EXEC, force=True)
    shops.sync("b")
    shops.sync("a")
    assert columns(shops) == ["id", "v", "c"]
    shops.store.change_ddl_lock("test", lock.id, 0, lambda _found: None)
    with pytest.raises(ShardDdlRunWithoutSource, match="`d`"):
        shops.sync("b")
    shops.target.sql("ALTER TABLE o ADD d int", database=shops.schema)
    unlock(shops.store, lock.id, owner=None, action=Action.SKIP, force=False)
    shops.sync("b", "a")
    assert shops.rows() == [(3, "b", None, 3)]
    assert shops.meta_rows("dm_shard_member") == 0


def test_a_row_that_waits_in_the_old_form_is_waited_for_by_a_source_that_was_not(one_pair: Shops) -> None:
    """Its image has the form in front of a DDL that was run without its source."""
    shops = one_pair
    shops.task = PESSIMISTIC
    shops.create(PLAIN, "a:o_1", "b:o_9")
    shops.write("a", "INSERT INTO o_1 VALUES (1, 'a')")
    shops.load()
    shops.sync()
    shops.write("a", "ALTER TABLE o_1 ADD c int NOT NULL DEFAULT 7")
    shops.sync("a")
    ((lock, _),) = stored_locks(shops.store)
    unlock(shops.store, lock.id, owner=None, action=Action.EXEC, force=True)
    shops.sync("a")
    shops.write("a", "DELETE FROM o_1")
    shops.write("b", "INSERT INTO o_9 VALUES (1, 'moved')", "ALTER TABLE o_9 ADD c int NOT NULL DEFAULT 7")
    shops.write("b", "UPDATE o_9 SET c = 8")
    (result,) = shops.sync("b")
    assert waiting_for(result) == [f"for 1 rows of {shops.schema}.o that wait for their places"]
    shops.sync("a", "b")
    assert shops.compared().equal, shops.compared()
    assert locks(shops) == []
