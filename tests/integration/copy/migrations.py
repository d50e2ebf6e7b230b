"""Full migrations of test servers: a job as the launcher would write it, run by threads instead of Spark."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pytest

from airflow_provider_dm.engine.config.job import JobSpec
from airflow_provider_dm.engine.copy import page
from airflow_provider_dm.engine.copy.migration import Hooks, LoadOutcome, load_all
from airflow_provider_dm.engine.downstream.claim import claim_generation, current_generation
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.meta_tables import ensure_meta_tables
from airflow_provider_dm.engine.downstream.session import target_connection
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.sync.run_sync import run_sync
from airflow_provider_dm.engine.sync.runner import LocalRunner, Runner
from airflow_provider_dm.engine.sync.sync_result import SyncResult
from airflow_provider_dm.engine.sync.sync_source import SyncSource
from testbed import Server
from testbed.equality import Comparison, Place, Report, compare
from tests.jobs import endpoint_spec, job_spec, source_spec

E = TypeVar("E", bound=BaseException)


@dataclass
class Migration:
    """A task of mode `full` (unless `task` has another) that copies `schemas`, given as source-id -> its schemas."""

    target: Server
    sources: Mapping[str, Server]
    schemas: Mapping[str, Sequence[str]]
    meta_schema: str
    task: Mapping[str, Any] = field(default_factory=dict)
    instance: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)
    """Keys of each source's `source.yaml`."""
    session: Mapping[str, str] = field(default_factory=dict)
    """DM's `target-database.session`."""
    relay_dir: str = "/nonexistent"
    runner: Runner = field(default_factory=LocalRunner)
    store: MetaStore | None = None
    """Where the log is read (task-mode all)."""

    @classmethod
    def of(cls, target: Server, source: Server | Mapping[str, Server], schema: str, **fields: Any) -> "Migration":
        """Return a task of one schema, of one source, `one`, or of each of several."""
        sources = {"one": source} if isinstance(source, Server) else source
        return cls(target, sources, {name: [schema] for name in sources}, f"{schema}_meta", **fields)

    @property
    def spec(self) -> JobSpec:
        task = {
            "name": "test",
            "task-mode": "full",
            "meta-schema": self.meta_schema,
            "block-allow-list": {name: {"do-dbs": list(schemas)} for name, schemas in self.schemas.items()},
            "mysql-instances": [
                {"source-id": name, "block-allow-list": name, **self.instance} for name in self.sources
            ],
            **self.task,
        }
        sources = [
            source_spec(name, endpoint_spec(name, server), f"{self.relay_dir}/{name}", **self.source)
            for name, server in self.sources.items()
        ]
        target = endpoint_spec("target", self.target, session=self.session)
        return job_spec(task, sources, target, app="full_migration")

    def ref(self, name: str) -> SubtaskRef:
        return SubtaskRef(self.meta_schema, self.task.get("name", "test"), name)

    def claim(self) -> dict[str, Fence]:
        """A new generation for every source, as the app takes it."""
        target = self.spec.target.resolve()
        connection = target_connection(target)
        ensure_meta_tables(target, self.meta_schema)
        claimed = {}
        for name in self.sources:
            claimed[name] = Fence(self.ref(name), current_generation(connection, self.ref(name)) + 1)
            claim_generation(target, claimed[name])
        return claimed

    def go(self, **hooks: Any) -> LoadOutcome:
        """One run of the app's work."""
        return load_all(self.spec, self.claim(), replace(Hooks(self.runner, self.store), **hooks))

    def finish(self) -> dict[str, Any]:
        """One run, which must finish; its result."""
        outcome = self.go()
        assert outcome.complete, outcome
        return outcome.result

    def stops(self, error: type[E], *, match: str | None = None, **hooks: Any) -> E:
        """One run, which stops with this error."""
        with pytest.raises(error, match=match) as raised:
            self.go(**hooks)
        return raised.value

    def sync(self) -> SyncResult:
        """Sync the source `one` until the sync has caught up."""
        assert self.store is not None
        spec = self.spec.model_copy(update={"app": "incremental_sync", "until": "caught-up"})
        return run_sync(SyncSource.of(spec, self.claim()["one"]), LocalRunner(2), self.store, threading.Event())


NewTask = Callable[[Server, Server, str], Migration]


def differences(target: Server, tables: Mapping[str, Sequence[tuple[Server, str]]]) -> Report:
    """`tables`: target `schema.table` -> its (server, `schema.table`) sources."""
    return compare(
        [
            Comparison(
                tuple(Place(server.client_config(), name) for server, name in sources),
                Place(target.client_config(), table),
            )
            for table, sources in tables.items()
        ]
    )


def assert_same(source: Server, target: Server, schema: str, *tables: str) -> Report:
    """Compare tables of one source with the target's tables of the same names."""
    report = differences(target, {f"{schema}.{table}": [(source, f"{schema}.{table}")] for table in tables})
    assert report.equal, report
    return report


def merging(
    target: Server, source: Server | Mapping[str, Server], schema: str, into: str = "", **instance: Any
) -> Migration:
    """Return a task that merges the tables t_… of a schema into a table t of the same schema, or of `into`."""
    route = {"schema-pattern": schema, "table-pattern": "t_*", "target-schema": into or schema, "target-table": "t"}
    instance = {"route-rules": ["merge"], **instance}
    return Migration.of(target, source, schema, task={"routes": {"merge": route}}, instance=instance)


def set_page_rows(patch: pytest.MonkeyPatch, first: int, most: int | None = None) -> None:
    """Let the first page of a chunk have `first` rows, and each page at most `most` (`first` if not given)."""
    patch.setattr(page, "FIRST_ROWS", first)
    patch.setattr(page, "MOST_ROWS", first if most is None else most)
