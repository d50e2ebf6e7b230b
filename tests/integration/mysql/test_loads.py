"""A server gets the bytes of a LOAD of ours, and nothing else of this machine, whatever it asks for, and whenever."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from airflow_provider_dm.engine.mysql.connection import connect, query
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.errors import LocalFileRequested
from airflow_provider_dm.engine.mysql.guarded import GuardedConnection
from tests.integration.relay.rogue import OK, Rogue, Session, local_infile

SECRET = "/etc/passwd"
CONTENT = b"1\ta\n" * 1_000_000
"""More than a packet."""


@dataclass(eq=False)
class Thief(Rogue):
    """Asks for files, one after the other, in the middle of a LOAD."""

    names: tuple[str, ...] = (SECRET,)
    files: list[bytes] = field(default_factory=list)

    def _answer(self, session: Session, sql: str) -> None:
        if not sql.startswith("LOAD DATA"):
            super()._answer(session, sql)
            return
        for name in self.names:
            session.send(local_infile(name))
            content = b""
            while piece := session.packet():
                content += piece
            self.files.append(content)
        session.send(OK)


@contextmanager
def connected_to(rogue: Rogue) -> Iterator[GuardedConnection]:
    with rogue.listening():
        connection = connect(Endpoint("rogue", "127.0.0.1", rogue.port, "root"), loads=True)
        try:
            yield connection
        finally:
            if connection.open:
                connection.close()


def test_a_load_ignores_the_file_name_that_the_server_requests() -> None:
    thief = Thief()
    with connected_to(thief) as connection:
        connection.load(b"LOAD DATA LOCAL INFILE 'rows' INTO TABLE t", CONTENT)
    assert thief.files == [CONTENT]
    assert b"root:" not in thief.received


def test_a_second_file_is_refused() -> None:
    thief = Thief(names=(SECRET, SECRET))
    with connected_to(thief) as connection:
        with pytest.raises(LocalFileRequested):
            connection.load(b"LOAD DATA LOCAL INFILE 'rows' INTO TABLE t", CONTENT)
        assert not connection.open
    assert thief.files == [CONTENT]
    assert b"root:" not in thief.received


@pytest.mark.parametrize("after_a_load", [False, True])
def test_no_other_statement_sends_a_file(*, after_a_load: bool) -> None:
    thief = Thief(answers={"SELECT 7": local_infile(SECRET)})
    with connected_to(thief) as connection:
        if after_a_load:
            connection.load(b"LOAD DATA LOCAL INFILE 'rows' INTO TABLE t", b"1\n")
        with pytest.raises(LocalFileRequested):
            query(connection, "SELECT 7")
        assert not connection.open
    assert thief.files == [b"1\n"] * after_a_load
    assert b"root:" not in thief.received
