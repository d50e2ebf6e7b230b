"""The receive buffer: whatever way bytes arrive, the same events come out, and nothing unchecked."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.relay.errors import PacketsBroken
from airflow_provider_dm.engine.relay.event_runs import compiled_take, take_plainly
from airflow_provider_dm.engine.relay.kinds import ACTIONS
from airflow_provider_dm.engine.relay.packets import ReceiveBuffer
from tests.unit.relay.events import begin, commit, filler, packets, streamed


def transaction(start: int, size: int) -> list[bytes]:
    events = [begin(1, start)]
    for make in (lambda at: filler(size, at), commit):
        events.append(make(start + sum(map(len, events))))
    return events


def fed(buffer: ReceiveBuffer, data: bytes, most: int = 1 << 30) -> int:
    """Put into the buffer what one receive would take; how much that was."""
    room = buffer.free()
    count = min(len(room), len(data), most)
    room[:count] = data[:count]
    buffer.received(count)
    return count


def all_of(buffer: ReceiveBuffer, data: bytes, pieces: list[int], *, runs: bool) -> bytes:
    out, cursor, turn = b"", 4, 0
    while data:
        data = data[fed(buffer, data, pieces[turn % len(pieces)]) :]
        turn += 1
        while True:
            if runs:
                run = buffer.take_run(cursor, ACTIONS, checksums=True)
                out, cursor = out + b"".join(run.pieces), run.cursor
            payload = buffer.whole_packet()
            if payload is None:
                break
            out, cursor = out + bytes(payload[1:]), cursor + len(payload) - 1
    return out


@given(
    st.lists(st.integers(0, 3000), min_size=1, max_size=20),
    st.lists(st.integers(1, 2000), min_size=1, max_size=5),
    st.booleans(),
)
def test_events_are_read_from_packets_of_any_size(sizes: list[int], pieces: list[int], runs: bool) -> None:
    events: list[bytes] = []
    for size in sizes:
        events += transaction(4 + sum(map(len, events)), size)
    buffer = ReceiveBuffer(capacity=1024)
    assert all_of(buffer, streamed(*events), pieces, runs=runs) == b"".join(events)


def test_a_run_stops_at_a_wrong_checksum_or_a_gap() -> None:
    good, bad = begin(1, 4), bytearray(filler(50, 4 + len(begin(1, 4))))
    bad[30] ^= 1
    for wrong in (bytes(bad), filler(50, 5000)):
        buffer = ReceiveBuffer()
        fed(buffer, streamed(good, wrong))
        run = buffer.take_run(4, ACTIONS, checksums=True)
        assert (b"".join(run.pieces), run.cursor, run.begun) == (good, 4 + len(good), 4)


@pytest.mark.parametrize("size", [(1 << 24) - 30, (1 << 24) - 25, (1 << 24) - 24, (1 << 24) + 5, 40_000_000])
def test_an_event_of_16_mib_and_more_is_whole(size: int) -> None:
    event = filler(size, 4)
    buffer = ReceiveBuffer()
    data = streamed(event, commit(4 + len(event)))
    found, at = [], 0
    while at < len(data):
        at += fed(buffer, data[at : at + (1 << 20)])
        while (payload := buffer.whole_packet()) is not None:
            found.append(bytes(payload[1:]))
    assert found == [event, commit(4 + len(event))]
    buffer.free()
    assert len(buffer.view) == buffer.capacity  # the room for the large event is given back


@pytest.mark.parametrize("compiled", [False, True])
def test_a_packet_of_full_length_is_not_part_of_a_run_of_events(*, compiled: bool) -> None:
    """The event ends with it, and an empty packet follows."""
    event = filler((1 << 24) - 25, 4)
    assert len(event) + 1 == 0xFFFFFF
    take = compiled_take() if compiled else take_plainly
    assert take is not None
    buffer, data = ReceiveBuffer(), streamed(event, commit(4 + len(event)))
    whole = []
    while data:
        data = data[fed(buffer, data) :]
        assert take(buffer, 4, checksums=True).pieces == []
        if (payload := buffer.whole_packet()) is not None:
            whole.append(bytes(payload[1:]))
            break
    assert whole == [event]


def test_an_event_beyond_the_limit_is_refused_before_it_is_received() -> None:
    buffer = ReceiveBuffer(event_limit=17_000_000)
    fed(buffer, streamed(filler(20_000_000, 4)))
    with pytest.raises(PacketsBroken, match="the limit is"):
        buffer.whole_packet()


def swallow(buffer: ReceiveBuffer, data: bytes) -> None:
    while data:
        data = data[fed(buffer, data) :]
        buffer.whole_packet()


@pytest.mark.parametrize("difference", [-1, 1, 1 << 24])
def test_fragments_have_the_length_of_their_event(difference: int) -> None:
    """Known from its header, long before all of them have come."""
    event = bytearray(filler(20_000_000, 4))
    event[9:13] = (len(event) + difference).to_bytes(4, "little")
    with pytest.raises(PacketsBroken):
        swallow(ReceiveBuffer(), packets(b"\0" + bytes(event)) + packets(b"\0" + filler(100, 4)))


def lost() -> bytes:
    data = bytearray(packets(b"\0" + filler(1 << 24, 4)))
    data[4 + 0xFFFFFF + 3] = 9
    return bytes(data)


def endless() -> bytes:
    return b"".join(b"\xff\xff\xff" + bytes([sequence]) + b"\0" * 0xFFFFFF for sequence in range(3))


def no_event() -> bytes:
    return packets(b"\xff" + bytes(1 << 24))


@pytest.mark.parametrize("data", [lost, endless, no_event])
def test_fragments_of_no_event_are_refused(data: Callable[[], bytes]) -> None:
    with pytest.raises(PacketsBroken):
        swallow(ReceiveBuffer(event_limit=1 << 25), data())
