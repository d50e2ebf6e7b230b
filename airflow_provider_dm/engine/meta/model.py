"""What the metadata DB knows, as frozen values. Times are the DB's clock; ages are measured by it while reading."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypeAlias

from airflow_provider_dm.engine.config.pattern import Pattern
from airflow_provider_dm.engine.mysql.location import Location

Json = dict[str, Any]

RESUMES_IN_SECONDS: Final = "ResumesInSeconds"
"""The key of a subtask's error where that passes by itself: how long the sync waits before it goes on."""


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
    process: str = ""
    """The process that works, as `processes.this_process` returns it; empty where it is unknown."""

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
    error: Json | None = None
    """What has paused it (`errors.describe`); with `RESUMES_IN_SECONDS` where it goes on by itself."""
    error_at: Location | None = None
    """The beginning of the transaction whose DDL has paused it; None where it was something else."""
    desired: Stage | None = None
    """The stage that people want it to have: Running, Paused or Stopped; None: nobody has said anything."""


class OperatorKind(StrEnum):
    """Deed at a place of the log, in DM's words."""

    SKIP = "skip"
    REPLACE = "replace"
    INJECT = "inject"


class OperatorState(StrEnum):
    WAITING = "waiting"
    USED = "used"  # bound to one place for good; should the run die there, the next one uses it again
    PASSED = "passed"  # everything up to its place is in the target; without `used_at` nothing was found there


@dataclass(frozen=True)
class SqlPattern:
    """The next DDL whose text the regular expression matches anywhere."""

    text: str

    def matches(self, sql: str) -> bool:
        """Tell whether a statement is meant. Raises InvalidPattern.

        >>> SqlPattern(r"(?i)drop\\s+column c\\b").matches("ALTER TABLE t DROP COLUMN c")
        True
        """
        return Pattern.compile(f"~{self.text}", case_sensitive=True).matches(sql)

    def __str__(self) -> str:
        return f"the next DDL that matches {self.text}"


Place: TypeAlias = Location | SqlPattern


@dataclass(frozen=True)
class Operator:
    """Order of a person for one place of a source's log, for one time. Of two for one place the later one counts."""

    task: str
    source: str
    kind: OperatorKind
    place: Place
    statements: tuple[str, ...] = ()
    """DDL for the target with the source's names; none for `skip`."""
    state: OperatorState = OperatorState.WAITING
    used_at: Location | None = None
    """The transaction that it was bound to."""
    created_at: datetime | None = None


def place_key(place: Place) -> str:
    """Return the text by which an operator is found again: short, and the same for the same place."""
    match place:
        case Location():
            return place.sort_key
        case SqlPattern(text):
            return "~" + hashlib.sha256(text.encode()).hexdigest()[:40]


@dataclass(frozen=True)
class RelayStatus:
    """The last report of a relay process. The store sets `heartbeat_at` and `heartbeat_age_seconds` when reading.

    `process`: the relay's process, as `processes.identity_of` returns it; `pid` None: it has ended. `directory`: the
    folder on `host` into which the relay writes. `task`: the only task that it pulls for
    (`enable-relay: false`); empty: it serves all tasks of the source.
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
