"""One source's relay, from start to stop: recover, connect, pull, report, reconnect.

Step 1: take the directory's lock. Step 2: connect, and identify the server. Step 3: continue the held log (cut back to
a transaction boundary) or begin a first file (`open_writer`). Step 4: pull until stopped. A transient error (a lost
connection, a restart of the upstream) leads back to step 2 after a growing delay with jitter, a full disk after there
is space again; any other error ends the relay. It may be killed at any moment: all state is in the files.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
import uuid
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Final, Literal

import pymysql

from airflow_provider_dm.engine.errors import DmError, Reaction, describe
from airflow_provider_dm.engine.meta.records import Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.binlog_status import current_location
from airflow_provider_dm.engine.mysql.connection import Connection, ServerInfo, connected, server_info
from airflow_provider_dm.engine.mysql.gtid import GtidSet
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE, BinlogFile, Location, reached
from airflow_provider_dm.engine.relay import start
from airflow_provider_dm.engine.relay.backoff import pause_seconds
from airflow_provider_dm.engine.relay.directory import RelayDirectory
from airflow_provider_dm.engine.relay.directory_lock import SoleWriter, sole_writer
from airflow_provider_dm.engine.relay.durable import disk_errors
from airflow_provider_dm.engine.relay.errors import (
    BinlogPurged,
    RelayDiskFull,
    StreamLost,
    TaskFellBehind,
    UpstreamFileTorn,
)
from airflow_provider_dm.engine.relay.event_runs import RunTaker
from airflow_provider_dm.engine.relay.housekeeping import Housekeeper
from airflow_provider_dm.engine.relay.open_writer import WriterOpener
from airflow_provider_dm.engine.relay.places import file_after
from airflow_provider_dm.engine.relay.protocol import HEARTBEAT_SECONDS, DumpRequest, open_dump, some_server_id
from airflow_provider_dm.engine.relay.pull import Puller
from airflow_provider_dm.engine.relay.reporting import Reporter
from airflow_provider_dm.engine.relay.spec import RelaySpec
from airflow_provider_dm.engine.relay.spool import LogPosition, SpoolBound
from airflow_provider_dm.engine.relay.writer import RelayWriter

log = logging.getLogger(__name__)

FIRST_CONNECT_ATTEMPTS: Final = 4
"""An upstream that has never answered indicates a wrong configuration; one that has answered will return."""

SAVE_SECONDS: Final = 10.0
PUBLISH_SECONDS: Final = 0.5
STEADY_SECONDS: Final = 10.0
"""After a connection that lasted this long, or received data, the next delay is short again."""
STAGE_POLL_SECONDS: Final = 0.5
FULL_DISK_SECONDS: Final = 60.0
"""After this time a full disk is tried again, even if no space was freed."""
_ROOM: Final = (1 << 20, 64 << 20)
"""Additional free bytes after which a full disk is tried again at once: a twentieth of it, within these limits."""


@dataclass(frozen=True)
class RelayResult:
    stage: Stage
    """Finished: caught up as requested; Stopped: stopped on request."""
    location: Location | None


def run_relay(spec: RelaySpec, store: MetaStore, stop: threading.Event) -> RelayResult:
    """Pull until `stop` is set, the desired stage is Stopped, or (`until: caught-up`) the goal is reached.

    Raises RelayLocked, RelayRunsElsewhere, RelayDirectoryUnusable, ServerUnreachable (never answered), AccessDenied,
    BinlogDisabled, BinlogPurged, UpstreamSwitched, UpstreamLogDiffers, RelayDiskFull and other DmErrors;
    except for the first three, the relay's row in the metadata DB then has the error, with stage Paused.
    """
    directory = RelayDirectory(Path(spec.source.relay_dir))
    directory.prepare()
    spool = spec.spool
    reporter = Reporter(
        spec.source.config.source_id,
        spec.source.endpoint.resolve(),
        store,
        directory.root,
        stop,
        task=spool.task if spool is not None else "",
        silent=spool is not None and not spool.reports,
    )
    with sole_writer(directory.root) as lock, Housekeeper(spec, store) as housekeeper:
        last = store.relay_status(spec.source.config.source_id)  # before our own first report
        with reporter:
            known_sub_dir = last.sub_dir if last is not None else ""
            service = _Service(spec, directory, reporter, lock, housekeeper, known_sub_dir)
            try:
                return service.run()
            except Exception as error:
                reporter.publish(Stage.PAUSED, error=describe(error))
                raise


def has_room(free_when_full: int, free: int, total: int) -> bool:
    """Return True if enough space was freed since the disk was full. Sizes in bytes."""
    least, most = _ROOM
    return free >= free_when_full + min(max(total // 20, least), most)


@dataclass
class _Service:
    spec: RelaySpec
    directory: RelayDirectory
    reporter: Reporter
    lock: SoleWriter
    housekeeper: Housekeeper
    known_sub_dir: str
    """The sub-directory in the last report of this source's relay before this one."""
    bound: SpoolBound | None = field(init=False)
    opening: WriterOpener = field(init=False)
    goal: Location | None = None
    """The location to pull up to, in the newest sub-directory."""
    connected_once: bool = False
    failures: int = 0
    replica_uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    take: RunTaker = field(default_factory=RunTaker)
    _began: tuple[float, Location | None] = (0.0, None)
    """The time and the location at which the present connection began to pull."""
    _publish_at: float = 0.0
    _save_at: float = 0.0

    def __post_init__(self) -> None:
        spool = self.spec.spool
        self.bound = SpoolBound.of(self.directory.root, spool) if spool is not None else None
        # With a log the configuration was right once: an unreachable upstream will return.
        self.connected_once = any(self.directory.files(sub_dir) for sub_dir in self.directory.sub_dirs())
        self.opening = WriterOpener(self.spec.source.config, self.directory, self._needed, self._last_known)

    @property
    def writer(self) -> RelayWriter | None:
        return self.opening.writer

    def run(self) -> RelayResult:
        try:
            while not self._over():
                if self.reporter.desired is Stage.PAUSED:
                    self.reporter.publish(Stage.PAUSED)
                    self.reporter.stop.wait(STAGE_POLL_SECONDS)
                elif not self._may_pull():
                    self.housekeeper.purge_now()  # files that the task has passed count until they are removed
                    self._publish()
                    self.reporter.stop.wait(STAGE_POLL_SECONDS)
                else:
                    self._session_or_pause()
        finally:
            if self.writer is not None:
                self.writer.close(save=self.lock.is_held())
        return self._result()

    # Inputs of a session

    def _needed(self) -> Location | None:
        source = self.spec.source.config.source_id
        if self.spec.spool is None:
            return self.reporter.store.oldest_needed(source)
        own = [one.needed for one in self.reporter.store.list_subtasks(task=self.spec.spool.task, source=source)]
        known = [location for location in (*own, self.spec.spool.start) if location is not None]
        return max(known, key=lambda location: location.sort_key, default=None)

    def _last_known(self) -> str:
        return self.reporter.snapshot.sub_dir or self.known_sub_dir

    def _may_pull(self) -> bool:
        """Return True if the relay may pull: a private log waits for its task, without a connection."""
        writer = self.writer
        if self.bound is None or writer is None or not writer.size:
            return True
        end = LogPosition(writer.sub_dir.suffix, writer.file.number, writer.size)
        return self.bound.decide(end, end._replace(position=writer.begun))

    # Sessions

    def _session_or_pause(self) -> None:
        try:
            with disk_errors(self.directory.root):
                self._session()
        except RelayDiskFull as full:
            self.lock.check()
            self._wait_for_space(full)
        except (DmError, pymysql.err.MySQLError) as caught:
            self.lock.check()  # another writer may be the cause
            error = caught if isinstance(caught, DmError) else StreamLost(str(caught))
            if isinstance(error, UpstreamFileTorn):
                self.opening.leave_file()
            elif isinstance(error, BinlogPurged) and self.spec.spool is not None:
                if self.opening.give_up(self._needed()):
                    return
                error = TaskFellBehind(self.spec.spool.task, error.needed, error.available)
            self.failures += 1
            checker = self.spec.source.config.checker
            most = FIRST_CONNECT_ATTEMPTS if not self.connected_once else 2 if not checker.check_enable else inf
            if error.reaction is not Reaction.RETRY or self.failures >= most:
                raise error from caught
            pause = pause_seconds(checker, self.failures)
            log.warning("%s Next attempt in %.1f s.", error, pause)
            self.reporter.publish(Stage.RUNNING, error=describe(error))
            self._wait(pause)

    def _wait(self, seconds: float) -> None:
        """Wait this long, or less if the desired stage changes."""
        until = time.monotonic() + seconds
        while not self._over() and self.reporter.desired is not Stage.PAUSED and (left := until - time.monotonic()) > 0:
            self.reporter.stop.wait(min(left, STAGE_POLL_SECONDS))

    def _wait_for_space(self, error: RelayDiskFull) -> None:
        """Pause until there is space or a stop, for FULL_DISK_SECONDS at most. Complete data is on the disk."""
        root, until = self.directory.root, time.monotonic() + FULL_DISK_SECONDS
        full = shutil.disk_usage(root)
        log.warning("%s Waiting for space; %d bytes are free.", error, full.free)
        self.reporter.publish(Stage.PAUSED, error=describe(error))
        self.housekeeper.purge_now()
        while not self._over() and time.monotonic() < until:
            now = shutil.disk_usage(root)
            if has_room(full.free, now.free, now.total):
                break
            self.reporter.stop.wait(STAGE_POLL_SECONDS)

    def _session(self) -> None:
        """Pull over one connection, until it is lost or the relay has to end."""
        with connected(self.reporter.endpoint, read_timeout=4 * HEARTBEAT_SECONDS) as connection:
            self.connected_once = True
            info, writer = self._prepare(connection)
            self._began = (time.monotonic(), self._here())
            self.take.expect(self.opening.backlog)
            position = start.resume_position(writer, by_gtid=self.spec.source.config.enable_gtid)
            request = self._request(info, writer.file, position)
            log.info("pulling %s from %d", request.file, request.position)
            stream = open_dump(connection, info.flavour, request)
            self._began = (time.monotonic(), self._here())
            Puller(stream, writer, request.position, self.take).run(self._tick)

    def _request(self, info: ServerInfo, file: BinlogFile | Literal[""], position: int) -> DumpRequest:
        return DumpRequest(
            file=str(file),
            position=position,
            server_id=self.spec.source.config.server_id or some_server_id(),
            replica_uuid=self.replica_uuid,
            known=GtidSet.empty(info.flavour) if self.spec.source.config.enable_gtid else None,
        )

    def _prepare(self, connection: Connection) -> tuple[ServerInfo, RelayWriter]:
        """Return the server's identity, and the writer that continues its log."""
        info = server_info(connection)
        before = self.writer
        writer = self.opening.open(connection, info, lambda known: self._locate(info, known))
        if writer is not before:
            self.goal = None  # it was a location in another server's log
        end = current_location(connection)
        self.reporter.record_upstream_end(end, info.server_uuid)
        self.goal = self.goal or end
        return info, writer

    def _locate(self, info: ServerInfo, known: GtidSet) -> BinlogFile:
        with connected(self.reporter.endpoint, read_timeout=4 * HEARTBEAT_SECONDS) as connection:
            if server_info(connection).server_uuid != info.server_uuid:
                raise StreamLost("another server answers now")
            request = replace(self._request(info, "", BINLOG_HEADER_SIZE), known=known)
            return file_after(connection, info.flavour, request)

    def _tick(self) -> bool:
        """Return True if pulling continues; publish and save when due."""
        now = time.monotonic()
        if now < self._publish_at:
            return not self.reporter.stop.is_set() and not self._caught_up() and self._may_pull()
        assert self.writer is not None  # a session is running
        self._publish_at = now + PUBLISH_SECONDS
        began, begun_at = self._began
        if now - began > STEADY_SECONDS or self._here() != begun_at:
            self.failures = 0
        self.lock.check()
        self.writer.check_is_only_relay()
        if now >= self._save_at:
            self.writer.save()
            self._save_at = now + SAVE_SECONDS
        self._publish()
        return not self._over() and self.reporter.desired is not Stage.PAUSED and self._may_pull()

    def _publish(self) -> None:
        assert self.writer is not None
        self.reporter.publish(Stage.RUNNING, self.writer.location(), str(self.writer.sub_dir))

    # End

    def _over(self) -> bool:
        """Return True if the relay has to end. Raises RelayRunsElsewhere."""
        self.reporter.check_is_only_relay()
        return self.reporter.stop.is_set() or self.reporter.desired is Stage.STOPPED or self._caught_up()

    def _caught_up(self) -> bool:
        if self.spec.until != "caught-up":
            return False
        here = self._here()
        return here is not None and self.goal is not None and reached(here, self.goal)

    def _here(self) -> Location | None:
        """Return the end of the writer's file, in its sub-directory."""
        if self.writer is None or not self.writer.size:
            return None
        return Location(str(self.writer.file), self.writer.size)

    def _result(self) -> RelayResult:
        stage = Stage.FINISHED if self._caught_up() else Stage.STOPPED
        location = self.writer.location(exact=True) if self.writer is not None else None
        self.reporter.publish(stage, location, str(self.writer.sub_dir) if self.writer is not None else "")
        return RelayResult(stage, location)
