"""Ghosts of online DDL tools that a source has when a task begins: their statements lie in front of the log we read.

What a tool has done to its ghost by then shows in the ghost's definition (ddl/difference.py), and it copies rows by the
columns' names, so the ALTER between the two definitions is remembered as if it had been seen. Where they leave it open,
the ghost has a flaw, as one that is seen to be made in a way that is not understood.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import pymysql

from airflow_provider_dm.engine.ddl.difference import NotTold, alter_between
from airflow_provider_dm.engine.ddl.server import CannotTrack, server_of
from airflow_provider_dm.engine.ddl.statements import AlterTable
from airflow_provider_dm.engine.ddl.tracker import AS_SHOWN, Tracker
from airflow_provider_dm.engine.ddl.write import statement_sql
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.online_ddl.memory import LoggedText, OnlineDdls, Remembered
from airflow_provider_dm.engine.rules.online_ddl.tool_tables import TableKind
from airflow_provider_dm.engine.schema.catalogue import create_statement, list_tables

_GONE: Final = 1146
_BEFORE: Final = "it was there when the task began"


def ghosts_there(connection: Connection, rules: BlockAllowRules) -> OnlineDdls:
    """Return what is remembered of the ghosts that the source has now.

    Whoever wants to know of a place of its log asks in front of it and behind it. Raises AnswerCut, and what asking
    raises.
    """
    names = list_tables(connection)
    found = [name for name in names if rules.kind_of(name) is TableKind.GHOST]
    if not found:
        return OnlineDdls()
    known = set(names)
    reals = {
        name: [one for one in rules.tools.real_tables(name) if one in known and rules.allows(one)] for name in found
    }
    wanted = {*found, *(one for some in reals.values() for one in some)}
    texts = {name: text for name in sorted(wanted) if (text := _shown(connection, name)) is not None}
    server = server_of(connection)
    nothing = Tracker.of(server, {}, {})
    return OnlineDdls({name: remembered(nothing, name, reals[name], texts) for name in found if name in texts})


def _shown(connection: Connection, name: TableName) -> str | None:
    try:
        return create_statement(connection, name)
    except pymysql.err.MySQLError as error:
        if error.args and error.args[0] == _GONE:
            return None
        raise


def remembered(
    nothing: Tracker, ghost: TableName, reals: Collection[TableName], texts: Mapping[TableName, str]
) -> Remembered:
    """Return a ghost as it would be remembered if it had been seen from its CREATE on.

    `nothing`: a tracker of its server without tables; `reals`: the tables that it may stand for; `texts`: the CREATE
    TABLE of all of them.
    """
    why = f"{_BEFORE}, and no table of the task that it could have been made like"
    found: dict[TableName, AlterTable | None] = {}
    for real in (one for one in reals if one in texts):
        try:
            tracker = nothing.with_table(ghost, texts[ghost]).with_table(real, texts[real])
            found[real] = alter_between(tracker, real, ghost)
        except (CannotTrack, NotTold) as error:
            why = f"{_BEFORE}, and {error}"
    if alike := tuple(real for real, alter in found.items() if alter is None):
        return Remembered(alike)
    if len(found) > 1:
        return Remembered(flaw=f"{_BEFORE}, and may stand for {' or '.join(map(str, found))}")
    for real, alter in found.items():
        assert alter is not None
        sql = statement_sql(alter, AS_SHOWN.sql_mode, nothing.server.flavour)
        return Remembered((real,), (LoggedText(sql, AS_SHOWN.sql_mode, real.schema),))
    return Remembered(flaw=why)
