"""The result of a sync: of one source as a value, and of all sources as the run's row and the launcher have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.shard.lock import WAITING_FOR_LOCK


@dataclass(frozen=True)
class SyncResult:
    """The outcome of one source's sync. `finished` False: it was asked to stop before its goal."""

    location: Location
    finished: bool
    epochs: int = 0
    transactions: int = 0
    changes: int = 0
    contested_rows: int = 0
    """Rows that wait for others to give their places in merged tables free."""
    ddl_applied: int = 0
    seconds: float = 0.0
    unresolved_groups: tuple[dict[str, Any], ...] = ()
    """Merged tables whose shards have made DDL that the target waits to make, as DM shows them."""


def result_json(results: Mapping[str, SyncResult], failed: Mapping[str, str], seconds: float) -> dict[str, Any]:
    """Return the result of a sync of several sources, by source. `failed`: the errors that have stopped others.

    Rows that are held back are neither lost nor applied: they wait for a shard's DDL, and the next run goes on.
    """
    held_back = {source: list(one.unresolved_groups) for source, one in results.items() if one.unresolved_groups}
    finished = not failed and all(one.finished for one in results.values())
    return {
        "status": "stopped" if not finished else WAITING_FOR_LOCK if held_back else "finished",
        "changes_applied": sum(one.changes for one in results.values()),
        "transactions": sum(one.transactions for one in results.values()),
        "ddl_applied": sum(one.ddl_applied for one in results.values()),
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
