"""Subtasks: what each needs, what has paused it, what users want of it."""

import pytest

from airflow_provider_dm.engine.meta.errors import UnrelatedNeeds
from airflow_provider_dm.engine.meta.records import Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location
from tests.meta_contract.opened import OpenStore
from tests.meta_contract.races import race


class SubtaskContract(OpenStore):
    """What holds of a subtask's row."""

    def test_a_subtask_is_put_and_put_again(self, store: MetaStore) -> None:
        first, later = Location("mysql-bin.000003", 5_000_000_000, "a:1-7"), Location("mysql-bin.000004", 4)
        store.put_subtask("t", "s", unit=Unit.LOAD, stage=Stage.RUNNING, needed=first, applied=None)
        store.put_subtask("t", "s", unit=Unit.SYNC, stage=Stage.PAUSED, needed=first, applied=later)
        store.put_subtask("t", "s2", unit=Unit.SYNC, stage=Stage.RUNNING)
        store.put_subtask("u", "s", unit=Unit.SYNC, stage=Stage.RUNNING)
        (status,) = store.list_subtasks(task="t", source="s")
        assert (status.unit, status.stage, status.needed, status.applied) == (Unit.SYNC, Stage.PAUSED, first, later)
        assert [(s.task, s.source) for s in store.list_subtasks()] == [("t", "s"), ("t", "s2"), ("u", "s")]
        store.forget_subtask("t", "s")
        assert [(s.task, s.source) for s in store.list_subtasks(source="s")] == [("u", "s")]

    def test_the_oldest_need_counts_also_of_a_stopped_task(self, store: MetaStore) -> None:
        def put(task: str, stage: Stage, number: int) -> None:
            needed = Location(f"mysql-bin.{number:06d}", 4)
            store.put_subtask(task, "s", unit=Unit.SYNC, stage=stage, needed=needed)

        assert store.oldest_needed("s") is None
        put("running", Stage.RUNNING, 9)
        put("stopped", Stage.STOPPED, 5)
        put("finished", Stage.FINISHED, 2)
        assert store.oldest_needed("s") == Location("mysql-bin.000005", 4)
        put("paused", Stage.PAUSED, 3)
        assert store.oldest_needed("s") == Location("mysql-bin.000003", 4)

    def test_needs_in_unrelated_logs_are_not_ordered(self, store: MetaStore) -> None:
        for task, file in (("a", "mysql-bin.000001"), ("b", "binlog.000001")):
            store.put_subtask(task, "s", unit=Unit.SYNC, stage=Stage.RUNNING, needed=Location(file, 4))
        with pytest.raises(UnrelatedNeeds):
            store.oldest_needed("s")

    def test_writers_of_one_subtask_do_not_lose_each_other(self, meta_url: str, store: MetaStore) -> None:
        assert race(put_subtask_often, 4, meta_url) == ["ok"] * 4
        assert len(store.list_subtasks()) == 1

    def test_the_error_of_a_paused_subtask_is_kept_until_its_next_report(self, store: MetaStore) -> None:
        here = Location("mysql-bin.000003", 400, "a:1-7", 2, "u")
        store.put_subtask_error("t", "s", {"ErrCode": "DM-1"})
        assert store.list_subtasks() == []  # a purge would wait for what such a row needs
        store.put_subtask("t", "s", unit=Unit.SYNC, stage=Stage.RUNNING, needed=here, applied=here)
        store.put_subtask_error("t", "s", {"ErrCode": "DM-6032", "Message": "naïve ☃"}, at=here)
        (status,) = store.list_subtasks()
        assert (status.stage, status.needed, status.applied) == (Stage.PAUSED, here, here)
        assert (status.error, status.error_at) == ({"ErrCode": "DM-6032", "Message": "naïve ☃"}, here)
        store.put_subtask("t", "s", unit=Unit.SYNC, stage=Stage.RUNNING, needed=here, applied=here)
        (status,) = store.list_subtasks()
        assert (status.error, status.error_at) == (None, None)

    def test_reports_of_a_subtask_and_requests_are_separate(self, store: MetaStore) -> None:
        here = Location("mysql-bin.000003", 400, "a:1-7", 2, "u")
        store.set_subtask_desired("t", "s", Stage.PAUSED)
        assert store.list_subtasks() == []  # as for what has paused it
        store.put_subtask("t", "s", unit=Unit.SYNC, stage=Stage.RUNNING, needed=here, applied=here)
        assert store.list_subtasks()[0].desired is None
        store.put_subtask_error("t", "s", {"ErrCode": "DM-6032"}, at=here)
        store.set_subtask_desired("t", "s", Stage.PAUSED)
        store.put_subtask_paused("t", "s")
        (status,) = store.list_subtasks()
        assert (status.stage, status.error, status.error_at, status.needed) == (Stage.PAUSED, None, None, here)
        store.put_subtask("t", "s", unit=Unit.SYNC, stage=Stage.RUNNING)
        assert store.list_subtasks()[0].desired is Stage.PAUSED
        store.set_subtask_desired("t", "s", Stage.RUNNING)
        store.put_subtask_error("t", "s", {"ErrCode": "DM-6032"})  # only a new request continues after it
        assert store.list_subtasks()[0].desired is None
        store.forget_subtask("t", "s")
        store.put_subtask("t", "s", unit=Unit.SYNC, stage=Stage.RUNNING)
        assert store.list_subtasks()[0].desired is None


def put_subtask_often(meta_url: str, number: int) -> str:
    with MetaStore.open(meta_url) as store:
        for position in range(4, 14):
            needed = Location("mysql-bin.000001", position)
            store.put_subtask("t", "s", unit=Unit.SYNC, stage=Stage.RUNNING, needed=needed)
        return "ok"
