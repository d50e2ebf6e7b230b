"""Pinning a session on a live connection: one statement, and one question about what cannot be set.

    SET a = …, b = …, …         everything (`pinned.settings`), in one round trip
    SELECT @@max_allowed_packet, @@GLOBAL.init_connect

Where the one SET is refused, every variable is set by itself: one that the server does not have cannot change anything
and is left out from then on; one that this account may not set has to have its value already.

`init_connect` runs before us, for accounts without administrative privileges, and may do more than set variables: begin
a transaction, lock tables, hide a table behind a temporary one of its name. So where a server has one, the session is
reset (which does not run it again) and pinned anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pymysql
from pymysql.constants import CR, ER

from airflow_provider_dm.engine.errors import DmError, Scope
from airflow_provider_dm.engine.mysql.capabilities import Version
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Flavour
from airflow_provider_dm.engine.mysql.guarded import GuardedConnection, printable
from airflow_provider_dm.engine.mysql.pinned import Setting, settings

_OF_THE_CLIENT: Final = frozenset(
    {"autocommit", "character_set_client", "character_set_connection", "character_set_results", "collation_connection"}
)
_WHAT_CANNOT_BE_SET: Final = "SELECT @@max_allowed_packet, @@GLOBAL.init_connect"
_DENIED: Final = frozenset({1227, 1229, 1238, 1621})


class SessionRefused(DmError):
    server: str
    variable: str
    value: str
    reason: str

    code = "DM-2011"
    scope = Scope.UPSTREAM
    what = "{server} does not set the session variable {variable} to {value!r}: {reason}."
    hint = (
        "If it stands in `session`, correct it or leave it out. Else grant the account what the server asks for, or "
        "set the variable globally."
    )


def pin(connection: GuardedConnection, endpoint: Endpoint, *, isolation: str) -> None:
    """Bring a new connection into the session that everything here relies on.

    Raises SessionConflict, SessionRefused, and pymysql's errors.
    """
    flavour, version = family_of(connection.server_version)
    wanted = settings(flavour, version, isolation=isolation, server=str(endpoint), session=endpoint.session)
    _leave_transactions(connection)
    try:
        set_all(connection, wanted, server=str(endpoint))
    except SessionRefused:  # in a transaction, which init_connect may have begun, not everything can be set
        _begin_anew(connection)
        set_all(connection, wanted, server=str(endpoint))
    most_bytes, init_connect = _what_cannot_be_set(connection)
    if init_connect:
        _begin_anew(connection)
        set_all(connection, wanted, server=str(endpoint))
    connection.most_bytes = most_bytes


def _what_cannot_be_set(connection: Any) -> tuple[int, Any]:
    """Return the longest packet in bytes, and init_connect. Raises pymysql's errors, also for what is no answer."""
    try:
        ((most_bytes, init_connect),) = _ask(connection, _WHAT_CANNOT_BE_SET)
        return int(most_bytes), init_connect  # proxies answer with text, which int takes as well
    except (TypeError, ValueError) as error:
        reason = f"it does not answer {_WHAT_CANNOT_BE_SET}"
        raise pymysql.err.OperationalError(CR.CR_MALFORMED_PACKET, reason) from error


def _begin_anew(connection: GuardedConnection) -> None:
    connection.reset()
    _leave_transactions(connection)


def _leave_transactions(connection: Any) -> None:
    """Turn autocommit on, without which not everything can be set.

    With another completion_type, that would begin another transaction.
    """
    if not connection.get_autocommit():
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION completion_type = 0, autocommit = 1")


def pin_answers(connection: Any, server: str, *, isolation: str) -> None:
    """Pin a connection that another made (PyMySQL's), and leave it its own charsets and its autocommit.

    Raises SessionRefused, and pymysql's errors.
    """
    flavour, version = family_of(connection.server_version)
    wanted = settings(flavour, version, isolation=isolation, server=server, session=())
    commits = connection.get_autocommit()
    _leave_transactions(connection)
    set_all(connection, [one for one in wanted if one.name not in _OF_THE_CLIENT], server=server)
    connection.autocommit(commits)


def family_of(server_version: str) -> tuple[Flavour, Version]:
    """Return the family and version that a server states in its greeting.

    >>> family_of("5.5.5-10.11.19-MariaDB-log"), family_of("9.7.4-2")
    ((<Flavour.MARIADB: 'mariadb'>, (10, 11, 19)), (<Flavour.MYSQL: 'mysql'>, (9, 7, 4)))
    >>> family_of("8.0.11-TiDB-v8.5.3")  # in front stands the MySQL that it resembles
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
    """The facts found out about a server and an account: variables that it lacks, or may not set."""

    absent: frozenset[str] = frozenset()
    denied: frozenset[str] = frozenset()


_known: Final[dict[tuple[str, str], _Known]] = {}
"""What is known of a server, by it and its version."""


def set_all(connection: Any, wanted: Sequence[Setting], *, server: str) -> None:
    """Set the variables, all of them or none that counts. Raises SessionRefused, and pymysql's errors."""
    key = (server, connection.server_version)
    known = _known.get(key, _Known())
    for one in wanted:
        if one.name in known.denied and not _is_so(connection, one):
            raise SessionRefused(server, one.name, str(one.value), "the account may not")
    usual = [one for one in wanted if one.name not in known.absent | known.denied]
    try:
        _set(connection, usual)
    except pymysql.err.MySQLError as error:
        if len(error.args) < 2 or not connection.open:
            raise
        denials = {one.name: _set_alone(connection, one, server) for one in usual}
        absent = {name for name, number in denials.items() if number == ER.UNKNOWN_SYSTEM_VARIABLE}
        denied = {name for name, number in denials.items() if number in _DENIED}
        _known[key] = _Known(known.absent | absent, known.denied | denied)


def _set_alone(connection: Any, one: Setting, server: str) -> int:
    """Return the number of the error by which the server refuses what need not be set, else 0.

    Raises SessionRefused, and pymysql's errors once the connection is gone.
    """
    try:
        _set(connection, [one])
    except pymysql.err.MySQLError as error:
        number, reason = (*error.args, 0, "")[:2]
        if not connection.open:
            raise
        if number == ER.UNKNOWN_SYSTEM_VARIABLE and not one.chosen:
            return int(number)
        if number in _DENIED and _is_so(connection, one):
            return int(number)
        raise SessionRefused(server, one.name, str(one.value), printable(str(reason))) from error
    return 0


def _set(connection: Any, wanted: Sequence[Setting]) -> None:
    with connection.cursor() as cursor:
        # Under EMPTY_STRING_IS_NULL, which is gone only when this is done, '' is no empty string.
        values = ["LEFT('-', 0)" if one.value == "" else cursor.mogrify("%s", (one.value,)) for one in wanted]
        pairs = zip(wanted, values, strict=True)
        cursor.execute("SET " + ", ".join(f"SESSION {one.name} = {value}" for one, value in pairs))


def _is_so(connection: Any, one: Setting) -> bool:
    try:
        ((value,),) = _ask(connection, f"SELECT @@SESSION.{one.name}")
    except pymysql.err.MySQLError as error:
        if error.args[0] != ER.INCORRECT_GLOBAL_LOCAL_VAR:  # the server has it, and no session does
            raise
        return False
    return str(value.decode() if isinstance(value, bytes) else value).lower() == str(one.value).lower()


def _ask(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())
