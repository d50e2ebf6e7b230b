"""The state of DDL of merged tables, according to the metadata DB: resolved, waiting, or in need of a user."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_provider_dm.engine.errors import describe
from airflow_provider_dm.engine.meta.records import Run, Stage, SubtaskStatus, Unit
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.processes import Holder
from airflow_provider_dm.engine.shard.errors import ShardDdlOutOfSequence
from airflow_provider_dm.engine.shard.lock import Action, DdlInfo, Lock
from airflow_provider_dm.launch.awaited import Awaited, Broken, Met, NotYet
from airflow_provider_dm.launch.ddl_state import TaskRecords, ddl_state_of

NOW = 1_800_000_000.0
WHEN = datetime(2026, 1, 1, tzinfo=UTC)
A, B = DdlInfo("a", ("ADD c int",)), DdlInfo("b", ("ADD c int",))
LOCK = Lock("t", TableName("s", "o"), 0, "a", (A,), ("a", "b"))
ID = LOCK.id
GROUP = {
    "target": "`s`.`o`",
    "DDLs": ["ADD c int"],
    "synced": ["`s`.`o_1`"],
    "unsynced": ["`s`.`o_2`"],
    "waits": "for s.o_2 of this source",
    "since": NOW - 75,
}


def subtask(source: str, **parts: Any) -> SubtaskStatus:
    return replace(SubtaskStatus("t", source, Unit.SYNC, Stage.STOPPED, None, None, WHEN), **parts)


def run(number: int, stage: Stage = Stage.FINISHED, **groups: list[dict[str, Any]] | None) -> Run:
    progress = {source: {"unresolved_groups": reason} for source, reason in groups.items()}
    holder = Holder("me", "1", "here")
    return Run(f"r{number}", "t", "incremental_sync", holder, stage, WHEN, WHEN, 1.0, progress=progress)


QUIET = run(1, a=[], b=[])
BOTH = (subtask("a"), subtask("b"))


def standing(
    *locks: Lock,
    runs: tuple[Run, ...] = (QUIET,),
    subtasks: tuple[SubtaskStatus, ...] = BOTH,
    lock_id: str | None = None,
) -> Awaited:
    return ddl_state_of(TaskRecords("t", [(one, 63.0) for one in locks], subtasks, runs), lock_id, now=NOW)


@pytest.mark.parametrize(
    ("lock", "reason"),
    [
        (LOCK, f"of s.o ({ID}), 1 min 3 s old, waits for b"),
        (replace(LOCK, infos=(A, B)), "waits for a to execute it"),
        (replace(LOCK, infos=(A, B), decision=Action.EXEC), "waits for a to execute it"),
        (
            replace(LOCK, infos=(replace(A, done=True), B), executed=True, settled=(B.ddls,)),
            "has been executed, and waits for b to continue",
        ),
    ],
    ids=["source missing", "to be run", "decided", "to continue"],
)
def test_a_lock_is_pending_until_every_source_has_passed_it(lock: Lock, reason: str) -> None:
    for lock_id in (None, ID):
        found = standing(lock, lock_id=lock_id)
        assert isinstance(found, NotYet)
        assert reason in found.why
        assert [one["ID"] for one in found.locks] == [ID]
        assert "no sync of the task is running" in found.why
    assert standing(lock, lock_id="t-`s`.`another`") == Met()
    running = standing(lock, runs=(replace(QUIET, stage=Stage.RUNNING),))
    assert isinstance(running, NotYet)
    assert "no sync" not in running.why


def test_a_skipped_source_is_not_awaited_later() -> None:
    """Forced: b has not reached the DDL, skips it when it does, and holds nothing back until then."""
    assert standing(replace(LOCK, infos=(replace(A, done=True),), executed=True)) == Met()


def test_different_ddl_is_reported_with_both_sides_until_a_decision() -> None:
    differ = replace(LOCK, infos=(A, DdlInfo("b", ("ADD c bigint",))))
    another = replace(LOCK, target=TableName("s", "p"))
    found = standing(another, differ)
    assert isinstance(found, Broken)
    assert "a has executed ADD c int; b has executed ADD c bigint" in found.why
    assert [one["conflict"] for one in found.locks] == [{}, {"a": ["ADD c int"], "b": ["ADD c bigint"]}]
    assert isinstance(standing(another, differ, lock_id=another.id), NotYet)
    assert isinstance(standing(replace(differ, decision=Action.SKIP)), NotYet)


def test_ddl_out_of_order_in_a_source_is_reported_until_it_runs_again() -> None:
    error = describe(ShardDdlOutOfSequence("a", "s.o_2", ("ADD d int",), "s.o_1", ("ADD c int",), "s.o"))
    stopped = (subtask("a", stage=Stage.PAUSED, error=error), subtask("b"))
    for lock_id in (None, ID):
        found = standing(subtasks=stopped, lock_id=lock_id)
        assert isinstance(found, Broken)
        assert "s.o_2 has executed: ADD d int" in found.why
        assert "s.o_1 has executed" in found.why
    for another in ("another", "o_", "", "o_2"):  # the message names s.o_2 as well, a shard
        assert standing(subtasks=stopped, lock_id=f"t-`s`.`{another}`") == Met()
    assert standing(subtasks=(subtask("a", stage=Stage.RUNNING, error=None), subtask("b"))) == Met()


def test_shards_of_one_source_are_missing_before_there_is_a_lock() -> None:
    found = standing(runs=(run(2, a=[GROUP], b=[]), QUIET))
    assert isinstance(found, NotYet)
    assert "DDL of `s`.`o` in a, 1 min 15 s old, waits for its shards `s`.`o_2`" in found.why
    assert standing(runs=(run(2, a=[GROUP], b=[]), QUIET), lock_id="t-`s`.`another`") == Met()


def test_an_unknown_state_is_not_resolved() -> None:
    """A run that begins has not checked yet; a run that the metadata DB does not know may hold any row back."""
    begins = run(3, Stage.RUNNING, a=None)
    assert isinstance(standing(runs=(begins, run(2, a=[GROUP], b=[]))), NotYet)
    assert standing(runs=(begins, QUIET)) == Met()
    silent = replace(run(2, Stage.RUNNING, a=[], b=[]), heartbeat_age_seconds=31.0)
    loaded = replace(run(2), progress={"a": {"unit": "load"}, "b": {"unit": "load"}})
    for last in (silent, replace(silent, progress={}), loaded):  # killed; before its first beat; of an earlier life
        assert isinstance(standing(runs=(last, QUIET)), NotYet)
        assert isinstance(standing(runs=(begins, last, QUIET)), NotYet)
        assert standing(runs=(run(3, a=[], b=[]), last)) == Met()
    assert standing(runs=(replace(silent, progress={}, app="verify"), QUIET)) == Met()
    unknown = standing(runs=(run(2, a=[]),))
    assert isinstance(unknown, NotYet)
    assert "b: no sync has reported yet" in unknown.why
    nothing = standing(subtasks=(), runs=())
    assert isinstance(nothing, NotYet)
    assert "no sync of task t" in nothing.why
