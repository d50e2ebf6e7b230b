"""A compressed transaction is read like one that is not, in bounded memory, and no number in its header is believed."""

import struct
import tracemalloc
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.binlog import boundary
from airflow_provider_dm.engine.binlog.errors import ChangeNotInLog, EventTooLarge, MalformedEvent, UnknownEvent
from airflow_provider_dm.engine.binlog.payload import PayloadWindow, inner_place, open_payload
from airflow_provider_dm.engine.binlog.planned import DdlStatement, Epoch, EpochLimits
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.binlog.transaction import ScanEnd, ScannedRange
from airflow_provider_dm.engine.binlog.window import CHUNK_SIZE
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.location import Location
from tests.fuzz.writer import payload_field
from tests.unit.binlog.building import Log, order, payload_body

MIB = 1 << 20
COMPRESSIONS = pytest.mark.parametrize("compression", ["zstd", "none"])


def opened(events: bytes, compression: str = "zstd") -> PayloadWindow:
    return open_payload(payload_body(events, compression), "f:4")


# The window


@COMPRESSIONS
@given(st.data())
def test_every_order_of_reads_gives_the_same_bytes(compression: str, data: st.DataObject) -> None:
    events = data.draw(st.binary(max_size=300))
    window = opened(events, compression)
    assert window.size == len(events)
    for _ in range(data.draw(st.integers(1, 8))):
        position, size = data.draw(st.integers(0, 320)), data.draw(st.integers(0, 320))
        assert window.read(position, size) == events[position : position + size]


def test_a_stream_of_several_frames_is_one() -> None:
    compress = zstandard.ZstdCompressor().compress
    data = compress(b"first ") + compress(b"second")
    body = payload_field(2, 0) + payload_field(3, 12) + payload_field(1, len(data)) + b"\0" + data
    assert open_payload(body, "f:4").read(0, 12) == b"first second"


def test_memory_does_not_depend_on_the_size() -> None:
    size = 256 * MIB
    compressor = zstandard.ZstdCompressor().compressobj(size=size)
    data = b"".join([compressor.compress(bytes(MIB)) for _ in range(size // MIB)] + [compressor.flush()])
    body = payload_field(2, 0) + payload_field(3, size) + payload_field(1, len(data)) + b"\0" + data
    window = open_payload(body, "f:4")
    tracemalloc.start()
    position = 0
    while position < size:
        piece = window.read(position, CHUNK_SIZE)
        position += len(piece) - 1000 if position + len(piece) < size else len(piece)
    window.read(size - 10, 10)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5 * CHUNK_SIZE


def test_an_event_beyond_128_mib_is_refused_before_memory_is_taken() -> None:
    window = open_payload(payload_body(b"x" * 100, claimed=1 << 40), "f:4")
    with pytest.raises(EventTooLarge) as raised:
        window.read(19, (128 << 20) + 1)
    assert raised.value.at == inner_place("f:4", 19) == "f:4+19"


def body_of(*fields: tuple[int, int], data: bytes = b"data") -> bytes:
    return b"".join(payload_field(*field) for field in fields) + b"\0" + data


WRONG_HEADERS = {
    "nothing": b"",
    "no end": b"\x01\x01\x04",
    "no size": body_of((2, 255)),
    "no compression": body_of((1, 4)),
    "longer than announced": body_of((1, 3), (2, 255)),
    "shorter than announced": body_of((1, 5), (2, 255)),
    "far shorter than announced": body_of((1, 1 << 40), (2, 255)),
    "an unknown compression": body_of((1, 4), (2, 1)),
    "unknown size when uncompressed": body_of((1, 4), (2, 0)),
    "an unknown field": body_of((1, 4), (2, 255), (4, 1)),
    "a field twice": body_of((1, 4), (2, 255), (2, 255)),
    "a field longer than its value": b"\x01\x02\x04\x00\x02\x01\x00\x00data",
    "a field longer than the event": b"\x01\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x04",
}


@pytest.mark.parametrize("body", WRONG_HEADERS.values(), ids=WRONG_HEADERS)
def test_a_wrong_header_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedEvent) as raised:
        open_payload(body, "f:4")
    assert raised.value.at == "f:4"


def read_in_steps(window: PayloadWindow, size: int, step: int) -> None:
    for position in range(0, size, step):
        window.read(position, step)


@pytest.mark.parametrize("claimed", [0, 1, 99, 101, 1 << 62])
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_wrong_size_is_found_at_the_end_at_the_latest(claimed: int, step: int) -> None:
    window = open_payload(payload_body(b"x" * 100, claimed=claimed), "f:4")
    if claimed == 0:
        assert window.read(0, 100) == b""
        return
    with pytest.raises(MalformedEvent, match="when uncompressed"):
        read_in_steps(window, min(claimed, 2000), step)


def test_damaged_data_is_malformed() -> None:
    good = zstandard.ZstdCompressor().compress(bytes(range(256)) * 40)
    for data in (good[:-5], b"not zstd at all", good + b"rest", b""):
        body = body_of((1, len(data)), (2, 0), (3, 256 * 40), data=data)
        with pytest.raises(MalformedEvent):
            open_payload(body, "f:4").read(0, 256 * 40)


def test_a_frame_with_a_too_large_window_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=28, write_content_size=False)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    data = compressor.compress(b"x" * 1000) + compressor.flush()
    body = body_of((1, len(data)), (2, 0), (3, 1000), data=data)
    with pytest.raises(MalformedEvent, match="memory"):
        open_payload(body, "f:4").read(0, 1000)


# In the log


def inner(*changes: str, end: str = "xid") -> Log:
    log = Log.inner()
    log.query("BEGIN")
    for number, change in enumerate(changes):
        if change == "rows":
            log.change(None, order(number))
        else:
            log.query(change)
    if end == "xid":
        log.xid()
    elif end:
        log.query(end)
    return log


def scanned(log: Log, folder: Path, start: int, *, apply: bool = True) -> ScannedRange:
    file = log.file(folder)
    with boundary.opened_log(file.path, file.size, file.name) as found:
        assert found is not None
        return boundary.scan_log(found, start, cut=1 << 62, apply=apply)


def with_payload(events: Log, *, server: str = "", compression: str = "zstd") -> tuple[Log, int, int]:
    """(log, where its first transaction begins, where its payload lies)"""
    log = Log(server=server)
    start = log.gtid()
    position = log.payload(events, compression=compression)
    return log, start, position


@COMPRESSIONS
@pytest.mark.parametrize("server", ["mysql-8.0", "mysql-8.4", "mysql-9.7"])
def test_a_compressed_transaction_is_a_transaction(server: str, compression: str, tmp_path: Path) -> None:
    log, start, _ = with_payload(inner("rows", "SAVEPOINT `s`", "rows"), server=server, compression=compression)
    end = log.position
    log.transaction()
    log.tagged_gtid("late")
    log.payload(inner("rows", end="COMMIT"))
    found = scanned(log, tmp_path, start)
    assert (found.ended, found.transactions, found.end) == (ScanEnd.FILE, 3, log.position)
    ids = found.trail.added_to("", Flavour.MYSQL)
    assert ids.split(":", 1)[1] == "1-2:late:3"
    assert scanned(log, tmp_path, end).transactions == 2
    assert found.newest_timestamp == 1_700_000_000


@COMPRESSIONS
def test_an_epoch_and_its_ranges_are_as_large_as_what_is_unpacked(compression: str, tmp_path: Path) -> None:
    events = inner(*["rows"] * 50)
    size, log, starts = len(events.data), Log(), []
    for _ in range(10):
        starts.append(log.gtid())
        log.payload(events, compression=compression)

    planned = plan_epoch(
        [log.file(tmp_path)], Location(log.name, starts[0]), EpochLimits(max_bytes=3 * size, range_bytes=size)
    )

    assert isinstance(planned, Epoch)
    assert [one.start for one in planned.ranges] == starts[:3]
    assert (planned.transactions, planned.bytes) == (3, starts[3] - starts[0])
    assert 3 * size <= planned.size < 3.5 * size


FOUND_OUTSIDE_TOO: list[tuple[Log, type[DmError], int]] = [
    (inner("rows", end="ROLLBACK"), ChangeNotInLog, 0),
    (inner("rows", "ROLLBACK TO `s`"), ChangeNotInLog, 0),
    (inner("INSERT INTO t VALUES (1)"), ChangeNotInLog, 42),
    (inner("XA PREPARE X'78',X'',1"), MalformedEvent, 42),
]


@pytest.mark.parametrize(("events", "error", "offset"), FOUND_OUTSIDE_TOO, ids=lambda value: getattr(value, "code", ""))
def test_errors_inside_a_payload_have_their_location(
    events: Log, error: type[DmError], offset: int, tmp_path: Path
) -> None:
    log, start, position = with_payload(events)
    with pytest.raises(error) as raised:
        scanned(log, tmp_path, start)
    assert f" at {log.name}:{position}+{offset} " in raised.value.happened()

    before = Log()
    start, end = before.transaction()
    before.gtid()
    before.payload(events)
    found = scanned(before, tmp_path, start)
    assert (found.ended, found.end) == (ScanEnd.EVENT, end)


@pytest.mark.parametrize("code", [5, 13, 14, 17, 26, 99])
def test_an_unknown_event_stops_also_inside_a_payload(code: int, tmp_path: Path) -> None:
    events = inner(end="")
    offset = events.add(code, bytes(40))
    events.xid()
    log, start, position = with_payload(events)
    with pytest.raises(UnknownEvent) as raised:
        scanned(log, tmp_path, start)
    assert raised.value.at == f"{log.name}:{position}+{offset}"


def test_ddl_in_a_payload_is_left_for_the_next_scan_and_then_found_whole(tmp_path: Path) -> None:
    log = Log()
    start, end = log.transaction()
    log.gtid()
    log.payload(inner("CREATE TABLE c (id INT) START TRANSACTION", "rows"))
    ddl_end = log.position
    log.transaction()
    files = [log.file(tmp_path)]

    first = plan_epoch(files, Location(log.name, start))
    assert isinstance(first, Epoch)
    assert first.hi.position == end

    ddl = plan_epoch(files, first.hi)
    assert isinstance(ddl, DdlStatement)
    assert (ddl.at.position, ddl.end.position) == (end, ddl_end)
    assert ddl.sql == "CREATE TABLE c (id INT) START TRANSACTION"
    rows = ddl.rows_epoch()
    assert rows is not None
    assert [(one.start, one.end) for one in rows.ranges] == [(end, ddl_end)]


def nested() -> Log:
    log = Log.inner()
    log.payload(inner("rows"))
    return log


def two_transactions() -> Log:
    log = inner("rows")
    log.data += inner("rows").data
    return log


def with_its_id() -> Log:
    log = Log.inner()
    log.begin()
    log.xid()
    return log


def with_a_format() -> Log:
    log = Log.inner()
    log.format_description()
    return log


def without_begin() -> Log:
    log = Log.inner()
    log.table_map()
    return log


def cut_short() -> Log:
    log = inner("rows")
    del log.data[-3:]
    return log


def without_an_end() -> Log:
    return inner("rows", end="")


def with_a_huge_event() -> Log:
    log = inner()
    log.data[-27:] = struct.pack("<IBIIIH", 0, 29, 1, (128 << 20) + 1, 0, 0) + bytes(8)
    return log


@pytest.mark.parametrize(
    "events",
    [
        nested,
        two_transactions,
        with_its_id,
        with_a_format,
        without_begin,
        cut_short,
        without_an_end,
        with_a_huge_event,
        Log.inner,
    ],
)
def test_a_payload_that_is_not_one_transaction_is_malformed(events: type[Log], tmp_path: Path) -> None:
    log, start, position = with_payload(events())
    with pytest.raises((MalformedEvent, EventTooLarge)) as raised:
        scanned(log, tmp_path, start)
    assert raised.value.details()["at"].startswith(f"{log.name}:{position}")


def test_a_payload_follows_its_gtid(tmp_path: Path) -> None:
    alone = Log()
    position = alone.payload(inner("rows"))
    for apply in (True, False):
        with pytest.raises(MalformedEvent, match="without its id"):
            scanned(alone, tmp_path, position, apply=apply)
