"""The load of the chaos tests: every kind of event that a binlog may hold and a copy of it could get wrong."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pymysql

from testbed import Server
from tests.beside import beside

BIG: Final = ((1 << 24) - 300, (1 << 24) - 40, 1 << 24, (1 << 24) + 7, 40_000_000)
"""Values around the size of a packet: their events come in one, in two with an empty second one, in several."""


@contextmanager
def everything_on(server: Server, schema: str, *, seed: int, pause: float = 0.1) -> Iterator[None]:
    """Events of all sizes, large transactions, DDL, rotations, compression and tags, until the block ends.

    `pause`: mean seconds between transactions, so that the disk is not filled by the hour.
    """
    chance = random.Random(seed)
    server.sql(f"CREATE TABLE IF NOT EXISTS `{schema}`.big (id INT AUTO_INCREMENT PRIMARY KEY, v LONGBLOB)")

    def write(ended: threading.Event) -> None:
        while not ended.is_set():
            try:
                with server.connect(database=schema) as connection:
                    cursor = connection.cursor()
                    while not ended.wait(chance.uniform(0, 2 * pause)):
                        _something(cursor, server, chance)
            except pymysql.err.MySQLError:
                ended.wait(0.1)  # the server was killed

    with beside(write):
        yield


def _something(cursor: Any, server: Server, chance: random.Random) -> None:
    match chance.randrange(12):
        case 0:
            cursor.execute("INSERT INTO big (v) VALUES (REPEAT('x', %s))", (chance.choice(BIG),))
            cursor.execute("DELETE FROM big WHERE LENGTH(v) > 1000000 LIMIT 1")
        case 1:
            cursor.execute("FLUSH BINARY LOGS")
        case 2:
            cursor.execute(f"CREATE OR REPLACE VIEW view_{chance.randrange(9)} AS SELECT {chance.randrange(9)} AS one")
        case 3:
            cursor.execute("BEGIN")
            for _ in range(chance.choice([100, 1000])):
                cursor.execute("INSERT INTO big (v) VALUES (REPEAT('y', %s))", (chance.choice([1, 90, 1500]),))
            cursor.execute(chance.choice(["COMMIT", "COMMIT", "ROLLBACK"]))
        case 4 if server.flavour == "mysql":
            cursor.execute(f"SET gtid_next = '{chance.choice(['AUTOMATIC', 'AUTOMATIC:blue', 'AUTOMATIC:green'])}'")
        case 5 if server.flavour == "mysql":
            cursor.execute(f"SET binlog_transaction_compression = {chance.choice(['ON', 'OFF'])}")
        case 6:
            cursor.execute("DELETE FROM big ORDER BY id LIMIT 500")
        case _:
            cursor.execute("INSERT INTO big (v) VALUES (REPEAT('z', %s))", (chance.choice([0, 1, 70, 5000, 300_000]),))
