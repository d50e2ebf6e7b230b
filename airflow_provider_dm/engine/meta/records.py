"""Records of the metadata DB as frozen values. Times are by the DB's clock; ages are measured by it at the read."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypeAlias

from airflow_provider_dm.engine.config.pattern import Pattern
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.processes import Holder

Json = dict[str, Any]

RESUMES_IN_SECONDS: Final = "ResumesInSeconds"
"""Key in a subtask's error if the sync will resume automatically: the seconds until then."""
SPARK_UI: Final = "spark_ui"
"""Key in a run's progress, next to its sources: the address of Spark's web UI, if it is enabled."""


class Stage(StrEnum):
    """The stage of a run, subtask or relay (DM's words)."""

    NEW = "New"
    RUNNING = "Running"
    PAUSED = "Paused"
    STOPPED = "Stopped"
    FINISHED = "Finished"


class Unit(StrEnum):
    """The work that a subtask is doing."""

    LOAD = "load"
    SYNC = "sync"


@dataclass(frozen=True)
class Lease:
    """The right to write to one subtask. `generation` is the fencing token that every target transaction checks."""

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
    started_at: datetime
    heartbeat_at: datetime
    heartbeat_age_seconds: float
    finished_at: datetime | None = None
    progress: Json = field(default_factory=dict)
    result: Json | None = None
    error: Json | None = None


@dataclass(frozen=True)
class SubtaskStatus:
    """The status of a task on one source. The log from `needed` on must be kept; the target has all before
    `applied`.
    """

    task: str
    source: str
    unit: Unit
    stage: Stage
    needed: Location | None
    applied: Location | None
    updated_at: datetime
    error: Json | None = None
    """The error that paused it (`errors.describe`), with `RESUMES_IN_SECONDS` if the sync resumes automatically."""
    error_at: Location | None = None
    """The beginning of the transaction whose DDL paused it; None if the cause was not a DDL."""
    desired: Stage | None = None
    """The stage that a user requested: Running, Paused or Stopped; None without a request."""


class OperatorKind(StrEnum):
    """Action at a location of the log, in DM's words."""

    SKIP = "skip"
    REPLACE = "replace"
    INJECT = "inject"


class OperatorState(StrEnum):
    WAITING = "waiting"
    USED = "used"  # bound to one location; if the run dies there, the next run uses it again
    PASSED = "passed"  # everything up to its location is in the target; without `used_at` it was never used


@dataclass(frozen=True)
class SqlPattern:
    """The next DDL in whose text the regular expression matches anywhere."""

    text: str

    def matches(self, sql: str) -> bool:
        """Return True if the pattern matches a statement. Raises InvalidPattern.

        >>> SqlPattern(r"(?i)drop\\s+column c\\b").matches("ALTER TABLE t DROP COLUMN c")
        True
        """
        return Pattern.compile(f"~{self.text}", case_sensitive=True).matches(sql)

    def __str__(self) -> str:
        return f"the next DDL that matches {self.text}"


OperatorPlace: TypeAlias = Location | SqlPattern


@dataclass(frozen=True)
class Operator:
    """A user's decision about one location of a source's log, used once. A later one for the same location replaces
    it."""

    task: str
    source: str
    kind: OperatorKind
    place: OperatorPlace
    statements: tuple[str, ...] = ()
    """DDL for the target, with the source's names; empty for `skip`."""
    state: OperatorState = OperatorState.WAITING
    used_at: Location | None = None
    """The transaction to which it is bound."""
    created_at: datetime | None = None


def place_key(place: OperatorPlace) -> str:
    """Return the key of an operator: short text, equal for equal places."""
    match place:
        case Location():
            return place.sort_key
        case SqlPattern(text):
            return "~" + hashlib.sha256(text.encode()).hexdigest()[:40]


@dataclass(frozen=True)
class RelayStatus:
    """The last report of a relay process. The store sets `heartbeat_at` and `heartbeat_age_seconds` when reading.

    `process`: the relay's process, as `processes.identity_of` returns it; `pid` None: it has ended. `directory`: the
    folder on `host` into which the relay writes. `task`: the only task that the relay serves (`enable-relay: false`);
    empty: it serves all tasks of the source.
    """

    source: str
    stage: Stage
    master: Location | None = None
    relay: Location | None = None
    sub_dir: str = ""
    caught_up: bool = False
    error: Json | None = None
    pid: int | None = None
    host: str = ""
    process: str = ""
    directory: str = ""
    task: str = ""
    heartbeat_at: datetime | None = None
    heartbeat_age_seconds: float | None = None
