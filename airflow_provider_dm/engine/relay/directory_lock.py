"""One writer per relay directory: an exclusive lock that the kernel releases with its holder, and a generation that
only grows.

The lock belongs to the open file, so the kernel releases it however the process ends; the file itself may remain. Its
content is the number of writers so far, and the last writer's identity. Some network file systems do not enforce locks.
There the generation excludes the older writer: it reads a newer number and ends.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.relay.durable import disk_error, disk_errors
from airflow_provider_dm.engine.relay.errors import RelayDirectoryUnusable, RelayDiskFull, RelayFenced, RelayLocked

LOCK: Final = "relay.lock"
INDEX_LOCK: Final = "index.lock"
_ATTEMPTS: Final = 5
_PAUSE_SECONDS: Final = 0.02


@dataclass(frozen=True)
class SoleWriter:
    """The holder of a directory's lock. `generation` is incremented by every writer."""

    root: Path
    generation: int
    _descriptor: int

    def check(self) -> None:
        """Raise RelayFenced if another writer has taken over the directory, or may do so."""
        if not self.is_held():
            raise RelayFenced(str(self.root), self.generation, holder_in(self._descriptor))

    def is_held(self) -> bool:
        """Return True if the lock file is in place (a removed one excludes no other writer) and we signed it last."""
        try:
            in_place = os.path.samestat((self.root / LOCK).lstat(), os.fstat(self._descriptor))
        except OSError:
            return False
        return in_place and _generation(holder_in(self._descriptor)) == self.generation


@contextmanager
def sole_writer(root: Path) -> Iterator[SoleWriter]:
    """Hold the directory's lock. Raises RelayLocked at once if another process holds it.

    Raises RelayDirectoryUnusable, RelayDiskFull, RelayDiskFailed.
    """
    descriptor = _opened(root / LOCK)
    try:
        if not try_lock(descriptor):
            raise RelayLocked(str(root), holder_in(descriptor))
        generation = _generation(holder_in(descriptor)) + 1
        with disk_errors(root / LOCK):
            sign(descriptor, f"generation {generation}, ")
            os.fsync(descriptor)
        yield SoleWriter(root, generation, descriptor)
    finally:
        os.close(descriptor)


def holder_of(root: Path) -> str | None:
    """Return the current writer of this directory; None if there is none. Much cheaper than starting a relay.

    Takes the lock for a moment, for which a starting writer waits.
    """
    try:
        descriptor = os.open(root / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # a relay would report the cause
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return holder_in(descriptor)
    finally:
        os.close(descriptor)
    return None


@contextmanager
def index_lock(root: Path) -> Iterator[None]:
    """Lock the rewriting of `server-uuid.index`: excludes other writers and purges, both threads and processes.

    Raises RelayDirectoryUnusable, RelayDiskFull.
    """
    descriptor = _opened(root / INDEX_LOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Try to take a file's lock; False if another process keeps it. If a process only checks the lock, wait for it."""
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE_SECONDS)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        return True
    return False


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
    except OSError as error:
        known = disk_error(path, error)
        if isinstance(known, RelayDiskFull):
            raise known from error
        raise RelayDirectoryUnusable(str(path.parent), f"{path.name}: {error.strerror or error}") from error


def sign(descriptor: int, prefix: str = "") -> None:
    """Write our identity into a lock file."""
    content = f"{prefix}process {os.getpid()} on {socket.gethostname()}\n".encode()
    os.pwrite(descriptor, content, 0)  # before truncating: the generation must never be lost
    os.ftruncate(descriptor, len(content))


def holder_in(descriptor: int) -> str:
    """Return the holder's text in a lock file, or that it is unknown."""
    try:
        content = os.pread(descriptor, 200, 0)
    except OSError:
        return "holder unknown"
    return content.decode("utf-8", "replace").partition("\n")[0] or "holder unknown"


def _generation(holder: str) -> int:
    match = re.match(r"generation (\d{1,18}),", holder, re.ASCII)
    return int(match[1]) if match else 0
