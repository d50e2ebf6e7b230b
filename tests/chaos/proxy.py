"""A bad network between the product and a server: a TCP proxy that cuts, freezes or slows down connections on request.

With `delay_seconds` it delays everything that the server sends, at full throughput.
"""

from __future__ import annotations

import queue
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final

PIECE: Final = 1 << 16
IN_FLIGHT: Final = 128
"""Pieces that can be on the way at a time: 8 MiB."""


@dataclass(eq=False)
class Pipe:
    """One connection through the proxy. What the server sends goes through `_down`, where the trouble is made."""

    client: socket.socket
    server: socket.socket
    chance: random.Random
    delay_seconds: float = 0.0
    closed: threading.Event = field(default_factory=threading.Event)
    trouble: str = ""
    """`cut`, `freeze` or `trickle`: what happens to the next bytes from the server."""

    @property
    def port(self) -> int:
        """Return our port as the server sees it."""
        port: int = self.server.getsockname()[1]
        return port

    def start(self) -> None:
        for work in (self._up, self._down):
            threading.Thread(target=work, daemon=True).start()

    def _up(self) -> None:
        with suppress(OSError):
            while data := self.client.recv(PIECE):
                self.server.sendall(data)
        self.close()

    def _arriving(self) -> Iterator[bytes]:
        """Yield what the server sends, each piece when its time has come."""
        if not self.delay_seconds:
            while data := self.server.recv(PIECE):
                yield data
            return
        on_the_way: queue.Queue[tuple[float, bytes]] = queue.Queue(IN_FLIGHT)

        def send_off() -> None:
            data = b" "
            while data:
                try:
                    data = self.server.recv(PIECE)
                except OSError:
                    data = b""
                on_the_way.put((time.monotonic() + self.delay_seconds, data))

        threading.Thread(target=send_off, daemon=True).start()
        while True:
            due, data = on_the_way.get()
            time.sleep(max(0.0, due - time.monotonic()))
            if not data:
                return
            yield data

    def _down(self) -> None:
        with suppress(OSError):
            for data in self._arriving():
                match self.trouble:
                    case "cut":
                        self.client.sendall(data[: self.chance.randrange(len(data))])
                        break
                    case "freeze":  # neither bytes nor an end: the peer has to notice the silence
                        self.closed.wait()
                    case "trickle":
                        self._trickle(data)
                    case _:
                        self.client.sendall(data)
        self.close()

    def _trickle(self, data: bytes) -> None:
        """A few bytes at a time; packets' heads come in parts too."""
        rest = memoryview(data)
        for _ in range(200):
            count = self.chance.randint(1, 30)
            self.client.sendall(rest[:count])
            rest = rest[count:]
            time.sleep(0.002)
        self.client.sendall(rest)
        if self.trouble == "trickle":  # it is over; not so what came since
            self.trouble = ""

    def close(self) -> None:
        self.closed.set()
        for one in (self.client, self.server):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


class Proxy:
    """Listens on a port of its own until the block ends."""

    def __init__(self, host: str, port: int, chance: random.Random, *, delay_seconds: float = 0.0) -> None:
        self._target, self._chance, self._delay_seconds = (host, port), chance, delay_seconds
        self._pipes: list[Pipe] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._listener.close()
        for pipe in self._pipes:
            pipe.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _address = self._listener.accept()
                try:
                    server = socket.create_connection(self._target, timeout=10)
                except OSError:  # the server is dead for the moment
                    client.close()
                    continue
                server.settimeout(None)
                pipe = Pipe(client, server, self._chance, self._delay_seconds)
                self._pipes.append(pipe)
                pipe.start()

    def open_pipes(self) -> list[Pipe]:
        return [pipe for pipe in self._pipes if not pipe.closed.is_set()]
