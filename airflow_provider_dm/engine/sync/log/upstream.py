"""The private log of one task, pulled from the upstream from the location at which the relay log failed.

It is a normal relay (engine/relay) in its own directory, run as a child process of the driver and limited by
`spool-limit-mb`. It begins with the file of the sync's location, in a sub-directory with the same number, so that
locations stay valid. It must be pulled from the same server as the relay log. `Reading` is what a tail (tail.py) reads:
the relay log or this log.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pymysql

from airflow_provider_dm.engine.config.job import SecretRef, SourceSpec
from airflow_provider_dm.engine.config.secrets import known
from airflow_provider_dm.engine.errors import DmError, Reaction, ReportedError, Scope
from airflow_provider_dm.engine.mysql.binlog_status import list_binlogs
from airflow_provider_dm.engine.mysql.connection import connected, server_info
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.location import BinlogFile, Location
from airflow_provider_dm.engine.relay.errors import RelayLocked, StreamLost
from airflow_provider_dm.engine.relay.keeper import EndedByCrash, EndedByError, EndedOnRequest, KeptRelay
from airflow_provider_dm.engine.relay.reader import RelayReader
from airflow_provider_dm.engine.relay.spec import RelaySpec, SpoolSpec
from airflow_provider_dm.engine.relay.start import check_available
from airflow_provider_dm.engine.sync.errors import OtherUpstream, PrivateRelayEnded

READ_SECONDS: Final = 20.0
PULLER_STOP_SECONDS: Final = 3.0
PULLER_DEATHS_ALLOWED: Final = 5
RETURN_SECONDS: Final = 5.0
"""Seconds between two checks whether the relay log can serve again, at first."""
LONGEST_RETURN_SECONDS: Final = 60.0
LOCKED_SECONDS: Final = 60.0
"""How long another process may hold the lock of the directory before that is an error."""


@dataclass
class UpstreamLog:
    """The private log of one sync. `begin` and `end` may be called alternately any number of times."""

    source: SourceSpec
    task: str
    meta_url: SecretRef
    root: Path
    until: Location | None = None
    """The goal of the run if it is FILE:POSITION; nothing after it is pulled."""
    _kept: KeptRelay | None = field(default=None, init=False)

    @property
    def reader(self) -> RelayReader:
        return RelayReader(self.root)

    @property
    def log_path(self) -> Path:
        return self.root.with_name(f"{self.root.name}.log")

    def begin(self, at: Location, server_uuid: str) -> None:
        """Start to pull from the file of `at`. Returns at once.

        Raises OtherUpstream, BinlogPurged or UpstreamLogDiffers (the server does not have that location),
        ServerUnreachable, AccessDenied, SecretMissing.
        """
        self._ask(self.source.endpoint.resolve(), at, server_uuid)
        if not self._holds(at, server_uuid):
            shutil.rmtree(self.root, ignore_errors=True)
        # Another server-id, because the source's relay may be connected at the same time.
        own = {"server_id": 0, "enable_gtid": False, "relay_binlog_name": "", "relay_binlog_gtid": ""}
        config = self.source.config.model_copy(update=own)
        spec = RelaySpec(
            source=self.source.model_copy(update={"config": config, "relay_dir": str(self.root)}),
            spool=SpoolSpec(
                task=self.task,
                limit_bytes=config.spool_limit_mb << 20,
                start=replace(at, gtid_set=""),
                until=self.until,
                reports=False,
            ),
            meta_url=self.meta_url,
            launcher_pid=os.getpid(),
        )
        self.root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.log_path.unlink(missing_ok=True)  # that of an earlier run
        self._kept = KeptRelay(spec, known, self.log_path, PULLER_DEATHS_ALLOWED)
        self.check()

    def check(self) -> None:
        """Restart the child process if it died. Raises PrivateRelayEnded if it failed or died too often."""
        if self._kept is None:
            return
        match self._kept.check():
            case EndedByError(error):
                raise PrivateRelayEnded(error)
            case EndedOnRequest(code) | EndedByCrash(code):
                raise PrivateRelayEnded(_died(code))
        # The lock may be held by the child of a driver that was just killed, or that hangs.
        holder = self._kept.holder
        if holder is not None and time.monotonic() - self._kept.held_since > LOCKED_SECONDS:
            raise PrivateRelayEnded(ReportedError.of(RelayLocked(str(self.root), holder)))

    def check_upstream(self) -> None:
        """Connect to the upstream once. Raises ServerUnreachable or AccessDenied when it does not answer."""
        with connected(self.source.endpoint.resolve(), read_timeout=READ_SECONDS):
            pass

    def end(self) -> None:
        """Stop pulling; the files stay, for ranges that are being applied and for another run."""
        if self._kept is not None:
            self._kept.stop(PULLER_STOP_SECONDS)
            self._kept = None

    def forget(self) -> None:
        """Remove the files. After `end`."""
        shutil.rmtree(self.root, ignore_errors=True)

    def holds_up_to(self, place: Location, at: Location, server_uuid: str) -> bool:
        """Return True if the files of an earlier run have that server's log from `at` to `place`, both in one
        sub-directory."""
        if not self._holds(at, server_uuid):
            return False
        last = self.reader.files(at)[-1]
        return Location(last.name, last.size, suffix=last.suffix).sort_key >= place.sort_key

    def _holds(self, at: Location, server_uuid: str) -> bool:
        """Return True if the files of an earlier run have that server's log at `at`."""
        try:
            files = self.reader.files(at)
        except DmError:
            return False
        return bool(files) and Path(files[0].path).parent.name == f"{server_uuid}.{at.suffix:06d}"

    @staticmethod
    def _ask(endpoint: Endpoint, at: Location, server_uuid: str) -> None:
        try:
            with connected(endpoint, read_timeout=READ_SECONDS) as connection:
                found = server_info(connection).server_uuid
                if found != server_uuid:
                    raise OtherUpstream(server_uuid or "(unknown)", found)
                check_available(BinlogFile.parse(at.file), at.position, list_binlogs(connection))
        except pymysql.err.MySQLError as error:
            raise StreamLost(str(error)) from error


def _died(code: int) -> ReportedError:
    return ReportedError(
        code=DmError.code,
        kind="",
        scope=Scope.INTERNAL.value,
        message=f"the process that pulls for this task died repeatedly, last with exit code {code}.",
        workaround="Read its log, next to the directory `upstream` of the task's work directory.",
        reaction=Reaction.RETRY,
    )


@dataclass(frozen=True)
class FromRelay:
    """The state of reading the relay log."""

    left_at: Location | None = None
    """The location of the switch back from the upstream's files, which tasks may still read; None: no such files."""


@dataclass
class FromUpstream:
    """The state of reading the private log, until a check shows that the relay log can serve again."""

    log: UpstreamLog
    why: DmError
    """The defect of the relay log."""
    failed_at: Location | None
    """The location of the switch if the relay log has a defect after it; None if its relay did not pull."""
    pulled: bool = True
    """True if it grows. False: the files are those of an earlier run, and the upstream cannot continue them."""
    return_pause: float = RETURN_SECONDS
    return_at: float = field(default_factory=lambda: time.monotonic() + RETURN_SECONDS)

    def is_return_due(self, lo: Location) -> bool:
        """Return True if it is time to check the relay log again. Never at the location at which it failed: a sync
        that alternated there would make no progress."""
        stuck = self.failed_at is not None and lo.sort_key == self.failed_at.sort_key
        return not stuck and time.monotonic() >= self.return_at

    def postpone_return(self) -> None:
        self.return_pause = min(self.return_pause * 1.5, LONGEST_RETURN_SECONDS)
        self.return_at = time.monotonic() + self.return_pause


Reading = FromRelay | FromUpstream
