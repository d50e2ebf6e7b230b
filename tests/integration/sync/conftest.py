"""A task from one source to one target, with relay, metadata DB and JobSpec, driven by hand."""

import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pymysql
import pytest

from airflow_provider_dm.engine.config.job import EndpointSpec, JobSpec, SourceSpec
from airflow_provider_dm.engine.downstream.claim import claim_generation, current_generation
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.meta_tables import ensure_meta_tables
from airflow_provider_dm.engine.downstream.row_statements import SqlStatement
from airflow_provider_dm.engine.downstream.session import close_target, execute, target_connection
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.merge.servers import target_access
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.binlog_status import current_location
from airflow_provider_dm.engine.mysql.connection import Connection, connected
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.process import RelayProcess
from airflow_provider_dm.engine.relay.spec import RelaySpec
from airflow_provider_dm.engine.sync.epoch import EpochSize
from airflow_provider_dm.engine.sync.plan.bucket import RUN
from airflow_provider_dm.engine.sync.progress import SyncProgress
from airflow_provider_dm.engine.sync.run_sync import run_sync
from airflow_provider_dm.engine.sync.runner import LocalRunner, Runner
from airflow_provider_dm.engine.sync.start.begin_incremental import begin_incremental
from airflow_provider_dm.engine.sync.sync_result import SyncResult
from airflow_provider_dm.engine.sync.sync_source import SyncSource
from airflow_provider_dm.engine.sync.write import apply
from testbed import Server
from tests.conftest import FreshSchema
from tests.far_away import port_to
from tests.jobs import HOLDER, endpoint_spec, job_spec, relay_spec, source_spec
from tests.relay_thread import RelayThread
from tests.spark_fixtures import spark  # noqa: F401 (a fixture)

SOURCE_ID = "s1"

TABLES = {
    "plain": "id bigint NOT NULL PRIMARY KEY, v varchar(40)",
    "uniq": "id int NOT NULL PRIMARY KEY, u int, v varchar(40), UNIQUE KEY u (u)",
    "pair": "a int NOT NULL, b varchar(20) COLLATE utf8mb4_bin NOT NULL, v int, PRIMARY KEY (a, b)",
    "code": "c varchar(20) COLLATE utf8mb4_general_ci NOT NULL PRIMARY KEY, v int",
    "keyless": "a int, b varchar(10)",
    "loose": "u int, v int, UNIQUE KEY u (u)",
}
"""One for each way of telling rows apart: identity only, further unique key, composite, collation, none, nullable."""
BITS = {"flags": "f bit(9), a int", "bits": "f bit(33) NOT NULL PRIMARY KEY, a int"}


E = TypeVar("E", bound=BaseException)


class Strike(DmError):
    """A task that fails in the middle of its work."""


def before_row_statements(patch: pytest.MonkeyPatch, happen: Callable[[SqlStatement], object]) -> None:
    """Let something happen before each statement about rows of the target."""

    def executed(connection: Connection, statement: SqlStatement) -> int:
        happen(statement)
        return execute(connection, statement)

    patch.setattr(apply, "target_access", lambda target: replace(target_access(target), execute=executed))


def strike(patch: pytest.MonkeyPatch, struck: Iterator[bool], *, batch_rows: int) -> list[Strike]:
    """Let statements fail, in transactions of so many rows: `struck` says which. The list has those that did."""
    strikes = list[Strike]()

    def happen(_: SqlStatement) -> None:
        if next(struck):
            strikes.append(Strike())
            raise strikes[-1]

    before_row_statements(patch, happen)
    patch.setattr(apply, "BATCH_ROWS", batch_rows)
    return strikes


def strike_at_random(patch: pytest.MonkeyPatch, seed: int, share: float, *, batch_rows: int) -> list[Strike]:
    """Let that share of the statements fail."""
    chance = random.Random(seed)
    return strike(patch, (chance.random() < share for _ in count()), batch_rows=batch_rows)


def strike_once(patch: pytest.MonkeyPatch, number: int, *, batch_rows: int) -> None:
    """Let the statement of this number fail."""
    strike(patch, (one == number for one in count(1)), batch_rows=batch_rows)


def rows_of(server: Server, schema: str, table: str) -> list[tuple[object, ...]]:
    """All rows, in an order that is the same on every server; text as bytes. Also of MySQL's generated primary key,
    which is INVISIBLE there, and not in TiDB."""
    with server.connect(database=schema, use_unicode=False) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT COUNT(*) FROM information_schema.columns "
            "WHERE table_schema = %s AND table_name = %s AND column_name = 'my_row_id' AND extra LIKE '%%INVISIBLE%%'",
            (schema, table),
        )
        ((keys,),) = cursor.fetchall()
        cursor.execute(f"SELECT {'my_row_id, ' * int(keys)}t.* FROM `{table}` t")
        return sorted(cursor.fetchall(), key=repr)


@dataclass
class SyncKit:
    """One subtask. `close` ends all that was started here."""

    source: Server
    target: Server
    schema: str
    folder: Path
    store: MetaStore
    meta_url: str
    tables: Sequence[str] = tuple(TABLES)
    relays: list[Any] = field(default_factory=list)
    relays_are_processes: bool = False
    """They are killed, or the test forks; else each is a RelayThread."""
    attempts: int = 0
    task_keys: dict[str, object] = field(default_factory=dict)
    instance_keys: dict[str, object] = field(default_factory=dict)
    source_keys: dict[str, object] = field(default_factory=dict)
    """What the files say besides: task.yaml, its mysql-instance, source.yaml."""
    task: str = "test"

    @property
    def meta_schema(self) -> str:
        return f"{self.schema}_meta"

    @property
    def ref(self) -> SubtaskRef:
        return SubtaskRef(self.meta_schema, self.task, SOURCE_ID)

    def spec(self, until: str = "caught-up", start: Location | None = None, **changes: object) -> JobSpec:
        instance: dict[str, object] = {"source_id": SOURCE_ID, "block_allow_list": "ours"}
        instance["syncer"] = {"safe-mode-duration": "0s"}  # a start is exact
        instance |= self.instance_keys
        if start is not None:
            instance["meta"] = {"binlog-name": start.file, "binlog-pos": start.position}
        task = {
            "name": self.task,
            "task_mode": "incremental",
            "meta_schema": self.meta_schema,
            "mysql_instances": [instance],
            "block_allow_list": {"ours": {"do-dbs": [self.schema]}},
            **self.task_keys,
        }
        self.attempts += 1
        fields = {"run_id": f"run-{self.attempts}", "until": until, **changes}
        return job_spec(task, [self.source_spec()], self.endpoint(self.target, "target"), **fields)

    def endpoint(self, server: Server, name: str) -> EndpointSpec:
        return endpoint_spec(name, server, port=port_to(server) if name == SOURCE_ID else 0)

    def source_spec(self) -> SourceSpec:
        keys = {"relay_binlog_name": self.first_file, **self.source_keys}
        return source_spec(SOURCE_ID, self.endpoint(self.source, SOURCE_ID), self.folder / "relay", **keys)

    @property
    def first_file(self) -> str:
        mark = self.folder / "first-file"
        if not mark.exists():
            self.source.sql("FLUSH BINARY LOGS")
            mark.write_text(self.upstream().file)
        return mark.read_text()

    def upstream(self) -> Location:
        with connected(self.endpoint(self.source, SOURCE_ID).resolve()) as connection:
            return current_location(connection)

    def pull(self) -> None:
        """A relay that runs until the test ends; the sync waits for what it has not pulled yet."""
        if not any(relay.alive() for relay in self.relays):
            self.relays.append(self.relay_of(relay_spec(self.source_spec())))

    def relay_of(self, spec: RelaySpec) -> Any:
        if self.relays_are_processes:
            return RelayProcess.start(spec, os.environ, self.folder / "relay.log")
        return RelayThread(spec)

    def create(self, *tables: str) -> None:
        """The tables, empty, on both sides; the sync begins here."""
        self.tables = tables or tuple(TABLES)
        _ = self.first_file
        self.both("; ".join(f"CREATE TABLE `{name}` ({(TABLES | BITS)[name]})" for name in self.tables))

    def begin_with(self, *tables: str) -> None:
        """Create the tables on both sides, and begin the task at the end of the upstream's log."""
        self.create(*tables)
        self.pull()
        start = self.upstream()
        begin_incremental([self.claimed(self.spec(start=start))], store=self.store, stop=threading.Event())

    def begin(self, start: Location | None = None) -> None:
        """The subtask's rows, without a change applied: from `start`, or from the end of the upstream's log."""
        self.pull()
        start = start or self.upstream()
        self.run(self.spec(str(start), start))

    def sync(
        self,
        runner: Runner | None = None,
        *,
        start: Location | None = None,
        until: str = "caught-up",
        size: EpochSize | None = None,
    ) -> SyncResult:
        """Pull what there is and apply it."""
        self.pull()
        return self.run(self.spec(until, start), runner, size=size)

    def sync_and_compare(self, runner: Runner | None = None, **options: Any) -> None:
        """Sync to the end; then all tables of source and target are equal."""
        assert self.sync(runner, **options).finished
        assert self.differences() == []

    def stops(self, error: type[E], *given: Any, match: str | None = None, **options: Any) -> E:
        """Sync, which stops with this error."""
        with pytest.raises(error, match=match) as raised:
            self.sync(*given, **options)
        return raised.value

    def run(
        self,
        spec: JobSpec,
        runner: Runner | None = None,
        stop: threading.Event | None = None,
        progress: SyncProgress | None = None,
        size: EpochSize | None = None,
    ) -> SyncResult:
        """Claim and sync, as the app does."""
        stop = stop or threading.Event()
        return run_sync(self.claimed(spec), runner or LocalRunner(), self.store, stop, progress=progress, size=size)

    def claimed(self, spec: JobSpec) -> SyncSource:
        """Take a new generation."""
        endpoint = spec.target.resolve()
        connection = target_connection(endpoint)
        ensure_meta_tables(endpoint, self.meta_schema)
        known = current_generation(connection, self.ref)
        lease = self.store.acquire_lease(self.task, SOURCE_ID, HOLDER, ttl_seconds=30, at_least=known)
        fence = Fence(self.ref, lease.generation)
        claim_generation(endpoint, fence)
        return SyncSource.of(spec, fence)

    def close(self) -> None:
        for relay in self.relays:
            if relay.alive():
                relay.kill()
        close_target(self.endpoint(self.target, "target").resolve())

    def differences(self) -> list[str]:
        """Tables that differ. Plain SQL and Python's sort; nothing of the engine."""
        found = []
        for name in self.tables:
            ours, theirs = (rows_of(server, self.schema, name) for server in (self.target, self.source))
            if ours != theirs:
                extra, missing = set(ours) - set(theirs), set(theirs) - set(ours)
                found.append(f"{name}: {len(ours)} for {len(theirs)} rows, +{list(extra)[:3]} -{list(missing)[:3]}")
        return found

    def both(self, statements: str) -> None:
        """Execute statements on source and target."""
        for server in (self.source, self.target):
            server.sql(statements, database=self.schema)

    def write(self, *statements: str) -> None:
        """One transaction on the source."""
        with self.source.connect(database=self.schema, autocommit=False) as connection:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
            connection.commit()


K = TypeVar("K", bound=SyncKit)


@pytest.fixture(autouse=True)
def _relays_are_forked(forked_relays: None) -> None:
    """Where they are processes at all."""


class NewKit(Protocol):
    """Make a kit of a kind, whose schema exists on both servers. All of it is closed after the test."""

    def __call__(self, kind: type[K], source: Server, target: Server, **fields: Any) -> K: ...


@pytest.fixture
def new_kit(fresh_schema: FreshSchema, tmp_path: Path, meta_url: str, store: MetaStore) -> Iterator[NewKit]:
    with ExitStack() as made:

        def new(kind: type[K], source: Server, target: Server, **fields: Any) -> K:
            kit = kind(source, target, fresh_schema(source, target), tmp_path, store, meta_url, **fields)
            made.callback(kit.close)
            return kit

        yield new


@pytest.fixture
def kit(source: Server, target: Server, new_kit: NewKit) -> SyncKit:
    """Make syncs for all four pairs of flavours."""
    return new_kit(SyncKit, source, target)


@pytest.fixture
def one_kit(mysql_source: Server, mariadb_target: Server, new_kit: NewKit) -> SyncKit:
    """Make syncs for what does not depend on the flavour."""
    return new_kit(SyncKit, mysql_source, mariadb_target)


@pytest.fixture
def mariadb11_kit(mariadb11_source: Server, target: Server, new_kit: NewKit) -> SyncKit:
    """Make syncs from a newer MariaDB, to both flavours."""
    return new_kit(SyncKit, mariadb11_source, target)


@pytest.fixture
def mysql_kit(mysql_source: Server, target: Server, new_kit: NewKit) -> SyncKit:
    """Make syncs from MySQL, to both flavours."""
    return new_kit(SyncKit, mysql_source, target)


@pytest.fixture
def tidb_kit(mysql_source: Server, tidb_target: Server, new_kit: NewKit) -> SyncKit:
    """Make syncs into TiDB, for what only TiDB does."""
    return new_kit(SyncKit, mysql_source, tidb_target)


def random_transactions(kit: SyncKit, seed: int, transactions: int, *, keys: int = 12) -> None:
    """Inserts, updates, moves and deletes over few keys, some rolled back by a duplicate."""
    chance = random.Random(seed)
    with kit.source.connect(database=kit.schema, autocommit=False) as connection, connection.cursor() as cursor:
        for _ in range(transactions):
            try:
                for _ in range(chance.randint(1, 6)):
                    cursor.execute(_statement(chance, chance.choice(list(kit.tables)), keys))
                connection.commit()
            except pymysql.err.IntegrityError:
                connection.rollback()


def _statement(chance: random.Random, table: str, keys: int) -> str:
    key, other, value = chance.randrange(keys), chance.randrange(keys), chance.randrange(1000)
    far, farther = key * RUN, other * RUN  # each in another bucket
    nullable = chance.choice(["NULL", *map(str, range(keys))])
    match table:
        case "plain":
            choices = [
                f"INSERT INTO plain VALUES ({far}, 'v{value}')",
                f"UPDATE plain SET v = 'it''s \\\\ {value}' WHERE id < {far}",
                f"UPDATE plain SET id = {farther} WHERE id = {far}",
                f"DELETE FROM plain WHERE id = {far}",
            ]
        case "uniq":
            choices = [
                f"INSERT INTO uniq VALUES ({far}, {nullable}, 'v{value}')",
                f"UPDATE uniq SET u = {nullable} WHERE id = {far}",
                f"UPDATE uniq SET id = {farther}, v = 'moved' WHERE id = {far}",
                f"UPDATE uniq SET v = 'v{value}' WHERE id > {far}",
                f"DELETE FROM uniq WHERE id = {far}",
            ]
        case "pair":
            choices = [
                f"INSERT INTO pair VALUES ({key % 3}, 'b{other}', {value})",
                f"UPDATE pair SET v = {value} WHERE a = {key % 3}",
                f"UPDATE pair SET b = 'b{other}' WHERE a = {key % 3} AND b = 'b{key}'",
                f"DELETE FROM pair WHERE b = 'b{key}'",
            ]
        case "code":
            name = chance.choice(["abc", "ABC", "\u00e4bc", "abd", "Abd "])
            choices = [
                f"INSERT INTO code VALUES ('{name}', {value})",
                f"UPDATE code SET c = '{name}' WHERE c = '{name}'",
                f"UPDATE code SET v = {value} WHERE c = '{name}'",
                f"DELETE FROM code WHERE c = '{name}'",
            ]
        case "keyless":
            choices = [
                f"INSERT INTO keyless VALUES ({nullable}, 'x'), ({key % 2}, 'X')",
                f"UPDATE keyless SET b = 'y' WHERE a = {key} LIMIT 1",
                f"DELETE FROM keyless WHERE a = {key % 2} LIMIT 1",
            ]
        case _:
            choices = [
                f"INSERT INTO loose VALUES ({nullable}, {key % 2})",
                f"UPDATE loose SET u = {nullable} WHERE v = {key % 2} LIMIT 1",
                f"DELETE FROM loose WHERE v = {key % 2} LIMIT 1",
            ]
    return chance.choice(choices)
