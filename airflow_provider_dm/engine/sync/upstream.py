"""A log that is pulled for one task alone, from the place where the relay log failed.

It is a relay like any other (engine/relay) in a directory of its own, as a child process of the driver, bounded by
`spool-limit-mb`. It begins with the file of the sync's location and in a sub-directory of the same number, so that
locations stay what they are. Only the server whose log was being read will do.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pymysql

from airflow_provider_dm.engine.config.job import SecretRef, SourceSpec
from airflow_provider_dm.engine.errors import DmError, Reaction, ReportedError, Scope
from airflow_provider_dm.engine.mysql.binlog_status import list_binlogs
from airflow_provider_dm.engine.mysql.connection import connected, server_info
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.location import BinlogFile, Location
from airflow_provider_dm.engine.relay.lock import RelayLocked, holder_of
from airflow_provider_dm.engine.relay.process import EXIT_ERROR, RelayProcess
from airflow_provider_dm.engine.relay.protocol import StreamLost
from airflow_provider_dm.engine.relay.reader import RelayReader
from airflow_provider_dm.engine.relay.spec import RelaySpec, SpoolSpec
from airflow_provider_dm.engine.relay.start import check_available
from airflow_provider_dm.engine.sync.fallback import OtherUpstream, PrivateRelayEnded

log = logging.getLogger(__name__)

READ_SECONDS: Final = 20.0
STOP_SECONDS: Final = 3.0
DEATHS_ALLOWED: Final = 5
PAUSE_SECONDS: Final = 1.0
LOCKED_SECONDS: Final = 60.0
"""How long another process may hold the directory before that is an error."""


@dataclass
class UpstreamLog:
    """A log pulled for one sync, made once for it; `begin` and `end` may follow each other any number of times."""

    source: SourceSpec
    task: str
    meta_url: SecretRef
    root: Path
    until: Location | None = None
    """Where the run will end, if it is FILE:POSITION; nothing is pulled behind that."""
    _process: RelayProcess | None = field(default=None, init=False)
    _spec: RelaySpec | None = field(default=None, init=False)
    _deaths: int = field(default=0, init=False)
    _start_at: float = field(default=0.0, init=False)
    _locked_since: float | None = field(default=None, init=False)

    @property
    def reader(self) -> RelayReader:
        return RelayReader(self.root)

    @property
    def log_path(self) -> Path:
        return self.root.with_name(f"{self.root.name}.log")

    def begin(self, at: Location, server_uuid: str) -> None:
        """Pull from the file of `at` on. Returns at once.

        Raises OtherUpstream, BinlogPurged or UpstreamLostTail (the server does not have that place), ServerUnreachable,
        AccessDenied, SecretMissing.
        """
        self._ask(self.source.endpoint.resolve(), at, server_uuid)
        if not self._holds(at, server_uuid):
            shutil.rmtree(self.root, ignore_errors=True)
        # A server-id of its own: the source's relay may be connected as well.
        own = {"server_id": 0, "enable_gtid": False, "relay_binlog_name": "", "relay_binlog_gtid": ""}
        config = self.source.config.model_copy(update=own)
        self._spec = RelaySpec(
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
        self._deaths = 0
        self._start()

    def check(self) -> None:
        """Start it again if it died. Raises PrivateRelayEnded when that would not help."""
        if self._process is None:
            if self._spec is not None and time.monotonic() >= self._start_at:
                self._start()
            return
        code = self._process.exit_code()
        if code is None:
            return
        said, self._process = self._process.error(), None
        if said is not None and said.code == RelayLocked.code:
            self._start_at = time.monotonic() + PAUSE_SECONDS
            return
        self._deaths += 1
        if (code == EXIT_ERROR and said is not None) or self._deaths > DEATHS_ALLOWED:
            raise PrivateRelayEnded(said or _died(code))
        log.warning("what pulls %s for this task died (exit code %d); it is started again", self.root, code)
        self._start_at = time.monotonic() + PAUSE_SECONDS * self._deaths

    def check_upstream(self) -> None:
        """Connect to the upstream once. Raises ServerUnreachable or AccessDenied when it does not answer."""
        with connected(self.source.endpoint.resolve(), read_timeout=READ_SECONDS):
            pass

    def end(self) -> None:
        """Stop pulling; the files stay, for ranges that are being applied and for another run."""
        self._spec = None
        if self._process is not None:
            self._process.stop(STOP_SECONDS)
            self._process = None

    def forget(self) -> None:
        """Remove the files. After `end`."""
        shutil.rmtree(self.root, ignore_errors=True)

    def _start(self) -> None:
        assert self._spec is not None
        now, holder = time.monotonic(), holder_of(self.root)
        if holder is not None:  # the child of a driver that was killed a moment ago, or that hangs
            self._locked_since = self._locked_since or now
            if now - self._locked_since > LOCKED_SECONDS:
                raise PrivateRelayEnded(ReportedError.of(RelayLocked(str(self.root), holder)))
            self._start_at = now + PAUSE_SECONDS
            return
        self._locked_since = None
        self.root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.log_path.unlink(missing_ok=True)  # an error in it would be taken for one of the new process
        self._process = RelayProcess.start(self._spec, os.environ, self.log_path)

    def _holds(self, at: Location, server_uuid: str) -> bool:
        """Tell whether an earlier run left something to go on with."""
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
        message=f"the process that pulls for this task died again and again, last with exit code {code}.",
        workaround="Look at its log, beside the folder `upstream` of the task's work directory.",
        reaction=Reaction.RETRY,
    )
