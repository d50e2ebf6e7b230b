"""Copies one chunk in a round: read a page of the snapshot, write it together with the chunk's progress, repeat.

While a page is written, a thread of the reader reads the next one, which is discarded if the write is refused.

A page is read with the table's definition at the round's location. A snapshot of a table that was altered since may
show values of other columns, without an error. So after a page is read, another connection checks that the table was
not altered, while the metadata lock of the snapshot still prevents DDL.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import partial

from airflow_provider_dm.engine.copy.gather import source_errors
from airflow_provider_dm.engine.copy.keyless import ReaderSnapshot, write_in_pages, write_whole_table
from airflow_provider_dm.engine.copy.page import Page, PageReader, PageSizes
from airflow_provider_dm.engine.copy.page_writing import write_page
from airflow_provider_dm.engine.copy.reader_job import ChunkJob
from airflow_provider_dm.engine.copy.snapshot_reader import SnapshotReader
from airflow_provider_dm.engine.downstream.copy_progress import ChunkProgress, load_chunk
from airflow_provider_dm.engine.downstream.session import run_transaction, target_dialect
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.reading.births import check_birth
from airflow_provider_dm.engine.reading.keyset import KeyOrder


def copy_chunk(job: ChunkJob, reader: SnapshotReader, sizes: PageSizes, target: Endpoint) -> ChunkProgress:
    """Copy until the chunk is done or the round is over. Runs on an executor. Return the chunk's progress.

    Raises SnapshotLost, SchemaChangedDuringCopy, Fenced, DuplicateDuringCopy, TooManyContested, and the errors
    of reading and writing.
    """
    seen = run_transaction(target, lambda connection: load_chunk(connection, job.fence, job.chunk))
    if seen.done or seen.is_unresumable or seen.round != job.chunk.round:
        return seen
    order = KeyOrder.of(job.mapping.source)
    if order is None:
        return _copy_whole(job, seen, reader, target)
    return _copy_pages(job, seen, reader, PageReader.of(job.mapping.source, order), sizes, target)


def _copy_pages(
    job: ChunkJob,
    progress: ChunkProgress,
    reader: SnapshotReader,
    page_reader: PageReader,
    sizes: PageSizes,
    target: Endpoint,
) -> ChunkProgress:
    dialect, name = target_dialect(target), job.mapping.source.name

    def read(after: ChunkProgress) -> tuple[Page, float]:
        began = time.monotonic()
        with source_errors(reader.source), reader.reading(name) as snapshot:
            page = page_reader.page(snapshot, after, sizes.rows(name), dialect.transaction_bytes)
            check_birth(reader.source, name, after.birth)
        return page, time.monotonic() - began

    ahead: Future[tuple[Page, float]] | None = None
    try:
        while not progress.done and progress.round == job.chunk.round and not reader.is_over:
            page, seconds = (ahead or reader.ahead.submit(read, progress)).result()
            last_key = page.last_key or progress.last_key
            ahead = None if page.last else reader.ahead.submit(read, replace(progress, last_key=last_key))
            began = time.monotonic()
            written = write_page(target, job, progress, page.cells, dialect, last_key=last_key, done=page.last)
            sizes.learn(name, page, seconds + time.monotonic() - began, dialect.transaction_bytes)
            if written is None:
                return run_transaction(target, partial(load_chunk, fence=job.fence, known=progress))
            progress = written
    finally:
        if ahead is not None:
            wait([ahead])  # the snapshot has one connection
    return progress


def _copy_whole(job: ChunkJob, seen: ChunkProgress, reader: SnapshotReader, target: Endpoint) -> ChunkProgress:
    dialect, name, source = target_dialect(target), job.mapping.source.name, reader.source

    def body(into: Connection) -> None:
        write_whole_table(into, ReaderSnapshot(source, connection), job, seen, dialect)
        check_birth(source, name, seen.birth)

    with source_errors(source), reader.reading(name) as connection:
        if job.is_alone:
            write_in_pages(target, ReaderSnapshot(source, connection), job, seen, dialect)
        else:
            run_transaction(target, body)
    return run_transaction(target, lambda connection: load_chunk(connection, job.fence, seen))
