"""Whatever answers at a server's address, what comes of it is an error with a name."""

import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from random import Random

import pytest

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql import connection
from airflow_provider_dm.engine.mysql.connection import connect
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret
from airflow_provider_dm.engine.mysql.errors import ServerUnreachable

CAPABILITIES = 1 | 1 << 9 | 1 << 15 | 1 << 19
OK = b"\0\0\0\2\0\0\0"


def greeting(version: bytes = b"8.0.36") -> bytes:
    low, high = struct.pack("<H", CAPABILITIES & 0xFFFF), struct.pack("<H", CAPABILITIES >> 16)
    salts = b"a" * 8 + b"\0", b"\x15" + bytes(10) + b"b" * 12 + b"\0"
    head = b"\x0a" + version + b"\0" + struct.pack("<I", 7) + salts[0]
    return head + low + b"\x2d\x02\0" + high + salts[1] + b"mysql_native_password\0"


def packet(number: int, body: bytes | bytearray) -> bytes:
    return len(body).to_bytes(3, "little") + bytes([number]) + body


@contextmanager
def answering(first: bytes, then: Sequence[bytes] = ()) -> Iterator[Endpoint]:
    """A server that sends `first` to each client, and one of `then` as the answer to each packet."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError), listener.accept()[0] as client:
                client.settimeout(5)
                client.sendall(first)
                for answer in then:
                    client.recv(4096)
                    client.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        host, port = listener.getsockname()
        yield Endpoint("s", host, port, "user", Secret("password"))
        thread.join()


@pytest.mark.parametrize(
    "first", [b"SSH-2.0-OpenSSH_9.2p1\r\n", packet(0, greeting(b"proxy")), packet(0, greeting(b"")), packet(0, b"\x0a")]
)
def test_an_answer_that_is_not_mysqls_is_reported(first: bytes) -> None:
    with answering(first) as endpoint, pytest.raises(ServerUnreachable, match="does not speak MySQL's protocol"):
        connect(endpoint)


@pytest.mark.parametrize("first", [b"", packet(0, greeting())])
def test_a_silent_server_is_not_awaited(first: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frozen server; or a port where a server of another kind waits for its client to begin."""
    monkeypatch.setattr(connection, "LOGIN_TIMEOUT_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        if first:
            threading.Thread(target=lambda: listener.accept()[0].sendall(first)).start()
        with pytest.raises(ServerUnreachable, match="Check host, port"):
            connect(Endpoint("s", host, port, "user", Secret("password")))


@pytest.mark.parametrize("seed", range(150))
def test_damaged_answers(seed: int) -> None:
    dice = Random(seed)
    answers = [bytearray(greeting()), bytearray(OK), bytearray(OK)]
    damaged = dice.choice(answers)
    for _ in range(dice.randint(1, 3)):
        damaged[dice.randrange(len(damaged))] = dice.randrange(256)
    if dice.random() < 0.3:
        del damaged[dice.randrange(len(damaged)) :]
    first, login, session = answers
    with answering(packet(0, first), [packet(2, login), packet(1, session)]) as endpoint:
        with suppress(DmError):  # anything else fails the test
            connect(endpoint, read_timeout=2).close()
