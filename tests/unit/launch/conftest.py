"""A job with secrets in it, as every test of this room needs one."""

from pathlib import Path

import pytest

from airflow_provider_dm.engine.config.job import UNTIL_CAUGHT_UP
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret
from airflow_provider_dm.launch.inputs import Inputs
from airflow_provider_dm.launch.job import Job, Upstream, local_holder
from airflow_provider_dm.launch.spark_command import SparkSettings
from airflow_provider_dm.launch.supervisor import Supervisor

SOURCE_PASSWORD, TARGET_PASSWORD, META_PASSWORD = "so-urce-pw", "ta-rget-pw", "me-ta-pw"


@pytest.fixture
def job(tmp_path: Path, store: MetaStore) -> Job:
    task = TaskConfig.model_validate(
        {
            "name": "shop",
            "target-database": {"host": "127.0.0.1", "user": "dm", "password": TARGET_PASSWORD},
            "mysql-instances": [{"source-id": "one"}],
        }
    )
    source = SourceConfig.model_validate(
        {"source-id": "one", "from": {"host": "127.0.0.1", "user": "dm", "password": SOURCE_PASSWORD}}
    )
    login = Endpoint("one", "127.0.0.1", 3306, "dm", Secret(SOURCE_PASSWORD))
    inputs = Inputs(task, (source,), (login,), Endpoint("target", "127.0.0.1", 4000, "dm", Secret(TARGET_PASSWORD)))
    upstreams = (Upstream(source, login, tmp_path / "relay" / "one"),)
    url = Secret(f"mysql+pymysql://dm:{META_PASSWORD}@127.0.0.1/dm")
    supervisor = Supervisor(inputs, upstreams, store, url, local_holder("shop", tmp_path), SparkSettings())
    return supervisor.job("incremental_sync", UNTIL_CAUGHT_UP)
