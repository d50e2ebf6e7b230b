"""Sources that are far away: with DM_TEST_DELAY_MS=150 everything that they send to the product comes so much later.

    DM_TEST_DELAY_MS=150 pytest tests/integration/relay tests/integration/sync

runs those tests over such a network. A few of them always do, by the fixture `far_away`. Only the product is delayed:
what a test itself asks a server goes straight there.
"""

import os
import random
from typing import Final

from testbed import Server
from tests.chaos.proxy import Proxy

VARIABLE: Final = "DM_TEST_DELAY_MS"
USUAL_MS: Final = 150

_proxies: dict[tuple[str, int, int], Proxy] = {}
"""The proxies by host, port and delay, until the session ends: a server may come back at the same place."""


def port_to(server: Server) -> int:
    """Return the port at which the product finds this server."""
    delay = int(os.environ.get(VARIABLE) or 0)
    if not delay:
        return server.port
    key = (server.host, server.port, delay)
    if key not in _proxies:
        proxy = Proxy(server.host, server.port, random.Random(0), delay_seconds=delay / 1000)
        _proxies[key] = proxy.__enter__()
    return _proxies[key].port
