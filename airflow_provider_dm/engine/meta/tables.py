"""The tables of the metadata DB as this release reads and writes them; `migrations/` creates them.

    dm_lease            one row for each task and source: the run that may write, and until when
    dm_run              one row for each run of an app: stage, heartbeat, progress, result or error
    dm_subtask_status   one row for each task and source: stage, error, requested stage, the log that it still needs
    dm_binlog_operator  decisions of `dmctl binlog skip, replace, inject` about locations of a source's log
    dm_ddl_lock         one row for each DDL that the sources of a merged table have to agree on
    dm_relay            one row for each source: the last report of its relay, and the requested stage

Their names differ from those of the tables in the target's meta-schema (dm_subtask, dm_frontier, ...), since both may
be in the same database. Times are microseconds of `clock.db_now`."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Boolean, Column, Connection, MetaData, String, Table, Text, inspect, text
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeEngine

VERSION_TABLE: Final = "dm_meta_version"
SCHEMA_VERSION: Final = "0010"
"""The newest revision in migrations/versions."""

metadata = MetaData()


def schema_version(tx: Connection) -> str | None:
    """Return the revision of a metadata DB; None for a DB without our tables."""
    if not inspect(tx).has_table(VERSION_TABLE):
        return None
    return tx.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()


def name(length: int) -> TypeEngine[str]:
    """Return the type of a name: names that differ in case are different names, also on MySQL."""
    exact = mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin")
    return String(length).with_variant(exact, "mysql", "mariadb")


def document() -> TypeEngine[str]:
    """Return the type of JSON as text: no dialect may reorder or rewrite it. MySQL's TEXT is limited to 64 KiB."""
    return Text().with_variant(mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb")


lease = Table(
    "dm_lease",
    metadata,
    Column("task", name(128), primary_key=True),
    Column("source", name(32), primary_key=True),
    Column("generation", BigInteger, nullable=False),
    Column("identity", name(1024), nullable=False),
    Column("attempt", name(255), nullable=False),
    Column("host", name(255), nullable=False),
    Column("process", name(255), nullable=False),
    Column("acquired_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
)

run = Table(
    "dm_run",
    metadata,
    Column("run_id", name(255), primary_key=True),
    Column("task", name(128), nullable=False),
    Column("app", name(64), nullable=False),
    Column("identity", name(1024), nullable=False),
    Column("attempt", name(255), nullable=False),
    Column("host", name(255), nullable=False),
    Column("process", name(255), nullable=False),
    Column("stage", name(16), nullable=False),
    Column("progress", document(), nullable=False),
    Column("result", document()),
    Column("error", document()),
    Column("started_at", BigInteger, nullable=False),
    Column("heartbeat_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
)

subtask = Table(
    "dm_subtask_status",
    metadata,
    Column("task", name(128), primary_key=True),
    Column("source", name(32), primary_key=True),
    Column("unit", name(16), nullable=False),
    Column("stage", name(16), nullable=False),
    Column("needed", document()),
    Column("applied", document()),
    Column("updated_at", BigInteger, nullable=False),
    Column("error", document()),
    Column("error_at", document()),
    Column("desired", name(16)),
)

binlog_operator = Table(
    "dm_binlog_operator",
    metadata,
    Column("task", name(128), primary_key=True),
    Column("source", name(32), primary_key=True),
    Column("place_key", name(64), primary_key=True),
    Column("kind", name(16), nullable=False),
    Column("location", document()),
    Column("pattern", document()),
    Column("statements", document(), nullable=False),
    Column("state", name(16), nullable=False),
    Column("used_at", document()),
    Column("created_at", BigInteger, nullable=False),
)

ddl_lock = Table(
    "dm_ddl_lock",
    metadata,
    Column("task", name(128), primary_key=True),
    Column("lock_key", name(64), primary_key=True),
    Column("lock_id", name(512), nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("body", document(), nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

relay = Table(
    "dm_relay",
    metadata,
    Column("source", name(32), primary_key=True),
    Column("desired", name(16)),
    Column("stage", name(16)),
    Column("master", document()),
    Column("relay", document()),
    Column("sub_dir", name(255), nullable=False),
    Column("caught_up", Boolean, nullable=False),
    Column("error", document()),
    Column("pid", BigInteger),
    Column("host", name(255), nullable=False),
    Column("process", name(255), nullable=False),
    Column("directory", document()),
    Column("task", name(128), nullable=False),
    Column("heartbeat_at", BigInteger),
    Column("purge", document()),
)
