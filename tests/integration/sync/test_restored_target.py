"""A target that was restored to an older state, or lost commits, or was dropped: errors name cause and remedy."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import pymysql
import pytest

from airflow_provider_dm.engine.downstream.session import target_connection
from airflow_provider_dm.engine.errors import DmError, Reaction
from airflow_provider_dm.engine.mysql.connection import query
from airflow_provider_dm.engine.reported import EXIT_ERROR, reported_in
from airflow_provider_dm.engine.sync.runner import LocalRunner
from spark_apps.app import App, Outcome, _run
from testbed import Server
from tests.beside import beside
from tests.integration.sync.conftest import SOURCE_ID, SyncKit, random_transactions
from tests.waiting import wait_for

META = ("dm_subtask", "dm_frontier", "dm_table_schema")


@dataclass
class Backup:
    """All that the target has now, in a schema beside it."""

    server: Server
    tables: list[str]
    schema: str

    @classmethod
    def of(cls, kit: SyncKit) -> "Backup":
        tables = [f"`{kit.schema}`.`{one}`" for one in kit.tables]
        tables += [f"`{kit.meta_schema}`.`{one}`" for one in META]
        backup = cls(kit.target, tables, f"{kit.schema}_backup")
        kit.target.sql(f"CREATE DATABASE `{backup.schema}`")
        for number, table in enumerate(tables):
            kit.target.sql(f"CREATE TABLE `{backup.schema}`.t{number} LIKE {table}")
            kit.target.sql(f"INSERT INTO `{backup.schema}`.t{number} SELECT * FROM {table}")
        return backup

    def restore(self, only: Callable[[str], bool] = lambda _table: True) -> None:
        """Bring the rows of the backup back, in one transaction."""
        with self.server.connect(autocommit=False) as connection, connection.cursor() as cursor:
            for number, table in enumerate(self.tables):
                if only(table):
                    cursor.execute(f"DELETE FROM {table}")
                    cursor.execute(f"INSERT INTO {table} SELECT * FROM `{self.schema}`.t{number}")
            connection.commit()


def claim(kit: SyncKit) -> int:
    """Claim a source as the app does."""
    spec = kit.spec()
    return App(spec, kit.store, threading.Event(), threading.Event(), spec.target.resolve()).claim(SOURCE_ID).generation


def synced_backed_up_and_synced_on(kit: SyncKit) -> Backup:
    kit.begin_with("plain", "keyless")
    random_transactions(kit, seed=1, transactions=20)
    kit.sync()
    backup = Backup.of(kit)
    random_transactions(kit, seed=2, transactions=20)
    kit.sync_and_compare()
    return backup


def test_a_restored_target_is_reported_before_the_next_run(kit: SyncKit) -> None:
    backup = synced_backed_up_and_synced_on(kit)
    backup.restore()
    rows = [kit.target.sql(f"SELECT * FROM `{kit.meta_schema}`.{one}") for one in META]

    with pytest.raises(DmError) as raised:
        claim(kit)

    assert raised.value.code == "DM-6015"
    assert "went back to an older state" in raised.value.message()
    assert "stop-task" in raised.value.message()
    assert rows == [kit.target.sql(f"SELECT * FROM `{kit.meta_schema}`.{one}") for one in META], "nothing is claimed"

    kit.store.forget_subtask("test", SOURCE_ID)  # as `dmctl stop-task` does
    claim(kit)
    kit.sync_and_compare()


def test_a_target_that_was_emptied_does_not_count_as_restored(kit: SyncKit) -> None:
    synced_backed_up_and_synced_on(kit)
    kit.target.sql(f"DROP DATABASE `{kit.meta_schema}`")
    assert claim(kit) > 0


@pytest.mark.parametrize("what", ["all of it", "its frontier", "its frontier is gone"])
def test_a_restored_target_is_reported_while_a_sync_is_running(kit: SyncKit, what: str) -> None:
    """All of it with an older generation; the frontier alone, or even nothing of it, under the present one."""
    kit.begin_with("plain")
    kit.write("INSERT INTO plain VALUES (1, 'a')")
    kit.sync()
    backup = Backup.of(kit)
    failed = list[DmError]()

    def work(stop: threading.Event) -> None:
        try:
            kit.run(kit.spec("forever"), LocalRunner(), stop)
        except DmError as error:
            failed.append(error)

    with beside(work):
        kit.write("INSERT INTO plain VALUES (2, 'b')")
        wait_for(lambda: kit.differences() == [])
        frontier = f"`{kit.meta_schema}`.`dm_frontier`"
        if what == "all of it":
            backup.restore()
        elif what == "its frontier":
            ((generation,),) = kit.target.sql(f"SELECT DISTINCT generation FROM {frontier}")
            kit.target.sql(f"UPDATE `{backup.schema}`.t{backup.tables.index(frontier)} SET generation = {generation}")
            backup.restore(lambda table: table == frontier)
        else:
            kit.target.sql(f"DELETE FROM {frontier}")
        kit.write("INSERT INTO plain VALUES (3, 'c')")
        wait_for(lambda: failed)
    assert [error.code for error in failed] == ["DM-6015"]


def test_a_lost_connection_is_reported_as_such_everywhere(kit: SyncKit, capsys: pytest.CaptureFixture[str]) -> None:
    def work(app: App) -> Outcome:
        connection = target_connection(app.target)
        with suppress(pymysql.err.Error):
            query(connection, "KILL CONNECTION_ID()")
        query(connection, "SELECT 1")
        return Outcome({})

    spec = kit.spec()

    code = _run(App(spec, kit.store, threading.Event(), threading.Event(), spec.target.resolve()), work)

    error = reported_in(capsys.readouterr().err)
    assert error is not None
    assert (code, error.code, error.reaction) == (EXIT_ERROR, "DM-6001", Reaction.RETRY)
    assert error.message.startswith("the target or a source cannot be reached: ")
