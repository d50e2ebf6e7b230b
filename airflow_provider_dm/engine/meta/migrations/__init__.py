"""Alembic's environment and revisions; run by `engine.meta.migrate`."""
