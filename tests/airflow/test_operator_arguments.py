"""Operators store what they are given and nothing else; the engine's errors make Airflow react; holders have names."""

import inspect
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from jinja2 import Environment

from airflow_provider_dm.engine.config.errors import ConfigError
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.errors import InvalidInput, NotSupportedYet, Reaction, ReportedError
from airflow_provider_dm.engine.meta.records import Stage, Unit
from airflow_provider_dm.engine.mysql.errors import ServerUnreachable
from airflow_provider_dm.engine.processes import Holder
from airflow_provider_dm.hooks.metadata import DmMetadataHook
from airflow_provider_dm.hooks.spark import DmSparkSubmitHook
from airflow_provider_dm.launch import task_control
from airflow_provider_dm.launch.errors import SparkAppFailed
from airflow_provider_dm.operators.arguments import spark_settings
from airflow_provider_dm.operators.base import DmSparkAppOperator, folder_of, task_holder
from airflow_provider_dm.operators.errors import as_airflow
from airflow_provider_dm.operators.incremental_sync import DmIncrementalSyncOperator
from airflow_provider_dm.operators.inputs import Files, chosen_sources, read_task
from airflow_provider_dm.operators.relay import DmRelayStopOperator
from airflow_provider_dm.operators.verify import DmVerifyOperator
from airflow_provider_dm.plugins.documents import Selection
from airflow_provider_dm.plugins.tabs import selection_of_links
from tests.airflow.support import context
from tests.reference.operators_page import operators


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

    with DAG(
        "defaults", default_args={"task": "t.yaml", "target_conn_id": "t", "spark_conn_id": "s", "until": "forever"}
    ):
        made = DmIncrementalSyncOperator(task_id="sync")  # type: ignore[call-arg]
    assert (made.task, made.target_conn_id, made.spark_conn_id, made.until) == ("t.yaml", "t", "s", "forever")
    assert folder_of(made).samefile(Path(__file__).parent)


@pytest.mark.parametrize(
    ("error", "reaction"),
    [
        (ServerUnreachable("one", "refused"), Reaction.RETRY),
        (NotSupportedYet("x", "y", "z"), Reaction.STOP),
        (SparkAppFailed("sync", "run", ReportedError.of(ServerUnreachable("one", "refused"))), Reaction.RETRY),
        (SparkAppFailed("sync", "run", ReportedError.of(NotSupportedYet("x", "y", "z"))), Reaction.STOP),
        (SparkAppFailed("sync", "run", ReportedError.of(MemoryError("?"))), Reaction.RETRY),
        (SparkAppFailed("sync", "run", ReportedError.read({"ErrCode": "?", "Message": "?"})), Reaction.STOP),
    ],
)
def test_an_error_makes_airflow_retry_or_stop(error: ServerUnreachable, reaction: Reaction) -> None:
    assert error.reacts() is reaction
    raised = as_airflow(error)
    assert isinstance(raised, AirflowException)
    assert isinstance(raised, AirflowFailException) is (reaction is not Reaction.RETRY)
    assert str(raised) == str(error)


def test_a_retry_has_the_same_holder_and_another_run_another_holder() -> None:
    first, retry = task_holder(instance()), task_holder(instance(try_number=2))
    assert (first.identity, first.attempt) == ("airflow:d/r/t", "1")
    assert (retry.identity, retry.attempt) == (first.identity, "2")
    for change in ({"run_id": "s"}, {"map_index": 0}, {"task_id": "u"}):
        assert task_holder(instance(**change)).identity != first.identity


def test_a_long_identity_is_shortened_and_stays_unique() -> None:
    long = {"dag_id": "d" * 250, "run_id": "r" * 250}
    one, other = (task_holder(instance(**long, task_id="t" * 249 + end)).identity for end in "ab")
    assert len(one) <= 512
    assert one != other


def test_a_duplicate_source_is_refused() -> None:
    task = TaskConfig.model_validate({"name": "shop", "mysql-instances": [{"source-id": "one"}]})
    one = SourceConfig.model_validate({"source-id": "one"})

    with pytest.raises(InvalidInput, match="`sources` has source one twice"):
        chosen_sources(task, [one, one])


TASK = {
    "name": "shop",
    "task-mode": "incremental",
    "meta-schema": "shop_meta",
    "mysql-instances": [{"source-id": "one", "meta": {"binlog-name": "mysql-bin.000001", "binlog-pos": 4}}],
}


def stop_here(*_: Any, **__: Any) -> None:
    raise AirflowException("it would start")


def instance(**parts: Any) -> SimpleNamespace:
    of_a_run = {"dag_id": "d", "run_id": "r", "task_id": "t", "map_index": -1, "try_number": 1}
    return SimpleNamespace(**of_a_run | parts, xcom_push=lambda **_: None)


@pytest.fixture
def databases(connection: Callable[..., None]) -> None:
    for conn_id in ("one", "there"):
        connection(conn_id, conn_type="dm_database", host="127.0.0.1", port=1, login="dm")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"task": ""}, "DM-1001"),
        ({"task": "shop"}, "/shop: the name does not end with .yaml or .yml"),
        ({"task": "/proc/self/environ"}, "/proc/self/environ: the name does not end with .yaml or .yml"),
        ({"task": "a\0.yaml"}, "DM-1001"),
        ({"sources": ["/etc/passwd"]}, "/etc/passwd: the name does not end with .yaml or .yml"),
        ({"sources": "one"}, "`sources` cannot be used: it is the str 'one'; it has to be a list"),
        ({"sources": 3}, "`sources` cannot be used: it is the int 3"),
        ({"sources": [""]}, "`source` cannot be used: it is empty"),
        ({"source_conn_ids": "one"}, "`source_conn_ids` cannot be used: it is the str 'one'; it has to be a mapping"),
        ({"source_conn_ids": {"oen": "replica"}}, "it names 'oen', which is not one of one"),
        ({"source_conn_ids": {"one": ["replica"]}}, "`source_conn_ids.one` cannot be used"),
        ({"until": None}, "`until` cannot be used: it is empty"),
        ({"until": 5}, "`until` cannot be used: it is the int 5"),
        ({"until": "tomorrow"}, "DM-1101"),
        ({"spark_conf": "spark.x=1"}, "`spark_conf` cannot be used"),
        ({"spark_conf": {"spark.x": None}}, "`spark_conf.spark.x` cannot be used: it is empty"),
        ({"driver_memory": 1024}, "`driver_memory` cannot be used: it is the int 1024"),
        ({"driver_memory": "lots"}, "`driver_memory` cannot be used: it is the str 'lots'"),
        ({"dm_meta_conn_id": "nope"}, "DM-9060"),
        ({"spark_conn_id": "one"}, "its type is dm_database, not spark"),
    ],
)
def test_a_bad_rendered_argument_is_reported_before_anything_runs(
    arguments: dict[str, Any], expected: str, databases: None, work_dir: Path
) -> None:
    made = DmIncrementalSyncOperator(task_id="sync", **{"task": TASK, "target_conn_id": "there", **arguments})
    with pytest.raises(AirflowFailException) as raised:
        made.execute({"ti": instance()})  # type: ignore[typeddict-item]
    assert expected in str(raised.value)
    assert not (work_dir / "meta.db").exists()


@pytest.mark.parametrize(
    ("template", "expected"),
    [("{{ 1 / 0 }}", "division by zero"), ("{{ 1 + 'a' }}", "unsupported operand"), ("{{ x }", "unexpected")],
)
def test_a_template_that_fails_is_an_error_of_the_file(template: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text(f"name: {template}")
    files = Files(tmp_path, lambda text: Environment(autoescape=False).from_string(text).render())
    with pytest.raises(ConfigError, match=f"task.yaml: as a Jinja template: .*{expected}"):
        read_task("task.yaml", files)


@pytest.mark.parametrize("source_ids", ["one", 3, [None]])
def test_relays_are_stopped_by_a_list_of_names(source_ids: Any, work_dir: Path) -> None:
    with pytest.raises(AirflowFailException, match="DM-9066") as raised:
        DmRelayStopOperator(task_id="stop", source_ids=source_ids).execute(context())
    assert raised.value.__suppress_context__, "the log of the task has it once"
    with DmMetadataHook().get_store() as store:
        assert [store.relay_desired(one) for one in "one"] == [None] * 3


def test_the_link_of_a_stop_shows_all_its_sources(work_dir: Path) -> None:
    pushed: dict[str, str] = {}
    instance = SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value}))
    DmRelayStopOperator(task_id="stop", source_ids=["s1", "s2"], wait_seconds=0).execute({"ti": instance})  # type: ignore[typeddict-item]
    assert selection_of_links(pushed.values()) == Selection([], ["s1", "s2"])


def test_numbers_and_truths_of_spark_are_written_as_spark_writes_them() -> None:
    assert spark_settings({"a": 1, "b": True, "c": "x", "d": 0.5}) == {"a": "1", "b": "true", "c": "x", "d": "0.5"}
    assert spark_settings(None) == {}


@pytest.mark.parametrize("operator", [DmIncrementalSyncOperator, DmVerifyOperator])
def test_a_refused_run_changes_no_desired_stage(
    operator: type[DmSparkAppOperator], databases: None, work_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that a schedule starts beside one that a user has paused; and one that only reads."""
    monkeypatch.setattr(task_control, "time", SimpleNamespace(monotonic=count(0, 40).__next__, sleep=lambda _: None))
    with DmMetadataHook().get_store() as store:
        store.put_subtask("shop", "one", unit=Unit.SYNC, stage=Stage.RUNNING)
        store.set_subtask_desired("shop", "one", Stage.PAUSED)
        store.acquire_lease("shop", "one", Holder("airflow:d/other/t", "1", "w"), ttl_seconds=60, at_least=0)
        refused = operator(task_id="t", task=TASK, target_conn_id="there")
        monkeypatch.setattr(DmSparkSubmitHook, "start", stop_here)
        with pytest.raises(AirflowException) as raised:
            refused.execute({"ti": instance()})  # type: ignore[typeddict-item]
        assert ("DM-8005" in str(raised.value)) is operator.writes
        assert store.list_subtasks()[0].desired is Stage.PAUSED


@pytest.mark.parametrize(("wish", "left"), [(Stage.PAUSED, Stage.PAUSED), (Stage.STOPPED, Stage.RUNNING)])
def test_a_new_dag_run_withdraws_a_stop_and_never_a_pause(
    wish: Stage, left: Stage, databases: None, work_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DmSparkSubmitHook, "start", stop_here)
    sync = DmIncrementalSyncOperator(task_id="t", task=TASK, target_conn_id="there")
    with DmMetadataHook().get_store() as store:
        store.put_subtask("shop", "one", unit=Unit.SYNC, stage=Stage.RUNNING)
        store.set_subtask_desired("shop", "one", wish)
        with pytest.raises(AirflowException, match="it would start"):
            sync.execute({"ti": instance()})  # type: ignore[typeddict-item]
        assert store.list_subtasks()[0].desired is left
