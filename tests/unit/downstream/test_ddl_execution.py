"""The execution of a DDL statement after manual changes: the journal must stay valid."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pymysql
import pytest

from airflow_provider_dm.engine.downstream import ddl_execution
from airflow_provider_dm.engine.downstream.ddl_execution import TargetDdl
from airflow_provider_dm.engine.downstream.ddl_journal import CreateTexts, JournalEntry
from airflow_provider_dm.engine.downstream.errors import DdlRefused
from airflow_provider_dm.engine.mysql.identifiers import TableName

A, B = TableName("one", "a"), TableName("one", "b")
ADD_C = "ALTER TABLE `one`.`a` ADD COLUMN `c` int NULL"
ADD = TargetDdl("ADD c, MODIFY d", (A,), (ADD_C, "MODIFY d"))
OTHER = TargetDdl("ADD KEY k", (A,))
SWAP = TargetDdl("x TO y, y TO x", (A,), (), divisible=False)
RENAME = TargetDdl("RENAME a TO b", (A, B), renames=((A, B),))


WITH_C = "CREATE TABLE `a` (`c` int(11) DEFAULT NULL)"


@dataclass
class Target:
    """A target with the tables of a test. `refuses`: the error number for each rejected statement."""

    definitions: dict[TableName, str] = field(default_factory=lambda: {A: "old"})
    refuses: dict[str, int] = field(default_factory=dict)
    taken: list[str] = field(default_factory=list)
    noted: dict[int, JournalEntry] = field(default_factory=dict)

    def query(self, _connection: object, sql: str) -> None:
        if sql in self.refuses:
            raise pymysql.err.OperationalError(self.refuses[sql], "refused")
        self.taken.append(sql)

    def note_intent(self, _tx: object, _fence: object, _at: str, number: int, sql: str, before: CreateTexts) -> None:
        self.noted[number] = JournalEntry(number, sql, dict(before), False)

    def note_done(self, _tx: object, _fence: object, _at: str, number: int) -> None:
        entry = self.noted[number]
        self.noted[number] = JournalEntry(number, entry.sql, entry.before, True)

    def follow(self, *statements: TargetDdl) -> list[str]:
        """Return what it takes of them in this run."""
        nothing: Any = None
        work, noted = ddl_execution._DdlRun(nothing, nothing, nothing, "here"), dict(self.noted)
        self.taken.clear()
        for number, one in enumerate(statements):
            work.do(number, one, noted.get(number))
        return list(self.taken)

    def refused(self, *statements: TargetDdl) -> None:
        with pytest.raises(DdlRefused):
            self.follow(*statements)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Target:
    made = Target()

    def run(_endpoint: object, body: Callable[[Any], None]) -> None:
        body(None)

    for name, instead in {
        "query": made.query,
        "note_intent": made.note_intent,
        "note_done": made.note_done,
        "run_transaction": run,
        "target_connection": lambda _endpoint: None,
        "read_definition": lambda _connection, name: made.definitions.get(name),
    }.items():
        monkeypatch.setattr(ddl_execution, name, instead)
    return made


def test_a_refused_ddl_is_executed_after_a_user_has_corrected_the_table(server: Target) -> None:
    server.refuses = {ADD.sql: 1062}
    server.refused(ADD)

    server.definitions, server.refuses = {A: "cured"}, {}
    assert server.follow(ADD) == [ADD.sql]
    assert server.follow(ADD) == []


def test_a_part_that_was_refused_is_executed_then_and_those_before_it_are_not(server: Target) -> None:
    server.refuses = {ADD.sql: 1060, ADD_C: 1060, "MODIFY d": 1265}
    server.definitions = {A: WITH_C}
    server.refused(ADD)

    server.definitions, server.refuses = {A: "cured"}, {}
    assert server.follow(ADD) == ["MODIFY d"]
    assert server.follow(ADD) == []


@pytest.mark.parametrize("refused", [ADD, OTHER], ids=["the second", "the first"])
def test_the_replacement_of_a_statement_is_executed(server: Target, refused: TargetDdl) -> None:
    server.refuses = {refused.sql: 1265}
    server.refused(OTHER, ADD)

    server.definitions = {A: "cured"}
    assert server.follow(instead := TargetDdl("MODIFY e", (A,))) == [instead.sql]


@pytest.mark.parametrize(("definitions", "begun"), [("changed", []), ("old", [ADD.sql])])
def test_an_executed_ddl_is_visible_in_the_definition(server: Target, definitions: str, begun: Sequence[str]) -> None:
    server.noted = {0: JournalEntry(0, ADD.sql, {A: "old"}, False)}
    server.definitions = {A: definitions}

    assert server.follow(ADD) == begun


@pytest.mark.parametrize("done", [True, False])
def test_a_truncate_is_judged_by_the_journal_alone(server: Target, *, done: bool) -> None:
    truncate = TargetDdl("TRUNCATE TABLE `one`.`a`", (A,))
    server.noted = {0: JournalEntry(0, truncate.sql, {A: "old"}, done)}
    server.definitions = {A: "altered by what was executed in front of it meanwhile"}

    assert server.follow(truncate) == ([] if done else [truncate.sql])


def test_a_statement_that_cannot_be_divided_is_not_skipped(server: Target) -> None:
    server.refuses = {SWAP.sql: 1060}
    server.refused(SWAP)


@pytest.mark.parametrize(
    ("number", "there", "is_done"),
    [(1050, {A, B}, False), (1146, set(), False), (1146, {B}, True)],
    ids=["its name is taken", "nothing is there", "it was renamed before"],
)
def test_a_rename_is_done_if_the_tables_show_it(
    server: Target, number: int, there: set[TableName], is_done: bool
) -> None:
    server.definitions, server.refuses = dict.fromkeys(there, "old"), {RENAME.sql: number}

    if is_done:
        assert server.follow(RENAME) == []
    else:
        server.refused(RENAME)


@pytest.mark.parametrize(
    "change", ["CHANGE COLUMN `b` `c` int NULL", "RENAME COLUMN `b` TO `c`", "ADD COLUMN `c` int NOT NULL"]
)
def test_an_existing_column_of_that_name_may_have_another_definition(server: Target, change: str) -> None:
    first = f"ALTER TABLE `one`.`a` {change}"
    both = TargetDdl(f"{first}, ADD COLUMN `c` int NULL", (A,), (first, ADD_C))
    server.definitions, server.refuses = {A: WITH_C}, dict.fromkeys((both.sql, *both.parts), 1060)
    server.refused(both)
    assert server.noted[0].sql == f"refused: part 1: {first}"
    del server.refuses[first]
    assert server.follow(both) == [first]  # ADD c is taken for done


def test_dropping_missing_partitions_does_not_count_as_executed(server: Target) -> None:
    server.refuses = {OTHER.sql: 1507}
    server.refused(OTHER)
