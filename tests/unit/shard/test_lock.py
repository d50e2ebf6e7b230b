"""The lock across sources: phases, events, and what is refused."""

import pytest

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.shard.errors import LockRefuses
from airflow_provider_dm.engine.shard.lock import (
    Action,
    DdlInfo,
    Lock,
    Phase,
    continued,
    executed,
    reported,
    with_decision,
    withdrawn,
)

TARGET = TableName("t", "o")


def report(lock: Lock | None, source: str, *ddls: str) -> Lock:
    return reported(lock, "task", TARGET, 0, DdlInfo(source, ddls), {"a", "b"})


def test_the_life_of_a_lock() -> None:
    lock = report(None, "b", "A", "B")
    assert (lock.id, lock.owner, lock.ddls) == ("task-`t`.`o`", "b", ("A", "B"))
    assert (lock.phase, lock.synced, lock.unsynced) == (Phase.WAITING, ["b"], ["a"])
    assert report(lock, "b", "A", "B") == lock
    lock = report(lock, "a", "A", "B")
    assert (lock.phase, lock.owner) == (Phase.EXEC, "b")
    assert Lock.from_json(lock.to_json()) == lock
    lock = executed(lock, "b")
    assert lock.phase is Phase.SKIP
    assert executed(lock, "a") == lock, "repeated"
    left = continued(lock, "b")
    assert left is not None
    assert continued(left, "b") == left
    assert continued(left, "a") is None


def test_different_ddl_is_a_conflict_that_shows_both_sides_until_a_user_decides() -> None:
    lock = report(report(None, "a", "A"), "b", "B")
    assert lock.phase is Phase.CONFLICT
    assert str(lock.conflict_of("b")).startswith(
        "[DM-6052 upstream] sharding ddls in ddl lock task-`t`.`o` (number 0) is different: b has "
        "executed B; a has executed A."
    )
    with pytest.raises(LockRefuses):
        executed(lock, "a")
    decided = with_decision(lock, Action.EXEC, "b", force=False)
    assert (decided.phase, decided.owner, decided.ddls) == (Phase.EXEC, "b", ("B",))


def test_a_decision_is_kept_as_its_owner_may_be_executing_unless_forced() -> None:
    lock = with_decision(report(report(None, "a", "A"), "b", "B"), Action.EXEC, "a", force=False)
    with pytest.raises(LockRefuses, match="a was chosen as its owner"):
        with_decision(lock, Action.EXEC, "b", force=False)
    assert with_decision(lock, Action.EXEC, "a", force=False) == lock, "repeated by a retry"
    assert with_decision(lock, Action.SKIP, None, force=False).decision is Action.SKIP
    assert with_decision(lock, Action.SKIP, "b", force=True).owner == "b"


@pytest.mark.parametrize(
    ("lock", "owner", "force", "why"),
    [
        (report(None, "a", "A"), None, False, "b have not reported"),
        (report(None, "a", "A"), "b", True, "b has not reported, and cannot be its owner"),
        (executed(report(report(None, "a", "A"), "b", "A"), "a"), None, True, "has been executed"),
    ],
)
def test_decisions_that_a_lock_refuses(lock: Lock, owner: str | None, *, force: bool, why: str) -> None:
    with pytest.raises(LockRefuses, match=why):
        with_decision(lock, Action.SKIP, owner, force=force)


def test_a_source_without_a_report_is_awaited_to_the_end() -> None:
    lock = executed(with_decision(report(None, "a", "A"), Action.EXEC, None, force=True), "a")
    left = continued(lock, "a")
    assert left is not None
    assert left.unsynced == ["b"]
    assert continued(left, "b") is None


def test_only_the_owner_has_run_it() -> None:
    lock = report(report(None, "a", "A"), "b", "A")
    with pytest.raises(LockRefuses, match="a is its owner"):
        executed(lock, "b")


def test_the_state_left_by_a_task_of_the_same_name_is_removed() -> None:
    old = with_decision(
        reported(None, "task", TARGET, 0, DdlInfo("a", ("A",), at="9"), {"a", "b"}), Action.EXEC, None, force=True
    )
    assert reported(old, "task", TARGET, 0, DdlInfo("a", ("A",), at="9"), {"a", "b"}) == old
    new = reported(old, "task", TARGET, 0, DdlInfo("a", ("A",), at="5"), {"a", "b"})
    assert (new.phase, new.decision) == (Phase.WAITING, None)


def test_a_withdrawn_report_leaves_the_lock_unchanged() -> None:
    alone, both = report(None, "a", "A"), report(report(None, "a", "A"), "b", "B")
    assert withdrawn(alone, "a") is None
    assert withdrawn(alone, "b") == alone
    assert withdrawn(both, "b") == alone
    left = withdrawn(both, "a")
    assert left is not None
    assert (left.phase, left.owner, left.ddls, left.unsynced) == (Phase.WAITING, "b", ("B",), ["a"])
    assert report(left, "a", "A").phase is Phase.CONFLICT


def test_a_decision_excludes_later_reports_and_keeps_the_executed_ddl() -> None:
    decided = with_decision(report(report(None, "a", "A"), "b", "B"), Action.EXEC, "a", force=False)
    left = withdrawn(decided, "b")
    assert left is not None
    assert report(left, "b", "B").phase is Phase.CONFLICT
    done = withdrawn(executed(decided, "a"), "b")
    assert done is not None
    assert done.phase is Phase.SKIP
    assert continued(done, "b") is not None
