"""All tables. Until the first release this revision is edited in place, with a new number."""

from alembic import op

from airflow_provider_dm.engine.meta.errors import NoWayBack
from airflow_provider_dm.engine.meta.tables import metadata

revision = "0008"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    metadata.create_all(op.get_bind())  # existing tables stay: MySQL commits each CREATE TABLE


def downgrade() -> None:
    """Refuse, before anything is dropped; alembic calls this for every revision to be undone."""
    raise NoWayBack(revision)
