"""The kernel that takes runs of events gives what the plain way gives, for streams of every kind and damage."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.binlog.kernels import build
from airflow_provider_dm.engine.relay.event_runs import BACKLOG_BYTES, RunTaker, compiled_take, take_plainly
from airflow_provider_dm.engine.relay.packets import ReceiveBuffer
from tests.unit.relay.events import begin, commit, fake_rotate, filler, format_description, streamed


@pytest.fixture(scope="module", autouse=True)
def kernels() -> None:
    build.warm()
    assert build.ready()


Made = st.sampled_from(["begin", "filler", "commit", "rotate", "format", "plain"])


def event_of(made: str, size: int, at: int) -> bytes:
    match made:
        case "begin":
            return begin(size, at)
        case "filler":
            return filler(size, at)
        case "commit":
            return commit(at)
        case "rotate":
            return fake_rotate("mysql-bin.000002")
        case "format":
            return format_description(at)
        case other:
            assert other == "plain"
            return filler(size, at)[:-4]  # its size says more than there is


@given(
    st.lists(st.tuples(Made, st.integers(0, 300)), max_size=12),
    st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 255)), max_size=3),
    st.integers(0, 40),
    st.booleans(),
)
def test_both_readers_accept_the_same_events(
    made: list[tuple[str, int]], damage: list[tuple[int, int]], missing: int, checksums: bool
) -> None:
    events, cursor = [], 4
    for kind, size in made:
        events.append(event_of(kind, size, cursor))
        cursor += len(events[-1])
    data = bytearray(streamed(*events))
    for place, bits in damage:
        if data:
            data[place % len(data)] ^= bits
    del data[max(0, len(data) - missing) :]
    compiled = compiled_take()
    assert compiled is not None
    found = []
    for take in (take_plainly, compiled):
        buffer = ReceiveBuffer()
        buffer.free()[: len(data)] = data
        buffer.received(len(data))
        run = take(buffer, 4, checksums=checksums)
        found.append((b"".join(run.pieces), run.cursor, run.gtid_heads, run.begun, buffer.start))
    plain, fast = found
    if damage or any(kind == "plain" for kind, _ in made):
        # Before an event too short for a checksum the kernel may stop earlier; what it takes is the same.
        assert plain[0].startswith(fast[0])
        assert fast[1] == 4 + len(fast[0])
    else:
        assert plain == fast


def test_a_busy_relay_becomes_fast() -> None:
    taker = RunTaker(busy_seconds=0.0)
    buffer, cursor, out = ReceiveBuffer(), 4, b""
    for _ in range(3000):
        event = begin(1, cursor)
        data = streamed(event)
        buffer.free()[: len(data)] = data
        buffer.received(len(data))
        run = taker(buffer, cursor, checksums=True)
        out, cursor = out + b"".join(run.pieces), run.cursor
    assert cursor == 4 + len(out)
    for thread in threading.enumerate():
        if thread.name == "relay-kernels":
            thread.join()
    assert taker._take is not take_plainly


def test_a_relay_with_a_backlog_is_fast_from_the_start() -> None:
    taker = RunTaker()
    taker.expect(BACKLOG_BYTES - 1)
    assert taker._take is take_plainly
    taker.expect(BACKLOG_BYTES)
    assert taker._take is not take_plainly


def test_a_relay_without_kernels_searches_for_them_again(monkeypatch: pytest.MonkeyPatch) -> None:
    taker = RunTaker()
    monkeypatch.setenv(build.SWITCH, "off")
    taker.expect(BACKLOG_BYTES)
    assert taker._take is take_plainly
    monkeypatch.delenv(build.SWITCH)
    taker.expect(BACKLOG_BYTES)
    assert taker._take is not take_plainly
