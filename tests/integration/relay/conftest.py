"""Relays as real processes on real servers, with a metadata DB of their own."""

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pymysql
import pytest

from airflow_provider_dm.engine.config.job import EndpointSpec
from airflow_provider_dm.engine.errors import ReportedError
from airflow_provider_dm.engine.meta.records import RelayStatus, Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.binlog_status import current_location
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.process import RelayProcess
from airflow_provider_dm.engine.relay.reader import RelayReader
from airflow_provider_dm.engine.relay.spec import RelaySpec
from testbed import Server
from tests.beside import beside
from tests.far_away import port_to
from tests.jobs import META_VARIABLE, endpoint, endpoint_spec, relay_spec, source_spec
from tests.waiting import wait_for

PASSWORD_VARIABLE = "DM_TEST_PASSWORD"
FINISH_SECONDS = 300
IMPATIENT = {"backoff-min": 0.2, "backoff-max": 5}
"""The pauses of a relay in a test, which loses its upstream often."""


@dataclass
class RelayKit:
    """Relays of one source into one directory. Everything started here is ended by the fixture."""

    server: Server
    folder: Path
    store: MetaStore
    meta_url: str
    first_file: str
    """The source's newest binlog file when the test began: earlier files, of other tests, are ignored."""
    source_id: str = "relayed"
    started: list[RelayProcess] = field(default_factory=list)

    @property
    def root(self) -> Path:
        return self.folder / "relay"

    @property
    def endpoint(self) -> EndpointSpec:
        return endpoint_spec(self.source_id, self.server, port=port_to(self.server))

    def spec(self, until: str = "stopped", endpoint: EndpointSpec | None = None, **config: object) -> RelaySpec:
        keys = {"relay_binlog_name": self.first_file, "checker": IMPATIENT, **config}
        return relay_spec(source_spec(self.source_id, endpoint or self.endpoint, self.root, **keys), until=until)

    def start(self, until: str = "stopped", endpoint: EndpointSpec | None = None, **config: object) -> RelayProcess:
        environment = {**os.environ, META_VARIABLE: self.meta_url, PASSWORD_VARIABLE: "secret"}
        process = RelayProcess.start(self.spec(until, endpoint, **config), environment, self.folder / "relay.log")
        self.started.append(process)
        return process

    def catch_up(self, endpoint: EndpointSpec | None = None, **config: object) -> None:
        """A relay that ends when it has everything."""
        process = self.start("caught-up", endpoint, **config)
        assert process.wait(FINISH_SECONDS) == 0, self.log()

    def fails_with(self, endpoint: EndpointSpec | None = None, **config: object) -> ReportedError:
        """The typed error of a relay that cannot work."""
        process = self.start("caught-up", endpoint, **config)
        assert process.wait(FINISH_SECONDS) == 2, self.log()
        error = process.error()
        assert error is not None
        return error

    def log(self) -> str:
        return (self.folder / "relay.log").read_text()

    def status(self) -> RelayStatus:
        status = self.store.relay_status(self.source_id)
        assert status is not None
        return status

    def has_caught_up(self) -> bool:
        status = self.store.relay_status(self.source_id)
        return status is not None and status.caught_up

    def needs(self, at: Location | None, task: str = "shop") -> None:
        """Record what a stopped task needs of the log."""
        self.store.put_subtask(task, self.source_id, unit=Unit.SYNC, stage=Stage.STOPPED, needed=at)

    def upstream(self) -> Location:
        with connected(endpoint("test", self.server)) as connection:
            return current_location(connection)

    def differences(self, *, torn: bool = False) -> list[str]:
        """Files that are not byte for byte what the server has on its disk. Empty is good.

        MariaDB adds a checkpoint event to a new file when it finds the time, maybe after the relay had caught up: a
        difference counts when it is there still after catching up once more. `torn`: the server died while it wrote, so
        that a file of its own, but not the newest, may continue after ours with a part of a transaction.
        """
        if self._differences(torn):
            self.catch_up()
        return self._differences(torn)

    def _differences(self, torn: bool) -> list[str]:
        """The bit "in use" in the format description of the server's open file means only that; the dump clears it."""
        files = RelayReader(self.root).files(Location(self.first_file, 4))
        assert files
        found = []
        for file in files:
            ours, theirs = Path(file.path).read_bytes(), bytearray((self.server.datadir / file.name).read_bytes())
            theirs[21] &= 0xFE
            if torn and file is not files[-1] and ours == theirs[: len(ours)]:
                continue
            if ours != theirs:
                found.append(f"{file.name}: {len(ours)} bytes here, {len(theirs)} there")
        return found


KitOf = Callable[[Server], RelayKit]


@pytest.fixture
def kit_of(tmp_path: Path, meta_url: str, store: MetaStore, forked_relays: None) -> Iterator[KitOf]:
    """`kit_of(server)`: relays of a server's whole log. All kits of a test share directory and metadata DB."""
    started: list[RelayProcess] = []
    yield lambda server: RelayKit(server, tmp_path, store, meta_url, "mysql-bin.000001", started=started)
    for process in started:
        if process.alive():
            process.kill()


@pytest.fixture
def kit(source: Server, kit_of: KitOf) -> RelayKit:
    """Make relays of a shared server, from its present file on."""
    source.sql("FLUSH BINARY LOGS")
    wait_for(lambda: is_settled(source))
    kit = kit_of(source)
    kit.first_file = kit.upstream().file
    return kit


def is_settled(server: Server) -> bool:
    """Return True if the newest binlog file grows by what clients do only.

    MariaDB begins a file with the oldest one that it needs, and adds at leisure that this is the file itself by now.
    """
    if server.flavour == "mysql":
        return True
    newest = server.sql("SHOW BINARY LOGS")[-1][0]
    events = server.sql(f"SHOW BINLOG EVENTS IN '{newest}'")
    return [info for _, _, kind, _, _, info in events if kind == "Binlog_checkpoint"][-1:] == [newest]


@contextmanager
def load_on(server: Server, schema: str, *, seed: int) -> Iterator[None]:
    """Small and large transactions, DDL and rotations, until the block ends; some hundred transactions a second."""
    server.sql(f"CREATE TABLE IF NOT EXISTS `{schema}`.t (id INT AUTO_INCREMENT PRIMARY KEY, v LONGBLOB)")

    def write(number: int, ended: threading.Event) -> None:
        chance = random.Random(seed * 100 + number)
        while not ended.is_set():
            try:
                with server.connect(database=schema, autocommit=False) as connection:
                    _write_some(connection, chance, ended)
            except pymysql.err.MySQLError:
                ended.wait(0.1)  # the test restarts the server

    with beside(partial(write, 0), partial(write, 1)):
        yield


def _write_some(
    connection: "pymysql.connections.Connection[pymysql.cursors.Cursor]", chance: random.Random, ended: threading.Event
) -> None:
    cursor = connection.cursor()
    while not ended.wait(0.003):
        for _ in range(chance.choice([1, 1, 1, 5, 50])):
            cursor.execute("INSERT INTO t (v) VALUES (REPEAT('x', %s))", (chance.choice([1, 50, 3000, 200_000]),))
        cursor.execute("DELETE FROM t WHERE id %% 7 = %s LIMIT 3", (chance.randrange(7),))
        connection.commit()
        match chance.randrange(60):
            case 0:
                cursor.execute("FLUSH BINARY LOGS")
            case 1:
                cursor.execute(f"CREATE TABLE IF NOT EXISTS t{chance.randrange(5)} (id INT)")
