"""A reader of a round: a Spark task with one snapshot of the source, which copies chunk after chunk.

All readers of a round have snapshots at the same location, so any of them can copy a chunk. A reader takes the next
free chunk: it holds a user lock of the source with the chunk's name, which ends with the reader. Tables, routes, births
and chunks are read from the target, where the frontier rests at the round's location.

It ends when no chunk is left, when the round is over, or with its snapshot; the others continue.

A page of the snapshot is written together with the chunk's progress. Meanwhile a thread of the reader reads the next
page, which is discarded if the write is refused.

A page is read with the table's definition at the round's location. A snapshot of a table that was altered since may
show values of other columns, without an error. So after a page is read, another connection checks that the table was
not altered, while the metadata lock of the snapshot still prevents DDL.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pymysql

from airflow_provider_dm.engine.config.task import SubtaskConfig
from airflow_provider_dm.engine.copy.design import verb_for
from airflow_provider_dm.engine.copy.errors import SnapshotLost
from airflow_provider_dm.engine.copy.gather import ReaderGroup, source_errors, take_user_lock
from airflow_provider_dm.engine.copy.keyless import write_in_pages, write_whole_table
from airflow_provider_dm.engine.copy.page import Page, PageReader, PageSizes
from airflow_provider_dm.engine.copy.page_writing import ChunkJob, write_page
from airflow_provider_dm.engine.copy.snapshot_reader import SnapshotReader, snapshot_reader
from airflow_provider_dm.engine.downstream.copy_progress import ChunkProgress, load_chunk, load_chunks
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.downstream.row_statements import Verb
from airflow_provider_dm.engine.downstream.session import run_transaction, target_dialect
from airflow_provider_dm.engine.downstream.shard_groups import merged_targets
from airflow_provider_dm.engine.downstream.table_schema import Feeder, load_feeders, load_table_schemas
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.connection import Connection, query
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.errors import ServerUnreachable
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.births import check_birth
from airflow_provider_dm.engine.reading.errors import SchemaChangedDuringCopy, SourceReadFailed
from airflow_provider_dm.engine.reading.keyset import KeyOrder
from airflow_provider_dm.engine.reading.source_session import source_connection
from airflow_provider_dm.engine.rules.mapping import TableMapping, map_table
from airflow_provider_dm.engine.rules.subtask_rules import SubtaskRules
from airflow_provider_dm.engine.schema.catalogue import read_tables

log = logging.getLogger(__name__)

CHUNK_POLL_SECONDS: Final = 0.5
"""The interval in which an idle reader checks chunks that others are copying."""


@dataclass(frozen=True)
class ReadRound:
    """The function of one reader. It contains credentials, so it is sent as code, not an item that Spark may spill."""

    group: ReaderGroup
    fence: Fence
    subtask: SubtaskConfig
    round: int
    source: Endpoint
    target: Endpoint

    def __call__(self, number: int) -> str:
        """Read as reader `number`. Return why its snapshot ended early, or "".

        Raises Fenced, DuplicateDuringCopy, TooManyContested, and errors of writing.
        """
        try:
            with snapshot_reader(self.source, self.group, number) as reader:
                if reader is not None and reader.wait_until_open():
                    self._read(reader, number)
        except (SnapshotLost, SourceReadFailed, ServerUnreachable) as lost:
            log.info("%s: reader %d has lost its snapshot: %s", self.fence.ref.source, number, lost)
            return str(lost)
        return ""

    def _read(self, reader: SnapshotReader, number: int) -> None:
        sizes = PageSizes()
        altered: set[TableName] = set()
        while not reader.is_over:
            jobs = [job for job in self._jobs() if job.mapping.source.name not in altered]
            if not jobs:
                return
            ordered = in_turn(jobs, number, self.group.readers)
            copied = [self._copy(job, reader, sizes, altered) for job in ordered]
            if not any(copied):
                time.sleep(CHUNK_POLL_SECONDS)

    def _copy(self, job: ChunkJob, reader: SnapshotReader, sizes: PageSizes, altered: set[TableName]) -> bool:
        """Copy a chunk. Return False if another reader has it, or its table was altered since the round began: such
        tables are added to `altered`."""
        name = job.mapping.source.name
        if reader.is_over or name in altered:
            return False
        with self._taken(job.chunk) as mine:
            if not mine:
                return False
            try:
                copy_chunk(job, reader, sizes, self.target)
            except SchemaChangedDuringCopy as error:
                log.info("%s is not read further in this round: %s", name, error)
                altered.add(name)
                return False
        return True

    @contextmanager
    def _taken(self, chunk: ChunkProgress) -> Iterator[bool]:
        """Hold a chunk for a block. False: another reader holds it."""
        key = f"{self.group.token} {self.round} {chunk.number}"
        name = f"dm-chunk-{hashlib.sha256(key.encode()).hexdigest()[:32]}"
        try:
            mine = take_user_lock(source_connection(self.source), name)
        except (pymysql.err.Error, OSError) as error:
            raise SourceReadFailed(self.source.name, 0, str(error)) from error
        try:
            yield mine
        finally:
            if mine:
                with suppress(pymysql.err.Error, OSError, DmError):  # it ends with the connection
                    query(source_connection(self.source), "SELECT RELEASE_LOCK(%s)", (name,))

    # Chunks

    def _jobs(self) -> list[ChunkJob]:
        """Return the unfinished chunks of the round."""
        chunks = run_transaction(self.target, lambda tx: load_chunks(tx, self.fence.ref))
        left = [chunk for chunk in chunks if chunk.round == self.round and not chunk.done and not chunk.is_unresumable]
        if not left:
            return []
        mappings, feeders, merged = run_transaction(
            self.target, lambda tx: self._tables(tx, {chunk.table for chunk in left})
        )
        return [self._job(chunk, mappings[chunk.table], feeders, merged) for chunk in left]

    def _tables(
        self, connection: Connection, names: set[TableName]
    ) -> tuple[dict[TableName, TableMapping], list[Feeder], frozenset[TableName]]:
        rules = SubtaskRules.of(self.subtask)
        schemas = [schema for schema in load_table_schemas(connection, self.fence.ref) if schema.table.name in names]
        there = read_tables(connection, {schema.target for schema in schemas})
        mappings = {
            schema.table.name: map_table(schema.table, there[schema.target], rules.router.extracted(schema.table.name))
            for schema in schemas
        }
        return mappings, load_feeders(connection, self.fence.ref), merged_targets(connection, self.fence.ref)

    def _job(
        self, chunk: ChunkProgress, mapping: TableMapping, feeders: Sequence[Feeder], merged: Collection[TableName]
    ) -> ChunkJob:
        mine, target = (self.fence.ref.source, mapping.source.name), mapping.target.name
        others = (one for one in feeders if one.target == target and (one.source, one.table) != mine)
        siblings = tuple(f"{one.source}:{one.table}" for one in others)
        verb = verb_for(mapping, self.subtask.loader)
        alone = not siblings and verb is Verb.INSERT and target not in merged
        return ChunkJob(self.fence, chunk, mapping, verb, siblings, alone)


def in_turn(jobs: Sequence[ChunkJob], number: int, readers: int) -> list[ChunkJob]:
    """Return the jobs in the order of reader `number`: whole tables, as they take longest; started chunks; others.

    Each reader begins with another table: two connections that insert into one cost the target more CPU time (MariaDB
    twice as much if the table has AUTO_INCREMENT, MySQL an eighth more).
    """
    tables = list(dict.fromkeys(job.chunk.table for job in sorted(jobs, key=lambda job: job.chunk.number)))
    first = number * len(tables) // readers
    turns = {table: (place - first) % len(tables) for place, table in enumerate(tables)}

    def urgency(job: ChunkJob) -> tuple[bool, bool, int, int]:
        is_whole, chunk = KeyOrder.of(job.mapping.source) is None, job.chunk
        return not is_whole, chunk.last_key is None, turns[chunk.table], chunk.number

    return sorted(jobs, key=urgency)


# One chunk


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
        write_whole_table(into, reader, job, seen, dialect)
        check_birth(source, name, seen.birth)

    with source_errors(source), reader.reading(name):
        if job.is_alone:
            write_in_pages(target, reader, job, seen, dialect)
        else:
            run_transaction(target, body)
    return run_transaction(target, lambda connection: load_chunk(connection, job.fence, seen))
