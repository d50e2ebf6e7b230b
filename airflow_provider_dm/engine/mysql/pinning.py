"""Pins the session of a new connection: one SET, and one query for values that cannot be set.

    SET a = …, b = …, …         everything (`pinned.settings`), in one round trip
    SELECT @@max_allowed_packet, @@GLOBAL.init_connect, @@version_comment

If the SET is refused, every variable is set separately: a variable that the server does not have is omitted from then
on; a variable that this account may not set must already have its value.

`init_connect` has run before, for accounts without administrative privileges, and may do more than set variables: begin
a transaction, lock tables, or hide a table behind a temporary table of its name. So if a server has one, the session is
reset (which does not run it again) and pinned again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pymysql
from pymysql.constants import CR, ER

from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.mysql.capabilities import Version
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Flavour
from airflow_provider_dm.engine.mysql.errors import SessionRefused
from airflow_provider_dm.engine.mysql.guarded import GuardedConnection, printable
from airflow_provider_dm.engine.mysql.pinned import Setting, settings

_SET_BY_CLIENT: Final = frozenset(
    {"autocommit", "character_set_client", "character_set_connection", "character_set_results", "collation_connection"}
)
_READ_ONLY_VALUES: Final = "SELECT @@max_allowed_packet, @@GLOBAL.init_connect, @@version_comment"
_DENIED: Final = frozenset({1227, 1229, 1238, 1621})


def pin(connection: GuardedConnection, endpoint: Endpoint, *, isolation: str) -> None:
    """Set the session variables that all other code relies on.

    Raises InvalidInput, SessionRefused, and pymysql's errors.
    """
    flavour, version = family_of(connection.server_version)
    wanted = settings(flavour, version, isolation=isolation, server=str(endpoint), session=endpoint.session)
    _end_transaction(connection)
    try:
        set_all(connection, wanted, server=str(endpoint))
    except SessionRefused:  # some variables cannot be set in a transaction, which init_connect may have begun
        _reset(connection)
        set_all(connection, wanted, server=str(endpoint))
    most_bytes, init_connect, comment = _read_only_values(connection)
    if "tidb" in comment.lower() and flavour is not Flavour.TIDB:
        raise InvalidInput(
            f"{endpoint} is TiDB, but its version is {connection.server_version}: it would be treated as MySQL.",
            "Remove `server-version` from the configuration of TiDB or its proxy, or set it to one like "
            "8.0.11-TiDB-v8.5.0, with the release of TiDB.",
        )
    if init_connect:
        _reset(connection)
        set_all(connection, wanted, server=str(endpoint))
    connection.most_bytes = most_bytes


def _read_only_values(connection: Any) -> tuple[int, Any, str]:
    """Return max_allowed_packet, init_connect and version_comment.

    Raises pymysql's errors, also for a malformed result.
    """
    try:
        ((most_bytes, init_connect, comment),) = _query(connection, _READ_ONLY_VALUES)
        return int(most_bytes), init_connect, str(comment)  # proxies return text, which int accepts as well
    except (TypeError, ValueError) as error:
        reason = f"unexpected result of {_READ_ONLY_VALUES}"
        raise pymysql.err.OperationalError(CR.CR_MALFORMED_PACKET, reason) from error


def _reset(connection: GuardedConnection) -> None:
    connection.reset()
    _end_transaction(connection)


def _end_transaction(connection: Any) -> None:
    """Turn autocommit on: some variables cannot be set in a transaction.

    completion_type comes first: with another value, the end of the transaction would begin a new one.
    """
    if not connection.get_autocommit():
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION completion_type = 0, autocommit = 1")


def pin_borrowed(connection: Any, server: str, *, isolation: str) -> None:
    """Pin a connection made by other code (PyMySQL's); keep its charsets and its autocommit.

    Raises SessionRefused, and pymysql's errors.
    """
    flavour, version = family_of(connection.server_version)
    wanted = settings(flavour, version, isolation=isolation, server=server, session=())
    commits = connection.get_autocommit()
    _end_transaction(connection)
    set_all(connection, [setting for setting in wanted if setting.name not in _SET_BY_CLIENT], server=server)
    connection.autocommit(commits)


def family_of(server_version: str) -> tuple[Flavour, Version]:
    """Return the family and version in a server's greeting.

    >>> family_of("5.5.5-10.11.19-MariaDB-log"), family_of("9.7.4-2")
    ((<Flavour.MARIADB: 'mariadb'>, (10, 11, 19)), (<Flavour.MYSQL: 'mysql'>, (9, 7, 4)))
    >>> family_of("8.0.11-TiDB-v8.5.3")  # the first number is the MySQL release that it emulates
    (<Flavour.TIDB: 'tidb'>, (8, 5, 3))
    """
    name = server_version.lower()
    front, is_tidb, release = name.partition("tidb-v")
    number = (release if is_tidb else front.removeprefix("5.5.5-")).split("-", 1)[0]
    version = tuple(int(part) for part in number.split(".") if part.isdigit())
    if "tidb" in name:
        return Flavour.TIDB, version
    return (Flavour.MARIADB if "mariadb" in name else Flavour.MYSQL), version


@dataclass(frozen=True)
class _Known:
    """The variables that a server does not have, and those that our account may not set."""

    absent: frozenset[str] = frozenset()
    denied: frozenset[str] = frozenset()


_known: Final[dict[tuple[str, str], _Known]] = {}
"""By server and version, from earlier refusals."""


def set_all(connection: Any, wanted: Sequence[Setting], *, server: str) -> None:
    """Set all variables; after an error, the session must not be used. Raises SessionRefused, and pymysql's errors."""
    key = (server, connection.server_version)
    known = _known.get(key, _Known())
    for setting in wanted:
        if setting.name in known.denied and not _has_value(connection, setting):
            raise SessionRefused(server, setting.name, str(setting.value), "the account may not set it")
    usual = [setting for setting in wanted if setting.name not in known.absent | known.denied]
    try:
        _set(connection, usual)
    except pymysql.err.MySQLError as error:
        if len(error.args) < 2 or not connection.open:
            raise
        denials = {setting.name: _set_alone(connection, setting, server) for setting in usual}
        absent = {name for name, number in denials.items() if number == ER.UNKNOWN_SYSTEM_VARIABLE}
        denied = {name for name, number in denials.items() if number in _DENIED}
        _known[key] = _Known(known.absent | absent, known.denied | denied)


def _set_alone(connection: Any, setting: Setting, server: str) -> int:
    """Set one variable. Return 0, or the server's error number if the refusal has no effect on the session.

    Raises SessionRefused, and pymysql's errors once the connection is lost.
    """
    try:
        _set(connection, [setting])
    except pymysql.err.MySQLError as error:
        number, reason = (*error.args, 0, "")[:2]
        if not connection.open:
            raise
        if number == ER.UNKNOWN_SYSTEM_VARIABLE and not setting.chosen:
            return int(number)
        if number in _DENIED and _has_value(connection, setting):
            return int(number)
        raise SessionRefused(server, setting.name, str(setting.value), printable(str(reason))) from error
    return 0


def _set(connection: Any, wanted: Sequence[Setting]) -> None:
    with connection.cursor() as cursor:
        # While EMPTY_STRING_IS_NULL is set, which this statement may end, the literal '' would be NULL.
        values = ["LEFT('-', 0)" if one.value == "" else cursor.mogrify("%s", (one.value,)) for one in wanted]
        pairs = zip(wanted, values, strict=True)
        cursor.execute("SET " + ", ".join(f"SESSION {setting.name} = {value}" for setting, value in pairs))


def _has_value(connection: Any, setting: Setting) -> bool:
    try:
        ((value,),) = _query(connection, f"SELECT @@SESSION.{setting.name}")
    except pymysql.err.MySQLError as error:
        if error.args[0] != ER.INCORRECT_GLOBAL_LOCAL_VAR:  # a global variable without a session value
            raise
        return False
    return str(value.decode() if isinstance(value, bytes) else value).lower() == str(setting.value).lower()


def _query(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())
