"""One source's relay, from start to stop: recover, connect, pull, report, connect again.

Step 1: hold the directory's lock. Step 2: connect, and learn who answers. Step 3: go on with what is held (cut back to
a transaction boundary) or begin a first file. Step 4: pull until told to stop. What may pass by itself (a lost
connection, an upstream that restarts) leads back to step 2 after a pause that grows and jitters; anything else ends
the relay with its error. It may be killed at any moment: nothing in memory is worth more than the files.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pymysql

from airflow_provider_dm.engine.errors import DmError, Reaction, describe
from airflow_provider_dm.engine.meta.model import Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.binlog_status import BinlogSize, current_location, list_binlogs
from airflow_provider_dm.engine.mysql.connection import Connection, ServerInfo, connected, server_info
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.location import Location, reached
from airflow_provider_dm.engine.relay import start
from airflow_provider_dm.engine.relay.directory import RelayDirectory
from airflow_provider_dm.engine.relay.lock import sole_writer
from airflow_provider_dm.engine.relay.protocol import (
    HEARTBEAT_SECONDS,
    DumpRefused,
    DumpRequest,
    StreamLost,
    open_dump,
)
from airflow_provider_dm.engine.relay.pull import Puller
from airflow_provider_dm.engine.relay.reporting import Reporter
from airflow_provider_dm.engine.relay.spec import RelaySpec
from airflow_provider_dm.engine.relay.writer import RelayWriter

log = logging.getLogger(__name__)

FIRST_CONNECT_ATTEMPTS: Final = 4
"""An upstream that never answered is a mistake in the configuration; one that did will be back."""

SAVE_SECONDS: Final = 10.0
PUBLISH_SECONDS: Final = 0.5
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 30.0
_FIRST_SERVER_ID: Final = 429496729  # a tenth of the ids there are, as DM picks them


@dataclass(frozen=True)
class RelayResult:
    """How a relay ended without an error."""

    stage: Stage
    """Finished: caught up as asked; Stopped: told to stop."""
    location: Location | None
    sub_dir: str


def run_relay(
    spec: RelaySpec, store: MetaStore, stop: threading.Event, environ: Mapping[str, str] = os.environ
) -> RelayResult:
    """Pull until `stop` is set, the desired stage is Stopped, or (`until: caught-up`) the goal is reached.

    Raises RelayLocked, RelayDirectoryUnusable, ServerUnreachable (never answered), AccessDenied, BinlogDisabled,
    BinlogPurged, UpstreamSwitched, UpstreamLostTail, RelayDiskFull, RelayDiskFailed and other DmErrors; the error is in
    the relay's row of the metadata DB then, with stage Paused.
    """
    directory = RelayDirectory(Path(spec.source.relay_dir))
    directory.prepare()
    endpoint = spec.source.endpoint.resolve(environ)
    with sole_writer(directory.root), Reporter(spec.source.config.source_id, endpoint, store) as reporter:
        service = _Service(spec, store, stop, directory, endpoint, reporter)
        try:
            return service.run()
        except Exception as error:
            reporter.publish(Stage.PAUSED, error=describe(error))
            raise


def pause_seconds(attempt: int) -> float:
    """Before attempt 1, 2, …: doubling up to half a minute, half of it at random."""
    longest = min(_FIRST_PAUSE_SECONDS * 2.0 ** min(attempt - 1, 16), _LONGEST_PAUSE_SECONDS)
    return longest * random.uniform(0.5, 1.0)  # not for secrets


@dataclass
class _Service:
    spec: RelaySpec
    store: MetaStore
    stop: threading.Event
    directory: RelayDirectory
    endpoint: Endpoint
    reporter: Reporter
    writer: RelayWriter | None = None
    goal: Location | None = None
    connected_once: bool = False
    failures: int = 0
    replica_uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    _publish_at: float = 0.0
    _save_at: float = 0.0

    def run(self) -> RelayResult:
        try:
            while not self._over():
                if self.reporter.desired is Stage.PAUSED:
                    self.reporter.publish(Stage.PAUSED)
                    self.stop.wait(0.5)
                    continue
                self._session_or_pause()
        finally:
            if self.writer is not None:
                self.writer.close()
        return self._result()

    def _session_or_pause(self) -> None:
        try:
            self._session()
        except (DmError, pymysql.err.MySQLError) as caught:
            error = caught if isinstance(caught, DmError) else StreamLost(str(caught))
            self.failures += 1
            never = not self.connected_once and self.failures >= FIRST_CONNECT_ATTEMPTS
            if error.reaction is not Reaction.RETRY or never:
                raise error from caught
            pause = pause_seconds(self.failures)
            log.warning("%s Next attempt in %.1f s.", error, pause)
            self.reporter.publish(Stage.RUNNING, error=describe(error))
            self.stop.wait(pause)

    def _session(self) -> None:
        """One connection, until it is lost or the relay is over."""
        with connected(self.endpoint, read_timeout=4 * HEARTBEAT_SECONDS) as connection:
            info, writer = self._prepare(connection)
            request = DumpRequest(str(writer.file), start.resume_position(writer), self._server_id(), self.replica_uuid)
            log.info("pulling %s from %d", request.file, request.position)
            puller = Puller(open_dump(connection, info.flavour, request), writer, cursor=request.position)
            puller.run(self._tick)

    def _prepare(self, connection: Connection) -> tuple[ServerInfo, RelayWriter]:
        """Who answers, and the writer that goes on with its log."""
        try:
            info = server_info(connection)
            start.refuse_unsupported(self.spec.source.config, info.flavour)
            binlogs = list_binlogs(connection)
            writer = self._writer_for(info, binlogs)
            start.check_available(writer.file, writer.size, binlogs)
            self.goal = self.goal or current_location(connection)
        except RuntimeError as error:  # how PyMySQL answers a server that asks for a client's file
            raise DumpRefused(0, str(error)) from error
        self.connected_once = True
        return info, writer

    def _writer_for(self, info: ServerInfo, binlogs: Sequence[BinlogSize]) -> RelayWriter:
        if self.writer is not None and self.writer.sub_dir.server_uuid != info.server_uuid:
            raise start.UpstreamSwitched(self.writer.sub_dir.server_uuid, info.server_uuid)
        if self.writer is None:
            self.writer = start.held_writer(self.directory, info)
            self.directory.repair_index()
        if self.writer is None:
            source = self.spec.source.config
            file = start.first_file(source, self.store.oldest_needed(source.source_id), binlogs)
            start.check_available(file, 0, binlogs)  # before a sub-directory is made for it
            self.writer = start.fresh_writer(self.directory, info, file)
        return self.writer

    def _server_id(self) -> int:
        """Configured, or a new one for every connection: the upstream may not have noticed yet that the last died."""
        return self.spec.source.config.server_id or _FIRST_SERVER_ID + random.randrange(100_000)

    def _tick(self) -> bool:
        """Whether to pull on; publishes and saves when their time has come."""
        now = time.monotonic()
        if now < self._publish_at:
            return not self.stop.is_set()
        assert self.writer is not None  # a session is running
        self.failures, self._publish_at = 0, now + PUBLISH_SECONDS
        if now >= self._save_at:
            here, self._save_at = self.writer.save(), now + SAVE_SECONDS
        else:
            here = self.writer.location()
        self.reporter.publish(Stage.RUNNING, here, str(self.writer.sub_dir))
        return not self._over() and self.reporter.desired is not Stage.PAUSED

    def _over(self) -> bool:
        return self.stop.is_set() or self.reporter.desired is Stage.STOPPED or self._caught_up()

    def _caught_up(self) -> bool:
        if self.spec.until != "caught-up" or self.goal is None or self.writer is None or not self.writer.size:
            return False
        here = Location(str(self.writer.file), self.writer.size)
        return reached(here, self.goal)

    def _result(self) -> RelayResult:
        stage = Stage.FINISHED if self._caught_up() else Stage.STOPPED
        location = self.writer.location() if self.writer is not None else None
        sub_dir = str(self.writer.sub_dir) if self.writer is not None else ""
        self.reporter.publish(stage, location, sub_dir)
        return RelayResult(stage, location, sub_dir)
