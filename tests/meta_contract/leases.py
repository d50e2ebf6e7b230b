"""Leases: who may run a subtask, as which generation."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from airflow_provider_dm.engine.errors import Reaction
from airflow_provider_dm.engine.meta.errors import LeaseHeld, LeaseLost, RunOvertaken
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.processes import Holder, this_process
from tests.meta_contract.opened import ANNA, BEN, OpenStore
from tests.meta_contract.races import PROCESSES, race


class LeaseContract(OpenStore):
    """What holds of a lease, also between processes."""

    def test_generations_rise_above_all_before_and_above_the_target(self, store: MetaStore) -> None:
        taken = [store.acquire_lease("t", "s", ANNA, ttl_seconds=15, at_least=at_least) for at_least in (0, 0, 7, 3, 0)]
        assert [lease.generation for lease in taken] == [1, 2, 8, 9, 10]

    def test_generations_of_subtasks_are_independent(self, store: MetaStore) -> None:
        assert store.acquire_lease("t", "s", ANNA, ttl_seconds=15, at_least=4).generation == 5
        assert store.acquire_lease("t", "other", BEN, ttl_seconds=15, at_least=0).generation == 1
        assert store.acquire_lease("T", "s", BEN, ttl_seconds=15, at_least=0).generation == 1

    def test_another_holder_is_refused_with_the_holders_name(self, store: MetaStore) -> None:
        store.acquire_lease("t", "s", ANNA, ttl_seconds=150, at_least=0)
        time.sleep(0.1)
        with pytest.raises(LeaseHeld) as refusal:
            store.acquire_lease("t", "s", BEN, ttl_seconds=15, at_least=0)
        assert "dag/anna (attempt 1) on host-a" in str(refusal.value)
        assert 0.05 < refusal.value.age_seconds < 100
        assert 50 < refusal.value.remaining_seconds < 150

    def test_a_later_attempt_takes_over_at_once_and_the_earlier_is_fenced(self, store: MetaStore) -> None:
        first = store.acquire_lease("t", "s", ANNA, ttl_seconds=15, at_least=0)
        second = store.acquire_lease("t", "s", Holder("dag/anna", "2", "host-c"), ttl_seconds=15, at_least=0)
        with pytest.raises(LeaseLost, match="current generation: 2") as lost:
            store.renew_lease(first)
        assert lost.value.reaction is Reaction.FENCED
        store.renew_lease(second)

    def test_an_expired_lease_is_taken_over(self, store: MetaStore) -> None:
        late = store.acquire_lease("t", "s", ANNA, ttl_seconds=0.1, at_least=0)
        time.sleep(0.2)
        assert store.acquire_lease("t", "s", BEN, ttl_seconds=15, at_least=0).generation == 2
        with pytest.raises(LeaseLost):
            store.renew_lease(late)

    def test_an_expired_lease_that_was_not_taken_can_be_renewed(self, store: MetaStore) -> None:
        late = store.acquire_lease("t", "s", ANNA, ttl_seconds=0.1, at_least=0)
        time.sleep(0.2)
        store.renew_lease(late)

    def test_renewing_keeps_others_out(self, store: MetaStore) -> None:
        held = store.acquire_lease("t", "s", ANNA, ttl_seconds=2.0, at_least=0)
        for _ in range(3):
            time.sleep(0.8)
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

    def test_a_task_launched_before_a_claim_applies_nothing_after_it(self, store: MetaStore) -> None:
        """A driver that was suspended during a later run of any kind: of the same identity, alive, ended or expired."""
        assert store.last_generation("t", "s") == 0
        store.acquire_lease("t", "s", ANNA, ttl_seconds=15, at_least=0, launched_after=0)
        for late in (ANNA, Holder("dag/anna", "2", "host-c")):
            with pytest.raises(RunOvertaken) as overtaken:
                store.acquire_lease("t", "s", late, ttl_seconds=15, at_least=0, launched_after=0)
            assert overtaken.value.reaction is Reaction.RETRY  # it may as well have been launched later
        with pytest.raises(LeaseHeld):  # may be the next one when that has ended: it is asked again
            store.acquire_lease("t", "s", BEN, ttl_seconds=15, at_least=0, launched_after=0)
        assert store.last_generation("t", "s") == 1
        held = store.acquire_lease("t", "s", ANNA, ttl_seconds=15, at_least=0, launched_after=1)
        store.release_lease(held)
        with pytest.raises(RunOvertaken, match="dag/anna"):
            store.acquire_lease("t", "s", BEN, ttl_seconds=15, at_least=0, launched_after=1)
        assert store.acquire_lease("t", "s", BEN, ttl_seconds=15, at_least=0, launched_after=2).generation == 3

    def test_a_holder_killed_on_this_machine_is_replaced_at_once(self, meta_url: str, store: MetaStore) -> None:
        with killed_later("import sys, tests.meta_contract.leases as l; l.hold(sys.argv[1])", meta_url) as alive:
            with pytest.raises(LeaseHeld, match="dag/anna"):
                store.acquire_lease("t", "s", BEN, ttl_seconds=15, at_least=0)
            assert store.lease_held("t", "s", BEN) is not None
            alive.kill()
            alive.wait()
            assert store.lease_held("t", "s", BEN) is None
            assert store.acquire_lease("t", "s", BEN, ttl_seconds=15, at_least=0).generation == 2

    def test_a_holder_of_another_machine_keeps_its_lease(self, store: MetaStore) -> None:
        elsewhere = replace(ANNA, process="another-boot pid:[1] 4194305 1")
        store.acquire_lease("t", "s", elsewhere, ttl_seconds=15, at_least=0)
        with pytest.raises(LeaseHeld, match="dag/anna"):
            store.acquire_lease("t", "s", BEN, ttl_seconds=15, at_least=0)

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


def hold(meta_url: str) -> None:
    """Acquire a lease for a minute, print a line, and wait to be killed."""
    with MetaStore.open(meta_url) as store:
        store.acquire_lease("t", "s", replace(ANNA, process=this_process()), ttl_seconds=60, at_least=0)
        print("held", flush=True)
        signal.pause()


@contextmanager
def killed_later(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a Python process that has printed its first line, and kill it at the end of the block."""
    with subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            yield process
        finally:
            process.kill()


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
