"""A sync that would end as it begins: when it is taken for one, and what it leaves behind."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_provider_dm.engine.config.job import UNTIL_CAUGHT_UP
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.records import Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.processes import Holder
from airflow_provider_dm.launch import idle
from airflow_provider_dm.launch.awaited import Met
from airflow_provider_dm.launch.inputs import Inputs
from airflow_provider_dm.launch.sync_state import LagAtMost, NothingHeld, state_in

TASK, SOURCE = "shop", "one"
AT = Location("mysql-bin.000002", 900)
RESULT: dict[str, Any] = {"status": "finished", "sources": {SOURCE: {"location": str(AT), "finished": True}}}


class Asked(DmError):
    code = "DM-0000"
    what = "a server was asked."


def asks(store: MetaStore, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return True if servers are queried for the task's state."""
    asked = list[object]()

    def connected(endpoint: object) -> None:
        asked.append(endpoint)
        raise Asked

    monkeypatch.setattr(idle, "connected", connected)
    task = SimpleNamespace(name=TASK, meta_schema="dm_meta")
    inputs = SimpleNamespace(task=task, sources=[SimpleNamespace(source_id=SOURCE)], target="target", pairs=[])
    assert idle.idle_result(cast("Inputs", inputs), store, UNTIL_CAUGHT_UP) is None
    return bool(asked)


def test_a_task_unknown_to_the_metadata_db_is_run(store: MetaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else no relay would keep the log for it."""
    assert not asks(store, monkeypatch)
    store.put_subtask(TASK, SOURCE, unit=Unit.SYNC, stage=Stage.STOPPED, needed=AT, applied=AT)
    assert asks(store, monkeypatch)


def test_a_task_that_an_error_has_ended_is_run(store: MetaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the error would be shown beside runs that succeed."""
    store.put_subtask(TASK, SOURCE, unit=Unit.SYNC, stage=Stage.STOPPED, needed=AT, applied=AT)
    store.put_subtask_error(TASK, SOURCE, {"ErrCode": "DM-6032"})
    assert not asks(store, monkeypatch)


def test_a_sync_without_work_is_recorded_as_a_run_with_a_lag(store: MetaStore) -> None:
    store.put_subtask(TASK, SOURCE, unit=Unit.SYNC, stage=Stage.STOPPED, needed=AT, applied=AT)
    run_id = idle.note_idle(store, TASK, Holder(identity="airflow:d/r/t", attempt="1", host="h"), RESULT)
    (run,) = store.list_runs(task=TASK)
    assert (run.run_id, run.stage, run.result) == (run_id, Stage.FINISHED, RESULT)
    assert isinstance(state_in(store, TASK, [], LagAtMost(60.0), waited_seconds=0.0), Met)
    assert isinstance(state_in(store, TASK, [], NothingHeld(), waited_seconds=0.0), Met)


def test_a_sync_without_work_has_been_started(store: MetaStore) -> None:
    """Otherwise users see New ("Not started") after the sync of a load that nothing has changed since."""
    for source in (SOURCE, "two"):  # another mapped task syncs the second
        store.put_subtask(TASK, source, unit=Unit.SYNC, stage=Stage.NEW, needed=AT, applied=AT)
    idle.note_idle(store, TASK, Holder(identity="airflow:d/r/t", attempt="1", host="h"), RESULT)
    subtask, other = store.list_subtasks(task=TASK)
    assert (subtask.stage, subtask.unit, subtask.needed, subtask.applied) == (Stage.STOPPED, Unit.SYNC, AT, AT)
    assert other.stage is Stage.NEW
