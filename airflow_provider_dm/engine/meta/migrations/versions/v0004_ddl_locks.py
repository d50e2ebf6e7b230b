"""What the sources of a task agree on before DDL of a merged table is run."""

from alembic import op
from sqlalchemy import BigInteger, Column, String, Text
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeEngine

from airflow_provider_dm.engine.meta.migrate import NoWayBack

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def name(length: int) -> TypeEngine[str]:
    exact = mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin")
    return String(length).with_variant(exact, "mysql", "mariadb")


def document() -> TypeEngine[str]:
    return Text().with_variant(mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb")


def upgrade() -> None:
    op.create_table(
        "dm_ddl_lock",
        Column("task", name(128), primary_key=True),
        Column("lock_key", name(64), primary_key=True),
        Column("version", BigInteger, nullable=False),
        Column("lock_id", name(512), nullable=False),
        Column("number", BigInteger, nullable=False),
        Column("body", document(), nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Column("updated_at", BigInteger, nullable=False),
        if_not_exists=True,
    )


def downgrade() -> None:
    """Refuse, before anything is dropped; alembic calls it for every revision that it shall undo."""
    raise NoWayBack(revision)
