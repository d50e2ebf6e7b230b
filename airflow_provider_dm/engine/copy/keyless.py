"""Copying a table that has no key to page by: one exact snapshot, one transaction, one location.

The log is replayed on such a table as signed counts of row images, so rows that the copy already has must not be
replayed: `skip_until` of the table is the location of the snapshot, and it commits together with the rows. Dying in
between leaves nothing; the next attempt takes a new snapshot. That bounds the size: a transaction of the whole table.

The table has to be what it was planned as while its rows are read. So rows of a table without a key are either not
there, or all of them as of `skip_until` and of that definition: DDL that comes later comes behind them in the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import Final

import pymysql

from airflow_provider_dm.engine.copy.job import ChunkJob
from airflow_provider_dm.engine.copy.snapshot import table_snapshot
from airflow_provider_dm.engine.copy.writing import copy_merged, write_all
from airflow_provider_dm.engine.errors import MIGRATE_AGAIN, DmError, Scope
from airflow_provider_dm.engine.merge.writer import ROWS_OF_A_STATEMENT, Access
from airflow_provider_dm.engine.mysql.connection import AnswerCut, Connection, connected, query
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.reading.births import check_born_so
from airflow_provider_dm.engine.reading.keyset import KeyOrder
from airflow_provider_dm.engine.reading.source_session import SchemaChangedDuringCopy, source_error, with_retries
from airflow_provider_dm.engine.reading.text_rows import rows
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.catalogue import read_tables
from airflow_provider_dm.engine.schema.codec import Row, row_literals, row_reader
from airflow_provider_dm.engine.target.copy_progress import ChunkProgress, advance_chunk, count_chunk_rows, load_chunk
from airflow_provider_dm.engine.target.session import run_transaction, target_dialect
from airflow_provider_dm.engine.target.statements import Dialect, write_rows
from airflow_provider_dm.engine.target.table_schema import set_skip_until


def paging_order(mapping: TableMapping) -> KeyOrder | None:
    """Return the order by which a table is copied page by page; None: it needs one snapshot (`keyless`).

    A target without a key cannot take the repeated changes of catch-up either, however good the source's key is.
    """
    return None if mapping.target.identity is None else KeyOrder.of(mapping.source)


class SnapshotElsewhere(DmError):
    """The source failed over during the load, and a table without a key to page by is still to be copied."""

    source: str
    table: str
    began: str
    now: str

    code = "DM-7026"
    scope = Scope.UPSTREAM
    what = (
        "{source}: the load began on server {began}, and server {now} answers now. {table} is copied from one "
        "snapshot, whose place would be in another server's log."
    )
    hint = f"Point the source back to the first server until all is copied, or {MIGRATE_AGAIN}."


AS_PLANNED: Final = "as planned"
"""The `last_key` of a chunk that was copied whole."""
MOST_ROWS: Final = 500_000
"""Estimated. More would be one transaction of minutes, all lost when it breaks."""


def copy_whole_table(
    job: ChunkJob, seen: ChunkProgress, source: Endpoint, target: Endpoint
) -> tuple[ChunkProgress, float]:
    """Write all rows of the table, its `skip_until` and its chunk's end in one transaction of the target.

    Returns the chunk's progress, and the longest time in seconds that a lock blocked writers of the table.

    Raises SnapshotElsewhere, SchemaChangedDuringCopy, Fenced, DuplicateDuringCopy, TooManyContested, WatermarkBlocked,
    WatermarkNotPermitted, AnswerCut, and what reading and writing raise.
    """

    dialect = target_dialect(target)

    def attempt() -> tuple[ChunkProgress, float]:
        with table_snapshot(source, job.mapping.source.name) as snapshot:
            location = snapshot.location
            if job.server_uuid and location.server_uuid != job.server_uuid:
                name = str(job.mapping.source.name)
                raise SnapshotElsewhere(job.fence.ref.source, name, job.server_uuid, location.server_uuid)
            at = replace(location, suffix=job.suffix)
            run_transaction(target, lambda into: _copy(into, snapshot.connection, job, seen, source, dialect, at))
        progress = run_transaction(target, lambda connection: load_chunk(connection, job.fence, seen.number))
        return progress, snapshot.blocked_seconds

    return with_retries(source, attempt)


def _copy(
    connection: Connection,
    snapshot: Connection,
    job: ChunkJob,
    seen: ChunkProgress,
    source: Endpoint,
    dialect: Dialect,
    at: Location,
) -> None:
    """Run the body of the transaction. It may run again: the snapshot shows the same rows as often as it is asked."""
    if not advance_chunk(connection, job.fence, seen, rows=0, last_key=AS_PLANNED, done=True):
        return
    expected = _count(snapshot, job, source)
    _check_as_planned(job, source)
    counted = _Counted(_rows(snapshot, job, source))
    literals = row_literals(job.mapping.source, dialect.server.flavour)
    if job.number:
        writer = job.writer(Access(dialect))
        while some := list(islice(counted, ROWS_OF_A_STATEMENT)):
            copy_merged(connection, writer, writer.rows(some, list(map(literals, some))))
    else:
        write_all(connection, write_rows(job.mapping, map(literals, counted), job.verb, dialect=dialect), job)
    if counted.rows != expected:
        raise AnswerCut(f"all rows of {job.mapping.source.name}", counted.rows, expected)
    count_chunk_rows(connection, job.fence.ref, seen.number, counted.rows)
    set_skip_until(connection, job.fence.ref, job.mapping.source, at.sort_key)


class _Counted:
    """An iterator that counts the rows that went through."""

    def __init__(self, rows: Iterator[Row]) -> None:
        self._rows = rows
        self.rows = 0

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        row = next(self._rows)
        self.rows += 1
        return row


def _count(snapshot: Connection, job: ChunkJob, source: Endpoint) -> int:
    try:
        ((count,),) = query(snapshot, f"SELECT COUNT(*) FROM {job.mapping.source.name.quoted()}")
    except (pymysql.err.Error, OSError) as error:
        raise source_error(source, error) from error
    return int(count)


def _check_as_planned(job: ChunkJob, source: Endpoint) -> None:
    """Check that the table is what it was planned as: whoever has read of it lets nobody alter it until the end."""
    planned = job.mapping.source.stored
    try:
        with connected(source) as connection:
            now = read_tables(connection, [planned.name])[planned.name]
    except (pymysql.err.Error, OSError) as error:
        raise source_error(source, error) from error
    if now != planned:
        raise SchemaChangedDuringCopy(source.name, str(planned.name), "it has other columns or keys than planned")
    if job.birth:
        check_born_so(source, planned.name, job.birth)


def _rows(snapshot: Connection, job: ChunkJob, source: Endpoint) -> Iterator[Row]:
    table = job.mapping.source
    columns, to_row = row_reader(table)
    sql = f"SELECT {columns} FROM {table.name.quoted()}".encode()
    try:
        with closing(rows(snapshot, sql)) as batches:
            for batch in batches:
                yield from map(to_row, batch.rows)
    except (pymysql.err.Error, OSError) as error:
        raise source_error(source, error) from error
