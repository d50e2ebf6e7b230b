"""Binlog files of test servers."""

from contextlib import suppress

import pymysql

from testbed import Server
from tests.waiting import wait_for


def kill_dumps(server: Server) -> int:
    """Kill the connections to which a server sends its binlog; return how many there were."""
    dumps = server.sql("SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'")
    for (connection,) in dumps:
        with suppress(pymysql.err.MySQLError):  # it has ended already
            server.sql(f"KILL {connection}")
    return len(dumps)


def purge_before(server: Server, file: str) -> None:
    """Remove the binlog files before one. MariaDB keeps them until it has written a checkpoint, and a server keeps a
    file that it is sending, also to a dead relay."""

    def purged() -> bool:
        kill_dumps(server)
        server.sql(f"PURGE BINARY LOGS TO '{file}'")
        return bool(server.sql("SHOW BINARY LOGS")[0][0] == file)

    wait_for(purged)
