"""The tables that commit together with the data: in the target, in the schema of the key `meta-schema`.

    dm_version       one row: the version of all other tables
    dm_subtask       one row for each task and source: who may write (generation), where the log is read from
    dm_frontier      one row for each bucket: up to where its rows are applied
    dm_copy_chunk    one row for each chunk of a full load: how far it is copied, and in which round it may grow
    dm_table_schema  a source's tables at the frontier: rows are decoded by them
    dm_table_definition  the same tables as SQL, at the frontier: the next DDL is applied to them
    dm_ddl           DDL that is being executed: the tables before each of its statements, and which are done
    dm_xa            XA transactions that are prepared at the source: the location of their rows in its log
    dm_contested_row for merged tables: rows whose key in the target is held by another row
    dm_online_ddl    one row for each ghost table of an online DDL tool: its changes
    dm_safe_mode     one row for each subtask whose past is not exact: the log time during which rows may collide
    dm_shard_group   for merged tables: how many DDL statements a source has completed, and its re-sync
    dm_shard_member  one row for each shard whose rows are held back, as it has executed DDL that the target has not yet

Names compare byte by byte (utf8mb4_bin): the task `A` is not the task `a`. Positions are `Location.sort_key`, text
whose byte order is the order of the log.

Versions. The first run in a schema creates all tables; a run that finds tables of another version, older or newer, is
refused, since it does not know the meaning of their rows. If two runs start at once, GET_LOCK lets one create the
tables, and the other waits for it. The version is written last: if a run crashes before, the next one creates the
missing tables.
"""

from __future__ import annotations

import hashlib
import logging
from typing import Final

import pymysql

from airflow_provider_dm.engine.downstream.errors import MetaTablesOfAnotherRelease, TargetDdlUnderWay, translate
from airflow_provider_dm.engine.downstream.meta_definitions import OPTIONS, TABLES
from airflow_provider_dm.engine.downstream.session import fresh_target, target_connection
from airflow_provider_dm.engine.mysql.connection import Connection, query
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote
from airflow_provider_dm.engine.schema.catalogue import has_table

log = logging.getLogger(__name__)

VERSION: Final = 17
"""Add 1 with every change of `meta_definitions`."""
LOCK_SECONDS: Final = 60


def ensure_meta_tables(endpoint: Endpoint, meta_schema: str) -> None:
    """Create the tables if they do not exist; safe at any time and concurrently. To be called before a claim.

    Raises MetaTablesOfAnotherRelease, TargetDdlUnderWay, TargetDenied, TargetRefused, and errors of connecting.
    """
    try:
        if _exist(target_connection(endpoint), meta_schema):
            return
        with fresh_target(endpoint) as connection:  # its own connection, with which the lock ends
            _lock(connection, meta_schema)
            if not _exist(connection, meta_schema):
                _create(connection, meta_schema)
    except pymysql.err.Error as error:
        raise translate(error, table=meta_schema) from error


def _exist(connection: Connection, meta_schema: str) -> bool:
    """Return True if all tables of this release exist. Raises MetaTablesOfAnotherRelease."""
    noted = TableName(meta_schema, "dm_version")
    if not has_table(connection, noted):
        return False
    for (found,) in query(connection, f"SELECT version FROM {noted.quoted()}"):
        if found != VERSION:
            raise MetaTablesOfAnotherRelease(meta_schema, int(found), VERSION)
        return True
    return False


def _create(connection: Connection, meta_schema: str) -> None:
    if not query(connection, "SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", (meta_schema,)):
        query(connection, f"CREATE DATABASE IF NOT EXISTS {quote(meta_schema)}")
    for name, columns in TABLES.items():
        table = TableName(meta_schema, name)
        if not has_table(connection, table):  # "IF NOT EXISTS" alone would leave a warning
            query(connection, f"CREATE TABLE IF NOT EXISTS {table.quoted()} ({columns}) {OPTIONS}")
    values = "(one, version, updated_at) VALUES (1, %s, UTC_TIMESTAMP(6))"
    query(connection, f"INSERT IGNORE INTO {TableName(meta_schema, 'dm_version').quoted()} {values}", (VERSION,))
    log.info("the tables in %s were created, with version %d", meta_schema, VERSION)


def _lock(connection: Connection, meta_schema: str) -> None:
    """Take a lock of the server that ends with the connection. Raises TargetDdlUnderWay.

    If the connection is lost, two runs may create the same tables at once, which is harmless.
    """
    name = "dm_meta_tables:" + hashlib.sha256(meta_schema.encode()).hexdigest()[:32]  # at most 64 characters
    if query(connection, "SELECT GET_LOCK(%s, %s)", (name, LOCK_SECONDS)) != [(1,)]:
        raise TargetDdlUnderWay(
            f"another run has been creating the tables in the target's schema {meta_schema} for {LOCK_SECONDS} s.",
            "Try again later; if it hangs, look for long transactions on these tables.",
        )
