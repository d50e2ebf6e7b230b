"""Indexes that a load drops from the tables it has created, and builds again after their rows are copied.

Only of tables that one source feeds. They are recorded before they are dropped, so that no crash loses them. DDL in the
log may name such an index, so the source builds its indexes before it follows DDL, and before its state is removed.

Each table has a lock, under which its indexes are dropped and built (ddl_execution.py): a replaced run that is about to
drop them is ended before they are built.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from airflow_provider_dm.engine.mysql.connection import Connection, text
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote
from airflow_provider_dm.engine.mysql.pinned import Setting

log = logging.getLogger(__name__)

_DROPPED: Final = "#0"
_BUILT: Final = "#1"
"""The positions of their entries in the DDL journal. They sort before any location of a log."""
_CHECKED: Final = Setting("foreign_key_checks", 1)
"""Otherwise an index that a foreign key needs would be dropped."""

Indexes: TypeAlias = Mapping[TableName, Sequence[str]]
"""For each table of the target the clauses of ALTER TABLE that add its indexes."""


def read_postponed(connection: Connection, ref: SubtaskRef) -> Indexes:
    """Return the indexes that are not built yet."""
    rows = SUBTASKS.select(connection, ref, "postponed_indexes", "postponed_indexes IS NOT NULL")
    return {TableName(schema, name): clauses for (cell,) in rows for schema, name, clauses in json.loads(text(cell))}


def postpone(target: Endpoint, fence: Fence, keys: Mapping[TableName, Iterable[KeyDefinition]]) -> None:
    """Drop indexes of empty tables where the account may, and no foreign key needs them.

    Raises the errors of `execute_ddl` but DdlRefused.
    """
    if not keys:
        return
    added = {name: [f"ADD {key_sql(key)}" for key in some] for name, some in keys.items()}
    run_transaction(target, partial(_note, fence=fence, indexes=added))
    for number, (name, some) in enumerate(keys.items()):
        drop = _altering(name, [f"DROP KEY {quote(key.name or '')}" for key in some])
        try:
            execute_ddl(target, fence, _DROPPED, [drop], [_CHECKED], first=number, lock=str(name))
        except DdlRefused as error:
            log.info("%s keeps its indexes during the load: %s", name, error)
            run_transaction(target, partial(_note, fence=fence, indexes={name: ()}))


def build_postponed(target: Endpoint, fence: Fence, *, at_once: int = 1) -> None:
    """Build the source's indexes that were postponed, those of `at_once` tables at a time, and remove the record.

    Raises IndexNotBuilt, and the errors of `execute_ddl`.
    """
    indexes = read_postponed(target_connection(target), fence.ref)
    if not indexes:
        return
    log.info("%s: building the indexes of %d tables", fence.ref.source, len(indexes))

    def begin(connection: Connection) -> None:
        """Forget what an earlier run has noted: a table that a user has altered since would count as done."""
        fence.check(connection)
        forget_entries(connection, fence.ref, _BUILT)

    def build(number: int, name: TableName) -> None:
        try:
            execute_ddl(target, fence, _BUILT, [_altering(name, indexes[name])], (), first=number, lock=str(name))
        except DdlRefused as error:
            raise IndexNotBuilt(error.sql, error.number, error.reason) from error
        finally:
            close_target(target)

    def built(connection: Connection) -> None:
        fence.check(connection)
        _record(connection, fence.ref, {})

    run_transaction(target, begin)
    with ThreadPoolExecutor(at_once, thread_name_prefix="indexes") as pool:
        list(pool.map(build, count(), indexes))
    run_transaction(target, built)


def _altering(name: TableName, clauses: Sequence[str]) -> TargetDdl:
    """Return one statement for all clauses, as each statement may read all rows."""
    alter = f"ALTER TABLE {name.quoted()}"
    return TargetDdl(f"{alter} {', '.join(clauses)}", (name,), tuple(f"{alter} {clause}" for clause in clauses))


def _note(connection: Connection, *, fence: Fence, indexes: Indexes) -> None:
    fence.check(connection)
    _record(connection, fence.ref, {**read_postponed(connection, fence.ref), **indexes})


def _record(connection: Connection, ref: SubtaskRef, indexes: Indexes) -> None:
    rows = [[*name, clauses] for name, clauses in indexes.items() if clauses]
    cell = json.dumps(rows, ensure_ascii=False) if rows else None
    SUBTASKS.update(connection, ref, "postponed_indexes = %s", (cell,))
