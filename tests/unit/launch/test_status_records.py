"""What is shown of a task whose sources have runs of their own, as mapped loads have."""

import pytest

from airflow_provider_dm.engine.meta.records import Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.processes import Holder, this_process
from airflow_provider_dm.launch.status import StatusRecords

TASK = "shop"


@pytest.mark.parametrize("outcome", [Stage.FINISHED, Stage.PAUSED, None])
def test_a_load_works_beside_a_later_load_of_another_source(store: MetaStore, outcome: Stage | None) -> None:
    """`outcome`: of the later load; None: its process has died."""
    machine, born = this_process().rsplit(" ", 1)
    died = f"{machine} {int(born) - 1}"
    for source, process in (("one", this_process()), ("two", this_process() if outcome else died)):
        store.put_subtask(TASK, source, unit=Unit.LOAD, stage=Stage.RUNNING, needed=None, applied=None)
        holder = Holder(identity=f"airflow:d/r/{source}", attempt="1", host="h", process=process)
        store.start_run(source, task=TASK, app="full_migration", holder=holder)
        store.heartbeat_run(source, {source: {"unit": "load"}})
    if outcome:
        store.finish_run("two", stage=outcome, error={"ErrCode": "DM-2002"} if outcome is Stage.PAUSED else None)

    records = StatusRecords(store)
    shown = {one["sourceStatus"]["source"]: one["subTaskStatus"][0] for one in records.status(TASK)["sources"]}
    assert shown["one"]["stage"] == "Running"
    assert [run and run.run_id for run in (records.last_run(TASK, name) for name in ("one", "two", None))] == [
        "one",
        "two",
        "two",
    ]
    (listed,) = records.status()["tasks"]
    assert listed["taskStatus"].startswith("Error") is (outcome is Stage.PAUSED)
