"""Writes the rows of a page to the target, and treats duplicates.

All pages of a round show one location of the source, and the target has the rows of earlier pages as of that location.
So an INSERT can collide only with a row of another source table, or with a row of other origin. In a merged table the
new row then waits (merge/owner_writer.py); in other tables it is an error. With `on-duplicate-logical: replace` it
replaces the existing row.

The statements are made before the transaction begins, which holds no locks meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from airflow_provider_dm.engine.binlog.images import Cells
from airflow_provider_dm.engine.copy.errors import DuplicateDuringCopy
from airflow_provider_dm.engine.downstream.contested_row import RowOwner, contested_keys
from airflow_provider_dm.engine.downstream.copy_progress import ChunkProgress, advance_chunk
from airflow_provider_dm.engine.downstream.errors import DuplicateInTarget
from airflow_provider_dm.engine.downstream.identity import Fence
from airflow_provider_dm.engine.downstream.row_statements import Dialect, Verb
from airflow_provider_dm.engine.downstream.session import execute, run_transaction
from airflow_provider_dm.engine.downstream.tuples import write_tuple_cells
from airflow_provider_dm.engine.merge.owner_writer import MOST_WHILE_COPYING, OwnerWriter, TargetAccess
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.schema.codec import Row, row_literals


@dataclass(frozen=True)
class ChunkJob:
    """One chunk to copy in a round. `chunk`: its recorded state, with the round and the table's birth.

    `siblings`: other source tables with the same target, for messages.
    """

    fence: Fence
    chunk: ChunkProgress
    mapping: TableMapping
    verb: Verb
    siblings: tuple[str, ...]
    is_alone: bool
    """True if no other source table has the same target."""

    @property
    def is_merged(self) -> bool:
        """True if rows that collide with rows of other source tables wait. Otherwise they are errors, or overwrite."""
        return bool(self.siblings) and self.verb is Verb.INSERT and self.mapping.target.identity is not None

    def writer(self, access: TargetAccess) -> OwnerWriter:
        """Return the writer of this table's rows in a merged target."""
        return OwnerWriter(RowOwner(self.fence.ref, self.mapping.source.name), self.mapping, access, MOST_WHILE_COPYING)


def write_page(
    target: Endpoint,
    job: ChunkJob,
    seen: ChunkProgress,
    cells: Cells,
    dialect: Dialect,
    *,
    last_key: str | None,
    done: bool,
) -> ChunkProgress | None:
    """Write rows and the chunk's progress in one transaction. Return the progress after it.

    None: another reader was faster, the round is over, or our COMMIT succeeded and only its answer was lost.
    """
    write = write_rows_of(job, cells, dialect)

    def body(connection: Connection) -> bool:
        advanced = advance_chunk(connection, job.fence, seen, rows=len(cells), last_key=last_key, done=done)
        if advanced:
            write(connection)
        return advanced

    if not run_transaction(target, body):
        return None
    return replace(seen, last_key=last_key, done=done, rows_copied=seen.rows_copied + len(cells))


def write_rows_of(job: ChunkJob, cells: Cells, dialect: Dialect) -> Callable[[Connection], None]:
    """Return the function that writes these rows, inside a transaction that has advanced the chunk.

    The function raises DuplicateDuringCopy, TooManyContested, and what `execute` raises.
    """
    statements = list(write_tuple_cells(job.mapping, cells, np.arange(len(cells)), job.verb, dialect))

    def write(connection: Connection) -> None:
        done = 0
        for statement in statements:
            rows = np.arange(done, done := done + statement.rows)
            try:
                execute(connection, statement)
            except DuplicateInTarget as error:
                if not job.is_merged:
                    raise _duplicate(job, error.key) from None
                _place(job, cells.some_rows(rows), dialect, connection)  # the server has undone the statement

    return write


def _place(job: ChunkJob, some: Sequence[Row], dialect: Dialect, connection: Connection) -> None:
    """Insert the rows of a merged table whose places are free; the others wait. Raises TooManyContested."""
    writer, literals = job.writer(TargetAccess(dialect)), row_literals(job.mapping.source, dialect.server.flavour)
    waiting = contested_keys(connection, writer.owner.ref, writer.mapping.target.name)
    writer.insert(connection, waiting.get(writer.owner.table, set()), writer.rows(some, list(map(literals, some))))


def _duplicate(job: ChunkJob, key: str) -> DuplicateDuringCopy:
    mapping, siblings = job.mapping, job.siblings or ("this table only",)
    return DuplicateDuringCopy(job.fence.ref.source, str(mapping.source.name), str(mapping.target.name), key, siblings)
