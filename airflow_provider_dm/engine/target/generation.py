"""The fence: a number that only grows, held by every row which a transaction of the engine writes.

Whoever starts work claims a generation above all before it. The claim updates every frontier and chunk row, so it waits
for the transactions of the writer before (they hold those rows) and makes all later ones fail: an executor or a driver
that was frozen, cut off or forgotten can only be refused. Leases tell people and schedulers who should be working;
this row decides who can.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import ClassVar

from airflow_provider_dm.engine.errors import MIGRATE_AGAIN, DmError, Reaction, Scope
from airflow_provider_dm.engine.mysql.connection import Connection, query, text
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.target.meta_tables import meta_table
from airflow_provider_dm.engine.target.session import run_transaction


@dataclass(eq=False)
class Fenced(DmError):
    """Somebody else holds a newer generation: this process must end."""

    task: str
    source: str
    mine: int
    found: int

    code: ClassVar[str] = "DM-6010"
    scope: ClassVar[Scope] = Scope.DOWNSTREAM
    reaction: ClassVar[Reaction] = Reaction.FENCED
    what: ClassVar[str] = "generation {mine} of task {task}, source {source} was replaced by generation {found}."
    hint: ClassVar[str] = "Another run has taken over; nothing of this one was written after that."


@dataclass(eq=False)
class TargetWentBack(DmError):
    """The target stands before what was committed in it: it is a restored copy, or lost its last commits."""

    task: str
    source: str
    found: str
    known: str

    code: ClassVar[str] = "DM-6015"
    scope: ClassVar[Scope] = Scope.DOWNSTREAM
    what: ClassVar[str] = (
        "task {task}, source {source}: the target went back to an older state. It has {found}, and {known} was "
        "committed there before."
    )
    hint: ClassVar[str] = (
        "Nothing was written since. If all of it was restored from one backup, the rows together with the meta-schema, "
        "say so by `dmctl stop-task TASK -s SOURCE`, and run the task again: it goes on from the place that the target "
        f"knows, if the log still has it. If it was not, or you do not know, {MIGRATE_AGAIN}."
    )


def refused(task: str, source: str, *, mine: int, found: int) -> DmError:
    """Return why the target takes nothing from generation `mine`. `found`: the one that it knows, 0: none."""
    if found > mine:
        return Fenced(task, source, mine, found)
    return TargetWentBack(task, source, f"generation {found}" if found else "nothing of it", f"generation {mine}")


def current_generation(connection: Connection, meta_schema: str, task: str, source: str) -> int:
    """Return the generation that the target accepts; 0 for a subtask that it has never seen."""
    rows = query(
        connection,
        f"SELECT generation FROM {meta_table(meta_schema, 'dm_subtask')} WHERE task = %s AND source = %s",
        (task, source),
    )
    return int(rows[0][0]) if rows else 0


def claim_generation(endpoint: Endpoint, meta_schema: str, task: str, source: str, generation: int) -> None:
    """Make `generation` the only one that may write, once every transaction of the one before has ended.

    Creates the dm_subtask row (unit `new`) where there is none. Raises Fenced when the target has seen this generation
    or a later one.
    """
    claim = str(uuid.uuid4())  # tells our own retry after a lost COMMIT from another's claim of the same number

    def body(connection: Connection) -> None:
        _claim_subtask(connection, meta_schema, task, source, generation, claim)
        for name in ("dm_frontier", "dm_copy_chunk"):
            query(
                connection,
                f"UPDATE {meta_table(meta_schema, name)} SET generation = %s WHERE task = %s AND source = %s",
                (generation, task, source),
            )

    run_transaction(endpoint, body)


def _claim_subtask(
    connection: Connection, meta_schema: str, task: str, source: str, generation: int, claim: str
) -> None:
    subtask = meta_table(meta_schema, "dm_subtask")
    where = "WHERE task = %s AND source = %s"
    rows = query(connection, f"SELECT generation, claim FROM {subtask} {where} FOR UPDATE", (task, source))
    if not rows:
        query(
            connection,
            f"INSERT INTO {subtask} (task, source, generation, claim, unit, buckets, hash_version, updated_at) "
            "VALUES (%s, %s, %s, %s, 'new', 0, 0, UTC_TIMESTAMP(6))",
            (task, source, generation, claim),
        )
        return
    ((found, holder),) = rows
    if int(found) >= generation and (int(found), text(holder)) != (generation, claim):
        raise Fenced(task, source, generation, int(found))
    query(
        connection,
        f"UPDATE {subtask} SET generation = %s, claim = %s, updated_at = UTC_TIMESTAMP(6) {where}",
        (generation, claim, task, source),
    )


def check_generation(connection: Connection, meta_schema: str, task: str, source: str, generation: int) -> None:
    """Lock the subtask and check its generation, first in a transaction that touches neither frontier nor chunk rows.

    One row for the whole subtask, so such transactions run one after another: not for the data path.
    Raises Fenced or TargetWentBack.
    """
    rows = query(
        connection,
        f"SELECT generation FROM {meta_table(meta_schema, 'dm_subtask')} WHERE task = %s AND source = %s FOR UPDATE",
        (task, source),
    )
    found = int(rows[0][0]) if rows else 0
    if found != generation:
        raise refused(task, source, mine=generation, found=found)
