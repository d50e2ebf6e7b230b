"""What a relay says of itself, and what it is told: beside the pull loop.

Every second one thread tells the metadata DB how things stand and reads the desired stage, and another one asks the
upstream where it ends: an upstream that takes its time with an answer, or gives none, must not make the relay look dead
or deaf. What does not answer is logged and asked again; pulling goes on meanwhile.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from dataclasses import dataclass, field, replace

import pymysql

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.model import Json, RelayStatus, Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.binlog_status import current_location
from airflow_provider_dm.engine.mysql.connection import Connection, connect, server_info
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.location import Location, reached
from airflow_provider_dm.engine.relay.health import FRESH_SECONDS, REPORT_SECONDS, age_of

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Snapshot:
    """The state that the pull loop last published; replaced as a whole, so that reading needs no lock."""

    stage: Stage
    relay: Location | None = None
    sub_dir: str = ""
    error: Json | None = None


@dataclass
class Reporter:
    """A relay's reporter; start it with `with`. `snapshot` is written by the pull loop, `desired` is read by it."""

    source: str
    endpoint: Endpoint
    store: MetaStore
    silent: bool = False
    """Nothing is reported, no wish is obeyed: the source has a relay of its own."""
    private: bool = False
    """The relay of one task: it reports while the source has no other, and obeys no wish for the source's relay."""
    snapshot: Snapshot = field(default_factory=lambda: Snapshot(Stage.NEW))
    desired: Stage | None = None
    _master: Location | None = None
    _master_uuid: str = ""
    _upstream: Connection | None = None
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Reporter:
        if self.silent:
            return self
        self._read_desired()
        self._thread = threading.Thread(target=self._report, name="relay-status", daemon=True)
        self._thread.start()
        threading.Thread(target=self._watch_upstream, name="relay-upstream", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Report the end, and do not wait for the upstream's answer."""
        if self._thread is None:
            return
        self._ended.set()
        self._thread.join()
        self._put(pid=None)  # what it said last is final: nobody is left to change it

    def publish(
        self, stage: Stage, relay: Location | None = None, sub_dir: str = "", error: Json | None = None
    ) -> None:
        """Replace the snapshot; what is not given stays."""
        last = self.snapshot
        self.snapshot = Snapshot(stage, relay or last.relay, sub_dir or last.sub_dir, error)

    def saw_master(self, end: Location, server_uuid: str) -> None:
        """Note where the upstream ends, where it is known: a relay may be through before this thread has asked."""
        self._master, self._master_uuid = end, server_uuid

    def _report(self) -> None:
        while not self._ended.wait(self._pause()):
            self._put(pid=os.getpid())
            self._read_desired()

    def _watch_upstream(self) -> None:
        while not self._ended.is_set():
            self._ask_master()
            self._ended.wait(self._pause())
        self._hang_up()

    def _pause(self) -> float:
        return REPORT_SECONDS if self.snapshot.relay else 0.2

    def _ask_master(self) -> None:
        try:
            if self._upstream is None:
                self._upstream = connect(self.endpoint, read_timeout=REPORT_SECONDS * 5)
            server_uuid = server_info(self._upstream).server_uuid
            self.saw_master(current_location(self._upstream), server_uuid)
        except (DmError, pymysql.err.MySQLError, OSError) as error:
            log.debug("the upstream's position is not known now: %s", error)
            self._hang_up()

    def _hang_up(self) -> None:
        if self._upstream is not None and self._upstream.open:
            self._upstream.close()
        self._upstream = None

    def _put(self, pid: int | None) -> None:
        now = self.snapshot
        # Positions compare inside one server's log only. After a failover the relay has to come to the new one first.
        followed = now.relay is not None and now.sub_dir.rpartition(".")[0] == self._master_uuid
        master = replace(self._master, suffix=now.relay.suffix) if self._master and now.relay else self._master
        there = followed and now.error is None  # else what it had come to may long be behind: it does not pull
        status = RelayStatus(
            source=self.source,
            stage=now.stage,
            master=master,
            relay=now.relay,
            sub_dir=now.sub_dir,
            caught_up=bool(there and now.relay and master and reached(now.relay, master)),
            error=now.error,
            pid=pid,
            host=socket.gethostname(),
        )
        try:
            if not self.private or self._is_alone():
                self.store.put_relay_status(status)
        except DmError as error:
            log.warning("the metadata DB could not be told: %s", error)

    def _is_alone(self) -> bool:
        other = self.store.relay_status(self.source)
        if other is None or other.pid is None or (other.pid, other.host) == (os.getpid(), socket.gethostname()):
            return True
        return age_of(other) > FRESH_SECONDS

    def _read_desired(self) -> None:
        if self.private:
            return
        try:
            self.desired = self.store.relay_desired(self.source)
        except DmError as error:
            log.warning("the metadata DB could not be asked: %s", error)
