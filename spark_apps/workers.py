"""The daemon from which Spark's Python workers are forked; it has imported the modules that their tasks need.

    python -m spark_apps.workers pyspark.worker         as Spark calls it (`spark.python.daemon.module`)

With pyspark's own daemon, each worker would import the engine and load the kernels, which takes a second of CPU and 100
MB; forked workers share the imported modules. It is used for workers of this machine only: on a cluster the engine is
in an archive that comes with the app, after the daemon has started.

Spark starts the daemon a second after the driver. A driver that needs workers at once starts a process that imports the
modules meanwhile (`start_early`). Spark's daemon then gives its pipes to that process, which continues as the daemon.
"""

from __future__ import annotations

import gc
import importlib
import json
import logging
import os
import secrets
import select
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

VARIABLE: Final = "DM_WORKER_IMPORTS"
"""Environment variable: names of modules, separated by commas; `module:function` is also called, without arguments."""
TASKS: Final = "pyspark.worker"
"""The module that Spark names for tasks."""
ALWAYS: Final = ("pyspark.daemon", TASKS, "spark_apps.runner")
ADDRESS: Final = "DM_EARLY_DAEMON"
"""Environment variable: the address of the process that `start_early` started."""
EARLY: Final = "early"
"""The argument of that process; then the number of its listening socket and the driver's process ID."""

_UCRED: Final = struct.Struct("3i")
"""Linux's `struct ucred`: process, user, group (unix(7))."""
_KERNELS: Final = "airflow_provider_dm.engine.binlog.kernels.build:preload"
_SYNC_TASKS: Final = "airflow_provider_dm.engine.sync.write.tasks"
WORKER_IMPORTS: Final[Mapping[str, Sequence[str]]] = {
    "full_migration": ("airflow_provider_dm.engine.copy.read_round", _SYNC_TASKS, _KERNELS),
    "incremental_sync": (_SYNC_TASKS, _KERNELS),
    "verify": ("airflow_provider_dm.engine.verify.piece",),
}
"""The modules that an app's tasks need, by app."""


def prepare(names: Sequence[str]) -> None:
    """Import the modules that tasks need. A failed import is only logged here: the task that needs the module reports
    it.

    No thread may run in a process that forks, so numpy's threads for linear algebra are disabled.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()  # imports make no garbage
    for name in names:
        module, _, function = name.partition(":")
        try:
            imported = importlib.import_module(module)
            if function:
                getattr(imported, function)()
        except Exception:
            logging.getLogger(__name__).warning(
                "%s could not be imported in advance; each worker imports it", name, exc_info=True
            )
    gc.freeze()
    gc.enable()


def start_early(imports: Sequence[str]) -> str:
    """Start a process of this machine that imports the modules in advance. Return its address, for ADDRESS.

    It ends about a second after this process, unless it has become the daemon. If it cannot be started, Spark's own
    daemon cannot either, and Spark reports why.
    """
    address = f"dm-workers-{secrets.token_hex(16)}"
    paths = [str(Path(__file__).resolve().parent.parent), os.environ.get("PYTHONPATH", "")]
    env = {"PYTHONHASHSEED": "0", **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with suppress(OSError), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{address}")
        listener.listen(1)
        subprocess.Popen(
            [os.environ["PYSPARK_PYTHON"], "-m", __name__, EARLY, str(listener.fileno()), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            env=env | {VARIABLE: ",".join(imports)},
            pass_fds=[listener.fileno()],
        )
    return address


def _become_daemon(listener: socket.socket, driver: int) -> None:
    """Wait for the daemon, and replace it: take its pipes and its environment."""
    with listener:
        connection = _accepted(listener, driver)
    message, pipes, _, _ = socket.recv_fds(connection, 1 << 16, 3)
    while piece := connection.recv(1 << 16):
        message += piece
    for number, pipe in enumerate(pipes):
        os.dup2(pipe, number)
        os.close(pipe)
    os.environ.clear()
    os.environ.update(json.loads(message))
    sys.argv[1:] = [TASKS]
    connection.sendall(b"1")
    os.register_at_fork(after_in_child=connection.close)  # so that it is closed when this process ends


def _accepted(listener: socket.socket, driver: int) -> socket.socket:
    while os.getppid() == driver:
        if select.select([listener], [], [], 1.0)[0]:
            connection, _ = listener.accept()
            if _is_same_user(connection):
                return connection
            connection.close()
    sys.exit()


def _replaced() -> bool:
    """Let the process of `start_early` replace this one, and wait until it ends. Return False if it does not take over:
    there is none, it died, or it is the daemon already and Spark starts another one."""
    address = os.environ.get(ADDRESS)
    if not address:
        return False
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(f"\0{address}")
            if not _is_same_user(connection):
                return False
            environment = json.dumps(dict(os.environ)).encode()
            sent = socket.send_fds(connection, [environment], [0, 1, 2])
            connection.sendall(environment[sent:])
            connection.shutdown(socket.SHUT_WR)
            if not connection.recv(1):
                return False
        except OSError:
            return False
        with suppress(OSError):
            connection.recv(1)
    return True


def _is_same_user(connection: socket.socket) -> bool:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    return bool(_UCRED.unpack(credentials)[1] == os.getuid())


def main() -> None:
    """Run pyspark's daemon, or be replaced by the process that was started early."""
    imports = [*ALWAYS, *filter(None, os.environ.get(VARIABLE, "").split(","))]
    match sys.argv[1:]:
        case [str(word), listener, driver] if word == EARLY:
            prepare(imports)
            _become_daemon(socket.socket(fileno=int(listener)), int(driver))
        case [str(word)] if word == TASKS:  # other daemons only plan the read of a data source
            if _replaced():
                return
            prepare(imports)
    from pyspark import daemon

    daemon.manager()


if __name__ == "__main__":
    main()
