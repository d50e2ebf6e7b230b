"""The growing file: bytes in order, on disk at least every second, and published only after verification.

The size of the file is its published offset: only complete, verified events are written, each batch with one write
call, so a reader in another process may use all bytes. An incomplete end exists only after a crash during a write;
recovery removes it, and readers stop before it. A new file is created complete (magic and format description) under its
name, after its predecessor is on disk: the existence of a successor means "finished".

A failed fsync is never repeated: the kernel may have dropped the pages. The writer ends, and recovery verifies the
file.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.binlog.format import MAGIC
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.gtid import GtidSet
from airflow_provider_dm.engine.mysql.location import BINLOG_HEADER_SIZE, BinlogFile, Location
from airflow_provider_dm.engine.relay.directory import RelayDirectory, SubDir
from airflow_provider_dm.engine.relay.durable import disk_error, disk_errors, write_all, write_durably
from airflow_provider_dm.engine.relay.errors import RelayDiskFailed
from airflow_provider_dm.engine.relay.gtid_tracker import GtidTracker
from airflow_provider_dm.engine.relay.meta import RelayMeta
from airflow_provider_dm.engine.relay.recovery import Recovered, boundary_after

log = logging.getLogger(__name__)

SYNC_SECONDS: Final = 1.0
_MADE: Final = 9
"""The first bytes of an event's header: its time, type and server. They distinguish a file from another of its name."""
SCAN_LIMIT: Final = 64 << 20
"""In reports, a longer last transaction counts as incomplete until the next one begins."""


@dataclass
class RelayWriter:
    """The writer of one sub-directory, under its lock. `size` is 0 while the file does not exist yet."""

    directory: RelayDirectory
    sub_dir: SubDir
    flavour: Flavour
    file: BinlogFile
    size: int = 0
    begun: int = BINLOG_HEADER_SIZE
    """Beginning of the last transaction: everything before it is complete."""
    carried: GtidSet | None = None
    """The transactions in older sub-directories; None without them."""
    tracker: GtidTracker = field(init=False)
    _descriptor: int = -1
    _dirty: bool = False
    _syncer: _Syncer = field(init=False)

    def __post_init__(self) -> None:
        self.tracker = GtidTracker(self.flavour, self.carried or GtidSet.empty(self.flavour))
        self._syncer = _Syncer()

    @classmethod
    def resume(
        cls, directory: RelayDirectory, sub_dir: SubDir, flavour: Flavour, recovered: Recovered, carried: GtidSet | None
    ) -> RelayWriter:
        """Continue at the end of a recovered file. Raises RelayDiskFailed."""
        # Dirty: pages in the cache from the previous writer are not on disk yet.
        writer = cls(directory, sub_dir, flavour, recovered.file, recovered.size, recovered.begun, carried, _dirty=True)
        writer.tracker.restart(recovered.gtid_set)
        writer._open()
        return writer

    @property
    def folder(self) -> Path:
        return self.directory.folder(self.sub_dir)

    @property
    def path(self) -> Path:
        return self.folder / str(self.file)

    def create(self, event: bytes) -> None:
        """Create the file: magic and format description, durable and under its name in one step."""
        write_durably(self.path, MAGIC + event)
        self._open()
        self.size, self.begun, self._dirty = BINLOG_HEADER_SIZE + len(event), BINLOG_HEADER_SIZE, True

    def _open(self) -> None:
        with disk_errors(self.path):
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._syncer.watch(self._descriptor)

    def append(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Append verified events at `size`. Raises RelayDiskFull or RelayDiskFailed, after cutting the file back."""
        self._syncer.check(self.path)
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        try:
            # At an explicit offset, not at the end: if the lock fails, a second writer writes the same bytes there.
            write_all(self._descriptor, data, self.size)
        except OSError as error:
            self._cut_back()
            raise disk_error(self.path, error) from error
        self.size += len(data)
        self._dirty = True
        self._syncer.written()

    def begin_transactions(self, gtid_heads: list[bytes], begun: int) -> None:
        """Record the first bytes of the GTID events that were appended; the last of them begins at `begun`."""
        self.tracker.saw(gtid_heads)
        self.begun = begun

    def _cut_back(self) -> None:
        """Cut the file back to the last transaction boundary after an incomplete write; this needs no disk space."""
        try:
            os.ftruncate(self._descriptor, self.size)
            self.discard_open()
        except (OSError, DmError) as error:
            log.warning("%s could not be cut back (%s); the next start will do it", self.path, error)

    def discard_open(self) -> None:
        """Cut off an incomplete transaction: it is sent again, or it was never committed.

        Raises OSError, and the errors of the scan for the boundary.
        """
        if not self.size:
            return
        boundary = self._boundary()
        if boundary < self.size:
            log.warning("%s: cutting off the incomplete transaction after %d", self.path, boundary)
            os.ftruncate(self._descriptor, boundary)
            self.tracker.forget_open()
            self.size, self._dirty = boundary, True
            self._syncer.written()

    def holds(self, position: int, event: memoryview) -> bool:
        """Return True if the file has exactly these bytes at `position`."""
        return os.pread(self._descriptor, len(event), position) == event

    def check_is_only_relay(self) -> None:
        """Raise RelayDiskFailed if the file does not have the size that this writer has written."""
        if self.size and (size := os.fstat(self._descriptor).st_size) != self.size:
            raise RelayDiskFailed(str(self.path), f"its size is {size} bytes instead of {self.size}")

    def has_first_event(self, header: bytes) -> bool:
        """Return True if the time, type and server of the file's first event are those in `header`."""
        return os.pread(self._descriptor, _MADE, BINLOG_HEADER_SIZE) == header[:_MADE]

    def rotate_to(self, file: BinlogFile) -> None:
        """Finish this file; the next one is created with its format description."""
        if self.size:
            self.save()
            if self._boundary() < self.size:
                self.tracker.forget_open()  # the source crashed in it; its GTID may be reused
            self._syncer.unwatch()
            os.close(self._descriptor)
        self.file, self.size, self.begun, self._descriptor = file, 0, BINLOG_HEADER_SIZE, -1

    def save(self) -> Location:
        """Force the data to disk, then record it in relay.meta, up to the last transaction boundary.

        Raises RelayDiskFull or RelayDiskFailed.
        """
        here = self.location(exact=True)
        if self._dirty:
            self._syncer.sync_now(self.path)
            RelayMeta(here.file, self._boundary(), here.gtid_set).write(self.folder)
            self._dirty = False
        return here

    def location(self, *, exact: bool = False) -> Location:
        """Return the end of the log, with the set of complete transactions.

        Only if `exact`, a very long last transaction is checked for completeness.
        """
        gtid_set = self._gtid_set(scan=exact or self.size - self.begun <= SCAN_LIMIT)
        size = max(self.size, BINLOG_HEADER_SIZE)
        return Location(str(self.file), size, str(gtid_set), self.sub_dir.suffix, self.sub_dir.server_uuid)

    def _boundary(self) -> int:
        """Return the file's last transaction boundary. Raises RelayDiskFailed if the file was removed."""
        with disk_errors(self.path):
            return boundary_after(self.path, self.begun)

    def _gtid_set(self, *, scan: bool) -> GtidSet:
        at_boundary = not self.size or (scan and self._boundary() == self.size)
        return self.tracker.complete(boundary=at_boundary)

    def close(self, *, save: bool = True) -> None:
        """End the writer; save if possible, unless another writer has the files. Raises the errors of `save`."""
        try:
            if save and self.size:
                self.save()
        finally:
            self._syncer.end()
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1


class _Syncer:
    """A thread that forces the open file to disk every second, so that pulling does not wait for the disk."""

    def __init__(self) -> None:
        self._dirty = False
        self._descriptor = -1
        self._failed: OSError | None = None
        self._busy = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="relay-fsync", daemon=True)
        self._thread.start()

    def _loop(self) -> None:
        while not self._ended.wait(SYNC_SECONDS):
            with self._busy:
                if self._dirty and self._descriptor >= 0 and self._failed is None:
                    self._dirty = False
                    self._sync()

    def _sync(self) -> None:
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            self._failed = error

    def watch(self, descriptor: int) -> None:
        with self._busy:
            self._descriptor, self._dirty = descriptor, False

    def written(self) -> None:
        self._dirty = True

    def unwatch(self) -> None:
        self.watch(-1)

    def sync_now(self, path: Path) -> None:
        """Force the data to disk now. Raises RelayDiskFailed, also for a failure of the thread."""
        with self._busy:
            if self._failed is None:
                self._dirty = False
                self._sync()
        self.check(path)

    def check(self, path: Path) -> None:
        if self._failed is not None:  # even if the disk was only full, the content on disk is unknown
            raise RelayDiskFailed(str(path), f"fsync: {self._failed.strerror}") from self._failed

    def end(self) -> None:
        self._ended.set()
        self.unwatch()
        self._thread.join()
