"""The implementation of ContestPorts: the target, and the sources of the task in this run."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

import pymysql
from pymysql.constants import ER

from airflow_provider_dm.engine.downstream.contested_row import ContestedRow
from airflow_provider_dm.engine.downstream.frontier import Transactions
from airflow_provider_dm.engine.downstream.identity import SubtaskRef
from airflow_provider_dm.engine.downstream.session import run_transaction, target_connection, target_dialect
from airflow_provider_dm.engine.downstream.shard_groups import HeldShard, applied_form, held_shards, is_releasing
from airflow_provider_dm.engine.downstream.subtask import read_subtask
from airflow_provider_dm.engine.downstream.table_schema import Feeder, load_feeders, load_table_schemas
from airflow_provider_dm.engine.errors import DmError, InvariantBroken
from airflow_provider_dm.engine.merge.collision import KeyHolder, KeyValues, condition, find_holders
from airflow_provider_dm.engine.merge.errors import ColumnDropped
from airflow_provider_dm.engine.merge.owner_writer import TargetAccess
from airflow_provider_dm.engine.mysql.binlog_status import current_location
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.reading.source_session import source_connection
from airflow_provider_dm.engine.reading.text_rows import rows
from airflow_provider_dm.engine.rules.mapping import TableMapping, map_table
from airflow_provider_dm.engine.rules.route import Router
from airflow_provider_dm.engine.schema.catalogue import read_tables
from airflow_provider_dm.engine.schema.model import Table

log = logging.getLogger(__name__)


def target_access(target: Endpoint) -> TargetAccess:
    """Return the access by the calling thread's connection to the target."""
    return TargetAccess(target_dialect(target))


@dataclass
class ContestServers:
    """The connections of one driver to target and sources, for several threads. Table definitions are cached."""

    target: Endpoint
    ref: SubtaskRef
    sources: Mapping[str, Endpoint]
    """The sources of this run, by source-id."""
    routers: Mapping[str, Router] = field(default_factory=dict)
    """The routers that fill columns of the target, by source-id."""
    _mappings: dict[tuple[str, TableName], TableMapping] = field(default_factory=dict)

    @property
    def transactions(self) -> Transactions:
        return partial(run_transaction, self.target)

    def access(self) -> TargetAccess:
        return target_access(self.target)

    def mapped(self, source: str, table: TableName, target: TableName) -> TableMapping:
        """Return the mapping of a source table to its target. Raises TargetTableMismatch, TableNotFound."""
        if (source, table) not in self._mappings:
            connection = target_connection(self.target)
            into = read_tables(connection, [target])[target]
            ref = self.ref.of_source(source)
            known = {schema.table.name: schema.table for schema in load_table_schemas(connection, ref)}
            form = applied_form(connection, ref, table) or known.get(table)
            if form is None:
                raise InvariantBroken("a row that waits is of a table that its source has", f"{source}: {table}")
            router = self.routers.get(source)
            self._mappings[source, table] = map_table(form, into, router.extracted(form.name) if router else {})
        return self._mappings[source, table]

    def forget_mappings(self) -> None:
        """Read definitions again after tables were altered."""
        self._mappings.clear()

    def feeders(self) -> list[Feeder]:
        return self.transactions(lambda connection: load_feeders(connection, self.ref))

    def held_shards(self, target: TableName) -> list[HeldShard]:
        return self.transactions(lambda connection: held_shards(connection, self.ref, target))

    def is_releasing(self, target: TableName) -> bool:
        return self.transactions(lambda connection: is_releasing(connection, self.ref, target))

    def ends(self, sources: Collection[str]) -> dict[str, Location] | None:
        ends = {}
        for source in sources:
            if source not in self.sources:
                return None
            try:
                with connected(self.sources[source]) as connection:
                    ends[source] = current_location(connection)
            except (DmError, pymysql.err.Error, OSError) as error:
                log.info("the binlog's end could not be read from %s: %s", source, error)
                return None
        return ends

    def applied(self, source: str) -> Location | None:
        subtask = self.transactions(lambda connection: read_subtask(connection, self.ref.of_source(source)))
        return subtask.location if subtask is not None and subtask.exact else None

    def now(self) -> float:
        return time.monotonic()

    def holders(self, row: ContestedRow, mapping: TableMapping) -> list[KeyHolder]:
        access = self.access()
        return self.transactions(lambda connection: find_holders(row, mapping, connection, access.select))

    def has(self, source: str, table: TableName, values: KeyValues, typed: Table) -> bool | None:
        """Query without retries: a sync does not need its source, so if the source is unreachable the row continues to
        wait."""
        if source not in self.sources:
            return None
        sql = f"SELECT 1 FROM {table.quoted()} WHERE ".encode() + condition(typed, values) + b" LIMIT 1"
        try:
            connection = source_connection(self.sources[source])
            return bool([row for batch in rows(connection, sql) for row in batch.rows])
        except (DmError, pymysql.err.Error, OSError) as error:
            cause = error.__cause__ if isinstance(error, DmError) else error
            if isinstance(cause, pymysql.err.Error) and cause.args[0] == ER.BAD_FIELD_ERROR:
                raise ColumnDropped(f"{source}: {table}") from error
            log.info("%s could not be queried for a row: %s", source, type(error).__name__)
            return None
