"""A server's log at hand, read in the engine's ways: what is in it, what is planned, which rows come out."""

import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import pymysql

from airflow_provider_dm.engine.binlog import events as codes
from airflow_provider_dm.engine.binlog.boundary import read_format
from airflow_provider_dm.engine.binlog.format import BinlogFormat
from airflow_provider_dm.engine.binlog.header import HEADER_SIZE, START
from airflow_provider_dm.engine.binlog.maps import WantedTables
from airflow_provider_dm.engine.binlog.payload import open_payload
from airflow_provider_dm.engine.binlog.planned import ByteRange, DdlStatement, Epoch, EpochLimits, UpToDate
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.binlog.rows import RowChange, decode_range
from airflow_provider_dm.engine.binlog.window import Bytes, Window
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.schema.model import Table
from testbed import Server
from tests.integration.binlog.reading import log_files

_UNKNOWN_XID: Final = 1397


class Event(NamedTuple):
    """One event; `inside`: of a compressed transaction."""

    code: int
    body: bytes
    inside: bool = False

    @property
    def name(self) -> str:
        return codes.EVENTS[self.code].name


def run(connection: Connection, name: TableName, *statements: str) -> None:
    """Statements with the schema of `name` as the default one."""
    with connection.cursor() as cursor:
        cursor.execute(f"USE `{name.schema}`")
        for statement in statements:
            cursor.execute(statement)


def end_xa(server: Server, xid: str, verb: str = "COMMIT") -> None:
    """End a prepared transaction whose session has ended, or is about to: until then no other session can end it."""
    deadline = time.monotonic() + 120
    while True:
        try:
            server.sql(f"XA {verb} {xid}")
            return
        except pymysql.err.MySQLError as error:
            if error.args[0] != _UNKNOWN_XID or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def events_between(server: Server, lo: Location, hi: Location) -> list[Event]:
    """Every event of one file, payloads opened."""
    assert lo.file == hi.file
    (file,) = [one for one in log_files(server) if one.name == lo.file]
    with Window(file.path, hi.position) as window:
        log_format = read_format(window, file.name)
        assert log_format is not None
        return list(_events(window, lo.position, log_format, inside=False))


def _events(window: Bytes, position: int, log_format: BinlogFormat, *, inside: bool) -> Iterator[Event]:
    while position < window.size:
        code, size = START.unpack_from(window.read(position, HEADER_SIZE))[1::2]
        body = window.read(position + HEADER_SIZE, size - HEADER_SIZE - log_format.trailer_size)
        yield Event(code, body, inside)
        if code == codes.TRANSACTION_PAYLOAD:
            yield from _events(open_payload(body, "inside"), 0, log_format.without_checksum(), inside=True)
        position += size


def plans(server: Server, lo: Location, hi: Location, *, range_bytes: int = 1 << 20) -> Iterator[Epoch | DdlStatement]:
    """Everything between two locations."""
    while True:
        planned = plan_epoch(log_files(server), lo, EpochLimits(goal=hi, max_bytes=1 << 30, range_bytes=range_bytes))
        match planned:
            case UpToDate():
                return
            case Epoch():
                yield planned
                lo = planned.hi
            case DdlStatement():
                yield planned
                lo = planned.end


def ranges_between(server: Server, lo: Location, hi: Location, *, range_bytes: int = 1 << 20) -> list[ByteRange]:
    """The ranges of all rows, those beside DDL included."""
    found: list[ByteRange] = []
    for one in plans(server, lo, hi, range_bytes=range_bytes):
        epoch = one.rows_epoch() if isinstance(one, DdlStatement) else one
        found += epoch.ranges if epoch is not None else ()
    return found


def rows_of(ranges: Sequence[ByteRange], *tables: Table) -> list[RowChange]:
    """Every range decoded apart from the others; changes of these tables."""
    wanted = WantedTables.whole(tables)
    return [row for one in ranges for row in decode_range(one, wanted)]
