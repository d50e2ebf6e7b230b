"""DM's documented files mean here what they mean there."""

import pickle
from pathlib import Path

import pytest

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import ShardMode, TaskConfig, TaskMode
from airflow_provider_dm.engine.config.yaml_file import load_source, load_task, source_of, task_of
from airflow_provider_dm.engine.errors import NotSupportedYet

EXAMPLES = Path(__file__).parent / "examples"
SOURCE_FILTERS = [("dmctl", "Ignore")]


def test_the_advanced_template(caplog: pytest.LogCaptureFixture) -> None:
    task = load_task(EXAMPLES / "task_advanced.yaml")
    assert 'no mysql-instance names "bw-rule-2" of block-allow-list, so it filters nothing' in caplog.text
    assert (task.name, task.task_mode, task.sharding) == ("test", TaskMode.ALL, ShardMode.PESSIMISTIC)
    assert task.source_ids == ("mysql-replica-01", "mysql-replica-02")
    assert task.target_database is not None
    assert task.target_database.session == {
        "sql_mode": "ANSI_QUOTES,NO_ZERO_IN_DATE,NO_ZERO_DATE",
        "tidb_skip_utf8_check": "1",
        "tidb_constraint_check_in_place": "0",
    }
    assert task.syncers["global"].safe_mode_duration == 60.0
    assert task.validators["global"].row_error_delay == 1800.0
    assert task.loaders["global"].analyze == "off"


def test_unsupported_options_of_the_advanced_template_are_refused() -> None:
    task = load_task(EXAMPLES / "task_advanced.yaml")
    features = [gap.feature for gap in task.unsupported()]
    assert features == ["continuous validation"]
    with pytest.raises(NotSupportedYet, match="validation"):
        task.subtask("mysql-replica-01")
    assert task.subtask("mysql-replica-02").syncer.worker_count == 16


def test_the_older_template() -> None:
    task = load_task(EXAMPLES / "task_old_keys.yaml")
    assert task.sharding is ShardMode.PESSIMISTIC
    assert task.unsupported() == ()
    first, second = (task.subtask(source) for source in task.source_ids)
    assert first.block_allow.do_dbs == ("~^test.*", "do")
    assert [route.target_table for route in first.routes] == ["", "t"]
    assert (first.syncer.worker_count, second.syncer.worker_count) == (16, 12)
    assert (first.loader.pool_size, second.loader.pool_size) == (16, 8)
    assert first.start is None, "only task-mode incremental starts at meta"


def test_a_source() -> None:
    source = load_source(EXAMPLES / "source.yaml")
    assert source.checker.backoff_max == 300.0
    source.require_supported()
    assert [(rule.schema_pattern, rule.action) for rule in source.filters] == SOURCE_FILTERS


def test_an_exported_source() -> None:
    source = load_source(EXAMPLES / "source_exported.yaml")
    source.require_supported()
    assert source.from_ is not None
    assert source.from_.endpoint("mysql-01").port == 3306


def test_a_dictionary_with_the_same_keys_is_as_good_as_a_file() -> None:
    task = task_of({"name": "t", "mysql-instances": [{"source-id": "a", "syncer-thread": 3}]})
    assert task.subtask("a").syncer.worker_count == 3
    assert source_of({"source-id": "a", "from": {"host": "h", "port": "13"}}).from_.port == 13  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["task_advanced.yaml", "task_old_keys.yaml"])
def test_a_task_survives_json_and_pickle(name: str) -> None:
    task = load_task(EXAMPLES / name)
    assert TaskConfig.model_validate_json(task.model_dump_json()) == task.without_secrets()
    assert TaskConfig.model_validate_json(task.model_dump_json(by_alias=True)) == task.without_secrets()
    assert pickle.loads(pickle.dumps(task)) == task


@pytest.mark.parametrize("name", ["source.yaml", "source_exported.yaml"])
def test_a_source_survives_json_and_pickle(name: str) -> None:
    source = load_source(EXAMPLES / name)
    assert SourceConfig.model_validate_json(source.model_dump_json()) == source.without_secrets()
    assert pickle.loads(pickle.dumps(source)) == source
