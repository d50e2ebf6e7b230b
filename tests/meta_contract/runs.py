"""Runs: their heartbeat, their end."""

from collections.abc import Callable

import pytest

from airflow_provider_dm.engine.meta.errors import LostRace, RunTaken, RunUnknown
from airflow_provider_dm.engine.meta.records import Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.processes import Holder
from tests.meta_contract.opened import ANNA, BEN, OpenStore


class RunContract(OpenStore):
    """What holds of a run of an app."""

    def test_a_run_from_start_to_end(self, store: MetaStore) -> None:
        store.start_run("r", task="t", app="verify", holder=ANNA)
        store.heartbeat_run("r", {"rows": 3, "name": "naïve ☃"})
        run = store.get_run("r")
        assert run is not None
        assert (run.task, run.app, run.holder, run.stage) == ("t", "verify", ANNA, Stage.RUNNING)
        assert run.progress == {"rows": 3, "name": "naïve ☃"}
        assert run.heartbeat_age_seconds < 5
        store.finish_run("r", stage=Stage.FINISHED, result={"verified": True}, error=None)
        done = store.get_run("r")
        assert done is not None
        assert (done.stage, done.result, done.error) == (Stage.FINISHED, {"verified": True}, None)
        assert done.finished_at is not None
        assert done.finished_at >= done.started_at
        assert [run.run_id for run in store.list_runs(task="t")] == ["r"]

    def test_runs_are_listed_by_task_and_by_their_holders_identity(self, store: MetaStore) -> None:
        for number, identity in enumerate(("a_b/1", "a_b/2", "A_b/1", "axb/1")):
            holder = Holder(identity, "1", "host-a")
            store.start_run(f"r{number}", task=f"t{number % 2}", app="verify", holder=holder)
        assert [run.run_id for run in store.list_runs(limit=2)] == ["r3", "r2"]
        assert [run.run_id for run in store.list_runs(task="t0")] == ["r2", "r0"]
        assert [run.run_id for run in store.list_runs(but=store.list_runs()[0].app)] == []
        assert [run.run_id for run in store.list_runs(identity="a_b/1")] == ["r0"]

    def test_the_outcome_of_a_run_is_written_once(self, store: MetaStore) -> None:
        store.start_run("r", task="t", app="verify", holder=ANNA)
        store.finish_run("r", stage=Stage.STOPPED)
        store.finish_run("r", stage=Stage.STOPPED)  # repeated after a lost answer
        with pytest.raises(LostRace):
            store.finish_run("r", stage=Stage.FINISHED, result={})
        with pytest.raises(LostRace):
            store.heartbeat_run("r", {})

    def test_a_run_is_restarted_by_its_own_identity_only(self, store: MetaStore) -> None:
        store.start_run("r", task="t", app="verify", holder=ANNA)
        store.finish_run("r", stage=Stage.PAUSED, error={"ErrCode": "DM-1"})
        store.start_run("r", task="t", app="verify", holder=Holder("dag/anna", "2", "host-a"))
        run = store.get_run("r")
        assert run is not None
        assert (run.stage, run.error, run.holder.attempt) == (Stage.RUNNING, None, "2")
        with pytest.raises(RunTaken, match="belongs to dag/anna"):
            store.start_run("r", task="t", app="verify", holder=BEN)

    def test_an_unknown_run_is_an_error_not_a_new_row(self, store: MetaStore) -> None:
        calls: list[Callable[[], object]] = [
            lambda: store.heartbeat_run("r", {}),
            lambda: store.finish_run("r", stage=Stage.FINISHED),
        ]
        for call in calls:
            with pytest.raises(RunUnknown):
                call()
        assert store.get_run("r") is None

    def test_a_large_result_is_kept_whole(self, store: MetaStore) -> None:
        result = {"tables": [f"table_{number:06d}" for number in range(20_000)]}
        store.start_run("r", task="t", app="verify", holder=ANNA)
        store.finish_run("r", stage=Stage.FINISHED, result=result)
        run = store.get_run("r")
        assert run is not None
        assert run.result == result
