"""The triggers of asset-driven DAGs fire once for each new state, and continue where they were."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from airflow.triggers.base import TriggerEvent

from airflow_provider_dm.engine.meta.records import RelayStatus, Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.processes import Holder
from airflow_provider_dm.engine.shard.lock import DdlInfo, Lock, lock_id, reported
from airflow_provider_dm.hooks.metadata import DmMetadataHook
from airflow_provider_dm.triggers.events import (
    CaughtUpEventTrigger,
    DdlLockEventTrigger,
    MetadataEventTrigger,
    RelayAdvancedEventTrigger,
)

HOW: dict[str, Any] = {"dm_meta_conn_id": None, "poll_interval": 0.05}
SILENCE_SECONDS = 0.4


class Kept(dict[str, Any]):
    """The part of Airflow's asset state store that a trigger uses, in the memory of this process."""

    async def aget(self, key: str) -> Any:
        return self.get(key)

    async def aset(self, key: str, value: Any) -> None:
        self[key] = value


@pytest.fixture
def store(work_dir: Path) -> MetaStore:
    return DmMetadataHook().get_store()


def again(trigger: MetadataEventTrigger, kept: Kept) -> AsyncIterator[TriggerEvent]:
    """What a triggerer makes of it, also after a restart."""
    _, arguments = trigger.serialize()
    made = type(trigger)(**arguments)
    made.asset_state_store = kept  # type: ignore[assignment]
    return made.run()


def sequence(trigger: MetadataEventTrigger, *steps: tuple[Callable[[], object], bool]) -> list[dict[str, Any]]:
    """Do each step before a start of the trigger, which must fire or not; return the events."""
    kept, found = Kept(), []

    async def all_steps() -> None:
        for step, expected in steps:
            step()
            event = await first(again(trigger, kept), seconds=240.0 if expected else SILENCE_SECONDS)
            assert (event is not None) is expected
            if event is not None:
                found.append(event)

    asyncio.run(all_steps())
    return found


async def first(events: AsyncIterator[TriggerEvent], *, seconds: float) -> dict[str, Any] | None:
    """Return the first event, once the trigger looks for another one; None if there is none in time."""
    found: list[dict[str, Any]] = []
    fired = asyncio.Event()

    async def collect() -> None:
        async for event in events:
            found.append(event.payload)
            fired.set()

    task = asyncio.create_task(collect())
    with suppress(TimeoutError):
        await asyncio.wait_for(fired.wait(), seconds)
    await asyncio.sleep(0.1)  # the state is written after the event
    task.cancel()
    return found[0] if found else None


def nothing() -> None:
    pass


def test_an_event_is_fired_when_a_relay_has_received_more(store: MetaStore) -> None:
    def at(position: int) -> None:
        here = Location("bin.000003", position)
        store.put_relay_status(RelayStatus("one", Stage.RUNNING, relay=here, host="h", directory="/relay"))

    first_one, second = sequence(
        RelayAdvancedEventTrigger(source_id="one", **HOW),
        (nothing, False),
        (lambda: at(4), True),
        (lambda: at(4), False),
        (lambda: at(99), True),
    )
    assert (first_one["location"], second["location"]) == ("bin.000003:4", "bin.000003:99")


def test_a_sync_that_has_caught_up_and_applied_more(store: MetaStore) -> None:
    store.start_run("r", task="shop", app="incremental_sync", holder=Holder("x", "1", "here"))

    def report(position: int, caught_up: object) -> None:
        at = Location("bin.000003", position)
        store.put_subtask("shop", "one", unit=Unit.SYNC, stage=Stage.RUNNING, needed=at, applied=at)
        store.heartbeat_run("r", {"one": {"caught_up": caught_up}})

    (first_one, second) = sequence(
        CaughtUpEventTrigger(task_name="shop", **HOW),
        (nothing, False),
        (lambda: report(4, True), True),
        (lambda: report(99, False), False),
        (lambda: report(99, True), True),
        (nothing, False),
    )
    assert first_one["locations"] == {"one": "bin.000003:4"}
    assert second["locations"] == {"one": "bin.000003:99"}


def test_locks_that_need_a_user(store: MetaStore) -> None:
    target = TableName("shop", "orders")

    def report(source: str, kind: str) -> None:
        def how(found: Any) -> Any:
            lock = None if found is None else Lock.from_json(found)
            ddl = (f"ALTER TABLE `shop`.`orders` ADD COLUMN `c` {kind}",)
            return reported(lock, "shops", target, 0, DdlInfo(source, ddl), {"a", "b"}).to_json()

        store.change_ddl_lock("shops", lock_id("shops", target), 0, how)

    (conflict,) = sequence(
        DdlLockEventTrigger(task_name="shops", **HOW),
        (lambda: report("a", "int"), False),  # it waits for the other source
        (lambda: report("b", "bigint"), True),
        (nothing, False),
    )
    assert [one["phase"] for one in conflict["locks"]] == ["conflict"]
    (old,) = sequence(DdlLockEventTrigger(task_name=None, older_than_seconds=0.0, **HOW), (nothing, True))
    assert old["locks"][0]["ID"] == lock_id("shops", target)
