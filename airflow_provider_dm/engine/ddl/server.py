"""The context that decides the meaning of a DDL statement besides its text: the server and the session."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from airflow_provider_dm.engine.mysql.capabilities import Capabilities, capabilities_of
from airflow_provider_dm.engine.mysql.connection import Connection, query, server_info, text
from airflow_provider_dm.engine.mysql.endpoint import Flavour

STRICT_TRANS_TABLES: Final = 1 << 21
STRICT_ALL_TABLES: Final = 1 << 22


@dataclass(frozen=True, slots=True)
class Server:
    """The properties of an upstream server by which a definition is resolved."""

    flavour: Flavour
    version: tuple[int, ...]
    lower_case_table_names: int = 0
    explicit_timestamps: bool | None = None
    """The server's explicit_defaults_for_timestamp, if its log lacks that of sessions: of MySQL 5.7, where only SUPER
    sets it, and of MariaDB before 10.8.2, where it is fixed at the server's start."""

    @property
    def mariadb(self) -> bool:
        return self.flavour is Flavour.MARIADB

    @property
    def can(self) -> Capabilities:
        return capabilities_of(self.flavour, self.version)


def server_of(connection: Connection) -> Server:
    """Read the properties of a server by which its statements are resolved."""
    info = server_info(connection)
    ((lower_case,),) = query(connection, "SELECT @@global.lower_case_table_names")
    server = Server(info.flavour, info.version_number, int(lower_case))
    if info.version_number >= ((10, 8, 2) if server.mariadb else (8,)):
        return server
    # Without rows it is off: MySQL before 5.6.6 and MariaDB before 10.1.8 lack the variable.
    rows = query(connection, "SHOW GLOBAL VARIABLES LIKE 'explicit_defaults_for_timestamp'")
    return replace(server, explicit_timestamps=any(text(value) == "ON" for _, value in rows))


@dataclass(frozen=True, slots=True)
class SessionDefaults:
    """Variables of a session by which a definition is resolved; a variable that is not logged has the usual value."""

    sql_mode: int = 0
    server_collation: str | None = None
    """collation_server, the default of a new schema."""
    explicit_timestamp_defaults: bool | None = None
    """explicit_defaults_for_timestamp; None: unknown, so a TIMESTAMP must declare NULL or NOT NULL."""
    default_collations: tuple[tuple[str, str], ...] = ()
    """(charset, collation) of each charset whose default differs in this session."""

    @property
    def strict(self) -> bool:
        """Return True if the session rejects values that do not fit; otherwise the server adjusts them."""
        return bool(self.sql_mode & (STRICT_TRANS_TABLES | STRICT_ALL_TABLES))
