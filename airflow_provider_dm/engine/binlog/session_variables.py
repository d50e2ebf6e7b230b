"""The status variables of a QUERY event: what the session was set to when its statement ran.

Each is a number and a value whose layout the number alone decides; there is no length. So reading ends at the first
variable that is not in the table, and `Session.unknown` names it: what it and the ones behind it say stays unsaid,
instead of being misread. They come in no certain order (MariaDB 11 writes 131 before 4).

Sources: MySQL `libs/mysql/binlog/event/statement_events.cpp`, MariaDB `sql/log_event.cc`; checked against the bytes of
MySQL 9.7, MariaDB 10.11 and 11.8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pymysqlreplication.constants import STATUS_VAR_KEY

from airflow_provider_dm.engine.binlog.errors import MalformedEvent

EXPLICIT_TIMESTAMPS: Final = 1 << 24
"""A bit of `Session.flags`: explicit_defaults_for_timestamp, MariaDB's from 10.8.2 on."""

_MOST_SCHEMAS: Final = 16  # a statement that changes more says only that (254)
_SECOND_PHASE: Final = 4 | 8  # of MariaDB's ALTER in two phases: commit, rollback; they name their first phase


@dataclass(frozen=True, slots=True)
class Session:
    """The settings of a session; None is what the event does not say.

    Charsets are collation ids; texts are in the server's UTF-8.
    """

    flags: int | None = None
    sql_mode: int | None = None
    catalog: bytes | None = None
    auto_increment: tuple[int, int] | None = None
    """(increment, offset)"""
    charsets: tuple[int, int, int] | None = None
    """(client, connection, server)"""
    time_zone: bytes | None = None
    time_names: int | None = None
    """Number of the locale of lc_time_names."""
    schema_charset: int | None = None
    """collation_database, where it is not the schema's own"""
    updated_tables: int | None = None
    """Numbers of the tables that a multi-table UPDATE changes, as bits."""
    written_size: int | None = None
    invoker: tuple[bytes, bytes] | None = None
    """(user, host)"""
    updated_schemas: tuple[bytes, ...] | None = None
    """None also where they are too many to be named."""
    microseconds: int | None = None
    """of the event's timestamp"""
    explicit_timestamp_defaults: bool | None = None
    xid: int | None = None
    """of DDL that the server's recovery can finish"""
    utf8mb4_collation: int | None = None
    require_primary_key: bool | None = None
    encrypt_tables: bool | None = None
    alter_phase: tuple[int, int] | None = None
    """(flags, sequence number of the first phase or 0): MariaDB's ALTER in two phases"""
    default_collations: tuple[tuple[int, int], ...] | None = None
    """(charset by its default collation, collation): MariaDB's character_set_collations"""
    unknown: int | None = None
    """The first variable that is not known; what comes behind it is not said here."""


def read_session(variables: bytes, at: str) -> Session:
    """Read the block of status variables. Raises MalformedEvent where a variable is cut short."""
    found: dict[str, Any] = {}
    reader = _Reader(variables)
    while reader.left:
        number = reader.number(1)
        variable = _VARIABLES.get(number)
        if variable is None:
            found["unknown"] = number
            break
        try:
            value = variable.read(reader)
        except _CutShort as error:
            raise MalformedEvent(at, f"status variable {number} of a QUERY event is cut short") from error
        if variable.name:
            found[variable.name] = value
    return Session(**found)


class _CutShort(Exception):
    """A variable's value ends behind the block."""


class _Reader:
    """The block from left to right."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._position

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise _CutShort
        self._position += size
        return self._data[self._position - size : self._position]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def prefixed(self) -> bytes:
        """Read a text behind a byte with its length."""
        return self.take(self.number(1))

    def terminated(self) -> bytes:
        """Read a text in front of a NUL."""
        end = self._data.find(b"\0", self._position)
        if end < 0:
            raise _CutShort
        return self.take(end + 1 - self._position)[:-1]


class _Variable(NamedTuple):
    """One variable. `name`: the field of Session, or "" where nobody needs the value."""

    name: str
    read: Callable[[_Reader], object]


def _number(size: int) -> Callable[[_Reader], int]:
    return lambda reader: reader.number(size)


def _numbers(*sizes: int) -> Callable[[_Reader], tuple[int, ...]]:
    return lambda reader: tuple(reader.number(size) for size in sizes)


def _switch(reader: _Reader) -> bool:
    return bool(reader.number(1))


def _catalog_with_nul(reader: _Reader) -> bytes:
    return reader.take(reader.number(1) + 1)[:-1]


def _user_and_host(reader: _Reader) -> tuple[bytes, bytes]:
    return reader.prefixed(), reader.prefixed()


def _schemas(reader: _Reader) -> tuple[bytes, ...] | None:
    count = reader.number(1)
    return None if count > _MOST_SCHEMAS else tuple(reader.terminated() for _ in range(count))


def _alter_phase(reader: _Reader) -> tuple[int, int]:
    flags = reader.number(1)
    return flags, reader.number(8) if flags & _SECOND_PHASE else 0


def _collations(reader: _Reader) -> tuple[tuple[int, int], ...]:
    return tuple((reader.number(2), reader.number(2)) for _ in range(reader.number(1)))


_ALTER_PHASE, _DEFAULT_COLLATIONS = 130, 131  # MariaDB's newer ones, which mysql-replication does not have
_VARIABLES: Final = {
    STATUS_VAR_KEY.Q_FLAGS2_CODE: _Variable("flags", _number(4)),
    STATUS_VAR_KEY.Q_SQL_MODE_CODE: _Variable("sql_mode", _number(8)),
    STATUS_VAR_KEY.Q_CATALOG_CODE: _Variable("catalog", _catalog_with_nul),  # MySQL 5.0.0 to 5.0.3
    STATUS_VAR_KEY.Q_AUTO_INCREMENT: _Variable("auto_increment", _numbers(2, 2)),
    STATUS_VAR_KEY.Q_CHARSET_CODE: _Variable("charsets", _numbers(2, 2, 2)),
    STATUS_VAR_KEY.Q_TIME_ZONE_CODE: _Variable("time_zone", _Reader.prefixed),
    STATUS_VAR_KEY.Q_CATALOG_NZ_CODE: _Variable("catalog", _Reader.prefixed),
    STATUS_VAR_KEY.Q_LC_TIME_NAMES_CODE: _Variable("time_names", _number(2)),
    STATUS_VAR_KEY.Q_CHARSET_DATABASE_CODE: _Variable("schema_charset", _number(2)),
    STATUS_VAR_KEY.Q_TABLE_MAP_FOR_UPDATE_CODE: _Variable("updated_tables", _number(8)),
    STATUS_VAR_KEY.Q_MASTER_DATA_WRITTEN_CODE: _Variable("written_size", _number(4)),
    STATUS_VAR_KEY.Q_INVOKER: _Variable("invoker", _user_and_host),
    STATUS_VAR_KEY.Q_UPDATED_DB_NAMES: _Variable("updated_schemas", _schemas),
    STATUS_VAR_KEY.Q_MICROSECONDS: _Variable("microseconds", _number(3)),
    # Q_COMMIT_TS and Q_COMMIT_TS2, commit timestamps, were in no released MySQL
    STATUS_VAR_KEY.Q_EXPLICIT_DEFAULTS_FOR_TIMESTAMP: _Variable("explicit_timestamp_defaults", _switch),
    STATUS_VAR_KEY.Q_DDL_LOGGED_WITH_XID: _Variable("xid", _number(8)),
    STATUS_VAR_KEY.Q_DEFAULT_COLLATION_FOR_UTF8MB4: _Variable("utf8mb4_collation", _number(2)),
    STATUS_VAR_KEY.Q_SQL_REQUIRE_PRIMARY_KEY: _Variable("require_primary_key", _switch),
    STATUS_VAR_KEY.Q_DEFAULT_TABLE_ENCRYPTION: _Variable("encrypt_tables", _switch),
    STATUS_VAR_KEY.Q_HRNOW: _Variable("microseconds", _number(3)),  # from here on MariaDB's
    STATUS_VAR_KEY.Q_XID: _Variable("xid", _number(8)),
    _ALTER_PHASE: _Variable("alter_phase", _alter_phase),
    _DEFAULT_COLLATIONS: _Variable("default_collations", _collations),
}
