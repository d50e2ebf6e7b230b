"""In which file an upstream goes on for a replica that has a GTID set: it is asked as a replica would ask."""

from __future__ import annotations

from zlib import crc32

from airflow_provider_dm.engine.binlog.events import ROTATE
from airflow_provider_dm.engine.binlog.header import HEADER_SIZE
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.gtid import GtidSet
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE, BinlogFile
from airflow_provider_dm.engine.relay.decide import header_of, named_by
from airflow_provider_dm.engine.relay.packets import CRC_RESIDUE, PacketsBroken
from airflow_provider_dm.engine.relay.protocol import DumpRequest, open_dump


def file_behind(
    connection: Connection, flavour: Flavour, known: GtidSet, *, server_id: int, replica_uuid: str
) -> BinlogFile:
    """Find the newest file before which there is no transaction that is not in `known`. Uses the connection up.

    Raises GtidsPurged, StreamLost and the other errors of `protocol`, PacketsBroken, BinlogNameRefused.
    """
    stream = open_dump(connection, flavour, DumpRequest("", BINLOG_HEADER_SIZE, server_id, replica_uuid, known))
    try:
        while (event := stream.event()) is None:
            stream.receive()
        header = header_of(event)
        if header.code != ROTATE:
            raise PacketsBroken(f"a stream that begins with an event of type {header.code}")
        end = len(event) - (4 if crc32(event) == CRC_RESIDUE else 0)
        return named_by(bytes(event[HEADER_SIZE:end]))[0]
    finally:
        stream.close()
