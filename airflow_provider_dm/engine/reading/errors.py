"""Errors of reading the tables of a server, and of a load or a sync that cannot begin yet."""

from __future__ import annotations

from airflow_provider_dm.engine.errors import MIGRATE_AGAIN, DescribedError, DmError, Reaction, Scope, UpstreamError


class NotBegunYet(DescribedError):
    """A server, its relay or its log is not yet in the state that a load or a sync begins from."""

    code = "DM-7020"
    scope = Scope.UPSTREAM
    reaction = Reaction.RETRY


class SchemaChangedDuringCopy(UpstreamError):
    """The definition of a table has changed since the copy was planned."""

    source: str
    table: str
    reason: str

    code = "DM-7003"
    what = "{source}: {table} was changed while it was copied ({reason})."
    hint = f"Run no DDL on the table, and {MIGRATE_AGAIN}."


class SourceReadFailed(UpstreamError):
    """A SELECT failed with a transient error, for instance a lost connection."""

    source: str
    number: int
    reason: str

    code = "DM-7004"
    reaction = Reaction.RETRY
    what = "{source}: reading failed: {number} {reason}."
    hint = "Start the task again when the source answers: rows copied so far are kept."


class SourceRefused(UpstreamError):
    """A SELECT failed with a permanent error."""

    source: str
    number: int
    reason: str

    code = "DM-7005"
    what = "{source} refuses a SELECT: {number} {reason}."
    hint = "Correct the cause that the server names, then start again: rows copied so far are kept."


class EngineNotTransactional(DmError):
    """A table whose storage engine does not support transactions."""

    server: str
    table: str
    engine: str

    code = "DM-7012"
    what = "{table} on {server} has the engine {engine}, which does not support transactions."
    hint = "Change it to InnoDB, or leave the table out by block-allow-list."
