"""How the target's own tables came to be what they are: numbered steps, each of which every target goes through once.

A step is additive: the statements of older releases must go on working until those are fenced (`meta_tables`), so
nothing is renamed or dropped. A step is idempotent: DDL commits by itself, so a run that dies in the middle leaves a
part of the step, and the next run does the whole of it again. Better a new table than a new column: accounts that were
granted what the precheck asks for may CREATE and not ALTER, MySQL has no ADD COLUMN IF NOT EXISTS, and TiDB adds no
AUTO_INCREMENT. A step that was released is never edited; what comes later is another step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from airflow_provider_dm.engine.mysql.connection import Connection, query
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.catalogue import has_table

_OPTIONS: Final = "ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
# Parts of released steps, which are as little edited as those.
_POSITION: Final = "varchar(48) CHARACTER SET ascii COLLATE ascii_bin NOT NULL"
_SUBTASK: Final = "task varchar(255) NOT NULL, source varchar(64) NOT NULL"
_OF_TABLE: Final = f"{_SUBTASK}, table_schema varchar(64) NOT NULL, table_name varchar(64) NOT NULL"
_TARGET: Final = "target_schema varchar(64) NOT NULL, target_name varchar(64) NOT NULL"

Step = Mapping[str, str]
"""The tables that it adds: their columns, by name."""

FIRST_TABLES: Final = {
    "dm_subtask": f"""
        {_SUBTASK},
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
        {_SUBTASK},
        bucket int NOT NULL,
        position {_POSITION} COMMENT 'all changes of this bucket up to here are applied',
        released {_POSITION} DEFAULT '' COMMENT 'the epoch ending here has done its wave 1 in this bucket',
        generation bigint NOT NULL,
        PRIMARY KEY (task, source, bucket)""",
    "dm_copy_chunk": f"""
        {_SUBTASK},
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
        {_OF_TABLE},
        target_schema varchar(64) NOT NULL COMMENT 'where its rows went from the first one on',
        target_name varchar(64) NOT NULL,
        skip_until {_POSITION} DEFAULT '' COMMENT 'changes up to here are in the copied rows already',
        definition mediumtext NOT NULL COMMENT 'JSON of schema.model.Table',
        PRIMARY KEY (task, source, table_schema, table_name)""",
}
"""The tables of releases that kept no version; a target that has all of them and no dm_version is at version 1."""


_VERSIONS_AND_OWNERS: Final = {
    "dm_version": """
        one tinyint NOT NULL PRIMARY KEY COMMENT 'there is one row',
        version int NOT NULL,
        last_owner bigint NOT NULL DEFAULT 0 COMMENT 'the highest dm_owner.number that was ever given',
        updated_at datetime(6) NOT NULL""",
    "dm_owner": f"""
        {_OF_TABLE},
        number bigint NOT NULL COMMENT 'in dm_row_owner; below zero: only old records are left',
        PRIMARY KEY (task, source, table_schema, table_name)""",
    "dm_row_owner": """
        owner bigint NOT NULL COMMENT 'dm_owner.number',
        row_key varbinary(65) NOT NULL COMMENT 'target/row_key.py',
        PRIMARY KEY (owner, row_key)""",
    "dm_contested_row": f"""
        id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
        {_OF_TABLE},
        {_TARGET},
        row_key varbinary(65) NOT NULL,
        image longblob NOT NULL COMMENT 'the row in the column order of its source table',
        since datetime(6) NOT NULL,
        UNIQUE KEY row_of_owner (task, source, table_schema, table_name, row_key)""",
}
"""Tables of version 2: the version, the owners of rows in merged tables, and rows that wait."""

_DEFINITIONS: Final = {
    "dm_table_definition": f"""
        {_SUBTASK},
        table_schema varchar(64) NOT NULL,
        table_name varchar(64) NOT NULL COMMENT 'empty: the row is about the schema',
        create_sql mediumtext NOT NULL COMMENT 'the table where the frontier stands',
        collation varchar(64) NOT NULL DEFAULT '' COMMENT 'the default of the schema or table',
        by_hand tinyint NOT NULL DEFAULT 0 COMMENT 'a person wrote it, and rows are not read by it yet',
        PRIMARY KEY (task, source, table_schema, table_name)""",
    "dm_ddl": f"""
        {_SUBTASK},
        position {_POSITION} COMMENT 'where the statement ends in the log',
        number int NOT NULL COMMENT 'of the statements for the target that it becomes',
        statement mediumtext NOT NULL,
        looks mediumtext NOT NULL COMMENT 'JSON: the CREATE TABLE of its tables in the target before it',
        done tinyint NOT NULL,
        updated_at datetime(6) NOT NULL,
        PRIMARY KEY (task, source, position, number)""",
}
"""Tables of version 3: the source's tables as SQL, and DDL that is being executed."""

_ONLINE_DDL_MEMORY: Final = {
    "dm_online_ddl": f"""
        {_SUBTASK},
        ghost_schema varchar(64) NOT NULL,
        ghost_table varchar(64) NOT NULL COMMENT 'or the name under which a table of the task lies for the moment',
        statements longtext NOT NULL COMMENT 'JSON: target/online_ddl_memory.py',
        updated_at datetime(6) NOT NULL,
        PRIMARY KEY (task, source, ghost_schema, ghost_table)""",
}
"""Tables of version 4: online DDL under way."""

_PREPARED_XA: Final = {
    "dm_xa": f"""
        {_SUBTASK},
        prepared_at {_POSITION} COMMENT 'it is prepared for whoever stands here or behind',
        ended_at {_POSITION} DEFAULT '' COMMENT 'and no longer here; empty: its end has not come',
        xid varchar(300) CHARACTER SET ascii NOT NULL COMMENT 'as XA COMMIT takes it, for people',
        log_place mediumtext NOT NULL COMMENT 'JSON of binlog.xa.Prepared: where its rows are',
        PRIMARY KEY (task, source, prepared_at)""",
}
"""XA transactions that are prepared at the source and not ended."""

_COPIED_TABLES: Final = {
    "dm_copied_table": f"""
        {_OF_TABLE},
        birth varchar(255) NOT NULL COMMENT 'reading/births.py; empty: it is to be copied again',
        copied_again {_POSITION} DEFAULT '' COMMENT 'the place of its second copy; empty: there is none',
        PRIMARY KEY (task, source, table_schema, table_name)""",
}
"""What a full load knows of each table that it copies."""

_SHARD_GROUPS: Final = {
    "dm_shard_group": f"""
        {_SUBTASK},
        {_TARGET},
        resolved bigint NOT NULL COMMENT 'DDL of the merged table that this source has behind it',
        resync longtext NOT NULL COMMENT 'JSON of shard.group.Resync: rows that are being applied; empty: none',
        updated_at datetime(6) NOT NULL,
        PRIMARY KEY (task, source, target_schema, target_name)""",
    "dm_shard_member": f"""
        {_OF_TABLE},
        {_TARGET},
        base mediumtext NOT NULL COMMENT 'JSON of schema.model.Table: as its applied rows are',
        items longtext NOT NULL COMMENT 'JSON: DDL that it has made and that is not resolved (shard/group.py)',
        updated_at datetime(6) NOT NULL,
        PRIMARY KEY (task, source, table_schema, table_name)""",
}
"""Merged tables whose shards are to agree on DDL, and the rows that are held back."""

_SAFE_MODE: Final = {
    "dm_safe_mode": f"""
        {_SUBTASK},
        seconds bigint NOT NULL COMMENT 'of log time',
        ends_at bigint NULL COMMENT 'commit time, in seconds since 1970; NULL: no transaction was seen yet',
        exit_location text NULL COMMENT 'JSON: behind it the log is exact; NULL: not seen yet',
        updated_at datetime(6) NOT NULL,
        PRIMARY KEY (task, source)""",
}
"""Safe mode by log time: subtasks whose past is not ours."""

_SHARD_LOOKS: Final = {
    "dm_shard_look": f"""
        {_SUBTASK},
        {_TARGET},
        looks bigint NOT NULL COMMENT 'how often it was looked whether rows that are held back give places free',
        PRIMARY KEY (task, source, target_schema, target_name)""",
}
"""Looks into what is held back. Older releases, which are fenced by it, would take a row of dm_contested_row without
an image for one without columns."""

_OWNER_KEYS: Final = {
    "dm_owner_key": """
        number bigint NOT NULL COMMENT 'in dm_owner',
        identity text NOT NULL COMMENT 'JSON: the key of the target whose values its records are',
        PRIMARY KEY (number)""",
}
"""The keys by which rows are recorded. Older releases, which are fenced by it, would give numbers without."""


_LOST_ROWS: Final[Step] = {}
"""No table: rows of dm_contested_row may be lost (target/contested_row.py). Older releases, which are fenced by it,
would take what they have in the place of an image for one."""

_LOGS_OF_LOADS: Final[Step] = {}
"""No table: the log of a source may be applied in the midst of its load (copy/by_log.py). Older releases, which are
fenced by it, would take what that notes for something else."""


STEPS: Final[Sequence[Step]] = (
    FIRST_TABLES,
    _VERSIONS_AND_OWNERS,
    _DEFINITIONS,
    _ONLINE_DDL_MEMORY,
    _PREPARED_XA,
    _COPIED_TABLES,
    _SHARD_GROUPS,
    _SAFE_MODE,
    _SHARD_LOOKS,
    _OWNER_KEYS,
    _LOST_ROWS,
    _LOGS_OF_LOADS,
)
"""Step number n, counted from 1, makes version n of version n - 1."""


def run_step(connection: Connection, meta_schema: str, step: Step) -> None:
    """Create those of the step's tables that are not there."""
    for name, columns in step.items():
        table = TableName(meta_schema, name)
        if not has_table(connection, table):  # "IF NOT EXISTS" alone would leave a warning
            query(connection, f"CREATE TABLE IF NOT EXISTS {table.quoted()} ({columns}) {_OPTIONS}")
