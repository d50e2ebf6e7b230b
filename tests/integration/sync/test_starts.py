"""The start locations of a task, determined before the task runs."""

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_dm.engine.config.start_meta import StartMeta
from airflow_provider_dm.engine.config.task import TaskConfig, TaskMode
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.meta.migrate import migrate
from airflow_provider_dm.engine.meta.records import Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.relay.errors import PlaceNotFound
from airflow_provider_dm.launch.inputs import Inputs
from airflow_provider_dm.launch.starts import record_needs, with_starts
from tests.integration.sync.conftest import SOURCE_ID, SyncKit

ZERO = "00000000-0000-0000-0000-000000000001:1"


def inputs_of(kit: SyncKit, *, binlog_gtid: str) -> Inputs:
    """A task that begins after that set."""
    task = kit.spec().task
    instance = task.mysql_instances[0].model_copy(update={"meta": StartMeta(binlog_gtid=binlog_gtid)})
    spec = kit.source_spec()
    return Inputs(
        task.model_copy(update={"mysql_instances": (instance,)}),
        (spec.config,),
        (spec.endpoint.resolve(),),
        kit.endpoint(kit.target, "target").resolve(),
    )


def start_of(task: TaskConfig) -> str:
    return str(task.subtask(SOURCE_ID).start)


def test_a_start_by_gtid_and_a_checkpoint_copied_to_a_new_metadata_db(one_kit: SyncKit, tmp_path: Path) -> None:
    one_kit.create("plain")
    begin = one_kit.upstream()
    one_kit.write("INSERT INTO plain VALUES (1, 'a')")

    found = with_starts(inputs_of(one_kit, binlog_gtid=begin.gtid_set))

    assert start_of(found.task) == str(begin)
    with pytest.raises(PlaceNotFound, match="is not in it"):
        with_starts(inputs_of(one_kit, binlog_gtid=f"{begin.gtid_set},{ZERO}"))
    early = replace(found, task=found.task.model_copy(update={"task_mode": TaskMode.ALL}))
    with pytest.raises(InvalidInput, match="copies first"):
        with_starts(early, "2026-01-01 00:00:00")

    one_kit.sync_and_compare(start=found.task.subtask(SOURCE_ID).start)

    again = inputs_of(one_kit, binlog_gtid=f"{begin.gtid_set},{ZERO}")
    assert with_starts(again) == again  # the checkpoint counts
    with pytest.raises(InvalidInput, match="has its checkpoint"):
        with_starts(again, "2026-01-01 00:00:00")

    url = f"sqlite:///{tmp_path}/new.db"
    migrate(url)
    with MetaStore.open(url) as store:
        record_needs(again, store)
        (copied,) = store.list_subtasks()
        (known,) = one_kit.store.list_subtasks()
        assert (copied.task, copied.source, copied.unit, copied.stage) == ("test", SOURCE_ID, Unit.SYNC, Stage.STOPPED)
        assert (str(copied.needed), str(copied.applied)) == (str(known.needed), str(known.applied))

        store.put_subtask("test", SOURCE_ID, unit=Unit.SYNC, stage=Stage.RUNNING, needed=begin)
        record_needs(again, store)
        assert store.list_subtasks()[0].needed == begin  # a running task knows its need better
