"""Processes that start in no time: real ones, forked from one that has imported all that they need.

    with closing(Nursery(("airflow_provider_dm.engine.relay.child",))) as nursery:
        child = nursery.start("airflow_provider_dm.engine.relay.child:main", ["spec.json"], os.environ, log)

Each has a process id and a session of its own, its own environment and output, and dies by kill -9 as any other; an
interpreter that starts and imports takes most of such a test's time. Tests that are about starting one
(`integration/launch/test_watched_relay`, `e2e`, `unit/relay/test_keeper`) do without.

    python tests/nursery.py SOCKET MODULE...        the process they are forked from
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

if __name__ == "__main__" and __package__ in (None, ""):  # run as a file: the packages are beside its folder
    sys.path[0] = str(Path(__file__).resolve().parents[1])

Json = dict[str, Any]
LONGEST_REQUEST: Final = 1 << 20
READY: Final = "ready"


@dataclass
class Nursery:
    """The process that others are forked from. `warm`: modules that it imports; one may have a function `warm`.
    `environ`: its environment, where it is not this process's."""

    warm: Sequence[str]
    environ: Mapping[str, str] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _running: tuple[subprocess.Popen[bytes], socket.socket] | None = field(default=None, repr=False)

    def start(
        self, function: str, arguments: Sequence[str], environ: Mapping[str, str], output: int, cwd: str | None = None
    ) -> Child:
        """Start a process that calls `module:function` with the arguments and exits with what it returns.

        `output`: the open file that takes what it prints.
        """
        request = {"call": function, "arguments": arguments, "environ": dict(environ), "cwd": cwd or str(Path.cwd())}
        return Child(self, int(self.ask(request, output)))

    def ask(self, request: Json, output: int | None = None) -> Any:
        with self._lock:
            if self._running is None:
                self._running = self._begun()
            connection = self._running[1]
            socket.send_fds(connection, [json.dumps(request).encode()], [] if output is None else [output])
            return json.loads(connection.recv(LONGEST_REQUEST))

    def _begun(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            process = subprocess.Popen(
                [sys.executable, str(Path(__file__)), str(its.fileno()), *self.warm],
                pass_fds=[its.fileno()],
                env=self.environ,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        assert json.loads(ours.recv(LONGEST_REQUEST)) == READY
        return process, ours

    def close(self) -> None:
        """End it. Children that still run end by themselves, as their launcher does."""
        with self._lock:
            if self._running is not None:
                process, connection = self._running
                connection.close()
                process.wait()
                self._running = None


@dataclass
class Child:
    """One of them, with what is used here of a Popen. `returncode`: how it has ended; negative: by this signal."""

    nursery: Nursery
    pid: int
    returncode: int | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def poll(self) -> int | None:
        with self._lock:  # an ended process is there for one look only
            if self.returncode is None:
                self.returncode = self.nursery.ask({"look": self.pid})
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises TimeoutExpired."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                _wait_for_end_of(self.pid, timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return code

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:  # the kernel reuses the id only after a wait
            os.kill(self.pid, number)


def _wait_for_end_of(pid: int, timeout: float | None) -> None:
    descriptor = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll(None if timeout is None else timeout * 1000)
    finally:
        os.close(descriptor)


# The process


def _serve(connection: socket.socket, warm: Sequence[str]) -> None:
    """Answer until there are no more requests."""
    gc.disable()
    for name in warm:
        module = importlib.import_module(name)
        getattr(module, "warm", lambda: None)()
    gc.freeze()
    gc.enable()
    connection.send(json.dumps(READY).encode())
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, LONGEST_REQUEST, 1)
        if not message:
            return
        request = json.loads(message)
        if "look" in request:
            pid, status = os.waitpid(request["look"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        else:
            answer = os.fork()
            if answer == 0:
                connection.close()
                _live(request, *descriptors)
            os.close(*descriptors)
        connection.send(json.dumps(answer).encode())


def _live(request: Json, output: int) -> None:
    """Be the process that is asked for, to its end."""
    code = 1
    try:
        os.setsid()
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["environ"])
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        module, _, name = request["call"].partition(":")
        code = getattr(importlib.import_module(module), name)(request["arguments"])
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001 (as an interpreter does it)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as its_end:
        _serve(its_end, sys.argv[2:])
