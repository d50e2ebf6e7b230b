"""What alembic executes: on the connection that `migrate` hands over, inside its transaction."""

from alembic import context

from airflow_provider_dm.engine.meta.tables import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
)
context.run_migrations()
