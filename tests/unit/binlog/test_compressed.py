"""MariaDB's compressed events mean what the plain ones do, and their sizes are not believed."""

import tracemalloc
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.binlog.compressed import claimed_rows_size, uncompressed_query, uncompressed_rows
from airflow_provider_dm.engine.binlog.errors import ChangeNotInLog, EventTooLarge, MalformedEvent
from airflow_provider_dm.engine.binlog.events import EVENTS
from airflow_provider_dm.engine.binlog.planned import DdlStatement, Epoch, EpochLimits
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.mysql.location import Location
from tests.fuzz.writer import packed_by_mariadb as packed
from tests.unit.binlog.building import Log, order, query_head

SIZES = st.sampled_from([0, 1, 255, 256, 65_535, 65_536, 100_000])


@given(SIZES, st.binary(max_size=200))
def test_a_compressed_statement_is_restored(size: int, text: bytes) -> None:
    sql = text + b"x" * size
    head = query_head(variables=b"\x00\0\0\0\0")
    assert uncompressed_query(head + packed(sql), "f:4") == head + sql


HEADS = {
    166: b"\x09\0\0\0\0\0\1\0" + b"\2\xff",
    167: b"\x09\0\0\0\0\0\1\0" + b"\2\xff\xff",
    168: b"\x09\0\0\0\0\0\1\0" + b"\2\xff",
    169: b"\x09\0\0\0\0\0\1\0" + b"\5\0xyz" + b"\2\xff",
    170: b"\x09\0\0\0\0\0\1\0" + b"\2\0" + b"\xfc\x2c\x01" + b"\xff" * 76,
    171: b"\x09\0\0\0\0\0\1\0" + b"\2\0" + b"\x08\xff",
}


@pytest.mark.parametrize("code", HEADS, ids=lambda code: EVENTS[code].name)
def test_compressed_rows_are_restored(code: int) -> None:
    images = order(1) + order(2, b"y" * 200)
    plain, body = uncompressed_rows(code, HEADS[code] + packed(images), "f:4")
    assert body == HEADS[code] + images
    assert EVENTS[code].name == f"MARIADB_{EVENTS[plain].name}_COMPRESSED"


@pytest.mark.parametrize("code", [165, *HEADS])
def test_every_truncation_is_malformed(code: int) -> None:
    whole = query_head() + packed(b"x" * 50) if code == 165 else HEADS[code] + packed(order(1))
    for size in range(len(whole)):
        with pytest.raises(MalformedEvent):
            _ = uncompressed_query(whole[:size], "f:4") if code == 165 else uncompressed_rows(code, whole[:size], "f:4")


WRONG_PARTS = {
    "one too few": packed(b"x" * 50, says=49),
    "one too many": packed(b"x" * 50, says=51),
    "none": packed(b"x" * 50, says=0),
    "far too many": packed(b"x" * 50, says=1 << 27),
    "not compressed": packed(b"x" * 50, head=0x00),
    "another algorithm": packed(b"x" * 50, head=0x90),
    "an unknown bit": packed(b"x" * 50, head=0x88),
    "no digits of the size": b"\x80" + zlib.compress(b""),
    "five digits of the size": b"\x85" + bytes(4) + b"\x32" + zlib.compress(b"x" * 50),
    "something behind it": packed(b"x" * 50) + b"rest",
    "no zlib": b"\x81\x32not zlib",
}


@pytest.mark.parametrize("tail", WRONG_PARTS.values(), ids=WRONG_PARTS)
def test_a_wrong_part_is_malformed(tail: bytes) -> None:
    for code, head in HEADS.items():
        with pytest.raises(MalformedEvent) as raised:
            uncompressed_rows(code, head + tail, "f:4")
        assert raised.value.at == "f:4"
    with pytest.raises(MalformedEvent):
        uncompressed_query(query_head() + tail, "f:4")


def test_a_size_beyond_128_mib_is_refused_and_a_bomb_stops_at_its_claim() -> None:
    with pytest.raises(EventTooLarge):
        uncompressed_query(query_head() + packed(b"x", says=(128 << 20) + 1), "f:4")
    bomb = packed(bytes(200 << 20), says=1000)
    tracemalloc.start()
    with pytest.raises(MalformedEvent):
        uncompressed_query(query_head() + bomb, "f:4")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 << 20


# In the log


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("kind", ["insert", "update", "delete"])
def test_an_epoch_and_its_ranges_are_as_large_as_what_is_unpacked(kind: str, version: int, tmp_path: Path) -> None:
    """Memory is bounded by what is held, and rows of a kilobyte may be twenty bytes in the log."""
    image = order(1, b"z" * 200)
    images = [image] * (40 if kind == "update" else 80)
    log = Log(server="mariadb-10.11")
    starts = []
    for _ in range(10):
        starts.append(log.begin())
        for _ in range(2):  # statements, at which a range may end
            log.table_map()
            log.rows(kind, images, version=version, compressed=True)
        log.xid()
    unpacked = len(image) * len(images)
    files, here = [log.file(tmp_path)], Location(log.name, starts[0])
    assert log.position - starts[0] < unpacked

    planned = plan_epoch(files, here, EpochLimits(max_bytes=5 * unpacked, range_bytes=unpacked))

    assert isinstance(planned, Epoch)
    assert (planned.transactions, planned.hi.position) == (3, starts[3])
    assert planned.bytes == starts[3] - starts[0]
    assert 6 * unpacked <= planned.size < 6.2 * unpacked
    assert len(planned.ranges) >= 3


def test_a_large_claimed_size_is_no_error_of_the_plan(tmp_path: Path) -> None:
    assert claimed_rows_size(166, b"short") == 0
    assert claimed_rows_size(166, HEADS[166] + packed(b"x", says=(1 << 32) - 1)) == 128 << 20


def test_a_compressed_statement_is_found_like_a_plain_one(tmp_path: Path) -> None:
    log = Log(server="mariadb-11.8")
    start = log.ddl("ALTER TABLE t COMMENT 'é'", compressed=True)
    ddl = plan_epoch([log.file(tmp_path)], Location(log.name, start))
    assert isinstance(ddl, DdlStatement)
    assert ddl.sql == "ALTER TABLE t COMMENT 'é'"

    change = Log("mariadb")
    start = change.begin()
    position = change.query("INSERT INTO t VALUES (1)", compressed=True)
    with pytest.raises(ChangeNotInLog, match=f"the change at {change.name}:{position} is logged as a statement"):
        plan_epoch([change.file(tmp_path)], Location(change.name, start), EpochLimits(max_bytes=1, range_bytes=1))
