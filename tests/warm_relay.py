"""The first work of every relay of a test, done once in the process from which all are forked (`forked`)."""

from sqlalchemy import create_engine, text

from airflow_provider_dm.engine.relay.spec import RelaySpec


def warm() -> None:
    """Read specs and speak to a metadata DB on SQLite, as far as that leaves nothing behind."""
    RelaySpec.model_rebuild()
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        connection.execute(text("SELECT 1"))
    engine.dispose()
