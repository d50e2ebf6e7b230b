"""Notifiers, for callbacks of DAGs and tasks."""
