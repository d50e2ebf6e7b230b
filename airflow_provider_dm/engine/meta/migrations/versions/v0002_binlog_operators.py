"""What is to be done at places of a source's log; what has paused a subtask, and where."""

from alembic import op
from sqlalchemy import BigInteger, Column, String, Text, inspect
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeEngine

from airflow_provider_dm.engine.meta.migrate import NoWayBack

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def name(length: int) -> TypeEngine[str]:
    exact = mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin")
    return String(length).with_variant(exact, "mysql", "mariadb")


def document() -> TypeEngine[str]:
    return Text().with_variant(mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb")


def upgrade() -> None:
    op.create_table(
        "dm_binlog_operator",
        Column("task", name(128), primary_key=True),
        Column("source", name(32), primary_key=True),
        Column("place_key", name(64), primary_key=True),
        Column("version", BigInteger, nullable=False),
        Column("kind", name(16), nullable=False),
        Column("location", document()),
        Column("pattern", document()),
        Column("statements", document(), nullable=False),
        Column("state", name(16), nullable=False),
        Column("used_at", document()),
        Column("created_at", BigInteger, nullable=False),
        Column("updated_at", BigInteger, nullable=False),
        if_not_exists=True,
    )
    # No ADD COLUMN IF NOT EXISTS on MySQL, where each of these commits by itself.
    there = {column["name"] for column in inspect(op.get_bind()).get_columns("dm_subtask_status")}
    for column in ("error", "error_at"):
        if column not in there:
            op.add_column("dm_subtask_status", Column(column, document()))


def downgrade() -> None:
    """Refuse, before anything is dropped; alembic calls it for every revision that it shall undo."""
    raise NoWayBack(revision)
