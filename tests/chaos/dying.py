"""The step at which a driver kills itself by SIGKILL: before or after a step of shard DDL, at its nth execution.

Nothing runs after a SIGKILL, no `finally` and no rollback: what is left is what servers and files have by then.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_dm.engine.downstream import ddl_execution
from airflow_provider_dm.engine.sync import following
from airflow_provider_dm.engine.sync.shard_ddl import resync, shard_locks, source_shards

STEPS: Final[dict[str, tuple[Any, str]]] = {
    "meet": (following, "fenced_transaction"),
    "report": (shard_locks.ShardLocks, "report"),
    "wait": (shard_locks.ShardLocks, "reason_to_wait"),
    "execute": (source_shards, "execute_ddl"),
    "send": (ddl_execution, "_send"),
    "note": (source_shards, "note_executed"),
    "tell": (shard_locks.ShardLocks, "_try"),
    "resolve": (source_shards.Shards, "_resolve"),
    "re-sync": (resync._Lane, "_epoch"),
    "finish": (source_shards.Shards, "finish"),
}
"""`wait` counts where something is waited for."""


@dataclass
class Death:
    """`left`: how often the step is gone past before."""

    step: str
    behind: bool
    left: int

    @classmethod
    def read(cls, text: str) -> Death:
        """Read one.

        >>> Death.read("behind execute 2")
        Death(step='execute', behind=True, left=2)
        """
        when, step, left = text.split()
        return cls(step, when == "behind", int(left))

    def comes(self, found: object) -> None:
        if self.step == "wait" and not found:
            return
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)


def arm(text: str) -> None:
    """Let this process die as `Death.read` has it; "": not at all."""
    if not text:
        return
    death = Death.read(text)
    owner, name = STEPS[death.step]
    real: Callable[..., object] = getattr(owner, name)

    def mortal(*arguments: object, **named: object) -> object:
        if not death.behind and death.step != "wait":
            death.comes(None)
        found = real(*arguments, **named)
        if death.behind or death.step == "wait":
            death.comes(found)
        return found

    setattr(owner, name, mortal)
