"""One writer per relay directory: an exclusive lock that dies with its holder.

The lock belongs to the open file, so the kernel frees it however the process ends; a stale file means nothing.
Its content is only for the message that a second writer shows.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from airflow_provider_dm.engine.errors import DmError

LOCK: Final = "relay.lock"


@dataclass(eq=False)
class RelayLocked(DmError):
    """Another relay writes into this directory."""

    directory: str
    holder: str

    code: ClassVar[str] = "DM-4005"
    what: ClassVar[str] = "another relay writes into {directory} ({holder})."
    hint: ClassVar[str] = "One relay serves all tasks of a source. Give every source its own relay-dir."


@contextmanager
def sole_writer(root: Path) -> Iterator[None]:
    """Hold the directory's lock. Raises RelayLocked at once when somebody else has it."""
    descriptor = os.open(root / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 200, 0).decode("utf-8", "replace").strip()
            raise RelayLocked(str(root), holder or "holder unknown") from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
