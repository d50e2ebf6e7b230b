"""The life of the demo's DDL locks: what the metadata DB says of them, looked at while the DAG runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.endpoint import Secret
from airflow_provider_dm.engine.shard.lock import Lock, Phase
from airflow_provider_dm.launch.ddl_locks import stored_locks

LOOK_SECONDS: Final = 0.2
RESOLVED: Final = "resolved"


@dataclass
class LockWatch:
    """A thread that looks again and again. `seen` is called once, when a lock waits for another source."""

    database: Path
    task: str
    tell: Callable[[str], None]
    seen: Callable[[], None]
    lives: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)
    _began: float = field(default_factory=time.monotonic)

    def __enter__(self) -> LockWatch:
        self._thread = threading.Thread(target=self._run, name="locks", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def to_json(self) -> list[dict[str, Any]]:
        """Return the locks in the order in which they were made, each with its life."""
        return list(self.lives.values())

    def _run(self) -> None:
        ended = False
        while not ended:
            ended = self._ended.wait(LOOK_SECONDS)  # the last look comes after the end
            if not self.database.exists():
                continue
            with suppress(DmError), MetaStore.open(Secret(f"sqlite:///{self.database}")) as store:  # it may be busy
                self._look(store)
                while not ended:
                    ended = self._ended.wait(LOOK_SECONDS)
                    self._look(store)

    def _look(self, store: MetaStore) -> None:
        there = {(lock.id, lock.number): lock for lock, _ in stored_locks(store, self.task)}
        for key, lock in there.items():
            life = self.lives.setdefault(
                key, {"id": lock.id, "number": lock.number, "owner": lock.owner, "DDLs": list(lock.ddls), "life": []}
            )
            step = {"phase": lock.phase.value, "synced": lock.synced, "unsynced": lock.unsynced}
            self._note(life, step, _said(lock))
            if lock.phase is Phase.WAITING:
                self.seen()
        for key in self.lives.keys() - there.keys():
            self._note(self.lives[key], {"phase": RESOLVED}, "resolved: the rows that were held back are applied")

    def _note(self, life: dict[str, Any], step: dict[str, Any], text: str) -> None:
        steps = life["life"]
        if steps and {name: value for name, value in steps[-1].items() if name != "seconds"} == step:
            return
        seconds = round(time.monotonic() - self._began, 1)
        steps.append({"seconds": seconds, **step})
        self.tell(f"{seconds:6.1f} s  DDL lock {life['id']}: {text}")


def _said(lock: Lock) -> str:
    match lock.phase:
        case Phase.WAITING:
            return (
                f"{', '.join(lock.synced)} has executed {'; '.join(lock.ddls)}; waiting for {', '.join(lock.unsynced)}"
            )
        case Phase.EXEC:
            return f"all sources have made it; {lock.owner} runs it in the target"
        case Phase.SKIP:
            return "it has been run in the target; the others go on without running it"
        case Phase.CONFLICT | Phase.DIFFERS:
            return "the sources have executed different DDL"
