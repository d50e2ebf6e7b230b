"""One writer per relay directory: an exclusive lock that dies with its holder, and a generation that outlives it.

The lock belongs to the open file, so the kernel frees it however the process ends; a stale file means nothing.
Its content is the number of writers that there have been, and who the last one is. On a file system whose locks do not
exclude (some network ones) the number does: the older writer finds a newer one and ends.
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

from airflow_provider_dm.engine.errors import DmError, Reaction
from airflow_provider_dm.engine.relay.durable import RelayDirectoryUnusable, RelayDiskFull, disk_error

LOCK: Final = "relay.lock"
INDEX_LOCK: Final = "index.lock"
_ATTEMPTS: Final = 5
_PAUSE_SECONDS: Final = 0.02


class RelayLocked(DmError):
    directory: str
    holder: str

    code = "DM-4005"
    what = "another relay writes into {directory} ({holder})."
    hint = "One relay serves all tasks of a source. Give every source its own relay-dir."


class RelayFenced(DmError):
    directory: str
    generation: int
    holder: str

    code = "DM-4033"
    reaction = Reaction.FENCED
    what = "the relay of generation {generation} no longer holds the lock of {directory}; the lock says: {holder}."
    hint = (
        "Somebody removed relay.lock, or locks do not exclude on this file system. Leave the file alone, and put "
        "relay-dir on a local disk."
    )


@dataclass(frozen=True)
class SoleWriter:
    """The holder of a directory's lock. `generation` rises by one with every writer."""

    root: Path
    generation: int
    _descriptor: int

    def check(self) -> None:
        """Raise RelayFenced when somebody took the directory over all the same."""
        said = _read(self._descriptor)
        if _generation(said) != self.generation or not self._is_in_place():
            raise RelayFenced(str(self.root), self.generation, said or "holder unknown")

    def _is_in_place(self) -> bool:
        """Tell whether the lock file is still there: one that somebody removed excludes nobody."""
        try:
            return os.path.samestat((self.root / LOCK).lstat(), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False


@contextmanager
def sole_writer(root: Path) -> Iterator[SoleWriter]:
    """Hold the directory's lock. Raises RelayLocked at once when somebody else has it.

    Raises RelayDirectoryUnusable, RelayDiskFull, RelayDiskFailed.
    """
    descriptor = _opened(root / LOCK)
    try:
        if not _locked(descriptor):
            raise RelayLocked(str(root), _read(descriptor) or "holder unknown")
        generation = _generation(_read(descriptor)) + 1
        try:
            _sign(descriptor, generation)
        except OSError as error:
            raise disk_error(root / LOCK, error) from error
        yield SoleWriter(root, generation, descriptor)
    finally:
        os.close(descriptor)


def holder_of(root: Path) -> str | None:
    """Return who writes into this directory now; None: nobody. Costs next to nothing, unlike a relay started to see.

    It holds the lock itself for that moment, which a writer that begins outwaits.
    """
    try:
        descriptor = os.open(root / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # what is wrong, if anything, a relay says
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(descriptor) or "holder unknown"
    finally:
        os.close(descriptor)
    return None


@contextmanager
def index_lock(root: Path) -> Iterator[None]:
    """Lock the rewriting of `server-uuid.index`: writers and purges take turns, threads and processes alike.

    Raises RelayDirectoryUnusable, RelayDiskFull.
    """
    descriptor = _opened(root / INDEX_LOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    """Try to take the lock; False where a writer holds it for good. Somebody who only looks is waited for."""
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


def _sign(descriptor: int, generation: int) -> None:
    content = f"generation {generation}, process {os.getpid()} on {socket.gethostname()}\n".encode()
    os.pwrite(descriptor, content, 0)  # before it is cut: the number is never gone
    os.ftruncate(descriptor, len(content))
    os.fsync(descriptor)


def _read(descriptor: int) -> str:
    return os.pread(descriptor, 200, 0).decode("utf-8", "replace").partition("\n")[0]


def _generation(said: str) -> int:
    match = re.match(r"generation (\d{1,18}),", said, re.ASCII)
    return int(match[1]) if match else 0
