"""The differences between servers: one row of facts for each family, and what older releases of it have instead.

Code asks for a fact by its name and never for a family, so that a further family is a further row. What is no fact of a
server stays where it is: the forms of binlogs, of GTID sets and of the replication protocol, and one family's CREATE
TABLE in the words of another. Which session variables a server has is a table of its own (`pinned`).
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
    """The facts about one server; without a default what each family has, with one what only some have."""

    flavour: Flavour
    title: str
    """What people call the family."""
    oldest: Version
    """The first release that was tried: older ones write binlogs and catalogues that nobody has looked at."""

    # What it says of itself
    identity: str | None
    """Asks for its server id, and for what `server_uuid` is made of; None: it has neither."""
    server_uuid: str = "{told}"
    grants_name_roles: bool = False
    """SHOW GRANTS leaves out what comes from roles, unless they are named."""
    isolation_is_tx: bool = False
    """It calls transaction_isolation and transaction_read_only tx_isolation and tx_read_only."""

    # Its binlog
    writes_binlog: bool = True
    binlog_status: str = "SHOW MASTER STATUS"
    """Shows where the binlog ends."""
    monitor_privilege: str = "REPLICATION CLIENT"
    """Lets an account ask that."""
    executed_gtids: str = "@@global.gtid_executed"
    gtids_at: str | None = None
    """Asks for the exact GTID set at (file, position): slow for a long file, which is read from its start."""
    gtids_can_be_off: bool = False
    """gtid_mode says whether transactions have GTIDs at all."""
    stated_gtids_are_complete: bool = False
    """A file states what was before it, and nobody can change that by hand, as MySQL's gtid_purged does."""
    leaves_torn_files: bool = False
    """A file that a crash has torn stays so. MySQL repairs it: there a torn file is damage."""
    dumps_by_gtid: bool = False
    """It has COM_BINLOG_DUMP_GTID, with 64 bits for a position."""
    unstated_format: str = "ROW"
    """The binlog_format of a server without that variable; "": unknown."""
    compression_variable: str = "binlog_transaction_compression"
    cascades_can_be_logged: bool = False
    """innodb_native_foreign_keys says whether the binlog tells of the rows that a foreign key changes."""
    lists_prepared: str | None = None
    """Shows the XA transactions that are prepared, their names in ASCII."""
    snapshots_are_located: bool = False
    """A read transaction tells where in the binlog it stands, so that a copy takes no lock."""

    # What is written to it
    under_sql_mode: bytes = b"%(verb)b /*+ SET_VAR(sql_mode='%(mode)b') */ %(rest)b"
    """The form of one statement with another sql_mode."""
    row_alias: bool = False
    """ON DUPLICATE KEY UPDATE names the new row by an alias, and VALUES() is warned about."""
    json_is_binary: bool = True
    """A JSON column holds typed values, and no text."""
    max_error_count_rises: bool = False
    """A writing session asks it to keep all warnings."""
    alters_one_change_at_a_time: bool = False
    """ALTER TABLE takes one change. TiDB takes several from 6.2 on, but never two about one column, as of one that is
    added and the key over it (ADMIN SHOW DDL JOBS, too, tells of each on its own)."""
    conditional_alters: bool = False
    """ALTER TABLE and CREATE INDEX have IF EXISTS and IF NOT EXISTS."""
    foreign_keys_need: tuple[str, ...] = ("REFERENCES",)
    """The further privileges that creating one takes."""
    writing_session: str | None = None
    """Another statement that a writing session begins with."""


CAPABILITIES: Final[Mapping[Flavour, Capabilities]] = {
    row.flavour: row
    for row in (
        Capabilities(
            flavour=Flavour.MYSQL,
            title="MySQL",
            oldest=(5, 7),
            identity="SELECT @@server_id, @@server_uuid",
            grants_name_roles=True,
            binlog_status="SHOW BINARY LOG STATUS",
            gtids_can_be_off=True,
            dumps_by_gtid=True,
            cascades_can_be_logged=True,
            lists_prepared="XA RECOVER CONVERT XID",
            row_alias=True,
            max_error_count_rises=True,
        ),
        Capabilities(
            flavour=Flavour.MARIADB,
            title="MariaDB",
            oldest=(10, 5),
            identity="SELECT @@server_id, @@gtid_domain_id",
            server_uuid="{told}-{server_id}",  # as DM has it
            monitor_privilege="BINLOG MONITOR",
            executed_gtids="@@global.gtid_binlog_pos",
            gtids_at="SELECT BINLOG_GTID_POS(%s, %s)",
            stated_gtids_are_complete=True,
            leaves_torn_files=True,
            unstated_format="",
            compression_variable="log_bin_compress",
            lists_prepared="XA RECOVER FORMAT='SQL'",
            snapshots_are_located=True,
            under_sql_mode=b"SET STATEMENT sql_mode='%(mode)b' FOR %(verb)b %(rest)b",
            json_is_binary=False,
            conditional_alters=True,
            foreign_keys_need=(),
        ),
        Capabilities(
            flavour=Flavour.TIDB,
            title="TiDB",
            oldest=(6, 2),  # GET_LOCK and SAVEPOINT; none was tried
            identity=None,
            writes_binlog=False,
            alters_one_change_at_a_time=True,
            writing_session="SET SESSION tidb_txn_mode = 'pessimistic'",
        ),
    )
}
"""What the newest release of each family has."""

_BEFORE: Final[tuple[tuple[Flavour, Version, dict[str, Any]], ...]] = (
    (Flavour.MYSQL, (8, 2), {"binlog_status": "SHOW MASTER STATUS"}),
    (Flavour.MYSQL, (8, 0, 19), {"row_alias": False}),
    (Flavour.MYSQL, (8,), {"grants_name_roles": False}),
    (Flavour.MARIADB, (11, 1), {"isolation_is_tx": True}),
)


@cache
def capabilities_of(flavour: Flavour, version: Version) -> Capabilities:
    """Return the facts about a server of this family and release.

    >>> capabilities_of(Flavour.MYSQL, (8, 0, 36)).binlog_status
    'SHOW MASTER STATUS'
    """
    found = CAPABILITIES[flavour]
    for family, release, older in _BEFORE:
        if family is flavour and version < release:
            found = replace(found, **older)
    return found
