"""The facts of one source, or of the target: read once and shared by all checks of it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import SubtaskConfig, TaskConfig, TaskMode
from airflow_provider_dm.engine.downstream.ddl_journal import tables_under_way
from airflow_provider_dm.engine.downstream.frontier import extent, read_whole_frontier
from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.shard_groups import read_groups
from airflow_provider_dm.engine.downstream.subtask import UNIT_LOAD, Subtask, begun_subtasks, list_subtasks, noted_place
from airflow_provider_dm.engine.downstream.table_schema import TableSchema, load_feeders, load_table_schemas
from airflow_provider_dm.engine.mysql.binlog_status import BinlogSettings, binlog_settings, current_location
from airflow_provider_dm.engine.mysql.connection import Connection, ServerInfo, query, server_info, text
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.literals import quote_utf8
from airflow_provider_dm.engine.mysql.location import reached
from airflow_provider_dm.engine.precheck.grants import Grants
from airflow_provider_dm.engine.rules.block_allow import select
from airflow_provider_dm.engine.rules.subtask_rules import SubtaskRules
from airflow_provider_dm.engine.schema.catalogue import existing_tables, list_tables, read_tables
from airflow_provider_dm.engine.schema.model import Table


@dataclass
class ServerFacts:
    """The facts of a source or of the target."""

    endpoint: Endpoint
    connection: Connection
    task: TaskConfig

    @cached_property
    def info(self) -> ServerInfo:
        return server_info(self.connection)

    @cached_property
    def account(self) -> str:
        """The account of the connection, as a GRANT names it: 'dm'@'10.0.%' is not 'dm'@'%'."""
        user, _, host = text(query(self.connection, "SELECT CURRENT_USER()")[0][0]).rpartition("@")
        return "@".join(quote_utf8(part.encode()).decode() for part in (user, host))

    @cached_property
    def grants(self) -> Grants:
        """The grants of the account, including its active roles."""
        return Grants.parse(text(row[0]) for row in query(self.connection, "SHOW GRANTS"))

    def is_server_of(self, other: ServerFacts) -> bool:
        """Return True if both connections lead to the same server: MariaDB's identity is often 0-1 on every server, but
        a lock of one connection is seen by another of the same server only.
        """
        if self.info != other.info:
            return False
        name = (f"dm-{uuid.uuid4()}",)
        query(other.connection, "SELECT GET_LOCK(%s, 0)", name)
        try:
            return query(self.connection, "SELECT IS_FREE_LOCK(%s)", name) == [(0,)]
        finally:
            query(other.connection, "SELECT RELEASE_LOCK(%s)", name)

    def setting(self, name: str) -> str:
        """Return a global variable; "" if the server has none of that name."""
        rows = query(self.connection, "SHOW GLOBAL VARIABLES WHERE Variable_name = %s", (name,))
        return text(rows[0][1]) if rows else ""


@dataclass
class SourceFacts(ServerFacts):
    config: SourceConfig
    known: Subtask | None = None
    """The state of this source's subtask in the target; None if it has not started."""
    relay_dir: Path | None = None
    """The directory of the source's shared relay log on this machine."""

    @property
    def id(self) -> str:
        return self.config.source_id

    @property
    def copies(self) -> bool:
        """True if the task reads whole tables."""
        return self.task.task_mode is not TaskMode.INCREMENTAL

    @property
    def follows(self) -> bool:
        """True if the task reads the binlog."""
        return self.task.task_mode is not TaskMode.FULL

    @cached_property
    def binlog(self) -> BinlogSettings:
        return binlog_settings(self.connection)

    @cached_property
    def subtask(self) -> SubtaskConfig:
        return self.task.subtask(self.id).with_source(self.config)

    @cached_property
    def rules(self) -> SubtaskRules:
        return SubtaskRules.of(self.subtask, self.endpoint)

    @cached_property
    def begins_in_past(self) -> bool:
        """True if the task starts before the end of the log: tables may have had other definitions there."""
        start = noted_place(self.known, self.subtask.start)
        if self.copies or start is None:
            return False
        end = current_location(self.connection)
        return not reached(replace(start, suffix=end.suffix), end)

    @cached_property
    def selected(self) -> list[TableName]:
        """The visible tables that the block-allow list selects."""
        return select(list_tables(self.connection), self.rules.block_allow)

    @cached_property
    def tables(self) -> list[Table]:
        return list(read_tables(self.connection, self.selected).values())

    @cached_property
    def routed(self) -> dict[TableName, TableName]:
        """The target table of each selected table."""
        return {name: self.rules.router.route(name) for name in self.selected}


@dataclass(frozen=True)
class BegunSchemas:
    """The schemas with which a source of the task has started, as recorded in the target."""

    loading: bool
    """The full load is not complete yet."""
    schemas: list[TableSchema]
    altering: frozenset[TableName] = frozenset()
    """The source tables that differ from their target tables because of a pending DDL, which the sync executes."""
    held: Mapping[TableName, Table] = field(default_factory=dict)
    """The tables of `altering` whose rows are held back until all shards have executed a DDL, each with the definition
    of its applied rows."""


@dataclass
class TargetFacts(ServerFacts):
    """The target, and the sources that could be reached."""

    sources: tuple[SourceFacts, ...]

    @cached_property
    def begun(self) -> dict[str, BegunSchemas]:
        """The `BegunSchemas` of each source that has started."""
        task, connection = self.task, self.connection
        found = begun_subtasks(connection, task.meta_schema, task.name, (source.id for source in self.sources))
        begun: dict[str, BegunSchemas] = {}
        for source, one in found.items():
            ref = SubtaskRef(task.meta_schema, task.name, source)
            schemas = load_table_schemas(connection, ref)
            held = {member.table: member.base for group in read_groups(connection, ref) for member in group.members}
            altering = _altering(connection, ref, schemas).union(held)
            begun[source] = BegunSchemas(one.unit == UNIT_LOAD, schemas, altering, held)
        return begun

    @cached_property
    def fed(self) -> frozenset[TableName]:
        """The target tables that some source of the task feeds, also one that is not checked."""
        connection, ref = self.connection, SubtaskRef(self.task.meta_schema, self.task.name, "")
        begun = any(subtask.start for subtask in list_subtasks(connection, ref.meta_schema, ref.task))
        return frozenset(feeder.target for feeder in load_feeders(connection, ref)) if begun else frozenset()

    @cached_property
    def own(self) -> list[tuple[SourceFacts, list[TableName]]]:
        """The source tables that are target tables, of each source on the target's server."""
        targets = {target for source in self.sources for target in source.routed.values()}
        return [
            (source, sorted(targets.intersection(source.routed)))
            for source in self.sources
            if self.is_server_of(source)
        ]

    def of_task(self, source: SourceFacts) -> list[tuple[Table, TableName]]:
        """Return the tables of a source, as the task reads them, with their target tables: those at the start of the
        subtask or, if it has not started, the current ones.
        """
        begun = self.begun.get(source.id)
        if begun is None:
            return [(table, source.routed[table.name]) for table in source.tables]
        allows = source.rules.block_allow.allows
        return [(schema.table, schema.target) for schema in begun.schemas if allows(schema.table.name)]

    def comparable(self, source: SourceFacts) -> list[tuple[Table, TableName]]:
        """Return those of `of_task` that can be compared with their target tables: no DDL of theirs is pending."""
        begun = self.begun.get(source.id)
        altering = begun.altering if begun is not None else frozenset()
        return [(table, target) for table, target in self.of_task(source) if table.name not in altering]

    @cached_property
    def wanted(self) -> list[TableName]:
        return sorted({target for source in self.sources for _, target in self.of_task(source)})

    @cached_property
    def tables(self) -> dict[TableName, Table]:
        """The definitions of those of `wanted` that exist."""
        return read_tables(self.connection, sorted(existing_tables(self.connection, self.wanted)))


def _altering(connection: Connection, ref: SubtaskRef, schemas: Sequence[TableSchema]) -> frozenset[TableName]:
    """Return the tables whose target tables a DDL after the frontier alters."""
    frontier = read_whole_frontier(connection, ref)
    targets = tables_under_way(connection, ref, extent(frontier)[0]) if frontier else frozenset()
    return frozenset(schema.table.name for schema in schemas if schema.target in targets)
