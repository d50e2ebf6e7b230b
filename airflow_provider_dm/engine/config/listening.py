"""The addresses of the task file at which a process of the task listens."""

from __future__ import annotations

import socket
from typing import Final

LOOPBACK: Final = "127.0.0.1"
LAST_PORT: Final = 65_535


def listen_address(text: str) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """Return the family and the address of HOST:PORT; an empty host is this machine's loopback interface.

    Raises ValueError for a port that does not exist.

    >>> listen_address(":8262")[1], listen_address("[::1]:8262")[1]
    (('127.0.0.1', 8262), ('::1', 8262))
    """
    host, _, port = text.rpartition(":")
    if int(port) > LAST_PORT:
        raise ValueError(f"its port has to be at most {LAST_PORT}")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    return family, (host.strip("[]") or LOOPBACK, int(port))
