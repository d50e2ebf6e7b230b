"""What people do on the DM page is refused where its object is another one than they saw, or of a DAG that they may not
read."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import HTTPException

from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.meta.migrate import migrate
from airflow_provider_dm.engine.meta.model import Holder, Operator, OperatorKind, RelayStatus, Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.errors import PurgeRefused
from airflow_provider_dm.launch.errors import ControlNotObeyed, TaskUnknown
from airflow_provider_dm.links.task_instance import TaskInstanceRef
from airflow_provider_dm.plugins import access
from airflow_provider_dm.plugins.actions import (
    StageRequest,
    StatementDecision,
    decide_statement,
    purge_preview,
    set_stage,
)
from airflow_provider_dm.plugins.app import Metadata
from airflow_provider_dm.plugins.documents import page_document

TASK, SOURCE = "shop", "mysql-01"
AT = Location("mysql-bin.000002", 900)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MetaStore]:
    url = f"sqlite:///{tmp_path / 'meta.db'}"
    migrate(url)
    with MetaStore.open(url) as store:
        store.put_subtask(TASK, SOURCE, unit=Unit.SYNC, stage=Stage.RUNNING, needed=AT, applied=AT)
        store.put_subtask_error(TASK, SOURCE, {"ErrCode": "DM-6032"}, at=AT)
        yield store


def order(place: str, kind: str = "skip", sql: str = "") -> StatementDecision:
    return StatementDecision.model_validate({"task": TASK, "source": SOURCE, "place": place, "kind": kind, "sql": sql})


def test_a_wish_about_what_is_not_known_is_refused(store: MetaStore) -> None:
    with pytest.raises(TaskUnknown):
        set_stage(store, StageRequest(task="another"), Stage.PAUSED)
    with pytest.raises(TaskUnknown, match="s9"):
        set_stage(store, StageRequest(task=TASK, source="s9"), Stage.PAUSED)


def test_a_wish_that_no_run_can_fulfil_says_so(store: MetaStore) -> None:
    with pytest.raises(ControlNotObeyed, match="it has no run that could resume"):
        set_stage(store, StageRequest(task=TASK), Stage.RUNNING)


def test_a_statement_is_skipped_or_replaced_at_the_place_that_was_shown(store: MetaStore) -> None:
    assert "No run of the task is at work" in decide_statement(store, order(str(AT)))
    assert "No run of the task is at work" in decide_statement(store, order(str(AT), "replace", "DROP TABLE a.b"))
    (found,) = store.operators(TASK, SOURCE)
    assert isinstance(found, Operator)
    assert (found.kind, found.place, found.statements) == (OperatorKind.REPLACE, AT, ("DROP TABLE a.b",))


def test_a_statement_is_skipped_where_another_server_has_taken_over(store: MetaStore) -> None:
    """What is shown names no sub-directory, and the task has applied nothing of the new one yet."""
    there = Location("mysql-bin.000001", 4, suffix=2, server_uuid="other")
    store.put_subtask_error(TASK, SOURCE, {"ErrCode": "DM-6032"}, at=there)
    assert "is stored" in decide_statement(store, order(str(there)))
    assert [one.place for one in store.operators(TASK, SOURCE)] == [there]


def test_a_statement_that_the_source_has_passed_is_refused(store: MetaStore) -> None:
    with pytest.raises(InvalidInput, match="has passed it"):
        decide_statement(store, order("mysql-bin.000002:400"))
    with pytest.raises(InvalidInput, match=r"Nothing was stored\. Give DDL alone"):
        decide_statement(store, order(str(AT), "replace", "DELETE FROM a.b"))
    assert store.operators(TASK, SOURCE) == []


def test_a_relay_log_of_another_machine_is_not_purged_from_here(store: MetaStore) -> None:
    store.put_relay_status(RelayStatus(SOURCE, Stage.RUNNING, host="relay-1", directory="/var/lib/relay"))
    with pytest.raises(PurgeRefused, match=rf"is on relay-1.*{socket.gethostname()}.*Start the relay, or run"):
        purge_preview(store, SOURCE)


def test_a_task_of_a_dag_that_a_user_may_not_read_is_hidden(store: MetaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The auth manager is asked once a minute, not at each poll."""
    asked: list[tuple[set[str], str | None]] = []

    def readable(*, dag_ids: set[str], user: SimpleNamespace, team_name: str | None) -> set[str]:
        asked.append((dag_ids, team_name))
        return dag_ids & user.dags

    monkeypatch.setattr(access, "get_auth_manager", lambda: SimpleNamespace(filter_authorized_dag_ids=readable))
    monkeypatch.setattr(access.DagModel, "get_dag_id_to_team_name_mapping", lambda _: {"paid": "finance"})
    monkeypatch.setattr(access, "_answers", {})
    metadata = Metadata()
    monkeypatch.setattr(metadata, "store", lambda: store)
    for task, dag in {"paid": "paid", "free": "free", "by_hand": None}.items():
        identity = TaskInstanceRef(dag, "r" * 250, "t" * 250).identity if dag else "dmctl:host:1"
        store.put_subtask(task, SOURCE, unit=Unit.SYNC, stage=Stage.RUNNING, needed=AT, applied=AT)
        store.start_run(task, task=task, app="incremental_sync", holder=Holder(identity, "1", "h"))

    def seen(user: object) -> set[str]:
        page = page_document(store, None, partial(access.hidden_tasks, user))  # type: ignore[arg-type]
        return {one["taskName"] for one in page["tasks"]}

    vic: Any = SimpleNamespace(get_id=lambda: "vic", dags={"free"})
    olga: Any = SimpleNamespace(get_id=lambda: "olga", dags={"free", "paid"})
    assert seen(vic) == seen(vic) == {TASK, "free", "by_hand"}
    assert sorted(asked, key=str) == [({"free"}, None), ({"paid"}, "finance")]
    assert seen(olga) == {TASK, "free", "by_hand", "paid"}
    assert metadata.store_for(olga, "paid") is metadata.store_for(vic, "free") is store
    with pytest.raises(HTTPException, match="may not read the DAG of the task paid"):
        metadata.store_for(vic, "paid")
