"""A living relay process for every source, for as long as an app runs.

An app reads binlogs from relay directories only, so each source needs a relay that writes one. A source with
`enable-relay: true` has a directory of its own, shared by its tasks: if some relay (`dmctl start-relay`, an operator)
already writes it, none is started here until that one is gone. Every other source gets a private directory below the
task, bounded by `spool-limit-mb` (engine/relay/spool.py).

A relay reconnects by itself; it ends only when a person has to look (exit code 2, typed error), or when it dies. Deaths
are answered by a restart, with growing pauses. What ends the relay of a private directory ends the work. A shared one
can be done without for a time, as the sync then pulls for itself (engine/sync/tail.py): it is tried again later.

A private directory is removed when the work is finished (`forget_private`), as the next run can start at its
checkpoint; after a stop or a failure it stays, because upstream may have purged by then what it holds.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final, Self

from airflow_provider_dm.engine.config.job import UNTIL_FOREVER, place_of
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.errors import DmError, ReportedError
from airflow_provider_dm.engine.meta.model import Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret
from airflow_provider_dm.engine.relay.lock import RelayLocked, holder_of
from airflow_provider_dm.engine.relay.process import RelayProcess
from airflow_provider_dm.engine.relay.spec import RelaySpec, SpoolSpec
from airflow_provider_dm.engine.reported import reported_in
from airflow_provider_dm.engine.target.subtask import Subtask, known_subtasks, noted_place
from airflow_provider_dm.launch.job import App, Upstream, source_spec
from airflow_provider_dm.launch.secrets import SecretEnvironment
from airflow_provider_dm.launch.workdir import TaskDir, private_directory, quoted, shared_relay

LOOK_EVERY_SECONDS: Final = 0.5
STOP_SECONDS: Final = 5.0
FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 30.0
STAND_BY_SECONDS: Final = 1.0
"""Between two looks whether a directory has no writer any more."""
STEADY_SECONDS: Final = 60.0
"""A relay that lived so long has recovered: its earlier deaths are forgotten."""
DEATHS_ALLOWED: Final = 8
"""In a row. With the pauses in between, about a minute of a machine that cannot keep a process alive."""

_TYPED_ERROR: Final = 2
_TAIL_BYTES: Final = 16384

log = logging.getLogger(__name__)


@dataclass(eq=False)
class RelayFailed(DmError):
    """The relay of a source ended with a typed error."""

    source: str
    reported: ReportedError

    code: ClassVar[str] = "DM-9030"
    what: ClassVar[str] = "the relay of source {source} stopped: {reported}"


@dataclass(eq=False)
class RelayKeepsDying(DmError):
    """The relay of a source dies whenever it is started."""

    source: str
    deaths: int
    exit_code: int
    log_path: str
    tail: str

    code: ClassVar[str] = "DM-9031"
    what: ClassVar[str] = (
        "the relay of source {source} died {deaths} times in a row, last with exit code {exit_code}. "
        "The end of its log ({log_path}):\n{tail}\n"
    )
    hint: ClassVar[str] = "Cure what the log names, then start it again: the relay goes on from what is on disk."


@dataclass(eq=False)
class RelayStopped(DmError):
    """Somebody asked the relay to stop while it was needed."""

    source: str

    code: ClassVar[str] = "DM-9032"
    what: ClassVar[str] = "the relay of source {source} was stopped on request."
    hint: ClassVar[str] = "Run the same command again to continue."


# Where relay logs lie


def relay_directory(config: SourceConfig, task: TaskDir) -> Path:
    """Return the relay directory that a task reads: the source's own one with `enable-relay`, else a private one."""
    return own_relay_directory(config, task.root) if config.enable_relay else task.private_relay(config.source_id)


def own_relay_directory(config: SourceConfig, root: Path) -> Path:
    """Return the relay directory that belongs to a source (see `shared_relay`). `root`: the work directory."""
    return shared_relay(root, config.source_id, config.relay_dir)


def prepare_relay_directory(config: SourceConfig, path: Path) -> None:
    """Make it ours alone; a directory outside the work directory keeps the mode that the user gave it.

    Raises WorkDirNotPrivate.
    """
    if not Path(config.relay_dir).expanduser().is_absolute():
        private_directory(path)


def upstreams_of(
    task: TaskConfig,
    sources: Iterable[tuple[SourceConfig, Endpoint]],
    target: Endpoint,
    directory: TaskDir,
    *,
    until: str = UNTIL_FOREVER,
) -> tuple[Upstream, ...]:
    """Return the sources of a task with their logs.

    A private one begins where the target says that the task stands, and ends where the run will (`until`), if that is a
    location.

    Raises what connecting to the target raises, and InvalidLocation for a bad `meta` of the task.
    """
    pairs = list(sources)
    known: Mapping[str, Subtask] = {}
    if not all(config.enable_relay for config, _ in pairs):
        with connected(target) as connection:
            known = known_subtasks(connection, task.meta_schema, task.name, task.source_ids)
    return tuple(
        upstream_of(task, config, endpoint, directory, known=known.get(config.source_id), until=until)
        for config, endpoint in pairs
    )


def upstream_of(
    task: TaskConfig,
    config: SourceConfig,
    endpoint: Endpoint,
    directory: TaskDir,
    *,
    known: Subtask | None = None,
    until: str = UNTIL_FOREVER,
) -> Upstream:
    """Return a source of a task, with the places of its logs. `known`: what the target knows of it.

    Raises InvalidLocation for a bad `meta` of the task.
    """
    start = noted_place(known, task.subtask(config.source_id).start)
    limit = config.spool_limit_mb << 20
    private = SpoolSpec(task=task.name, limit_bytes=limit, start=start, until=place_of(until))
    return Upstream(
        config=config,
        endpoint=endpoint,
        relay_dir=relay_directory(config, directory),
        fallback_dir=directory.fallback_relay(config.source_id),
        spool=None if config.enable_relay else private,
    )


def want_running(store: MetaStore, upstreams: Sequence[Upstream]) -> None:
    """Let the sources' relays run, before they are started: a `stop-relay` of the past must not end one that is needed
    now.
    """
    for upstream in upstreams:
        if store.relay_desired(upstream.source_id) not in (None, Stage.RUNNING):
            store.set_relay_desired(upstream.source_id, Stage.RUNNING)


def forget_private(upstreams: Sequence[Upstream]) -> None:
    """Remove what was pulled for the task alone: the work is finished and the relays have ended."""
    for upstream in upstreams:
        if not upstream.config.enable_relay:
            shutil.rmtree(upstream.relay_dir, ignore_errors=True)
        if upstream.fallback_dir is not None:
            shutil.rmtree(upstream.fallback_dir, ignore_errors=True)


# What to do when a relay has ended


@dataclass(frozen=True)
class Restart:
    """The decision to start it again after a pause."""

    after_seconds: float


@dataclass(frozen=True)
class StandBack:
    """Another relay writes this directory; it may end one day."""

    look_again_after_seconds: float


@dataclass(frozen=True)
class GiveUp:
    """The decision to give up: it would end again, a person has to look."""

    error: DmError


@dataclass(frozen=True)
class DoWithout:
    """A person has to look, but its readers can do without it: try again later."""

    error: DmError
    look_again_after_seconds: float


def after_end(
    source: str,
    *,
    exit_code: int,
    reported: ReportedError | None,
    deaths: int,
    log_path: Path,
    tail: str,
    replaceable: bool = False,
) -> Restart | StandBack | GiveUp | DoWithout:
    """Decide what to do about a relay that ended; `deaths` in a row, this one included. `replaceable`: its readers can
    read elsewhere meanwhile.
    """
    decision = _after_end(source, exit_code=exit_code, reported=reported, deaths=deaths, log_path=log_path, tail=tail)
    if replaceable and isinstance(decision, GiveUp):
        return DoWithout(decision.error, LONGEST_PAUSE_SECONDS)
    return decision


def _after_end(
    source: str, *, exit_code: int, reported: ReportedError | None, deaths: int, log_path: Path, tail: str
) -> Restart | StandBack | GiveUp:
    if exit_code == 0:
        return GiveUp(RelayStopped(source))
    if exit_code == _TYPED_ERROR and reported is not None:
        if reported.code == RelayLocked.code:
            return StandBack(STAND_BY_SECONDS)
        return GiveUp(RelayFailed(source, reported))
    if deaths > DEATHS_ALLOWED:
        return GiveUp(RelayKeepsDying(source, deaths, exit_code, str(log_path), tail))
    return Restart(min(FIRST_PAUSE_SECONDS * 2 ** (deaths - 1), LONGEST_PAUSE_SECONDS))


# Keeping them alive


@dataclass
class _Kept:
    """One source's relay: the process, or when to start it."""

    upstream: Upstream
    spec: RelaySpec
    secrets: SecretEnvironment
    log_path: Path
    process: RelayProcess | None = None
    started_at: float = 0.0
    start_at: float = 0.0
    log_from: int = 0
    """Size of the log when it was started: what is before was written by its predecessors."""
    deaths: int = 0
    standing_by: bool = False


class Relays:
    """The relays of some sources: one is started for each, and started again when it dies, until the `with` block ends.

    `error` is what made one of them impossible for good; the owner of the block looks at it, or at `failure`, while it
    waits.
    """

    def __init__(self, upstreams: Sequence[Upstream], *, meta_url: Secret, log_dir: Path) -> None:
        self.error: DmError | None = None
        self._troubles: dict[str, DmError] = {}
        """Of relays that can be done without for a time, by source."""
        self._kept = [_keep(upstream, meta_url, log_dir) for upstream in upstreams]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="relays", daemon=True)

    def __enter__(self) -> Self:
        for kept in self._kept:
            _start(kept)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        for kept in self._kept:
            if kept.process is not None:
                kept.process.stop(STOP_SECONDS)

    def failure(self, app: App) -> DmError | None:
        """Return why this app cannot go on. A sync can without a shared relay; a load needs it from its beginning."""
        if self.error is not None or app == "incremental_sync":
            return self.error
        return next(iter(list(self._troubles.values())), None)

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_EVERY_SECONDS):
            for kept in self._kept:
                try:
                    self._look_after(kept)
                except DmError as error:
                    self._give_up(error)
            if self.error is not None:
                return

    def _look_after(self, kept: _Kept) -> None:
        now = time.monotonic()
        if kept.process is None:
            if now >= kept.start_at:
                self._troubles.pop(kept.upstream.source_id, None)
                _start(kept)
            return
        if kept.process.alive():
            return
        lived = now - kept.started_at
        deaths = 1 if lived >= STEADY_SECONDS else kept.deaths + 1
        tail = _tail(kept.log_path, kept.log_from)
        decision = after_end(
            kept.upstream.source_id,
            exit_code=kept.process.exit_code() or 0,
            reported=reported_in(tail),
            deaths=deaths,
            log_path=kept.log_path,
            tail=kept.secrets.masked(tail),
            replaceable=kept.upstream.spool is None and kept.upstream.fallback_dir is not None,
        )
        kept.process = None
        source = kept.upstream.source_id
        match decision:
            case Restart(pause):
                log.warning("the relay of %s ended after %.1f s, %d in a row; restarting", source, lived, deaths)
                kept.deaths, kept.start_at = deaths, now + pause * random.uniform(0.8, 1.2)
            case StandBack(pause):
                kept.deaths, kept.start_at = 0, now + pause
            case DoWithout(error, pause):
                log.error("%s A sync pulls from the upstream itself until the relay works again.", error)
                self._troubles[source] = error
                kept.deaths, kept.start_at = 0, now + pause
            case GiveUp(error):
                self._give_up(error)

    def _give_up(self, error: DmError) -> None:
        if self.error is None:
            self.error = error


def _keep(upstream: Upstream, meta_url: Secret, log_dir: Path) -> _Kept:
    secrets = SecretEnvironment()
    spec = RelaySpec(
        source=source_spec(upstream, secrets),
        meta_url=secrets.reference("META", "meta", meta_url),
        spool=upstream.spool,
        launcher_pid=os.getpid(),
        until="stopped",
    )
    return _Kept(upstream, spec, secrets, log_dir / f"relay-{quoted(upstream.source_id)}.log")


def _start(kept: _Kept) -> None:
    """Start the relay, unless another one writes the directory: then it is looked at again."""
    prepare_relay_directory(kept.upstream.config, kept.upstream.relay_dir)
    holder = holder_of(kept.upstream.relay_dir)
    if holder is not None:
        if not kept.standing_by:
            log.info("another relay serves %s (%s)", kept.upstream.source_id, holder)
        kept.standing_by, kept.start_at = True, time.monotonic() + STAND_BY_SECONDS
        return
    kept.standing_by = False
    kept.log_from = kept.log_path.stat().st_size if kept.log_path.exists() else 0
    kept.process = RelayProcess.start(kept.spec, {**os.environ, **kept.secrets.variables}, kept.log_path)
    kept.started_at = time.monotonic()


def _tail(path: Path, start: int) -> str:
    """Return the end of a log file, from `start` at the earliest; empty when there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(start, path.stat().st_size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
