"""The text about a DDL lock in messages."""

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.shard.lock import Action, DdlInfo, continued, executed, reported, with_decision
from airflow_provider_dm.launch.ddl_locks import lock_text


def test_a_lock_that_was_forced_waits_for_the_source_that_has_not_reported() -> None:
    lock = reported(None, "shops", TableName("shop", "orders"), 0, DdlInfo("a", ("A",), at="1"), {"a", "b"})
    forced = executed(with_decision(lock, Action.EXEC, None, force=True), "a")
    assert lock_text(forced, 5).endswith("has been executed, and waits for a, b to continue")
    left = continued(forced, "a")
    assert left is not None
    assert lock_text(left, 5).endswith("has been executed, and waits for b to continue")
