"""Ghost tables of online DDL tools that exist when a task begins: their CREATE and ALTER precede the log that is read.

The difference between the ghost's definition and the real table's shows what the tool has done (ddl/difference.py).
Since a tool copies rows by column name, the ALTER that leads from one definition to the other is recorded as if it had
been read from the log. If the definitions are ambiguous, the ghost gets a flaw, like a ghost whose statements in the
log were not understood.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from airflow_provider_dm.engine.ddl.difference import alter_between
from airflow_provider_dm.engine.ddl.errors import CannotTrack
from airflow_provider_dm.engine.ddl.server import server_of
from airflow_provider_dm.engine.ddl.statements import AlterTable
from airflow_provider_dm.engine.ddl.tracker import AS_SHOWN, Tracker
from airflow_provider_dm.engine.ddl.write import statement_sql
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules
from airflow_provider_dm.engine.rules.online_ddl.memory import GhostState, LoggedText, OnlineDdls
from airflow_provider_dm.engine.rules.online_ddl.tool_tables import TableKind
from airflow_provider_dm.engine.schema.catalogue import create_statement_if_exists, list_tables

_BEFORE: Final = "it existed when the task began"


def existing_ghosts(connection: Connection, rules: BlockAllowRules) -> OnlineDdls:
    """Return the online DDL of the ghosts that exist at the source now.

    To know the state at a location of the log, call this before and after that location. Raises IncompleteResult, and
    the errors of the queries.
    """
    names = list_tables(connection)
    ghosts = [name for name in names if rules.kind_of(name) is TableKind.GHOST]
    if not ghosts:
        return OnlineDdls()
    known = set(names)
    reals = {
        name: [one for one in rules.tools.real_tables(name) if one in known and rules.allows(one)] for name in ghosts
    }
    wanted = {*ghosts, *(one for some in reals.values() for one in some)}
    texts = {
        name: text for name in sorted(wanted) if (text := create_statement_if_exists(connection, name)) is not None
    }
    server = server_of(connection)
    nothing = Tracker.of(server, {}, {})
    return OnlineDdls({name: ghost_state(nothing, name, reals[name], texts) for name in ghosts if name in texts})


def ghost_state(
    nothing: Tracker, ghost: TableName, reals: Collection[TableName], texts: Mapping[TableName, str]
) -> GhostState:
    """Return the record of a ghost, as if its statements had been read from its CREATE on.

    `nothing`: a tracker of its server without tables; `reals`: the tables that it may replace; `texts`: the CREATE
    TABLE of all of them.
    """
    why = f"{_BEFORE}, and the task has no table of which it could be a copy"
    alters: dict[TableName, AlterTable | None] = {}
    for real in (one for one in reals if one in texts):
        try:
            tracker = nothing.with_table(ghost, texts[ghost]).with_table(real, texts[real])
            alters[real] = alter_between(tracker, real, ghost)
        except CannotTrack as error:
            why = f"{_BEFORE}, and {error}"
    if alike := tuple(real for real, alter in alters.items() if alter is None):
        return GhostState(alike)
    if len(alters) > 1:
        return GhostState(flaw=f"{_BEFORE}, and may replace {' or '.join(map(str, alters))}")
    for real, alter in alters.items():
        assert alter is not None
        sql = statement_sql(alter, AS_SHOWN.sql_mode, nothing.server.flavour)
        return GhostState((real,), (LoggedText(sql, AS_SHOWN.sql_mode, real.schema),))
    return GhostState(flaw=why)
