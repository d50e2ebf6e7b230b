"""Which definition a table had at a start in the past."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from airflow_provider_dm.engine.binlog.planned import DdlStatement, Epoch, Planned, UpToDate
from airflow_provider_dm.engine.ddl.server import Server
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.reading.logged_ddl import LogNotSeen, statements_between
from airflow_provider_dm.engine.sync.start.past import (
    Known,
    PastUnknown,
    Today,
    first_statements,
)

MYSQL, MARIADB = Server(Flavour.MYSQL, (9, 7, 0)), Server(Flavour.MARIADB, (10, 11, 0))
LO, HI = Location("bin.000001", 4), Location("bin.000001", 900)


def name(table: str) -> TableName:
    return TableName("shop", table)


def known(table: str, inside: str, server: Server = MYSQL) -> dict[TableName, Known]:
    create = f"CREATE TABLE `{table}` (id int NOT NULL PRIMARY KEY{inside}) COLLATE=utf8mb4_bin"
    return {name(table): Known(Tracker.of(server, {name(table): create}, {}).table(name(table)), create)}


def log(*statements: str) -> list[DdlStatement]:
    return [
        DdlStatement(LO.at(100 * number), LO.at(100 * number + 50), "shop", sql, 0)
        for number, sql in enumerate(statements, 1)
    ]


def at_start(today: Today, *statements: str) -> dict[str, list[str]]:
    found = today.at_start("one", first_statements(log(*statements), today.servers[0]))
    return {one.table: [column.name for column in known.table.columns] for one, known in found.items()}


def test_the_first_statement_about_a_table_tells() -> None:
    source = {**known("a", ", n int"), **known("b", ", x int"), **known("new", ""), **known("moved", "")}
    target = {**known("a", ""), **known("b", ""), **known("dropped", ""), **known("old", ""), **known("alone", "")}
    found = at_start(
        Today(source, target, (MYSQL, MYSQL)),
        "ALTER TABLE a ADD n int",
        "CREATE TABLE new LIKE a",
        "ALTER TABLE new ADD q int",
        "DROP TABLE dropped",
        "RENAME TABLE old TO moved",
        "this is not understood",
    )
    assert found == {"a": ["id"], "b": ["id", "x"], "dropped": ["id"], "old": ["id"]}


def test_names_are_those_that_the_server_keeps() -> None:
    """A log under lower_case_table_names=1 has them as they were typed."""
    folding = Server(Flavour.MYSQL, (9, 7, 0), lower_case_table_names=1)
    tables = known("a", ", n int"), known("a", "")
    statements = "ALTER TABLE Shop.A ADD n int", "CREATE TABLE NEW (id int)"
    assert at_start(Today(*tables, (folding, folding)), *statements) == {"a": ["id"]}
    assert at_start(Today(*tables, (MYSQL, MYSQL)), *statements) == {"a": ["id", "n"]}


def test_between_families_only_what_is_alike_is_certain() -> None:
    source = {**known("a", ", n int"), **known("b", "")}
    target = {**known("a", "", MARIADB), **known("b", "", MARIADB)}
    today = Today(source, target, (MYSQL, MARIADB))
    assert at_start(today, "TRUNCATE b") == {"a": ["id", "n"], "b": ["id"]}
    with pytest.raises(PastUnknown, match=r"shop\.a was altered"):
        at_start(today, "ALTER TABLE a ADD n int")
    by_hand = Today(source, target, (MYSQL, MARIADB), [name("a")])
    assert at_start(by_hand, "ALTER TABLE a ADD n int").keys() == {"a", "b"}


def test_the_log_is_left_alone_where_both_have_the_same() -> None:
    same = known("a", ", v varchar(9), KEY k (v)")
    assert Today(same, known("a", ", v varchar(9), KEY k (v)", MARIADB), (MYSQL, MARIADB)).is_certain
    for inside in (", v varchar(9)", ", v varchar(9), KEY j (v)", ", w varchar(9), KEY k (w)", ", v int, KEY k (v)"):
        assert not Today(same, known("a", inside), (MYSQL, MYSQL)).is_certain
    members = [known("a", f", e enum({names})") for names in ("'a','b'", "'b','a'", "'a','b','c'")]
    assert [Today(members[0], one, (MYSQL, MARIADB)).is_certain for one in members] == [True, False, False]
    assert not Today(same, {}, (MYSQL, MYSQL)).is_certain
    assert not Today(same, same | known("b", ""), (MYSQL, MYSQL)).is_certain


def test_the_log_is_read_to_its_end_and_waited_for() -> None:
    (statement,) = log("TRUNCATE a")
    pieces: Sequence[Planned] = [
        Epoch(LO, statement.at, (), 1, 96, 0), statement, UpToDate(statement.end),
        Epoch(statement.end, HI, (), 1, 9, 0),
    ]  # fmt: skip
    asked: list[Location] = []
    answers = iter(pieces)

    def plans(here: Location, _prepared: object) -> Planned:
        asked.append(here)
        return next(answers)

    waited: list[Location] = []
    never, stop = threading.Event(), threading.Event()
    found = statements_between(
        plans, lambda here, _seconds: waited.append(here), LO, HI, never, source="one", bounded=False
    )
    assert list(found) == [statement]
    assert asked == [LO, statement.at, statement.end, statement.end]
    assert waited == [statement.end]
    stop.set()
    with pytest.raises(LogNotSeen):
        list(
            statements_between(
                lambda here, _: UpToDate(here), lambda *_: None, LO, HI, stop, source="one", bounded=False
            )
        )
