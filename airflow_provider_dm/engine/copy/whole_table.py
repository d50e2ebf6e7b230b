"""Copying a table that has no key to page by: one exact snapshot, one transaction, one location.

The log is replayed on such a table as signed counts of row images, so rows that the copy already has must not be
replayed: `skip_until` of the table is the location of the snapshot, and it commits together with the rows. Dying in
between leaves nothing; the next attempt takes a new snapshot. That bounds the size: a transaction of the whole table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Final

import pymysql

from airflow_provider_dm.engine.copy.job import ChunkJob
from airflow_provider_dm.engine.copy.watermark import table_snapshot
from airflow_provider_dm.engine.copy.writing import write_all
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Flavour
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.reading.source_session import source_error, with_retries
from airflow_provider_dm.engine.reading.text_rows import rows
from airflow_provider_dm.engine.schema.codec import row_literals, row_reader
from airflow_provider_dm.engine.target.copy_progress import ChunkProgress, advance_chunk, count_chunk_rows, load_chunk
from airflow_provider_dm.engine.target.session import run_transaction, target_dialect
from airflow_provider_dm.engine.target.statements import Dialect, Literals, write_rows
from airflow_provider_dm.engine.target.table_schema import set_skip_until

MOST_ROWS: Final = 500_000
"""Estimated. More would be one transaction of minutes, all lost when it breaks."""


class _SourceBroke(Exception):
    """Not a DmError, so that the target's transaction is not tried again over a snapshot that is gone."""

    def __init__(self, error: DmError) -> None:
        super().__init__(error)
        self.error = error


def copy_whole_table(job: ChunkJob, seen: ChunkProgress, source: Endpoint, target: Endpoint) -> ChunkProgress:
    """All rows of the table, its `skip_until` and its chunk's end in one transaction of the target.

    Raises Fenced, DuplicateDuringCopy, WatermarkBlocked, WatermarkNotPermitted, and what reading and writing raise.
    """

    dialect = target_dialect(target)

    def attempt() -> ChunkProgress:
        with table_snapshot(source, job.mapping.source.name) as (snapshot, location):
            at = replace(location, suffix=job.suffix)
            try:
                run_transaction(target, lambda into: _copy(into, snapshot, job, seen, source, dialect, at))
            except _SourceBroke as broke:
                raise broke.error from broke
        return run_transaction(target, lambda connection: load_chunk(connection, job.owner, seen.number))

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
    """The body of the transaction. It may run again: the snapshot shows the same rows as often as it is asked."""
    if not advance_chunk(connection, job.owner, seen, rows=0, last_key=None, done=True):
        return
    counted = _Counted(_literals(snapshot, job, source, dialect.flavour))
    write_all(connection, write_rows(job.mapping, counted, job.verb, dialect=dialect), job)
    count_chunk_rows(connection, job.owner, seen.number, counted.rows)
    owner = job.owner
    set_skip_until(connection, owner.meta_schema, owner.task, owner.source, job.mapping.source, at.sort_key)


class _Counted:
    """An iterator that knows how much went through."""

    def __init__(self, rows: Iterator[Literals]) -> None:
        self._rows = rows
        self.rows = 0

    def __iter__(self) -> Iterator[Literals]:
        for row in self._rows:
            self.rows += 1
            yield row


def _literals(snapshot: Connection, job: ChunkJob, source: Endpoint, target: Flavour) -> Iterator[Literals]:
    table = job.mapping.source
    columns, to_row = row_reader(table)
    to_literals = row_literals(table, target)
    sql = f"SELECT {columns} FROM {table.name.quoted()}".encode()
    try:
        with closing(rows(snapshot, sql)) as batches:
            for batch in batches:
                for cells in batch.rows:
                    yield to_literals(to_row(cells))
    except (pymysql.err.Error, OSError) as error:
        raise _SourceBroke(source_error(source, error)) from error
