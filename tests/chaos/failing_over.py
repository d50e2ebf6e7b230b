"""A source that fails over: a server and its replica by GTID behind one address, which is all that others know."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from testbed import Flavour, Server, ServerSpec
from tests.integration.relay.replicas import has_all_of, promote, replicate, replicated
from tests.integration.sync.failover import Address

OPTIONS: dict[Flavour, tuple[str, ...]] = {
    "mysql": ("--skip-replica-start",),
    "mariadb": ("--log-slave-updates=ON", "--skip-slave-start"),
}


def pair_of(flavour: Flavour, zone: str) -> list[ServerSpec]:
    """Describe the two servers of a source."""
    specs = replicated(f"{flavour}_source", f"{flavour}_replica", flavour, OPTIONS[flavour])
    return [replace(one, zone=zone) for one in specs]


@dataclass
class Pair:
    """The two servers. `at`: the one that is written to now, at the address."""

    now: Server
    other: Server
    address: Address = field(init=False)
    at: Server = field(init=False)
    kept: str = field(default="", init=False)
    """What the replica had when it took the place of the other: the other may have no more."""

    def __post_init__(self) -> None:
        replicate(self.now, self.other)
        self.address = Address(self.now)
        self.at = replace(self.now, port=self.address.port)

    def fail_over(self) -> None:
        """Kill the server by kill -9; its replica, which has applied everything, replaces it.

        No client may write meanwhile."""
        self.kept = has_all_of(self.now, self.other)
        self.now.kill()
        promote(self.other)
        self.now, self.other = self.other, self.now
        self.address.lead_to(self.now)

    def come_back(self) -> None:
        """Start the server that was killed, as the replica of the other."""
        self.other.start()
        if self.other.flavour == "mysql":
            more = self.other.sql("SELECT GTID_SUBTRACT(@@gtid_executed, %s)", [self.kept])
            assert more == [("",)], f"written behind: {more}, {self.other.sql('SHOW BINARY LOGS')}"
        replicate(self.now, self.other)


@dataclass
class Turns:
    """What writers hold, each its own, while they write a transaction."""

    _locks: list[threading.Lock] = field(default_factory=list)

    def one(self) -> threading.Lock:
        """Return a new writer's."""
        self._locks.append(threading.Lock())
        return self._locks[-1]

    @contextmanager
    def rest(self) -> Iterator[None]:
        """Stop all writers until the block ends."""
        with ExitStack() as stack:
            for one in self._locks:
                stack.enter_context(one)
            yield
