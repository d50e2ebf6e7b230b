"""What users do on the DM page is refused where its object is another one than they saw, or of a DAG that they may not
read."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.core_api.security import get_user
from fastapi.testclient import TestClient
from httpx import Response

from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.meta.records import Operator, OperatorKind, RelayStatus, Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.processes import Holder
from airflow_provider_dm.engine.relay.errors import PurgeRefused
from airflow_provider_dm.engine.shard.lock import DdlInfo, reported
from airflow_provider_dm.launch.errors import ControlNotObeyed, TaskUnknown
from airflow_provider_dm.links.task_instance import TaskInstanceRef
from airflow_provider_dm.plugins import access, app
from airflow_provider_dm.plugins.actions import (
    StageRequest,
    StatementDecision,
    decide_statement,
    purge_preview,
    set_stage,
)
from airflow_provider_dm.plugins.app import Metadata

TASK, SOURCE = "shop", "mysql-01"
AT = Location("mysql-bin.000002", 900)


@pytest.fixture
def store(store: MetaStore) -> MetaStore:
    store.put_subtask(TASK, SOURCE, unit=Unit.SYNC, stage=Stage.RUNNING, needed=AT, applied=AT)
    store.put_subtask_error(TASK, SOURCE, {"ErrCode": "DM-6032"}, at=AT)
    return store


def order(place: str, kind: str = "skip", sql: str = "") -> StatementDecision:
    return StatementDecision.model_validate({"task": TASK, "source": SOURCE, "place": place, "kind": kind, "sql": sql})


def test_a_request_about_an_unknown_task_is_refused(store: MetaStore) -> None:
    with pytest.raises(TaskUnknown):
        set_stage(store, StageRequest(task="another"), Stage.PAUSED)
    with pytest.raises(TaskUnknown, match="s9"):
        set_stage(store, StageRequest(task=TASK, source="s9"), Stage.PAUSED)


def test_a_request_that_no_run_can_fulfil_is_reported(store: MetaStore) -> None:
    with pytest.raises(ControlNotObeyed, match="it has no run that could resume"):
        set_stage(store, StageRequest(task=TASK), Stage.RUNNING)


def test_a_statement_is_skipped_or_replaced_at_the_place_that_was_shown(store: MetaStore) -> None:
    assert "No run of the task is working" in decide_statement(store, order(str(AT)))
    assert "No run of the task is working" in decide_statement(store, order(str(AT), "replace", "DROP TABLE a.b"))
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


ROUTES: dict[str, tuple[str, dict[str, Any]]] = {
    "pause": ("POST", {"task": "{task}"}),
    "resume": ("POST", {"task": "{task}"}),
    "unlock": ("POST", {"lock": "{lock}", "owner": SOURCE, "action": "exec", "force": False, "number": 0}),
    "binlog": ("POST", {"task": "{task}", "source": SOURCE, "place": str(AT), "kind": "skip", "sql": ""}),
    "purge": ("POST", {"source": "{source}", "sub_dir": "u.000001", "file": "bin.000001"}),
    "purge?source={source}": ("GET", {}),
}


class Page:
    """The page of a store, for users of whom the auth manager knows the DAGs that they may read."""

    def __init__(self, store: MetaStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.refused: list[str] = []
        for task, dag in {"paid": "paid", "free": "free", "by_hand": None}.items():
            identity = TaskInstanceRef(dag, "r" * 250, "t" * 250).identity if dag else "dmctl:host:1"
            store.put_subtask(task, f"of_{task}", unit=Unit.SYNC, stage=Stage.RUNNING, needed=AT, applied=AT)
            store.start_run(task, task=task, app="incremental_sync", holder=Holder(identity, "1", "h"))
            store.put_relay_status(RelayStatus(f"of_{task}", Stage.RUNNING, host="relay-1", directory="/relay"))

        def authorized(*, method: str, details: DagDetails, user: SimpleNamespace) -> bool:
            assert method == "GET"
            self.asked.append((str(details.id), details.team_name))
            return details.id in user.dags

        manager = SimpleNamespace(is_authorized_dag=authorized, is_authorized_connection=lambda **_: True)
        monkeypatch.setattr(access, "get_auth_manager", lambda: manager)
        monkeypatch.setattr(access.DagModel, "get_team_name", {"paid": "finance"}.get)
        monkeypatch.setattr(access, "_dag_answers", {})
        monkeypatch.setattr(access, "_record_refusal", lambda _user, request: self.refused.append(request.url.path))
        monkeypatch.setattr(Metadata, "store", lambda _: store)
        monkeypatch.setattr(app, "action_logging", lambda _: lambda: None)
        self.app = app.create_app()
        self.app.dependency_overrides[access.can_read] = lambda: None

    def as_user(self, *dags: str) -> Visitor:
        user = SimpleNamespace(get_id=lambda: ",".join(dags), get_name=lambda: "vic", dags=dags)
        self.app.dependency_overrides[get_user] = lambda: user
        return Visitor(self.app, headers={access.PAGE_HEADER: "1"})


class Visitor(TestClient):
    def tasks(self) -> set[str]:
        return {one["taskName"] for one in self.get("/api/status").json()["tasks"]}

    def act(self, route: str, names: dict[str, str]) -> Response:
        """Send the request of a route, about these names."""
        method, body = ROUTES[route]
        filled = {key: one.format(**names) if isinstance(one, str) else one for key, one in body.items()}
        return self.request(method, f"/api/{route.format(**names)}", json=filled or None)


def test_a_task_of_a_dag_that_a_user_may_not_read_is_hidden(store: MetaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The auth manager is asked once a minute, not at each poll."""
    page = Page(store, monkeypatch)
    other = Holder(TaskInstanceRef("paid", "r", "t").identity, "1", "h")
    store.start_run("verify_free", task="free", app="verify", holder=other)

    vic = page.as_user("free")
    assert vic.tasks() == vic.tasks() == {TASK, "free", "by_hand"}
    assert sorted(page.asked) == [("free", None), ("paid", "finance")]
    (free,) = vic.get("/api/status", params={"task": "free"}).json()["tasks"]
    assert [one["id"] for one in free["runs"]] == ["free"]
    assert page.as_user("free", "paid").tasks() == {TASK, "free", "by_hand", "paid"}


@pytest.mark.parametrize("route", ROUTES)
def test_actions_on_hidden_tasks_are_refused(store: MetaStore, monkeypatch: pytest.MonkeyPatch, route: str) -> None:
    page = Page(store, monkeypatch)
    for task in ("paid", "free"):
        lock = reported(None, task, TableName("t", "o"), 1, DdlInfo(f"of_{task}", ("DDL",)), {"x", f"of_{task}"})
        store.change_ddl_lock(task, lock.id, 1, lambda _, lock=lock: lock.to_json())  # type: ignore[misc]
        names = {"task": task, "source": f"of_{task}", "lock": lock.id}
        assert (page.as_user("free").act(route, names).status_code == 403) is (task == "paid")
        similar = {key: f"{one} " for key, one in names.items()}  # as some databases compare
        assert page.as_user("free").act(route, similar).status_code == (409 if route == "unlock" else 403)
    assert len(page.refused) == (1 if route == "unlock" else 3)
