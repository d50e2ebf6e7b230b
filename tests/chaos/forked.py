"""Drivers that start in no time: real processes, forked from one that has imported all that they need.

    python tests/chaos/forked.py        reads requests, a line of JSON each, and answers each by a line

Each is the app incremental_sync without Spark (`plain_sync`), a process and session of its own, and dies by kill -9 as
any other. It may also be told where to do that itself (`dying`), as nobody else hits a window of a millisecond.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

if __name__ == "__main__" and __package__ in (None, ""):  # run as a file: its packages lie beside its folder
    sys.path[0] = str(Path(__file__).resolve().parents[2])

Json = dict[str, Any]
LOOK_SECONDS: Final = 0.02


@dataclass
class Nursery:
    """The process that others are forked from."""

    _process: subprocess.Popen[str] = field(
        default_factory=lambda: subprocess.Popen(
            [sys.executable, str(Path(__file__))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
    )

    def start(self, spec: Path, log: Path, environ: Mapping[str, str], death: str = "") -> Driver:
        """Start a driver. `death`: where it kills itself (`dying.STEPS`), how often it gets past that before."""
        asked = {"spec": str(spec), "log": str(log), "environ": dict(environ), "death": death}
        return Driver(self, int(self.ask(asked)), log)

    def ask(self, request: Json) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End it. Drivers that still run end by themselves, as their launcher does."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@dataclass
class Driver:
    """A driver. `code`: how it has ended; negative: by this signal."""

    nursery: Nursery
    pid: int
    log: Path
    code: int | None = None

    def alive(self) -> bool:
        if self.code is None:
            self.code = self.nursery.ask({"look": self.pid})
        return self.code is None

    def ends(self, seconds: float) -> bool:
        """Wait for its end; tell whether it has come."""
        deadline = time.monotonic() + seconds
        while self.alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_SECONDS)
        return True

    def kill(self) -> None:
        """Kill it by kill -9, unless it has ended."""
        while self.alive():
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def text(self) -> str:
        return self.log.read_text(errors="replace")


def _serve() -> None:
    """Answer until nobody asks any more."""
    from airflow_provider_dm.engine.binlog.kernels import build
    from tests.chaos import dying, plain_sync

    build.ready()
    for line in sys.stdin:
        request = json.loads(line)
        if "look" in request:
            pid, status = os.waitpid(request["look"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        else:
            answer = os.fork()
            if answer == 0:
                _become(request)
                dying.arm(request["death"])
                os._exit(plain_sync.run([request["spec"]]))
        print(json.dumps(answer), flush=True)


def _become(request: Json) -> None:
    os.setsid()
    os.chdir(Path(request["log"]).parent)
    os.environ.update(request["environ"])
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in ((0, nothing), (1, log), (2, log)):
        os.dup2(descriptor, number)


if __name__ == "__main__":
    _serve()
