"""The sensor that waits for DDL of merged tables, its trigger, and the operator by which a user decides."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSensorTimeout
from airflow.triggers.base import TaskSuccessEvent

from airflow_provider_dm.engine.meta.records import Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.processes import Holder
from airflow_provider_dm.engine.shard.lock import Action, DdlInfo, Lock, continued, lock_id, reported
from airflow_provider_dm.hooks.metadata import DmMetadataHook
from airflow_provider_dm.launch import ddl_state
from airflow_provider_dm.launch.awaited import Awaited, NotYet
from airflow_provider_dm.launch.ddl_state import ddl_state_in
from airflow_provider_dm.links.dm_page import DM_PAGE_KEY, dm_page_url
from airflow_provider_dm.notifications.shard_ddl import DmDdlLockNotifier
from airflow_provider_dm.operators.shard_ddl import DmShardDdlLockOperator
from airflow_provider_dm.sensors.shard_ddl import LOCKS_KEY, ShardDdlDiffers, ShardDdlLockSensor
from airflow_provider_dm.triggers.shard_ddl import ShardDdlLockTrigger
from dags import dm_shard_ddl
from tests.airflow.support import RunDag, states

ORDERS, OTHER = TableName("shop", "orders"), TableName("shop", "other")
ID = lock_id("shops", ORDERS)
ADD, ADD_BIG = (
    ("ALTER TABLE `shop`.`orders` ADD COLUMN `c` int",),
    ("ALTER TABLE `shop`.`orders` ADD COLUMN `c` bigint",),
)


def report(source: str, ddls: tuple[str, ...] = ADD, target: TableName = ORDERS, number: int = 0) -> None:
    """Do what the sync of a source does when all its shards have made the DDL."""

    def how(found: Any) -> Any:
        lock = None if found is None else Lock.from_json(found)
        return reported(lock, "shops", target, number, DdlInfo(source, ddls), {"a", "b"}).to_json()

    with DmMetadataHook().get_store() as store:
        store.change_ddl_lock("shops", lock_id("shops", target), number, how)


def resolve(store: MetaStore, *, number: int) -> None:
    """Do what the syncs of both sources do at last."""

    def how(source: str) -> Callable[[Any], Any]:
        def change(found: Any) -> Any:
            left = continued(Lock.from_json(found), source)
            return None if left is None else left.to_json()

        return change

    for source in "ab":
        store.change_ddl_lock("shops", ID, number, how(source))


@pytest.fixture
def synced(work_dir: Path) -> None:
    """A sync of both sources has ended, and holds nothing back."""
    with DmMetadataHook().get_store() as store:
        for source in "ab":
            store.put_subtask("shops", source, unit=Unit.SYNC, stage=Stage.STOPPED)
        store.start_run("r", task="shops", app="incremental_sync", holder=Holder("x", "1", "here"))
        store.heartbeat_run("r", {source: {"unresolved_groups": []} for source in "ab"})
        store.finish_run("r", stage=Stage.FINISHED)


def test_sensors_of_both_modes_see_it_resolved_and_log_what_is_missing(
    synced: None, run_dag: RunDag, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = iter(range(2))

    def resolved_behind_it(store: MetaStore, *asked: Any) -> Awaited:
        found = ddl_state_in(store, *asked)
        if isinstance(found, NotYet):
            resolve(store, number=next(numbers))
        return found

    monkeypatch.setattr(ddl_state, "ddl_state_in", resolved_behind_it)
    report("a", target=OTHER)  # never resolved: not what is waited for
    (tmp_path / "shops.yaml").write_text("name: shops\nmysql-instances: [{source-id: a}, {source-id: b}]\n")
    with DAG("ddl_resolved") as dag:
        soon: dict[str, Any] = {"poke_interval": 0.5, "timeout": 300}
        poked = ShardDdlLockSensor(task_id="poked", task=str(tmp_path / "shops.yaml"), lock_id=ID, **soon)
        deferred = ShardDdlLockSensor(task_id="deferred", lock_id=ID, deferrable=True, **soon)

        @dag.task
        def made(source: str, number: int) -> None:
            report(source, number=number)

        made("a", 0) >> poked >> made("b", 1) >> deferred

    run = run_dag(dag)
    assert set(states(run).values()) == {"success"}
    links = {ti.task_id: ti.xcom_pull(task_ids=ti.task_id, key=DM_PAGE_KEY) for ti in run.get_task_instances()}
    assert links["poked"] == links["deferred"] == dm_page_url(task="shops")
    output = "".join(capfd.readouterr())
    assert "number 0 of shop.orders (shops-`shop`.`orders`)" in output
    assert "old, waits for b" in output
    assert "old, waits for a" in output
    assert "shop.other" not in output


def test_different_ddl_fails_at_once_with_both_sides_and_a_user_decides(
    synced: None, run_dag: RunDag, capfd: pytest.CaptureFixture[str]
) -> None:
    report("a", target=OTHER)
    report("a")
    report("b", ADD_BIG)
    with DAG("ddl_differs") as dag:
        for deferrable in (True, False):
            ShardDdlLockSensor(
                task_id=f"conflict_{deferrable}", task="shops", deferrable=deferrable, retries=3, poke_interval=1
            )
        ShardDdlLockSensor(task_id="soft", task="shops", deferrable=True, soft_fail=True)
        late: dict[str, Any] = {"task": "shops", "deferrable": True, "fail_on_conflict": False, "timeout": 1}
        ShardDdlLockSensor(task_id="not_told", **late)
        ShardDdlLockSensor(task_id="soft_late", soft_fail=True, **late)
    run = run_dag(dag)

    tasks = {ti.task_id: (ti.state, ti.try_number) for ti in run.get_task_instances()}
    assert tasks == {
        "conflict_True": ("failed", 1),
        "conflict_False": ("failed", 1),
        "soft": ("skipped", 1),
        "not_told": ("failed", 1),
        "soft_late": ("skipped", 1),
    }
    assert "a has executed ALTER TABLE `shop`.`orders` ADD COLUMN `c` int; b has executed" in "".join(
        capfd.readouterr()
    )
    for ti in run.get_task_instances():
        if not ti.task_id.startswith("soft"):
            shown = {one["ID"]: one for one in ti.xcom_pull(task_ids=ti.task_id, key=LOCKS_KEY)}
            assert shown[ID]["conflict"] == {"a": list(ADD), "b": list(ADD_BIG)}
            assert shown[lock_id("shops", OTHER)]["unsynced"] == ["b"]

    with DAG("ddl_decided", default_args={"owner": "people", "retries": 3}) as dag:
        parts: dict[str, Any] = {"lock_id": "{{ 'shops-`shop`.`orders`' }}", "retry_delay": 1}
        DmShardDdlLockOperator(task_id="no_source", lock_owner="c", **parts)
        DmShardDdlLockOperator(task_id="nothing", action="replace", **parts)
        DmShardDdlLockOperator(task_id="no_lock", lock_id="shops-`shop`.`x`")
        DmShardDdlLockOperator(task_id="missing", lock_id=lock_id("shops", OTHER))
        for task_id, number in (("late", "{{ 1 }}"), ("no_number", "")):
            DmShardDdlLockOperator(task_id=task_id, lock_owner="b", number=number, **parts)
        numbered: dict[str, Any] = {"number": "{{ 0 }}", **parts}
        decided = DmShardDdlLockOperator(task_id="decided", lock_owner="{{ 'b' }}", action="skip", **numbered)
        forced = DmShardDdlLockOperator(task_id="forced", lock_id=lock_id("shops", OTHER), force=True)
        ShardDdlLockSensor(task_id="waits", task="shops", timeout=0.5, poke_interval=0.2) << [decided, forced]
    run = run_dag(dag)
    tasks = {ti.task_id: (ti.state, ti.try_number) for ti in run.get_task_instances()}
    links = {ti.xcom_pull(task_ids=ti.task_id, key=DM_PAGE_KEY) for ti in run.get_task_instances()}
    assert links == {dm_page_url(task="shops")}, "also of those that fail"
    refused = dict.fromkeys(("no_source", "nothing", "no_lock", "missing", "late", "no_number"), ("failed", 1))
    assert tasks == {**refused, "decided": ("success", 1), "forced": ("success", 1), "waits": ("failed", 1)}
    with DmMetadataHook().get_store() as store:
        locks = {one.id: (one.owner, one.decision) for one in (Lock.from_json(body) for body, _ in store.ddl_locks())}
    assert locks == {ID: ("b", Action.SKIP), lock_id("shops", OTHER): ("a", Action.EXEC)}


@pytest.mark.parametrize(
    ("phases", "decided"),
    [
        (["waiting", "conflict", "conflict"], ("ID 1", "1")),
        (["waiting", "exec"], ("that differs", "0")),
        ([], ("that differs", "0")),
    ],
)
def test_the_example_dag_decides_only_about_the_ddl_that_it_has_shown(
    phases: list[str], decided: tuple[str, str]
) -> None:
    class Ti:
        def xcom_pull(self, **_asked: str) -> list[dict[str, Any]]:
            return [{"ID": f"ID {number}", "number": number, "phase": phase} for number, phase in enumerate(phases)]

    for task_id in ("run_that_of_mariadb-01", "made_by_hand"):
        task = dm_shard_ddl.dag.get_task(task_id)
        assert isinstance(task, DmShardDdlLockOperator)
        assert tuple(task.render_template((task.lock_id, task.number), {"ti": Ti()})) == decided  # type: ignore[typeddict-item]


# The trigger by itself


def trigger(**parts: Any) -> ShardDdlLockTrigger:
    defaults = {
        "task_name": "shops",
        "lock_id": None,
        "fail_on_conflict": True,
        "dm_meta_conn_id": None,
        "poll_interval": 0.05,
        "deadline": time.time() + 300,
        "end_from_trigger": False,
    }
    return ShardDdlLockTrigger(**defaults | parts)


def event_of(one: ShardDdlLockTrigger) -> Any:
    async def first() -> Any:
        (event,) = [event async for event in one.run()]
        return event

    return asyncio.run(first())


def test_a_trigger_is_stored_without_secrets_and_its_deadline_is_absolute() -> None:
    from airflow.sdk.serde import deserialize, serialize

    path, arguments = trigger(dm_meta_conn_id="meta", lock_id=ID).serialize()
    assert path == f"{ShardDdlLockTrigger.__module__}.{ShardDdlLockTrigger.__qualname__}"
    again = ShardDdlLockTrigger(**deserialize(serialize(arguments)))  # type: ignore[arg-type]
    assert again.serialize() == (path, arguments)
    assert set(arguments) == {
        *("task_name", "lock_id", "fail_on_conflict", "dm_meta_conn_id"),
        *("poll_interval", "deadline", "end_from_trigger"),
    }


def test_the_outcome_is_reported_whichever_process_ends_the_task(synced: None) -> None:
    assert event_of(trigger()).payload == {"status": "met", "value": None}
    assert isinstance(event_of(trigger(end_from_trigger=True)), TaskSuccessEvent)
    report("a")
    late = event_of(trigger(end_from_trigger=True, deadline=time.time() + 0.2)).payload
    assert (late["status"], [one["ID"] for one in late["locks"]]) == ("timeout", [ID])
    assert event_of(trigger(lock_id=lock_id("shops", OTHER))).payload == {"status": "met", "value": None}
    report("b", ADD_BIG)
    assert event_of(trigger(end_from_trigger=True)).payload["status"] == "broken"
    assert event_of(trigger(dm_meta_conn_id="not_there")).payload["status"] == "error"

    sensor = ShardDdlLockSensor(task_id="wait", task="shops")
    pushed: dict[str, Any] = {}

    class Ti:
        def xcom_push(self, key: str, value: Any) -> None:
            pushed[key] = value

    for event, error in (
        ({"status": "broken", "message": "x", "locks": late["locks"]}, ShardDdlDiffers),
        (late, AirflowSensorTimeout),
    ):
        with pytest.raises(error):
            sensor.execute_complete({"ti": Ti()}, event)  # type: ignore[typeddict-item]
        assert [one["ID"] for one in pushed.pop(LOCKS_KEY)] == [ID]
    for unknown in ({"status": "error", "message": "x"}, {"status": "done"}, {}, "failed"):
        with pytest.raises(AirflowException, match="ended with status"):
            sensor.execute_complete({}, unknown)


def test_an_unreachable_metadata_db_is_queried_again_in_both_modes(
    synced: None, connection: Callable[..., None]
) -> None:
    connection("away", conn_type="dm_meta", host="127.0.0.1", port=1, login="x", password="c4nary-meta", schema="x")

    async def first() -> Any:
        one = trigger(dm_meta_conn_id="away")
        event = asyncio.ensure_future(anext(one.run()))
        await asyncio.sleep(0.5)
        assert not event.done()
        one.dm_meta_conn_id = None  # it is there again
        return (await event).payload

    assert asyncio.run(first()) == {"status": "met", "value": None}
    poked = ShardDdlLockSensor(task_id="poked", task="shops", dm_meta_conn_id="away")
    assert not poked.poke({}).is_done


@pytest.mark.parametrize("parts", [{}, {"task": "other", "lock_id": ID}, {"lock_id": ""}])
def test_a_sensor_without_task_or_lock_is_refused(synced: None, parts: dict[str, Any]) -> None:
    with pytest.raises(AirflowFailException, match=r"neither `task` nor `lock_id`|does not belong to task"):
        ShardDdlLockSensor(task_id="x", **parts).poke({})


def test_a_lock_that_waits_too_long_is_passed_to_other_notifiers(
    synced: None, run_dag: RunDag, capfd: pytest.CaptureFixture[str]
) -> None:
    report("a")
    notified: list[Any] = []

    def sensor(task_id: str, *, seconds: float, task: str = "shops") -> None:
        notifier = DmDdlLockNotifier(task=task, waits_longer_than=seconds, notifiers=[notified.append])
        late: dict[str, Any] = {"poke_interval": 0.1, "timeout": 0.2, "on_failure_callback": notifier}
        ShardDdlLockSensor(task_id=task_id, task="shops", **late)

    with DAG("ddl_is_late") as dag:
        sensor("waits", seconds=0)
        sensor("waits_not_long", seconds=600)
        sensor("of_another_task", seconds=0, task="another")
    assert set(states(run_dag(dag)).values()) == {"failed"}
    (context,) = notified
    assert context["ti"].task_id == "waits"
    assert context["dm_ddl_locks"][0]["unsynced"] == ["b"]
    assert context["dm_ddl_locks_text"].endswith(f" old, waits for b; its owner's DDL: {ADD[0]}")
    assert context["dm_ddl_locks_text"] in "".join(capfd.readouterr())

    report("b", ADD_BIG)
    DmDdlLockNotifier(notifiers=[notified.append])({})
    assert "is different: a has executed" in notified[-1]["dm_ddl_locks_text"]
