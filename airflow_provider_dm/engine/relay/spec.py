"""What one relay process is asked to do, as a JSON file without secrets (see config.job)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from airflow_provider_dm.engine.config.base import Strict
from airflow_provider_dm.engine.config.job import SecretRef, SourceSpec, SpecFile
from airflow_provider_dm.engine.mysql.location import Location


class SpoolSpec(Strict):
    """A task's private relay directory: it holds what that task still needs, and not much more."""

    task: str
    limit_bytes: int = Field(gt=0)
    """Pulling waits while the task has more than this unread."""
    start: Location | None = None
    """Where an empty directory begins, if the metadata DB names no later need of the task."""
    until: Location | None = None
    """Where the run will end: FILE:POSITION of the newest sub-directory. Nothing is pulled behind that."""
    reports: bool = True
    """False: a spool beside the source's own relay, whose row in the metadata DB it neither writes nor obeys."""


class RelaySpec(SpecFile):
    """One source's relay. `source.relay_dir` is the directory itself, for this source alone."""

    source: SourceSpec
    spool: SpoolSpec | None = None
    """None: the relay log serves all tasks of the source."""
    meta_url: SecretRef
    launcher_pid: int | None = None
    """The relay ends when this process is gone; None: it lives on its own."""
    until: Literal["stopped", "caught-up"] = "stopped"
    """caught-up: end when everything is here that the upstream had written when the relay started."""
