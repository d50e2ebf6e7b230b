"""Binlog operators as the sync does them: real servers, the operators as `dmctl binlog` stores them."""

import pytest

from airflow_provider_dm.engine.downstream import ddl_execution
from airflow_provider_dm.engine.downstream.errors import DdlRefused
from airflow_provider_dm.engine.downstream.schema_by_hand import change_definition, definition_in
from airflow_provider_dm.engine.meta.records import Operator, OperatorKind, OperatorState, SqlPattern
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.sync.errors import DdlNotSupported
from airflow_provider_dm.engine.sync.following import Following
from tests.before import before
from tests.integration.sync.conftest import HOLDER, SOURCE_ID, SyncKit, rows_of


def wanted(kit: SyncKit, kind: OperatorKind, place: object, *statements: str) -> None:
    kit.store.put_operators([Operator("test", SOURCE_ID, kind, place, statements)])  # type: ignore[arg-type]


def states(kit: SyncKit) -> list[OperatorState]:
    return [one.state for one in kit.store.operators("test", SOURCE_ID, passed=True)]


def given(kit: SyncKit, name: str, create: str) -> None:
    """What `dmctl binlog-schema update` does."""
    held = kit.store.acquire_lease("test", SOURCE_ID, HOLDER, ttl_seconds=60, at_least=0)
    kit.store.release_lease(held)
    table = TableName(kit.schema, name)
    statement = create.replace(f"TABLE {name}", f"TABLE {table.quoted()}")
    definition = definition_in(statement, table, collation="utf8mb4_general_ci")
    change_definition(kit.store, kit.endpoint(kit.target, "target").resolve(), kit.ref, table, definition)


def begin(kit: SyncKit) -> None:
    kit.begin_with("plain")
    kit.write("INSERT INTO plain VALUES (1, 'a')")


def test_a_statement_that_stops_the_task_is_skipped(one_kit: SyncKit) -> None:
    begin(one_kit)
    one_kit.write("ALTER TABLE plain ENGINE=MyISAM")
    one_kit.write("INSERT INTO plain VALUES (2, 'b')")
    one_kit.stops(DdlNotSupported)

    wanted(one_kit, OperatorKind.SKIP, SqlPattern("(?i)myisam"))
    one_kit.sync_and_compare()
    assert states(one_kit) == [OperatorState.PASSED]


def test_another_statement_is_executed_in_its_place(one_kit: SyncKit) -> None:
    """Rows are read as the source has made them, and written where the target has a wider column."""
    begin(one_kit)
    wanted(
        one_kit,
        OperatorKind.REPLACE,
        SqlPattern("ADD COLUMN w"),
        f"ALTER TABLE `{one_kit.schema}`.plain ADD COLUMN w bigint NULL, ADD INDEX w (w)",
    )
    one_kit.write("ALTER TABLE plain ADD COLUMN w int NULL")
    one_kit.write("INSERT INTO plain VALUES (2, 'b', 7)")

    one_kit.sync()

    assert rows_of(one_kit.target, one_kit.schema, "plain") == [(1, b"a", None), (2, b"b", 7)]
    kinds = "SELECT data_type FROM information_schema.columns WHERE table_schema = %s AND column_name = 'w'"
    assert one_kit.target.sql(kinds, [one_kit.schema]) == [("bigint",)]


def test_a_table_whose_definition_is_unknown_after_a_skipped_statement(kit: SyncKit) -> None:
    """Where that is not understood, the next DDL of the table needs the definition, after any number of starts; until
    then rows are read as before."""
    begin(kit)
    kit.write("ALTER TABLE plain CONVERT TO CHARACTER SET utf8mb4, CHARACTER SET utf8mb4")
    kit.write("INSERT INTO plain VALUES (2, 'b')")
    kit.write("ALTER TABLE plain ADD COLUMN w int NULL")
    kit.write("INSERT INTO plain VALUES (3, 'c', 7)")
    wanted(kit, OperatorKind.SKIP, SqlPattern("CONVERT TO"))
    for _ in range(2):
        kit.stops(DdlNotSupported, match=r"is not known.* `dmctl binlog-schema update")
    given(kit, "plain", "CREATE TABLE plain (id bigint PRIMARY KEY, v varchar(40))")
    wanted(kit, OperatorKind.REPLACE, SqlPattern("ADD COLUMN w"), f"ALTER TABLE `{kit.schema}`.plain ADD w bigint NULL")
    kit.sync()
    assert rows_of(kit.target, kit.schema, "plain") == [(1, b"a", None), (2, b"b", None), (3, b"c", 7)]


def test_rows_after_a_skipped_statement_are_read_by_the_given_definition(one_kit: SyncKit) -> None:
    begin(one_kit)
    odd = "plain CONVERT TO CHARACTER SET latin1, CHARACTER SET latin1, MODIFY id varchar(9) CHARACTER SET latin1"
    one_kit.write(f"ALTER TABLE {odd}", "INSERT INTO plain VALUES (2, 'é')")
    one_kit.stops(DdlNotSupported, match=r"first make the change in .* set the definition .*binlog-schema update")
    one_kit.target.sql(f"ALTER TABLE {odd}", database=one_kit.schema)
    after = "CREATE TABLE plain (id varchar(9) CHARACTER SET latin1 PRIMARY KEY, v varchar(40) CHARACTER SET latin1)"
    given(one_kit, "plain", after)
    wanted(one_kit, OperatorKind.SKIP, SqlPattern("CONVERT TO"))
    one_kit.sync_and_compare()


def dies(*_arguments: object) -> None:
    raise ZeroDivisionError


def test_statements_are_executed_before_rows_and_of_ddl(one_kit: SyncKit, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run may have executed the DDL and died before the user came: it is executed once."""
    sent: list[str] = []
    before(monkeypatch, ddl_execution, "_send", lambda _, sql: sent.append(sql))
    begin(one_kit)
    place = one_kit.upstream()
    create = f"CREATE TABLE `{one_kit.schema}`.beside (id int PRIMARY KEY)"
    # Rows after it are in need of its plan.
    unique = f"ALTER TABLE `{one_kit.schema}`.plain ADD UNIQUE INDEX other (v)"
    alter = f"ALTER TABLE `{one_kit.schema}`.plain ADD INDEX by_v (v)"
    one_kit.write("INSERT INTO plain VALUES (2, 'b')")
    one_kit.write("UPDATE plain SET v = IF(id = 1, 'b', 'a')")
    one_kit.write("ALTER TABLE plain ADD COLUMN w int")
    wanted(one_kit, OperatorKind.INJECT, place, create, unique)
    with monkeypatch.context() as patch:
        patch.setattr(Following, "_commit", dies)
        one_kit.stops(ZeroDivisionError)
    wanted(one_kit, OperatorKind.INJECT, SqlPattern("ADD COLUMN w"), alter)

    one_kit.sync()

    assert [sum(words in sql for sql in sent) for words in ("ADD COLUMN", "by_v", "beside")] == [1, 1, 1]
    assert one_kit.differences() == []
    tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s ORDER BY 1"
    assert one_kit.target.sql(tables, [one_kit.schema]) == [("beside",), ("plain",)]
    index = (
        "SELECT DISTINCT index_name FROM information_schema.statistics WHERE table_schema = %s AND index_name = 'by_v'"
    )
    assert one_kit.target.sql(index, [one_kit.schema]) == [("by_v",)]
    one_kit.write("INSERT INTO plain VALUES (3, 'c', 3)")
    one_kit.sync()
    assert states(one_kit) == [OperatorState.PASSED] * 2


def test_refusals_of_tidb_are_shown_unchanged(tidb_kit: SyncKit) -> None:
    kit = tidb_kit
    kit.create("plain")
    kit.begin()
    kit.write("CREATE TABLE sounds (id INT PRIMARY KEY, v VARCHAR(9), s VARCHAR(9) AS (SOUNDEX(v)))")
    kit.stops(DdlRefused, match=r"column 's' contains a disallowed function.*INSERT … SELECT")
    kit.target.sql("CREATE TABLE sounds (id INT PRIMARY KEY, v VARCHAR(9), s VARCHAR(9))", database=kit.schema)
    wanted(kit, OperatorKind.SKIP, SqlPattern("sounds"))
    kit.write("INSERT INTO sounds (id, v) VALUES (1, 'Robert')")
    kit.sync()
    assert kit.target.sql("SELECT * FROM sounds", database=kit.schema) == [(1, "Robert", "R163")]


def test_ddl_that_tidb_refuses_has_a_remedy(tidb_kit: SyncKit) -> None:
    """As docs/how-to/into-tidb.md describes it: a table beside it, and `binlog skip`."""
    tidb_kit.begin_with("plain", "uniq")
    tidb_kit.write("INSERT INTO plain VALUES (1, 'a'), (2, 'b')", "INSERT INTO uniq VALUES (1, 1, 'a'), (2, 2, 'b')")
    tidb_kit.sync()

    tidb_kit.write("INSERT INTO plain VALUES (3, 'c')")
    for table, ddl, row, columns in (
        ("plain", "DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)", "3, 'd'", "id int, v varchar(40), PRIMARY KEY (id, v)"),
        ("uniq", "MODIFY id int unsigned NOT NULL", "3, 3, 'c'", "id bigint PRIMARY KEY, u int UNIQUE, v varchar(40)"),
    ):
        tidb_kit.write(f"ALTER TABLE {table} {ddl}", f"INSERT INTO {table} VALUES ({row})")
        tidb_kit.stops(DdlRefused)
        tidb_kit.target.sql(
            f"CREATE TABLE n ({columns}); INSERT INTO n SELECT * FROM {table}; DROP TABLE {table}; "
            f"RENAME TABLE n TO {table}",
            database=tidb_kit.schema,
        )
        wanted(tidb_kit, OperatorKind.SKIP, SqlPattern(ddl[:16]))
        tidb_kit.sync_and_compare()
