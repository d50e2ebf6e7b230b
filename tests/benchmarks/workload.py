"""Tables and what is written to them: the same data for every benchmark, and no more of it than one run needs.

`sbtest` is sysbench's table with sysbench's sizes (about 190 bytes a row), random but the same each time. `mixed` has
every family of types that both sides of a comparison can read. SQL that servers of several flavours run is plain."""

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.catalogue import read_tables
from airflow_provider_dm.engine.schema.model import Table
from testbed import Server
from testbed.equality import Comparison, Place, compare

SCHEMA: Final = "bench"

SBTEST: Final = """CREATE TABLE {name} (
    id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL DEFAULT 0,
    c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '', KEY k_1 (k))"""

MIXED: Final = """CREATE TABLE {name} (
    id BIGINT NOT NULL PRIMARY KEY, t TINYINT, tu TINYINT UNSIGNED, s SMALLINT, su SMALLINT UNSIGNED, m MEDIUMINT,
    i INT, iu INT UNSIGNED, b BIGINT, bu BIGINT UNSIGNED, price DECIMAL(10,2), exact DECIMAL(30,10), f FLOAT, d DOUBLE,
    y YEAR, day DATE, at TIME(3), made DATETIME, changed DATETIME(6), seen TIMESTAMP(3) NULL, code CHAR(12),
    name VARCHAR(80), note TEXT, raw VARBINARY(40), file BLOB, kind ENUM('new','open','closed'), flags SET('a','b','c'),
    mu MEDIUMINT UNSIGNED, tag TINYTEXT, memo MEDIUMTEXT)
    DEFAULT CHARSET utf8mb4"""

WIDE: Final = """CREATE TABLE {name} (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, tu TINYINT UNSIGNED, s SMALLINT, m MEDIUMINT, iu INT UNSIGNED,
    bu BIGINT UNSIGNED, price DECIMAL(10,2), exact DECIMAL(30,10), d DOUBLE, y YEAR, day DATE, at TIME(3),
    made DATETIME, changed DATETIME(6), seen TIMESTAMP(3) NULL, code CHAR(12), name VARCHAR(80), note TEXT,
    raw VARBINARY(40), kind ENUM('new','open','closed')) DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_general_ci"""
"""20 columns that a dump in SQL restores exactly: no FLOAT, of which the servers print six digits."""

WIDE_ROW: Final = """seq, seq MOD 200, CAST(seq AS SIGNED) MOD 30000 - 15000, seq * 7 MOD 8000000, seq * 31,
    seq * 1000003, seq / 100, seq * 12345.0123456789, seq / 8, 1970 + seq MOD 100,
    DATE_ADD('2010-01-01', INTERVAL seq MOD 7000 DAY), SEC_TO_TIME(seq MOD 86400),
    DATE_ADD('2015-01-01', INTERVAL seq SECOND),
    DATE_ADD('2015-01-01 00:00:00.123456', INTERVAL seq SECOND),
    DATE_ADD('2015-11-10 00:00:00', INTERVAL seq MOD 6000000 SECOND), CONCAT('C', LPAD(seq, 9, '0')),
    CONCAT('Ünïcode näme ', seq), IF(seq MOD 6 = 0, NULL, REPEAT('a longer text, ', 1 + seq MOD 7)),
    IF(seq MOD 5 = 0, NULL, UNHEX(MD5(seq))), ELT(1 + seq MOD 3, 'new', 'open', 'closed')"""

_GROUP: Final = "LPAD(FLOOR(RAND() * 1e11), 11, '0')"
C, PAD = (f"CONCAT_WS('-', {', '.join([_GROUP] * count)})" for count in (10, 5))
"""SQL of a random `c` and `pad` of sbtest."""

_DIGITS: Final = f"(SELECT 0 AS n {' '.join(f'UNION ALL SELECT {digit}' for digit in range(1, 10))})"

_STATEMENT_BYTES: Final = 1 << 20
_ROWS_AT_ONCE: Final = 2520


@dataclass(frozen=True)
class BinlogFile:
    """One binlog file of a server and what it holds: changes of one table, and no DDL."""

    name: str
    path: str
    size: int
    rows: int
    table: Table


def sbtest_row(chance: random.Random) -> str:
    """k, c and pad as SQL, shaped as sysbench does it."""
    digits = f"{chance.randrange(10**165):0165d}"
    groups = [digits[at : at + 11] for at in range(0, 165, 11)]
    return f"{digits[:6]},'{'-'.join(groups[:10])}','{'-'.join(groups[10:])}'"


def mixed_row(chance: random.Random, number: int) -> str:
    """A row of MIXED as SQL; every sixth cell that may be NULL is."""
    small, big = chance.randrange(-128, 128), chance.randrange(-(2**63), 2**63)
    day = f"20{chance.randrange(10, 30)}-{chance.randrange(1, 13):02d}-{chance.randrange(1, 29):02d}"
    clock = f"{chance.randrange(24):02d}:{chance.randrange(60):02d}:{chance.randrange(60):02d}"
    micro = f"{chance.randrange(10**6):06d}"
    cells = [
        *(small, small + 128, small * 250, small * 250 + 32000, small * 60000, small * 10**7, (small + 128) * 10**7),
        *(big, big + 2**63, f"{small * 9999}.{chance.randrange(100):02d}", f"{big}.{chance.randrange(10**10):010d}"),
        *(chance.random() * 1000, chance.random() * 1e18, 1970 + chance.randrange(100), f"'{day}'", f"'{clock}.123'"),
        *(f"'{day} {clock}'", f"'{day} {clock}.{micro}'", f"'{day} {clock}.5'", f"'C{number:09d}'"),
        *(f"'Ünïcode {big} näme'", f"'{'a longer text, ' * chance.randrange(1, 8)}'"),
        *(f"X'{chance.randbytes(chance.randrange(1, 40)).hex()}'", f"X'{chance.randbytes(100).hex()}'"),
        *(chance.choice(["'new'", "'open'", "'closed'"]), chance.choice(["''", "'a'", "'a,c'", "'a,b,c'"])),
        *((small + 128) * 60000, "'it\\'s a tag'", f"'{'memo ' * chance.randrange(1, 30)}'"),
    ]
    return ",".join([str(number), *("NULL" if chance.randrange(6) == 0 else str(cell) for cell in cells)])


# Filling


def create(server: Server, name: str, definition: str, *, schema: str = SCHEMA) -> str:
    """A fresh table; gives its quoted name."""
    quoted = f"`{schema}`.`{name}`"
    server.sql(f"CREATE DATABASE IF NOT EXISTS `{schema}`; DROP TABLE IF EXISTS {quoted}")
    server.sql(definition.format(name=quoted))
    return quoted


def numbers(count: int) -> str:
    """A derived table of every flavour: its column `seq` has 1 to `count`, which is at most 100,000."""
    digits = ", ".join(f"{_DIGITS} d{place}" for place in range(5))
    value = " + ".join(f"{10**place} * d{place}.n" for place in range(5))
    return f"(SELECT 1 + {value} AS seq FROM {digits} HAVING seq <= {count} ORDER BY seq) numbers"


def insert_in_bulk(server: Server, table: str, columns: str, rows: Iterable[str], *, rows_of_a_statement: int) -> None:
    """Multi-row INSERTs, as sysbench's `prepare` and every dump tool make them."""
    pending = iter(rows)
    while batch := list(islice(pending, rows_of_a_statement)):
        server.sql(f"INSERT INTO {table} {columns} VALUES ({'),('.join(batch)})")


def run_single_statements(server: Server, statements: Iterable[str]) -> None:
    """Each a transaction of its own; sent many at a time, so that filling does not take longer than measuring."""
    pending: list[str] = []
    size = 0
    for statement in statements:
        pending.append(statement)
        size += len(statement)
        if size > _STATEMENT_BYTES:
            server.sql(";".join(pending))
            pending, size = [], 0
    if pending:
        server.sql(";".join(pending))


def inserts_and_updates(table: str, count: int, chance: random.Random) -> Iterator[str]:
    """Half of them insert a row, half change k and c of one that is there."""
    for number in range(count):
        if number % 2 == 0:
            yield f"INSERT INTO {table} (k, c, pad) VALUES ({sbtest_row(chance)})"
        else:
            k, c, _pad = sbtest_row(chance).split(",")
            yield f"UPDATE {table} SET k = {k}, c = {c} WHERE id = {chance.randrange(number // 2 + 1) + 1}"


def equal(one: Server, other: Server, table: str) -> bool:
    """Return True if both servers have the same rows in this table."""
    if one.flavour == other.flavour:
        first, second = (server.sql(f"CHECKSUM TABLE `{SCHEMA}`.`{table}`")[0][1] for server in (one, other))
        return bool(first == second)
    first, second = (Place(server.client_config(), f"{SCHEMA}.{table}") for server in (one, other))
    return compare([Comparison((first,), second)]).equal


# Binlogs


def begin_file(server: Server) -> str:
    """The name of a fresh binlog file."""
    server.sql("FLUSH BINARY LOGS")
    return _current_file(server)


def end_file(server: Server, name: str, table: str, rows: int) -> BinlogFile:
    """The file that `begin_file` began is finished. Raises RuntimeError when the data did not fit into one file."""
    if _current_file(server) != name:
        raise RuntimeError(f"the data continued behind {name}, as no file is larger than 1 GiB: use a smaller --size")
    server.sql("FLUSH BINARY LOGS")
    path = server.datadir / name
    return BinlogFile(name, str(path), path.stat().st_size, rows, definition(server, table))


def bulk_file(server: Server, rows: int) -> BinlogFile:
    """`sbtest` rows in events of about 42: what the default of binlog_row_event_max_size makes of 190-byte rows.

    A fifth of them are updates, 2520 at once, the others inserts.
    """
    table = create(server, "bulk", SBTEST)
    name, chance = begin_file(server), random.Random(1)
    updated = rows // 5 // _ROWS_AT_ONCE * _ROWS_AT_ONCE
    source = (sbtest_row(chance) for _ in range(rows - updated))
    insert_in_bulk(server, table, "(k, c, pad)", source, rows_of_a_statement=_ROWS_AT_ONCE)
    for first in range(0, updated, _ROWS_AT_ONCE):
        server.sql(f"UPDATE {table} SET k = k + 1 WHERE id > {first} ORDER BY id LIMIT {_ROWS_AT_ONCE}")
    return end_file(server, name, "bulk", rows)


def single_row_file(server: Server, transactions: int) -> BinlogFile:
    """`sbtest` inserts and updates, one row in each transaction."""
    table = create(server, "single", SBTEST)
    name = begin_file(server)
    run_single_statements(server, inserts_and_updates(table, transactions, random.Random(2)))
    return end_file(server, name, "single", transactions)


def mixed_file(server: Server, rows: int) -> BinlogFile:
    """`mixed` inserts, with all optional metadata in the table maps: without it the peer cannot read such a table."""
    table = create(server, "mixed", MIXED)
    name, chance = begin_file(server), random.Random(3)
    source = (mixed_row(chance, number) for number in range(rows))
    with full_metadata(server):
        insert_in_bulk(server, table, "", source, rows_of_a_statement=1000)
    return end_file(server, name, "mixed", rows)


@contextmanager
def full_metadata(server: Server) -> Iterator[None]:
    """The server writes names, charsets and signedness into table maps."""
    server.sql("SET GLOBAL binlog_row_metadata = 'FULL'")
    try:
        yield
    finally:
        server.sql("SET GLOBAL binlog_row_metadata = DEFAULT")


def definition(server: Server, table: str) -> Table:
    name = TableName(SCHEMA, table)
    with connected(Endpoint(server.name, server.host, server.port, server.user)) as connection:
        return read_tables(connection, [name])[name]


def _current_file(server: Server) -> str:
    """The newest file."""
    return Path(server.sql("SHOW BINARY LOGS")[-1][0]).name
