"""What a metadata DB must do, on whatever server: collected once for each by a subclass that gives `meta_url`."""

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import pytest
from alembic import command
from sqlalchemy import inspect, text

from airflow_provider_dm.engine.errors import Reaction
from airflow_provider_dm.engine.meta import lease as leases
from airflow_provider_dm.engine.meta import tables
from airflow_provider_dm.engine.meta.cas import LostRace, matching, read_with_now
from airflow_provider_dm.engine.meta.database import Database
from airflow_provider_dm.engine.meta.lease import LeaseHeld, LeaseLost, RunOvertaken
from airflow_provider_dm.engine.meta.migrate import alembic_config, migrate
from airflow_provider_dm.engine.meta.model import (
    Holder,
    Lease,
    Operator,
    OperatorKind,
    OperatorState,
    RelayStatus,
    SqlPattern,
    Stage,
    Unit,
)
from airflow_provider_dm.engine.meta.operators import OperatorMissing
from airflow_provider_dm.engine.meta.runs import RunTaken, RunUnknown
from airflow_provider_dm.engine.meta.store import MetaSchemaOutdated, MetaStore
from airflow_provider_dm.engine.meta.subtasks import UnrelatedNeeds
from airflow_provider_dm.engine.meta.url import parse_url
from airflow_provider_dm.engine.mysql.location import Location

PROCESSES: Final = 8
ANNA: Final = Holder("dag/anna", "1", "host-a")
BEN: Final = Holder("dag/ben", "1", "host-b")


class StoreContract:
    """Subclass it with a fixture `meta_url`: the address of an empty database of the test's own."""

    @pytest.fixture
    def store(self, meta_url: str) -> Iterator[MetaStore]:
        migrate(meta_url)
        with MetaStore.open(meta_url) as store:
            yield store

    # The schema

    def test_an_empty_database_says_what_to_run(self, meta_url: str) -> None:
        with pytest.raises(MetaSchemaOutdated, match="dmctl meta migrate"):
            MetaStore.open(meta_url)

    def test_migrating_again_changes_nothing(self, meta_url: str) -> None:
        migrate(meta_url)
        migrate(meta_url)
        MetaStore.open(meta_url).close()

    def test_a_newer_schema_is_refused(self, meta_url: str, store: MetaStore) -> None:
        Database(parse_url(meta_url)).write(lambda tx: tx.execute(text("UPDATE dm_meta_version SET version_num='9'")))
        with pytest.raises(MetaSchemaOutdated, match="has schema version 9"):
            MetaStore.open(meta_url)

    def test_migrations_lead_to_the_tables_that_the_code_uses(self, meta_url: str, store: MetaStore) -> None:
        def columns(tx: Any) -> dict[str, set[str]]:
            return {name: {c["name"] for c in inspect(tx).get_columns(name)} for name in tables.metadata.tables}

        wanted = {name: set(table.columns.keys()) for name, table in tables.metadata.tables.items()}
        assert Database(parse_url(meta_url)).read(columns) == wanted

    def test_an_older_schema_is_brought_up_with_what_it_holds(self, meta_url: str) -> None:
        """Also where the step was begun and its last part is missing, as MySQL commits each DDL by itself."""
        database = Database(parse_url(meta_url))
        with database.connection(write=True) as connection, connection.begin():
            command.upgrade(alembic_config(connection), "0001")
            row = {"task": "t", "source": "s", "version": 3, "unit": "sync", "stage": "Paused", "updated_at": 1}
            columns = ", ".join(row)
            values = ", ".join(f":{name}" for name in row)
            connection.execute(text(f"INSERT INTO dm_subtask_status ({columns}) VALUES ({values})"), row)
            connection.execute(text("ALTER TABLE dm_subtask_status ADD COLUMN error text"))
        migrate(meta_url)
        with MetaStore.open(meta_url) as store:
            (status,) = store.list_subtasks()
            assert (status.stage, status.error, status.error_at) == (Stage.PAUSED, None, None)

    def test_several_may_migrate_at_once(self, meta_url: str) -> None:
        assert race(migrate_and_open, 4, meta_url) == ["ok"] * 4

    # The lease

    def test_generations_rise_above_all_before_and_above_the_target(self, store: MetaStore) -> None:
        taken = [store.acquire_lease("t", "s", ANNA, ttl_seconds=15, at_least=at_least) for at_least in (0, 0, 7, 3, 0)]
        assert [lease.generation for lease in taken] == [1, 2, 8, 9, 10]

    def test_generations_of_subtasks_are_independent(self, store: MetaStore) -> None:
        assert store.acquire_lease("t", "s", ANNA, ttl_seconds=15, at_least=4).generation == 5
        assert store.acquire_lease("t", "other", BEN, ttl_seconds=15, at_least=0).generation == 1
        assert store.acquire_lease("T", "s", BEN, ttl_seconds=15, at_least=0).generation == 1

    def test_somebody_else_is_refused_and_told_by_whom(self, store: MetaStore) -> None:
        store.acquire_lease("t", "s", ANNA, ttl_seconds=15, at_least=0)
        time.sleep(0.1)
        with pytest.raises(LeaseHeld) as refusal:
            store.acquire_lease("t", "s", BEN, ttl_seconds=15, at_least=0)
        assert "dag/anna (attempt 1) on host-a" in str(refusal.value)
        assert 0.05 < refusal.value.age_seconds < 10
        assert 5 < refusal.value.remaining_seconds < 15

    def test_a_later_attempt_takes_over_at_once_and_the_earlier_is_fenced(self, store: MetaStore) -> None:
        first = store.acquire_lease("t", "s", ANNA, ttl_seconds=15, at_least=0)
        second = store.acquire_lease("t", "s", Holder("dag/anna", "2", "host-c"), ttl_seconds=15, at_least=0)
        with pytest.raises(LeaseLost, match="generation now: 2") as lost:
            store.renew_lease(first)
        assert lost.value.reaction is Reaction.FENCED
        store.renew_lease(second)

    def test_an_expired_lease_is_taken_over(self, store: MetaStore) -> None:
        late = store.acquire_lease("t", "s", ANNA, ttl_seconds=0.1, at_least=0)
        time.sleep(0.2)
        assert store.acquire_lease("t", "s", BEN, ttl_seconds=15, at_least=0).generation == 2
        with pytest.raises(LeaseLost):
            store.renew_lease(late)

    def test_an_expired_lease_that_nobody_took_can_be_renewed(self, store: MetaStore) -> None:
        late = store.acquire_lease("t", "s", ANNA, ttl_seconds=0.1, at_least=0)
        time.sleep(0.2)
        store.renew_lease(late)

    def test_renewing_keeps_others_out(self, store: MetaStore) -> None:
        held = store.acquire_lease("t", "s", ANNA, ttl_seconds=0.5, at_least=0)
        for _ in range(4):
            time.sleep(0.2)
            store.renew_lease(held)
        with pytest.raises(LeaseHeld):
            store.acquire_lease("t", "s", BEN, ttl_seconds=15, at_least=0)

    def test_a_released_lease_is_free_at_once(self, store: MetaStore) -> None:
        held = store.acquire_lease("t", "s", ANNA, ttl_seconds=15, at_least=0)
        store.release_lease(held)
        newer = store.acquire_lease("t", "s", BEN, ttl_seconds=15, at_least=0)
        store.release_lease(held)  # no longer ours: nothing happens
        with pytest.raises(LeaseHeld):
            store.acquire_lease("t", "s", ANNA, ttl_seconds=15, at_least=0)
        store.renew_lease(newer)

    def test_who_was_launched_before_a_claim_gets_nothing_behind_it(self, store: MetaStore) -> None:
        """A driver that slept through a later run, whoever that was: of the same identity, alive, ended or expired."""
        assert store.last_generation("t", "s") == 0
        store.acquire_lease("t", "s", ANNA, ttl_seconds=15, at_least=0, launched_behind=0)
        for late in (ANNA, Holder("dag/anna", "2", "host-c")):
            with pytest.raises(RunOvertaken) as overtaken:
                store.acquire_lease("t", "s", late, ttl_seconds=15, at_least=0, launched_behind=0)
            assert overtaken.value.reaction is Reaction.RETRY  # it may as well have been launched later
        with pytest.raises(LeaseHeld):  # may be the next one when that has ended: it is asked again
            store.acquire_lease("t", "s", BEN, ttl_seconds=15, at_least=0, launched_behind=0)
        assert store.last_generation("t", "s") == 1
        held = store.acquire_lease("t", "s", ANNA, ttl_seconds=15, at_least=0, launched_behind=1)
        store.release_lease(held)
        with pytest.raises(RunOvertaken, match="dag/anna"):
            store.acquire_lease("t", "s", BEN, ttl_seconds=15, at_least=0, launched_behind=1)
        assert store.acquire_lease("t", "s", BEN, ttl_seconds=15, at_least=0, launched_behind=2).generation == 3

    def test_one_who_read_before_a_renewal_does_not_get_the_lease(self, meta_url: str, store: MetaStore) -> None:
        """Between reading an expired lease and taking it, its holder came back."""
        database = Database(parse_url(meta_url))
        late = store.acquire_lease("t", "s", ANNA, ttl_seconds=0.1, at_least=0)
        time.sleep(0.2)
        key = matching(tables.lease, {"task": "t", "source": "s"})
        (seen,) = database.read(lambda tx: read_with_now(tx, tables.lease, key))
        assert leases.decide(seen, BEN, at_least=0, launched_behind=None) == leases.Grant(2)
        store.renew_lease(late)
        assert not leases._take(database, Lease("t", "s", 2, BEN, 15), seen)
        store.renew_lease(late)

    def test_of_eight_processes_one_gets_the_lease(self, meta_url: str, store: MetaStore) -> None:
        outcomes = race(acquire_as_oneself, PROCESSES, meta_url)
        assert sorted(outcomes) == ["generation 1"] + ["held"] * (PROCESSES - 1)

    def test_of_eight_processes_one_gets_an_expired_lease(self, meta_url: str, store: MetaStore) -> None:
        store.acquire_lease("t", "s", ANNA, ttl_seconds=0.01, at_least=40)
        time.sleep(0.1)
        outcomes = race(acquire_as_oneself, PROCESSES, meta_url)
        assert sorted(outcomes) == ["generation 42"] + ["held"] * (PROCESSES - 1)

    def test_of_eight_attempts_of_one_identity_each_gets_generations_of_its_own(
        self, meta_url: str, store: MetaStore
    ) -> None:
        outcomes = race(acquire_five_times_as_one, PROCESSES, meta_url)
        generations = [int(generation) for outcome in outcomes for generation in outcome.split()]
        assert sorted(generations) == list(range(1, 5 * PROCESSES + 1))

    # Runs

    def test_a_run_from_start_to_end(self, store: MetaStore) -> None:
        store.start_run("r", task="t", app="verify", holder=ANNA)
        store.heartbeat_run("r", {"rows": 3, "name": "naïve ☃"})
        run = store.get_run("r")
        assert run is not None
        assert (run.task, run.app, run.holder, run.stage) == ("t", "verify", ANNA, Stage.RUNNING)
        assert run.progress == {"rows": 3, "name": "naïve ☃"}
        assert run.heartbeat_age_seconds < 5
        store.finish_run("r", stage=Stage.FINISHED, result={"verified": True}, error=None)
        done = store.get_run("r")
        assert done is not None
        assert (done.stage, done.result, done.error) == (Stage.FINISHED, {"verified": True}, None)
        assert done.finished_at is not None
        assert done.finished_at >= done.started_at
        assert [run.run_id for run in store.list_runs(task="t")] == ["r"]

    def test_an_outcome_is_given_once(self, store: MetaStore) -> None:
        store.start_run("r", task="t", app="verify", holder=ANNA)
        store.finish_run("r", stage=Stage.STOPPED)
        store.finish_run("r", stage=Stage.STOPPED)  # repeated after a lost answer
        with pytest.raises(LostRace):
            store.finish_run("r", stage=Stage.FINISHED, result={})
        with pytest.raises(LostRace):
            store.heartbeat_run("r", {})

    def test_a_run_can_be_asked_to_stop(self, store: MetaStore) -> None:
        store.start_run("r", task="t", app="verify", holder=ANNA)
        assert not store.stop_requested("r")
        store.request_stop("r")
        store.heartbeat_run("r", {})
        assert store.stop_requested("r")

    def test_a_run_is_restarted_by_its_own_identity_only(self, store: MetaStore) -> None:
        store.start_run("r", task="t", app="verify", holder=ANNA)
        store.finish_run("r", stage=Stage.PAUSED, error={"ErrCode": "DM-1"})
        store.start_run("r", task="t", app="verify", holder=Holder("dag/anna", "2", "host-a"))
        run = store.get_run("r")
        assert run is not None
        assert (run.stage, run.error, run.holder.attempt) == (Stage.RUNNING, None, "2")
        with pytest.raises(RunTaken, match="belongs to dag/anna"):
            store.start_run("r", task="t", app="verify", holder=BEN)

    def test_an_unknown_run_is_an_error_not_a_new_row(self, store: MetaStore) -> None:
        calls: list[Callable[[], object]] = [
            lambda: store.heartbeat_run("r", {}),
            lambda: store.request_stop("r"),
            lambda: store.stop_requested("r"),
            lambda: store.finish_run("r", stage=Stage.FINISHED),
        ]
        for call in calls:
            with pytest.raises(RunUnknown):
                call()
        assert store.get_run("r") is None

    def test_a_large_result_is_kept_whole(self, store: MetaStore) -> None:
        result = {"tables": [f"table_{number:06d}" for number in range(20_000)]}
        store.start_run("r", task="t", app="verify", holder=ANNA)
        store.finish_run("r", stage=Stage.FINISHED, result=result)
        run = store.get_run("r")
        assert run is not None
        assert run.result == result

    # Subtasks

    def test_a_subtask_is_put_and_put_again(self, store: MetaStore) -> None:
        first, later = Location("mysql-bin.000003", 5_000_000_000, "a:1-7"), Location("mysql-bin.000004", 4)
        store.put_subtask("t", "s", unit=Unit.LOAD, stage=Stage.RUNNING, needed=first, applied=None)
        store.put_subtask("t", "s", unit=Unit.SYNC, stage=Stage.PAUSED, needed=first, applied=later)
        store.put_subtask("t", "s2", unit=Unit.SYNC, stage=Stage.RUNNING)
        store.put_subtask("u", "s", unit=Unit.SYNC, stage=Stage.RUNNING)
        (status,) = store.list_subtasks(task="t", source="s")
        assert (status.unit, status.stage, status.needed, status.applied) == (Unit.SYNC, Stage.PAUSED, first, later)
        assert [(s.task, s.source) for s in store.list_subtasks()] == [("t", "s"), ("t", "s2"), ("u", "s")]
        store.forget_subtask("t", "s")
        assert [(s.task, s.source) for s in store.list_subtasks(source="s")] == [("u", "s")]

    def test_the_oldest_need_counts_whoever_stands_still(self, store: MetaStore) -> None:
        def put(task: str, stage: Stage, number: int) -> None:
            needed = Location(f"mysql-bin.{number:06d}", 4)
            store.put_subtask(task, "s", unit=Unit.SYNC, stage=stage, needed=needed)

        assert store.oldest_needed("s") is None
        put("running", Stage.RUNNING, 9)
        put("stopped", Stage.STOPPED, 5)
        put("finished", Stage.FINISHED, 2)
        assert store.oldest_needed("s") == Location("mysql-bin.000005", 4)
        put("paused", Stage.PAUSED, 3)
        assert store.oldest_needed("s") == Location("mysql-bin.000003", 4)

    def test_needs_in_unrelated_logs_are_not_ordered(self, store: MetaStore) -> None:
        for task, file in (("a", "mysql-bin.000001"), ("b", "binlog.000001")):
            store.put_subtask(task, "s", unit=Unit.SYNC, stage=Stage.RUNNING, needed=Location(file, 4))
        with pytest.raises(UnrelatedNeeds):
            store.oldest_needed("s")

    def test_writers_of_one_subtask_do_not_lose_each_other(self, meta_url: str, store: MetaStore) -> None:
        assert race(put_subtask_often, 4, meta_url) == ["ok"] * 4
        database = Database(parse_url(meta_url))
        (row,) = database.read(lambda tx: read_with_now(tx, tables.subtask))
        assert row.version == 4 * 10

    def test_what_has_paused_a_subtask_is_kept_until_it_says_something_else(self, store: MetaStore) -> None:
        here = Location("mysql-bin.000003", 400, "a:1-7", 2, "u")
        store.put_subtask_error("t", "s", {"ErrCode": "DM-1"})
        assert store.list_subtasks() == []  # a purge would wait for what such a row needs
        store.put_subtask("t", "s", unit=Unit.SYNC, stage=Stage.RUNNING, needed=here, applied=here)
        store.put_subtask_error("t", "s", {"ErrCode": "DM-6032", "Message": "naïve ☃"}, at=here)
        (status,) = store.list_subtasks()
        assert (status.stage, status.needed, status.applied) == (Stage.PAUSED, here, here)
        assert (status.error, status.error_at) == ({"ErrCode": "DM-6032", "Message": "naïve ☃"}, here)
        store.put_subtask("t", "s", unit=Unit.SYNC, stage=Stage.RUNNING, needed=here, applied=here)
        (status,) = store.list_subtasks()
        assert (status.error, status.error_at) == (None, None)

    def test_what_a_subtask_says_and_what_people_want_are_apart(self, store: MetaStore) -> None:
        here = Location("mysql-bin.000003", 400, "a:1-7", 2, "u")
        store.set_subtask_desired("t", "s", Stage.PAUSED)
        assert store.list_subtasks() == []  # as for what has paused it
        store.put_subtask("t", "s", unit=Unit.SYNC, stage=Stage.RUNNING, needed=here, applied=here)
        assert store.list_subtasks()[0].desired is None
        store.put_subtask_error("t", "s", {"ErrCode": "DM-6032"}, at=here)
        store.set_subtask_desired("t", "s", Stage.PAUSED)
        store.put_subtask_paused("t", "s")
        (status,) = store.list_subtasks()
        assert (status.stage, status.error, status.error_at, status.needed) == (Stage.PAUSED, None, None, here)
        store.put_subtask("t", "s", unit=Unit.SYNC, stage=Stage.RUNNING)
        assert store.list_subtasks()[0].desired is Stage.PAUSED
        store.forget_subtask("t", "s")
        store.put_subtask("t", "s", unit=Unit.SYNC, stage=Stage.RUNNING)
        assert store.list_subtasks()[0].desired is None

    # Binlog operators

    def test_an_operator_from_its_wish_to_the_record_of_it(self, store: MetaStore) -> None:
        here = Location("mysql-bin.000003", 400, "", 2)
        wish = Operator("t", "s", OperatorKind.REPLACE, here, ("ALTER TABLE a.b ADD c int", "DROP TABLE a.`naïve ☃`"))
        store.put_operators([wish, replace(wish, task="T"), replace(wish, source="other")])
        (found,) = store.operators("t", "s")
        assert found.created_at is not None
        assert replace(found, created_at=None) == wish
        assert store.mark_operators_passed("t", "s", here) == []
        store.mark_operator_used(found, here)
        store.mark_operator_used(found, here)  # once more, by the run behind the one that died
        (used,) = store.operators("t", "s")
        assert (used.state, used.used_at) == (OperatorState.USED, here)
        assert store.mark_operators_passed("t", "s", here) == []
        (passed,) = store.mark_operators_passed("t", "s", here.at(500))
        assert (passed.place, passed.used_at) == (here, here)
        assert store.operators("t", "s") == []
        (record,) = store.operators("t", "s", passed=True)
        assert record.state is OperatorState.PASSED
        with pytest.raises(OperatorMissing, match="operator not exist"):
            store.revert_operator("t", "s", here)
        assert [len(store.operators(*key)) for key in (("T", "s"), ("t", "other"))] == [1, 1]

    def test_a_place_that_was_none_is_told_when_the_task_has_passed_it(self, store: MetaStore) -> None:
        here, pattern = Location("mysql-bin.000003", 400), SqlPattern("(?i)drop")
        store.put_operators([Operator("t", "s", OperatorKind.SKIP, place) for place in (here, pattern)])
        (missed,) = store.mark_operators_passed("t", "s", Location("mysql-bin.000009", 4))
        assert (missed.place, missed.used_at) == (here, None)
        assert [one.place for one in store.operators("t", "s")] == [pattern]

    def test_an_operator_that_is_not_as_it_was_read_is_not_used(self, store: MetaStore) -> None:
        here, there, pattern = Location("mysql-bin.000003", 400), Location("mysql-bin.000003", 900), SqlPattern("DROP")
        by_place, by_pattern = (Operator("t", "s", OperatorKind.SKIP, place) for place in (here, pattern))
        store.put_operators([by_place, by_pattern])
        store.mark_operator_used(by_pattern, here)
        with pytest.raises(LostRace, match=r"used at mysql-bin\.000003:400"):
            store.mark_operator_used(by_pattern, there)
        store.put_operators([replace(by_place, kind=OperatorKind.INJECT, statements=("DROP TABLE a.b",))])
        with pytest.raises(LostRace):
            store.mark_operator_used(by_place, here)
        assert store.revert_operator("t", "s", pattern).used_at == here
        with pytest.raises(LostRace):
            store.mark_operator_used(by_pattern, here)

    def test_the_later_wish_for_a_place_counts(self, store: MetaStore) -> None:
        here = Location("mysql-bin.000003", 400)
        first = Operator("t", "s", OperatorKind.REPLACE, here, ("DROP TABLE a.b",))
        store.put_operators([first])
        store.mark_operator_used(first, here)
        store.put_operators([Operator("t", "s", OperatorKind.SKIP, here)])
        (found,) = store.operators("t", "s")
        assert (found.kind, found.statements, found.state, found.used_at) == ("skip", (), "waiting", None)

    def test_operators_go_with_their_subtask(self, store: MetaStore) -> None:
        store.put_operators([Operator("t", "s", OperatorKind.SKIP, SqlPattern("DROP"))])
        store.forget_subtask("t", "s")
        assert store.operators("t", "s", passed=True) == []

    # Relays

    def test_ddl_locks_change_by_what_is_there(self, store: MetaStore) -> None:
        """Reports of many sources at once all count, and the last one to go on removes the lock."""
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

    def test_what_a_relay_says_and_what_people_want_are_apart(self, store: MetaStore) -> None:
        assert store.relay_status("s") is None
        assert store.relay_desired("s") is None
        store.set_relay_desired("s", Stage.RUNNING)
        assert store.relay_status("s") is None
        told = RelayStatus(
            "s",
            Stage.RUNNING,
            master=Location("mysql-bin.000002", 900),
            relay=Location("mysql-bin.000002", 400, "x:1-3"),
            sub_dir="9f2c.000001",
            pid=4711,
            host="host-a",
            error={"ErrCode": "DM-4001"},
        )
        store.put_relay_status(told)
        store.set_relay_desired("s", Stage.PAUSED)
        found = store.relay_status("s")
        assert found is not None
        assert found.heartbeat_age_seconds is not None
        assert found.heartbeat_age_seconds < 5
        assert found.heartbeat_at is not None
        same = ("source", "stage", "master", "relay", "sub_dir", "caught_up", "error", "pid", "host")
        assert [getattr(found, name) for name in same] == [getattr(told, name) for name in same]
        assert store.relay_desired("s") is Stage.PAUSED

    def test_whose_log_it_was_is_not_forgotten(self, store: MetaStore) -> None:
        """A relay that starts does not know yet which sub-directory it writes."""
        store.put_relay_status(RelayStatus("s", Stage.RUNNING, sub_dir="9f2c.000001"))
        store.put_relay_status(RelayStatus("s", Stage.NEW, host="host-b"))
        found = store.relay_status("s")
        assert found is not None
        assert (found.stage, found.host, found.sub_dir) == (Stage.NEW, "host-b", "9f2c.000001")
        store.put_relay_status(RelayStatus("s", Stage.RUNNING, sub_dir="77aa.000002"))
        assert (found := store.relay_status("s")) is not None
        assert found.sub_dir == "77aa.000002"

    # Processes and threads

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

    def test_a_forked_child_connects_anew(self, store: MetaStore) -> None:
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


# Races between real processes


def race(act: Callable[[str, int], str], count: int, meta_url: str) -> list[str]:
    """Return what each of `count` processes answers that begin at the same moment."""
    # Real processes, with no state from this one, that need not import everything each for itself.
    context = multiprocessing.get_context("forkserver")
    drivers = ["sqlalchemy.dialects.mysql.pymysql", "sqlalchemy.dialects.postgresql.psycopg", "pymysql", "psycopg"]
    context.set_forkserver_preload([__name__, *drivers])
    barrier, answers = context.Barrier(count), context.SimpleQueue()
    racers = [context.Process(target=_racer, args=(act, barrier, answers, meta_url, number)) for number in range(count)]
    for racer in racers:
        racer.start()
    found = [answers.get() for _ in racers]
    for racer in racers:
        racer.join()
    return found


def _racer(act: Callable[[str, int], str], barrier: Any, answers: Any, meta_url: str, number: int) -> None:
    barrier.wait(60)
    try:
        answers.put(act(meta_url, number))
    except BaseException as error:  # noqa: BLE001 - the parent must not wait for ever
        answers.put(repr(error))


def migrate_and_open(meta_url: str, number: int) -> str:
    migrate(meta_url)
    MetaStore.open(meta_url).close()
    return "ok"


def acquire_as_oneself(meta_url: str, number: int) -> str:
    with MetaStore.open(meta_url) as store:
        try:
            holder = Holder(f"dag/{number}", "1", "host")
            return f"generation {store.acquire_lease('t', 's', holder, ttl_seconds=60, at_least=0).generation}"
        except LeaseHeld:
            return "held"


def acquire_five_times_as_one(meta_url: str, number: int) -> str:
    with MetaStore.open(meta_url) as store:
        holder = Holder("dag/one", str(number), "host")
        taken = [store.acquire_lease("t", "s", holder, ttl_seconds=60, at_least=0) for _ in range(5)]
        return " ".join(str(lease.generation) for lease in taken)


def put_subtask_often(meta_url: str, number: int) -> str:
    with MetaStore.open(meta_url) as store:
        for position in range(4, 14):
            needed = Location("mysql-bin.000001", position)
            store.put_subtask("t", "s", unit=Unit.SYNC, stage=Stage.RUNNING, needed=needed)
        return "ok"
