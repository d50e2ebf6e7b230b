"""The growing log of one source for the loop: read from the relay log or, if that cannot serve, from the upstream.

    FromRelay     the relay log of the source, or the private one of the task (`enable-relay: false`)
    FromUpstream  the log that a child process pulls for this task, since the relay log failed (upstream.py)

Defects of a log are found by reading and planning (`plan`), by decoding on an executor (`distrust`), and by waiting
without result (`idle`). fallback.py classifies the error. Both logs have the bytes of the upstream's files, so the
failed piece is planned again over the same range.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from airflow_provider_dm.engine.binlog.errors import ChecksumMismatch, LocationNotInLog, MalformedEvent, OldLogNotHeld
from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.binlog.open_places import first_open
from airflow_provider_dm.engine.binlog.planned import UNLIMITED, DdlStatement, Epoch, EpochLimits, Planned, UpToDate
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.binlog.repetitions import Repetitions
from airflow_provider_dm.engine.binlog.xa import needed_location
from airflow_provider_dm.engine.config.job import JobSpec, place_of
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.records import RelayStatus
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location, reached
from airflow_provider_dm.engine.relay import health
from airflow_provider_dm.engine.relay.directory import RelayDirectory, SubDir
from airflow_provider_dm.engine.relay.errors import RelayFileGone
from airflow_provider_dm.engine.relay.reader import RelayReader
from airflow_provider_dm.engine.relay.spool import LogPosition, ReadMarks
from airflow_provider_dm.engine.sync.errors import RelaySilent
from airflow_provider_dm.engine.sync.log.fallback import (
    Fault,
    both_logs_failed,
    fault_of,
    is_another_server,
    unreadable,
)
from airflow_provider_dm.engine.sync.log.locations import Cursor
from airflow_provider_dm.engine.sync.log.reach import (
    check_events,
    check_prepared,
    check_same_file,
    end_place,
    left_bytes,
    not_begun,
    reaches,
)
from airflow_provider_dm.engine.sync.log.upstream import FromRelay, FromUpstream, Reading, UpstreamLog
from airflow_provider_dm.engine.sync.progress import SyncProgress

log = logging.getLogger(__name__)

TAIL_POLL_SECONDS: Final = 2.0
"""Seconds between two reads of the relay's status."""
AGAIN_SECONDS: Final = 0.2
GROWTH_SECONDS: Final = 0.04
"""Seconds between two checks whether the log has grown."""
PLANNING_SHARE: Final = 0.2
"""Share of the time that is spent planning while a large transaction arrives: each plan scans all of it."""
LONGEST_PAUSE: Final = 2.0
"""Maximum seconds between two plans, however long a plan takes."""
T = TypeVar("T")
_ATTEMPTS: Final = 2
"""Within one call, each log may be left once for the other."""


@dataclass
class Tail:
    """The growing end of one source's log. Its methods may be called by any thread."""

    source: str
    local: RelayReader
    store: MetaStore
    progress: SyncProgress = field(default_factory=SyncProgress)
    upstream: UpstreamLog | None = None
    """None: no fallback, so a defect of the relay log is an error at once."""
    by_gtid: bool = False
    """True if the relay can follow the source to another server."""
    private: bool = False
    """True if the relay log is private to the task: its size is limited, by the read position of this sync."""
    reading: Reading = field(default_factory=FromRelay, init=False)
    waiting: bool = field(default=False, init=False)
    """True if, at the last plan, the log did not reach the sync's location (yet)."""
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False, repr=False)
    _opened_at: float = field(default_factory=time.monotonic, init=False)
    _checked_at: float = field(default=0.0, init=False)
    _marks: ReadMarks = field(default_factory=ReadMarks, init=False)
    _last: LogFile | None = field(default=None, init=False)
    """The end of the log at the last plan."""
    _took: float = field(default=0.0, init=False)
    """Seconds of the last plan."""
    _checked: LogFile | None = field(default=None, init=False)
    _repetitions: Repetitions = field(default_factory=Repetitions, init=False, repr=False)
    """The repeated transactions that were found in the log that is being read."""

    def __post_init__(self) -> None:
        self._show()

    @classmethod
    def of(cls, spec: JobSpec, source_id: str, store: MetaStore, progress: SyncProgress) -> Tail:
        source = spec.source(source_id)
        upstream = None
        if source.fallback_dir is not None:
            root = Path(source.fallback_dir)
            upstream = UpstreamLog(source, spec.task.name, spec.meta_url, root, place_of(spec.until))
        private = not source.config.enable_relay
        by_gtid = source.config.enable_gtid
        return cls(source_id, RelayReader(Path(source.relay_dir)), store, progress, upstream, by_gtid, private)

    # For the loop

    def plan(self, at: Cursor, limits: EpochLimits) -> Planned:
        """Plan the next piece.

        Raises BothLogsFailed, and the errors of reader and planner for which the log is not the cause.
        """
        with self._lock:
            match self.reading:
                case FromRelay(left_at):
                    self._forget_left(left_at, at.place)
                case FromUpstream() as reading:
                    self._look_back(reading, at)
            return self._served(at, lambda: self._plan(at, limits))

    def gtid_set_at(self, place: Location) -> str | None:
        """Return the GTID set that was committed before `place`; None: the log does not reach it yet.

        Raises LocationNotInLog if no transaction begins there and the log does not end there, and what `plan` raises.
        """
        with self._lock:
            return self._served(Cursor(place), lambda: self._gtid_set_at(place), never=LocationNotInLog)

    def distrust(self, error: DmError, epoch: Epoch, at: Cursor) -> None:
        """Switch to the other log, as an epoch that begins at `at` could not be decoded.

        Does not switch again if planning ahead has already done so. Raises `error` unless the log is the cause,
        BothLogsFailed, and MetaUnreachable.
        """
        with self._lock:
            if self._is_read_now(epoch):
                self._move_on(error, at)
            elif fault_of(error) is Fault.OTHER:
                raise error
            elif isinstance(self.reading, FromUpstream):
                self._begin_earlier(self.reading, error, at)

    def idle(self, here: Cursor, seconds: float) -> None:
        """Check the log after `seconds` without events. Raises RelaySilent if no relay pulls and there is no fallback,
        or BothLogsFailed."""
        with self._lock:
            if time.monotonic() - self._checked_at < TAIL_POLL_SECONDS:
                return
            self._checked_at = time.monotonic()
            match self.reading:
                case FromRelay():
                    self._idle_local(here, seconds)
                case FromUpstream(pulled=False, why=error):
                    raise error
                case FromUpstream(log=pulled) if seconds > health.SILENT_SECONDS:
                    pulled.check_upstream()

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Wait until the log has grown since the last plan or `stop` is set, at most about `seconds`."""
        until = time.monotonic() + seconds
        pause = max(GROWTH_SECONDS, min(LONGEST_PAUSE, self._took / PLANNING_SHARE))
        while not stop.wait(pause):
            if time.monotonic() >= until or self._last is None or self._last.has_changed():
                return

    def update_progress(self, here: Location, goal: Location | None, *, held: Location | None) -> None:
        """Update the progress: the end of the source's log, the bytes after `here`, and the bytes from `held`, the
        location of the first held-back row (None: no row is held back)."""
        status = self._status()
        fresh = health.sees_source(status)
        master = status.master if status is not None and fresh else None
        with self._lock:
            shown, reader = self.progress, self._reader()
            if master is not None:
                at_end = reached(here, master)
            else:  # the source's end is unknown, except from the log that this task pulls itself
                at_end = isinstance(self.reading, FromUpstream) and not self.waiting
            age = health.age_of(status) if status is not None and fresh else 0.0
            shown.set_source_end(master, time.time() - age if at_end else None)
        held_back = left_bytes(reader, held, here, None) if held is not None else 0
        far = not_begun(goal, shown.master) if at_end else ""
        if far and not shown.goal_far:
            log.warning("%s; the sync does not end before the log reaches it", far)
        shown.set_left(left_bytes(reader, here, goal, master), held_back, far)

    def close(self) -> None:
        """Stop the child process that pulls, if any. Its files stay, as a later run may need them."""
        with self._lock:
            if self.upstream is not None:
                self.upstream.end()

    # Reading

    def _plan(self, at: Cursor, limits: EpochLimits) -> Planned:
        try:
            return self._plan_once(at, limits)
        except (MalformedEvent, ChecksumMismatch) as error:
            # A restarting relay truncates an incomplete transaction; a concurrent reader of those bytes gets zeros.
            log.info("planning again in %.1f s: %s", AGAIN_SECONDS, error)
            time.sleep(AGAIN_SECONDS)
            return self._plan_once(at, limits)

    def _plan_once(self, at: Cursor, limits: EpochLimits) -> Planned:
        began, reader, lo = time.monotonic(), self._checked_reader(), at.place
        files = reader.files(lo)
        self.waiting = not reaches(files, lo)
        self._last = files[-1] if files else None
        if not files:
            return UpToDate(lo)
        try:
            check_same_file(files[0], lo)
            planned = plan_epoch(
                files,
                lo,
                limits,
                repetitions=self._repetitions,
                prepared=at.prepared,
                held=self._held,
                open_places=at.open_places,
            )
        except OSError as error:
            raise unreadable(str(error.filename or files[0].path), error) from error
        self._took = time.monotonic() - began
        enough = _is_enough(planned, limits.goal if limits.max_bytes == UNLIMITED else None)
        self._write_mark(reader, LogPosition.of(lo) if enough else end_place(files[-1]), enough=enough)
        return planned

    def _held(self) -> Sequence[LogFile]:
        """List all files of all logs: prepared transactions may be in much older files."""
        elsewhere = [self.local, self.upstream.reader] if self.upstream is not None else [self.local]
        now = self._reader()
        return [file for reader in (now, *(one for one in elsewhere if one is not now)) for file in reader.held()]

    def _gtid_set_at(self, place: Location) -> str | None:
        reader = self._checked_reader()
        gtid_set = reader.own_gtid_set_at(place)
        files = reader.files(place) if gtid_set is None else ()
        if files:
            self._write_mark(reader, end_place(files[-1]), enough=False)
        return gtid_set

    def _reader(self) -> RelayReader:
        return self.reading.log.reader if isinstance(self.reading, FromUpstream) else self.local

    def _checked_reader(self) -> RelayReader:
        """Return the current log, after a check that its child process, if any, pulls. Raises PrivateRelayEnded."""
        if isinstance(self.reading, FromUpstream):
            self.reading.log.check()
        return self._reader()

    def _write_mark(self, reader: RelayReader, seen: LogPosition, *, enough: bool) -> None:
        if not self._reads_shared_log():
            self._marks.write(reader.root, seen, enough=enough)

    # Falling back

    def _served(self, at: Cursor, ask: Callable[[], T], *, never: type[DmError] | tuple[()] = ()) -> T:
        """Return `ask()`, after a switch to the other log if that is needed. `never`: errors that cause no switch."""
        for _ in range(_ATTEMPTS):
            try:
                return ask()
            except never:
                raise
            except DmError as error:
                self._move_on(error, at)
        return ask()

    def _move_on(self, error: DmError, at: Cursor) -> None:
        """Switch to the other log after `error`. Raises `error` if the log is not the cause, or BothLogsFailed."""
        fault = fault_of(error)
        if fault is Fault.OTHER or (fault is Fault.SUSPECT and not self._is_damaged(at.place)):
            raise error
        match self.reading:
            case FromRelay():
                self._leave_local(error, at)
            case FromUpstream() as reading:
                self._leave_upstream(reading, error, at)

    def _is_read_now(self, epoch: Epoch) -> bool:
        return all(
            Path(range_.path).is_relative_to(self._reader().root)
            for range_ in epoch.ranges
            if not range_.counts_at  # a range of a prepared transaction may be in another log
        )

    def _begin_earlier(self, reading: FromUpstream, error: DmError, at: Cursor) -> None:
        """Pull again from `at`, as the current pull began at a later location. Raises BothLogsFailed."""
        reading.log.end()
        try:
            self._begin_upstream(reading.log, at)
        except DmError as refused:
            raise both_logs_failed(self.source, str(at), error, refused, by_gtid=self.by_gtid) from error
        log.warning("the relay log of %s cannot serve %s either: %s", self.source, at, error)
        self._go(FromUpstream(reading.log, error, at.place))

    def _is_damaged(self, at: Location) -> bool:
        """Return True if an event between `at` and the end of the log is damaged, or the log cannot be read."""
        try:
            for file in self._reader().files(at):
                check_events(file, at)
        except (DmError, OSError):
            return True
        return False

    def _leave_local(self, error: DmError, at: Cursor) -> None:
        """Switch to the upstream. Raises `error` if there is no fallback, and BothLogsFailed."""
        if self.upstream is None:
            raise error
        try:
            self._begin_upstream(self.upstream, at)
        except DmError as refused:
            if self._was_pulled_before(self.upstream, at):
                log.warning("using the log that an earlier run pulled from the upstream of %s: %s", self.source, error)
                self._go(FromUpstream(self.upstream, error, at.place, pulled=False))
                return
            if isinstance(error, OldLogNotHeld):
                raise error from refused
            raise both_logs_failed(self.source, str(at), error, refused, by_gtid=self.by_gtid) from error
        log.warning("the relay log of %s cannot serve %s, pulling from the upstream: %s", self.source, at, error)
        self._go(FromUpstream(self.upstream, error, None if isinstance(error, RelaySilent) else at.place))

    def _was_pulled_before(self, upstream: UpstreamLog, at: Cursor) -> bool:
        """Return True if the files of an earlier run continue the log after `at`, at least up to its open place."""
        here = at.place
        open_place = first_open(at.open_places, here, here.suffix + 1)
        place = here.at(here.position + 1) if open_place is None else open_place.place
        return upstream.holds_up_to(place, here, self._server_uuid(here))

    def _begin_upstream(self, upstream: UpstreamLog, at: Cursor) -> None:
        """Pull from `at` or, if the server still has it, from the beginning of the oldest prepared transaction."""
        here, server_uuid = at.place, self._server_uuid(at.place)
        oldest = needed_location(here, [one for one in at.prepared if one.at.suffix == here.suffix])
        if oldest is not here:
            try:
                upstream.begin(oldest, server_uuid)
                return
            except DmError as error:
                log.warning("the transaction that was prepared at %s cannot be pulled: %s", oldest, error)
        upstream.begin(here, server_uuid)

    def _leave_upstream(self, reading: FromUpstream, error: DmError, at: Cursor) -> None:
        """Switch back to the relay log if that serves. Raises BothLogsFailed, MetaUnreachable."""
        serves = self._local_serves(at)
        reading.log.end()
        if not serves:
            if reading.pulled and not is_another_server(error):
                reading.log.forget()  # so that the next run pulls it again
            raise both_logs_failed(self.source, str(at), reading.why, error, by_gtid=self.by_gtid) from error
        log.warning("the log pulled from %s cannot serve %s, returning to the relay log: %s", self.source, at, error)
        self._go(FromRelay(left_at=at.place))

    def _go(self, reading: Reading) -> None:
        self.reading = reading
        self._repetitions = Repetitions()
        self._show()

    def _show(self) -> None:
        self.progress.set_binlog_type("local" if self._reads_shared_log() else "remote")

    def _reads_shared_log(self) -> bool:
        return isinstance(self.reading, FromRelay) and not self.private

    def _server_uuid(self, at: Location) -> str:
        """Return the uuid of the server whose log is being read; "" if it is no longer known."""
        if at.server_uuid:
            return at.server_uuid
        held = RelayDirectory(self.local.root).by_suffix(at.suffix)
        if held is not None:
            return held.server_uuid
        status = self._status()
        try:
            sub_dir = SubDir.parse(status.sub_dir if status is not None else "")
        except DmError:
            return ""
        return sub_dir.server_uuid if sub_dir.suffix == at.suffix else ""

    # Going back

    def _look_back(self, reading: FromUpstream, at: Cursor) -> None:
        """Return to the relay log once it can serve; from a log that is not pulled, once the missing part is read."""
        lo = at.place
        if not reading.pulled and reading.failed_at is not None and lo.sort_key != reading.failed_at.sort_key:
            self._go(FromRelay(left_at=lo))
            return
        if not reading.is_return_due(lo):
            return
        try:
            serves = self._local_serves(at)
        except DmError as error:  # the metadata DB does not answer: the sync continues without it
            log.warning("the status of the relay of %s cannot be read: %s", self.source, error)
            serves = False
        if not serves:
            reading.postpone_return()
            return
        log.info("the relay log of %s can serve %s again", self.source, lo)
        reading.log.end()
        self._go(FromRelay(left_at=lo))

    def _local_serves(self, at: Cursor) -> bool:
        """Return True if a relay pulls and the relay log can be read without defects from the location.

        Raises MetaUnreachable.
        """
        if not health.is_pulling(self.store.relay_status(self.source)):
            return False
        try:
            files = self.local.files(at.place)
            if not reaches(files, at.place):
                return False
            check_events(files[0], at.place)
            check_prepared(self.local.held(), at.prepared)
        except (DmError, OSError):
            return False
        return True

    def _forget_left(self, left_at: Location | None, lo: Location) -> None:
        """Remove the files pulled from the upstream once the sync has passed them, so no task can still read them."""
        if left_at is None or self.upstream is None:
            return
        if reached(lo, left_at) and lo.sort_key != left_at.sort_key:
            self.upstream.forget()
            self.reading = FromRelay()

    # Waiting

    def _idle_local(self, here: Cursor, seconds: float) -> None:
        try:
            status = self.store.relay_status(self.source)
        except DmError as error:  # this is no evidence that the relay does not pull
            log.warning("the status of the relay cannot be read: %s", error)
            return
        waited = seconds > health.SILENT_SECONDS
        ended = (
            health.has_relay_ended(status, time.monotonic() - self._opened_at)
            and not self.private
            and self.upstream is not None
        )
        why = health.silence(status) if waited or ended else None
        if why is not None:
            silent = RelaySilent(self.source, str(here), why)
            if self.private or self.upstream is None:
                raise silent
            self._leave_local(silent, here)
        elif self.waiting and health.is_past(status, here.place, time.monotonic() - self._opened_at):
            self._move_on(RelayFileGone(here.place.file, str(self.local.root)), here)
        elif waited:
            self._check_rest(here)

    def _check_rest(self, here: Cursor) -> None:
        """Check each state of the last file once: an event with a damaged length looks like an incomplete event, and
        would be awaited forever."""
        try:
            files = self.local.files(here.place)
            if not files or files[-1] == self._checked:
                return
            self._checked = files[-1]
            check_events(files[-1], here.place)
        except DmError as error:
            self._move_on(error, here)
        except OSError as error:
            log.warning("the end of the relay log could not be read: %s", error)

    def _status(self) -> RelayStatus | None:
        try:
            return self.store.relay_status(self.source)
        except DmError:
            return None


def _is_enough(planned: Planned, needed: Location | None) -> bool:
    """Return True if the loop can apply the piece. `needed`: where a half-applied epoch must end."""
    match planned:
        case UpToDate():
            return False
        case Epoch(hi=end) | DdlStatement(end=end):
            return needed is None or reached(end, needed)
