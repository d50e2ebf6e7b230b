"""An error of one source stops that source only, as one of DM's subtasks."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from airflow_provider_dm.engine.downstream.schema_by_hand import change_definition, definition_in
from airflow_provider_dm.engine.meta.records import Stage
from airflow_provider_dm.engine.mysql.identifiers import TableName
from spark_apps.app import App, Outcome
from spark_apps.incremental_sync import work
from tests.chaos.plain_sync import PlainApp
from tests.integration.merge.conftest import Shops, instances
from tests.jobs import endpoint


@dataclass
class Run:
    """A run of the app in this process, whose tables `p_a` and `p_b` are each of one source."""

    shops: Shops
    app: App
    running: Future[Outcome]

    def wait_until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 180
        while not condition():
            assert time.monotonic() < deadline, self.stages()
            assert not self.running.done(), self.running.result()
            time.sleep(0.05)

    def stages(self) -> dict[str, tuple[Stage, str]]:
        """Return by source the stage, and the code of its error."""
        found = self.shops.store.list_subtasks(task="test")
        return {one.source: (one.stage, (one.error or {}).get("ErrCode", "")) for one in found}

    def target_rows(self, name: str) -> list[tuple[object, ...]]:
        return sorted(self.shops.target.sql(f"SELECT id FROM p_{name}", database=self.shops.schema))

    def break_target(self, name: str) -> None:
        """Let the next row of a source be refused."""
        self.shops.target.sql(f"ALTER TABLE p_{name} DROP COLUMN v", database=self.shops.schema)

    def write(self, name: str, number: int) -> None:
        self.shops.write(name, f"INSERT INTO p_{name} VALUES ({number}, 'x')")


def begun(shops: Shops, pool: ThreadPoolExecutor, until: str, broken: str = "") -> Run:
    places = {}
    shops.target.sql(f"CREATE DATABASE IF NOT EXISTS `{shops.schema}`")
    for name, server in shops.sources.items():
        for one in (server, shops.target):
            one.sql(f"CREATE TABLE p_{name} (id INT PRIMARY KEY, v VARCHAR(9))", database=shops.schema)
        places[name] = shops.place(name)
    spec = shops.begin(instances(shops, **places))
    spec = spec.model_copy(update={"app": "incremental_sync", "until": until})
    app = PlainApp(spec, shops.store, threading.Event(), threading.Event(), spec.target.resolve())
    run = Run(shops, app, Future())
    for name in shops.sources:
        run.write(name, 1)
    if broken:
        run.break_target(broken)
    return Run(shops, app, pool.submit(work, app))


def test_without_an_end_a_paused_source_waits_and_the_others_continue(one_pair: Shops) -> None:
    with ThreadPoolExecutor(1) as pool:
        run = begun(one_pair, pool, "forever")
        try:
            run.wait_until(lambda: run.target_rows("a") == run.target_rows("b") == [(1,)])
            run.break_target("a")
            run.write("a", 2)
            run.wait_until(lambda: run.stages()["a"] == (Stage.PAUSED, "DM-6004"))
            run.write("b", 2)
            run.wait_until(lambda: run.target_rows("b") == [(1,), (2,)])
            assert run.stages()["b"] == (Stage.RUNNING, "")

            one_pair.target.sql("ALTER TABLE p_a ADD COLUMN v VARCHAR(9)", database=one_pair.schema)
            # What `dmctl binlog-schema update` does, which a remedy may be.
            ref, table = one_pair.migration().ref("a"), TableName(one_pair.schema, "p_a")
            new = definition_in(f"CREATE TABLE {table.quoted()} (id INT PRIMARY KEY, v VARCHAR(9))", table)
            change_definition(one_pair.store, endpoint("target", one_pair.target), ref, table, new)
            one_pair.store.set_subtask_desired("test", "a", Stage.RUNNING)  # resume-task
            run.wait_until(lambda: run.target_rows("a") == [(1,), (2,)])
            run.wait_until(lambda: run.stages()["a"] == (Stage.RUNNING, ""))

            for name in ("a", "b"):
                run.break_target(name)
                run.write(name, 3)
            outcome = run.running.result(180)  # no source is synced any more
        finally:
            run.app.end()
    assert outcome.failure is not None
    assert set(outcome.result["failed"]) == {"a", "b"}
    assert [stage for stage, _ in run.stages().values()] == [Stage.PAUSED, Stage.PAUSED]


def test_a_source_stopped_after_its_error_does_not_fail_the_other_sources(one_pair: Shops) -> None:
    with ThreadPoolExecutor(1) as pool:
        run = begun(one_pair, pool, "forever", broken="a")
        try:
            run.wait_until(lambda: run.stages().get("a") == (Stage.PAUSED, "DM-5202"))
            run.app.apply_requests({"a": Stage.STOPPED})
            run.wait_until(lambda: run.stages()["a"] == (Stage.STOPPED, ""))
            run.write("b", 2)
            run.wait_until(lambda: run.target_rows("b") == [(1,), (2,)])
        finally:
            run.app.end()
        outcome = run.running.result(180)
    assert outcome.failure is None
    assert outcome.result["failed"] == {}


@pytest.mark.parametrize("broken", ["a", "b"])
def test_other_sources_still_reach_a_bounded_goal(one_pair: Shops, broken: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        run = begun(one_pair, pool, "caught-up", broken=broken)
        outcome = run.running.result(180)
    (other,) = {"a", "b"} - {broken}
    assert (run.target_rows(other), run.target_rows(broken)) == ([(1,)], [])
    assert not outcome.finished
    assert set(outcome.result["failed"]) == {broken}
    assert str(outcome.failure) == outcome.result["failed"][broken]
    assert outcome.result["sources"][other]["finished"]
    assert run.stages()[broken][0] is Stage.PAUSED
