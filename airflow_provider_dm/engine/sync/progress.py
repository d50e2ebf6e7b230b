"""How far a sync is, for people: counters that the loop sets and the beat reads from its own thread."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_dm.engine.mysql.location import Location


@dataclass
class SyncProgress:
    """The progress of one sync. Each field is replaced as a whole, so a reader sees some true recent state of each."""

    location: Location | None = None
    """Everything before is in the target."""
    goal: Location | None = None
    epochs: int = 0
    transactions: int = 0
    changes: int = 0
    rows: int = 0
    """Rows that the target was asked to write or delete: fewer than changes, as those of one key are folded."""
    ddl_applied: int = 0
    """DDL statements that the target's tables have followed."""
    ddl_at: Location | None = None
    """Where the DDL statement begins that is being followed: what an error of now is about."""
    newest_timestamp: int | None = None
    """Commit time, in seconds since 1970, of the newest transaction applied."""
    caught_up: bool = False
    """The last look found nothing more in the relay log."""
    catching_up: bool = False
    """Chunks of the full load overlap the log here: rows are replaced, counts are not checked."""
    contested_rows: int = 0
    """Rows that wait until rows of other source tables give their places in merged tables free."""
    unresolved_groups: list[dict[str, Any]] = field(default_factory=list)
    """Merged tables whose shards have made DDL that the target waits to make (DM's unresolvedGroups)."""
    resuming: str = ""
    """What has failed, while the sync waits to go on by itself."""
    binlog_type: str = "local"
    """DM's word for where the log is read: "local" (the source's relay log) or "remote" (pulled for this task)."""

    def lag_seconds(self, now: float | None = None) -> float | None:
        """Return the age of the newest transaction applied; 0 when there is nothing more; None before the first. It
        grows while anything blocks."""
        if self.caught_up:
            return 0.0
        if self.newest_timestamp is None:
            return None
        return max(0.0, (time.time() if now is None else now) - self.newest_timestamp)

    def to_json(self) -> dict[str, Any]:
        """Return the progress as the run row has it."""
        return {
            "location": str(self.location) if self.location else None,
            "goal": str(self.goal) if self.goal else None,
            "epochs": self.epochs,
            "transactions": self.transactions,
            "changes_applied": self.changes,
            "rows_written": self.rows,
            "ddl_applied": self.ddl_applied,
            "lag_seconds": self.lag_seconds(),
            "caught_up": self.caught_up,
            "catch_up_mode": self.catching_up,
            "contested_rows": self.contested_rows,
            "unresolved_groups": self.unresolved_groups,
            "resuming": self.resuming,
            "binlog_type": self.binlog_type,
        }
