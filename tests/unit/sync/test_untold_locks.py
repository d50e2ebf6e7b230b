"""A metadata DB that does not answer when a source goes on behind a DDL is told later."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_dm.engine.errors import InvariantBroken
from airflow_provider_dm.engine.meta.migrate import migrate
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.shard.group import Group
from airflow_provider_dm.engine.shard.lock import Info, reported
from airflow_provider_dm.engine.sync.shard_ddl.shards import Shards

TARGET = TableName("shop", "orders")


def test_a_lock_that_was_not_told_is_told_with_the_next_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/meta.db"
    migrate(url)
    source: Any = SimpleNamespace(fence=SimpleNamespace(ref=SimpleNamespace(task="task", source="one")))
    with MetaStore.open(url) as store:
        lock = reported(None, "task", TARGET, 0, Info("one", ("ADD c int",)), {"one"})
        store.change_ddl_lock("task", lock.id, 0, lambda _found: lock.to_json())
        shards = Shards(source, store, groups={TARGET: Group(TARGET, resolved=1)})

        def is_away(*_arguments: object) -> None:
            raise InvariantBroken("the metadata DB answers", "it does not")

        with monkeypatch.context() as patched:
            patched.setattr(store, "change_ddl_lock", is_away)
            shards.locks.report_passed(TARGET, 0)
            shards.locks.report_pending()
        assert store.ddl_locks("task")

        shards.locks.report_pending()
        assert store.ddl_locks("task") == []
