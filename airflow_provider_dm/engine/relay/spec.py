"""What one relay process is asked to do, as a JSON file without secrets (see config.job)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import Field

from airflow_provider_dm.engine.config.job import SecretRef, SourceSpec
from airflow_provider_dm.engine.config.strict import Strict
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


class RelaySpec(Strict):
    """One source's relay. `source.relay_dir` is the directory itself, for this source alone."""

    source: SourceSpec
    spool: SpoolSpec | None = None
    """None: the relay log serves all tasks of the source."""
    meta_url: SecretRef
    launcher_pid: int | None = None
    """The relay ends when this process is gone; None: it lives on its own."""
    until: Literal["stopped", "caught-up"] = "stopped"
    """caught-up: end when everything is here that the upstream had written when the relay started."""

    @classmethod
    def read(cls, path: Path) -> RelaySpec:
        return cls.model_validate_json(path.read_text(encoding="utf-8"))

    def write(self, path: Path) -> None:
        """Write the spec to a file that only its owner can read."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(self.model_dump_json(indent=2))
