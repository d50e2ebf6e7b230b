"""The job of one app (`Supervisor.job`) and its parts: sources, holder, run id."""

from __future__ import annotations

import getpass
import hashlib
import os
import socket
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from airflow_provider_dm.engine.config.job import JobSpec, SourceSpec, place_of
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.processes import Holder
from airflow_provider_dm.engine.relay.spec import SpoolSpec
from airflow_provider_dm.launch.secrets import PassedSecrets

AppName = Literal["full_migration", "incremental_sync", "verify"]


@dataclass(frozen=True)
class Upstream:
    """One source for the launcher: configuration, endpoint, and the directory of its relay log."""

    config: SourceConfig
    endpoint: Endpoint
    relay_dir: Path
    fallback_dir: Path | None = None
    """The directory in which a sync may pull what the relay log cannot serve; None: it may not."""
    spool: SpoolSpec | None = None
    """The limit of a relay log that only this task reads; None: all tasks of the source share it."""

    @property
    def source_id(self) -> str:
        return self.config.source_id


@dataclass(frozen=True)
class Job:
    """The description of a run, and the secrets that it refers to by name."""

    spec: JobSpec
    secrets: PassedSecrets = field(repr=False)


def source_spec(upstream: Upstream, secrets: PassedSecrets) -> SourceSpec:
    """Return a source without its password, which `secrets` then holds. Also the input of a relay process."""
    return SourceSpec(
        config=upstream.config.without_secrets(),
        endpoint=secrets.endpoint("SOURCE", upstream.endpoint),
        relay_dir=str(upstream.relay_dir),
        fallback_dir=str(upstream.fallback_dir) if upstream.fallback_dir is not None else None,
    )


def checked_until(until: str) -> str:
    """Return `until` in canonical form. Raises InvalidLocation."""
    place = place_of(until)
    return until if place is None else str(place)


def new_run_id(task: str, app: str) -> str:
    """Return a globally unique id of at most 64 characters that begins with the names of task and app."""
    return f"{task[:30]}.{app}.{uuid.uuid4().hex[:12]}"


def local_holder(task: str, work_root: Path) -> Holder:
    """Return the holder of this work directory's leases: a rerun takes over its own lease immediately."""
    host = socket.gethostname()
    user = os.environ.get("USER") or getpass.getuser()
    place = hashlib.sha256(f"{work_root}\0{task}".encode()).hexdigest()[:12]
    identity = f"dmctl:{user}@{host}:{place}"
    return Holder(identity=identity, attempt=uuid.uuid4().hex[:12], host=host)
