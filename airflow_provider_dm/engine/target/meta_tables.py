"""The tables that commit together with the data: in the target, in the schema that the task calls `meta-schema`.

    dm_subtask       one row for each task and source: who may write (generation), where the log is read from
    dm_frontier      one row for each bucket: up to where its rows are applied
    dm_copy_chunk    one row for each chunk of a full load: how far it is copied
    dm_table_schema  a source's tables as they were when the load began: what rows are decoded by

Names compare byte by byte (utf8mb4_bin): a task called `A` is not the task `a`. Positions are `Location.sort_key`, text
whose byte order is the order of the log.
"""

from __future__ import annotations

from typing import Final

import pymysql

from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import quote
from airflow_provider_dm.engine.target.errors import translate

_OPTIONS: Final = "ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
_POSITION: Final = "varchar(48) CHARACTER SET ascii COLLATE ascii_bin NOT NULL"

TABLES: Final[dict[str, str]] = {
    "dm_subtask": """
        task varchar(255) NOT NULL,
        source varchar(64) NOT NULL,
        generation bigint NOT NULL COMMENT 'fencing token: writers with another one are refused',
        claim varchar(36) CHARACTER SET ascii NOT NULL COMMENT 'which claim set the generation',
        unit varchar(16) NOT NULL,
        buckets int NOT NULL,
        hash_version int NOT NULL,
        plan varchar(64) CHARACTER SET ascii NOT NULL DEFAULT '' COMMENT 'fingerprint of tables and keys in use',
        start_location text NULL COMMENT 'JSON: where reading the log began, taken before the first chunk',
        catch_up_until text NULL COMMENT 'JSON: rows may differ from the log before here (chunks overlap it)',
        location text NULL COMMENT 'JSON: everything before is applied; exact only with dm_frontier',
        updated_at datetime(6) NOT NULL,
        PRIMARY KEY (task, source)""",
    "dm_frontier": f"""
        task varchar(255) NOT NULL,
        source varchar(64) NOT NULL,
        bucket int NOT NULL,
        position {_POSITION} COMMENT 'all changes of this bucket up to here are applied',
        released {_POSITION} DEFAULT '' COMMENT 'the epoch ending here has done its wave 1 in this bucket',
        generation bigint NOT NULL,
        PRIMARY KEY (task, source, bucket)""",
    "dm_copy_chunk": """
        task varchar(255) NOT NULL,
        source varchar(64) NOT NULL,
        chunk bigint NOT NULL,
        source_schema varchar(64) NOT NULL,
        source_table varchar(64) NOT NULL,
        low mediumblob NULL,
        high mediumblob NULL,
        last_key mediumblob NULL,
        done tinyint NOT NULL DEFAULT 0,
        rows_copied bigint NOT NULL DEFAULT 0,
        generation bigint NOT NULL,
        PRIMARY KEY (task, source, chunk)""",
    "dm_table_schema": f"""
        task varchar(255) NOT NULL,
        source varchar(64) NOT NULL,
        table_schema varchar(64) NOT NULL,
        table_name varchar(64) NOT NULL,
        target_schema varchar(64) NOT NULL COMMENT 'where its rows went from the first one on',
        target_name varchar(64) NOT NULL,
        skip_until {_POSITION} DEFAULT '' COMMENT 'changes up to here are in the copied rows already',
        definition mediumtext NOT NULL COMMENT 'JSON of schema.model.Table',
        PRIMARY KEY (task, source, table_schema, table_name)""",
}


def ensure_meta_tables(connection: Connection, meta_schema: str) -> None:
    """Create what is missing; safe to run at any time, by several at once. Raises TargetDenied or TargetRefused."""
    try:
        with connection.cursor() as cursor:
            # "IF NOT EXISTS" leaves a note; looking first keeps the statement out of the target's own log as well.
            cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", (meta_schema,))
            present = {bytes(name).decode().lower() for (name,) in cursor.fetchall()}
            if TABLES.keys() <= present:
                return
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {quote(meta_schema)}")
            for name in TABLES.keys() - present:
                columns = TABLES[name]
                cursor.execute(f"CREATE TABLE IF NOT EXISTS {meta_table(meta_schema, name)} ({columns}) {_OPTIONS}")
    except pymysql.err.Error as error:
        raise translate(error, table=meta_schema) from error


def meta_table(meta_schema: str, name: str) -> str:
    """`schema`.`table`, quoted, for one of TABLES."""
    assert name in TABLES, name
    return f"{quote(meta_schema)}.{quote(name)}"
