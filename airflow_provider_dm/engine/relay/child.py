"""The child process of one relay: `python -m airflow_provider_dm.engine.relay SPEC.json` (`__main__`).

It reports its end as engine/reported.py defines: exit code 0 if it has caught up or the desired stage is Stopped, 143
if SIGTERM or the death of its launcher ended it. Light imports only: a relay has to be a small process.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.config.secrets import receive
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.relay.process import wait_for_end_of
from airflow_provider_dm.engine.relay.service import run_relay
from airflow_provider_dm.engine.relay.spec import RelaySpec
from airflow_provider_dm.engine.reported import EXIT_ERROR, EXIT_FINISHED, EXIT_STOPPED, report

log = logging.getLogger("airflow_provider_dm.engine.relay")

_EXIT_GRACE_SECONDS: Final = 5.0


def main(arguments: list[str]) -> int:
    """Run the relay that the spec file in `arguments` describes, and return the exit code."""
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s", force=True
    )
    path = Path(arguments[0])
    spec = RelaySpec.read(path)
    receive(0)
    path.unlink(missing_ok=True)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if spec.launcher_pid is not None:
        threading.Thread(target=_die_with, args=(spec.launcher_pid, stop), name="launcher-watch", daemon=True).start()
    try:
        with MetaStore.open(spec.meta_url.resolve("the metadata DB")) as store:
            result = run_relay(spec, store, stop)
    except DmError as error:
        report(error)
        return EXIT_ERROR
    log.info("the relay ends (%s) at %s", result.stage, result.location)
    return EXIT_STOPPED if stop.is_set() else EXIT_FINISHED


def _die_with(launcher_pid: int, stop: threading.Event) -> None:
    """Wait for the launcher's end, then stop the relay; exit hard if that takes too long."""
    wait_for_end_of(launcher_pid)
    log.warning("the launcher %d has ended", launcher_pid)
    stop.set()
    time.sleep(_EXIT_GRACE_SECONDS)
    os._exit(EXIT_STOPPED)
