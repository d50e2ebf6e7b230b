"""Errors of DDL on the shards of a merged table."""

from __future__ import annotations

from airflow_provider_dm.engine.errors import DmError, NotSupportedYet, Scope, UpstreamError


class ShardDdlNotSupported(NotSupportedYet):
    """A shard is renamed to a name that is routed to another table than the other shards."""

    code = "DM-6050"
    scope = Scope.UPSTREAM


class ShardDdlOutOfSequence(UpstreamError):
    source: str
    table: str
    mine: tuple[str, ...]
    other: str
    others: tuple[str, ...]
    target: str

    code = "DM-6051"
    what = (
        "{source}: detect inconsistent DDL sequence in the shards of {target}. {table} has executed: {mine}. {other} "
        "has executed as its DDL of that number: {others}."
    )
    hint = (
        "All shards have to execute the same DDL in the same order. If the difference does not matter, replace this "
        'shard\'s statement by that of the other shard: `dmctl binlog replace TASK -s SOURCE "…"`; or count it as '
        "executed for this shard only: `dmctl binlog skip TASK -s SOURCE`."
    )


class ShardDdlConflict(UpstreamError):
    lock: str
    number: int
    source: str
    mine: tuple[str, ...]
    other: str
    others: tuple[str, ...]

    code = "DM-6052"
    what = (
        "sharding ddls in ddl lock {lock} (number {number}) is different: {source} has executed {mine}; {other} has "
        "executed {others}."
    )
    hint = (
        "None of these statements was executed in the target. 1. Run `dmctl shard-ddl-lock TASK` to see them. 2. "
        "Choose the DDL to execute: `dmctl shard-ddl-lock unlock ID --owner SOURCE`, or execute it in the target "
        "yourself and add `--action skip`."
    )


class ShardDdlRunWithoutSource(UpstreamError):
    """A lock was resolved without a source, which then executed other DDL than the target."""

    lock: str
    number: int
    source: str
    mine: tuple[str, ...]
    decided: tuple[str, ...]

    code = "DM-6060"
    what = (
        "DDL number {number} of ddl lock {lock} was resolved without {source}: {decided}. {source} has executed {mine} "
        "instead."
    )
    hint = (
        "1. Make the change of the source in the target yourself, as far as you want it there. 2. Run `dmctl "
        "shard-ddl-lock unlock ID --action skip`: the DDL of the source counts as the decided DDL, and its rows are "
        "applied. 3. Run the task again. 4. If other sources then wait for a DDL that this source will not execute, "
        "run `dmctl shard-ddl-lock unlock ID --force-remove`."
    )


class LockRefuses(DmError):
    lock: str
    why: str

    code = "DM-8020"
    what = "the DDL lock {lock} is unchanged: {why}."
    hint = "Run `dmctl shard-ddl-lock` to see the lock's phase, owner and reports, then decide again."
