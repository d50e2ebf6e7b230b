"""Differences between servers: one row of facts for each family, and the values that differ in older releases.

Code asks for a fact by its name and never for a family, so that adding a family means adding a row. Not here: the
formats of binlogs, GTID sets and the replication protocol, the translation of CREATE TABLE from one family to another,
how a source executes its DDL (`ddl.tracker`), and the session variables of each server (`pinned`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, TypeAlias

from airflow_provider_dm.engine.mysql.endpoint import Flavour

Version: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """The facts about one server. A field with a default is listed only for the families that differ from it."""

    flavour: Flavour
    title: str
    """The usual name of the family."""
    oldest: Version
    """The oldest release that was tested: binlogs and catalogues of older releases are unknown."""
    family: Flavour = Flavour.MYSQL
    """The family whose dialect of SQL it has. Expressions and constraints are copied within a family only."""

    # Identity and catalogue
    identity: str | None
    """Query for its server id and the value that `server_uuid` is formed from; None if it has neither."""
    server_uuid: str = "{identity}"
    isolation_is_tx: bool = False
    """transaction_isolation and transaction_read_only are called tx_isolation and tx_read_only."""
    utf8mb4_default: str = "utf8mb4_general_ci"
    """The built-in default collation of utf8mb4."""
    utf8mb3_charset: str = "utf8mb3"
    """The catalogue's name of the charset utf8mb3."""
    utf8mb3_collations: str = "utf8mb3"
    """The beginning of the catalogue's names of the collations of utf8mb3."""
    shows_widths: bool = False
    """Integers and YEAR are shown with a display width: `int(11)`."""
    shows_geomcollection: bool = False
    """The catalogue calls a GEOMETRYCOLLECTION `geomcollection`."""
    table_numbers: str = ""
    """The view of information_schema in which each table has a number that no later table of its name has."""
    weighs_text: bool = True
    """WEIGHT_STRING returns the weights by which text is compared. TiDB's have not been verified."""

    # Binlog
    writes_binlog: bool = True
    binlog_status: str = "SHOW MASTER STATUS"
    """Statement that shows the end of the binlog."""
    monitor_privilege: str = "REPLICATION CLIENT"
    """The privilege that `binlog_status` requires."""
    executed_gtids: str = "@@global.gtid_executed"
    gtids_at: str | None = None
    """Query for the exact GTID set at (file, position): slow for a long file, which is read from its start."""
    gtids_can_be_off: bool = False
    """gtid_mode decides whether transactions have GTIDs."""
    stated_gtids_are_complete: bool = False
    """Each file begins with the complete set of earlier GTIDs, which cannot be edited, unlike MySQL's gtid_purged."""
    leaves_torn_files: bool = False
    """A file truncated by a crash stays truncated. MySQL repairs it, so there a truncated file is damaged."""
    dumps_by_gtid: bool = False
    """COM_BINLOG_DUMP_GTID is supported, with 64-bit positions."""
    unstated_format: str = "ROW"
    """The binlog_format of a server without that variable; "": unknown."""
    cascades_can_be_logged: bool = False
    """innodb_native_foreign_keys decides whether rows changed by a foreign key are logged."""
    lists_prepared: str | None = None
    """Statement that lists prepared XA transactions, with their names in ASCII."""
    snapshots_are_located: bool = False
    """A read transaction reports its binlog location, so that a copy needs no lock."""
    flush_waits: bool = False
    """FLUSH TABLES WITH READ LOCK waits for running SELECTs, and PROCESS is needed to see them."""
    savepoints_release_locks: bool = False
    """ROLLBACK TO SAVEPOINT releases metadata locks, also while the session's changes are logged."""

    # Writing
    under_sql_mode: bytes | None = b"%(verb)b /*+ SET_VAR(sql_mode='%(mode)b') */ %(rest)b"
    """Form of one statement that runs with another sql_mode; None: the session has to be set before and after it."""
    row_alias: bool = False
    """ON DUPLICATE KEY UPDATE refers to the new row by an alias; VALUES() causes a warning."""
    json_keeps_decimals: bool = False
    """A number in a JSON document may be a DECIMAL that keeps its digits; on other servers it is a DOUBLE."""
    collations: frozenset[str] | None = None
    """The only collations of text columns; None: those of MySQL or MariaDB."""
    raw_types: bool = True
    """A column may be a GEOMETRY, or a VECTOR that is written as bytes. TiDB's VECTOR takes text only."""
    gb18030: bool = False
    """A text column may have the charset gb18030, which is never converted."""
    text_is_utf8: bool = False
    """Text columns of every charset take UTF-8 only; no introducer and no CONVERT produces other bytes."""
    updates_index_0: bool = True
    """An ENUM may change between index 0 and an empty member. TiDB compares the two as texts and leaves the row
    unchanged, and its VALUES() returns the member for index 0."""
    upserts_wide_bits: bool = True
    """ON DUPLICATE KEY UPDATE may change a BIT of 57 or more bits. TiDB's VALUES() reverses its eight bytes."""
    max_error_count_rises: bool = False
    """True if a writing session raises max_error_count, to keep all warnings."""
    alters_one_change_at_a_time: bool = False
    """ALTER TABLE takes one change. TiDB takes several from 6.2 on, but never two that concern the same column, such as
    an added column and a key over it (ADMIN SHOW DDL JOBS also lists each change separately)."""
    computes_as_sources: bool = True
    """It computes expressions as the sources of its family do, and a sql_mode decides how it rounds seconds."""
    default_functions: frozenset[str] | None = None
    """The only functions that a default may call, with literals as arguments; None: it may be any expression."""
    changes_charsets: bool = True
    """MODIFY gives a column another charset. TiDB does so only if the column also gets shorter, which writes all rows
    anew (its checkModifyTypes), and from utf8mb3 and latin1 to utf8mb4."""
    alters_columns_of_keys: bool = True
    """A column of a key over several columns may be dropped, and a column of any key may get another collation."""
    shrinks_unique_keys: bool = False
    """A dropped column leaves a unique key over several columns; other servers reject that."""
    cuts_keys: bool = False
    """A key's part is shortened if its column becomes a text, or longer than an index; other servers reject that."""
    numbers_rows: bool = True
    """A column that becomes AUTO_INCREMENT numbers the rows that exist."""
    nulls_become_now: bool = True
    """In a TIMESTAMP that becomes NOT NULL, the current time replaces NULL, also in a strict mode."""
    invisible_columns: bool = True
    """A column may be INVISIBLE."""
    alters_visibility: bool = False
    """ALTER COLUMN … SET INVISIBLE exists."""
    generates_keys: bool = False
    """sql_generate_invisible_primary_key adds a primary key to a table without one."""
    key_visibility: tuple[str, str] = ("VISIBLE", "INVISIBLE")
    """The words of ALTER INDEX for a key that queries use, and for one that they ignore."""
    distinguishes_case: bool = True
    """By default, two tables may have names that differ by case only."""
    keeps_descending: bool = True
    """DESC in a key is stored instead of ignored."""
    inline_references: bool = True
    """REFERENCES in the definition of a column creates a foreign key instead of being ignored."""
    keeps_checks: bool = True
    """CHECK constraints are stored instead of ignored."""
    checks_need: str = ""
    """The global variable without which CHECKs are ignored, silently."""
    spreads_rows: bool = False
    """CREATE TABLE takes AUTO_RANDOM and PRE_SPLIT_REGIONS."""
    subpartitions: bool = True
    """Partitions may have subpartitions; TiDB ignores them, silently."""
    fulltext_keys: bool = True
    """A table may have FULLTEXT keys."""
    adds_indexes_faster: bool = True
    """Adding an index to a table with many rows costs less than writing these rows into the index, too."""
    ddl_jobs: str | None = None
    """Query of unfinished DDL jobs, which continue without their client and their server: (schema, table, job, kind,
    state, rows)."""
    names_lock_holders: bool = True
    """IS_USED_LOCK returns the connection that holds a user lock."""
    kill: str = "KILL {}"
    """Ends a connection of any server of the cluster."""
    conditional_alters: bool = False
    """ALTER TABLE and CREATE INDEX have IF EXISTS and IF NOT EXISTS."""
    foreign_keys_need: tuple[str, ...] = ("REFERENCES",)
    """The further privileges needed to create a foreign key."""
    transaction_limits: tuple[str, ...] = ()
    """Queries of the limits for the bytes of a transaction; NULL, 0 or less: no limit."""
    row_limits: tuple[str, ...] = ()
    """The same for one row."""
    warns_about_plans: bool = False
    """Warnings with the number UNKNOWN_ERROR are about the plan of a statement, never about values."""


_CONFIGURED: Final = "CAST(JSON_EXTRACT(@@tidb_config, '$.performance.\"txn-{}-size-limit\"') AS UNSIGNED)"
_TOTAL: Final = _CONFIGURED.format("total")

CAPABILITIES: Final[Mapping[Flavour, Capabilities]] = {
    row.flavour: row
    for row in (
        Capabilities(
            flavour=Flavour.MYSQL,
            title="MySQL",
            oldest=(5, 7),
            identity="SELECT @@server_id, @@server_uuid",
            binlog_status="SHOW BINARY LOG STATUS",
            gtids_can_be_off=True,
            dumps_by_gtid=True,
            utf8mb4_default="utf8mb4_0900_ai_ci",
            shows_geomcollection=True,
            table_numbers="innodb_tables",
            flush_waits=True,
            savepoints_release_locks=True,
            gb18030=True,
            shrinks_unique_keys=True,
            nulls_become_now=False,
            alters_visibility=True,
            generates_keys=True,
            cascades_can_be_logged=True,
            lists_prepared="XA RECOVER CONVERT XID",
            row_alias=True,
            json_keeps_decimals=True,
            max_error_count_rises=True,
        ),
        Capabilities(
            flavour=Flavour.MARIADB,
            title="MariaDB",
            oldest=(10, 5),
            family=Flavour.MARIADB,
            identity="SELECT @@server_id, @@gtid_domain_id",
            server_uuid="{identity}-{server_id}",  # DM's form
            monitor_privilege="BINLOG MONITOR",
            executed_gtids="@@global.gtid_binlog_pos",
            gtids_at="SELECT BINLOG_GTID_POS(%s, %s)",
            stated_gtids_are_complete=True,
            leaves_torn_files=True,
            unstated_format="",
            lists_prepared="XA RECOVER FORMAT='SQL'",
            snapshots_are_located=True,
            shows_widths=True,
            cuts_keys=True,
            key_visibility=("NOT IGNORED", "IGNORED"),
            under_sql_mode=b"SET STATEMENT sql_mode='%(mode)b' FOR %(verb)b %(rest)b",
            conditional_alters=True,
            foreign_keys_need=(),
        ),
        Capabilities(
            flavour=Flavour.TIDB,
            title="TiDB",
            oldest=(6, 2),  # the first with GET_LOCK and SAVEPOINT; not tested
            identity=None,
            writes_binlog=False,
            utf8mb4_default="utf8mb4_bin",
            utf8mb3_charset="utf8",
            utf8mb3_collations="utf8",
            weighs_text=False,
            collations=frozenset(
                {"ascii_bin", "binary", "gbk_bin", "gbk_chinese_ci", "latin1_bin"}
                | {f"utf8{kind}_{rule}" for kind in ("", "mb3", "mb4") for rule in ("bin", "general_ci", "unicode_ci")}
                | {"utf8mb4_0900_ai_ci", "utf8mb4_0900_bin"}
            ),
            under_sql_mode=None,
            raw_types=False,
            text_is_utf8=True,
            updates_index_0=False,
            upserts_wide_bits=False,
            alters_one_change_at_a_time=True,
            computes_as_sources=False,
            changes_charsets=False,
            default_functions=frozenset({"json_array", "json_object", "rand", "uuid"}),
            alters_columns_of_keys=False,
            numbers_rows=False,
            nulls_become_now=False,
            invisible_columns=False,
            distinguishes_case=False,
            keeps_descending=False,
            inline_references=False,
            checks_need="tidb_enable_check_constraint",
            spreads_rows=True,
            subpartitions=False,
            fulltext_keys=False,
            adds_indexes_faster=False,
            ddl_jobs=(
                "SELECT db_name, table_name, job_id, job_type, state, row_count FROM information_schema.ddl_jobs "
                "WHERE state NOT IN ('synced', 'cancelled', 'rollback done')"
            ),
            # The default of the latter means no limit.
            transaction_limits=("SELECT @@tidb_mem_quota_query", f"SELECT NULLIF({_TOTAL}, 104857600)"),
            row_limits=("SELECT @@tidb_txn_entry_size_limit", f"SELECT {_CONFIGURED.format('entry')}"),
            warns_about_plans=True,
            names_lock_holders=False,
            kill="KILL TIDB {}",
        ),
    )
}
"""The facts about the newest release of each family."""

_BEFORE: Final[tuple[tuple[Flavour, Version, dict[str, Any]], ...]] = (
    (Flavour.MYSQL, (9,), {"inline_references": False}),
    (Flavour.MYSQL, (8, 2), {"binlog_status": "SHOW MASTER STATUS"}),
    (Flavour.MYSQL, (8, 0, 30), {"utf8mb3_collations": "utf8", "generates_keys": False}),
    (Flavour.MYSQL, (8, 0, 28), {"utf8mb3_charset": "utf8"}),
    (Flavour.MYSQL, (8, 0, 23), {"invisible_columns": False, "alters_visibility": False}),
    (Flavour.MYSQL, (8, 0, 19), {"row_alias": False, "shows_widths": True}),
    (Flavour.MYSQL, (8, 0, 16), {"keeps_checks": False}),
    (Flavour.MYSQL, (8,), {"utf8mb4_default": "utf8mb4_general_ci"}),
    (
        Flavour.MYSQL,
        (8,),
        {"shows_geomcollection": False, "table_numbers": "innodb_sys_tables", "keeps_descending": False},
    ),
    (Flavour.MARIADB, (11, 1), {"isolation_is_tx": True}),
    (Flavour.MARIADB, (10, 8), {"keeps_descending": False}),
    (Flavour.TIDB, (6, 5), {"transaction_limits": (f"SELECT {_TOTAL}",)}),
    (Flavour.MARIADB, (10, 6), {"utf8mb3_charset": "utf8", "utf8mb3_collations": "utf8"}),
)


@cache
def capabilities_of(flavour: Flavour, version: Version) -> Capabilities:
    """Return the facts about a server of this family and release.

    >>> capabilities_of(Flavour.MYSQL, (8, 0, 36)).binlog_status
    'SHOW MASTER STATUS'
    """
    capabilities = CAPABILITIES[flavour]
    for family, release, older in _BEFORE:
        if family is flavour and version < release:
            capabilities = replace(capabilities, **older)
    return capabilities
