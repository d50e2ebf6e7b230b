"""Copies whose readers all take part; tasks whose tables are altered while they are copied."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from airflow_provider_dm.engine.copy import gather
from airflow_provider_dm.engine.meta.store import MetaStore
from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.copy.altering import SETUP, Kit
from tests.integration.copy.migrations import Migration, NewTask
from tests.jobs import relay_spec
from tests.relay_thread import RelayThread


@pytest.fixture(autouse=True)
def all_readers_take_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy this machine is. A gather waits no longer than for the last one."""
    monkeypatch.setattr(gather, "READY_SECONDS", 120.0)
    monkeypatch.setattr(gather, "DONE_SECONDS", 20.0)


@pytest.fixture
def new_task(store: MetaStore, tmp_path: Path) -> Iterator[NewTask]:
    """`new_task(target, source, schema)`: a task of mode all, whose relay runs until the test ends."""
    with ExitStack() as relays:

        def new(target: Server, source: Server, schema: str) -> Migration:
            root, mode = str(tmp_path / "relay"), {"task-mode": "all"}
            migration = Migration.of(target, source, schema, task=mode, relay_dir=root, store=store)
            relays.callback(RelayThread(relay_spec(migration.spec.sources[0])).kill)
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
