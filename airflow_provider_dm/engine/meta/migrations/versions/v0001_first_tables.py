"""Leases, runs, subtasks, relays."""

from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, Float, String, Text
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeEngine

from airflow_provider_dm.engine.meta.migrate import NoWayBack

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def name(length: int) -> TypeEngine[str]:
    exact = mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin")
    return String(length).with_variant(exact, "mysql", "mariadb")


def document() -> TypeEngine[str]:
    return Text().with_variant(mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb")


def upgrade() -> None:
    op.create_table(
        "dm_lease",
        Column("task", name(128), primary_key=True),
        Column("source", name(32), primary_key=True),
        Column("version", BigInteger, nullable=False),
        Column("generation", BigInteger, nullable=False),
        Column("identity", name(1024), nullable=False),
        Column("attempt", name(255), nullable=False),
        Column("host", name(255), nullable=False),
        Column("process", name(255), nullable=False),
        Column("ttl_seconds", Float, nullable=False),
        Column("acquired_at", BigInteger, nullable=False),
        Column("renewed_at", BigInteger, nullable=False),
        Column("expires_at", BigInteger, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "dm_run",
        Column("run_id", name(255), primary_key=True),
        Column("version", BigInteger, nullable=False),
        Column("task", name(128), nullable=False),
        Column("app", name(64), nullable=False),
        Column("identity", name(1024), nullable=False),
        Column("attempt", name(255), nullable=False),
        Column("host", name(255), nullable=False),
        Column("process", name(255), nullable=False),
        Column("stage", name(16), nullable=False),
        Column("stop_requested", Boolean, nullable=False),
        Column("progress", document(), nullable=False),
        Column("result", document()),
        Column("error", document()),
        Column("started_at", BigInteger, nullable=False),
        Column("heartbeat_at", BigInteger, nullable=False),
        Column("finished_at", BigInteger),
        if_not_exists=True,
    )
    op.create_table(
        "dm_subtask_status",
        Column("task", name(128), primary_key=True),
        Column("source", name(32), primary_key=True),
        Column("version", BigInteger, nullable=False),
        Column("unit", name(16), nullable=False),
        Column("stage", name(16), nullable=False),
        Column("needed", document()),
        Column("applied", document()),
        Column("updated_at", BigInteger, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "dm_relay",
        Column("source", name(32), primary_key=True),
        Column("version", BigInteger, nullable=False),
        Column("desired", name(16)),
        Column("stage", name(16)),
        Column("master", document()),
        Column("relay", document()),
        Column("sub_dir", name(255), nullable=False),
        Column("caught_up", Boolean, nullable=False),
        Column("error", document()),
        Column("pid", BigInteger),
        Column("host", name(255), nullable=False),
        Column("heartbeat_at", BigInteger),
        if_not_exists=True,
    )


def downgrade() -> None:
    """Refuse, before anything is dropped; alembic calls it for every revision that it shall undo."""
    raise NoWayBack(revision)
