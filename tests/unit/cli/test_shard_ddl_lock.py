"""shard-ddl-lock and its old names print what DM's dmctl prints, and pass a user's decision on."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_dm.cli.main import main
from airflow_provider_dm.engine.meta.records import Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.shard.lock import Action, DdlInfo, Lock, continued, reported

ID = "test-`shop`.`o`"
DDL = "ALTER TABLE `shop`.`o` ADD COLUMN `c` int NULL"


@pytest.fixture
def store(store: MetaStore) -> MetaStore:
    lock = reported(None, "test", TableName("shop", "o"), 3, DdlInfo("mysql-1", (DDL,)), {"mysql-1", "mysql-2"})
    store.change_ddl_lock("test", ID, 3, lambda _found: lock.to_json())
    return store


Dmctl = Callable[..., dict[str, Any]]


@pytest.fixture
def dmctl(meta_url: str, store: MetaStore, capsys: pytest.CaptureFixture[str]) -> Dmctl:
    def answer(*words: str) -> dict[str, Any]:
        main([*words, "--meta-url", meta_url])
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return document

    return answer


@pytest.mark.parametrize("words", [["shard-ddl-lock"], ["shard-ddl-lock", "test"], ["show-ddl-locks", "-s", "mysql-2"]])
def test_locks_are_shown_with_dms_keys(words: list[str], dmctl: Dmctl) -> None:
    answer = dmctl(*words)
    assert (answer["result"], answer["msg"]) == (True, "")
    (lock,) = answer["locks"]
    dms = {key: lock[key] for key in ("ID", "task", "mode", "owner", "DDLs", "synced", "unsynced")}
    assert dms == {
        "ID": ID,
        "task": "test",
        "mode": "pessimistic",
        "owner": "mysql-1",
        "DDLs": [DDL],
        "synced": ["mysql-1"],
        "unsynced": ["mysql-2"],
    }


def test_the_message_without_locks_is_dms(dmctl: Dmctl) -> None:
    answer = dmctl("shard-ddl-lock", "another")
    assert answer == {"result": True, "msg": "no DDL lock exists", "locks": []}


@pytest.mark.parametrize("words", [["shard-ddl-lock", "unlock", ID], ["unlock-ddl-lock", ID]])
def test_a_decision_is_stored_for_the_owner(words: list[str], dmctl: Dmctl, store: MetaStore) -> None:
    refused = dmctl(*words, "--json")
    assert refused["result"] is False
    assert "mysql-2 have not reported" in str(refused["msg"])
    assert dmctl(*words, "-f", "--action", "skip", "-o", "mysql-1")["result"] is True
    ((body, _),) = store.ddl_locks("test")
    assert (Lock.from_json(body).decision, Lock.from_json(body).owner) == (Action.SKIP, "mysql-1")


@pytest.mark.parametrize(("number", "taken"), [("2", False), ("4", False), ("3", True)])
def test_a_decision_about_a_resolved_ddl_does_not_apply_to_the_next_ddl(
    number: str, dmctl: Dmctl, store: MetaStore, *, taken: bool
) -> None:
    answer = dmctl("unlock-ddl-lock", ID, "-f", "--number", number, "--json")
    assert answer["result"] is taken
    ((body, _),) = store.ddl_locks("test")
    assert (Lock.from_json(body).decision is not None) is taken


@pytest.mark.parametrize("words", [["unlock"], ["unlock", "unknown-`s`"], ["a", "b"]])
def test_an_unknown_lock_id_is_refused(words: list[str], dmctl: Dmctl) -> None:
    assert dmctl("shard-ddl-lock", *words, "--json")["result"] is False


def test_query_status_names_the_lock_that_a_source_waits_for(dmctl: Dmctl, store: MetaStore) -> None:
    for source in ("mysql-1", "mysql-2"):
        store.put_subtask("test", source, unit=Unit.SYNC, stage=Stage.STOPPED)
        store.put_subtask("other", source, unit=Unit.SYNC, stage=Stage.STOPPED)

    def ids() -> dict[tuple[str, str], str]:
        sources = dmctl("query-status", "-s", "mysql-1", "-s", "mysql-2")["sources"]
        return {
            (sub["name"], one["sourceStatus"]["source"]): sub["unresolvedDDLLockID"]
            for one in sources
            for sub in one["subTaskStatus"]
        }

    none = {("test", "mysql-2"): "", ("other", "mysql-1"): "", ("other", "mysql-2"): ""}
    assert ids() == {("test", "mysql-1"): ID, **none}
    store.change_ddl_lock("test", ID, 3, lambda found: _gone_on(found, "mysql-1"))
    assert ids() == {("test", "mysql-1"): "", **none}


def _gone_on(found: dict[str, Any] | None, source: str) -> dict[str, Any]:
    assert found is not None
    left = continued(Lock.from_json(found), source)
    assert left is not None
    return left.to_json()
