"""A task of two sources into one target, driven by hand: one source at a time where a test wants that."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dm.engine.config.job import JobSpec
from airflow_provider_dm.engine.copy import source_load
from airflow_provider_dm.engine.copy.gather import Gathering
from airflow_provider_dm.engine.copy.migration import LoadOutcome
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.downstream.rounds import close_round
from airflow_provider_dm.engine.downstream.session import close_target
from airflow_provider_dm.engine.merge import contests
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.binlog_status import current_location
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.precheck.result import PrecheckReport
from airflow_provider_dm.engine.precheck.run import run_precheck
from airflow_provider_dm.engine.relay.spec import RelaySpec
from airflow_provider_dm.engine.sync.epoch import EpochSize
from airflow_provider_dm.engine.sync.progress import SyncProgress
from airflow_provider_dm.engine.sync.run_sync import run_sync
from airflow_provider_dm.engine.sync.runner import LocalRunner, Runner
from airflow_provider_dm.engine.sync.start.begin_incremental import begin_incremental
from airflow_provider_dm.engine.sync.sync_result import SyncResult
from airflow_provider_dm.engine.sync.sync_source import SyncSource
from testbed import Server
from testbed.equality import Report
from tests.conftest import FreshSchema
from tests.integration.copy.migrations import E, Migration, differences
from tests.jobs import endpoint, relay_spec
from tests.relay_thread import RelayThread

PLAIN = "id int NOT NULL PRIMARY KEY, v varchar(20)"
UNIQUE = "id int NOT NULL PRIMARY KEY, u int, v varchar(20), UNIQUE KEY u (u)"
PESSIMISTIC = {"task-mode": "all", "shard-mode": "pessimistic"}
EACH_TRANSACTION = EpochSize(limit=1, one_task=1 << 20, smallest=1)
"""An epoch ends with its first transaction."""


@dataclass
class Shops:
    """Sources `a` and `b` (or `a` alone) whose tables `o_…` go into the target's table `o`."""

    target: Server
    sources: Mapping[str, Server]
    schema: str
    folder: Path
    store: MetaStore
    task: dict[str, Any] = field(default_factory=dict)
    instance: dict[str, Any] = field(default_factory=dict)
    source: dict[str, Any] = field(default_factory=dict)
    relays: dict[str, Any] = field(default_factory=dict)
    """RelayThreads by source, or RelayProcesses where a test kills them."""

    @property
    def meta(self) -> str:
        return f"{self.schema}_meta"

    def migration(self, names: Sequence[str] | None = None, instances: Sequence[Any] | None = None) -> Migration:
        """Return the run's spec, of all sources or of a run that has only some of them."""
        route = {
            "schema-pattern": self.schema,
            "table-pattern": "o_*",
            "target-schema": self.schema,
            "target-table": "o",
        }
        migration = Migration(
            self.target,
            self.sources,
            {name: [self.schema] for name in self.sources},
            self.meta,
            task={"task-mode": "all", "routes": {"merge": route}, **self.task},
            instance={"route-rules": ["merge"], **self.instance},
            source=self.source,
            relay_dir=str(self.folder / "relay"),
            store=self.store,
        )
        if instances:
            migration.task = {**migration.task, "mysql-instances": instances}
        return migration if names is None else _Partly(**vars(migration), names=names)

    def create(self, columns: str, *tables: str, rows: str = "") -> None:
        """Tables `o_…` on their sources; `a:o_0` is one."""
        for name in tables:
            source, _, table = name.partition(":")
            self.sources[source].sql(
                f"CREATE TABLE `{table}` ({columns}) COLLATE utf8mb4_bin {rows}", database=self.schema
            )

    def write(self, source: str, *transactions: str) -> None:
        """Each text is a transaction, its statements apart by semicolons."""
        with self.sources[source].connect(database=self.schema, autocommit=False) as connection:
            for transaction in transactions:
                with connection.cursor() as cursor:
                    for statement in transaction.split("; "):
                        cursor.execute(statement)
                connection.commit()

    def relay(self) -> None:
        """Relays of all sources, until the test ends."""
        for spec in self.migration().spec.sources:
            name = spec.config.source_id
            if name not in self.relays:
                self.relays[name] = self.relay_of(relay_spec(spec), name)

    def relay_of(self, spec: RelaySpec, name: str) -> Any:
        return RelayThread(spec)

    def load(
        self,
        names: Sequence[str] | None = None,
        *,
        begun: Callable[[], None] | None = None,
        copied: Callable[[], None] | None = None,
    ) -> dict[str, Any]:
        """A load to its end. `begun`: done once, when a snapshot of each source is open and no page is written yet;
        `copied`: when all is copied, and no source is handed over.
        """
        self.relay()
        migration = self.migration(names)
        sources = len(names or self.sources)
        with pytest.MonkeyPatch.context() as patch:
            if begun is not None:
                patch.setattr(Gathering, "open", _when_all(Gathering.open, sources, begun))
            if copied is not None:
                patch.setattr(source_load, "close_round", _when_all(close_round, sources, copied))
            outcome: LoadOutcome = migration.go()
        assert outcome.complete, outcome
        return outcome.result

    def sync(
        self, *names: str, size: EpochSize | None = None, only: bool = False, spec: JobSpec | None = None
    ) -> list[SyncResult]:
        """One source after the other until it is caught up. `only`: by a run that has no other source."""
        self.relay()
        return [
            self.sync_one(name, size=size, spec=spec or self.migration([name] if only else None).spec)
            for name in names or self.sources
        ]

    def stops(self, error: type[E], *names: str, match: str | None = None, **options: Any) -> E:
        """Sync, which stops with this error."""
        with pytest.raises(error, match=match) as raised:
            self.sync(*names, **options)
        return raised.value

    def sync_one(
        self,
        name: str,
        *,
        spec: JobSpec,
        size: EpochSize | None = None,
        stop: threading.Event | None = None,
        progress: SyncProgress | None = None,
        runner: Runner | None = None,
    ) -> SyncResult:
        fence = self.migration([name]).claim()[name]
        return run_sync(
            SyncSource.of(spec, fence),
            runner or LocalRunner(2),
            self.store,
            stop or threading.Event(),
            size=size,
            progress=progress,
        )

    @contextmanager
    def syncing(self, name: str, *, runner: Runner | None = None, size: EpochSize | None = None) -> Iterator[Syncing]:
        """Sync one source until the block ends, by a run that has no other source."""
        self.relay()
        forever = self.migration([name]).spec.model_copy(update={"until": "forever"})
        stop, shown = threading.Event(), SyncProgress()
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(
                self.sync_one, name, spec=forever, stop=stop, progress=shown, runner=runner, size=size
            )
            syncing = Syncing(shown, running)
            try:
                syncing.wait_until(lambda: shown.location is not None)
                yield syncing
            finally:
                stop.set()

    def begin(self, instances: Sequence[Mapping[str, Any]], names: Sequence[str] | None = None) -> JobSpec:
        """Begin all sources of an incremental task, as the app does first."""
        self.task = {**self.task, "task-mode": "incremental"}
        migration = self.migration(names, instances)
        self.relay()
        sources = [SyncSource.of(migration.spec, fence) for fence in migration.claim().values()]
        begin_incremental(sources, store=self.store, stop=threading.Event())
        return migration.spec

    def place(self, source: str) -> Location:
        with connected(endpoint(source, self.sources[source])) as connection:
            return current_location(connection)

    def prechecked(self) -> PrecheckReport:
        """Return the result of the precheck, before a run continues."""
        spec = self.migration().spec
        sources = [(one.config, one.endpoint.resolve()) for one in spec.sources]
        return run_precheck(spec.task, sources, spec.target.resolve())

    def compared(self) -> Report:
        found = [
            (server, f"{self.schema}.{table}")
            for server in self.sources.values()
            for (table,) in server.sql(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = %s AND table_name LIKE 'o\\_%%'",
                [self.schema],
            )
        ]
        return differences(self.target, {f"{self.schema}.o": found})

    def meta_rows(self, table: str) -> int:
        ((number,),) = self.target.sql(f"SELECT COUNT(*) FROM {table}", database=self.meta)
        return int(number)

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(self.target.sql("SELECT * FROM o", database=self.schema))


def _when_all(step: Callable[..., Any], sources: int, happens: Callable[[], None]) -> Callable[..., Any]:
    """Do as `step`, once for each source, and after the last of them let something happen before they continue."""
    lock, all_there = threading.Lock(), threading.Event()
    calls = iter(range(1_000_000))

    def stepped(*arguments: Any, **named: Any) -> Any:
        found = step(*arguments, **named) if step is close_round else None
        if found is not False:
            with lock:
                if next(calls) == sources - 1:
                    happens()
                    all_there.set()
            all_there.wait(180)
        return step(*arguments, **named) if found is None else found

    return stepped


@dataclass(frozen=True)
class Syncing:
    """A sync that is running."""

    shown: SyncProgress
    running: Future[SyncResult]

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait for what the sync does. Raises what ends it meanwhile."""
        deadline = time.monotonic() + 180
        while not condition():
            assert time.monotonic() < deadline, self.shown
            if self.running.done():
                raise AssertionError(f"it has ended: {self.running.result()}")
            time.sleep(0.05)


@dataclass
class _Partly(Migration):
    """A run of a part of the task's sources."""

    names: Sequence[str] = ()

    @property
    def spec(self) -> JobSpec:
        whole = super().spec
        return whole.model_copy(
            update={"sources": tuple(one for one in whole.sources if one.config.source_id in self.names)}
        )

    def claim(self) -> dict[str, Fence]:
        whole = Migration(**{name: value for name, value in vars(self).items() if name != "names"})
        return replace(whole, sources={name: self.sources[name] for name in self.names}).claim()


def instances(shops: Shops, **starts: Any) -> list[dict[str, Any]]:
    """Task entries, each source started at its location."""
    return [
        {
            "source-id": name,
            "block-allow-list": name,
            "route-rules": ["merge"],
            "meta": {"binlog-name": start.file, "binlog-pos": start.position},
        }
        for name, start in starts.items()
    ]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run ends soon if rows wait for a source without a sync; most tests sync that source next."""
    monkeypatch.setattr(contests, "FINISH_SECONDS", 1.0)


@pytest.fixture
def shops_of(fresh_schema: FreshSchema, tmp_path: Path, store: MetaStore) -> Iterator[Callable[..., Shops]]:
    """`shops_of(target, a=server, b=server)`."""
    made: list[Shops] = []

    def make(target: Server, **sources: Server) -> Shops:
        shops = Shops(target, sources, fresh_schema(*sources.values()), tmp_path, store)
        made.append(shops)
        return shops

    yield make
    for shops in made:
        for relay in shops.relays.values():
            if relay.alive():
                relay.kill()
        close_target(endpoint("target", shops.target))


@pytest.fixture
def shops(
    source: Server, target: Server, mariadb_source: Server, mysql_source: Server, shops_of: Callable[..., Shops]
) -> Shops:
    """Return shops for all pairs of flavours: `a` is of the source's flavour, `b` of the other one."""
    return shops_of(target, a=source, b=mysql_source if source.flavour == "mariadb" else mariadb_source)


@pytest.fixture
def first(source: Server) -> str:
    """Return which source is synced first: another one for each flavour of the source."""
    return "a" if source.flavour == "mariadb" else "b"


@pytest.fixture
def shards(source: Server, target: Server, shops_of: Callable[..., Shops]) -> Shops:
    """Return shops for all pairs of flavours: one source."""
    return shops_of(target, a=source)


@pytest.fixture
def one_pair(
    mariadb_source: Server, mysql_source: Server, mysql_target: Server, shops_of: Callable[..., Shops]
) -> Shops:
    """Return shops for what does not depend on the flavour."""
    return shops_of(mysql_target, a=mariadb_source, b=mysql_source)


@pytest.fixture
def one_source(mariadb_source: Server, mysql_target: Server, shops_of: Callable[..., Shops]) -> Shops:
    """The same, of one source."""
    return shops_of(mysql_target, a=mariadb_source)


@pytest.fixture
def pair(one_pair: Shops) -> Shops:
    """Return the shops of two sources, in shard-mode pessimistic."""
    one_pair.task = PESSIMISTIC
    return one_pair


@pytest.fixture
def single(one_source: Shops) -> Shops:
    """Return the shops of one source, in shard-mode pessimistic."""
    one_source.task = PESSIMISTIC
    return one_source
