"""The binlog operator that applies at a location, and the operators that a user may request."""

from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.meta.records import (
    Operator,
    OperatorKind,
    OperatorState,
    SqlPattern,
    Stage,
    SubtaskStatus,
    Unit,
)
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.sync.ddl.operator_selection import (
    injection_at,
    named_place,
    next_injection,
    operator_for,
    operator_statements,
    paused_place,
    sql_pattern,
)
from airflow_provider_dm.engine.sync.errors import NotPausedByDdl, SourceHasNoError

SQL = "ALTER TABLE shop.t DROP COLUMN c"


def at(position: int, *, file: int = 3, suffix: int = 1) -> Location:
    return Location(f"mysql-bin.{file:06d}", position, suffix=suffix, server_uuid="u")


def operator(place: Location | str, kind: str = "skip", **changes: Any) -> Operator:
    return Operator("task", "s1", OperatorKind(kind), SqlPattern(place) if isinstance(place, str) else place, **changes)


# Which one is meant


def test_an_exact_location_overrides_patterns_and_the_older_pattern_a_newer_one() -> None:
    exact, pattern, newer = operator(at(400)), operator("DROP COLUMN"), operator("ALTER")
    bound = operator("DROP", state=OperatorState.USED, used_at=at(400))

    assert operator_for([pattern, exact], at(400), SQL) is exact
    assert operator_for([pattern, exact], at(500), SQL) is pattern
    assert operator_for([exact], at(500), SQL) is None
    assert operator_for([pattern, newer], at(400), SQL) is pattern
    assert operator_for([newer, bound], at(400), SQL) is bound


def test_a_location_inside_a_transaction_selects_that_transaction() -> None:
    inside = operator(at(465))

    assert operator_for([inside], at(400), SQL, end=at(600)) is inside
    assert operator_for([inside], at(465), SQL, end=at(600)) is inside
    assert operator_for([inside], at(200), SQL, end=at(465)) is None
    assert operator_for([inside], at(400), SQL) is None


@pytest.mark.parametrize("elsewhere", [at(400, file=4), at(400, suffix=2), Location("other-bin.000003", 400)])
def test_a_place_of_another_file_or_sub_directory_is_another_place(elsewhere: Location) -> None:
    assert operator_for([operator(at(400))], elsewhere, SQL) is None


def test_a_pattern_that_was_used_matches_at_no_other_location() -> None:
    """A run that died after its DDL must not let the pattern meet a second one."""
    bound = operator("DROP COLUMN", state=OperatorState.USED, used_at=at(400))

    assert operator_for([bound], at(400), SQL) is bound
    assert operator_for([bound], at(900), SQL) is None


def test_a_passed_operator_has_no_effect() -> None:
    passed = operator(at(400), "inject", state=OperatorState.PASSED, used_at=at(400))

    assert operator_for([passed], at(400), SQL) is None
    assert injection_at([passed], at(400)) is None
    assert next_injection([passed], at(4)) is None


def test_an_epoch_ends_where_something_is_injected() -> None:
    operators = [operator(at(900), "inject"), operator(at(400), "inject"), operator(at(100), "skip")]

    assert next_injection(operators, at(4)) == at(400)
    assert next_injection(operators, at(400)) == at(900)
    assert next_injection(operators, at(900)) is None
    assert injection_at(operators, at(400)) is operators[1]
    assert injection_at(operators, at(401)) is None


# What a user asks for


def subtask(**changes: Any) -> SubtaskStatus:
    known: dict[str, Any] = {"needed": at(400), "applied": at(400, suffix=2)}
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return SubtaskStatus("task", "s1", Unit.SYNC, Stage.PAUSED, updated_at=now, **{**known, **changes})


def test_the_default_location_is_the_paused_one() -> None:
    assert paused_place(subtask(error={"ErrCode": "DM-6032"}, error_at=at(500))) == at(500)
    with pytest.raises(SourceHasNoError, match="source s1 has no error"):
        paused_place(subtask())
    with pytest.raises(NotPausedByDdl, match="DM-6005"):
        paused_place(subtask(error={"ErrCode": "DM-6005"}))


def test_a_named_place_is_in_the_sub_directory_that_the_task_reads() -> None:
    place = named_place("mysql-bin.000003:400", subtask())

    assert (place, place.server_uuid) == (at(400, suffix=2), "u")
    assert named_place("(mysql-bin.000004, 4)", subtask()) == at(4, file=4, suffix=2)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mysql-bin.000003", "it is not FILE:POSITION"),
        ("mysql-bin.000003:399", "the task has passed it"),
        ("binlog.000003:500", "in another log"),
        ("mysql-bin.000003:400", "has not begun"),
    ],
)
def test_a_location_that_the_task_cannot_reach_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=f"invalid --binlog-pos .*{why}"):
        named_place(text, subtask(applied=None if why == "has not begun" else at(400, suffix=2)))


def test_a_pattern_is_a_regular_expression_with_or_without_dms_mark() -> None:
    assert sql_pattern("~(?i)drop").matches(SQL)
    assert not sql_pattern("drop").matches(SQL)
    with pytest.raises(InvalidInput, match="invalid --sql-pattern"):
        sql_pattern("(")


def test_a_text_may_hold_several_statements() -> None:
    given = ["ALTER TABLE shop.t ADD COLUMN c varchar(9) DEFAULT ';'; DROP TABLE `s;h`.t;", "CREATE DATABASE x"]

    assert operator_statements(OperatorKind.REPLACE, given) == (
        "ALTER TABLE shop.t ADD COLUMN c varchar(9) DEFAULT ';'",
        "DROP TABLE `s;h`.t",
        "CREATE DATABASE x",
    )
    assert operator_statements(OperatorKind.SKIP, []) == ()
    with pytest.raises(InvalidInput, match="use `replace`"):
        operator_statements(OperatorKind.SKIP, [SQL])


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("ALTER TABLE t ADD COLUMN c int", "a table has no schema"),
        ("INSERT INTO shop.t VALUES (1)", "its kind is not known"),
        ("GRANT ALL ON *.* TO me", "GRANT changes no table"),
        ("CREATE VIEW shop.v AS SELECT 1", "views are not migrated"),
        ("ALTER TABLE shop.t FROBNICATE", ""),
        ("ALTER TABLE shop.t ADD COLUMN c int 'x", ""),
        ("CREATE TABLE shop.t (a int) SELECT 1", "it writes rows"),
        (" ; ", "`replace` needs a statement"),
    ],
)
def test_only_readable_ddl_replaces_ddl(sql: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=f"{why}.*Nothing was stored"):
        operator_statements(OperatorKind.REPLACE, [SQL, sql] if sql.strip(" ;") else [sql])
