"""Detection of altered or replaced tables by queries to the server, without reading its log.

    another SHOW CREATE TABLE                              the table was altered
    the same text, another creation time                   altered and altered back, replaced by an equal one, or
    renamed

`CREATE_TIME` in the catalogue changes with every ALTER, RENAME, DROP and CREATE, on both MySQL and MariaDB. Its unit is
a second, so a table altered within the current second is *young*: another ALTER in the same second would be invisible.
`settled_births` waits until no table is young. Two things remain: equal tables created in the same second can swap
names, and TRUNCATE, after which an older snapshot fails, shows no row to one of MySQL 5.7. MySQL gives each table a
number (`TABLE_ID`, a new one with TRUNCATE as well), which an account with the privilege PROCESS may read.

SHOW CREATE TABLE comes first, because it waits for DDL that is being committed, and the later statements see that DDL.
Another server (after a failover) has other creation times for the same tables, so there only the text is compared.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

import pymysql

from airflow_provider_dm.engine.mysql.connection import (
    Connection,
    ServerInfo,
    connected,
    query,
    query_whole,
    server_info,
    text,
)
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.errors import SchemaChangedDuringCopy
from airflow_provider_dm.engine.reading.source_session import source_connection, with_retries
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules, select
from airflow_provider_dm.engine.schema.catalogue import OUTSIDE_SYSTEM, create_statement_if_exists, list_tables

YOUNG_SECONDS: Final = 1.05
"""A second, plus the possible delay of a file system's clock."""

_COUNTER: Final = re.compile(r" AUTO_INCREMENT=\d+")
_NOW: Final = "SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000 AS UNSIGNED)"
_SECOND: Final = "COALESCE(UNIX_TIMESTAMP(create_time), 0)"
_ONE_SECOND: Final = f"SELECT {_SECOND} FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
_NUMBERS: Final = "SELECT name, table_id FROM information_schema.{}"
_NUMBER: Final = (
    "SELECT /*+ MAX_EXECUTION_TIME(5000) */ name, table_id FROM information_schema.{} "
    "WHERE SUBSTRING_INDEX(LOWER(name), '#p#', 1) = LOWER(%s)"
)
"""Waits for pending DDL. That DDL may wait for our own snapshot, so the statement needs a time limit."""
_PARTITION: Final = re.compile(r"#p#.*", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Birth:
    """Traits that distinguish a table from an earlier table of its name. `of` parses the result of `str`."""

    shown: str
    """A hash of SHOW CREATE TABLE."""
    second: int
    """Creation time as Unix time; 0 if the server does not report it."""
    asked: int
    """Unix time of the query, by the server's clock."""
    server: str
    number: int = 0
    """The server's number of the table; 0 if unknown."""

    def __str__(self) -> str:
        return f"{self.shown} {self.second} {self.asked} {self.server} {self.number}"

    @classmethod
    def of(cls, value: str) -> Birth:
        """Parse the text of a birth."""
        shown, second, asked, server, number = value.split(" ")
        return cls(shown, int(second), int(asked), server, int(number))

    def is_same(self, other: Birth) -> bool:
        if self.shown != other.shown or self.server != other.server:
            return self.shown == other.shown
        numbers = {self.number, other.number} - {0}
        return self.second == other.second and len(numbers) < 2


@dataclass(frozen=True)
class Births:
    """The tables of a source that the rules allow. `young`: the tables that could be altered without a visible change;
    `seconds`: the time after which none of them is young.
    """

    tables: dict[TableName, Birth]
    young: frozenset[TableName]
    seconds: float = 0.0

    def same(self, other: Births, names: Iterable[TableName]) -> bool:
        """Return True if each of these tables is the same in both, or missing in both."""
        for name in names:
            ours, theirs = self.tables.get(name), other.tables.get(name)
            if ours is None or theirs is None:
                if ours is not theirs:
                    return False
            elif not ours.is_same(theirs):
                return False
        return True


def read_births(endpoint: Endpoint, rules: BlockAllowRules) -> Births:
    """Read the births of all tables that the rules allow. Raises IncompleteResult, and what connecting raises."""
    with connected(endpoint) as connection:
        names = sorted(select(list_tables(connection), rules))
        shown = {name: _shown(connection, name) for name in names}
        existing = [name for name, value in shown.items() if value is not None]
        seconds = _seconds(connection, existing)
        info = server_info(connection)
        numbers = _numbers(connection, info)
        ((milliseconds,),) = query(connection, _NOW)
    now = int(milliseconds) / 1000
    tables = {
        name: Birth(str(shown[name]), seconds[name], int(now), info.server_uuid, numbers.get(name, 0))
        for name in existing
        if name in seconds
    }
    left = {name: birth.second + YOUNG_SECONDS - now for name, birth in tables.items()}
    young = frozenset(name for name, seconds in left.items() if seconds > 0)
    return Births(tables, young, min(YOUNG_SECONDS, max(left.values(), default=0.0)))


def check_birth(endpoint: Endpoint, name: TableName, birth: str) -> None:
    """Check, after a page was read from a table, that the table still has this birth. Raises SchemaChangedDuringCopy,
    and the errors of `with_retries`.

    An equal table created in the same second is detected only if the birth has a number, and if no DDL blocks the
    query.
    """
    expected = Birth.of(birth)

    def now() -> Birth | None:
        connection = source_connection(endpoint)
        shown = _shown(connection, name)
        rows = query(connection, _ONE_SECOND, (name.schema, name.table)) if shown is not None else ()
        info = server_info(connection)
        number = _numbers(connection, info, name).get(name, 0) if expected.number else 0
        return next((Birth(str(shown), int(second), 0, info.server_uuid, number) for (second,) in rows), None)

    found = with_retries(endpoint, now)
    if found is None or not expected.is_same(found):
        raise SchemaChangedDuringCopy(endpoint.name, str(name), "it is not the table that its copy began with")


def settled_births(endpoint: Endpoint, rules: BlockAllowRules) -> Births:
    """Read the births, again if a table is young, until it is not. A table altered every second stays young.

    Raises the errors of `read_births`.
    """
    births = read_births(endpoint, rules)
    if not births.young:
        return births
    time.sleep(births.seconds)
    return read_births(endpoint, rules)


def _shown(connection: Connection, name: TableName) -> str | None:
    shown = create_statement_if_exists(connection, name)
    return None if shown is None else hashlib.sha256(_COUNTER.sub("", shown).encode()).hexdigest()[:32]


def _seconds(connection: Connection, names: Collection[TableName]) -> dict[TableName, int]:
    rows = query_whole(connection, f"table_schema, table_name, {_SECOND}", OUTSIDE_SYSTEM)
    wanted = set(names)
    seconds = {TableName(text(schema), text(table)): int(second) for schema, table, second in rows}
    return {name: second for name, second in seconds.items() if name in wanted}


def _numbers(connection: Connection, server: ServerInfo, only: TableName | None = None) -> dict[TableName, int]:
    """Return the numbers of the tables whose names have plain characters only; none if the account may not read them,
    or the server has none.

    A partitioned table has the lowest number of its partitions.
    """
    numbers: dict[TableName, int] = {}
    view = server.capabilities.table_numbers
    try:
        arguments = ("/".join(only),) if only else ()
        rows = query(connection, (_NUMBER if only else _NUMBERS).format(view), arguments) if view else []
    except pymysql.err.MySQLError:
        return numbers
    for shown, number in rows:
        schema, _, table = text(shown).partition("/")
        name = TableName(schema, _PARTITION.sub("", table))
        numbers[name] = min(int(number), numbers.get(name, int(number)))
    return numbers
