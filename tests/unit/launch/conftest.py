"""A job with secrets in it, as every test of this room needs one."""

from pathlib import Path

import pytest

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret
from airflow_provider_dm.launch.job import Job, Upstream, build_job, local_holder

SOURCE_PASSWORD, TARGET_PASSWORD, META_PASSWORD = "so-urce-pw", "ta-rget-pw", "me-ta-pw"


@pytest.fixture
def job(tmp_path: Path) -> Job:
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
    return build_job(
        app="incremental_sync",
        task=task,
        upstreams=[
            Upstream(
                source, Endpoint("one", "127.0.0.1", 3306, "dm", Secret(SOURCE_PASSWORD)), tmp_path / "relay" / "one"
            )
        ],
        target=Endpoint("target", "127.0.0.1", 4000, "dm", Secret(TARGET_PASSWORD)),
        meta_url=Secret(f"mysql+pymysql://dm:{META_PASSWORD}@127.0.0.1/dm"),
        launched_after={},
        holder=local_holder("shop", tmp_path),
    )
