"""The queries of a driver of merged tables to the target, and to the sources of the task in this run."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
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
from airflow_provider_dm.engine.merge.errors import ColumnDropped
from airflow_provider_dm.engine.merge.owner_writer import TargetAccess
from airflow_provider_dm.engine.mysql.binlog_status import current_location
from airflow_provider_dm.engine.mysql.connection import Connection, connected
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.reading.source_session import source_connection
from airflow_provider_dm.engine.reading.text_rows import TextCells, rows
from airflow_provider_dm.engine.rules.mapping import TableMapping, map_table
from airflow_provider_dm.engine.rules.route import Router
from airflow_provider_dm.engine.schema.catalogue import read_tables
from airflow_provider_dm.engine.schema.codec import Row, Value, codec_for
from airflow_provider_dm.engine.schema.model import Index, Table

log = logging.getLogger(__name__)


KeyValues = dict[str, Value]
"""Column name -> canonical value, never None."""


@dataclass(frozen=True)
class KeyHolder:
    """A row of the target that holds the key of another row: its identity and its values of the unique key."""

    key: Index
    identity: KeyValues
    values: KeyValues


def target_access(target: Endpoint) -> TargetAccess:
    """Return the access by the calling thread's connection to the target."""
    return TargetAccess(target_dialect(target))


@dataclass
class ContestServers:
    """The connections of one driver to target and sources, for several threads. Table definitions are cached.

    The model tests replace its queries.
    """

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
        """Return the source tables of all started sources of the task."""
        return self.transactions(lambda connection: load_feeders(connection, self.ref))

    def held_shards(self, target: TableName) -> list[HeldShard]:
        """Return the held shards of a merged table, of all sources."""
        return self.transactions(lambda connection: held_shards(connection, self.ref, target))

    def is_releasing(self, target: TableName) -> bool:
        """Return True if held-back rows can be applied without a further DDL."""
        return self.transactions(lambda connection: is_releasing(connection, self.ref, target))

    def ends(self, sources: Collection[str]) -> dict[str, Location] | None:
        """Return the current ends of these sources' logs; None if one cannot be queried."""
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
        """Return the location up to which a log is applied exactly; None while it loads, or overwrites rows."""
        subtask = self.transactions(lambda connection: read_subtask(connection, self.ref.of_source(source)))
        return subtask.location if subtask is not None and subtask.exact else None

    def now(self) -> float:
        """Return the seconds of a monotonic clock."""
        return time.monotonic()

    def holders(self, row: ContestedRow, mapping: TableMapping) -> list[KeyHolder]:
        """Return the rows in the target that have a unique value of this row."""
        access = self.access()
        return self.transactions(lambda connection: find_holders(row, mapping, connection, access.select))

    def has(self, source: str, table: TableName, values: KeyValues, typed: Table) -> bool | None:
        """Return True if a source table has a row with these values, canonical for `typed`, now; None if the source
        cannot be queried. There are no retries, as a sync does not need its source. Raises ColumnDropped."""
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


def values_of(row: Row, mapping: TableMapping, key: Index) -> KeyValues:
    """Return the values of a unique key in a row, by the names of their columns."""
    columns = [mapping.source.column(name) for name in key.columns]
    return {column.name: row[column.position] for column in columns}


def find_holders(
    row: ContestedRow,
    mapping: TableMapping,
    connection: Connection,
    select: Callable[[Connection, bytes], list[TextCells]],
) -> list[KeyHolder]:
    """Query the target for the rows that hold this row's keys. A unique key over an expression is left out."""
    identity = mapping.target.identity
    assert identity is not None
    holders = []
    for key in mapping.target.unique_keys:
        if key.expression:
            continue
        values = values_of(row.row, mapping, key)
        if None in values.values():
            continue
        names = list(dict.fromkeys((*identity.columns, *key.columns)))
        prefixes = {name.lower(): length for name, length in key.parts if length is not None}
        sql = select_rows(mapping.target, names, condition(mapping.source, values, prefixes))
        for cells in select(connection, sql):
            known = dict(zip(names, canonical(mapping.target, names, cells), strict=True))
            holders.append(
                KeyHolder(
                    key, {name: known[name] for name in identity.columns}, {name: known[name] for name in key.columns}
                )
            )
    return holders


def select_rows(table: Table, names: Sequence[str], where: bytes) -> bytes:
    """Return a SELECT of these columns, with the expressions that their codecs need."""
    columns = [table.column(name) for name in names]
    selected = ", ".join(codec_for(table.name, column).select(quote(column.name)) for column in columns)
    return f"SELECT {selected} FROM {table.name.quoted()} WHERE ".encode() + where


def canonical(table: Table, names: Sequence[str], cells: TextCells) -> list[Value]:
    """Return a row of `select_rows` as canonical values."""
    converts = [codec_for(table.name, table.column(name)).from_text for name in names]
    return [
        cell if convert is None or cell is None else convert(cell)
        for convert, cell in zip(converts, cells, strict=True)
    ]


def condition(table: Table, values: KeyValues, prefixes: dict[str, int] | None = None) -> bytes:
    """Return `a = 1 AND b = 'x'` for canonical values of columns of `table`."""
    parts = []
    for name, value in values.items():
        column = table.column(name)
        literal, quoted = codec_for(table.name, column).literal()(value or b""), quote(column.name).encode()
        length = (prefixes or {}).get(name.lower())
        if length is None:
            parts.append(quoted + b" = " + literal)
        else:
            parts.append(b"LEFT(%b, %d) = LEFT(%b, %d)" % (quoted, length, literal, length))
    return b" AND ".join(parts)
