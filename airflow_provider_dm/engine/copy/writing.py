"""Rows of a page into the target: the verb, the statements, and what a duplicate means.

All pages of a round show one location of the source, at which the target has what was copied before. So a plain INSERT
can only meet the row of another source table, or one that the task has not written. In a merged table a row that meets
another one waits (merge/writer.py), elsewhere that is an error. Where the user lets rows overwrite each other
(`on-duplicate-logical: replace`), they replace what is there.

Where the target allows it, a page is one LOAD; what that does not write exactly, INSERTs write (downstream/loads.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Final

import numpy as np

from airflow_provider_dm.engine.binlog.images import Cells
from airflow_provider_dm.engine.copy.job import ChunkJob
from airflow_provider_dm.engine.downstream.contested_row import contested_keys
from airflow_provider_dm.engine.downstream.errors import DuplicateInTarget
from airflow_provider_dm.engine.downstream.loads import load_of, run_load
from airflow_provider_dm.engine.downstream.session import execute
from airflow_provider_dm.engine.downstream.statements import Dialect, Literals, Statement, Verb
from airflow_provider_dm.engine.downstream.tuples import write_cells
from airflow_provider_dm.engine.errors import DmError, Scope
from airflow_provider_dm.engine.merge.writer import Access
from airflow_provider_dm.engine.mysql.connection import Connection
from airflow_provider_dm.engine.schema.codec import Row

ROWS_OF_A_STATEMENT = 1_000
"""Measured: 500 rows cost some percent more, 2,000 no less."""
FEWEST_LOADED: Final = 200
"""A LOAD takes three round trips, an INSERT one."""


class DuplicateDuringCopy(DmError):
    """A row of the copy has the key of a row that is already in the target."""

    source: str
    table: str
    target: str
    key: str
    siblings: tuple[str, ...]

    code = "DM-7006"
    scope = Scope.DOWNSTREAM
    what = (
        "{source}: a row of {table} has the same value of the unique key {key} as a row that is already in {target}, "
        "which takes the rows of: {siblings}."
    )
    hint = (
        "Nothing was replaced. Either another of these tables has a row of this key: make the keys distinct, or route "
        "to different tables. Or the source has no such key, or the key's collation in the target takes more values "
        "for equal: change or drop it there. Or somebody else has written the row: delete it. If rows are meant to "
        "overwrite each other, set the loader's on-duplicate-logical to replace."
    )


def write_rows_of(
    job: ChunkJob, cells: Cells, literals: Callable[[Row], Literals], dialect: Dialect
) -> Callable[[Connection], None]:
    """Return what writes these rows, inside a transaction that has advanced the chunk.

    It raises DuplicateDuringCopy, TooManyContested, and what `execute` raises.
    """
    numbers, most = np.arange(len(cells)), ROWS_OF_A_STATEMENT
    load = load_of(job.mapping, cells, dialect) if job.verb is Verb.INSERT and len(cells) >= FEWEST_LOADED else None

    @cache
    def inserts() -> list[Statement]:
        return list(write_cells(job.mapping, cells, numbers, job.verb, literals, dialect=dialect, max_rows=most))

    if load is None:
        inserts()  # before the transaction

    def write(connection: Connection) -> None:
        if load is not None and run_load(connection, load):
            return
        at = 0
        for statement in inserts():
            some = numbers[at : at + statement.rows]
            at += statement.rows
            if job.is_merged and statement.computing is not None:  # it may be run as several
                _place(job, cells.some_rows(some), literals, dialect, connection)
                continue
            try:
                execute(connection, statement)
            except DuplicateInTarget as error:
                if not job.is_merged:
                    raise _duplicate(job, error.key) from None
                _place(job, cells.some_rows(some), literals, dialect, connection)  # the server has undone the statement

    return write


def _place(
    job: ChunkJob,
    some: Sequence[Row],
    literals: Callable[[Row], Literals],
    dialect: Dialect,
    connection: Connection,
) -> None:
    """Insert the rows of a merged table that find their places; the others wait. Raises TooManyContested."""
    writer = job.writer(Access(dialect))
    waiting = contested_keys(connection, writer.owner.ref, writer.mapping.target.name)
    writer.insert(connection, waiting.get(writer.owner.table, set()), writer.rows(some, list(map(literals, some))))


def _duplicate(job: ChunkJob, key: str) -> DuplicateDuringCopy:
    mapping, siblings = job.mapping, job.siblings or ("this table only",)
    return DuplicateDuringCopy(job.fence.ref.source, str(mapping.source.name), str(mapping.target.name), key, siblings)


def sibling_names(feeders: Iterable[tuple[str, object]], mine: tuple[str, object]) -> tuple[str, ...]:
    """Return the other source tables of a target, by (source, table), as messages name them."""
    return tuple(f"{source}:{table}" for source, table in feeders if (source, table) != mine)
