"""One source behind a stable address: a server and its replica by GTID, and a sync that does not know of the two."""

import json
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import pymysql
from pymysql.constants import ER

from airflow_provider_dm.engine.config.job import EndpointSpec, SourceSpec
from airflow_provider_dm.engine.mysql.connection import connected, server_info
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.directory import RelayDirectory
from airflow_provider_dm.engine.relay.reader import RelayReader
from testbed import Server
from tests.far_away import port_to
from tests.integration.sync.conftest import SOURCE_ID, SyncKit, random_transactions, rows_of
from tests.jobs import endpoint_spec
from tests.waiting import wait_for


@dataclass
class Address:
    """A TCP address that leads to one server or another, or nowhere."""

    server: Server | None
    _listener: socket.socket = field(init=False)
    _open: set[socket.socket] = field(default_factory=set, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def lead_to(self, server: Server | None) -> None:
        """New connections go there; those that are open end."""
        with self._lock:
            self.server = server
            for one in self._open:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            self._open.clear()

    def close(self) -> None:
        self.lead_to(None)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                ours, _ = self._listener.accept()
                with self._lock, suppress(OSError):
                    if self.server is None:
                        ours.close()
                        continue
                    try:
                        theirs = socket.create_connection((self.server.host, port_to(self.server)))
                    except OSError:
                        ours.close()
                        continue
                    self._open |= {ours, theirs}
                    threading.Thread(target=self._carry, args=(ours, theirs), daemon=True).start()

    def _carry(self, ours: socket.socket, theirs: socket.socket) -> None:
        """Carry bytes both ways until the connection ends, and close it: there may be thousands."""
        back = threading.Thread(target=_pump, args=(theirs, ours), daemon=True)
        back.start()
        _pump(ours, theirs)
        back.join()
        with self._lock:
            self._open -= {ours, theirs}
        for one in (ours, theirs):
            one.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


@dataclass
class FailoverKit(SyncKit):
    """`source` is the server that is written to now; relay and sync only know the address."""

    address: Address = field(default_factory=lambda: Address(None))
    first: str = ""

    def close(self) -> None:
        super().close()
        self.address.close()

    def endpoint(self, server: Server, name: str) -> EndpointSpec:
        return endpoint_spec(name, server, port=self.address.port if name == SOURCE_ID else 0)

    def source_spec(self) -> SourceSpec:
        self.source_keys = {"enable_gtid": True, "relay_binlog_name": self.first}
        return super().source_spec()

    @property
    def first_file(self) -> str:
        self.first = self.first or self.source.sql("SHOW BINARY LOGS")[0][0]
        return self.first

    def sub_dirs(self) -> list[str]:
        return [str(one) for one in RelayDirectory(self.folder / "relay").sub_dirs()]

    def fail_over_to(self, replica: Server) -> None:
        """The replica becomes the server that is written to, and the address leads there."""
        replica.sql("STOP REPLICA" if replica.flavour == "mysql" else "STOP SLAVE")
        self.source = replica
        self.address.lead_to(replica)

    def server_uuid(self) -> str:
        with connected(self.endpoint(self.source, SOURCE_ID).resolve()) as connection:
            return server_info(connection).server_uuid

    def stop_relays(self) -> None:
        for relay in self.relays:
            relay.kill()
        self.relays.clear()

    def catch_up_relay(self) -> None:
        """Wait until the relay has what the server has."""
        self.pull()
        where = self.upstream()

        def held() -> bool:
            reader = RelayReader(self.folder / "relay")
            suffix = reader.suffix_now(self.server_uuid())
            files = reader.files(Location(where.file, 4, suffix=suffix)) if suffix is not None else []
            return bool(files) and files[0].size >= where.position

        wait_for(held, shows=self.sub_dirs)

    def relay_error(self) -> str | None:
        status = self.store.relay_status(SOURCE_ID)
        return None if status is None or status.error is None else str(status.error.get("ErrCode"))

    def forget_location(self, noted: Location) -> None:
        """Forget it, as a death would that comes before the location is noted."""
        self.target.sql(f"UPDATE `{self.meta_schema}`.dm_subtask SET location = %s", [json.dumps(noted.to_json())])

    def positions(self) -> list[str]:
        """The positions of all buckets."""
        return [str(one) for (one,) in self.target.sql(f"SELECT position FROM `{self.meta_schema}`.dm_frontier")]

    def digest(self) -> dict[str, list[tuple[object, ...]]]:
        """All rows of the target."""
        return {name: rows_of(self.target, self.schema, name) for name in self.tables}

    def work(self, transactions: int, *, seed: int) -> None:
        """Random transactions, some of which may fail because of other clients."""
        chance = random.Random(seed)
        for _ in range(transactions):
            try:
                random_transactions(self, chance.randrange(1 << 30), 1)
            except pymysql.err.OperationalError as error:
                if error.args[0] not in (ER.LOCK_DEADLOCK, ER.LOCK_WAIT_TIMEOUT):
                    raise

    @contextmanager
    def load(self, *, seed: int) -> Iterator[None]:
        """Random transactions on the server that is written to now, until the block ends or the server does."""
        ended = threading.Event()

        def work() -> None:
            chance = random.Random(seed)
            with suppress(pymysql.err.MySQLError):
                while not ended.is_set():
                    self.work(5, seed=chance.randrange(1 << 30))

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(180)


def executed(server: Server) -> str:
    variable = "@@gtid_executed" if server.flavour == "mysql" else "@@gtid_binlog_pos"
    return str(server.sql(f"SELECT {variable}")[0][0]).replace("\n", "")
