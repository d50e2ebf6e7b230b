"""A purge may come at any moment while a copy begins, and the source may go on in new files: the log of F0 stays."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dm.engine.config.job import SecretRef, SourceSpec
from airflow_provider_dm.engine.copy import begin_load
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.meta.migrate import migrate
from airflow_provider_dm.engine.meta.records import Stage, Unit
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.process import RelayProcess
from airflow_provider_dm.engine.relay.purge import Inactive
from airflow_provider_dm.engine.relay.purge_order import PurgeOrder, carried_out
from airflow_provider_dm.engine.relay.spec import RelaySpec
from airflow_provider_dm.engine.sync.run_sync import run_sync
from airflow_provider_dm.engine.sync.runner import LocalRunner
from airflow_provider_dm.engine.sync.sync_source import SyncSource
from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.copy.migrations import Migration, differences

META_VARIABLE = "DM_TEST_COPY_META"


@contextmanager
def relay_of(source: SourceSpec, url: str, folder: Path) -> Iterator[None]:
    spec = RelaySpec(source=source, meta_url=SecretRef(env=META_VARIABLE), launcher_pid=os.getpid())
    process = RelayProcess.start(spec, {**os.environ, META_VARIABLE: url}, folder / "relay.log")
    try:
        yield
    finally:
        process.kill()


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)


@pytest.mark.parametrize("moment", ["current_location", "schema_collations", "measure"])
def test_the_file_of_f0_is_not_purged(
    source: Server,
    target: Server,
    fresh_schema: FreshSchema,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
) -> None:
    schema = fresh_schema(source)
    source.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1), (2, 2)", database=schema)
    url = f"sqlite:///{tmp_path}/meta.db"
    migrate(url)
    monkeypatch.setenv(META_VARIABLE, url)
    migration = Migration(
        target,
        {"one": source},
        {"one": [schema]},
        f"{schema}_meta",
        task={"task-mode": "all"},
        relay_dir=str(tmp_path / "relay"),
    )
    spec, root = migration.spec, tmp_path / "relay" / "one"
    with MetaStore.open(url) as store, relay_of(spec.sources[0], url, tmp_path):

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
        migration.store = store
        migration.go(begun=begun)
        source.sql("INSERT INTO t VALUES (3, 3)", database=schema)
        fence = migration.claim()["one"]
        assert run_sync(SyncSource.of(spec, fence), LocalRunner(2), store, threading.Event()).finished
    report = differences(target, {f"{schema}.t": [(source, f"{schema}.t")]})
    assert report.equal, report
