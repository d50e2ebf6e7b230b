"""Ports of this machine on which no process listens."""

import random
import socket
from typing import Final

HOST: Final = "127.0.0.1"
# Below the range that the kernel hands out for outgoing connections: a port must still be ours after a restart.
PORTS: Final = range(20000, 32000)


def free_ports(count: int) -> list[int]:
    """Return distinct ports on which no process listens. All are bound until the last one is found."""
    held: list[socket.socket] = []
    try:
        for port in random.SystemRandom().sample(PORTS, len(PORTS)):
            if len(held) == count:
                break
            candidate = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                candidate.bind((HOST, port))
            except OSError:
                candidate.close()
            else:
                held.append(candidate)
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()
