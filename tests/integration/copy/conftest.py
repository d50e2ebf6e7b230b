"""Copies whose readers all take part; tasks whose tables are altered while they are copied."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from airflow_provider_dm.engine.config.job import SecretRef
from airflow_provider_dm.engine.copy import gather
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.relay.spec import RelaySpec
from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.copy.altering import SETUP, Kit
from tests.integration.copy.migrations import Migration, NewTask
from tests.relay_thread import RelayThread

META_VARIABLE = "DM_TEST_COPY_META"


@pytest.fixture(autouse=True)
def all_readers_take_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy this machine is. A gather waits no longer than for the last one."""
    monkeypatch.setattr(gather, "READY_SECONDS", 120.0)
    monkeypatch.setattr(gather, "DONE_SECONDS", 20.0)


@pytest.fixture
def new_task(meta_url: str, store: MetaStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NewTask]:
    """`new_task(target, source, schema)`: a task of mode all, whose relay runs until the test ends."""
    monkeypatch.setenv(META_VARIABLE, meta_url)
    with ExitStack() as relays:

        def new(target: Server, source: Server, schema: str) -> Migration:
            root, mode = str(tmp_path / "relay"), {"task-mode": "all"}
            migration = Migration.of(target, source, schema, task=mode, relay_dir=root, store=store)
            reference = SecretRef(env=META_VARIABLE)
            relay = RelaySpec(source=migration.spec.sources[0], meta_url=reference, launcher_pid=os.getpid())
            relays.callback(RelayThread(relay).kill)
            return migration

        yield new


NewKit = Callable[[Server, Server], Kit]


@pytest.fixture
def new_kit(new_task: NewTask, store: MetaStore, fresh_schema: FreshSchema, monkeypatch: pytest.MonkeyPatch) -> NewKit:
    def new(source: Server, target: Server) -> Kit:
        schema = fresh_schema(source, target)
        source.sql("FLUSH BINARY LOGS")
        kit = Kit(new_task(target, source, schema), store, schema, monkeypatch)
        kit.write(SETUP)
        return kit

    return new


@pytest.fixture
def kit(source: Server, target: Server, new_kit: NewKit) -> Kit:
    return new_kit(source, target)


@pytest.fixture
def one_kit(mysql_source: Server, mariadb_target: Server, new_kit: NewKit) -> Kit:
    return new_kit(mysql_source, mariadb_target)
