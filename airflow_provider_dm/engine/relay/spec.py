"""The specification of one relay process, as a JSON file without secrets (see config.job)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from airflow_provider_dm.engine.config.base import Strict
from airflow_provider_dm.engine.config.job import SecretRef, SourceSpec, SpecFile
from airflow_provider_dm.engine.mysql.location import Location


class SpoolSpec(Strict):
    """A task's private relay directory: the part of the log that the task still needs, and little more."""

    task: str
    limit_bytes: int = Field(gt=0)
    """Pulling pauses while the task has more unread bytes than this."""
    start: Location | None = None
    """Location at which an empty directory begins, if the metadata DB has no later need of the task."""
    until: Location | None = None
    """Location at which the run ends: FILE:POSITION of the newest sub-directory. Later events are not pulled."""
    reports: bool = True
    """False: the source's own relay runs too, and this one neither writes nor obeys its row in the metadata DB."""


class RelaySpec(SpecFile):
    """One source's relay. `source.relay_dir` is its directory, for this source only."""

    source: SourceSpec
    spool: SpoolSpec | None = None
    """None: the relay log serves all tasks of the source."""
    meta_url: SecretRef
    launcher_pid: int | None = None
    """The relay ends when this process has ended; None: it is independent."""
    until: Literal["stopped", "caught-up"] = "stopped"
    """caught-up: end when everything is pulled that the upstream had written when the relay started."""

    def secrets(self) -> tuple[str, ...]:
        """Return the names of the secrets that the relay needs."""
        password = self.source.endpoint.password
        return (self.meta_url.env, *((password.env,) if password is not None else ()))
