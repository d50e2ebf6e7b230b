"""A log that is pulled for one task alone, from the place where the relay log failed.

It is a relay like any other (engine/relay) in a directory of its own, as a child process of the driver, bounded by
`spool-limit-mb`. It begins with the file of the sync's location and in a sub-directory of the same number, so that
locations stay what they are. Only the server whose log was being read will do. What a tail reads (tail.py) is one of
two values: the relay log, or this.
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
from airflow_provider_dm.engine.relay.keeper import AsAsked, Died, Failed, KeptRelay
from airflow_provider_dm.engine.relay.lock import RelayLocked
from airflow_provider_dm.engine.relay.protocol import StreamLost
from airflow_provider_dm.engine.relay.reader import RelayReader
from airflow_provider_dm.engine.relay.spec import RelaySpec, SpoolSpec
from airflow_provider_dm.engine.relay.start import check_available
from airflow_provider_dm.engine.sync.log.fallback import OtherUpstream, PrivateRelayEnded

READ_SECONDS: Final = 20.0
STOP_SECONDS: Final = 3.0
DEATHS_ALLOWED: Final = 5
RETURN_SECONDS: Final = 5.0
"""Between two looks whether the relay log can serve again, at first."""
LONGEST_RETURN_SECONDS: Final = 60.0
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
    _kept: KeptRelay | None = field(default=None, init=False)

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
        self._kept = KeptRelay(spec, known, self.log_path, DEATHS_ALLOWED)
        self.check()

    def check(self) -> None:
        """Start it again if it died. Raises PrivateRelayEnded when that would not help."""
        if self._kept is None:
            return
        match self._kept.look():
            case Failed(error):
                raise PrivateRelayEnded(error)
            case AsAsked(code) | Died(code):
                raise PrivateRelayEnded(_died(code))
        # The child of a driver that was killed a moment ago, or that hangs.
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
            self._kept.stop(STOP_SECONDS)
            self._kept = None

    def forget(self) -> None:
        """Remove the files. After `end`."""
        shutil.rmtree(self.root, ignore_errors=True)

    def holds_up_to(self, place: Location, at: Location, server_uuid: str) -> bool:
        """Tell whether an earlier run left that server's log from `at` to `place`, of one sub-directory."""
        if not self._holds(at, server_uuid):
            return False
        last = self.reader.files(at)[-1]
        return Location(last.name, last.size, suffix=last.suffix).sort_key >= place.sort_key

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


@dataclass(frozen=True)
class FromRelay:
    """The state of reading the relay log."""

    left_at: Location | None = None
    """Where the upstream's files were left for it: they may still be being read."""


@dataclass
class FromUpstream:
    """The state of reading what is pulled from the upstream, until a look shows that the relay log can serve again."""

    log: UpstreamLog
    why: DmError
    """What is wrong with the relay log."""
    failed_at: Location | None
    """Where it was left for what it says, not for its silence: what is wrong lies behind it."""
    pulled: bool = True
    """It grows. False: an earlier run has left it, and its server is gone."""
    return_pause: float = RETURN_SECONDS
    return_at: float = field(default_factory=lambda: time.monotonic() + RETURN_SECONDS)

    def looks_back(self, lo: Location) -> bool:
        """Return True if it is time to look. Never where the relay log could not serve: no run would get past that."""
        stuck = self.failed_at is not None and lo.sort_key == self.failed_at.sort_key
        return not stuck and time.monotonic() >= self.return_at

    def looked_in_vain(self) -> None:
        self.return_pause = min(self.return_pause * 1.5, LONGEST_RETURN_SECONDS)
        self.return_at = time.monotonic() + self.return_pause


Reading = FromRelay | FromUpstream
