"""Durable writes of files: after a power failure a file has either the old content or the new one, never a mixture.

The new content is written to another file, forced to disk and renamed, and the rename is forced to disk by an fsync of
the folder. Links are never followed: the relay directory contains regular files only.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.relay.errors import RelayDiskFailed, RelayDiskFull

_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def disk_error(path: Path, error: OSError) -> DmError:
    """Return the typed error for a failed write."""
    if error.errno in _NO_SPACE:
        return RelayDiskFull(str(path))
    return RelayDiskFailed(str(path), error.strerror or str(error))


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Translate OSErrors of the block to typed errors, with the file that the error names, or `path` if it names none.

    Raises RelayDiskFull, RelayDiskFailed.
    """
    try:
        yield
    except (ConnectionError, TimeoutError):  # these come from a socket
        raise
    except OSError as error:
        raise disk_error(Path(str(error.filename or path)), error) from error


@contextmanager
def opened(path: Path, flags: int, mode: int = 0o640) -> Iterator[int]:
    """Open a file or folder for a block and yield its descriptor. Raises OSError."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, mode)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Force creations and renames inside `folder` to disk."""
    with opened(folder, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)


def write_all(descriptor: int, data: bytes | memoryview, at: int) -> None:
    """Write all bytes at this offset, in several calls if necessary."""
    written = os.pwrite(descriptor, data, at)
    if written == len(data):
        return
    rest = memoryview(data)
    while written < len(rest):
        written += os.pwrite(descriptor, rest[written:], at + written)


def write_durably(path: Path, content: bytes) -> None:
    """Replace or create `path`. Raises RelayDiskFull or RelayDiskFailed; the old content is then unchanged."""
    fresh = path.with_name(f".{path.name}.new")
    try:
        with opened(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW) as descriptor:
            write_all(descriptor, content, 0)
            os.fsync(descriptor)
        fresh.rename(path)
        sync_folder(path.parent)
    except OSError as error:
        raise disk_error(path, error) from error
