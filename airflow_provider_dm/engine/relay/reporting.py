"""The relay's reports and the stage that users request, exchanged with the metadata DB while the log is pulled.

Every second one thread writes the relay's status to the metadata DB and reads the desired stage; another one queries
the end of the upstream's log: a slow upstream must not make the relay appear dead, or delay its reaction. Failures are
logged, and the query is repeated; pulling continues meanwhile.

A source has one row, which one relay writes. Another relay of the source, in another directory or on another machine,
ends with RelayRunsElsewhere while the first one reports. After a relay was killed, its successor waits until the row is
old. The relay of a single task gives way to any other relay, and does not report then.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pymysql

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.records import Json, RelayStatus, Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.binlog_status import current_location
from airflow_provider_dm.engine.mysql.connection import Connection, connect, server_info
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.location import Location, reached
from airflow_provider_dm.engine.processes import has_ended, is_of_this_machine, this_process
from airflow_provider_dm.engine.relay.errors import RelayRunsElsewhere
from airflow_provider_dm.engine.relay.health import FRESH_SECONDS, REPORT_SECONDS, age_of, is_alive

log = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.2


@dataclass(frozen=True)
class RelaySnapshot:
    """The state that the pull loop last published; replaced as a whole, so that reading needs no lock."""

    stage: Stage
    relay: Location | None = None
    sub_dir: str = ""
    error: Json | None = None


@dataclass
class Reporter:
    """A relay's reporter, a context manager. The pull loop writes `snapshot` and reads `desired`.

    `directory`: the folder into which the relay writes. `stop`: ends the wait for another relay's end.
    """

    source: str
    endpoint: Endpoint
    store: MetaStore
    directory: Path
    stop: threading.Event = field(default_factory=threading.Event)
    task: str = ""
    """The only task that the relay serves. Such a relay reports only while the source has no other relay, and does not
    obey the stage that users request for the source's relay."""
    silent: bool = False
    """Do not report and do not obey: the source has a relay of its own."""
    snapshot: RelaySnapshot = field(default_factory=lambda: RelaySnapshot(Stage.NEW))
    desired: Stage | None = None
    _first_seen: RelayStatus | None = None
    """The first of consecutive reports of another relay; `_last_seen` is the last one."""
    _last_seen: RelayStatus | None = None
    _master: Location | None = None
    _master_uuid: str = ""
    _upstream: Connection | None = None
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Reporter:
        """Begin to report. Raises RelayRunsElsewhere."""
        if self.silent:
            return self
        while not self.task and self._other() is not None and not self.stop.wait(_POLL_SECONDS):
            self.check_is_only_relay()
        self._read_desired()
        self._thread = threading.Thread(target=self._report, name="relay-status", daemon=True)
        self._thread.start()
        threading.Thread(target=self._watch_upstream, name="relay-upstream", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Report the end, without waiting for the upstream's answer."""
        if self._thread is None:
            return
        self._ended.set()
        self._thread.join()
        self._put(pid=None)  # the final report: no thread changes it any more

    def publish(
        self, stage: Stage, relay: Location | None = None, sub_dir: str = "", error: Json | None = None
    ) -> None:
        """Replace the snapshot; omitted values are kept."""
        last = self.snapshot
        self.snapshot = RelaySnapshot(stage, relay or last.relay, sub_dir or last.sub_dir, error)

    def check_is_only_relay(self) -> None:
        """Raise RelayRunsElsewhere if another relay of the source reports at the same time."""
        first, other = self._first_seen, self._last_seen
        if first is not None and other is not None and first.heartbeat_at != other.heartbeat_at:
            raise RelayRunsElsewhere(self.source, other.directory, other.host, other.pid or 0)

    def record_upstream_end(self, end: Location, server_uuid: str) -> None:
        """Record the known end of the upstream's log: the relay may catch up before the thread has queried the
        upstream."""
        self._master, self._master_uuid = end, server_uuid

    def _report(self) -> None:
        while not self._ended.wait(self._pause()):
            self._put(pid=os.getpid())
            self._read_desired()

    def _watch_upstream(self) -> None:
        while not self._ended.is_set():
            self._query_upstream_end()
            self._ended.wait(self._pause())
        self._disconnect()

    def _pause(self) -> float:
        return REPORT_SECONDS if self.snapshot.relay else 0.2

    def _query_upstream_end(self) -> None:
        try:
            if self._upstream is None:
                self._upstream = connect(self.endpoint, read_timeout=REPORT_SECONDS * 5)
            server_uuid = server_info(self._upstream).server_uuid
            self.record_upstream_end(current_location(self._upstream), server_uuid)
        except (DmError, pymysql.err.MySQLError, OSError) as error:
            log.debug("the upstream's position is unknown: %s", error)
            self._disconnect()

    def _disconnect(self) -> None:
        if self._upstream is not None and self._upstream.open:
            self._upstream.close()
        self._upstream = None

    def _put(self, pid: int | None) -> None:
        now = self.snapshot
        # Positions compare within one server's log only. After a failover the relay must first follow the new server.
        followed = now.relay is not None and now.sub_dir.rpartition(".")[0] == self._master_uuid
        master = replace(self._master, suffix=now.relay.suffix) if self._master and now.relay else self._master
        pulls = followed and now.error is None  # with an error it does not pull, and may be behind
        status = RelayStatus(
            source=self.source,
            stage=now.stage,
            master=master,
            relay=now.relay,
            sub_dir=now.sub_dir,
            caught_up=bool(pulls and now.relay and master and reached(now.relay, master)),
            error=now.error,
            pid=pid,
            host=socket.gethostname(),
            process=this_process(),
            directory=str(self.directory),
            task=self.task,
        )
        try:
            if self._other() is None:
                self.store.put_relay_status(status)
        except DmError as error:
            log.warning("the relay's status could not be written to the metadata DB: %s", error)

    def _other(self) -> RelayStatus | None:
        """Return the report of another relay to which this one gives way; None if there is none."""
        other = self.store.relay_status(self.source)
        if other is None or not self._gives_way_to(other):
            self._first_seen = self._last_seen = None
            return None
        if not self.task:
            self._first_seen, self._last_seen = self._first_seen or other, other
        return other

    def _gives_way_to(self, other: RelayStatus) -> bool:
        same_directory = other.directory == str(self.directory)
        if other.pid is None or (same_directory and (other.process, other.pid) == (this_process(), os.getpid())):
            return False
        if self.task:
            return age_of(other) <= FRESH_SECONDS
        if other.task or not is_alive(other) or has_ended(other.process):
            return False
        return not (same_directory and is_of_this_machine(other.process))  # same directory: we hold its lock

    def _read_desired(self) -> None:
        if self.task:
            return
        try:
            self.desired = self.store.relay_desired(self.source)
        except DmError as error:
            log.warning("the desired stage could not be read from the metadata DB: %s", error)
