"""The status variables of a QUERY event: the settings of the session that ran its statement.

Each is a number and a value whose format depends on the number; there is no length. So reading ends at the first
unknown variable, which `Session.unknown` names: its value and the following variables are omitted rather than misread.
The order varies (MariaDB 11 writes 131 before 4).

Sources: MySQL `libs/mysql/binlog/event/statement_events.cpp`, MariaDB `sql/log_event.cc`; checked against the bytes of
MySQL 9.7, MariaDB 10.11 and 11.8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pymysqlreplication.constants import STATUS_VAR_KEY

from airflow_provider_dm.engine.binlog.byte_reader import ByteReader

EXPLICIT_TIMESTAMPS: Final = 1 << 24
"""A bit of `Session.flags`: explicit_defaults_for_timestamp, MariaDB's from 10.8.2 on."""

_MOST_SCHEMAS: Final = 16  # a statement that changes more has the number 254 only
_SECOND_PHASE: Final = 4 | 8  # of MariaDB's two-phase ALTER: commit, rollback; they name their first phase


@dataclass(frozen=True, slots=True)
class Session:
    """The session settings that are needed; None if the event does not contain them.

    Charsets are collation ids; texts are in the server's UTF-8.
    """

    flags: int | None = None
    sql_mode: int | None = None
    auto_increment: tuple[int, int] | None = None
    """(increment, offset)"""
    charsets: tuple[int, int, int] | None = None
    """(client, connection, server)"""
    time_zone: bytes | None = None
    microseconds: int | None = None
    """of the event's timestamp"""
    explicit_timestamp_defaults: bool | None = None
    utf8mb4_collation: int | None = None
    default_collations: tuple[tuple[int, int], ...] | None = None
    """(charset by its default collation, collation): MariaDB's character_set_collations"""
    unknown: int | None = None
    """The first unknown variable; the variables after it are omitted."""


def read_session(variables: bytes, at: str) -> Session:
    """Read the block of status variables. Raises MalformedEvent if a variable is too short."""
    found: dict[str, Any] = {}
    reader = ByteReader(variables, at, "the status variables of a QUERY event")
    while reader.left:
        number = reader.fixed(1)
        variable = _VARIABLES.get(number)
        if variable is None:
            found["unknown"] = number
            break
        reader.what = f"status variable {number} of a QUERY event"
        value = variable.read(reader)
        if variable.field:
            found[variable.field] = value
    return Session(**found)


class _Variable(NamedTuple):
    """One variable. `field`: of Session, or "" if the value is not needed."""

    field: str
    read: Callable[[ByteReader], object]


def _number(size: int) -> Callable[[ByteReader], int]:
    return lambda reader: reader.fixed(size)


def _numbers(*sizes: int) -> Callable[[ByteReader], tuple[int, ...]]:
    return lambda reader: tuple(map(reader.fixed, sizes))


def _switch(reader: ByteReader) -> bool:
    return bool(reader.fixed(1))


def _prefixed_with_nul(reader: ByteReader) -> None:
    reader.take(reader.fixed(1) + 1)


def _two_prefixed(reader: ByteReader) -> None:
    reader.prefixed()
    reader.prefixed()


def _schemas(reader: ByteReader) -> None:
    """Skip texts that each end with a NUL."""
    count = reader.fixed(1)
    for _ in range(count if count <= _MOST_SCHEMAS else 0):
        while reader.fixed(1):
            pass


def _alter_phase(reader: ByteReader) -> None:
    if reader.fixed(1) & _SECOND_PHASE:
        reader.take(8)


def _collations(reader: ByteReader) -> tuple[tuple[int, int], ...]:
    return tuple((reader.fixed(2), reader.fixed(2)) for _ in range(reader.fixed(1)))


_ALTER_PHASE, _DEFAULT_COLLATIONS = 130, 131  # MariaDB's newer ones, which mysql-replication does not have
_VARIABLES: Final = {
    STATUS_VAR_KEY.Q_FLAGS2_CODE: _Variable("flags", _number(4)),
    STATUS_VAR_KEY.Q_SQL_MODE_CODE: _Variable("sql_mode", _number(8)),
    STATUS_VAR_KEY.Q_CATALOG_CODE: _Variable("", _prefixed_with_nul),  # MySQL 5.0.0 to 5.0.3
    STATUS_VAR_KEY.Q_AUTO_INCREMENT: _Variable("auto_increment", _numbers(2, 2)),
    STATUS_VAR_KEY.Q_CHARSET_CODE: _Variable("charsets", _numbers(2, 2, 2)),
    STATUS_VAR_KEY.Q_TIME_ZONE_CODE: _Variable("time_zone", ByteReader.prefixed),
    STATUS_VAR_KEY.Q_CATALOG_NZ_CODE: _Variable("", ByteReader.prefixed),
    STATUS_VAR_KEY.Q_LC_TIME_NAMES_CODE: _Variable("", _number(2)),
    STATUS_VAR_KEY.Q_CHARSET_DATABASE_CODE: _Variable("", _number(2)),
    STATUS_VAR_KEY.Q_TABLE_MAP_FOR_UPDATE_CODE: _Variable("", _number(8)),
    STATUS_VAR_KEY.Q_MASTER_DATA_WRITTEN_CODE: _Variable("", _number(4)),
    STATUS_VAR_KEY.Q_INVOKER: _Variable("", _two_prefixed),
    STATUS_VAR_KEY.Q_UPDATED_DB_NAMES: _Variable("", _schemas),
    STATUS_VAR_KEY.Q_MICROSECONDS: _Variable("microseconds", _number(3)),
    # Q_COMMIT_TS and Q_COMMIT_TS2, commit timestamps, were in no released MySQL
    STATUS_VAR_KEY.Q_EXPLICIT_DEFAULTS_FOR_TIMESTAMP: _Variable("explicit_timestamp_defaults", _switch),
    STATUS_VAR_KEY.Q_DDL_LOGGED_WITH_XID: _Variable("", _number(8)),
    STATUS_VAR_KEY.Q_DEFAULT_COLLATION_FOR_UTF8MB4: _Variable("utf8mb4_collation", _number(2)),
    STATUS_VAR_KEY.Q_SQL_REQUIRE_PRIMARY_KEY: _Variable("", _number(1)),
    STATUS_VAR_KEY.Q_DEFAULT_TABLE_ENCRYPTION: _Variable("", _number(1)),
    STATUS_VAR_KEY.Q_HRNOW: _Variable("microseconds", _number(3)),  # from here on MariaDB's
    STATUS_VAR_KEY.Q_XID: _Variable("", _number(8)),
    _ALTER_PHASE: _Variable("", _alter_phase),
    _DEFAULT_COLLATIONS: _Variable("default_collations", _collations),
}
