"""The remedies of errors, carried out literally."""

import os
import signal
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace

import pytest

from airflow_provider_dm.engine.downstream.errors import NoTargetTable, TargetWarned
from airflow_provider_dm.engine.errors import DmError, InvalidInput, NotSupportedYet
from airflow_provider_dm.engine.meta.records import OperatorKind
from airflow_provider_dm.engine.mysql.binlog_status import current_location
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.errors import BinlogDisabled, BinlogStatusDenied
from airflow_provider_dm.engine.rules.errors import TargetTableMismatch
from testbed import Server, ServerSpec
from tests.conftest import StartServers
from tests.dm_tables import DmTable
from tests.integration.sync.conftest import SOURCE_ID, TABLES, SyncKit, before_row_statements, rows_of
from tests.integration.sync.test_by_hand import begin, given, wanted
from tests.integration.sync.test_dm_checkpoint import plain_info, refusal
from tests.jobs import endpoint
from tests.waiting import wait_for


def test_an_injection_that_cannot_be_executed_is_reverted(one_kit: SyncKit) -> None:
    begin(one_kit)
    place = one_kit.upstream()
    wanted(one_kit, OperatorKind.INJECT, place, f"ALTER TABLE `{one_kit.schema}`.absent ADD COLUMN w int")
    one_kit.write("INSERT INTO plain VALUES (2, 'b')")
    one_kit.stops(InvalidInput, match="`dmctl binlog revert")
    one_kit.store.revert_operator("test", SOURCE_ID, place)
    one_kit.sync_and_compare()


def test_a_table_whose_documents_are_logged_as_changes_is_left_out(one_kit: SyncKit) -> None:
    one_kit.begin_with("plain")
    for server in (one_kit.source, one_kit.target):
        server.sql("CREATE TABLE j (id INT PRIMARY KEY, j JSON)", database=one_kit.schema)
    one_kit.write("INSERT INTO j VALUES (1, JSON_OBJECT('pad', REPEAT('x', 400), 'a', 1))")
    one_kit.sync()
    one_kit.write(
        "SET SESSION binlog_row_value_options = 'PARTIAL_JSON'",
        "INSERT INTO plain VALUES (1, 'a')",
        "UPDATE j SET j = JSON_SET(j, '$.a', 2)",
        "INSERT INTO plain VALUES (2, 'b')",
    )
    one_kit.stops(NotSupportedYet, match="DM-1900.*leave the table out by block-allow-list")
    left_out = {"db-name": one_kit.schema, "tbl-name": "j"}
    one_kit.task_keys["block_allow_list"] = {"ours": {"do-dbs": [one_kit.schema], "ignore-tables": [left_out]}}
    one_kit.sync_and_compare()


def test_a_target_table_that_was_dropped_is_created(one_kit: SyncKit) -> None:
    one_kit.begin_with("plain")
    one_kit.target.sql(f"DROP TABLE `{one_kit.schema}`.plain")
    one_kit.write("INSERT INTO plain VALUES (1, 'a')")
    one_kit.stops(NoTargetTable, match="Create it like the source's table")
    one_kit.target.sql(f"CREATE TABLE `{one_kit.schema}`.plain ({TABLES['plain']})")
    one_kit.sync_and_compare()


def test_a_column_of_the_target_that_is_too_narrow_is_widened(one_kit: SyncKit) -> None:
    one_kit.begin_with("plain")
    one_kit.target.sql(f"ALTER TABLE `{one_kit.schema}`.plain MODIFY v varchar(2)")
    one_kit.write("INSERT INTO plain VALUES (1, 'abc')")
    one_kit.stops(TargetTableMismatch, match="Alter the target table")
    one_kit.target.sql(f"ALTER TABLE `{one_kit.schema}`.plain MODIFY v varchar(40)")
    one_kit.sync_and_compare()


def test_a_column_that_became_too_narrow_in_the_middle_of_a_run_is_widened(
    one_kit: SyncKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_kit.begin_with("plain")
    one_kit.write("INSERT INTO plain VALUES (1, 'ab  ')")
    narrow = f"ALTER TABLE `{one_kit.schema}`.plain MODIFY v varchar(2)"
    with monkeypatch.context() as patch:
        before_row_statements(patch, lambda _: one_kit.target.sql(narrow))
        one_kit.stops(TargetWarned, match="Widen the target's column to the source's type, then resume")
    assert rows_of(one_kit.target, one_kit.schema, "plain") == []
    one_kit.target.sql(f"ALTER TABLE `{one_kit.schema}`.plain MODIFY v varchar(40)")
    one_kit.sync_and_compare()


def test_a_run_that_ended_before_its_start_was_pulled_is_run_again(one_kit: SyncKit) -> None:
    one_kit.relays_are_processes = True
    one_kit.create("plain")
    one_kit.pull()
    (relay,) = one_kit.relays
    wait_for(lambda: (status := one_kit.store.relay_status(SOURCE_ID)) is not None and status.caught_up)
    with closing(sqlite3.connect(one_kit.folder / "meta.db", timeout=60)) as meta:
        meta.execute("BEGIN IMMEDIATE")  # a relay that is frozen while it writes a report would lock the metadata DB
        os.kill(relay.pid, signal.SIGSTOP)
    one_kit.write("INSERT INTO plain VALUES (1, 'before the start')")
    start, stop = one_kit.upstream(), threading.Event()
    stop.set()
    with pytest.raises(DmError, match="Run the task again"):
        one_kit.run(one_kit.spec("caught-up", start), stop=stop)
    os.kill(relay.pid, signal.SIGCONT)
    one_kit.write("INSERT INTO plain VALUES (2, 'after it')")
    one_kit.sync(start=start)
    assert rows_of(one_kit.target, one_kit.schema, "plain") == [(2, b"after it")]


def test_a_table_that_dms_checkpoint_does_not_describe_is_given(one_kit: SyncKit) -> None:
    one_kit.create("plain")
    dm = DmTable(one_kit.target, one_kit.meta_schema, relay_suffix=2)
    dm.create()
    one_kit.pull()
    start = one_kit.upstream()
    info = {**plain_info(), "of_a_later_tidb": True}
    dm.put(start, table=(one_kit.schema, "plain"), info=info).put(start, leaving=start)
    one_kit.write("INSERT INTO plain VALUES (1, 'a')")
    one_kit.write("ALTER TABLE plain ADD COLUMN w int")
    error = refusal(one_kit)
    assert (error.code, "`dmctl binlog-schema update TASK SCHEMA TABLE FILE`" in str(error)) == ("DM-6037", True)
    given(one_kit, "plain", f"CREATE TABLE plain ({TABLES['plain']})")
    one_kit.sync_and_compare()


@pytest.mark.parametrize("flavour", ["mariadb", "mysql"])
def test_a_server_without_a_binlog_gets_one(start_own: StartServers, flavour: str) -> None:
    (server,) = start_own(ServerSpec("silent", flavour))  # type: ignore[arg-type]
    as_it_was = server.argv
    server.stop()
    server.argv = (*(word for word in as_it_was if not word.startswith("--log-bin")), "--skip-log-bin")
    server.start()
    with connected(endpoint("silent", server)) as connection, pytest.raises(BinlogDisabled, match="Set log_bin"):
        current_location(connection)
    server.stop()
    server.argv = as_it_was
    server.start()
    with connected(endpoint("silent", server)) as connection:
        assert current_location(connection).file


def test_the_remedy_grants_the_privilege_for_the_end_of_the_binlog(source: Server) -> None:
    source.sql("CREATE USER blind@'%' IDENTIFIED BY ''")
    blind = replace(endpoint("source", source), user="blind")
    try:
        with connected(blind) as connection, pytest.raises(BinlogStatusDenied) as raised:
            current_location(connection)
        source.sql(f"GRANT {raised.value.privilege} ON *.* TO blind@'%'")
        with connected(blind) as connection:
            assert current_location(connection).file
    finally:
        source.sql("DROP USER blind@'%'")
