"""The tables that commit together with the data: in the target, in the schema that the task calls `meta-schema`.

    dm_version       one row: the version of all the others
    dm_subtask       one row for each task and source: who may write (generation), where the log is read from
    dm_frontier      one row for each bucket: up to where its rows are applied
    dm_copy_chunk    one row for each chunk of a full load: how far it is copied
    dm_copied_table  of each table of a full load: when it was last altered, and where it was copied again
    dm_table_schema  a source's tables as they were when the load began: what rows are decoded by
    dm_table_definition  the same tables as SQL, where the frontier stands: what the next DDL is applied to
    dm_ddl           DDL that is being executed: what each of its statements has found, and which are done; which
                     transaction it is; what is committed where an epoch ends that is being written
    dm_owner         the numbers of source tables whose rows in merged tables are recorded
    dm_owner_key     of which columns of the target the keys are by which these rows are recorded
    dm_xa            XA transactions that are prepared at the source: where their rows are in its log
    dm_row_owner     of tables that are merged: which rows a source table has put there, while its log cannot tell
    dm_contested_row of tables that are merged: rows whose place in the target is held by another one's row
    dm_online_ddl    one row for each ghost table of an online DDL tool: what was done to it
    dm_safe_mode     one row for each subtask whose past is not ours: the log time for which rows may collide
    dm_shard_group   of tables that are merged: how many DDL statements a source has behind it, and what it re-syncs
    dm_shard_look    one row for each source and merged table: how often it has looked whether held rows make room
    dm_shard_member  one row for each shard whose rows are held back, as it has made DDL that the target has not yet

Names compare byte by byte (utf8mb4_bin): a task called `A` is not the task `a`. Positions are `Location.sort_key`, text
whose byte order is the order of the log.

Versions. Whoever is about to claim a subtask brings the tables to VERSION first, by the steps of `meta_steps`; a target
that is newer than the code is refused, since nobody here knows what its rows mean. Between two that start at once
GET_LOCK decides: the second finds the work done. An older release may be at work in the same schema. While the steps
run, what it does goes on working, as they only add. But from the new version on it must not write, as it does not keep
the rules that come with it. So the transaction that writes the new number raises the generation of *every* subtask in
the schema: it waits for the transactions under way, and whoever claimed before is fenced like anybody else whose
generation was replaced (DM-6010). An upgrade therefore ends all runs in the schema; each goes on where it was when
started again.
"""

from __future__ import annotations

import hashlib
import logging
from typing import Final

import pymysql

from airflow_provider_dm.engine.errors import DmError, Reaction, Scope
from airflow_provider_dm.engine.mysql.connection import Connection, query, text
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import quote
from airflow_provider_dm.engine.target.errors import translate
from airflow_provider_dm.engine.target.meta_steps import FIRST_TABLES, STEPS, run_step
from airflow_provider_dm.engine.target.session import fresh_target, run_transaction, target_connection

log = logging.getLogger(__name__)

VERSION: Final = len(STEPS)
LOCK_SECONDS: Final = 60
FENCED_TABLES: Final = ("dm_subtask", "dm_frontier", "dm_copy_chunk")
"""Each has the generation that the first statement of a transaction checks."""


class MetaTablesNewer(DmError):
    """A newer release has been at work in this schema."""

    schema: str
    found: int
    known: int

    code = "DM-6013"
    scope = Scope.DOWNSTREAM
    what = "the tables in the target's schema {schema} have version {found}; this release knows versions up to {known}."
    hint = (
        "Run it with the newer airflow-provider-dm that has been used with this task, or give the task another "
        "meta-schema and migrate in full."
    )


class MetaTablesLocked(DmError):
    """Somebody else holds the lock for creating or upgrading the tables."""

    schema: str
    seconds: int

    code = "DM-6014"
    scope = Scope.DOWNSTREAM
    reaction = Reaction.RETRY
    what = "another run has been creating or upgrading the tables in the target's schema {schema} for {seconds} s."
    hint = "Try again when it is done; if it hangs, look for long transactions on these tables."


def ensure_meta_tables(endpoint: Endpoint, meta_schema: str) -> None:
    """Bring the tables to VERSION; at any time, by several at once. To be called before a claim.

    Raises MetaTablesNewer, MetaTablesLocked, TargetDenied, TargetRefused, and what connecting raises.
    """
    try:
        if _version(target_connection(endpoint), meta_schema) == VERSION:
            return
        with fresh_target(endpoint) as connection:  # of its own: the lock goes with it, and with nothing else
            _lock(connection, meta_schema)
            _upgrade(endpoint, connection, meta_schema)
    except pymysql.err.Error as error:
        raise translate(error, table=meta_schema) from error


def meta_table(meta_schema: str, name: str) -> str:
    """Return `schema`.`table`, quoted, for one of the tables above."""
    return f"{quote(meta_schema)}.{quote(name)}"


def _version(connection: Connection, meta_schema: str) -> int:
    """Return the version of the tables; 0: there are none yet, or not all. Raises MetaTablesNewer."""
    rows = query(connection, "SELECT table_name FROM information_schema.tables WHERE table_schema = %s", (meta_schema,))
    present = {text(name).lower() for (name,) in rows}
    if not FIRST_TABLES.keys() <= present:
        return 0
    noted = query(connection, f"SELECT version FROM {_version_table(meta_schema)}") if "dm_version" in present else []
    found = int(noted[0][0]) if noted else 1
    if found > VERSION:
        raise MetaTablesNewer(meta_schema, found, VERSION)
    return found


def _upgrade(endpoint: Endpoint, connection: Connection, meta_schema: str) -> None:
    """Run the missing steps under the lock, then write the number, which fences everybody who has claimed before."""
    if not query(connection, "SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", (meta_schema,)):
        query(connection, f"CREATE DATABASE IF NOT EXISTS {quote(meta_schema)}")
    found = _version(connection, meta_schema)
    if found == VERSION:
        return
    for step in STEPS[found:]:
        run_step(connection, meta_schema, step)
    log.info("the tables in %s have version %d now, after %d", meta_schema, VERSION, found)

    def body(connection: Connection) -> None:
        table = _version_table(meta_schema)
        query(connection, f"INSERT IGNORE INTO {table} (one, version, updated_at) VALUES (1, 0, UTC_TIMESTAMP(6))")
        ((noted,),) = query(connection, f"SELECT version FROM {table} FOR UPDATE")
        if int(noted) >= VERSION:
            return  # by somebody else, or by ourselves with the answer lost: who has claimed since is not to be fenced
        for name in FENCED_TABLES:
            query(connection, f"UPDATE {meta_table(meta_schema, name)} SET generation = generation + 1")
        query(connection, f"UPDATE {table} SET version = %s, updated_at = UTC_TIMESTAMP(6)", (VERSION,))

    run_transaction(endpoint, body)


def _version_table(meta_schema: str) -> str:
    return meta_table(meta_schema, "dm_version")


def _lock(connection: Connection, meta_schema: str) -> None:
    """Take a lock of the server's that ends with the connection. Raises MetaTablesLocked.

    Should the connection be lost, two may run the same steps at once, which do no harm.
    """
    name = "dm_meta_tables:" + hashlib.sha256(meta_schema.encode()).hexdigest()[:32]  # a server takes 64 characters
    if query(connection, "SELECT GET_LOCK(%s, %s)", (name, LOCK_SECONDS)) != [(1,)]:
        raise MetaTablesLocked(meta_schema, LOCK_SECONDS)
