"""Whether a table is still the one that it was: asked of its server, without reading its log.

    SHOW CREATE TABLE is another one                       it was altered
    the same text, created at another second               altered there and back, replaced by its like, or renamed

`CREATE_TIME` of the catalogue changes with every ALTER and with what a name stands for (RENAME, DROP and CREATE), on
MySQL and MariaDB alike; with TRUNCATE it does not, which nobody here needs to know. It has whole seconds, so a table
that was altered in this very second is *young*: it may be altered once more and look the same. Whoever needs to be
certain waits until it is not (`settled_births`). Two tables that are alike to the letter and were made in one second
can still change names: MySQL gives each a number of its own (`TABLE_ID`, a new one with TRUNCATE as well), which an
account with the privilege PROCESS may see.

SHOW CREATE TABLE comes first: it waits for DDL that is being committed, and what is asked behind it sees that. Another
server (a failover) has other times for the same tables; there the text alone tells.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

import pymysql

from airflow_provider_dm.engine.mysql.connection import Connection, connected, query, query_whole, server_info, text
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.source_session import (
    SchemaChangedDuringCopy,
    source_connection,
    with_retries,
)
from airflow_provider_dm.engine.rules.block_allow import BlockAllowRules, select
from airflow_provider_dm.engine.schema.catalogue import create_statement, list_tables

YOUNG_SECONDS: Final = 1.05
"""A second, and what a file system's clock may be late."""

_COUNTER: Final = re.compile(r" AUTO_INCREMENT=\d+")
_NOT_THERE: Final = frozenset({1049, 1146})
_NOW: Final = "SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000 AS UNSIGNED)"
_SECOND: Final = "COALESCE(UNIX_TIMESTAMP(create_time), 0)"
_ONE_SECOND: Final = f"SELECT {_SECOND} FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
_NUMBERS: Final = "SELECT name, table_id FROM information_schema.innodb_tables"
_NUMBER: Final = (
    "SELECT /*+ MAX_EXECUTION_TIME(5000) */ name, table_id FROM information_schema.innodb_tables "
    "WHERE SUBSTRING_INDEX(LOWER(name), '#p#', 1) = LOWER(%s)"
)
"""It waits for DDL that waits; asked beside a snapshot of ours, for which that waits, it has to end by itself."""
_PARTITION: Final = re.compile(r"#p#.*", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Birth:
    """Traits that tell a table from another one that had its name before. `str` and `of` are each other's inverse."""

    shown: str
    """A hash of SHOW CREATE TABLE."""
    second: int
    """Unix time; 0 where the server does not say."""
    asked: int
    """When that was, by the server's clock."""
    server: str
    number: int = 0
    """The server's own for the table; 0 where that is not known."""

    def __str__(self) -> str:
        return f"{self.shown} {self.second} {self.asked} {self.server} {self.number}"

    @classmethod
    def of(cls, value: str) -> Birth:
        """Read it back, also as releases wrote it that knew no number."""
        shown, second, asked, server, *number = value.split(" ")
        return cls(shown, int(second), int(asked), server, *map(int, number))

    def is_same(self, other: Birth) -> bool:
        if self.shown != other.shown or self.server != other.server:
            return self.shown == other.shown
        numbers = {self.number, other.number} - {0}
        return self.second == other.second and len(numbers) < 2


@dataclass(frozen=True)
class Births:
    """The tables of a source that the rules allow. `young`: those that may be altered without looking so, and for how
    many seconds the last of them is.
    """

    tables: dict[TableName, Birth]
    young: frozenset[TableName]
    seconds: float = 0.0

    def same(self, other: Births, names: Iterable[TableName]) -> bool:
        """Tell whether each of these tables is the same in both, or in neither."""
        for name in names:
            ours, theirs = self.tables.get(name), other.tables.get(name)
            if ours is None or theirs is None:
                if ours is not theirs:
                    return False
            elif not ours.is_same(theirs):
                return False
        return True


def read_births(endpoint: Endpoint, rules: BlockAllowRules, also: Collection[TableName] = ()) -> Births:
    """Ask for all tables that the rules allow. `also`: names that may be there by now, or on their way.

    Raises AnswerCut, and what connecting raises.
    """
    with connected(endpoint) as connection:
        names = sorted({*select(list_tables(connection), rules), *also})
        shown = {name: _shown(connection, name) for name in names}
        there = [name for name, value in shown.items() if value is not None]
        seconds = _seconds(connection, there)
        info = server_info(connection)
        numbers = _numbers(connection) if info.flavour is Flavour.MYSQL else {}
        ((milliseconds,),) = query(connection, _NOW)
    now = int(milliseconds) / 1000
    tables = {
        name: Birth(str(shown[name]), seconds[name], int(now), info.server_uuid, numbers.get(name, 0))
        for name in there
        if name in seconds
    }
    left = {name: one.second + YOUNG_SECONDS - now for name, one in tables.items()}
    young = frozenset(name for name, seconds in left.items() if seconds > 0)
    return Births(tables, young, min(YOUNG_SECONDS, max(left.values(), default=0.0)))


def check_born_so(endpoint: Endpoint, name: TableName, birth: str) -> None:
    """Check, behind a page of a table, that it was read of the table of this birth. Raises SchemaChangedDuringCopy, and
    what `with_retries` raises.

    Also one that is alike to the letter and the second, where its number is known, and no DDL holds up who asks for it.
    """
    expected = Birth.of(birth)

    def now() -> Birth | None:
        connection = source_connection(endpoint)
        shown = _shown(connection, name)
        found = query(connection, _ONE_SECOND, (name.schema, name.table)) if shown is not None else ()
        ((milliseconds,),) = query(connection, _NOW)
        uuid = server_info(connection).server_uuid
        number = _numbers(connection, name).get(name, 0) if expected.number else 0
        asked = int(milliseconds) // 1000
        return next((Birth(str(shown), int(second), asked, uuid, number) for (second,) in found), None)

    there = with_retries(endpoint, now)
    if there is None or not expected.is_same(there):
        raise SchemaChangedDuringCopy(endpoint.name, str(name), "it is not the table that its copy began with")


def settled_births(endpoint: Endpoint, rules: BlockAllowRules) -> Births:
    """Ask again when the tables that are young are so no more. One that is altered in each second stays so.

    Raises as `read_births`.
    """
    found = read_births(endpoint, rules)
    if not found.young:
        return found
    time.sleep(found.seconds)
    return read_births(endpoint, rules)


def _shown(connection: Connection, name: TableName) -> str | None:
    try:
        shown = create_statement(connection, name)
    except pymysql.err.MySQLError as error:
        if error.args and error.args[0] in _NOT_THERE:
            return None
        raise
    return hashlib.sha256(_COUNTER.sub("", shown).encode()).hexdigest()[:32]


def _seconds(connection: Connection, names: Collection[TableName]) -> dict[TableName, int]:
    rows = query_whole(
        connection,
        f"table_schema, table_name, {_SECOND}",
        "FROM information_schema.tables WHERE table_schema NOT IN ('information_schema', 'performance_schema', 'sys')",
    )
    wanted = set(names)
    found = {TableName(text(schema), text(table)): int(second) for schema, table, second in rows}
    return {name: second for name, second in found.items() if name in wanted}


def _numbers(connection: Connection, only: TableName | None = None) -> dict[TableName, int]:
    """Return the numbers of the tables that have names of plain characters; none where the account may not see them.

    Of a table that has partitions it is the lowest one of theirs.
    """
    found: dict[TableName, int] = {}
    try:
        rows = query(connection, _NUMBERS) if only is None else query(connection, _NUMBER, ("/".join(only),))
    except pymysql.err.MySQLError:
        return found
    for shown, number in rows:
        schema, _, table = text(shown).partition("/")
        name = TableName(schema, _PARTITION.sub("", table))
        found[name] = min(int(number), found.get(name, int(number)))
    return found
