"""What a source does next about the DDL whose turn it is in one merged table: a decision, from what is known alone.

    the first of these that holds                              turn
    rows that were held back are not all applied               RESYNC
    a shard of the source has not made the DDL, or none has    SHARDS
    the target has it already                                  RESOLVE
    the lock does not know that this source has come to it     REPORT
    sources have made different DDL                            CONFLICT
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
from airflow_provider_dm.engine.shard.lock import Lock, Phase


class Turn(StrEnum):
    """Next step of a source, or what it waits for."""

    RESYNC = "resync"
    SHARDS = "shards"
    RESOLVE = "resolve"
    REPORT = "report"
    CONFLICT = "conflict"
    SOURCES = "sources"
    OWNER = "owner"
    EXECUTE = "execute"


def turn_of(group: Group, shards: Collection[TableName], executed: int, lock: Lock | None, source: str) -> Turn:
    """Return what `source` does next. `shards`: its tables of the group. `executed`: DDL that the target has of it.

    `lock`: of the DDL whose turn it is; None: there is none, or nobody has looked.
    """
    if group.resync is not None:
        return Turn.RESYNC
    item = due(group, shards)
    if item is None:
        return Turn.SHARDS
    if executed > group.resolved:
        return Turn.RESOLVE
    info = lock.info(source) if lock is not None else None
    if lock is None or info is None or info.ddls != item.ddls:
        return Turn.REPORT
    match lock.phase:
        case Phase.CONFLICT:
            return Turn.CONFLICT
        case Phase.WAITING:
            return Turn.SOURCES
        case Phase.EXEC | Phase.SKIP:
            return Turn.EXECUTE if lock.owner == source else Turn.OWNER
