"""Jobs about test servers, as the launcher would write them: a JobSpec, a RelaySpec, and what is in them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from airflow_provider_dm.engine.config.job import EndpointSpec, JobSpec, SecretRef, SourceSpec
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.processes import Holder
from airflow_provider_dm.engine.relay.spec import RelaySpec
from testbed import Server

META_VARIABLE: Final = "DM_TEST_META_URL"
"""The environment variable with the URL of the metadata DB."""
META_URL: Final = SecretRef(env=META_VARIABLE)
HOLDER: Final = Holder(identity="test", attempt="1", host="here")
NOWHERE: Final = EndpointSpec(name="nobody's", host="192.0.2.1", port=1, user="nobody")


def endpoint_spec(
    name: str, server: Server, *, port: int = 0, session: Mapping[str, str] | None = None
) -> EndpointSpec:
    """Return a login at a server, or (`port`) at what stands before it."""
    return EndpointSpec(
        name=name, host=server.host, port=port or server.port, user=server.user, session=dict(session or {})
    )


def endpoint(name: str, server: Server) -> Endpoint:
    return endpoint_spec(name, server).resolve()


def source_spec(
    source_id: str, login: EndpointSpec = NOWHERE, relay_dir: Path | str = "/nowhere", **keys: Any
) -> SourceSpec:
    """`keys`: what the source's `source.yaml` has besides."""
    config = SourceConfig.model_validate({"source-id": source_id, **keys})
    return SourceSpec(config=config, endpoint=login, relay_dir=str(relay_dir))


def job_spec(
    task: Mapping[str, Any], sources: Sequence[SourceSpec], target: EndpointSpec = NOWHERE, **fields: Any
) -> JobSpec:
    """`task`: the content of a `task.yaml`; `fields`: of the job, besides."""
    return JobSpec.model_validate(
        {
            "run_id": "run",
            "app": "incremental_sync",
            "task": TaskConfig.model_validate(task),
            "sources": tuple(sources),
            "target": target,
            "meta_url": META_URL,
            "holder": HOLDER,
            **fields,
        }
    )


def relay_spec(source: SourceSpec, **fields: Any) -> RelaySpec:
    """Return a relay that ends with this process."""
    return RelaySpec(source=source, meta_url=META_URL, launcher_pid=os.getpid(), **fields)
