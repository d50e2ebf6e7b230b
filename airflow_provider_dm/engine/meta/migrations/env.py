"""The script that alembic executes, on the connection and inside the transaction of `migrate`."""

from alembic import context

from airflow_provider_dm.engine.meta.tables import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, version_table=VERSION_TABLE
)
context.run_migrations()
