"""The result of a sync: a value for one source, and JSON for all sources of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.shard.lock import WAITING_FOR_LOCK


@dataclass(frozen=True)
class SyncResult:
    """The outcome of one source's sync. `finished` False: a request stopped it before its goal."""

    location: Location
    finished: bool
    epochs: int = 0
    transactions: int = 0
    changes: int = 0
    contested_rows: int = 0
    """Rows that wait for a place in a merged table that a row of another source table has."""
    ddl_applied: int = 0
    seconds: float = 0.0
    unresolved_groups: tuple[dict[str, Any], ...] = ()
    """Merged tables with a shard DDL that is not executed in the target yet, in DM's form."""


def result_json(results: Mapping[str, SyncResult], failed: Mapping[str, str], seconds: float) -> dict[str, Any]:
    """Return the result of a sync of several sources. `failed`: the errors of the sources that an error has stopped.

    Held-back rows do not make a sync unfinished: they wait for the DDL of another shard, and the next run applies them.
    """
    held_back = {source: list(one.unresolved_groups) for source, one in results.items() if one.unresolved_groups}
    finished = not failed and all(result.finished for result in results.values())
    return {
        "status": "stopped" if not finished else WAITING_FOR_LOCK if held_back else "finished",
        "changes_applied": sum(result.changes for result in results.values()),
        "transactions": sum(result.transactions for result in results.values()),
        "ddl_applied": sum(result.ddl_applied for result in results.values()),
        "seconds": round(seconds, 3),
        "unresolved_groups": held_back,
        "failed": dict(failed),
        "sources": {
            source: {
                "location": str(one.location),
                "finished": one.finished,
                "epochs": one.epochs,
                "transactions": one.transactions,
                "changes_applied": one.changes,
                "contested_rows": one.contested_rows,
                "ddl_applied": one.ddl_applied,
                "seconds": one.seconds,
            }
            for source, one in results.items()
        },
    }
