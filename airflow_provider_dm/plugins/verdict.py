"""The verdict on one source of a task: a level (the colour), a state (a word) and a reason (a sentence). Pure.

It reads the documents of `query-status` and `shard-ddl-lock`, so that page and command line never disagree.

    level     meaning
    bad       a user has to act
    warn      rows are late or held, or a user has paused it; it may resume automatically
    busy      it works towards being in sync
    good      it is in sync
    idle      nothing runs, and nothing failed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from airflow_provider_dm.engine.sync.progress import duration

IN_SYNC_SECONDS: Final = 30.0
"""The largest lag of a sync that is in sync. An epoch alone may take ten seconds."""

Json = Mapping[str, Any]


class VerdictLevel(StrEnum):
    GOOD = "good"
    IDLE = "idle"
    BUSY = "busy"
    WARN = "warn"
    BAD = "bad"


ORDER: Final = tuple(VerdictLevel)
"""From the best to the worst."""


@dataclass(frozen=True)
class SourceVerdict:
    """The state of one source of a task."""

    level: VerdictLevel
    state: str
    reason: str = ""

    def to_json(self) -> dict[str, str]:
        return {"level": self.level.value, "state": self.state, "reason": self.reason}


def verdict_of(subtask: Json, relay: Json | None, run: Json | None, locks: Sequence[Json] = ()) -> SourceVerdict:
    """Return the verdict on a source. `subtask`: an element of subTaskStatus; `relay`: relayStatus; `run`: the task's
    last run as `documents.run_json` shows it; `locks`: the task's locks in which the source takes part.
    """
    result = subtask.get("result") or {}
    errors, stage = result.get("errors") or [], subtask["stage"]
    if errors:
        return _failed(errors[0], subtask.get("resumesInSeconds"))
    for lock in locks:
        if lock["phase"] in ("conflict", "differs"):
            return SourceVerdict(
                VerdictLevel.BAD, "DDL conflict", f"The shards of {lock['ID']} have executed different DDL."
            )
    if stage == "Paused":
        return SourceVerdict(VerdictLevel.WARN, "Paused", "A user has paused it.")
    if stage == "Running":
        return _running(subtask, relay)
    error = (run or {}).get("error")
    if error:
        return SourceVerdict(VerdictLevel.BAD, "Failed", _message_of(error))
    at_work = run is not None and run["stage"] == "Running"
    if run is not None and at_work and not run["lives"] and stage != "Finished":
        silent = duration(run["heartbeatAgeSeconds"])
        reason = f"Its run has not reported for {silent}: its process has died, or its machine is unreachable."
        return SourceVerdict(VerdictLevel.BAD, "Lost", reason)
    if stage == "Finished":
        return SourceVerdict(VerdictLevel.IDLE, "Finished")
    sync = subtask.get("sync", {})
    if sync.get("heldBackSeconds") is not None:
        reason = f"For {duration(sync['heldBackSeconds'])}; no run of the task is working."
        return SourceVerdict(VerdictLevel.WARN, "Rows held back", _held_back(sync) if at_work else reason)
    if at_work and sync.get("secondsBehindMaster") is None:
        return SourceVerdict(VerdictLevel.BUSY, "Starting")
    if at_work:
        return SourceVerdict(VerdictLevel.IDLE, "Done", "It has reached the goal of this run; other sources have not.")
    return SourceVerdict(VerdictLevel.IDLE, "Not running" if stage == "Stopped" else "Not started")


def _failed(error: Json, resumes_in: float | None) -> SourceVerdict:
    if resumes_in is None:
        return SourceVerdict(VerdictLevel.BAD, "Paused by an error", _message_of(error))
    return SourceVerdict(
        VerdictLevel.WARN, "Retrying", f"{_message_of(error)} It resumes automatically in {duration(resumes_in)}."
    )


def _message_of(error: Json) -> str:
    """Return code and message without the workaround at its end, which the page shows separately."""
    return f"{error['ErrCode']}: {error['Message'].removesuffix(error['Workaround']).rstrip()}"


def _running(subtask: Json, relay: Json | None) -> SourceVerdict:
    """Return the verdict on a source whose run works."""
    if subtask["unit"] in ("Dump", "Load"):
        return SourceVerdict(VerdictLevel.BUSY, "Copying")
    sync = subtask.get("sync")
    if sync is None:
        return SourceVerdict(VerdictLevel.BUSY, "Running")
    lag = sync["secondsBehindMaster"]
    if sync["heldBackSeconds"] is not None or sync["unresolvedGroups"] or sync["contested_rows"]:
        return SourceVerdict(VerdictLevel.WARN, "Rows held back", _held_back(sync))
    if relay is not None and relay["stage"] not in ("Running", "New") and sync["binlogType"] == "local":
        state = relay["stage"].lower()
        return SourceVerdict(VerdictLevel.WARN, f"Relay {state}", f"The relay is {state}, so no new log arrives.")
    if lag is None:
        return SourceVerdict(VerdictLevel.BUSY, "Starting")
    if float(lag) <= IN_SYNC_SECONDS:
        return SourceVerdict(VerdictLevel.GOOD, "In sync")
    left = sync["remainingSeconds"]
    pace = f", {duration(left)} left at this pace" if left else ""
    return SourceVerdict(VerdictLevel.WARN, "Behind", f"{duration(float(lag))} behind{pace}.")


def _held_back(sync: Json) -> str:
    waits = [f"{group['target']} waits {group.get('waits') or 'for its DDL'}" for group in sync["unresolvedGroups"]]
    if sync["contested_rows"]:
        waits.append(f"{sync['contested_rows']:,} rows wait in merged tables")
    held = sync["heldBackSeconds"]
    return "; ".join(waits) + ("." if held is None else f", for {duration(held)}.")


def worst(levels: Sequence[VerdictLevel]) -> VerdictLevel:
    """Return the worst of these levels; IDLE if there are none."""
    return max(levels, key=ORDER.index, default=VerdictLevel.IDLE)
