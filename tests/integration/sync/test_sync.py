"""Incremental sync on real servers, in this process: the target becomes equal to the source, or the sync stops."""

import pytest

from airflow_provider_dm.engine.binlog.kernels import build
from airflow_provider_dm.engine.config.rule_models import TablePattern
from airflow_provider_dm.engine.downstream.errors import DuplicateInTarget
from airflow_provider_dm.engine.errors import DmError, NotSupportedYet
from airflow_provider_dm.engine.rules.errors import RulesChanged, TargetKeyNotKept
from airflow_provider_dm.engine.sync.epoch import EpochSize
from airflow_provider_dm.engine.sync.errors import DdlNotSupported, MissingRow, SourceWentBack, UnknownTable
from airflow_provider_dm.engine.sync.progress import SyncProgress, progress_line
from testbed import Server
from tests.beside import beside
from tests.integration.conftest import bound_on
from tests.integration.sync.conftest import Strike, SyncKit, random_transactions, strike_at_random, strike_once
from tests.waiting import wait_for

WGS_84 = (
    'GEOGCS["x",DATUM["World Geodetic System 1984",SPHEROID["WGS 84",6378137,298.257223563]],PRIMEM["Greenwich",0],'
    'UNIT["degree",0.017453292519943278],AXIS["Lat",NORTH],AXIS["Lon",EAST]]'
)


def test_a_random_workload_is_applied(kit: SyncKit) -> None:
    kit.begin_with()
    for round_ in range(3):
        random_transactions(kit, seed=round_, transactions=60)

        result = kit.sync()

        assert result.finished
        assert kit.differences() == []


def test_values_swap_between_rows_in_one_transaction(kit: SyncKit) -> None:
    kit.begin_with("uniq", "plain")
    kit.write(
        "INSERT INTO uniq VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')", "INSERT INTO plain VALUES (1, 'a'), (2, 'b')"
    )
    kit.sync()

    kit.write(
        "UPDATE uniq SET u = NULL WHERE id = 1",
        "UPDATE uniq SET u = 1 WHERE id = 2",
        "UPDATE uniq SET u = 2 WHERE id = 3",
        "UPDATE uniq SET u = 3 WHERE id = 1",
        "UPDATE plain SET id = 3 WHERE id = 1",
        "UPDATE plain SET id = 1 WHERE id = 2",
        "UPDATE plain SET id = 2 WHERE id = 3",
    )
    kit.sync_and_compare()


def test_rows_are_found_by_their_bits(kit: SyncKit) -> None:
    kit.begin_with("flags", "bits")
    kit.write("INSERT INTO flags VALUES (b'101010101', 1), (b'101010101', 1), (b'0', 2), (NULL, 3)")
    kit.write("INSERT INTO bits VALUES (b'101010101', 1), (0, 2), (8589934591, 3)")
    kit.sync()

    kit.write("DELETE FROM flags WHERE a = 1 LIMIT 1", "UPDATE flags SET f = 511 WHERE a > 1")
    kit.write("DELETE FROM bits WHERE a = 1", "UPDATE bits SET f = 5 WHERE a = 3", "UPDATE bits SET a = 4 WHERE a = 2")
    kit.sync_and_compare()


def test_from_a_given_start_existing_rows_do_no_harm(kit: SyncKit) -> None:
    """Another tool copied the target at some later moment, so the rows up to that moment are overwritten."""
    kit.instance_keys = {"syncer": {"safe-mode-duration": "1s"}}
    kit.create("plain", "uniq", "pair")
    kit.pull()
    start = kit.upstream()
    random_transactions(kit, seed=1, transactions=40)
    for table in kit.tables:
        with kit.source.connect(database=kit.schema) as source, kit.target.connect(database=kit.schema) as target:
            cursor = source.cursor()
            cursor.execute(f"SELECT * FROM `{table}`")
            rows = cursor.fetchall()
            marks = ",".join(["%s"] * len(rows[0])) if rows else ""
            target.cursor().executemany(f"INSERT INTO `{table}` VALUES ({marks})", rows)
    random_transactions(kit, seed=2, transactions=40)

    kit.sync_and_compare(start=start)

    random_transactions(kit, seed=3, transactions=20)  # exact from here on
    kit.sync_and_compare()


def test_from_a_given_start_no_row_of_the_source_replaces_another(one_kit: SyncKit) -> None:
    """REPLACE would make one row of two, where only the target takes them for one."""
    one_kit.instance_keys = {"syncer": {"safe-mode-duration": "1s"}}
    one_kit.create("plain", "code")
    binary = "ALTER TABLE code MODIFY c varchar(20) COLLATE utf8mb4_bin NOT NULL"
    one_kit.source.sql(binary, database=one_kit.schema)
    one_kit.target.sql("ALTER TABLE plain ADD UNIQUE KEY v (v)", database=one_kit.schema)
    one_kit.pull()
    start = one_kit.upstream()
    one_kit.write("INSERT INTO code VALUES ('abc', 1)", "INSERT INTO plain VALUES (1, 'same'), (2, 'same')")
    one_kit.write("INSERT INTO code VALUES ('ABC', 1)")

    for key, cure in (("PRIMARY", binary), ("v", "ALTER TABLE plain DROP KEY v")):
        stopped = one_kit.stops(TargetKeyNotKept, start=start)
        assert stopped.key == key
        one_kit.target.sql(cure, database=one_kit.schema)

    one_kit.sync_and_compare(start=start)


def test_a_row_of_another_owner_is_not_replaced(one_kit: SyncKit) -> None:
    one_kit.begin_with("plain")
    one_kit.target.sql(f"INSERT INTO `{one_kit.schema}`.plain VALUES (7, 'not ours')")
    one_kit.write("INSERT INTO plain VALUES (7, 'a secret')")

    stopped = one_kit.stops(DuplicateInTarget)

    assert f"{one_kit.schema}.plain" in str(stopped)
    assert "secret" not in str(stopped)
    assert one_kit.target.sql(f"SELECT v FROM `{one_kit.schema}`.plain") == [("not ours",)]


def test_a_row_that_did_not_fit_is_applied_when_its_column_is_widened(one_kit: SyncKit) -> None:
    one_kit.tables = ("wide",)
    for server, type_ in ((one_kit.source, "bigint"), (one_kit.target, "int")):
        server.sql(f"CREATE TABLE `{one_kit.schema}`.wide (id int PRIMARY KEY, v {type_})")
    one_kit.begin()
    one_kit.write("INSERT INTO wide VALUES " + ",".join(f"({number}, 1)" for number in range(3000)))
    one_kit.write("INSERT INTO wide VALUES (9000, 5000000000)")
    one_kit.stops(DmError, match="DM-60")
    assert len(one_kit.target.sql(f"SELECT DISTINCT position FROM `{one_kit.meta_schema}`.dm_frontier")) == 2

    one_kit.target.sql(f"ALTER TABLE `{one_kit.schema}`.wide MODIFY v bigint")
    one_kit.sync_and_compare()


@pytest.mark.parametrize("change", ["UPDATE plain SET v = 'b' WHERE id = 1", "DELETE FROM plain WHERE id = 1"])
def test_a_missing_row_stops(one_kit: SyncKit, change: str) -> None:
    one_kit.begin_with("plain")
    one_kit.write("INSERT INTO plain VALUES (1, 'a'), (2, 'b')")
    one_kit.sync()
    one_kit.target.sql(f"DELETE FROM `{one_kit.schema}`.plain WHERE id = 1")
    one_kit.write(change, "UPDATE plain SET v = 'c' WHERE id = 2")

    one_kit.stops(MissingRow)

    assert one_kit.target.sql(f"SELECT v FROM `{one_kit.schema}`.plain") == [("b",)]


def test_ddl_that_cannot_be_followed_stops_and_everything_before_it_is_applied(kit: SyncKit) -> None:
    kit.begin_with("plain")
    kit.write("INSERT INTO plain VALUES (1, 'a')")
    kit.source.sql(f"CREATE DATABASE `{kit.schema}_other`; CREATE TABLE `{kit.schema}_other`.t (a int)")
    kit.write(f"INSERT INTO `{kit.schema}_other`.t VALUES (1)", "INSERT INTO plain VALUES (2, 'b')")
    kit.source.sql(f"ALTER TABLE `{kit.schema}`.plain ENGINE=MyISAM")
    kit.write("INSERT INTO plain VALUES (3, 'c')")

    stopped = kit.stops(DdlNotSupported)

    assert isinstance(stopped, NotSupportedYet)
    assert "ALTER TABLE" in str(stopped)
    assert kit.target.sql(f"SELECT id FROM `{kit.schema}`.plain ORDER BY id") == [(1,), (2,)]


def test_ddl_of_other_schemas_is_skipped_in_any_charset(kit: SyncKit) -> None:
    """Statements in ANSI quotes, by clients of other charsets, and what changed nothing."""
    kit.begin_with("plain")
    other = f"{kit.schema}_other"
    kit.source.sql(f"CREATE DATABASE `{other}`")
    kit.write("INSERT INTO plain VALUES (1, 'a')")
    with kit.source.connect(database=other) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'")
        cursor.execute(f'CREATE TABLE "{other}"."t" ("a" int COMMENT \'\\\')')
        cursor.execute('DROP TABLE "t"')
        for charset, codec, name in (("gbk", "gbk", "表乗"), ("big5", "big5", "功"), ("sjis", "shift-jis", "表")):
            cursor.execute(f"SET NAMES {charset}")
            for sql in (f"CREATE TABLE `{name}` (a int COMMENT '{name}')", f"ALTER TABLE `{name}` ADD b int"):
                cursor.execute(sql.encode(codec))
            cursor.execute(f'RENAME TABLE "{other}"."{name}" TO "{name}2"'.encode(codec))
            cursor.execute(f"DROP TABLE `{name}2`".encode(codec))
    with kit.source.connect(database=kit.schema) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS plain (other int)")
        cursor.execute("DROP TABLE IF EXISTS nothing, nothing_more")
        cursor.execute("SET sql_mode = 'ANSI_QUOTES'")
        cursor.execute('DROP TABLE IF EXISTS "nothing"')
        if kit.source.flavour == "mariadb":
            cursor.execute("RENAME TABLE IF EXISTS nothing TO something")
            cursor.execute("SET sql_mode = 'MSSQL'")
            cursor.execute(f"CREATE TABLE [{other}].[t] (a int)")
        else:
            cursor.execute("ALTER INSTANCE ENABLE INNODB REDO_LOG")
            cursor.execute("CREATE OR REPLACE SPATIAL REFERENCE SYSTEM 990001 NAME 'x' DEFINITION '" + WGS_84 + "'")
    kit.write("INSERT INTO plain VALUES (2, 'b')")

    kit.sync_and_compare()


def test_a_source_whose_log_was_reset_is_not_caught_up(one_kit: SyncKit) -> None:
    """Its end lies before what is applied, so nothing would be waited for."""
    one_kit.begin_with("plain")
    one_kit.write("INSERT INTO plain VALUES (1, 'a')")
    one_kit.sync()
    position = f"`{one_kit.meta_schema}`.dm_frontier SET position"
    one_kit.target.sql(f"UPDATE {position} = '000001.0000999999.00000000000000000004'")

    one_kit.stops(SourceWentBack)


def test_until_a_location(one_kit: SyncKit) -> None:
    one_kit.begin_with("plain")
    one_kit.write("INSERT INTO plain VALUES (1, 'a')")
    middle = one_kit.upstream()
    one_kit.write("INSERT INTO plain VALUES (2, 'b')")

    result = one_kit.sync(until=str(middle))

    assert str(result.location) == str(middle)
    assert one_kit.target.sql(f"SELECT id FROM `{one_kit.schema}`.plain") == [(1,)]


@pytest.mark.parametrize("until", ["forever", "a file that the source has not begun"])
def test_a_run_without_an_end_stops_on_request_and_shows_its_lag(
    one_kit: SyncKit, until: str, caplog: pytest.LogCaptureFixture
) -> None:
    one_kit.begin_with("plain")
    progress, far = SyncProgress(), until != "forever"
    name, _, number = one_kit.upstream().file.partition(".")
    goal = f"{name}.{int(number) + 100:06d}:4" if far else until
    with beside(lambda stop: one_kit.run(one_kit.spec(goal), None, stop, progress)):
        one_kit.write("INSERT INTO plain VALUES (1, 'a')")
        wait_for(lambda: progress.changes == 1 and progress.lag_seconds() == 0 and bool(progress.goal_far) is far)

    assert progress.lag_seconds() == 0
    warning = f"the goal {goal} is after the newest file"
    assert far is (warning in progress_line(progress.to_json()))
    assert [one.levelname for one in caplog.records if warning in one.getMessage()][:1] == ["WARNING"] * far
    assert one_kit.differences() == []
    (subtask,) = one_kit.store.list_subtasks(task="test")
    assert subtask.stage.value == "Stopped"
    assert subtask.needed == progress.location


SMALL = EpochSize(limit=20_000, one_task=0, smallest=4096, largest=20_000)
"""Epochs that are large although they are small: several ranges each, exchanged."""


def test_large_epochs_are_exchanged(kit: SyncKit) -> None:
    kit.begin_with()
    random_transactions(kit, seed=10, transactions=150, keys=30)

    result = kit.sync(size=SMALL)

    assert kit.differences() == []
    assert result.epochs > 1


@pytest.mark.every_pair
def test_many_inserts_are_bound(target: Server, kit: SyncKit) -> None:
    build.warm()
    kit.instance_keys = {"syncer": {"safe-mode-duration": "0s"}}
    kit.begin_with("plain")
    before = bound_on(target)
    insert_numbers(kit, range(6_000))

    kit.sync_and_compare()
    assert (bound_on(target) > before) == (target.flavour == "mariadb")
    kit.target.sql("INSERT INTO plain VALUES (7000, 'mine')", database=kit.schema)
    insert_numbers(kit, range(6_000, 12_000))

    kit.stops(DuplicateInTarget)

    assert kit.target.sql("SELECT v FROM plain WHERE id = 7000", database=kit.schema) == [("mine",)]
    kit.target.sql("DELETE FROM plain WHERE id = 7000", database=kit.schema)
    kit.sync_and_compare()


def test_nothing_is_bound_if_statements_have_one_row(mariadb_target: Server, one_kit: SyncKit) -> None:
    build.warm()
    one_kit.instance_keys = {"syncer": {"multiple-rows": False, "safe-mode-duration": "0s"}}
    one_kit.begin_with("plain")
    before = bound_on(mariadb_target)
    insert_numbers(one_kit, range(2_000))

    one_kit.sync_and_compare()
    assert bound_on(mariadb_target) == before


def insert_numbers(kit: SyncKit, numbers: range) -> None:
    rows = ", ".join(f"({number}, 'it''s {number}')" for number in numbers)
    kit.write(f"INSERT INTO plain VALUES {rows}")


def test_half_written_epochs_are_completed_by_the_next_run(kit: SyncKit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any statement may fail; what is committed stays, the frontier is ragged, and a new generation continues."""
    strikes = strike_at_random(monkeypatch, 3, 0.1, batch_rows=10)
    kit.begin_with()
    random_transactions(kit, seed=30, transactions=150, keys=30)
    goal = str(kit.upstream())
    ragged = 0
    for _ in range(100):
        try:
            kit.sync(until=goal, size=SMALL)
            break
        except Strike:
            positions = kit.target.sql(f"SELECT DISTINCT position, released FROM `{kit.meta_schema}`.dm_frontier")
            ragged += len(positions) > 1

    assert kit.differences() == []
    assert len(strikes) > 3
    assert ragged > 0


def test_rows_in_the_transaction_of_a_skipped_statement_are_applied(
    kit: SyncKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DROP TEMPORARY TABLE does not commit: on MariaDB it is in the log between the rows of a transaction. Also
    when the transaction was half written before."""
    kit.begin_with("plain", "uniq")
    with kit.source.connect(database=kit.schema) as connection, connection.cursor() as cursor:
        for statement in (
            "SET SESSION binlog_format = 'MIXED'",
            "CREATE TEMPORARY TABLE mine (a int)",
            "BEGIN",
            "INSERT INTO plain VALUES (1, UUID()), (1001, UUID()), (2001, UUID()), (3001, UUID())",
            "DROP TEMPORARY TABLE mine",
            "INSERT INTO uniq VALUES (1, 1, UUID())",
            "COMMIT",
        ):
            cursor.execute(statement)
    kit.write("UPDATE plain SET v = 'x' WHERE id = 1001")
    strike_once(monkeypatch, 3, batch_rows=1)
    goal = str(kit.upstream())
    kit.stops(Strike, until=goal)

    kit.sync_and_compare(until=goal)


def test_rules_cannot_change_while_an_epoch_is_half_written(one_kit: SyncKit) -> None:
    one_kit.begin_with("plain", "pair")
    frontier = f"`{one_kit.meta_schema}`.dm_frontier"
    one_kit.target.sql(f"UPDATE {frontier} SET released = '000001.0000009999.00000000000000000004' WHERE bucket = 1")
    one_kit.target.sql(f"ALTER TABLE `{one_kit.schema}`.plain ADD UNIQUE KEY v (v)")

    one_kit.stops(RulesChanged, match="is half written")

    one_kit.target.sql(f"UPDATE {frontier} SET released = ''")

    assert one_kit.sync().finished


def test_an_excluded_table_does_not_return_with_a_gap(one_kit: SyncKit) -> None:
    one_kit.begin_with("plain", "pair")
    allowed = one_kit.spec().task.block_allow_list["ours"]
    without = allowed.model_copy(update={"ignore_tables": (TablePattern(db_name=one_kit.schema, tbl_name="plain"),)})
    spec = one_kit.spec()
    lists = {**spec.task.block_allow_list, "ours": without}
    one_kit.write("INSERT INTO plain VALUES (1, 'lost')", "INSERT INTO pair VALUES (1, 'a', 1)")
    one_kit.run(spec.model_copy(update={"task": spec.task.model_copy(update={"block_allow_list": lists})}))

    one_kit.write("INSERT INTO plain VALUES (2, 'b')")

    one_kit.stops(UnknownTable)


def test_log_bytes_are_sent_with_the_tasks_if_executors_lack_the_relay_log(one_kit: SyncKit) -> None:
    one_kit.begin_with()
    random_transactions(one_kit, seed=40, transactions=60)
    one_kit.pull()

    one_kit.run(one_kit.spec(ship_ranges=True), size=SMALL)

    assert one_kit.differences() == []


def test_a_refused_row_is_found_by_its_statement_and_its_place_in_the_log(kit: SyncKit) -> None:
    kit.create("plain")
    kit.target.sql("DROP TABLE plain; CREATE TABLE plain (id int PRIMARY KEY, v varchar(40))", database=kit.schema)
    kit.begin()
    start = kit.upstream()
    kit.write("INSERT INTO plain VALUES (1, 'a'), (3000000000, 'too large')")

    raised = kit.stops(DmError)

    where = f"The statement is INSERT of 2 rows. The rows come from the log from {start} to {kit.upstream()}."
    assert raised.code == "DM-6004"
    assert where in raised.message()
    assert "too large" not in raised.message()
