"""Indexes that a load drops from the tables it has created, and builds again when their rows are there.

They are recorded before the tables are created, so that no crash loses them, by every source whose rows go into the
table. The last source whose load completes builds them. DDL in the log may name such an index, so a source builds all
of its indexes before it follows DDL, and before its state is removed; for other sources they are there already.

Both statements are executed as DDL of the log is (ddl_execution.py), so that a replaced run cannot drop an index later.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Final, TypeAlias

from airflow_provider_dm.engine.ddl.statements import KeyDefinition
from airflow_provider_dm.engine.ddl.write import key_sql
from airflow_provider_dm.engine.downstream.ddl_execution import TargetDdl, execute_ddl
from airflow_provider_dm.engine.downstream.ddl_journal import forget_entries
from airflow_provider_dm.engine.downstream.errors import DdlRefused, IndexNotBuilt
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.session import close_target, run_transaction, target_connection
from airflow_provider_dm.engine.downstream.subtask import SUBTASKS
from airflow_provider_dm.engine.mysql.connection import Connection, query, text
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote

log = logging.getLogger(__name__)

_DROPPED: Final = "#0"
_BUILT: Final = "#1"
"""The positions of their entries in the DDL journal. They sort before any location of a log."""

Indexes: TypeAlias = Mapping[TableName, Sequence[str]]
"""For each table of the target the clauses of ALTER TABLE that add its indexes."""


def read_postponed(connection: Connection, ref: SubtaskRef) -> Indexes:
    """Return the indexes that are not built yet."""
    rows = SUBTASKS.select(connection, ref, "postponed_indexes", "postponed_indexes IS NOT NULL")
    return {TableName(schema, name): clauses for (cell,) in rows for schema, name, clauses in json.loads(text(cell))}


def note_postponed(connection: Connection, fence: Fence, keys: Mapping[TableName, Iterable[KeyDefinition]]) -> None:
    """Record the indexes of these tables, inside a transaction. Raises Fenced or TargetWentBack."""
    fence.check(connection)
    more = {name: [f"ADD {key_sql(key)}" for key in some] for name, some in keys.items()}
    _record(connection, fence.ref, {**read_postponed(connection, fence.ref), **more})


def drop_postponed(target: Endpoint, fence: Fence, keys: Mapping[TableName, Iterable[KeyDefinition]]) -> None:
    """Drop recorded indexes of tables that are still empty, where the account may do so. Raises Fenced, …"""
    for number, (name, some) in enumerate(keys.items()):
        drop = _altering(name, [f"DROP KEY {quote(key.name or '')}" for key in some])
        try:
            execute_ddl(target, fence, _DROPPED, [drop], (), first=number, lock=str(name))
        except DdlRefused as error:
            log.info("%s keeps its indexes during the load: %s", name, error)
            run_transaction(target, partial(note_postponed, fence=fence, keys={name: ()}))


def leave_to_others(connection: Connection, fence: Fence) -> None:
    """Remove from the source's record, inside a transaction, what another source of the task has recorded as well: it
    builds these indexes, as its load is not complete. Raises Fenced or TargetWentBack."""
    fence.check(connection)
    ref = fence.ref
    sources = query(connection, f"SELECT source FROM {ref.table('dm_subtask')} WHERE task = %s FOR UPDATE", (ref.task,))
    others = [replace(ref, source=text(source)) for (source,) in sources if text(source) != ref.source]
    theirs = {name for other in others for name in read_postponed(connection, other)}
    mine = read_postponed(connection, ref)
    _record(connection, ref, {name: clauses for name, clauses in mine.items() if name not in theirs})


def build_postponed(target: Endpoint, fence: Fence, *, at_once: int = 1) -> None:
    """Build the source's indexes that were postponed, those of `at_once` tables at a time, and remove the record.

    Raises IndexNotBuilt, and the errors of `execute_ddl`.
    """
    indexes = read_postponed(target_connection(target), fence.ref)
    if not indexes:
        return
    log.info("%s: building the indexes of %d tables", fence.ref.source, len(indexes))

    def build(number: int, name: TableName) -> None:
        try:
            execute_ddl(target, fence, _BUILT, [_altering(name, indexes[name])], (), first=number, lock=str(name))
        except DdlRefused as error:
            raise IndexNotBuilt(error.sql, error.number, error.reason) from error
        finally:
            close_target(target)

    with ThreadPoolExecutor(at_once, thread_name_prefix="indexes") as pool:
        list(pool.map(build, count(), indexes))

    def built(connection: Connection) -> None:
        fence.check(connection)
        forget_entries(connection, fence.ref, _BUILT)
        _record(connection, fence.ref, {})

    run_transaction(target, built)


def _altering(name: TableName, clauses: Sequence[str]) -> TargetDdl:
    """Return one statement for all clauses, as each statement may read all rows."""
    alter = f"ALTER TABLE {name.quoted()}"
    return TargetDdl(f"{alter} {', '.join(clauses)}", (name,), tuple(f"{alter} {clause}" for clause in clauses))


def _record(connection: Connection, ref: SubtaskRef, indexes: Indexes) -> None:
    rows = [[*name, clauses] for name, clauses in indexes.items() if clauses]
    cell = json.dumps(rows, ensure_ascii=False) if rows else None
    SUBTASKS.update(connection, ref, "postponed_indexes = %s", (cell,))
