"""Rows out of a binlog: the engine beside mysql-replication's BinLogStreamReader. One core each.

Both read the same file of the same server in the same run and look at every row.
- bulk: multi-row inserts into sysbench's table, 42 rows in an event, and multi-row updates of a quarter of them.
- single_row: transactions of one row, inserts and updates in turn.
- mixed: 30 columns of 26 types, a sixth of the cells NULL; the server writes all optional metadata.
- bulk_images, single_row_images: the same files to row images that stay encoded (`split_range`): every checksum is
  verified, every image is found. A sync's task does this for each row. Its kernels join the consecutive changes of a
  row in this form; the joined changes become values as in the cases above.
- cells: the bulk file to columns side by side, as an audit hands them to Arrow. No peer.
- header_scan: `plan_epoch` over the single-row file, which cuts it into transactions and ranges. No peer.
- kernel_load: what a fresh process waits for its kernels when they were compiled before.

The engine's side is from file to rows as a sync's task takes them: every checksum verified, every image cut, old and
new rows as tuples of canonical values.

What is not comparable:
- The engine reads the file as a relay has left it on the disk. mysql-replication reads it from the server over
  loopback: it has no other way. So its wall clock contains the transfer (the relay's work on our side), and the server
  has a core for it; its CPU seconds do not contain the server's.
- mysql-replication verifies no checksum by default.
- MariaDB writes an ANNOTATE_ROWS event before every statement. The file has them; the server leaves them out when
  mysql-replication reads.
- Without row metadata mysql-replication cannot name columns or know UNSIGNED; with it, it is slower.
- The engine's first pass over the file, which loads the kernels and compiles the table's layout, is not timed; passes
  are repeated for half a second. The peer makes one pass.
"""

import argparse
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from airflow_provider_dm.engine.binlog.images import canonical_cells
from airflow_provider_dm.engine.binlog.kernels import build
from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.binlog.maps import WantedTables
from airflow_provider_dm.engine.binlog.planned import Epoch, EpochLimits
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.binlog.rows import decode_range, split_range
from airflow_provider_dm.engine.binlog.splitting import AFTER, BEFORE
from airflow_provider_dm.engine.mysql.location import Location
from testbed import Server, ServerSpec, running_servers
from tests.benchmarks import workload
from tests.benchmarks.harness import MEGA, Case, Run, Side, arguments, in_child, measure, note, publish, timed
from tests.benchmarks.workload import BinlogFile

BULK_ROWS: Final = 200_000
SINGLE_ROWS: Final = 60_000
MIXED_ROWS: Final = 30_000
RANGE_BYTES: Final = 8 << 20
SUBJECT_SECONDS: Final = 0.5
CASES: Final = (
    *("bulk", "single_row", "mixed", "bulk_images", "single_row_images"),
    *("cells", "header_scan", "kernel_load"),
)


@dataclass(frozen=True)
class WrongCount(Exception):
    """A side has not decoded all that was written, so its speed is meaningless."""

    side: str
    found: int
    written: int

    def __str__(self) -> str:
        return f"{self.side} found {self.found} of {self.written} rows"


# The sides; each runs in a process of its own


def engine_rows(file: BinlogFile) -> Run:
    """File to rows, range by range as a Spark task does it."""
    ranges = planned(file).ranges

    def decode() -> int:
        wanted = WantedTables.whole([file.table])
        rows = sum(1 for one in ranges for _ in decode_range(one, wanted, compiled=True))
        return checked("the engine", rows, file)

    decode()
    return timed(decode, at_least_seconds=SUBJECT_SECONDS)


def engine_images(file: BinlogFile) -> Run:
    """File to encoded row images."""
    ranges = planned(file).ranges
    wanted = WantedTables.whole([file.table])

    def split() -> int:
        rows = sum(len(batch) for one in ranges for batch in split_range(one, wanted, compiled=True))
        return checked("the engine", rows, file)

    split()
    return timed(split, at_least_seconds=SUBJECT_SECONDS)


def engine_cells(file: BinlogFile) -> Run:
    """File to cells side by side."""
    ranges = planned(file).ranges

    def decode() -> int:
        rows = 0
        for byte_range in ranges:
            for batch in split_range(byte_range, WantedTables.whole([file.table]), compiled=True):
                rows += len(batch)
                for number, (layout, *_) in enumerate(batch.layouts):
                    for place in (BEFORE, AFTER):
                        _, images = batch.images(number, place)
                        canonical_cells(layout, batch.data, images, layout.everything, compiled=True)
        return checked("the engine", rows, file)

    decode()
    return timed(decode, at_least_seconds=SUBJECT_SECONDS)


def load_kernels() -> Run:
    """Loading the kernels in a process that has nothing of them."""

    def load() -> float:
        if not build.ready():
            raise RuntimeError("the kernels are not compiled: docker/local setup compiles them")
        return 1.0

    return timed(load)


def engine_scan(file: BinlogFile) -> Run:
    """The planner's walk over headers, in MB."""

    def scan() -> float:
        return planned(file).bytes / MEGA

    scan()
    return timed(scan, at_least_seconds=SUBJECT_SECONDS)


def planned(file: BinlogFile) -> Epoch:
    """The whole file as one epoch."""
    log_file = LogFile(file.path, 1, file.name, file.size, last=True)
    plan = plan_epoch([log_file], Location(file.name, 4), EpochLimits(range_bytes=RANGE_BYTES))
    assert isinstance(plan, Epoch), plan
    return plan


def replication_rows(file: BinlogFile, login: dict[str, Any]) -> Run:
    """The dump of the same file, decoded by mysql-replication. It asks the server how to read the table maps, now."""
    from pymysqlreplication import BinLogStreamReader
    from pymysqlreplication.row_event import UpdateRowsEvent, WriteRowsEvent

    logging.disable(logging.WARNING)  # it asks for FULL metadata, at length
    stream = BinLogStreamReader(
        connection_settings=login,
        server_id=4_000_000_000,
        log_file=file.name,
        log_pos=4,
        resume_stream=True,
        blocking=False,
        only_events=[WriteRowsEvent, UpdateRowsEvent],
    )

    def read() -> int:
        rows = 0
        for event in stream:
            rows += len(event.rows)
            if rows >= file.rows:
                break
        return checked("mysql-replication", rows, file)

    try:
        return timed(read)
    finally:
        stream.close()


def replication_of_full(file: BinlogFile, server: Server) -> Run:
    """The same, of a file whose table maps have all metadata."""
    with workload.full_metadata(server):
        return in_child(replication_rows, file, server.client_config())


def checked(side: str, rows: int, file: BinlogFile) -> int:
    if rows != file.rows:
        raise WrongCount(side, rows, file.rows)
    return rows


# The run


def cases(server: Server, options: argparse.Namespace) -> list[Case]:
    """Writes the files and names the comparisons."""
    rows = [int(count * options.size) for count in (BULK_ROWS, SINGLE_ROWS, MIXED_ROWS)]
    note(f"writing {sum(rows)} rows")
    bulk, single = workload.bulk_file(server, rows[0]), workload.single_row_file(server, rows[1])
    mixed, login = workload.mixed_file(server, rows[2]), server.client_config()
    peers: dict[str, Callable[[], Run]] = {
        "bulk": partial(in_child, replication_rows, bulk, login),
        "single_row": partial(in_child, replication_rows, single, login),
        "mixed": partial(replication_of_full, mixed, server),
    }
    subjects: dict[str, tuple[str, str, Callable[[], Run]]] = {
        "bulk": ("rows", "decode_range", partial(engine_rows, bulk)),
        "single_row": ("rows", "decode_range", partial(engine_rows, single)),
        "mixed": ("rows", "decode_range", partial(engine_rows, mixed)),
        "bulk_images": ("rows", "split_range", partial(engine_images, bulk)),
        "single_row_images": ("rows", "split_range", partial(engine_images, single)),
        "cells": ("rows", "split_range + canonical_cells", partial(engine_cells, bulk)),
        "header_scan": ("MB", "plan_epoch", partial(engine_scan, single)),
        "kernel_load": ("loads", "kernels", load_kernels),
    }
    found = []
    for name in options.cases:
        unit, side, run = subjects[name]
        peer = peers.get(name.removesuffix("_images"))
        beside = Side("mysql-replication", peer) if peer else None
        found.append(Case(name, unit, Side(side, partial(in_child, run)), beside))
    return found


@contextmanager
def one_server() -> Iterator[Sequence[Server]]:
    with running_servers([ServerSpec("source", "mariadb", ("--max-binlog-size=1G",))]) as servers:
        yield servers


def main() -> None:
    options = arguments(__doc__, repeats=5, cases=CASES)
    with one_server() as servers:
        publish("decode", measure(cases(servers[0], options), options.repeats, servers), options, servers)


if __name__ == "__main__":
    # Children find this module by its name, wherever `python -m` was called.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    main()
