"""What a relay says of itself, and what it is told: one thread beside the pull loop.

Every two seconds it asks the upstream where it stands, tells the metadata DB, and reads the desired stage. A metadata
DB or an upstream that does not answer is logged and asked again; pulling goes on meanwhile.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from dataclasses import dataclass, field, replace
from typing import Final

import pymysql

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.model import Json, RelayStatus, Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.binlog_status import current_location
from airflow_provider_dm.engine.mysql.connection import Connection, connect
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.location import Location, reached

log = logging.getLogger(__name__)

REPORT_SECONDS: Final = 2.0


@dataclass(frozen=True)
class Snapshot:
    """What the pull loop last published; replaced as a whole, so that reading needs no lock."""

    stage: Stage
    relay: Location | None = None
    sub_dir: str = ""
    error: Json | None = None


@dataclass
class Reporter:
    """Start it with `with`. `snapshot` is written by the pull loop, `desired` is read by it."""

    source: str
    endpoint: Endpoint
    store: MetaStore
    snapshot: Snapshot = field(default_factory=lambda: Snapshot(Stage.NEW))
    desired: Stage | None = None
    _master: Location | None = None
    _upstream: Connection | None = None
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Reporter:
        self._read_desired()
        self._thread = threading.Thread(target=self._loop, name="relay-status", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self._put()
        self._hang_up()

    def publish(
        self, stage: Stage, relay: Location | None = None, sub_dir: str = "", error: Json | None = None
    ) -> None:
        """Replace the snapshot; what is not given stays."""
        last = self.snapshot
        self.snapshot = Snapshot(stage, relay or last.relay, sub_dir or last.sub_dir, error)

    def _loop(self) -> None:
        while not self._ended.wait(REPORT_SECONDS if self.snapshot.relay else 0.2):
            self._ask_master()
            self._put()
            self._read_desired()

    def _ask_master(self) -> None:
        try:
            if self._upstream is None:
                self._upstream = connect(self.endpoint, read_timeout=REPORT_SECONDS * 5)
            self._master = current_location(self._upstream)
        except (DmError, pymysql.err.MySQLError, OSError) as error:
            log.debug("the upstream's position is not known now: %s", error)
            self._hang_up()

    def _hang_up(self) -> None:
        if self._upstream is not None and self._upstream.open:
            self._upstream.close()
        self._upstream = None

    def _put(self) -> None:
        now = self.snapshot
        master = self._master and now.relay and replace(self._master, suffix=now.relay.suffix)
        status = RelayStatus(
            source=self.source,
            stage=now.stage,
            master=master or self._master,
            relay=now.relay,
            sub_dir=now.sub_dir,
            caught_up=bool(now.relay and master and reached(now.relay, master)),
            error=now.error,
            pid=os.getpid(),
            host=socket.gethostname(),
        )
        try:
            self.store.put_relay_status(status)
        except DmError as error:
            log.warning("the metadata DB could not be told: %s", error)

    def _read_desired(self) -> None:
        try:
            self.desired = self.store.relay_desired(self.source)
        except DmError as error:
            log.warning("the metadata DB could not be asked: %s", error)
