"""Tables are altered while a copy may overwrite rows of others (`on-duplicate-logical: replace`): none is emptied.

The log is applied in the midst of the load, and the copy goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from airflow_provider_dm.engine.copy import by_log
from airflow_provider_dm.engine.copy.copier import copy_chunk
from airflow_provider_dm.engine.copy.job import ChunkResult
from airflow_provider_dm.engine.copy.migration import CopyLane, Lane, Stopped
from airflow_provider_dm.engine.meta.model import Stage, Unit
from airflow_provider_dm.engine.reading.source_session import SchemaChangedDuringCopy
from airflow_provider_dm.engine.rules.mapping import TargetTableMismatch
from airflow_provider_dm.engine.sync.following import Following
from airflow_provider_dm.engine.sync.runner import LocalRunner
from airflow_provider_dm.engine.target.identity import Fence, TargetWentBack
from tests.integration.copy.altering import Kit
from tests.integration.copy.test_ddl_meanwhile import WRITES
from tests.integration.sync.conftest import rows_of

BEFORE = (
    "CREATE TABLE c (id int PRIMARY KEY, v varchar(40), x varchar(40))",
    "INSERT INTO c SELECT id, v, CONCAT('x', v) FROM a",
    "CREATE TABLE d LIKE c",
    "INSERT INTO d SELECT id, 'd', 'd' FROM a WHERE id > 4",
    "CREATE TABLE e LIKE c",
    "INSERT INTO e VALUES (1, 'e', 'e')",
)
ALTERED = (
    *WRITES,
    "ALTER TABLE a CHANGE v w varchar(60), ADD x int NOT NULL DEFAULT 7 FIRST",
    "UPDATE a SET w = 'later', x = 2 WHERE id IN (2, 8)",
    "ALTER TABLE a ADD y int NOT NULL DEFAULT 8, ADD KEY y (y), MODIFY w varchar(20) NOT NULL DEFAULT ''",
    "UPDATE b SET u = u + 100 WHERE id > 4",
    "UPDATE b SET u = id + 1 WHERE id < 5 ORDER BY id DESC",
    "ALTER TABLE b DROP KEY u, MODIFY u int NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY (u), ADD UNIQUE KEY v (v, id)",
    "UPDATE b SET u = -u WHERE id = 3",
    "ALTER TABLE c CHANGE v x varchar(40), CHANGE x v varchar(40)",
    "UPDATE c SET v = 'new' WHERE id = 4",
    "RENAME TABLE d TO tmp, c TO d, tmp TO c",
    "DELETE FROM d WHERE id = 1",
    "ALTER TABLE nokey ADD w int DEFAULT 4",
    "INSERT INTO nokey VALUES ('k', 5), ('k', 5)",
    "CREATE TABLE f LIKE c",
    "INSERT INTO f SELECT * FROM d WHERE id < 4",
    "DROP TABLE e",
)


def overwriting(kit: Kit, mode: str = "all") -> Kit:
    kit.migration.task = {"task-mode": mode, "loaders": {"over": {"on-duplicate-logical": "replace"}}}
    kit.migration.instance = {"loader-config-name": "over"}
    return kit


@pytest.mark.by_turns
@pytest.mark.parametrize("moment", ["before the first page", "between pages"])
def test_whatever_is_altered_the_rows_of_others_are_altered_with_it(kit: Kit, moment: str) -> None:
    overwriting(kit).write(BEFORE)
    target, schema = kit.migration.target, kit.schema

    def happen() -> None:
        target.sql("INSERT INTO c VALUES (-7, 'v7', 'x7'); INSERT INTO e VALUES (-7, '', '')", database=schema)
        target.sql("INSERT INTO a VALUES (-7, 'a7')", database=schema)
        kit.write(ALTERED)

    kit.copy(moment, happen)
    kit.write(("INSERT INTO b (id, v, u) VALUES (901, 'end', 901)", "ALTER TABLE d ADD z int DEFAULT 5"))
    kit.sync()
    assert target.sql("SELECT id, v, x, z FROM d WHERE id < 0", database=schema) == [(-7, "x7", "v7", 5)]
    assert target.sql("SELECT id, w, x, y FROM a WHERE id < 0", database=schema) == [(-7, "a7", 7, 8)]
    target.sql("DELETE FROM d WHERE id < 0; DELETE FROM a WHERE id < 0", database=schema)
    kit.check()


def _dies(step: Callable[..., Any], *, behind: bool) -> Callable[..., Any]:
    def stepped(*arguments: Any, **named: Any) -> Any:
        if behind:
            step(*arguments, **named)
        raise ZeroDivisionError

    return stepped


@pytest.mark.parametrize(
    ("where", "step", "behind"),
    [(by_log, "_doubt", True), (Following, "_commit", False), (by_log, "_go_on", False), (by_log, "_go_on", True)],
)
def test_a_run_that_dies_while_it_applies_the_log_goes_on(one_kit: Kit, where: Any, step: str, behind: bool) -> None:
    """Also if the tables are altered once more until then."""
    overwriting(one_kit)
    altered = (
        *WRITES,
        "ALTER TABLE a MODIFY v varchar(99) NOT NULL DEFAULT 'x'",
        "ALTER TABLE nokey ADD w int",
        "RENAME TABLE a TO c",
        "DROP TABLE b",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(where, step, _dies(getattr(where, step), behind=behind))
        with pytest.raises(ZeroDivisionError):
            one_kit.copy("between pages", lambda: one_kit.write(altered))
    one_kit.migration.run = LocalRunner(2).run
    one_kit.write(("ALTER TABLE c DROP v", "CREATE TABLE b (x int PRIMARY KEY)", "RENAME TABLE nokey TO other"))
    one_kit.migration.finish()
    one_kit.sync()
    one_kit.check()


def test_a_run_that_is_stopped_while_it_applies_the_log_goes_on(one_kit: Kit) -> None:
    overwriting(one_kit).write(BEFORE)
    applies = one_kit.migration.apply_log
    one_kit.migration.apply_log = lambda _fence: False
    rounds = iter((False, True))
    one_kit.slow.setattr("airflow_provider_dm.engine.copy.migration.ROUND_SECONDS", 0.0)
    assert isinstance(one_kit.migration.go(stop=lambda: next(rounds)), Stopped)
    one_kit.write(ALTERED)
    for _ in range(2):
        assert isinstance(one_kit.migration.go(stop=lambda: True), Stopped)
    one_kit.migration.apply_log = applies
    one_kit.migration.finish()
    one_kit.sync()
    one_kit.check()


def test_a_page_from_in_front_of_the_log_that_is_applied_is_not_written_behind_it(one_kit: Kit) -> None:
    """Whoever still reads one, as Spark has given its lane to somebody else."""
    overwriting(one_kit)
    applies, run, first = one_kit.migration.apply_log, one_kit.migration.run, []
    assert applies is not None

    def noting(work: CopyLane, lanes: Sequence[Lane]) -> Sequence[list[ChunkResult]]:
        first.append((work, [job for lane in lanes for job in lane.jobs]))
        found: Sequence[list[ChunkResult]] = run(work, lanes)
        return found

    def late(fence: Fence) -> bool:
        (work, jobs), refused = first[0], 0
        for job in jobs:
            try:
                copy_chunk(job, work.sources["one"], work.target)
            except TargetWentBack:
                refused += 1
        assert refused
        return applies(fence)

    one_kit.migration.run, one_kit.migration.apply_log = noting, late
    one_kit.copy("between pages", lambda: one_kit.write(("ALTER TABLE nokey ADD w int", "ALTER TABLE a DROP v")))
    one_kit.sync()
    one_kit.check()


def test_tables_that_are_alike_and_change_names_are_told_apart_behind_each_page(one_kit: Kit) -> None:
    """By their numbers, as they were made in one second: what was read of another one could never be removed."""
    overwriting(one_kit).write(("DROP TABLE a, b, nokey",))
    made, asked = set[object](), "SELECT create_time FROM information_schema.tables WHERE table_schema = %s"
    while len(made) != 1:  # another second has begun between the two
        one_kit.write(("DROP TABLE IF EXISTS a, b", "CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b LIKE a"))
        made = {when for (when,) in one_kit.source.sql(asked, [one_kit.schema])}
    rows = ", ".join(f"({number})" for number in range(20))
    one_kit.write((f"INSERT INTO a VALUES {rows}", "INSERT INTO b SELECT id + 100 FROM a"))
    one_kit.copy("between pages", lambda: one_kit.write(("RENAME TABLE a TO c, b TO a, c TO b",)))
    (said,) = one_kit.store.list_subtasks()
    assert (said.unit, said.stage) == (Unit.LOAD, Stage.RUNNING)  # its log is applied, and the load goes on
    one_kit.sync()
    one_kit.check()


def test_rows_that_the_log_has_brought_go_as_it_says_when_their_table_is_altered_later(one_kit: Kit) -> None:
    """No page of it is copied yet, and it has rows all the same."""
    overwriting(one_kit)
    applies, more = one_kit.migration.apply_log, iter([("ALTER TABLE a ADD z int", "DELETE FROM a WHERE id = 50")])
    assert applies is not None

    def applying(fence: Fence) -> bool:
        found = applies(fence)
        one_kit.write(next(more, ()))
        return found

    one_kit.migration.apply_log = applying
    assert isinstance(one_kit.migration.go(stop=lambda: True), Stopped)
    one_kit.write(("INSERT INTO a (id) VALUES (50)", "ALTER TABLE b ADD w int"))
    one_kit.migration.finish()
    one_kit.sync()
    one_kit.check()


@pytest.mark.parametrize("mode", ["all", "full"])
def test_what_is_altered_before_the_log_begins_is_looked_at_anew(one_kit: Kit, mode: str) -> None:
    overwriting(one_kit, mode)
    result = one_kit.copy("before P0", lambda: one_kit.write(("ALTER TABLE a ADD w int NOT NULL DEFAULT 9",)))
    assert result["copied_again"] == {}
    if mode == "all":
        one_kit.sync()
        one_kit.check()


def test_without_a_log_a_table_is_written_over_once_more_if_it_takes_the_rows(one_kit: Kit) -> None:
    """Nobody knows what has become of the columns, so that a person has to alter the target."""
    overwriting(one_kit, "full")
    target, schema = one_kit.migration.target, one_kit.schema
    altered = (
        "ALTER TABLE b MODIFY v varchar(40) NOT NULL, ADD KEY (v)",
        "ALTER TABLE a ADD w int",
        "UPDATE a SET w = 3",
    )
    with pytest.raises(TargetTableMismatch, match="missing there: w"):
        one_kit.copy("behind the last page", lambda: one_kit.write((*altered, "DROP TABLE nokey")))
    target.sql("ALTER TABLE a ADD w int; INSERT INTO a VALUES (-7, 'theirs', 7)", database=schema)
    one_kit.migration.run = LocalRunner(2).run
    one_kit.migration.finish()
    ours, theirs = (rows_of(server, schema, "a") for server in (one_kit.source, target))
    assert [row for row in theirs if row not in ours] == [(-7, b"theirs", 7)]
    assert [row for row in ours if row not in theirs] == []
    assert len(rows_of(target, schema, "nokey")) == 10


@pytest.mark.parametrize(
    ("altered", "why"),
    [
        (("ALTER TABLE a MODIFY id int NOT NULL, DROP PRIMARY KEY",), "has lost the key"),
        (("ALTER TABLE m_1 ADD w int",), "its columns or keys are not"),
    ],
    ids=["no key any more", "merged"],
)
def test_where_rows_cannot_be_told_from_others_it_stops(one_kit: Kit, altered: Sequence[str], why: str) -> None:
    overwriting(one_kit)
    route = {"schema-pattern": one_kit.schema, "target-schema": one_kit.schema, "target-table": "m"}
    one_kit.migration.task = {**one_kit.migration.task, "routes": {"r": route | {"table-pattern": "m_*"}}}
    one_kit.migration.instance = {**one_kit.migration.instance, "route-rules": ["r"]}
    one_kit.write(("CREATE TABLE m_1 LIKE a", "CREATE TABLE m_2 LIKE a"))
    with pytest.raises(SchemaChangedDuringCopy, match=why):
        one_kit.copy("between pages", lambda: one_kit.write(altered))
