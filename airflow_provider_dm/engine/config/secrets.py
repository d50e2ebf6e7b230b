"""Passes secrets to a process by a pipe, which its launcher fills before the process starts.

A process's environment can be read in /proc, and its children inherit it, so nothing is put there. The process keeps
received secrets in `known`. A password that a user has set as a variable is removed from the environment when it is
read, and is kept in `known`, too.

    a direct child           its stdin is the pipe
    below a spark-submit     a named pipe beside the job file: the JVM passes no descriptor on
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import ChainMap
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

PIPE: Final = "secrets"
"""Name of the pipe beside a job file."""

_received: Final[dict[str, str]] = {}
known: Final[Mapping[str, str]] = ChainMap(_received, os.environ)
"""The secrets that this process has received, by name; then its environment."""


def filled_pipe(secrets: Mapping[str, str]) -> int:
    """Return the reading end of a pipe that holds these secrets, whose writing end is closed. The caller closes it."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    _fill(writing, secrets)
    os.close(writing)
    return reading


def named_pipe(folder: Path, secrets: Mapping[str, str]) -> int:
    """Make the pipe of a run's folder, and fill it. The returned descriptor must stay open until the process has read
    the pipe."""
    path = folder / PIPE
    path.unlink(missing_ok=True)
    os.mkfifo(path, 0o600)
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)  # for writing alone it would wait for the reader
    _fill(descriptor, secrets)
    return descriptor


def receive(source: int | Path) -> dict[str, str]:
    """Read the secrets of this process from a descriptor or a named pipe, which is removed. Without a pipe: none."""
    try:
        descriptor = source if isinstance(source, int) else os.open(source, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return {}
    try:
        secrets: dict[str, str] = json.loads(_content(descriptor) or b"{}")
    finally:
        if isinstance(source, Path):
            os.close(descriptor)
            source.unlink(missing_ok=True)
    keep(secrets)
    return secrets


def taken(variable: str) -> str | None:
    """Return the secret in an environment variable, which no child inherits from then on; None if it is not set."""
    if variable in os.environ:
        _received[variable] = os.environ.pop(variable)
    return _received.get(variable)


def received() -> dict[str, str]:
    """Return the secrets that this process has received or taken, for a child that reads the same files."""
    return dict(_received)


def keep(secrets: Mapping[str, str]) -> None:
    """Add these secrets to `known`, as if this process had received them."""
    _received.update(secrets)


def _fill(writing: int, secrets: Mapping[str, str]) -> None:
    content = json.dumps(dict(secrets)).encode()
    if len(content) > fcntl.fcntl(writing, fcntl.F_GETPIPE_SZ):
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, len(content))  # there is no reader yet
    os.write(writing, content)


def _content(descriptor: int) -> bytes:
    """Return the contents of the pipe, which were written before this process began."""
    parts = []
    with suppress(BlockingIOError):
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
    return b"".join(parts)
