"""The definition of a table at a start in the past."""

import threading
from collections.abc import Sequence

import pytest

from airflow_provider_dm.engine.binlog.planned import DdlStatement, Epoch, Planned, UpToDate
from airflow_provider_dm.engine.ddl.server import Server
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.reading.errors import NotBegunYet
from airflow_provider_dm.engine.reading.logged_ddl import statements_between
from airflow_provider_dm.engine.sync.errors import DefinitionNeeded
from airflow_provider_dm.engine.sync.start.past import KnownTable, TablesToday, are_alike, read_log

MYSQL, MARIADB = Server(Flavour.MYSQL, (9, 7, 0)), Server(Flavour.MARIADB, (10, 11, 0))
LO, HI = Location("bin.000001", 4), Location("bin.000001", 900)


def name(table: str) -> TableName:
    return TableName("shop", table)


def known(table: str, inside: str, server: Server = MYSQL) -> dict[TableName, KnownTable]:
    create = f"CREATE TABLE `{table}` (id int NOT NULL PRIMARY KEY{inside}) COLLATE=utf8mb4_bin"
    return {name(table): KnownTable(Tracker.of(server, {name(table): create}, {}).table(name(table)), create)}


def log(*statements: str) -> list[DdlStatement]:
    return [
        DdlStatement(LO.at(100 * number), LO.at(100 * number + 50), "shop", sql, 0)
        for number, sql in enumerate(statements, 1)
    ]


def at_start(today: TablesToday, *statements: str) -> dict[str, list[str]]:
    found = today.at_start("one", read_log(log(*statements), today.servers[0]))
    return {one.table: [column.name for column in known.table.columns] for one, known in found.items()}


def test_the_first_statement_shows_whether_a_table_existed() -> None:
    source = {**known("a", ", n int"), **known("b", ", x int"), **known("new", ""), **known("moved", "")}
    target = {**known("a", ""), **known("b", ""), **known("dropped", ""), **known("old", ""), **known("alone", "")}
    found = at_start(
        TablesToday(source, target, (MYSQL, MYSQL)),
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
    assert at_start(TablesToday(*tables, (folding, folding)), *statements) == {"a": ["id"]}
    assert at_start(TablesToday(*tables, (MYSQL, MYSQL)), *statements) == {"a": ["id", "n"]}


def columns_at_start(
    source: str, target: str, *statements: str, servers: tuple[Server, Server] = (MYSQL, MARIADB), table: str = "a"
) -> list[str]:
    """Return the columns of `a` at the start, each with its type. `source`, `target`: its columns of today."""
    today = TablesToday(known(table, source, servers[0]), known("a", target, servers[1]), servers)
    found = today.at_start("one", read_log(log(*statements), servers[0]))
    return [f"{column.name} {column.column_type}" for column in found[name("a")].table.columns]


FAMILIES = [(MYSQL, MARIADB), (MARIADB, MYSQL), (MYSQL, MYSQL), (MARIADB, MARIADB)]


@pytest.mark.parametrize("servers", FAMILIES)
def test_ddl_since_the_start_is_undone(servers: tuple[Server, Server]) -> None:
    def found(source: str, target: str, *statements: str) -> list[str]:
        columns = columns_at_start(source, target, *statements, servers=servers)
        return [one.replace("int(11)", "int").replace("bigint(20)", "bigint") for one in columns]

    assert found(", n int", "", "ALTER TABLE a ADD n int") == ["id int"]
    assert found("", ", v varchar(9)", "ALTER TABLE a DROP v") == ["id int", "v varchar(9)"]
    assert found(", n bigint", ", n int", "ALTER TABLE a MODIFY n bigint") == ["id int", "n int"]
    assert found(", m int", ", n int", "ALTER TABLE a RENAME COLUMN n TO m") == ["id int", "n int"]
    assert found(", m bigint", ", n int", "ALTER TABLE a CHANGE n m bigint") == ["id int", "n int"]
    assert found(", y int, x date", ", x int, y date", "ALTER TABLE a RENAME COLUMN x TO y, RENAME COLUMN y TO x") == [
        "id int", "x int", "y date",
    ]  # fmt: skip
    assert found(", n date", ", n int", "ALTER TABLE a DROP n, ADD n date") == ["id int", "n int"]
    alter = "ALTER TABLE a ADD w int AFTER id, MODIFY e enum('x')"
    assert found(", w int, e enum('x')", ", e enum('x','y')", alter) == ["id int", "e enum('x','y')"]
    assert found(", n int, KEY k (n)", ", n int", "CREATE INDEX k ON a (n)") == ["id int", "n int"]
    assert found(", n int", ", n int, KEY k (n)", "DROP INDEX k ON a") == ["id int", "n int"]


def test_the_target_may_have_more_than_the_source_had() -> None:
    """It has the new column already, one of its own, wider types, and fewer keys."""
    made = columns_at_start(
        ", n int, w int, KEY k (n)", ", own int DEFAULT 1, n bigint, w int", "ALTER TABLE a ADD w int"
    )
    assert made == ["id int", "n int"]


@pytest.mark.parametrize("servers", [(MYSQL, MYSQL), (MARIADB, MARIADB)])
@pytest.mark.parametrize(
    ("ours", "theirs", "alter"),
    [
        (", m int, v int", ", n bigint, v bigint", "RENAME COLUMN n TO m"),
        (", m int, v int, KEY k (m, v)", ", n int, v bigint", "RENAME COLUMN n TO m"),
        (", m bigint, v int, KEY k (m)", ", n int, v bigint", "CHANGE n m bigint"),
        (", n int, v int, KEY l (n)", ", n bigint, v bigint", "RENAME KEY k TO l"),
        (", n int, v int, KEY k (v)", ", n bigint, v bigint", "DROP KEY k, ADD KEY k (v)"),
        (", v int, m int", ", n bigint, v bigint", "RENAME COLUMN n TO m"),
    ],
)
def test_a_rename_takes_nothing_from_the_target(
    servers: tuple[Server, Server], ours: str, theirs: str, alter: str
) -> None:
    """Which has wider types and no keys."""
    found = columns_at_start(ours, theirs, f"ALTER TABLE a {alter}", servers=servers)
    assert sorted(one.replace("(11)", "") for one in found) == ["id int", "n int", "v int"]


def test_another_order_in_the_target() -> None:
    found = columns_at_start(
        ", x int, y date, w int", ", gone int, y date, x int", "ALTER TABLE a ADD w int, DROP gone"
    )
    assert found == ["id int", "gone int", "x int", "y date"]


def test_a_table_that_was_renamed_or_dropped_since_the_start() -> None:
    alter = "ALTER TABLE a ADD n int"
    assert columns_at_start(", n int", "", alter, "RENAME TABLE a TO b", table="b") == ["id int"]
    assert columns_at_start(", n int", "", "ALTER TABLE a ADD n int, RENAME TO b", table="b") == ["id int"]
    assert columns_at_start("", ", v json", alter, "DROP TABLE a", servers=(MARIADB, MYSQL), table="b") == [
        "id int(11)", "v longtext",
    ]  # fmt: skip
    assert columns_at_start("", ", v json", "DROP TABLE a", "CREATE TABLE a LIKE b") == ["id int", "v json"]


def test_if_exists_is_evaluated_with_the_targets_columns() -> None:
    both = (MARIADB, MYSQL)
    drop, add = "ALTER TABLE a DROP COLUMN IF EXISTS v", "ALTER TABLE a ADD COLUMN IF NOT EXISTS v int"
    assert columns_at_start("", "", drop, servers=both) == ["id int(11)"]
    assert columns_at_start("", ", v date", drop, servers=both) == ["id int(11)", "v date"]
    assert columns_at_start(", v int", "", add, servers=both) == ["id int(11)"]
    assert columns_at_start(", v int", ", v int", add, servers=both) == ["id int(11)", "v int(11)"]


@pytest.mark.parametrize(
    ("statements", "why"),
    [
        (["ALTER TABLE a MODIFY n bigint"], "the column n is not known"),
        (["ALTER TABLE a ADD COLUMN m int"], "does not produce the source's table of today"),
        (["ALTER TABLE a FROBNICATE"], "is not understood"),
        (["ALTER TABLE a DROP KEY k"], "the key or constraint k is not known"),
    ],
)
@pytest.mark.parametrize("theirs", [MARIADB, MYSQL])
def test_the_start_is_proven_or_refused(theirs: Server, statements: Sequence[str], why: str) -> None:
    tables, servers = (known("a", ", n bigint"), known("a", "", theirs)), (MYSQL, theirs)
    with pytest.raises(DefinitionNeeded, match=rf"shop\.a was altered.*{why}"):
        at_start(TablesToday(*tables, servers), *statements)
    assert at_start(TablesToday(*tables, servers, [name("a")]), *statements) == {"a": ["id", "n"]}, "given by a user"


def test_tables_whose_rows_are_decoded_equally() -> None:
    def is_alike(one: str, other: str, server: Server = MYSQL) -> bool:
        ours, theirs = known("a", one)[name("a")], known("a", other, server)[name("a")]
        return are_alike(ours, theirs, (MYSQL, server))

    same = ", v varchar(9), KEY k (v)"
    assert is_alike(same, same, MARIADB)
    for inside in (", v varchar(9)", ", v varchar(9), KEY j (v)", ", w varchar(9), KEY k (w)", ", v int, KEY k (v)"):
        assert not is_alike(same, inside)
    members = [f", e enum({names})" for names in ("'a','b'", "'b','a'", "'a','b','c'")]
    assert [is_alike(members[0], one, MARIADB) for one in members] == [True, False, False]


def test_the_log_is_read_to_its_end_and_awaited() -> None:
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
    with pytest.raises(NotBegunYet, match="the log has not reached"):
        list(
            statements_between(
                lambda here, _: UpToDate(here), lambda *_: None, LO, HI, stop, source="one", bounded=False
            )
        )
