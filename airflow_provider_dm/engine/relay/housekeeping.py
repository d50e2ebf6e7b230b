"""The relay's own purge: a second thread, under the same lock as the pull loop, removes files periodically.

The relay log of a source is purged according to `purge` in source.yaml: every `interval` seconds, the oldest files
until `remain-space` is free, and files older than `expires`. A relay that ends before its first purge purges at its
end, unless no task of the source is known yet: the first task may begin after the relay's run. A private log (a spool)
is purged every few seconds up to its task's location. A file that a task needs is never removed (purge.py); a failure
is logged, and the purge is repeated after the interval.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.errors import DmError, TransientErrorsLogged
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.relay.purge import Inactive, LogNeed, PurgeRequest, needs_of
from airflow_provider_dm.engine.relay.purge_files import purge, restore_hidden
from airflow_provider_dm.engine.relay.purge_order import obey, requests_for
from airflow_provider_dm.engine.relay.spec import RelaySpec

log = logging.getLogger(__name__)

FIRST_CHECK_SECONDS: Final = 60.0
"""Time for the launcher of this relay to record what it needs, before anything is removed."""
SPOOL_SECONDS: Final = 3.0
ORDER_SECONDS: Final = 1.0
"""Interval between two checks for an order."""


@dataclass
class Housekeeper:
    """The relay's own purge, a context manager to be used under the directory's lock and before recovery: it first
    restores the files that a crashed purge left hidden."""

    spec: RelaySpec
    store: MetaStore
    _ended: threading.Event = field(default_factory=threading.Event)
    _check_lock: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.Thread | None = None
    _logged: str = ""
    _has_checked: bool = False

    def __enter__(self) -> Housekeeper:
        """Restore hidden files, then start the thread. Raises RelayDiskFailed."""
        restore_hidden(self._root)
        if self._every or self.spec.spool is None:
            self._thread = threading.Thread(target=self._loop, name="relay-purge", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        """End the thread. A relay that ends before its first purge purges now: all its runs may be short."""
        self._ended.set()
        if self._thread is None:
            return
        self._thread.join()
        if error is None and self.spec.spool is None and not self._has_checked and self._task_is_known():
            self.purge_now()

    def _task_is_known(self) -> bool:
        """Return True if a task has ever recorded what it needs; also if the metadata DB does not answer."""
        try:
            return bool(self.store.list_subtasks(source=self.spec.source.config.source_id))
        except DmError:
            return True  # the purge reports the error

    def purge_now(self) -> int:
        """Purge now, for example for a full disk, and return the bytes freed. Errors are logged."""
        with self._check_lock:
            try:
                return self._check()
            except (DmError, OSError) as error:
                self._log_once(f"nothing could be purged: {error}")
                return 0

    @property
    def _root(self) -> Path:
        return Path(self.spec.source.relay_dir)

    @property
    def _every(self) -> float:
        """Seconds between two purges; 0: never."""
        config = self.spec.source.config.purge
        if self.spec.spool is not None:
            return SPOOL_SECONDS
        return float(config.interval if config.expires or config.remain_space else 0)

    def _loop(self) -> None:
        check_at = time.monotonic() + min(self._every, FIRST_CHECK_SECONDS)
        while not self._ended.wait(ORDER_SECONDS):
            if self.spec.spool is None:
                self._obey()
            if self._every and time.monotonic() >= check_at:
                self.purge_now()
                check_at = time.monotonic() + self._every

    def _obey(self) -> None:
        """Carry out a purge that was ordered. If the metadata DB is not reachable, retry."""
        with self._check_lock, TransientErrorsLogged(log.debug):
            obey(self.store, self.spec.source.config.source_id, self._root)

    def _check(self) -> int:
        self._has_checked = True
        is_private = self.spec.spool is not None
        requests: tuple[PurgeRequest, ...] = (Inactive(),)
        if not is_private:
            requests = requests_for(self.spec.source.config.purge, self._root)
        if not requests or (is_private and not self._needs()):
            return 0  # the task of a private log has just begun
        report = purge(self.spec.source.config.source_id, self._root, self._needs, *requests)
        if report.kept and not is_private:
            self._log_once(f"not all files that are due for removal are removed. {report.kept}")
        if report.files:
            log.info("removed %s", report)
        return report.size

    def _needs(self) -> Sequence[LogNeed]:
        spool = self.spec.spool
        statuses = self.store.list_subtasks(source=self.spec.source.config.source_id)
        return needs_of(statuses, only_task=spool.task if spool else None)

    def _log_once(self, text: str) -> None:
        """Log the text unless it is the same as the last one."""
        if text != self._logged:
            log.warning("%s", text)
            self._logged = text
