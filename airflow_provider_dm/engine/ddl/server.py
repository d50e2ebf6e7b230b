"""What decides, besides its text, how a DDL statement is understood: the server, and the session that ran it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider_dm.engine.mysql.connection import Connection, query, server_info
from airflow_provider_dm.engine.mysql.endpoint import Flavour

STRICT_TRANS_TABLES: Final = 1 << 21
STRICT_ALL_TABLES: Final = 1 << 22


class CannotTrack(Exception):
    """A statement after which nobody is certain of a table's form; the argument says why."""


class NotKnown(CannotTrack):
    """A statement about a table, column or key that is not known."""


@dataclass(frozen=True, slots=True)
class Server:
    """Traits of an upstream server by which a definition is resolved."""

    flavour: Flavour
    version: tuple[int, ...]
    lower_case_table_names: int = 0

    @property
    def mariadb(self) -> bool:
        return self.flavour is Flavour.MARIADB

    @property
    def shows_widths(self) -> bool:
        """Tell whether integers and YEAR are shown with the width that nothing depends on: `int(11)`."""
        return self.mariadb or self.version < (8, 0, 19)

    @property
    def keeps_checks(self) -> bool:
        """Tell whether CHECK is more than passed over."""
        return self.mariadb or self.version >= (8, 0, 16)

    @property
    def keeps_descending(self) -> bool:
        """Tell whether DESC in a key is more than passed over."""
        return self.version >= ((10, 8) if self.mariadb else (8,))


def server_of(connection: Connection) -> Server:
    """Return what of a server decides how its statements are understood."""
    info = server_info(connection)
    ((number,),) = query(connection, "SELECT @@global.lower_case_table_names")
    return Server(info.flavour, info.version_number, int(number))


@dataclass(frozen=True, slots=True)
class SessionDefaults:
    """Variables of a session by which it is resolved; what the log does not say is what most sessions have."""

    sql_mode: int = 0
    server_collation: str | None = None
    """collation_server, which a new schema gets."""
    explicit_timestamp_defaults: bool | None = None
    """explicit_defaults_for_timestamp; None: nobody knows, so a TIMESTAMP must say itself whether it may be NULL."""
    default_collations: tuple[tuple[str, str], ...] = ()
    """(charset, collation) of each charset that has another default here."""

    @property
    def strict(self) -> bool:
        """Tell whether what does not fit is refused; else it is changed so that it does."""
        return bool(self.sql_mode & (STRICT_TRANS_TABLES | STRICT_ALL_TABLES))
