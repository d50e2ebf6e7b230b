"""Full migrations of test servers: a job as the launcher would write it, run by threads instead of Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_dm.engine.config.job import EndpointSpec, JobSpec, SecretRef, SourceSpec
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.copy.migration import HandedOver, Hooks, LoadOutcome, load_all
from airflow_provider_dm.engine.downstream.claim import claim_generation, current_generation
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.meta_tables import ensure_meta_tables
from airflow_provider_dm.engine.downstream.session import target_connection
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.processes import Holder
from airflow_provider_dm.engine.sync.runner import LocalRunner, Runner
from testbed import Server
from testbed.equality import Comparison, Place, Report, compare


def endpoint_spec(name: str, server: Server, session: Mapping[str, str] | None = None) -> EndpointSpec:
    return EndpointSpec(name=name, host=server.host, port=server.port, user=server.user, session=dict(session or {}))


def endpoint(name: str, server: Server) -> Endpoint:
    return endpoint_spec(name, server).resolve()


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
        return JobSpec(
            run_id="run",
            app="full_migration",
            task=TaskConfig.model_validate(task),
            sources=tuple(
                SourceSpec(
                    config=SourceConfig.model_validate({"source-id": name, **self.source}),
                    endpoint=endpoint_spec(name, server),
                    relay_dir=f"{self.relay_dir}/{name}",
                )
                for name, server in self.sources.items()
            ),
            target=endpoint_spec("target", self.target, self.session),
            meta_url=SecretRef(env="UNUSED"),
            holder=Holder(identity="test", attempt="1", host="here"),
        )

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
        assert isinstance(outcome, HandedOver), outcome
        return outcome.result


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


def merging(target: Server, source: Server, schema: str) -> Migration:
    """A migration of the tables t_… of a schema into one table t."""
    route = {"schema-pattern": schema, "table-pattern": "t_*", "target-schema": schema, "target-table": "t"}
    task, instance = {"routes": {"merge": route}}, {"route-rules": ["merge"]}
    return Migration(target, {"one": source}, {"one": [schema]}, f"{schema}_meta", task, instance)
