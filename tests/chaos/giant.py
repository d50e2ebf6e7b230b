"""One transaction of more than 4 GiB: positions that no 32-bit field holds, and a file that is larger than any other.

A relay is killed in it at several places, two of them after 4 GiB. Then the file is the server's, byte for byte, and
the planner and the decoder find each of its rows. It needs some 20 GB of disk, so it is a command and no test.
"""

import shutil
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.binlog.maps import WantedTables
from airflow_provider_dm.engine.binlog.planned import Epoch, EpochLimits
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.binlog.rows import decode_range
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.reader import RelayReader
from airflow_provider_dm.engine.schema.model import Table
from testbed import Server
from tests.chaos.relay import assert_all_is_there, relays_of
from tests.integration.binlog.reading import definition, session
from tests.integration.relay.conftest import RelayKit

TABLE: Final = TableName("chaos", "giant")
ROW_BYTES: Final = 15 << 20
ROWS: Final = (4 << 30) // ROW_BYTES + 12
KILL_AT: Final = (1 << 30, (4 << 30) + 1, (4 << 30) + (100 << 20))
"""Sizes of the relay's file."""
PATIENCE_SECONDS: Final = 900
CHUNK: Final = 16 << 20
RANGE_BYTES: Final = 256 << 20


def pull_a_giant(server: Server, *, gtid: bool) -> None:
    """All of it, on a server with the schema `chaos`. Raises AssertionError; the relay directory is kept then."""
    folder = Path(tempfile.mkdtemp(prefix="dm-chaos-"))
    server.sql(f"DROP TABLE IF EXISTS {TABLE.quoted()}; CREATE TABLE {TABLE.quoted()} (id INT PRIMARY KEY, v LONGBLOB)")
    with relays_of(server, folder) as kit:
        first = kit.upstream()
        server.sql(
            f"INSERT INTO {TABLE.quoted()} WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
            f"WHERE i < {ROWS}) SELECT i, repeat(char(65 + i % 26), {ROW_BYTES} + i) FROM n"
        )
        server.sql(f"UPDATE {TABLE.quoted()} SET v = 'small' WHERE id = 1")
        for size in KILL_AT:
            _kill_at(kit, size, gtid=gtid)
        relay = kit.start("caught-up", enable_gtid=gtid)
        assert relay.wait(PATIENCE_SECONDS) == 0, kit.log()
        assert_all_is_there(kit)
        files = RelayReader(kit.root).files(first)
        assert files[0].size > 4 << 30, files
        assert [file.name for file in files if not _is_same(Path(file.path), server.datadir / file.name)] == []
        _check_rows(server, files, first, kit.upstream())
    server.sql(f"DROP TABLE {TABLE.quoted()}")
    shutil.rmtree(folder)


def _kill_at(kit: RelayKit, size: int, *, gtid: bool) -> None:
    """Start a relay, and kill it when its file has this size."""
    relay, deadline = kit.start(enable_gtid=gtid), time.monotonic() + PATIENCE_SECONDS
    while max((path.stat().st_size for path in kit.root.glob(f"*/{kit.first_file}")), default=0) < size:
        assert relay.alive(), (relay.error(), kit.log())
        assert time.monotonic() < deadline, kit.log()
        time.sleep(0.01)
    relay.kill()


def _is_same(ours: Path, theirs: Path) -> bool:
    """Byte for byte, but for the bit "in use", which the dump clears."""
    with ours.open("rb") as mine, theirs.open("rb") as other:
        for number in count():
            left, right = mine.read(CHUNK), bytearray(other.read(CHUNK))
            if number == 0:
                right[21] &= 0xFE
            if left != right:
                return False
            if not left:
                return True
    raise AssertionError


def _check_rows(server: Server, files: list[LogFile], lo: Location, hi: Location) -> None:
    """The planner's ranges hold the rows of both transactions, in order."""
    connection = session(server)
    table = definition(connection, TABLE)
    connection.close()
    given = [(b"%d" % number, ROW_BYTES + number) for number in range(1, ROWS + 1)]
    assert list(_rows(files, table, lo, hi)) == [*given, (b"1", len("small"))]


def _rows(files: list[LogFile], table: Table, lo: Location, hi: Location) -> Iterator[tuple[bytes | None, int]]:
    """(id, bytes of the value) of each new row between the two places."""
    while (lo.file, lo.position) != (hi.file, hi.position):
        planned = plan_epoch(files, lo, EpochLimits(goal=hi, max_bytes=RANGE_BYTES, range_bytes=RANGE_BYTES))
        assert isinstance(planned, Epoch), planned
        for byte_range in planned.ranges:
            for change in decode_range(byte_range, WantedTables.whole([table])):
                if change.after:
                    yield change.after[0], len(change.after[1] or b"")
        lo = planned.hi
