"""The columns of the tables that `meta_tables` lists.

A changed definition requires a new `meta_tables.VERSION`: targets with tables of another version are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OPTIONS: Final = "ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
_POSITION: Final = "varchar(48) CHARACTER SET ascii COLLATE ascii_bin NOT NULL"
_SUBTASK: Final = "task varchar(255) NOT NULL, source varchar(64) NOT NULL"
_OF_TABLE: Final = f"{_SUBTASK}, table_schema varchar(64) NOT NULL, table_name varchar(64) NOT NULL"
_TARGET: Final = "target_schema varchar(64) NOT NULL, target_name varchar(64) NOT NULL"

TABLES: Final[Mapping[str, str]] = {
    "dm_subtask": f"""
        {_SUBTASK},
        generation bigint NOT NULL COMMENT 'fencing token: writers with another one are refused',
        claim varchar(36) CHARACTER SET ascii NOT NULL COMMENT 'id of the start that took the generation',
        unit varchar(16) NOT NULL,
        buckets int NOT NULL,
        hash_version int NOT NULL,
        plan varchar(64) CHARACTER SET ascii NOT NULL DEFAULT '' COMMENT 'fingerprint of tables and keys in use',
        start_location text NULL COMMENT 'JSON: where reading the log began, taken before the first chunk',
        overwrite_until text NULL COMMENT 'JSON: after a start that is not exact: rows may collide up to here',
        location text NULL COMMENT 'JSON: everything before is applied; exact only with dm_frontier',
        postponed_indexes mediumtext NULL COMMENT 'JSON: indexes to be built after the rows of its load are copied',
        updated_at datetime(6) NOT NULL,
        PRIMARY KEY (task, source)""",
    "dm_frontier": f"""
        {_SUBTASK},
        bucket int NOT NULL,
        position {_POSITION} COMMENT 'all changes of this bucket up to here are applied',
        released {_POSITION} DEFAULT '' COMMENT 'wave 1 of the epoch that ends here is written in this bucket',
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
        round bigint NOT NULL DEFAULT 0 COMMENT 'the round in which pages may be written; 0: none is open',
        birth varchar(255) NOT NULL DEFAULT '' COMMENT 'identity of its table in that round (reading/births.py)',
        generation bigint NOT NULL,
        PRIMARY KEY (task, source, chunk)""",
    "dm_table_schema": f"""
        {_OF_TABLE},
        target_schema varchar(64) NOT NULL COMMENT 'the target table of its rows since the first one',
        target_name varchar(64) NOT NULL,
        skip_until {_POSITION} DEFAULT '' COMMENT 'changes up to here are applied already, according to DM',
        definition mediumtext NOT NULL COMMENT 'JSON of schema.model.Table',
        PRIMARY KEY (task, source, table_schema, table_name)""",
    "dm_version": """
        one tinyint NOT NULL PRIMARY KEY COMMENT 'there is one row',
        version int NOT NULL,
        updated_at datetime(6) NOT NULL""",
    "dm_contested_row": f"""
        id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
        {_OF_TABLE},
        {_TARGET},
        row_key varbinary(65) NOT NULL COMMENT 'downstream/row_key.py',
        image longblob NOT NULL COMMENT 'the row in the column order of its source table',
        since datetime(6) NOT NULL,
        UNIQUE KEY row_of_owner (task, source, table_schema, table_name, row_key)""",
    "dm_table_definition": f"""
        {_SUBTASK},
        table_schema varchar(64) NOT NULL,
        table_name varchar(64) NOT NULL COMMENT 'empty: the row is about the schema',
        create_sql mediumtext NOT NULL COMMENT 'the table as of the frontier',
        collation varchar(64) NOT NULL DEFAULT '' COMMENT 'the default of the schema or table',
        by_hand tinyint NOT NULL DEFAULT 0 COMMENT 'a user has set it, and rows are not decoded with it yet',
        PRIMARY KEY (task, source, table_schema, table_name)""",
    "dm_ddl": f"""
        {_SUBTASK},
        position {_POSITION} COMMENT 'where the statement ends in the log',
        number int NOT NULL COMMENT 'counts the target statements of one DDL statement',
        statement mediumtext NOT NULL,
        looks mediumtext NOT NULL COMMENT 'JSON: the CREATE TABLE of its tables in the target before it',
        done tinyint NOT NULL,
        updated_at datetime(6) NOT NULL,
        PRIMARY KEY (task, source, position, number)""",
    "dm_online_ddl": f"""
        {_SUBTASK},
        ghost_schema varchar(64) NOT NULL,
        ghost_table varchar(64) NOT NULL COMMENT 'or the temporary name of a table of the task',
        statements longtext NOT NULL COMMENT 'JSON: downstream/online_ddl_memory.py',
        updated_at datetime(6) NOT NULL,
        PRIMARY KEY (task, source, ghost_schema, ghost_table)""",
    "dm_xa": f"""
        {_SUBTASK},
        prepared_at {_POSITION} COMMENT 'from this position on it is prepared',
        ended_at {_POSITION} DEFAULT '' COMMENT 'from this position on it has ended; empty: it has not',
        xid varchar(300) CHARACTER SET ascii NOT NULL COMMENT 'in the form of XA COMMIT, for users',
        log_place mediumtext NOT NULL COMMENT 'JSON: where its rows are in the log',
        PRIMARY KEY (task, source, prepared_at)""",
    "dm_shard_group": f"""
        {_SUBTASK},
        {_TARGET},
        resolved bigint NOT NULL COMMENT 'number of DDL of the merged table that this source has completed',
        resync longtext NOT NULL COMMENT 'JSON of shard.group.Resync: rows that are being applied; empty: none',
        updated_at datetime(6) NOT NULL,
        PRIMARY KEY (task, source, target_schema, target_name)""",
    "dm_shard_member": f"""
        {_OF_TABLE},
        {_TARGET},
        base mediumtext NOT NULL COMMENT 'JSON of schema.model.Table: as its applied rows are',
        items longtext NOT NULL COMMENT 'JSON: DDL that it has executed and that is not resolved (shard/group.py)',
        updated_at datetime(6) NOT NULL,
        PRIMARY KEY (task, source, table_schema, table_name)""",
    "dm_safe_mode": f"""
        {_SUBTASK},
        seconds bigint NOT NULL COMMENT 'of log time',
        ends_at bigint NULL COMMENT 'commit time, in seconds since 1970; NULL: no transaction was seen yet',
        exit_location text NULL COMMENT 'JSON: after it the log is exact; NULL: not seen yet',
        updated_at datetime(6) NOT NULL,
        PRIMARY KEY (task, source)""",
}
"""The columns and keys by table; a table name is the same in every schema."""
