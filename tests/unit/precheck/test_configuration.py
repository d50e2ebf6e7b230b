"""The findings of the precheck about the files alone."""

from typing import Any

from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.precheck.checks.configuration import check_configuration, unknown_items
from airflow_provider_dm.engine.precheck.result import State


def states(**syncer: Any) -> dict[State, str]:
    task = TaskConfig.model_validate({"name": "shop", "mysql-instances": [{"source-id": "one", "syncer": syncer}]})
    return {state: message for state, message, _ in check_configuration(task, ())}


def test_the_usual_keys_of_a_syncer_have_an_effect() -> None:
    given = {"worker-count": 4, "batch": 7, "safe-mode": True, "checkpoint-flush-interval": 5}
    assert states(**given).keys() == {State.OK}


def test_many_workers_for_transactions_one_by_one_are_named() -> None:
    message = states(**{"worker-count": 4, "apply": "transactional"})[State.WARN]
    assert message.startswith("without effect: worker-count; ")
    assert states(**{"worker-count": 1, "apply": "transactional"}).keys() == {State.OK}


def test_another_queue_size_than_the_default_of_dm_is_named() -> None:
    assert states(**{"queue-size": 100})[State.WARN].startswith("without effect: queue-size; ")
    assert states(**{"queue-size": 1024}).keys() == {State.OK}


def test_the_defaults_of_dm_are_no_reason_to_warn() -> None:
    as_exported = {"worker-count": 16, "batch": 100, "queue-size": 0, "checkpoint-flush-interval": 30, "compact": False}
    assert states(**as_exported).keys() == {State.OK}


def test_keys_of_dump_files_are_named() -> None:
    task = TaskConfig.model_validate(
        {
            "name": "shop",
            "clean-dump-file": False,
            "experimental": {"async-checkpoint-flush": True},
            "mysql-instances": [
                {"source-id": "one", "mydumper": {"chunk-filesize": 8}, "loader": {"dir": "s3://x?k=K"}}
            ],
        }
    )
    files, checkpoint = (message for state, message, _ in check_configuration(task, ()) if state is State.WARN)

    assert files.startswith("without effect: chunk-filesize, clean-dump-file, dir;")
    assert "async-checkpoint-flush" in checkpoint


def test_an_item_to_ignore_that_is_no_check_is_named_with_the_nearest() -> None:
    dms = ["all", "auto_increment_ID", "free_space", "downstream_version", "table_schema", "meta_position"]
    assert unknown_items(dms, ()) == []
    (_, message, remedy), (_, _, other) = unknown_items(["table_keyz", "zzz"], ["table_keys"])
    assert ("table_keyz" in message, remedy, other) == (True, "Write 'table_keys'.", "Leave it out.")
