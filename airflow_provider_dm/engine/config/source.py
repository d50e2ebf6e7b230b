"""source.yaml: one upstream and how its relay log is kept. Defaults are DM's."""

from __future__ import annotations

from typing import Final, Literal, Self

from pydantic import Field, field_validator

from airflow_provider_dm.engine.config.base import DmModel, Seconds
from airflow_provider_dm.engine.config.database_config import DatabaseConfig
from airflow_provider_dm.engine.config.rule_models import FilterRule
from airflow_provider_dm.engine.errors import NotSupportedYet, raise_first

IN_A_CONNECTION: Final = (
    "enable-gtid",
    "enable-relay",
    "relay-dir",
    "relay-binlog-name",
    "relay-binlog-gtid",
    "server-id",
    "spool-limit-mb",
    "case-sensitive",
    "purge",
    "checker",
    "filters",
)
"""Keys that the extra of an Airflow connection of type dm_database holds; its login is the connection itself."""


class PurgeConfig(DmModel):
    """The rules for removing relay files that no task needs."""

    interval: int = Field(default=3600, ge=0)
    """Seconds between two checks; 0: never."""
    expires: int = Field(default=0, ge=0)
    """Hours; 0: files are not removed by age."""
    remain_space: int = Field(default=15, ge=0)
    """GB that should stay free; 0: files are not removed to free space."""


class CheckerConfig(DmModel):
    """The retries of a relay that lost its upstream, and of a sync."""

    check_enable: bool = True
    """False: a second failure in a row ends a relay, and any failure a sync."""
    check_interval: Seconds = 5.0
    """Without effect."""
    backoff_rollback: Seconds = 300.0
    """After this time without a failure, a sync's delay is reduced by one step; a relay begins with short delays."""
    backoff_max: Seconds = 300.0
    """Longest pause between two attempts."""
    backoff_min: Seconds = Field(default=1.0, gt=0)
    """First pause."""
    backoff_jitter: bool = True
    """True: half of each pause is random."""
    backoff_factor: float = Field(default=2.0, ge=1)
    """Factor by which each pause is longer than the previous one."""


class SourceConfig(DmModel):
    """One upstream. Without `from` the login is the Airflow connection whose id is the source-id."""

    source_id: str = Field(min_length=1, max_length=32)
    """Name of the source."""
    enable: bool = True
    """`false` is refused."""
    from_: DatabaseConfig | None = Field(default=None, validation_alias="from", serialization_alias="from")
    """The server."""
    flavor: Literal["", "mysql", "mariadb"] = ""
    """Empty: determined by a query to the server."""
    server_id: int = Field(default=0, ge=0, le=4294967295)
    """The server id of our replica connection; 0: chosen automatically."""
    enable_gtid: bool = False
    """True: locations are found by GTID sets, so the source may fail over to another server."""
    enable_relay: bool = False
    """True: one relay log for all tasks. False: each task pulls a private log."""
    relay_dir: str = ""
    """Directory of the relay log; empty: below the work directory."""
    relay_binlog_name: str = ""
    """File at which a new relay log begins; empty: the oldest that a task needs."""
    relay_binlog_gtid: str = ""
    """GTID set at which a new relay log begins."""
    spool_limit_mb: int = Field(default=4096, ge=1)
    """Extension: limit, in MiB, for a task's private log (without `enable-relay`) that the task has not applied yet."""
    case_sensitive: bool = False
    """True: the same as `case-sensitive` of a task, for this source."""
    purge: PurgeConfig = PurgeConfig()
    """Rules for removing relay files."""
    checker: CheckerConfig = CheckerConfig()
    """Rules for retries."""
    filters: tuple[FilterRule, ...] = ()
    """Rules that leave out DDL and changes of rows, for every task of the source."""
    charset: str = ""
    meta_dir: str = ""
    auto_fix_gtid: bool | None = None
    tracer: dict[str, object] = Field(default_factory=dict, exclude=True, repr=False)
    """Without effect."""

    @field_validator("relay_binlog_name")
    @classmethod
    def _a_file_not_a_path(cls, name: str) -> str:
        if "/" in name or "\\" in name:
            raise ValueError("it is a path and not the name of a binlog file")
        return name

    def without_secrets(self) -> Self:
        """Return a copy without the password, as a JobSpec carries it."""
        return self.model_copy(update={"from_": self.from_.without_secrets() if self.from_ else None})

    def unsupported(self) -> tuple[NotSupportedYet, ...]:
        """Return the settings in this file that this release does not support."""
        where = f"source {self.source_id!r}"
        remedy = "Set enable: true to use it."
        off = () if self.enable else (NotSupportedYet("a source that is switched off", where, remedy),)
        return (*off, *(self.from_.unsupported(where) if self.from_ else ()))

    def require_supported(self) -> None:
        """Raise the first of `unsupported`, if there is one."""
        raise_first(self.unsupported())
