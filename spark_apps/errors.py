"""Errors of Spark itself."""

from __future__ import annotations

from airflow_provider_dm.engine.errors import DmError, Reaction


class TasksCrashed(DmError):
    """A Spark job failed: a process died repeatedly, or Spark is shutting down."""

    reason: str

    code = "DM-6091"
    reaction = Reaction.RETRY
    what = "a Spark job failed: {reason}."
    hint = "Check whether executors ran out of memory. Committed work is kept, the rest is repeated."


class SparkNotStarted(DmError):
    """Spark did not start, or its master accepts no app."""

    master: str
    reason: str

    code = "DM-6092"
    reaction = Reaction.RETRY
    what = "Spark cannot be started with the master {master}: {reason}."
    hint = "Check that the master runs and can be reached from this machine; the task is unchanged."
