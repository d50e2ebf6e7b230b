"""What a source does next about the DDL whose turn it is in one merged table: a decision, from what is known alone.

    the first of these that holds                              turn
    rows that were held back are not all applied               RESYNC
    a shard of the source has not made the DDL, or none has    SHARDS
    the target has it already, or a text that a person has
    taken for it                                               RESOLVE
    the lock does not know that this source has come to it     REPORT
    sources have made different DDL                            CONFLICT
    the target has run another DDL under its number            DIFFERS
    a source has not reported                                  SOURCES
    another source is to run it                                OWNER
    else                                                       EXECUTE

Nothing is remembered between two decisions, so whoever takes over from a process that has died goes on where it was.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.shard.group import Group, due
from airflow_provider_dm.engine.shard.lock import Ddls, Lock, Phase


class Turn(StrEnum):
    """Next step of a source, or what it waits for."""

    RESYNC = "resync"
    SHARDS = "shards"
    RESOLVE = "resolve"
    REPORT = "report"
    CONFLICT = "conflict"
    DIFFERS = "differs"
    SOURCES = "sources"
    OWNER = "owner"
    EXECUTE = "execute"


def turn_of(
    group: Group,
    shards: Collection[TableName],
    decided: Collection[Ddls] | None,
    lock: Lock | None,
    source: str,
) -> Turn:
    """Return what `source` does next. `shards`: its tables of the group.

    `decided`: the texts that the target has settled for the DDL whose turn it is; None: it has not been run.
    `lock`: of the DDL whose turn it is; None: there is none, or nobody has looked.
    """
    if group.resync is not None:
        return Turn.RESYNC
    item = due(group, shards)
    if item is None:
        return Turn.SHARDS
    if decided is not None and item.ddls in decided:
        return Turn.RESOLVE
    info = lock.info(source) if lock is not None else None
    if lock is None or info is None or info.ddls != item.ddls:
        return Turn.REPORT
    if decided is not None:
        return Turn.RESOLVE if item.ddls in lock.settled else Turn.DIFFERS
    match lock.phase:
        case Phase.CONFLICT:
            return Turn.CONFLICT
        case Phase.WAITING:
            return Turn.SOURCES
        case Phase.EXEC | Phase.SKIP | Phase.DIFFERS:
            return Turn.EXECUTE if lock.owner == source else Turn.OWNER
