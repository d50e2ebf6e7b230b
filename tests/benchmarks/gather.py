"""The read lock of a gather beside writers: how long they are blocked, and how many requests for it are granted.

Like sysbench: four writers run short transactions of two UPDATEs and an INSERT over eight tables, one keeps its
transactions open for seconds, one client runs a SELECT of seconds now and then. In each gather, eight reader processes
open their snapshots and sum up all tables: the UPDATEs leave the sum as it is, and all readers have to see the same.

    docker/local bench gather --gathers 200 --flavour mysql --consistency auto

`longest_statement_seconds` is that of any short statement of a writer, from its own clock: it contains the time for
which the lock blocked it, and what a busy machine adds. `longest_block_seconds` is the product's own figure.
"""

import argparse
import json
import logging
import multiprocessing
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pymysql

from airflow_provider_dm.engine.config.units import Consistency
from airflow_provider_dm.engine.copy import snapshot
from airflow_provider_dm.engine.copy.gather import Gathered, ReaderGroup, gathering
from airflow_provider_dm.engine.copy.snapshot_reader import snapshot_reader
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.connection import query
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from testbed import Server, ServerSpec, running_servers
from testbed.servers import FLAVOURS

FORK: Final = multiprocessing.get_context("fork")
READERS: Final = 8
SCHEMA: Final = "bench"
TABLES: Final = [TableName(SCHEMA, f"t{number}") for number in range(8)]
ROWS: Final = 500
SUM: Final = len(TABLES) * ROWS * 100
LONG_SECONDS: Final = 5.0

Statement = Callable[[str], None]


def short_transactions(run: Statement, random_: random.Random, longest: Any) -> None:
    """Move something from one row to another, and insert a row of nothing."""
    table, (one, other) = random_.choice(TABLES).quoted(), sorted(random_.sample(range(1, ROWS + 1), 2))
    run("BEGIN")
    for statement in (
        f"UPDATE {table} SET v = v - 1 WHERE id = {one}",
        f"UPDATE {table} SET v = v + 1 WHERE id = {other}",
        f"INSERT INTO {table} (v) VALUES (0)",
        "COMMIT",
    ):
        began = time.perf_counter()
        run(statement)
        longest.value = max(longest.value, time.perf_counter() - began)


def long_transactions(run: Statement, random_: random.Random, _longest: Any) -> None:
    run("BEGIN")
    run(f"INSERT INTO {random_.choice(TABLES).quoted()} (v) VALUES (0)")
    time.sleep(random_.uniform(0, 2 * LONG_SECONDS))
    run("COMMIT")
    time.sleep(random_.uniform(0, LONG_SECONDS))


def long_selects(run: Statement, random_: random.Random, _longest: Any) -> None:
    run(f"SELECT SLEEP({random_.uniform(0, LONG_SECONDS)}), COUNT(*) FROM {TABLES[0].quoted()} WHERE id < 2")
    time.sleep(random_.uniform(0, 4 * LONG_SECONDS))


def client(server: Server, work: Callable[[Statement, random.Random, Any], None], seed: int, longest: Any) -> None:
    random_ = random.Random(seed)
    with server.connect() as connection, connection.cursor() as cursor:
        while True:
            try:
                work(cursor.execute, random_, longest)
            except pymysql.err.OperationalError:  # a deadlock, or KILL QUERY
                connection.rollback()


@contextmanager
def clients(server: Server) -> Iterator[Any]:
    """The clients of the source; yields the seconds of their longest short statement."""
    longest = FORK.Value("d", 0.0)
    works = [*[short_transactions] * 4, long_transactions, long_selects]
    processes = [
        FORK.Process(target=client, args=(server, work, seed, longest), daemon=True) for seed, work in enumerate(works)
    ]
    for process in processes:
        process.start()
    try:
        yield longest
    finally:
        for process in processes:
            process.kill()
            process.join()


def read(source: Endpoint, group: ReaderGroup, number: int, seen: Any) -> None:
    with snapshot_reader(source, group, number) as reader:
        if reader is None or not reader.wait_until_open():
            return
        found = []
        for table in TABLES:
            with reader.reading(table) as connection:
                found.append(
                    tuple(
                        map(int, query(connection, f"SELECT COUNT(*), CAST(SUM(v) AS SIGNED) FROM {table.quoted()}")[0])
                    )
                )
        seen.put(tuple(found))


def gather_once(source: Endpoint, consistency: Consistency) -> Gathered:
    """Raises DmError; AssertionError for readers that see different rows."""
    with gathering(source, consistency, READERS) as it:
        seen = FORK.Queue()
        readers = [FORK.Process(target=read, args=(source, it.group, number, seen)) for number in range(READERS)]
        for reader in readers:
            reader.start()
        try:
            found = it.gather(TABLES)
            it.open()
            views = [seen.get(timeout=60) for _ in found.readers]
        finally:
            it.close()
            for reader in readers:
                reader.join()
    assert len(set(views)) == 1
    assert sum(total for _rows, total in views[0]) == SUM
    return found


class Refusals(logging.Handler):
    """Counts why requests for a lock were not granted, from the log."""

    def __init__(self) -> None:
        super().__init__()
        self.counted: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.args, tuple) and "not granted" in record.msg:
            self.counted[str(record.args[-1])[:60]] += 1


def campaign(server: Server, gathers: int, consistency: Consistency) -> dict[str, Any]:
    server.sql(f"CREATE DATABASE {SCHEMA}")
    rows = ", ".join(f"({number}, 100)" for number in range(1, ROWS + 1))
    for table in TABLES:
        server.sql(f"CREATE TABLE {table.quoted()} (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
        server.sql(f"INSERT INTO {table.quoted()} VALUES {rows}")
    source, refusals = Endpoint("source", server.host, server.port, server.user), Refusals()
    snapshot.log.addHandler(refusals)
    snapshot.log.setLevel(logging.INFO)
    done, errors = list[Gathered](), Counter[str]()
    with clients(server) as longest:
        for _ in range(gathers):
            try:
                done.append(gather_once(source, consistency))
            except DmError as error:
                errors[error.code] += 1
    return {
        "flavour": server.flavour,
        "consistency": str(consistency),
        "gathers": len(done),
        "errors": dict(errors),
        "readers": sorted(Counter(len(one.readers) for one in done).items()),
        "attempts": sorted(Counter(one.attempts for one in done).items()),
        "refusals": dict(refusals.counted),
        "longest_block_seconds": round(max((one.blocked_seconds for one in done), default=0.0), 3),
        "longest_statement_seconds": round(longest.value, 3),
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="docker/local bench gather", description=__doc__)
    parser.add_argument("--gathers", type=int, default=50)
    parser.add_argument("--flavour", choices=FLAVOURS, default="mysql")
    parser.add_argument("--consistency", type=Consistency, default=Consistency.AUTO)
    options = parser.parse_args(arguments)
    with running_servers([ServerSpec("source", options.flavour)]) as (server,):
        print(json.dumps(campaign(server, options.gathers, options.consistency), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
