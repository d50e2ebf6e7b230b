"""Both ways to read a table: by SELECT and from the binlog files of a server at hand."""

from collections.abc import Callable
from typing import Final

from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.binlog.maps import WantedTables
from airflow_provider_dm.engine.binlog.planned import Epoch, EpochLimits
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.binlog.rows import RowChange, decode_range
from airflow_provider_dm.engine.mysql.connection import Connection, connect, query, text
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.reading.blocks import blocks
from airflow_provider_dm.engine.schema.catalogue import read_tables
from airflow_provider_dm.engine.schema.codec import Row, row_reader
from airflow_provider_dm.engine.schema.model import Table
from testbed import Server

FreshSchema = Callable[..., str]
NUMBERED: Final = ("auto_increment_increment = 1", "auto_increment_offset = 1", "max_error_count = 1024")
CALM: Final = {
    "mariadb": NUMBERED,
    "mysql": (*NUMBERED, "sql_generate_invisible_primary_key = 0", "sql_require_primary_key = 0"),
}
"""What the engine's session leaves to the server, as it writes values and creates no tables by it."""


def session(server: Server) -> Connection:
    """The engine's own session; cells arrive as bytes. On a hostile server tables and ids are made calmly."""
    endpoint = Endpoint(server.name, server.host, server.port, server.user, Secret(server.password))
    connection = connect(endpoint)
    if server.hostile:
        for setting in CALM[server.flavour]:
            query(connection, f"SET SESSION {setting}")
    return connection


def raw_rows(connection: Connection, table: Table) -> list[Row]:
    """The copy path."""
    select, read = row_reader(table)
    sql = f"SELECT {select} FROM {table.name.quoted()} ORDER BY 1"
    return [row for block in blocks(connection, sql.encode(), read) for row in block.cells.rows()]


def here(connection: Connection) -> Location:
    file, position, *_ = query(connection, "SHOW BINARY LOGS")[-1]
    return Location(text(file), int(position))


def log_files(server: Server) -> list[LogFile]:
    paths = sorted(server.datadir.glob("mysql-bin.[0-9]*[0-9]"))  # MariaDB 11 has an index .idx beside each
    return [LogFile(str(path), 1, path.name, path.stat().st_size, path == paths[-1]) for path in paths]


def logged(server: Server, table: Table, lo: Location, hi: Location) -> list[RowChange]:
    """The binlog path."""
    found: list[RowChange] = []
    while lo.position < hi.position or lo.file != hi.file:
        planned = plan_epoch(log_files(server), lo, EpochLimits(goal=hi, max_bytes=1 << 30, range_bytes=1 << 20))
        assert isinstance(planned, Epoch)
        for byte_range in planned.ranges:
            found += decode_range(byte_range, WantedTables.whole([table]))
        lo = planned.hi
    return found


def definition(connection: Connection, name: TableName) -> Table:
    return read_tables(connection, [name])[name]
