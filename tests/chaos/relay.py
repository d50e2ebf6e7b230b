"""A relay under load that is killed and cut off again and again, and is compared with its upstream byte by byte.

It is done in chapters: each has a new relay directory, which is compared and thrown away at its end, so a run of
hundreds of kills needs no more disk than one of ten.
"""

import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.config.job import EndpointSpec
from airflow_provider_dm.engine.meta.records import Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.gtid import GtidSet
from airflow_provider_dm.engine.relay.process import RelayProcess
from testbed import Server
from tests.binlogs import kill_dumps
from tests.chaos.load import everything_on
from tests.chaos.proxy import Pipe, Proxy
from tests.integration.relay.conftest import RelayKit, load_on
from tests.metadata_db import new_meta_db
from tests.waiting import wait_for

FAULTS: Final = ("kill", "cut", "kill", "drop", "kill", "cut", "freeze", "kill", "drop", "cut")
"""kill -9 of the relay; a cut in the middle of a packet; KILL of the dump thread; a network that falls silent."""
CHAPTER: Final = 10
NOTICE_SECONDS: Final = 240
"""In this time a relay has to be back after anything but its own death; it is ten seconds, a connect and a pause."""


@dataclass
class Chapter:
    """Some faults on one relay directory."""

    kit: RelayKit
    proxy: Proxy
    chance: random.Random
    gtid: bool
    done: Counter[str] = field(default_factory=Counter)

    @property
    def endpoint(self) -> EndpointSpec:
        return self.kit.endpoint.model_copy(update={"port": self.proxy.port})

    def start(self) -> RelayProcess:
        return self.kit.start(endpoint=self.endpoint, enable_gtid=self.gtid)

    def run(self, faults: list[str]) -> None:
        """Do them all. Raises AssertionError when the relay ends by itself or does not come back."""
        relay = self.start()
        for fault in faults:
            time.sleep(self.chance.uniform(0.2, 1.8))
            if self.chance.random() < 0.3:
                for pipe in self._streams():
                    pipe.trouble = "trickle"
                time.sleep(self.chance.uniform(0, 0.5))
            if fault == "kill":
                relay.kill()
                relay = self.start()
            else:
                self._disturb(fault)
                assert relay.alive(), (relay.error(), self.kit.log())
            self.done[fault] += 1
        relay.kill()

    def _disturb(self, fault: str) -> None:
        """Strike, and wait until the stream that was struck is given up: a frozen one ends by the relay's doing."""
        found: list[Pipe] = []

        def is_one() -> bool:
            found[:] = self._streams()
            return len(found) == 1

        self._until(is_one, "no stream")
        (struck,) = found
        if fault == "drop":
            kill_dumps(self.kit.server)
        else:
            struck.trouble = fault
        self._until(struck.closed.is_set, f"{fault} was not noticed")

    def _streams(self) -> list[Pipe]:
        """Connections over which a binlog is pulled now. The relay has others too, and they may be encrypted."""
        rows = self.kit.server.sql("SELECT host FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'")
        ports = {int(host.rpartition(":")[2]) for (host,) in rows}
        return [pipe for pipe in self.proxy.open_pipes() if pipe.port in ports]

    def _until(self, condition: Callable[[], bool], otherwise: str) -> None:
        wait_for(condition, seconds=NOTICE_SECONDS, shows=lambda: (otherwise, self.kit.log()))

    def verify(self) -> None:
        """Catch up without disturbance: every byte, and the set of transactions, are the server's."""
        self.kit.catch_up(enable_gtid=self.gtid)
        assert self.kit.differences() == []
        assert_all_is_there(self.kit)


def assert_all_is_there(kit: RelayKit) -> None:
    """Assert that the status has the end of the server's log and all of its transactions."""
    upstream, status = kit.upstream(), kit.status()
    assert status.relay is not None
    assert (status.stage, status.caught_up, status.error) == (Stage.FINISHED, True, None), status
    here, end = (status.relay.file, status.relay.position), (upstream.file, upstream.position)
    assert here == end, (here, end)
    flavour = Flavour(kit.server.flavour)
    ours, theirs = GtidSet.parse(status.relay.gtid_set, flavour), GtidSet.parse(upstream.gtid_set, flavour)
    assert ours == theirs, (str(ours), str(theirs))


def torment(server: Server, *, schema: str, gtid: bool, faults: list[str], seed: int) -> Counter[str]:
    """All of `faults` on relays of this server, chapter after chapter; how many of each were done.

    `schema` exists. Raises AssertionError on the first chapter whose files are not the server's; its folder is kept.
    """
    done: Counter[str] = Counter()
    for number, begin in enumerate(range(0, len(faults), CHAPTER)):
        if number:  # what earlier chapters have compared
            server.sql(f"PURGE BINARY LOGS TO '{server.sql('SHOW BINARY LOGS')[-1][0]}'")
        folder = Path(tempfile.mkdtemp(prefix="dm-chaos-"))
        done += _chapter(server, schema, gtid, faults[begin : begin + CHAPTER], seed * 1000 + number, folder)
        shutil.rmtree(folder)
    return done


@contextmanager
def relays_of(server: Server, folder: Path) -> Iterator[RelayKit]:
    """Relays of this server from its current file on, into `folder`; all are ended with the block."""
    url = new_meta_db(folder)
    server.sql("FLUSH BINARY LOGS")
    with MetaStore.open(url) as store:
        kit = RelayKit(server, folder, store, url, "")
        kit.first_file = kit.upstream().file
        try:
            yield kit
        finally:
            for process in kit.started:
                if process.alive():
                    process.kill()


def _chapter(server: Server, schema: str, gtid: bool, faults: list[str], seed: int, folder: Path) -> Counter[str]:
    chance = random.Random(seed)
    with relays_of(server, folder) as kit, Proxy(server.host, server.port, chance) as proxy:
        chapter = Chapter(kit, proxy, chance, gtid)
        try:
            with everything_on(server, schema, seed=seed):
                chapter.run(faults[:-1])
                with load_on(server, schema, seed=seed):  # as fast as it writes, for the last one
                    chapter.run(faults[-1:])
            chapter.verify()
        except BaseException:
            print(f"chaos with seed {seed} failed; relay directory and log are kept in {folder}")
            raise
        return chapter.done
