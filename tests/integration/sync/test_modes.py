"""Every way of writing on real servers: killed again and again, and the target becomes what the source is."""

import os
import random
import signal
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_dm.engine.downstream.row_statements import SqlStatement, Verb
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.sync.epoch import EpochSize
from airflow_provider_dm.engine.sync.write.apply import WaveWriter
from tests.before import before
from tests.integration.sync.conftest import SyncKit, before_row_statements, random_transactions

MODES: dict[str, dict[str, Any]] = {
    "as DM does by default": {"compact": False, "multiple-rows": False, "batch": 20, "worker-count": 4},
    "every change": {"compact": False},
    "whole transactions": {"apply": "transactional", "batch": 5, "worker-count": 4},
}
SMALL = EpochSize(limit=20_000, one_task=0, smallest=4096, largest=20_000)


def killed(kit: SyncKit, goal: str, statements: int) -> bool:
    """Sync in a process of its own, which is killed before that statement; return True if it was."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child uses none of its parent's threads
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            striking(statements, lambda: os.kill(os.getpid(), signal.SIGKILL))
            with MetaStore.open(kit.meta_url) as store:
                replace(kit, store=store).sync(until=goal, size=SMALL)
            status = 0
        finally:
            os._exit(status)
    kit.attempts += 1
    _, status = os.waitpid(pid, 0)
    assert status in (0, signal.SIGKILL)
    return status != 0


def striking(statements: int, strike: Callable[[], None]) -> None:
    """Let something happen before a statement about rows."""
    left = statements

    def happen(_: SqlStatement) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            strike()

    before_row_statements(pytest.MonkeyPatch(), happen)


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES.keys())
def test_the_target_equals_the_source_after_any_kill(kit: SyncKit, mode: dict[str, Any]) -> None:
    """Swaps, hand-overs, moved keys, NULLs, twins without a key, text that a collation takes for one."""
    kit.relays_are_processes = True
    kit.instance_keys = {"syncer": mode}
    kit.begin_with()
    random_transactions(kit, seed=7, transactions=120, keys=20)
    swap(kit)
    goal, chance = str(kit.upstream()), random.Random(len(mode))
    deaths = 0
    while killed(kit, goal, chance.randrange(20, 150)):
        deaths += 1
    assert deaths > 1
    assert kit.differences() == []
    # Another way of writing continues where this one was killed, also in the middle of an epoch.
    random_transactions(kit, seed=8, transactions=60, keys=20)
    goal = str(kit.upstream())
    killed(kit, goal, chance.randrange(5, 60))
    kit.instance_keys = {}
    killed(kit, goal, chance.randrange(5, 60))
    kit.sync_and_compare(until=goal)


def swap(kit: SyncKit) -> None:
    kit.write("DELETE FROM uniq", "INSERT INTO uniq VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c'), (4, NULL, 'd')")
    kit.write(
        "UPDATE uniq SET u = NULL WHERE id = 1",
        "UPDATE uniq SET u = 1 WHERE id = 2",
        "UPDATE uniq SET u = 2 WHERE id = 1",
        "UPDATE uniq SET id = id + 10 ORDER BY id DESC",
    )
    kit.write("DELETE FROM uniq WHERE u = 3", "INSERT INTO uniq VALUES (3, 3, 'another')")


def test_one_row_a_statement_and_each_change_is_written(one_kit: SyncKit, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[SqlStatement] = []
    before_row_statements(monkeypatch, written.append)
    one_kit.instance_keys = {"syncer": MODES["as DM does by default"]}
    one_kit.begin_with("plain", "keyless")
    one_kit.write("INSERT INTO plain VALUES (1, 'a'), (2, 'b')", "UPDATE plain SET v = 'c'", "UPDATE plain SET v = 'd'")
    one_kit.write("INSERT INTO keyless VALUES (1, 'x'), (1, 'x')", "DELETE FROM keyless", "DELETE FROM plain")
    one_kit.sync()

    assert {statement.rows for statement in written} == {1}
    verbs = [statement.verb for statement in written if statement.table.table == "plain"]
    assert sorted(verbs, key=lambda one: one.value) == [*[Verb.DELETE] * 2, *[Verb.INSERT] * 2, *[Verb.UPSERT] * 4]
    assert one_kit.differences() == []


@pytest.mark.parametrize("mode", [{}, {"compact": False}, {"apply": "transactional"}], ids=["folded", "every", "whole"])
def test_batch_is_the_most_rows_of_a_target_transaction(
    one_kit: SyncKit, monkeypatch: pytest.MonkeyPatch, mode: dict[str, Any]
) -> None:
    transactions: list[int] = []

    def count(statement: SqlStatement) -> None:
        transactions[-1] += statement.rows

    before_row_statements(monkeypatch, count)
    before(monkeypatch, WaveWriter, "_run_all", lambda *_, **__: transactions.append(0))
    one_kit.instance_keys = {"syncer": {"batch": 50, "worker-count": 1, **mode}}
    one_kit.begin_with("plain")
    for number in range(400):
        rows = ", ".join(f"({number * 20 + n}, '{'x' * (n % 7)}')" for n in range(20))
        one_kit.write(f"INSERT INTO plain VALUES {rows}")
    one_kit.sync_and_compare()
    assert sum(transactions) == 8000
    assert max(transactions) <= 50
