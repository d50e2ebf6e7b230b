"""Operators store what they are given and nothing else; the engine's errors make Airflow react; holders have names."""

import importlib
import inspect
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import SourceFilesDiffer, TaskConfig
from airflow_provider_dm.engine.errors import NotSupportedYet, Reaction, ReportedError
from airflow_provider_dm.engine.mysql.connection import ServerUnreachable
from airflow_provider_dm.get_provider_info import get_provider_info
from airflow_provider_dm.launch.submit import SparkAppFailed
from airflow_provider_dm.operators.base import DmTaskOperator, folder_of, holder_of
from airflow_provider_dm.operators.errors import as_airflow
from airflow_provider_dm.operators.inputs import chosen_sources


def operators() -> list[type[BaseOperator]]:
    info = get_provider_info()
    modules = [m for room in ("operators", "sensors") for entry in info[room] for m in entry["python-modules"]]
    found = []
    for name in modules:
        module = importlib.import_module(name)
        own = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == name]
        found += [one for one in own if issubclass(one, BaseOperator)]
    return found


@pytest.mark.parametrize("operator", operators(), ids=lambda one: one.__name__)
def test_a_template_field_is_a_named_argument_and_an_attribute(operator: type[BaseOperator]) -> None:
    parameters = inspect.signature(operator.__init__).parameters
    assert all(one.kind is not one.POSITIONAL_OR_KEYWORD or one.name == "self" for one in parameters.values())
    required: dict[str, Any] = {
        n: n for n, one in parameters.items() if one.default is one.empty and n not in ("self", "kwargs")
    }
    made = operator(task_id="x", **required)
    missing = [field for field in operator.template_fields if not hasattr(made, field) or field not in parameters]
    assert missing == []


def test_default_args_reach_every_argument() -> None:
    from airflow.sdk import DAG

    from airflow_provider_dm.operators.incremental_sync import DmIncrementalSyncOperator

    with DAG(
        "defaults", default_args={"task": "t.yaml", "target_conn_id": "t", "spark_conn_id": "s", "until": "forever"}
    ):
        made = DmIncrementalSyncOperator(task_id="sync")  # type: ignore[call-arg]
    assert (made.task, made.target_conn_id, made.spark_conn_id, made.until) == ("t.yaml", "t", "s", "forever")
    assert folder_of(made).samefile(inspect.getfile(operators).rpartition("/")[0])


@pytest.mark.parametrize(
    ("error", "reaction"),
    [
        (ServerUnreachable("one", "refused"), Reaction.RETRY),
        (NotSupportedYet("x", "y", "z"), Reaction.STOP),
        (SparkAppFailed("sync", "run", ReportedError.of(ServerUnreachable("one", "refused"))), Reaction.RETRY),
        (SparkAppFailed("sync", "run", ReportedError.of(NotSupportedYet("x", "y", "z"))), Reaction.STOP),
        (SparkAppFailed("sync", "run", ReportedError.of(MemoryError("?"))), Reaction.RETRY),
        (
            SparkAppFailed("sync", "run", ReportedError.read({"ErrCode": "?", "Message": "?"})),
            Reaction.STOP,
        ),
    ],
)
def test_an_error_makes_airflow_retry_or_stop(error: ServerUnreachable, reaction: Reaction) -> None:
    assert error.reacts() is reaction
    raised = as_airflow(error)
    assert isinstance(raised, AirflowException)
    assert isinstance(raised, AirflowFailException) is (reaction is not Reaction.RETRY)
    assert str(raised) == str(error)


def test_a_retry_is_the_same_holder_and_another_run_is_not() -> None:
    ti = {"dag_id": "d", "run_id": "r", "task_id": "t", "map_index": -1, "try_number": 1}
    first = holder_of(SimpleNamespace(**ti))
    retry = holder_of(SimpleNamespace(**ti | {"try_number": 2}))
    assert (first.identity, first.attempt) == ("airflow:d/r/t", "1")
    assert (retry.identity, retry.attempt) == (first.identity, "2")
    for change in ({"run_id": "s"}, {"map_index": 0}, {"task_id": "u"}):
        assert holder_of(SimpleNamespace(**ti | change)).identity != first.identity


def test_a_long_holder_still_fits_and_stays_apart() -> None:
    ti = {"dag_id": "d" * 250, "run_id": "r" * 250, "task_id": "t" * 249, "map_index": -1, "try_number": 1}
    one, other = (holder_of(SimpleNamespace(**ti | {"task_id": "t" * 249 + end})).identity for end in "ab")
    assert len(one) <= 512
    assert one != other


def test_the_base_reads_nothing_when_it_is_built() -> None:
    made = DmTaskOperator(task_id="x", task="/not/there.yaml", sources=["/not/there/either.yaml"])
    assert made.task == "/not/there.yaml"


def test_a_source_that_is_given_twice_is_said_to_be() -> None:
    task = TaskConfig.model_validate({"name": "shop", "mysql-instances": [{"source-id": "one"}]})
    one = SourceConfig.model_validate({"source-id": "one"})

    with pytest.raises(SourceFilesDiffer, match="`sources` has source one twice"):
        chosen_sources(task, [one, one])
