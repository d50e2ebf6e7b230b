"""A relay in a thread of the test: for tests that want its log and not its death.

It is all that a relay process does but for signals and the start of an interpreter, which takes longer than most tests
pull for.
"""

import threading

from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.relay.service import run_relay
from airflow_provider_dm.engine.relay.spec import RelaySpec


class RelayThread:
    """A running or ended relay. `error`: what it has ended with."""

    def __init__(self, spec: RelaySpec) -> None:
        self.error: DmError | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(spec,), name="relay", daemon=True)
        self._thread.start()

    def _run(self, spec: RelaySpec) -> None:
        try:
            with MetaStore.open(spec.meta_url.resolve("the metadata DB")) as store:
                run_relay(spec, store, self._stop)
        except DmError as error:  # as `relay.child`: it is in the metadata DB as well
            self.error = error

    def alive(self) -> bool:
        return self._thread.is_alive()

    def kill(self) -> None:
        """End it, and wait for its end."""
        self._stop.set()
        self._thread.join()
