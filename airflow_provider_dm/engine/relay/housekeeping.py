"""The relay's own purge: looks now and then for files that may go, beside the pull loop and under the same lock.

A relay log that all tasks share is purged as `purge` in source.yaml says: every `interval` seconds, the oldest files
until `remain-space` is free, and files older than `expires`; a relay that ends before its first look purges at its
end, unless no task of the source is known yet: the first one may begin behind the relay's run. A private log (a spool)
is purged every few seconds of whatever its task is past. What a task needs always stays (purge.py); a look that fails
is logged, and the next one comes.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.config.source import PurgeConfig
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.relay.purge import (
    BeforeTime,
    FreeSpace,
    Inactive,
    Need,
    PurgeRequest,
    needs_of,
    plan_purge,
)
from airflow_provider_dm.engine.relay.purge_files import purge, restore_hidden, survey
from airflow_provider_dm.engine.relay.spec import RelaySpec

log = logging.getLogger(__name__)

FIRST_LOOK_SECONDS: Final = 60.0
"""Whoever started this relay has so long to say what it needs, before anything goes."""
SPOOL_SECONDS: Final = 3.0
GIGABYTE: Final = 1 << 30
HOUR: Final = 3600.0


def requests_of(config: PurgeConfig, *, free_bytes: int, now: float) -> tuple[PurgeRequest, ...]:
    """Return what source.yaml wants to be purged `now` (seconds since 1970). Nothing with `interval: 0`, as in DM."""
    requests: list[PurgeRequest] = []
    missing = config.remain_space * GIGABYTE - free_bytes
    if config.interval and missing > 0:
        requests.append(FreeSpace(missing))
    if config.interval and config.expires:
        requests.append(BeforeTime(now - config.expires * HOUR))
    return tuple(requests)


def requests_for(config: PurgeConfig, root: Path) -> tuple[PurgeRequest, ...]:
    """Return what source.yaml wants to be purged of the relay log in `root` now. Raises OSError."""
    disk = os.statvfs(root)
    return requests_of(config, free_bytes=disk.f_bavail * disk.f_frsize, now=time.time())


@dataclass
class Housekeeper:
    """The relay's own purge. Use it with `with`, under the directory's lock and before recovery: it first undoes what a
    crashed purge left."""

    spec: RelaySpec
    store: MetaStore
    _ended: threading.Event = field(default_factory=threading.Event)
    _looking: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.Thread | None = None
    _said: str = ""
    _has_looked: bool = False

    def __enter__(self) -> Housekeeper:
        """Restore hidden files, then start to look now and then. Raises PurgeFailed."""
        restore_hidden(self._root)
        if self._every:
            self._thread = threading.Thread(target=self._loop, name="relay-purge", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        """End the looks. A relay that ends well before its first look purges now: all runs of it may be so short."""
        self._ended.set()
        if self._thread is None:
            return
        self._thread.join()
        if error is None and self.spec.spool is None and not self._has_looked and self._task_is_known():
            self.purge_now()

    def _task_is_known(self) -> bool:
        """Return True if a task has said what it needs of the source's log, ever; also if the metadata DB is mute."""
        try:
            return bool(self.store.list_subtasks(source=self.spec.source.config.source_id))
        except DmError:
            return True  # the look says so

    def purge_now(self) -> int:
        """Look for files that may go now, as for a disk that is full, and return the bytes freed. Errors are logged."""
        with self._looking:
            try:
                return self._look()
            except (DmError, OSError) as error:
                self._say(f"nothing could be purged: {error}")
                return 0

    @property
    def _root(self) -> Path:
        return Path(self.spec.source.relay_dir)

    @property
    def _every(self) -> float:
        """Seconds between looks; 0: never."""
        config = self.spec.source.config.purge
        if self.spec.spool is not None:
            return SPOOL_SECONDS
        return float(config.interval if config.expires or config.remain_space else 0)

    def _loop(self) -> None:
        pause = min(self._every, FIRST_LOOK_SECONDS)
        while not self._ended.wait(pause):
            self.purge_now()
            pause = self._every

    def _look(self) -> int:
        self._has_looked = True
        requests = self._requests()
        if not requests:
            return 0
        source, needs = self.spec.source.config.source_id, self._needs()
        if self.spec.spool is not None and not needs:
            return 0  # its task has only just begun
        plan = plan_purge(survey(source, self._root), needs, *requests)
        if plan.held_by and self.spec.spool is None:
            self._say(f"{len(plan.kept)} files would go and are kept. {plan.held_by}")
        if not plan.delete:
            return 0
        purged = purge(plan, self._needs)
        if purged.deleted:
            log.info("purged %d files, %d bytes, up to %s", len(purged.deleted), purged.size, purged.deleted[-1])
        return purged.size

    def _requests(self) -> tuple[PurgeRequest, ...]:
        if self.spec.spool is not None:
            return (Inactive(),)
        return requests_for(self.spec.source.config.purge, self._root)

    def _needs(self) -> Sequence[Need]:
        spool = self.spec.spool
        statuses = self.store.list_subtasks(source=self.spec.source.config.source_id)
        return needs_of(statuses, only_task=spool.task if spool else None)

    def _say(self, text: str) -> None:
        """Log it once, until there is something else to say."""
        if text != self._said:
            log.warning("%s", text)
            self._said = text
