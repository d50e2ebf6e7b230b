"""Copying one chunk: read a page, write it together with the chunk's progress, go on from there."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from airflow_provider_dm.engine.copy import page as pages
from airflow_provider_dm.engine.copy.job import ChunkJob, ChunkResult
from airflow_provider_dm.engine.copy.keyless import copy_whole_table, paging_order
from airflow_provider_dm.engine.copy.page import Page, PageReader, next_limit
from airflow_provider_dm.engine.copy.writing import Contested, check_absent, copy_merged, key_literals, write_all
from airflow_provider_dm.engine.merge.writer import Access
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.reading.births import check_born_so
from airflow_provider_dm.engine.schema.codec import Row, row_literals
from airflow_provider_dm.engine.target.copy_progress import ChunkProgress, advance_chunk, load_chunk
from airflow_provider_dm.engine.target.session import run_transaction, target_dialect
from airflow_provider_dm.engine.target.statements import Dialect, Literals, count_rows
from airflow_provider_dm.engine.target.tuples import write_values

ROWS_OF_A_STATEMENT: Final = 1_000
"""Measured: 500 rows cost some percent more, 2,000 no less."""


def copy_chunk(job: ChunkJob, source: Endpoint, target: Endpoint) -> ChunkResult:
    """Copy until the chunk is done or `job.until`. Runs on an executor.

    Raises Fenced, DuplicateDuringCopy, TooManyContested, SchemaChangedDuringCopy, and what reading and writing raise.
    """
    began = time.monotonic()
    before = run_transaction(target, lambda connection: load_chunk(connection, job.fence, job.chunk.number))
    order = paging_order(job.mapping)
    blocked = 0.0
    if before.done:
        after = before
    elif order is None:
        after, blocked = copy_whole_table(job, before, source, target)
    else:
        after = _copy_pages(job, before, PageReader.of(source, job.mapping.source, order), target)
    copied, seconds = after.rows_copied - before.rows_copied, time.monotonic() - began
    return ChunkResult(job.fence.ref.source, after, copied, seconds, blocked)


def _copy_pages(job: ChunkJob, progress: ChunkProgress, reader: PageReader, target: Endpoint) -> ChunkProgress:
    dialect = target_dialect(target)
    writer = _PageWriter(job, target, dialect, row_literals(job.mapping.source, dialect.server.flavour))
    limit = pages.FIRST_ROWS
    while True:
        began = time.monotonic()
        page = reader.page(progress, limit)
        if job.birth:
            check_born_so(reader.endpoint, job.mapping.source.name, job.birth)
        progress = writer.write(progress, page)
        if progress.done or time.time() >= job.until:
            return progress
        limit = next_limit(limit, page, time.monotonic() - began)


@dataclass(frozen=True)
class _PageWriter:
    job: ChunkJob
    target: Endpoint
    dialect: Dialect
    literals: Callable[[Row], Literals]

    def write(self, seen: ChunkProgress, page: Page) -> ChunkProgress:
        """Write the chunk's step and the page's rows in one transaction. Returns where the chunk is now, whoever moved
        it.
        """
        job = self.job
        last_key = page.last_key or seen.last_key
        write = self._into_merged(page) if job.number else self._into_own(page)

        def body(connection: Connection, *, sure: bool) -> bool:
            step = advance_chunk(connection, job.fence, seen, rows=len(page.rows), last_key=last_key, done=page.last)
            if step:
                write(connection, sure)
            return step

        try:
            step = run_transaction(self.target, partial(body, sure=False))
        except Contested:
            # Whoever wrote between our look and our REPLACE has committed by now, and is found this time.
            step = run_transaction(self.target, partial(body, sure=True))
        if step:
            return replace(seen, last_key=last_key, done=page.last, rows_copied=seen.rows_copied + len(page.rows))
        # Another attempt was here first, or our own COMMIT took effect and only its answer was lost.
        return run_transaction(self.target, lambda connection: load_chunk(connection, job.fence, seen.number))

    def _into_own(self, page: Page) -> Callable[[Connection, bool], None]:
        """Return what writes the page into a table that nobody else writes to, or that began so."""
        job, most = self.job, ROWS_OF_A_STATEMENT
        written = write_values(job.mapping, page.rows, job.verb, self.literals, dialect=self.dialect, max_rows=most)
        statements = list(written)
        keys = key_literals(job.mapping, map(self.literals, page.rows))
        absent = list(count_rows(job.mapping, keys, dialect=self.dialect)) if job.first_of_key else []

        def write(connection: Connection, sure: bool) -> None:
            check_absent(connection, absent, job)
            affected = write_all(connection, statements, job)
            if absent and job.siblings and affected != len(page.rows) and not sure:
                raise Contested

        return write

    def _into_merged(self, page: Page) -> Callable[[Connection, bool], None]:
        writer = self.job.writer(Access(self.dialect))
        copied = writer.rows(page.rows, list(map(self.literals, page.rows)))
        return lambda connection, _sure: copy_merged(connection, writer, copied)
