"""The examples of the article on DM's sync unit, by their names: five of the compactor, three of the merger.

They are written to a target with the rows that the log expects: SQLite, with the engine's own statements."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_dm.engine.downstream.frontier import EpochRange
from airflow_provider_dm.engine.downstream.identity import Fence, SubtaskRef
from airflow_provider_dm.engine.downstream.row_statements import SqlStatement
from airflow_provider_dm.engine.merge.owner_writer import TargetAccess
from airflow_provider_dm.engine.schema.codec import Row
from airflow_provider_dm.engine.sync.write.apply import Target, WaveWriter
from airflow_provider_dm.engine.sync.write.causality import make_waves
from airflow_provider_dm.engine.sync.write.compactor import Compactor
from tests.unit.sync.loop_world import PLAN
from tests.unit.sync.sqlite_target import META, Database
from tests.unit.sync.target_tables import Logged

STEP = EpochRange(Fence(SubtaskRef(META, "task", "source"), 1), "0", "1")
A, B, C = (b"1", b"1"), (b"1", b"2"), (b"1", b"3")
OTHER = (b"2", b"2")
IN_PLACE = "ON DUPLICATE KEY UPDATE `k` = VALUES(`k`), `v` = VALUES(`v`)"


def insert(row: Row) -> Logged:
    return (0, None, row)


def update(before: Row, after: Row) -> Logged:
    return (0, before, after)


def delete(row: Row) -> Logged:
    return (0, row, None)


def written(
    log: Sequence[Logged],
    held: Sequence[Row] = (),
    *,
    compact: bool = True,
    multiple_rows: bool = True,
    safe: bool = False,
) -> list[str]:
    """Write the log to a target that holds these rows; return the statements."""
    database = Database(lambda: 0.0)
    for row in held:
        database.sqlite.execute("INSERT INTO shop.plain VALUES (?, ?)", [int(value or 0) for value in row])
    sqls: list[str] = []

    def execute(connection: Any, statement: SqlStatement) -> int:
        sqls.append(statement.sql.decode().replace("`shop`.`plain` (`k`, `v`)", "t").replace("`shop`.`plain`", "t"))
        return database.access().execute(connection, statement)

    def access() -> TargetAccess:
        return replace(database.access(), execute=execute)

    plan = replace(PLAN, compact=compact, buckets=1, safe=safe)
    writer = WaveWriter(plan, Target(database.transaction, access), STEP, multiple_rows=multiple_rows)  # type: ignore[arg-type]
    waves = make_waves(plan, Compactor(plan).add_all(log))
    writer.write_inside(database.connection(), [waves.first, waves.second, *waves.later], careful=False)
    return sqls


COMPACTION = {
    "INSERT + UPDATE => INSERT": ([insert(A), update(A, B)], [], ["INSERT INTO t VALUES (1,2)"]),
    # The article has a DELETE, as DM does not know whether the target has the row. Here it is known that it has not.
    "INSERT + DELETE => nothing": ([insert(A), delete(A)], [], []),
    "UPDATE + UPDATE => UPDATE": ([update(A, B), update(B, C)], [A], [f"INSERT INTO t VALUES (1,3) {IN_PLACE}"]),
    "UPDATE + DELETE => DELETE": ([update(A, B), delete(B)], [A], ["DELETE FROM t WHERE `k` IN (1)"]),
    "DELETE + INSERT => UPDATE": ([delete(A), insert(B)], [A], [f"INSERT INTO t VALUES (1,2) {IN_PLACE}"]),
}


@pytest.mark.parametrize(("log", "held", "statements"), COMPACTION.values(), ids=COMPACTION.keys())
def test_seed_compaction(log: list[Logged], held: list[Row], statements: list[str]) -> None:
    assert written(log, held) == statements


def test_seed_compaction_insert_delete_is_delete_in_safe_mode() -> None:
    assert written([insert(A), delete(A)], safe=True) == ["DELETE FROM t WHERE `k` IN (1)"]


@pytest.mark.parametrize(("log", "held"), [one[:2] for one in COMPACTION.values()], ids=COMPACTION.keys())
def test_without_compact_every_change_is_written(log: list[Logged], held: list[Row]) -> None:
    verbs = ["DELETE" if after is None else "INSERT" for _, _, after in log]

    assert [one.split()[0] for one in written(log, held, compact=False)] == verbs


MERGING = {
    "INSERT + INSERT": ([insert(A), insert(OTHER)], [], ["INSERT INTO t VALUES (1,1),(2,2)"]),
    "UPDATE + UPDATE": (
        [update(A, B), update(OTHER, (b"2", b"9"))],
        [A, OTHER],
        [f"INSERT INTO t VALUES (1,2),(2,9) {IN_PLACE}"],
    ),
    "DELETE + DELETE": ([delete(A), delete(OTHER)], [A, OTHER], ["DELETE FROM t WHERE `k` IN (1,2)"]),
}
"""Examples of different rows. DM's `DELETE … WHERE (a) IN (1),(2)` is `a IN (1,2)`."""


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize(("log", "held", "statements"), MERGING.values(), ids=MERGING.keys())
def test_seed_merging(log: list[Logged], held: list[Row], statements: list[str], *, compact: bool) -> None:
    assert written(log, held, compact=compact) == statements


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize(("log", "held"), [one[:2] for one in MERGING.values()], ids=MERGING.keys())
def test_without_multiple_rows_a_statement_is_about_one_row(
    log: list[Logged], held: list[Row], *, compact: bool
) -> None:
    sqls = written(log, held, compact=compact, multiple_rows=False)

    assert len(sqls) == 2
    assert not any("),(" in one or "(1,2) IN" in one or "IN (1,2)" in one for one in sqls)
