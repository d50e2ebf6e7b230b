"""Copying a table that has no key to page by: all of its rows from the snapshot, in one transaction of the target.

Dying in between leaves nothing; the next round begins it again. That bounds the size: a transaction of the whole table.
Before it is covered it has no row in the target, and afterwards all of them as of the round's location, so its log is
applied as that of any other table.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Final

import pymysql

from airflow_provider_dm.engine.copy.job import ChunkJob
from airflow_provider_dm.engine.copy.writing import ROWS_OF_A_STATEMENT, write_rows_of
from airflow_provider_dm.engine.mysql.connection import AnswerCut, Connection, query
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.reading.source_session import source_error
from airflow_provider_dm.engine.reading.text_rows import rows
from airflow_provider_dm.engine.schema.codec import Row, row_literals, row_reader
from airflow_provider_dm.engine.target.copy_progress import ChunkProgress, advance_chunk, count_chunk_rows
from airflow_provider_dm.engine.target.statements import Dialect

AS_PLANNED: Final = "as planned"
"""The `last_key` of a chunk that was copied whole."""


@dataclass(frozen=True)
class Snapshot:
    """A reader's connection with its snapshot, and the server that it leads to."""

    source: Endpoint
    connection: Connection


def write_whole_table(
    connection: Connection, snapshot: Snapshot, job: ChunkJob, seen: ChunkProgress, dialect: Dialect
) -> None:
    """Run the body of the transaction. It may run again: the snapshot shows the same rows as often as it is asked.

    Raises Fenced, DuplicateDuringCopy, TooManyContested, AnswerCut, and what reading raises.
    """
    if not advance_chunk(connection, job.fence, seen, rows=0, last_key=AS_PLANNED, done=True):
        return
    table = job.mapping.source
    expected, counted = _count(snapshot, job), 0
    literals = row_literals(table, dialect.server.flavour)
    found = _rows(snapshot, job)
    with closing(found):
        while some := list(islice(found, ROWS_OF_A_STATEMENT)):
            write_rows_of(job, some, literals, dialect)(connection)
            counted += len(some)
    if counted != expected:
        raise AnswerCut(f"all rows of {table.name}", counted, expected)
    count_chunk_rows(connection, job.fence.ref, seen.number, counted)


def _count(snapshot: Snapshot, job: ChunkJob) -> int:
    try:
        ((count,),) = query(snapshot.connection, f"SELECT COUNT(*) FROM {job.mapping.source.name.quoted()}")
    except (pymysql.err.Error, OSError) as error:
        raise source_error(snapshot.source, error) from error
    return int(count)


def _rows(snapshot: Snapshot, job: ChunkJob) -> Generator[Row, None, None]:
    table = job.mapping.source
    columns, to_row = row_reader(table)
    sql = f"SELECT {columns} FROM {table.name.quoted()}".encode()
    try:
        with closing(rows(snapshot.connection, sql)) as batches:
            for batch in batches:
                yield from map(to_row, batch.rows)
    except (pymysql.err.Error, OSError) as error:
        raise source_error(snapshot.source, error) from error
