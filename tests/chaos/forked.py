"""Drivers that start in no time (`nursery`): the app incremental_sync without Spark (`plain_sync`), real processes.

Each can be killed by kill -9. It can also kill itself at a given step (`dying`), as no other process hits a window
of a millisecond.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.nursery import Child, Nursery


def nursery_of_drivers() -> Nursery:
    """Make the process that they are forked from."""
    return Nursery((__name__,))


def start_driver(nursery: Nursery, spec: Path, log: Path, death: str = "") -> Driver:
    """Start a driver. `death`: where it kills itself (`dying.STEPS`), how often it gets past that before."""
    with log.open("ab") as output:
        child = nursery.start(f"{__name__}:live", [death, str(spec)], os.environ, output.fileno(), str(log.parent))
    return Driver(child, log)


@dataclass
class Driver:
    """A driver."""

    child: Child
    log: Path

    @property
    def code(self) -> int | None:
        """How it has ended; negative: by this signal."""
        return self.child.returncode

    def alive(self) -> bool:
        return self.child.poll() is None

    def ends(self, seconds: float) -> bool:
        """Wait for its end; return True if it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self.child.wait(seconds)
        return not self.alive()

    def kill(self) -> None:
        """Kill it by kill -9, unless it has ended, and wait for its end."""
        self.child.kill()
        self.child.wait()

    def text(self) -> str:
        return self.log.read_text(errors="replace")


# In the process that they are forked from, and in theirs


def warm() -> None:
    """Import what a driver needs."""
    from airflow_provider_dm.engine.binlog.kernels import build
    from tests.chaos import dying, plain_load, plain_sync  # noqa: F401

    build.ready()


def live(arguments: Sequence[str]) -> int:
    """Be a driver: its death, its spec."""
    from tests.chaos import dying, plain_sync

    death, spec = arguments
    dying.arm(death)
    return plain_sync.run([spec])
