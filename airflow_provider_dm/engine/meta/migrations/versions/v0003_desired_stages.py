"""The stage that people want a subtask to have."""

from alembic import op
from sqlalchemy import Column, String, inspect
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeEngine

from airflow_provider_dm.engine.meta.migrate import NoWayBack

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def name(length: int) -> TypeEngine[str]:
    exact = mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin")
    return String(length).with_variant(exact, "mysql", "mariadb")


def upgrade() -> None:
    # No ADD COLUMN IF NOT EXISTS on MySQL, where it commits by itself.
    there = {column["name"] for column in inspect(op.get_bind()).get_columns("dm_subtask_status")}
    if "desired" not in there:
        op.add_column("dm_subtask_status", Column("desired", name(16)))


def downgrade() -> None:
    """Refuse, before anything is dropped; alembic calls it for every revision that it shall undo."""
    raise NoWayBack(revision)
