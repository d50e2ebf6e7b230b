"""Processes: the holder of a task, and an identity by which other processes of the machine can check if it has ended.

A pid alone is not an identity: the kernel gives it to another process later, and each container counts its own pids.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_SELF: Final = Path("/proc/self")
_NAMESPACE: Final = Path("/proc/self/ns/pid")


@dataclass(frozen=True)
class Holder:
    """A worker. Attempts of one piece of work share `identity`: a later attempt replaces an earlier one at once."""

    identity: str
    attempt: str
    host: str
    process: str = ""
    """The process, as `this_process` returns it; empty if unknown."""

    def __str__(self) -> str:
        return f"{self.identity} (attempt {self.attempt})"


def this_process() -> str:
    """Return an identity of the calling process, as `identity_of` does."""
    return identity_of(os.getpid())


def identity_of(pid: int) -> str:
    """Return an identity of a process of this machine: boot id, PID namespace, pid and start time, separated by spaces.

    Empty if the system has no /proc with its own processes, or if the process has ended.
    """
    machine, born = _machine(), start_of(pid)
    return f"{machine} {pid} {born}" if machine and born is not None else ""


def is_of_this_machine(process: str) -> bool:
    """Return True if `process`, a result of `identity_of`, belongs to the pids that this process sees."""
    return bool(process) and process.rsplit(" ", 2)[0] == _machine()


def has_ended(process: str) -> bool:
    """Return True if `process`, a result of `this_process`, ran on this machine and has ended.

    False for a process that runs, for a process of another machine or container, and for an empty identity: its state
    cannot be known here.
    """
    if not is_of_this_machine(process):
        return False
    _, pid, born = process.rsplit(" ", 2)
    hidden = not Path(f"/proc/{pid}").exists()  # a mount option hides the processes of other users
    return not process_exists(int(pid)) or (not hidden and start_of(int(pid)) != born)


def start_of(pid: int) -> str | None:
    """Return the start time of a process, in clock ticks since boot; None if it has ended or is a zombie."""
    fields = stat_of(pid)
    return fields[19] if fields else None


def stat_of(pid: int) -> list[str]:
    """Return the fields of /proc/<pid>/stat after the command: state, ppid, pgrp, session, …; [] if the process has
    ended or is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
    return [] if "Z" in fields[:1] else fields


def process_exists(pid: int) -> bool:
    """Return True if the pid is in use, also by a process of another user."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _machine() -> str:
    """Return an identity of the PID namespace that this process sees; empty if the system has no /proc, or if
    /proc belongs to another namespace and shows other processes under these pids.
    """
    try:
        if _SELF.readlink() != Path(str(os.getpid())):
            return ""
        return f"{_BOOT.read_text(encoding='ascii').strip()} {_NAMESPACE.readlink()}"
    except OSError:
        return ""
