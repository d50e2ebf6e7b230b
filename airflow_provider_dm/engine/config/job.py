"""The specification of one run of a Spark app (or relay process), as a JSON file without secrets.

The launcher writes the file (mode 0600) and passes only its path; it passes passwords through a pipe, under names that
the file has (config.secrets). The app resolves them when it logs in, so no secret is in argv, environment, Spark conf,
XCom or this file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import Field

from airflow_provider_dm.engine.config.base import Strict
from airflow_provider_dm.engine.config.errors import SecretMissing
from airflow_provider_dm.engine.config.secrets import known
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import SubtaskConfig, TaskConfig
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret, Tls
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.processes import Holder

UNTIL_CAUGHT_UP: Final = "caught-up"
UNTIL_FOREVER: Final = "forever"


def place_of(until: str) -> Location | None:
    """Return the location that `until` names, in the newest sub-directory; None for "caught-up" and "forever".

    Raises InvalidLocation.
    """
    return None if until in (UNTIL_CAUGHT_UP, UNTIL_FOREVER) else Location.parse(until)


class SecretRef(Strict):
    """Reference to a secret: the name under which the process receives it."""

    env: str

    def resolve(self, wanted_by: str) -> Secret:
        """Return the secret; `wanted_by` is its owner in error messages. Raises SecretMissing."""
        try:
            return Secret(known[self.env])
        except KeyError:
            raise SecretMissing(self.env, wanted_by) from None


class EndpointSpec(Strict):
    """An `Endpoint` whose password is a reference."""

    name: str
    host: str
    port: int
    user: str
    password: SecretRef | None = None
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    use_tls: bool = False
    session: dict[str, str] = Field(default_factory=dict)

    def resolve(self) -> Endpoint:
        """Return the endpoint with its password. Raises SecretMissing."""
        tls = Tls(self.tls_ca, self.tls_cert, self.tls_key) if self.use_tls or self.tls_ca else None
        password = self.password.resolve(self.name) if self.password else Secret("")
        return Endpoint(self.name, self.host, self.port, self.user, password, tls, tuple(self.session.items()))


class SourceSpec(Strict):
    """One upstream of the job: its configuration (without password), its login, and the directory of its relay log."""

    config: SourceConfig
    endpoint: EndpointSpec
    relay_dir: str
    fallback_dir: str | None = None
    """Directory for a private log of the task while the relay log cannot serve it; None: the relay log must serve."""


class SpecFile(Strict):
    """The input file of a process: everything that its launcher specifies, except secrets."""

    @classmethod
    def read(cls, path: Path) -> Self:
        return cls.model_validate_json(path.read_text(encoding="utf-8"))

    def write(self, path: Path) -> None:
        """Write the spec to a file that only its owner can read."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(self.model_dump_json(indent=2))


class JobSpec(SpecFile):
    """The input of an app. `until` is "caught-up", "forever" or a location (`FILE:POSITION`)."""

    run_id: str
    app: Literal["full_migration", "incremental_sync", "verify"]
    task: TaskConfig
    sources: tuple[SourceSpec, ...]
    target: EndpointSpec
    meta_url: SecretRef
    holder: Holder
    until: str = UNTIL_CAUGHT_UP
    ship_ranges: bool = False
    """Send binlog bytes with the tasks: for clusters whose executors cannot read the relay directory."""
    launcher_pid: int | None = None
    """The app ends when this process has ended."""
    launched_after: dict[str, int] = Field(default_factory=dict)
    """The last generation at the launch, by source: if a run has claimed a newer one since, the app claims nothing."""

    def source(self, source_id: str) -> SourceSpec:
        """Return the source with this id. Raises KeyError."""
        return {source.config.source_id: source for source in self.sources}[source_id]

    def subtask(self, source_id: str) -> SubtaskConfig:
        """Return the work of one source, with the rules of its source.yaml if this run has the source.

        Raises InvalidInput, NotSupportedYet, InvalidLocation (a bad `meta`).
        """
        subtask = self.task.subtask(source_id)
        own = [source.config for source in self.sources if source.config.source_id == source_id]
        return subtask.with_source(own[0]) if own else subtask
