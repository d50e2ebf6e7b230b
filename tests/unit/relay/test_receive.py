"""Receiving a stream: all available bytes at once, with a pause only if it gathers small events."""

import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.relay.packets import ReceiveBuffer
from airflow_provider_dm.engine.relay.protocol import FEW_BYTES, DumpRequest, DumpStream

SMALL = (40).to_bytes(3, "little") + b"\1\0" + bytes(39)
LARGE = (4 * FEW_BYTES).to_bytes(3, "little") + b"\1\0" + bytes(4 * FEW_BYTES - 1)


class Session:
    """Part of a connection that a stream needs."""

    def __init__(self, ours: socket.socket) -> None:
        self._sock = ours


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Count this thread's naps, which do not last; a JVM that an earlier test has left naps in another thread."""
    seen: list[float] = []
    really, ours = time.sleep, threading.get_ident()
    monkeypatch.setattr(
        time, "sleep", lambda seconds: seen.append(seconds) if threading.get_ident() == ours else really(seconds)
    )
    return seen


@pytest.fixture
def ends() -> Iterator[tuple[DumpStream, socket.socket]]:
    """A stream that has just received bytes, and its server's end."""
    theirs, ours = socket.socketpair()
    ours.settimeout(1)
    session: Any = Session(ours)
    stream = DumpStream(session, DumpRequest("mysql-bin.000001", 4, 7, "u"), Flavour.MYSQL)
    stream.heard_at = time.monotonic() + 60  # as if bytes had arrived in the last millisecond
    yield stream, theirs
    theirs.close()
    ours.close()


def test_small_events_are_gathered(ends: tuple[DumpStream, socket.socket], naps: list[float]) -> None:
    stream, theirs = ends
    theirs.sendall(SMALL)
    assert stream.receive()
    assert len(naps) == 1


def test_receiving_a_large_event_does_not_pause(ends: tuple[DumpStream, socket.socket], naps: list[float]) -> None:
    """It comes in pieces, as large as TCP or TLS make them: 16 KiB with TLS."""
    stream, theirs = ends
    for begin in range(0, 3 * FEW_BYTES, FEW_BYTES // 4):
        theirs.sendall(LARGE[begin : begin + FEW_BYTES // 4])
        assert stream.receive()
    assert naps == []


def test_all_received_tls_records_are_returned_at_once(tmp_path: Path, naps: list[float]) -> None:
    """A receive from such a socket gives one record, of 16 KiB at most: no pause after each."""
    theirs, ours = encrypted(tmp_path)
    session: Any = Session(ours)
    stream = DumpStream(session, DumpRequest("mysql-bin.000001", 4, 7, "u"), Flavour.MYSQL)
    with theirs, ours:
        theirs.sendall(LARGE[: FEW_BYTES + 1])
        assert stream.receive()
    assert stream.buffer.end - stream.buffer.start == FEW_BYTES + 1
    assert naps == []


def encrypted(folder: Path) -> tuple[ssl.SSLSocket, ssl.SSLSocket]:
    """Both ends of a TLS connection: the server's, the client's."""
    pem = folder / "server.pem"
    how = "req -x509 -newkey rsa:2048 -nodes -subj /CN=x -keyout server.pem -out server.pem"
    subprocess.run(["openssl", *how.split()], cwd=folder, check=True, capture_output=True)
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(pem)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    one, other = socket.socketpair()
    with ThreadPoolExecutor(1) as pool:
        accepted = pool.submit(server.wrap_socket, one, server_side=True)
        connected = client.wrap_socket(other)
        connected.settimeout(1)
        return accepted.result(), connected


def test_the_missing_bytes_of_a_packet_are_counted() -> None:
    buffer = ReceiveBuffer()
    for given, missing in ((LARGE[:3], 0), (LARGE[3:10], len(LARGE) - 10), (LARGE[10:], 0)):
        buffer.free()[: len(given)] = given
        buffer.received(len(given))
        assert buffer.missing() == missing
