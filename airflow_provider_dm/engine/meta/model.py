"""What the metadata DB knows, as frozen values. Times are the DB's clock; ages are measured by it while reading."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from airflow_provider_dm.engine.mysql.location import Location

Json = dict[str, Any]


class Stage(StrEnum):
    """The stage of a run, subtask or relay (DM's words)."""

    NEW = "New"
    RUNNING = "Running"
    PAUSED = "Paused"
    STOPPED = "Stopped"
    FINISHED = "Finished"


class Unit(StrEnum):
    """The work that a subtask is doing."""

    PRECHECK = "precheck"
    DUMP = "dump"
    LOAD = "load"
    RELAY = "relay"
    SYNC = "sync"
    VERIFY = "verify"


@dataclass(frozen=True)
class Holder:
    """The worker. Attempts of one piece of work share `identity`: a later one takes over from an earlier at once."""

    identity: str
    attempt: str
    host: str

    def __str__(self) -> str:
        return f"{self.identity} (attempt {self.attempt})"


@dataclass(frozen=True)
class Lease:
    """The right to write one subtask. `generation` is the fencing token: every transaction on the target checks it."""

    task: str
    source: str
    generation: int
    holder: Holder
    ttl_seconds: float


@dataclass(frozen=True)
class Run:
    """One execution of an app."""

    run_id: str
    task: str
    app: str
    holder: Holder
    stage: Stage
    stop_requested: bool
    started_at: datetime
    heartbeat_at: datetime
    heartbeat_age_seconds: float
    finished_at: datetime | None = None
    progress: Json = field(default_factory=dict)
    result: Json | None = None
    error: Json | None = None


@dataclass(frozen=True)
class SubtaskStatus:
    """One task on one source. The log from `needed` on must be kept; all before `applied` is in the target."""

    task: str
    source: str
    unit: Unit
    stage: Stage
    needed: Location | None
    applied: Location | None
    updated_at: datetime
    age_seconds: float


@dataclass(frozen=True)
class RelayStatus:
    """The last report of a relay process. The store sets `heartbeat_at` and `heartbeat_age_seconds` when reading."""

    source: str
    stage: Stage
    master: Location | None = None
    relay: Location | None = None
    sub_dir: str = ""
    caught_up: bool = False
    error: Json | None = None
    pid: int | None = None
    host: str = ""
    heartbeat_at: datetime | None = None
    heartbeat_age_seconds: float | None = None
