"""A source that is never quiet and never ahead: small transactions and many small files, for what takes time beside."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from testbed import Server
from tests.beside import beside

ROTATE_EVERY = 15
"""Transactions in a file."""


@contextmanager
def trickle_on(server: Server, schema: str) -> Iterator[None]:
    """Some hundred KB and two or three new files a second, until the block ends."""
    server.sql(f"CREATE TABLE IF NOT EXISTS `{schema}`.trickle (id INT AUTO_INCREMENT PRIMARY KEY, v LONGBLOB)")

    def write(ended: threading.Event) -> None:
        with server.connect(database=schema, autocommit=True) as connection, connection.cursor() as cursor:
            number = 0
            while not ended.wait(0.02):
                cursor.execute("INSERT INTO trickle (v) VALUES (REPEAT('x', 10000))")
                number += 1
                if number % ROTATE_EVERY == 0:
                    cursor.execute("FLUSH BINARY LOGS")

    with beside(write):
        yield
