"""DDL locks of merged tables."""

import threading
from typing import Any

import pytest

from airflow_provider_dm.engine.meta.errors import LostRace
from airflow_provider_dm.engine.meta.store import MetaStore
from tests.meta_contract.opened import OpenStore
from tests.meta_contract.races import PROCESSES


class DdlLockContract(OpenStore):
    """What holds of a lock that many change."""

    def test_ddl_locks_change_by_compare_and_set(self, store: MetaStore) -> None:
        """Reports of many sources at once all count, and the last one to continue removes the lock."""
        lock = "shop-`" + "s" * 64 + "`.`" + "\N{PILE OF POO}" * 64 + "`"

        def report(source: str) -> None:
            def how(found: dict[str, Any] | None) -> dict[str, Any]:
                return {"sources": sorted({source, *(found["sources"] if found else [])})}

            store.change_ddl_lock("shop", lock, 7, how)

        names = [f"s{number}" for number in range(PROCESSES)]
        threads = [threading.Thread(target=report, args=[name]) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        store.change_ddl_lock("shop", lock, 8, lambda _found: {"sources": ["early"]})
        store.change_ddl_lock("other", lock, 7, lambda _found: {"sources": ["other"]})
        assert [body for body, _ in store.ddl_locks("shop")] == [{"sources": names}, {"sources": ["early"]}]
        assert [age >= 0 for _, age in store.ddl_locks()] == [True, True, True]

        def refuse(_found: dict[str, Any] | None) -> None:
            raise LostRace("it", "another")

        with pytest.raises(LostRace):
            store.change_ddl_lock("shop", lock, 7, refuse)
        assert store.change_ddl_lock("shop", lock, 7, lambda _found: None) is None
        assert store.change_ddl_lock("shop", lock, 7, lambda found: found) is None
        assert [body for body, _ in store.ddl_locks("shop")] == [{"sources": ["early"]}]
