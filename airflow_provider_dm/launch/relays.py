"""Keeps a relay process running for every source, as long as an app runs.

An app reads binlogs from relay directories only, so each source needs a relay that writes one. A source with
`enable-relay: true` has its own directory, shared by its tasks: if a relay (of `dmctl start-relay` or an operator)
already writes it, none is started here while that relay runs. Every other source gets a private directory below the
task, bounded by `spool-limit-mb` (engine/relay/spool.py).

A relay reconnects automatically. It ends on request, by a permanent error (exit code 2), or if it crashes; after a
crash it is restarted with growing delays. If the relay of a private directory fails, the work ends. A shared relay may
be unavailable for a time, as the sync then pulls for itself (engine/sync/log/tail.py): it is retried later.

A private directory is removed when the work is finished (`remove_private_logs`), as the next run can start at its
checkpoint; after a stop or a failure it is kept, because the upstream may purge its contents.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal, Self, assert_never

from airflow_provider_dm.engine.config.job import UNTIL_FOREVER, place_of
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.downstream.subtask import Subtask, noted_place
from airflow_provider_dm.engine.errors import LONGEST_FIELD, DmError
from airflow_provider_dm.engine.meta.records import Stage, SubtaskStatus
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret
from airflow_provider_dm.engine.relay.directory_lock import sole_writer
from airflow_provider_dm.engine.relay.held_start import start_without_effect
from airflow_provider_dm.engine.relay.keeper import (
    LONGEST_PAUSE_SECONDS,
    EndedByCrash,
    EndedByError,
    EndedOnRequest,
    KeptRelay,
)
from airflow_provider_dm.engine.relay.spec import RelaySpec, SpoolSpec
from airflow_provider_dm.launch.errors import RelayFailed, RelayKeepsDying, RelayStopped
from airflow_provider_dm.launch.job import AppName, Upstream, source_spec
from airflow_provider_dm.launch.secrets import PassedSecrets, inherited
from airflow_provider_dm.launch.workdir import TaskDir, path_name, private_directory, shared_relay

CHECK_EVERY_SECONDS: Final = 0.5
STOP_SECONDS: Final = 5.0

log = logging.getLogger(__name__)


# Directories of relay logs


def prepare_shared_relay(config: SourceConfig, path: Path) -> None:
    """Prepare the directory of a shared relay log; warn if its configured start no longer has an effect.

    Raises InvalidInput.
    """
    what, remedy = start_without_effect(config, path)
    if what:
        log.warning("%s. %s", what, remedy)
    prepare_relay_directory(config, path)


def prepare_relay_directory(config: SourceConfig, path: Path) -> None:
    """Make the directory private; a directory outside of the work directory keeps the mode that the user set.

    Raises InvalidInput.
    """
    if not Path(config.relay_dir).expanduser().is_absolute():
        private_directory(path)


def upstream_of(
    task: TaskConfig,
    config: SourceConfig,
    endpoint: Endpoint,
    directory: TaskDir,
    *,
    known: Subtask | None = None,
    until: str = UNTIL_FOREVER,
) -> Upstream:
    """Return a source of a task with the directories of its logs. `known`: the state of its subtask in the target.

    Raises InvalidLocation for a bad `meta` of the task.
    """
    start = noted_place(known, task.subtask(config.source_id).start)
    limit = config.spool_limit_mb << 20
    private = SpoolSpec(task=task.name, limit_bytes=limit, start=start, until=place_of(until))
    return Upstream(
        config=config,
        endpoint=endpoint,
        relay_dir=(
            shared_relay(directory.root, config.source_id, config.relay_dir)
            if config.enable_relay
            else directory.private_relay(config.source_id)
        ),
        fallback_dir=directory.fallback_relay(config.source_id),
        spool=None if config.enable_relay else private,
    )


def remove_private_logs(upstreams: Sequence[Upstream], subtasks: Sequence[SubtaskStatus]) -> None:
    """Remove the logs that were pulled for this task only: the work is finished and the relays have ended.

    `subtasks`: the state of the task's sources. A log is kept if its source needs events before its checkpoint, for
    held-back rows or prepared XA transactions; if its end could not be recorded, as its needs are then unknown; and if
    the relay of another run writes to it already.
    """
    unfinished = {one.source for one in subtasks if not _has_ended(one) or _needs_log_before_checkpoint(one)}
    for upstream in upstreams:
        if upstream.config.source_id in unfinished:
            continue
        if not upstream.config.enable_relay and upstream.relay_dir.exists():
            with contextlib.suppress(DmError), sole_writer(upstream.relay_dir):
                shutil.rmtree(upstream.relay_dir, ignore_errors=True)
        if upstream.fallback_dir is not None:
            shutil.rmtree(upstream.fallback_dir, ignore_errors=True)


def _has_ended(subtask: SubtaskStatus) -> bool:
    """Return True if the last report is that of a sync that ended; the location is of the same report."""
    return subtask.stage in (Stage.STOPPED, Stage.FINISHED) and subtask.applied is not None


def _needs_log_before_checkpoint(subtask: SubtaskStatus) -> bool:
    return bool(subtask.needed and subtask.applied and subtask.needed.sort_key < subtask.applied.sort_key)


# Supervising


def error_of(
    source: str,
    end: EndedOnRequest | EndedByError | EndedByCrash,
    *,
    deaths: int,
    log_path: Path,
    masked: Callable[[str], str],
) -> DmError:
    """Return the error to raise for this end of a relay."""
    match end:
        case EndedOnRequest():
            return RelayStopped(source)
        case EndedByError(error):
            return RelayFailed(source, error)
        case EndedByCrash(_, tail):
            # A message shows only the beginning of a long field.
            return RelayKeepsDying(source, deaths, str(log_path), masked(tail)[-LONGEST_FIELD:])
        case _:
            assert_never(end)


class Relays:
    """The relays of some sources: each is started, and restarted after a crash, until the `with` block ends.

    They inherit the environment without secrets. `error`: the final failure of a relay; the owner of the block checks
    it, or `failure`, while waiting.
    """

    def __init__(self, upstreams: Sequence[Upstream], *, meta_url: Secret, log_dir: Path) -> None:
        self.error: DmError | None = None
        self._shared_failures: dict[str, DmError] = {}
        """Failures of relays that may be unavailable for a time, by source."""
        self._meta_url = meta_url
        self._kept = [(upstream, *_keeper(upstream, meta_url, log_dir)) for upstream in upstreams]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="relays", daemon=True)

    def __enter__(self) -> Self:
        self._withdraw_stop_requests()
        for upstream, kept, _ in self._kept:
            prepare = prepare_shared_relay if upstream.spool is None else prepare_relay_directory
            prepare(upstream.config, upstream.relay_dir)
            kept.check()
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()
        for _, kept, _ in self._kept:
            kept.stop(STOP_SECONDS)

    def failure(self, app: AppName) -> DmError | None:
        """Return the failure that ends this app. A sync continues without a shared relay, because it can pull for
        itself; a load cannot."""
        if self.error is not None or app == "incremental_sync":
            return self.error
        return next(iter(list(self._shared_failures.values())), None)

    def _withdraw_stop_requests(self) -> None:
        """Withdraw an earlier `stop-relay` before any relay starts; otherwise the relay would end. A
        user's `pause-relay` is valid until `resume-relay`.
        """
        with MetaStore.open(self._meta_url) as store:
            for upstream, _, _ in self._kept:
                if store.relay_desired(upstream.source_id) is Stage.STOPPED:
                    store.set_relay_desired(upstream.source_id, Stage.RUNNING)

    def _watch(self) -> None:
        while self.error is None and not self._stop.wait(CHECK_EVERY_SECONDS):
            for upstream, kept, masked in self._kept:
                self._supervise(upstream, kept, masked)

    def _supervise(self, upstream: Upstream, kept: KeptRelay, masked: Callable[[str], str]) -> None:
        source = upstream.source_id
        if not kept.is_start_delayed():
            self._shared_failures.pop(source, None)
        end = kept.check()
        if end is None:
            return
        error = error_of(source, end, deaths=kept.deaths, log_path=kept.log_path, masked=masked)
        if upstream.spool is None and upstream.fallback_dir is not None:
            log.error("%s Syncs pull from the upstream meanwhile, if it has the same log.", error)
            self._shared_failures[source] = error
            kept.delay_start(LONGEST_PAUSE_SECONDS)
        else:
            self.error = self.error or error


def relay_spec(
    upstream: Upstream, meta_url: Secret, *, until: Literal["stopped", "caught-up"], launcher_pid: int | None
) -> tuple[RelaySpec, PassedSecrets]:
    """Return the input of a relay process for this source, and the secrets that it refers to."""
    secrets = PassedSecrets()
    source, url = source_spec(upstream, secrets), secrets.reference("META", "meta", meta_url)
    spec = RelaySpec(source=source, meta_url=url, spool=upstream.spool, launcher_pid=launcher_pid, until=until)
    return spec, secrets


def _keeper(upstream: Upstream, meta_url: Secret, log_dir: Path) -> tuple[KeptRelay, Callable[[str], str]]:
    """Return the keeper of a source's relay, and a function that masks its secrets in a text."""
    spec, secrets = relay_spec(upstream, meta_url, until="stopped", launcher_pid=os.getpid())
    log_path = log_dir / f"relay-{path_name(upstream.source_id)}.log"
    return KeptRelay(spec, {**inherited(), **secrets.by_name}, log_path), secrets.masked
