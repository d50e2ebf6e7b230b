"""A purge may come at any moment while a copy begins, and the source may continue in new files: the log of F0 stays."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dm.engine.copy import begin_load
from airflow_provider_dm.engine.downstream.session import target_connection
from airflow_provider_dm.engine.downstream.subtask import read_subtask
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.records import Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.purge import Inactive
from airflow_provider_dm.engine.relay.purge_order import PurgeOrder, carried_out
from testbed import Server
from tests.integration.copy.migrations import NewTask, assert_same
from tests.waiting import wait_for


@pytest.mark.parametrize("moment", ["current_location", "schema_collations", "measure"])
def test_the_file_of_f0_is_not_purged(
    source: Server,
    target: Server,
    schema: str,
    new_task: NewTask,
    store: MetaStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
) -> None:
    source.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1), (2, 2)", database=schema)
    migration, root = new_task(target, source, schema), tmp_path / "relay" / "one"

    def begun(source_id: str, at: Location) -> None:
        store.put_subtask("test", source_id, unit=Unit.LOAD, stage=Stage.RUNNING, needed=at)

    def purge_after(step: Callable[..., Any]) -> Callable[..., Any]:
        def slowly(*arguments: Any, **options: Any) -> Any:
            found = step(*arguments, **options)
            source.sql("UPDATE t SET v = v + 1 WHERE id = 1; FLUSH BINARY LOGS; FLUSH BINARY LOGS", database=schema)
            newest = source.sql("SHOW BINARY LOGS")[-1][0]
            wait_for(lambda: list(root.glob(f"*/{newest}")) and store.relay_status("one"))
            try:
                carried_out(store, "one", root, PurgeOrder(Inactive()))
            except DmError as error:
                assert error.code == "DM-4052"  # noqa: PT017 - a purge that does not know who needs what is refused
            return found

        return slowly

    monkeypatch.setattr(begin_load, moment, purge_after(getattr(begin_load, moment)))
    migration.go(begun=begun)
    source.sql("INSERT INTO t VALUES (3, 3)", database=schema)
    assert migration.sync().finished
    assert_same(source, target, schema, "t")


def test_a_load_records_when_the_file_of_its_location_was_created(
    mysql_source: Server, mariadb_target: Server, schema: str, new_task: NewTask, tmp_path: Path
) -> None:
    """Although nothing of the log was applied: a later sync finds out whether the source was reset since."""
    mysql_source.sql("CREATE TABLE t (id INT PRIMARY KEY); FLUSH BINARY LOGS", database=schema)
    migration = new_task(mariadb_target, mysql_source, schema)
    migration.go()
    subtask = read_subtask(target_connection(migration.spec.target.resolve()), migration.ref("one"))
    assert subtask is not None
    assert subtask.location is not None
    (file,) = (tmp_path / "relay" / "one").glob(f"*/{subtask.location.file}")
    assert subtask.location.created == int.from_bytes(file.read_bytes()[4:8], "little")
