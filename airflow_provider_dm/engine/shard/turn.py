"""Decides the next step of a source for the current DDL of one merged table. Pure.

    first condition that holds                                 turn
    rows that were held are not all applied                    RESYNC
    a shard of the source has not executed the DDL             SHARDS
    the target has executed it, or another DDL that a user
    has accepted in its place                                  RESOLVE
    the lock has no report of this source                      REPORT
    sources have executed different DDL                        CONFLICT
    the target has executed another DDL under its number       DIFFERS
    a source has not reported                                  SOURCES
    another source is to execute it                            OWNER
    otherwise                                                  EXECUTE

No state is kept between two decisions, so the successor of a crashed process continues at the same step.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.shard.group import Group, due_item
from airflow_provider_dm.engine.shard.lock import Ddls, Lock, Phase


class Turn(StrEnum):
    """The next step of a source, or what it waits for."""

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
    group: Group, shards: Collection[TableName], decided: Collection[Ddls] | None, lock: Lock | None, source: str
) -> Turn:
    """Return the next step of `source`. `shards`: its tables of the group.

    `decided`: the DDL texts that the target counts as executed under the current number; None: it has executed none.
    `lock`: that of the current DDL; None: it does not exist, or was not read.
    """
    if group.resync is not None:
        return Turn.RESYNC
    item = due_item(group, shards)
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
