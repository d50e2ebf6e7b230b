"""A rogue server's answers to a bulk execution: it gets no file of this machine, and each is a typed error."""

import struct
from dataclasses import dataclass

import pymysql
import pytest

from airflow_provider_dm.engine.mysql.connection import connect, query
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.errors import LocalFileRequested
from tests.integration.relay.rogue import OK, Rogue, Session, local_infile

PREPARE, EXECUTE = 0x16, 0xFA
PREPARED = b"\0" + struct.pack("<IHHxH", 1, 0, 0, 0)
"""A statement without parameters."""
FILE = local_infile("/etc/passwd")


@dataclass(eq=False)
class Preparing(Rogue):
    """Answers COM_STMT_PREPARE and COM_STMT_BULK_EXECUTE with these payloads."""

    to_prepare: bytes = PREPARED
    to_execute: bytes = OK

    def _obey(self, session: Session, command: bytes) -> bool:
        if command[0] not in (PREPARE, EXECUTE):
            return super()._obey(session, command)
        session.send(self.to_prepare if command[0] == PREPARE else self.to_execute)
        if command[0] == PREPARE and self.to_prepare == PREPARED:
            session.send(b"\xfe\0\0\2\0")
        return True


@pytest.mark.parametrize(
    ("rogue", "error"),
    [
        (Preparing(to_prepare=FILE), pymysql.err.OperationalError),
        (Preparing(to_prepare=OK), pymysql.err.OperationalError),
        (Preparing(to_execute=FILE), LocalFileRequested),
        (Preparing(to_execute=b""), pymysql.err.OperationalError),
    ],
    ids=["file for the preparation", "no statement", "file for the execution", "nothing"],
)
def test_a_prepared_statement_sends_no_file(rogue: Preparing, error: type[Exception]) -> None:
    with rogue.listening():
        connection = connect(Endpoint("rogue", "127.0.0.1", rogue.port, "root"))
        query(connection, "SELECT 7")
        with pytest.raises(error):
            connection.execute_bulk(b"INSERT INTO t VALUES (1)", memoryview(bytes(5)))
        assert not connection.open
    assert b"root:" not in rogue.received
