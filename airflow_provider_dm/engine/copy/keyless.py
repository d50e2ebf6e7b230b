"""Copies a table without a key for paging: all of its rows, by one SELECT in one round.

If the table is the only source table of its target, it is written in pages. It is covered after the last page, so it
must be copied in one round. If the round breaks (`ChunkProgress.is_unresumable`), its rows are deleted before the log
is applied (`remove_leftovers`); the next round starts from the beginning. A page is rejected if another attempt
advanced the chunk, so two copies of a table are never mixed. Any other table is written in one transaction, which
limits its size: its rows could not be distinguished from other rows of the target.

The table has no rows in the target until it is covered, and all rows of the round's location afterwards, so its log is
applied like that of any other table.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from functools import partial
from typing import Final

from airflow_provider_dm.engine.binlog.images import Cells
from airflow_provider_dm.engine.copy.gather import source_errors
from airflow_provider_dm.engine.copy.page import PAGE_BYTES
from airflow_provider_dm.engine.copy.page_writing import ChunkJob, write_page, write_rows_of
from airflow_provider_dm.engine.copy.snapshot_reader import SnapshotReader
from airflow_provider_dm.engine.downstream.copy_progress import (
    ChunkProgress,
    advance_chunk,
    count_chunk_rows,
    load_chunks,
)
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.downstream.row_statements import Dialect
from airflow_provider_dm.engine.downstream.session import run_transaction
from airflow_provider_dm.engine.downstream.shard_groups import merged_targets
from airflow_provider_dm.engine.downstream.table_schema import load_table_schemas, lock_feeders
from airflow_provider_dm.engine.errors import MIGRATE_AGAIN, NotSupportedYet
from airflow_provider_dm.engine.mysql.connection import Connection, query
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.errors import IncompleteResult
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.births import check_birth
from airflow_provider_dm.engine.reading.blocks import blocks
from airflow_provider_dm.engine.schema.codec import row_reader

PAGE_ROWS: Final = 10_000
_REMOVED_AT_ONCE: Final = 10_000


def write_whole_table(
    connection: Connection, reader: SnapshotReader, job: ChunkJob, seen: ChunkProgress, dialect: Dialect
) -> None:
    """Write the table inside a transaction, which may be repeated: the reader's snapshot returns the same rows.

    Raises Fenced, DuplicateDuringCopy, TooManyContested, IncompleteResult, and the errors of `source_error`.
    """
    if not advance_chunk(connection, job.fence, seen, rows=0, last_key=None, done=True):
        return
    counted = 0
    with closing(_pieces(reader, job, dialect)) as pieces:
        for some in pieces:
            write_rows_of(job, some, dialect)(connection)
            counted += len(some)
    count_chunk_rows(connection, job.fence.ref, seen.number, counted)


def write_in_pages(
    target: Endpoint, reader: SnapshotReader, job: ChunkJob, seen: ChunkProgress, dialect: Dialect
) -> None:
    """Write a table that is the only one of its target. Raises the errors of `write_whole_table`, and
    SchemaChangedDuringCopy.
    """
    with closing(_pieces(reader, job, dialect)) as pieces:
        for some in pieces:
            written = write_page(target, job, seen, some, dialect, last_key=None, done=False)
            if written is None:
                return  # the next round starts again
            seen = written
    check_birth(reader.source, job.mapping.source.name, seen.birth)
    write_page(target, job, seen, Cells.none(len(job.mapping.source.columns)), dialect, last_key=None, done=True)


def remove_leftovers(target: Endpoint, fence: Fence) -> None:
    """Delete the rows of tables whose copy was interrupted. No round may be open. Raises Fenced or TargetWentBack."""
    chunks = run_transaction(target, lambda tx: load_chunks(tx, fence.ref))
    broken = {one.table: one for one in chunks if one.is_unresumable}
    if not broken:
        return
    for schema in run_transaction(target, lambda tx: load_table_schemas(tx, fence.ref)):
        chunk = broken.get(schema.table.name)
        if chunk is not None:
            while run_transaction(target, partial(_remove, fence=fence, chunk=chunk, into=schema.target)):
                pass


def _remove(connection: Connection, fence: Fence, chunk: ChunkProgress, into: TableName) -> bool:
    """Delete up to _REMOVED_AT_ONCE rows; return True if there may be more."""
    fence.check(connection)
    if lock_feeders(connection, fence.ref, into) > 1 or into in merged_targets(connection, fence.ref):
        what = f"deleting the rows of an interrupted copy from {into}, which also has rows of other tables"
        raise NotSupportedYet(what, str(chunk.table), MIGRATE_AGAIN)
    with connection.cursor() as cursor:
        if cursor.execute(f"DELETE FROM {into.quoted()} LIMIT {_REMOVED_AT_ONCE}"):
            return True
    count_chunk_rows(connection, fence.ref, chunk.number, 0)
    return False


def _pieces(reader: SnapshotReader, job: ChunkJob, dialect: Dialect) -> Generator[Cells, None, None]:
    """Yield all rows of the table, some MB at a time. Raises IncompleteResult, and reading's errors."""
    table, expected = job.mapping.source, _count(reader, job)
    columns, to_row = row_reader(table)
    counted, some, rows, weight = 0, list[Cells](), 0, 0
    sql = f"SELECT {columns} FROM {table.name.quoted()}".encode()
    with source_errors(reader.source), closing(blocks(reader.connection, sql, to_row)) as cells:
        for block in cells:
            some.append(block.cells)
            rows += len(block.cells)
            weight += block.bytes
            if rows >= PAGE_ROWS or weight >= min(PAGE_BYTES, dialect.transaction_bytes):
                counted += rows
                yield Cells.joined(some)
                some, rows, weight = [], 0, 0
    if counted + rows != expected:
        raise IncompleteResult(f"all rows of {table.name}", counted + rows, expected)
    if some:
        yield Cells.joined(some)


def _count(reader: SnapshotReader, job: ChunkJob) -> int:
    with source_errors(reader.source):
        ((count,),) = query(reader.connection, f"SELECT COUNT(*) FROM {job.mapping.source.name.quoted()}")
        return int(count)
