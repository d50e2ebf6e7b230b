"""All tables. Until the first release this revision is edited in place, with a new number.

Without a downgrade: a lease's generation that was issued again would let a process write that has lost its lease.
"""

from alembic import op

from airflow_provider_dm.engine.meta.tables import metadata

revision = "0010"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    metadata.create_all(op.get_bind())  # existing tables stay: MySQL commits each CREATE TABLE
