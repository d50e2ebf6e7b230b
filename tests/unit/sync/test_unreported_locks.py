"""A lock in the metadata DB: missing reports are sent later, and the target is queried again after a report."""

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_dm.engine.downstream.contested_row import RowOwner, contest
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.row_key import row_key
from airflow_provider_dm.engine.downstream.shard_groups import save_group
from airflow_provider_dm.engine.downstream.table_schema import TableSchema, save_table_schemas
from airflow_provider_dm.engine.errors import InvariantBroken
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.shard.group import Group, Member, Resync, ShardDdl
from airflow_provider_dm.engine.shard.lock import DdlInfo, Lock, reported
from airflow_provider_dm.engine.shard.turn import Turn
from airflow_provider_dm.engine.sync.shard_ddl import shard_locks, source_shards
from airflow_provider_dm.engine.sync.shard_ddl.shard_locks import ShardLocks
from airflow_provider_dm.engine.sync.shard_ddl.source_shards import Shards
from tests.unit.sync.loop_world import PLAN
from tests.unit.sync.sqlite_target import META, Database
from tests.unit.sync.target_tables import TARGETS

TARGET = TableName("shop", "orders")
SOURCE: Any = SimpleNamespace(fence=SimpleNamespace(ref=SimpleNamespace(task="task", source="one")))


def test_an_unreported_lock_is_reported_with_the_next_note(store: MetaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = reported(None, "task", TARGET, 0, DdlInfo("one", ("ADD c int",)), {"one"})
    store.change_ddl_lock("task", lock.id, 0, lambda _found: lock.to_json())
    shards = Shards(SOURCE, store, groups={TARGET: Group(TARGET, resolved=1)})

    def is_away(*_arguments: object) -> None:
        raise InvariantBroken("the metadata DB answers", "it does not")

    with monkeypatch.context() as patched:
        patched.setattr(store, "change_ddl_lock", is_away)
        shards.locks.report_passed(TARGET, 0)
        shards.locks.report_pending()
    assert store.ddl_locks("task")

    shards.locks.report_pending()
    assert store.ddl_locks("task") == []


def test_a_ddl_that_another_source_executed_before_the_report_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    (shard, *_), here, done = TARGETS, Location("bin.000001", 100), list[str]()
    no_store: Any = None
    item = ShardDdl(here, here, ("ADD c int",), shard, here, {})
    group = Group(TARGET, 0, (Member(shard.name, shard, (item,)),))
    lock = reported(None, "task", TARGET, 0, DdlInfo("one", item.ddls), {"one"})
    executed = iter([None, {item.ddls}])
    monkeypatch.setattr(ShardLocks, "decided", lambda *_asked: next(executed))
    monkeypatch.setattr(ShardLocks, "report", lambda *_asked: lock)
    monkeypatch.setattr(ShardLocks, "reason_to_wait", lambda *_asked: "")
    for name in ("_execute", "_resolve"):
        monkeypatch.setattr(Shards, name, lambda *_asked, name=name: done.append(name))

    Shards(SOURCE, no_store, groups={TARGET: group}, tables={shard.name: TARGET})._check(group, here, 1)

    assert done == ["_resolve"]


@pytest.mark.parametrize("left", [None, Resync(())])
def test_the_owner_trusts_the_target_and_not_the_lock(left: Resync | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restored metadata DB may have the report of a source whose earlier rows are being applied."""
    no_store: Any = None
    tx, here, shard = Database(lambda: 0.0).connection(), Location("bin.000001", 100), TARGETS[0]
    item = ShardDdl(here, here, ("ADD c int",), shard, here, {"session": [], "statements": []})
    for source in ("one", "two"):
        group = Group(TARGET, 1, (Member(shard.name, shard, (item,)),), left if source == "two" else None)
        save_group(tx, SubtaskRef(META, "task", source), group)
        save_table_schemas(tx, SubtaskRef(META, "task", source), [TableSchema(shard, TARGET)])
    ours: Any = SimpleNamespace(fence=SimpleNamespace(ref=SubtaskRef(META, "task", "one")), target=None)
    monkeypatch.setattr(shard_locks, "target_connection", lambda _target: tx)
    lock = Lock("task", TARGET, 1, "one", tuple(DdlInfo(one, item.ddls) for one in ("one", "two")), ("one", "two"))
    group = Group(TARGET, 1, (Member(shard.name, shard, (item,)),))

    why = ShardLocks(ours, no_store).reason_to_wait(group, Turn.EXECUTE, [shard.name], lock)

    assert why == (f"for {shard.name} of two" if left else "")


@pytest.mark.parametrize("exists", [True, False])
def test_rows_wait_as_long_as_their_shard_exists(monkeypatch: pytest.MonkeyPatch, *, exists: bool) -> None:
    """After its re-sync a shard is ready, and a dropped one is forgotten with its rows."""
    no_store: Any = None
    database, shard = Database(lambda: 0.0), TARGETS[0]
    tx, fence = database.connection(), Fence(SubtaskRef(META, "task", "one"), 1)
    database.sqlite.execute(f"INSERT INTO {META}.dm_subtask (task, source, generation) VALUES ('task', 'one', 1)")
    contest(tx, RowOwner(fence.ref, shard.name), TARGET, [(row_key([b"1"]), (b"1", b"2"))])
    group = Group(TARGET, 1, (Member(shard.name, shard, ()),), Resync(()))
    monkeypatch.setattr(source_shards, "run_transaction", lambda _target, body: body(tx))
    monkeypatch.setattr(ShardLocks, "report_passed", lambda *_report: None)
    ours: Any = SimpleNamespace(fence=fence, target=None)

    Shards(ours, no_store, tables={shard.name: TARGET} if exists else {}, groups={TARGET: group}).finish(group, PLAN)

    assert database.contested() == exists
