"""The source itself is killed with -9 while it writes a transaction to its binlog.

MySQL cuts its file back when it starts again. MariaDB leaves the torn file as it is, numbers the next transaction like
the one that was lost, and refuses to read the torn event to anybody: a relay has to drop the part that it was given,
and to continue with the next file.
"""

import random
import threading
import time
from contextlib import suppress
from pathlib import Path

import pymysql
import pytest

from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.reader import RelayReader
from testbed import Flavour, Server, ServerSpec
from tests.chaos.load import everything_on
from tests.chaos.relay import assert_all_is_there, relays_of
from tests.conftest import FLAVOURS, StartServers
from tests.integration.relay.conftest import RelayKit

pytestmark = [pytest.mark.server, pytest.mark.timeout(900)]
GTIDS = {33, 34, 42, 162}
ROUNDS = 2
LARGE = 30_000_000  # bytes of an event


def events(data: bytes) -> list[tuple[int, int, int]]:
    """(where, type, size) of whole events."""
    found, at = [], 4
    while at + 19 <= len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        if size < 19 or at + size > len(data):
            break
        found.append((at, data[at + 4], size))
        at += size
    return found


def whole(data: bytes) -> int:
    at, _code, size = events(data)[-1]
    return at + size


def kill_in_a_transaction(server: Server, schema: str, chance: random.Random) -> Path:
    """Dead in the middle of an event; the file that ends so."""
    for _ in range(20):
        server.sql("FLUSH BINARY LOGS")
        writer = threading.Thread(target=_write_much, args=(server, schema))
        writer.start()
        grown = LARGE + chance.randrange(LARGE)  # more than the other load writes meanwhile
        while writer.is_alive() and _newest_binlog(server).stat().st_size < grown:
            pass
        server.kill()
        writer.join()
        path = _newest_binlog(server)
        if whole(path.read_bytes()) < path.stat().st_size:
            return path
        server.start()
    raise AssertionError("it was never in the middle of an event")


def _newest_binlog(server: Server) -> Path:
    return max(server.datadir.glob("mysql-bin.0*"))


def _write_much(server: Server, schema: str) -> None:
    """One transaction of eight large events: it is killed after the first, and long before the last."""
    with suppress(pymysql.err.MySQLError), server.connect(database=schema, autocommit=False) as connection:
        cursor = connection.cursor()
        for _ in range(8):
            cursor.execute("INSERT INTO big (v) VALUES (REPEAT('t', %s))", (LARGE,))
        connection.commit()


def differences(kit: RelayKit) -> list[str]:
    """A file of which the source lost the end may stop at the last whole transaction, or with the last whole event."""
    found = []
    files = RelayReader(kit.root).files(Location(kit.first_file, 4))
    for file in files:
        ours, theirs = Path(file.path).read_bytes(), bytearray((kit.server.datadir / file.name).read_bytes())
        theirs[21] &= 0xFE
        torn = whole(bytes(theirs)) < len(theirs)
        last_group = max((at for at, code, _size in events(bytes(theirs)) if code in GTIDS), default=4)
        enough = last_group <= len(ours) <= whole(bytes(theirs)) if torn else len(ours) == len(theirs)
        if not enough or ours != theirs[: len(ours)]:
            found.append(f"{file.name}: {len(ours)} bytes here, {len(theirs)} there, {whole(bytes(theirs))} whole")
    return found


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_the_source_dies_while_it_writes(start_own: StartServers, tmp_path: Path, flavour: Flavour) -> None:
    """By GTID; test_pull.py has files and positions as well."""
    (server,) = start_own(ServerSpec("dying", flavour))
    server.sql("CREATE DATABASE d")
    chance = random.Random(5)
    with relays_of(server, tmp_path) as kit:
        relay = kit.start(enable_gtid=True)
        torn = []
        with everything_on(server, "d", seed=3):
            for number in range(ROUNDS):
                time.sleep(1)
                torn.append(kill_in_a_transaction(server, "d", chance))
                if number:  # both die
                    relay.kill()
                server.start()
                if number:
                    relay = kit.start(enable_gtid=True)
            time.sleep(2)
        assert relay.alive(), (relay.error(), kit.log())
        relay.kill()
        kit.catch_up(enable_gtid=True)
        if differences(kit):  # MariaDB may have written a checkpoint since
            kit.catch_up(enable_gtid=True)
        assert differences(kit) == []
        assert_all_is_there(kit)
        still = [path for path in torn if whole(path.read_bytes()) < path.stat().st_size]
        assert still == (torn if flavour == "mariadb" else [])


def test_a_source_that_lost_a_part_of_a_transaction_between_two_events(start_own: StartServers, tmp_path: Path) -> None:
    """MariaDB sends such a file without an error: the part is in our copy, and in no set of transactions."""
    (server,) = start_own(ServerSpec("dying", "mariadb"))
    server.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY)")
    with relays_of(server, tmp_path) as kit:
        server.sql("INSERT INTO d.t VALUES (1)")
        server.sql("BEGIN; INSERT INTO d.t VALUES (2); INSERT INTO d.t VALUES (3); COMMIT")
        path = server.datadir / kit.upstream().file
        server.kill()
        rows = [at for at, code, _size in events(path.read_bytes()) if code == 23]
        with open(path, "r+b") as file:
            file.truncate(rows[-1])
        server.start()
        server.sql("INSERT INTO d.t VALUES (4)")
        kit.catch_up()
        assert kit.differences() == []
        assert_all_is_there(kit)
