"""The errors of the full migration."""

from __future__ import annotations

from airflow_provider_dm.engine.errors import DmError, DownstreamError, Reaction, UpstreamError


class ReadLockNotGranted(UpstreamError):
    """Open transactions or long statements on the source prevented the read lock in time."""

    source: str
    waited_for: str
    seconds: float

    code = "DM-7001"
    reaction = Reaction.RETRY
    what = "{source}: the read lock of the snapshots was not granted in {seconds:.0f} s, waiting for {waited_for}."
    hint = (
        "End transactions that stay open or hang in commit (also prepared XA transactions), long-running statements "
        "and locks. With `consistency: auto`, an account with RELOAD (MySQL: and PROCESS) does not have to wait for "
        "open transactions."
    )


class ReadLockNotPermitted(UpstreamError):
    """The account may not take the momentary lock of `consistency`."""

    source: str
    privilege: str
    reason: str

    code = "DM-7002"
    what = "{source}: the privilege {privilege} is missing ({reason})."
    hint = (
        "Grant it to the replication account, or choose the other lock by `consistency` (auto uses either). MariaDB: "
        "`consistency: snapshot` needs no lock."
    )


class DuplicateDuringCopy(DownstreamError):
    """A row of the copy has the key of a row that is already in the target."""

    source: str
    table: str
    target: str
    key: str
    siblings: tuple[str, ...]

    code = "DM-7006"
    what = (
        "{source}: a row of {table} has the same value of the unique key {key} as a row that is already in {target}, "
        "which receives the rows of: {siblings}."
    )
    hint = (
        "Nothing was replaced. Either another of these tables has a row of this key: make the keys distinct, or route "
        "to different tables. Or the source has no such key, or the key's collation in the target compares more values "
        "as equal: change or drop the key there. Or another program has written the row: delete it. If rows are meant "
        "to overwrite each other, set the loader's on-duplicate-logical to replace."
    )


class TargetNotEmpty(DownstreamError):
    """A table that is to be filled already has rows."""

    target: str
    sources: tuple[str, ...]

    code = "DM-7013"
    what = "the target table {target} already has rows, none of which this task has copied."
    hint = (
        "Empty it, or route to another table. If the copy is meant to overwrite rows with the same key, set the "
        "loader's on-duplicate-logical to replace; rows that only the target has are then kept."
    )


class NotGathered(DmError):
    source: str
    reason: str

    code = "DM-7027"
    reaction = Reaction.RETRY
    what = "{source}: the snapshots could not be opened at one location: {reason}."
    hint = (
        "Check that Spark has free slots for the readers, that the source accepts three connections of each reader, "
        "and that it answers the driver and the readers within a few tenths of a second. The next attempt may succeed."
    )


class SnapshotLost(UpstreamError):
    """A reader has lost its snapshot. Other readers, or the next round, copy the rest."""

    source: str
    reason: str

    code = "DM-7028"
    reaction = Reaction.RETRY
    what = "{source}: a snapshot has ended before its round: {reason}."
    hint = "Check the source's limits for idle sessions, and DDL; the copy continues by itself."


class TablesWait(UpstreamError):
    """All tables that are left to copy are in the middle of a DDL."""

    source: str
    tables: str

    code = "DM-7029"
    reaction = Reaction.RETRY
    what = (
        "{source}: {tables} cannot be copied yet: other shards have to execute the same DDL first, an online DDL tool "
        "has renamed them temporarily, or they are altered continuously."
    )
    hint = (
        "Execute the DDL on all shards (`dmctl shard-ddl-lock TASK` shows the missing ones), and run the load with all "
        "sources of these tables, so that their logs are read; or let the tool finish. Then run the load again."
    )
