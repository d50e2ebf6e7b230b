"""What the precheck says of the files alone."""

from __future__ import annotations

from typing import Any

from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.precheck.checks.configuration import check_configuration
from airflow_provider_dm.engine.precheck.result import State


def states(**syncer: Any) -> dict[State, str]:
    task = TaskConfig.model_validate({"name": "shop", "mysql-instances": [{"source-id": "one", "syncer": syncer}]})
    return {state: said for state, said, _ in check_configuration(task, ())}


def test_keys_without_an_effect_are_named() -> None:
    said = states(
        **{"worker-count": 4, "batch": 7, "safe-mode": True, "checkpoint-flush-interval": 5}
    )  # three have one

    assert State.FAIL not in said
    assert said[State.WARN].endswith("one have no effect: safe-mode")


def test_the_defaults_of_dm_are_no_reason_to_warn() -> None:
    as_exported = {"worker-count": 16, "batch": 100, "queue-size": 0, "checkpoint-flush-interval": 30, "compact": False}
    assert states(**as_exported).keys() == {State.OK}
