"""One store in several threads and processes."""

import os
import threading

from airflow_provider_dm.engine.meta.store import MetaStore
from tests.meta_contract.opened import ANNA, OpenStore


class ProcessContract(OpenStore):
    """What holds of a store that is shared, or forked."""

    def test_threads_share_a_store(self, store: MetaStore) -> None:
        store.start_run("r", task="t", app="verify", holder=ANNA)
        held = store.acquire_lease("t", "s", ANNA, ttl_seconds=15, at_least=0)
        errors: list[BaseException] = []

        def work() -> None:
            try:
                for number in range(10):
                    store.renew_lease(held)
                    store.heartbeat_run("r", {"n": number})
            except BaseException as error:  # noqa: BLE001 - shown by the assertion
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []

    def test_a_forked_child_connects_again(self, store: MetaStore) -> None:
        store.start_run("r", task="t", app="verify", holder=ANNA)
        child = os.fork()
        if child == 0:
            try:
                store.heartbeat_run("r", {"from": "child"})
                os._exit(0)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        assert status == 0
        store.heartbeat_run("r", {"from": "parent"})
