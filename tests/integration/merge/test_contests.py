"""Rows that wait for their places: shown, moved when they can be, and an error when they never can."""

import threading
from collections.abc import Callable
from math import inf
from typing import Any

import pytest

from airflow_provider_dm.engine.copy.gather import Gathering
from airflow_provider_dm.engine.copy.migration import load_progress
from airflow_provider_dm.engine.downstream.errors import DuplicateInTarget
from airflow_provider_dm.engine.downstream.session import run_transaction
from airflow_provider_dm.engine.merge import contests, servers
from airflow_provider_dm.engine.merge.errors import OtherSourcesNeeded, RowsCollide, WrittenDuringCopy
from airflow_provider_dm.engine.mysql.connection import Connection, query
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.sync import sharing
from airflow_provider_dm.engine.sync.epoch import EpochSize
from tests.integration.merge.conftest import EACH_TRANSACTION, PLAIN, UNIQUE, Shops
from tests.jobs import endpoint


def exact(shops: Shops, columns: str = PLAIN) -> None:
    shops.create(columns, "a:o_0", "b:o_1")
    shops.load()
    shops.sync()


def test_a_lasting_collision_stops_and_names_both_sources(shops: Shops) -> None:
    exact(shops, UNIQUE)
    shops.write("a", "INSERT INTO o_0 VALUES (1, 7, 'first')")
    shops.write("b", "INSERT INTO o_1 VALUES (2, 7, 'second')")
    shops.sync("a")

    found = shops.stops(RowsCollide, "b")

    assert (found.source, found.table) == ("b", f"{shops.schema}.o_1")
    assert (found.other_source, found.other_table) == ("a", f"{shops.schema}.o_0")
    assert (found.target, found.key, found.values) == (f"{shops.schema}.o", "u", ("(7)",))
    assert "second" not in str(found)
    assert shops.rows() == [(1, 7, "first")]

    shops.write("a", "DELETE FROM o_0 WHERE id = 1")  # as the error says
    shops.sync("a", "b")
    assert shops.compared().equal, shops.compared()
    assert shops.rows() == [(2, 7, "second")]


def test_a_row_that_waits_is_shown_and_changed_by_its_log(one_pair: Shops) -> None:
    exact(one_pair)
    one_pair.write("a", "INSERT INTO o_0 VALUES (1, 'a'), (2, 'a')")
    one_pair.sync()
    one_pair.write("a", "DELETE FROM o_0 WHERE id IN (1, 2)")
    one_pair.write("b", "INSERT INTO o_1 VALUES (1, 'b'), (2, 'b')")

    (result,) = one_pair.sync("b")
    assert result.contested_rows == one_pair.meta_rows("dm_contested_row") == 2
    ref = one_pair.migration().ref("b")
    assert load_progress(endpoint("target", one_pair.target), ref)["contested_rows"] == 2

    one_pair.write("b", "UPDATE o_1 SET v = 'changed' WHERE id = 1", "DELETE FROM o_1 WHERE id = 2")
    one_pair.sync("b", size=EACH_TRANSACTION)
    assert one_pair.meta_rows("dm_contested_row") == 1

    one_pair.sync("a")  # the source that frees the place moves the row
    assert one_pair.meta_rows("dm_contested_row") == 0
    assert one_pair.rows() == [(1, "changed")]


def test_a_row_that_waits_keeps_what_the_target_computes(one_pair: Shops) -> None:
    columns = "id int NOT NULL PRIMARY KEY, v varchar(20), g varchar(40) AS (CONCAT(v, '!')) STORED"
    one_pair.target.sql(f"CREATE DATABASE {one_pair.schema}")
    one_pair.target.sql(f"CREATE TABLE o ({columns}) COLLATE utf8mb4_bin", database=one_pair.schema)
    exact(one_pair, columns)
    one_pair.write("a", "INSERT INTO o_0 (id, v) VALUES (1, 'a'), (2, 'a')")
    one_pair.sync()
    one_pair.write("a", "DELETE FROM o_0")
    one_pair.write("b", "INSERT INTO o_1 (id, v) VALUES (1, 'b'), (2, 'b'), (3, 'b')")

    one_pair.sync("b")
    assert one_pair.meta_rows("dm_contested_row") == 2
    one_pair.sync("a")

    assert one_pair.compared().equal, one_pair.compared()
    assert one_pair.rows() == [(1, "b", "b!"), (2, "b", "b!"), (3, "b", "b!")]


def test_a_foreign_row_in_a_merged_table_is_reported(one_pair: Shops) -> None:
    """No source's log will ever delete that row."""
    exact(one_pair)
    one_pair.target.sql("INSERT INTO o VALUES (7, 'not ours')", database=one_pair.schema)
    one_pair.write("b", "INSERT INTO o_1 VALUES (7, 'a secret')")

    stopped = one_pair.stops(DuplicateInTarget, "a", "b")

    assert "secret" not in str(stopped)
    assert one_pair.rows() == [(7, "not ours")]


def test_a_run_without_the_other_source_reports_that_it_needs_it(one_pair: Shops) -> None:
    exact(one_pair)
    one_pair.write("a", "INSERT INTO o_0 VALUES (1, 'a')")
    one_pair.sync("a")
    one_pair.write("a", "DELETE FROM o_0 WHERE id = 1")
    one_pair.write("b", "INSERT INTO o_1 VALUES (1, 'b')")

    one_pair.stops(OtherSourcesNeeded, "b", only=True)

    one_pair.sync()
    assert one_pair.compared().equal


def test_rows_that_cannot_be_moved_now_are_moved_by_a_later_check(
    one_pair: Shops, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another client holds a lock for longer than any transaction waits."""

    def impatient(endpoint: Endpoint, body: Callable[[Connection], Any]) -> Any:
        def waiting_a_second(connection: Connection) -> Any:
            query(connection, "SET SESSION innodb_lock_wait_timeout = 1")
            return body(connection)

        return run_transaction(endpoint, waiting_a_second, retry_seconds=0)

    monkeypatch.setattr(servers, "run_transaction", impatient)
    exact(one_pair)
    one_pair.write("a", "INSERT INTO o_0 VALUES (1, 'a')")
    one_pair.sync()
    one_pair.write("a", "DELETE FROM o_0 WHERE id = 1")
    one_pair.write("b", "INSERT INTO o_1 VALUES (1, 'b')")
    one_pair.sync("b")

    with one_pair.target.connect(database=one_pair.meta, autocommit=False) as other:
        other.cursor().execute("SELECT * FROM dm_contested_row FOR UPDATE")
        with one_pair.syncing("a") as sync:
            sync.wait_until(lambda: caplog.text.count("waiting rows were not moved") >= 2)
            assert one_pair.rows() == []
            other.rollback()
            sync.wait_until(lambda: one_pair.rows() == [(1, "b")])

    assert one_pair.meta_rows("dm_contested_row") == 0


def test_many_waiting_rows_are_examined_at_once(one_pair: Shops, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "MOST_WHILE_SYNCING", 10)
    monkeypatch.setattr(contests, "CONTEST_SECONDS", inf)
    exact(one_pair)
    one_pair.write("a", *(f"INSERT INTO o_0 VALUES ({number}, 'a')" for number in range(30)))
    one_pair.write("b", *(f"INSERT INTO o_1 VALUES ({number}, 'b')" for number in range(30)))
    one_pair.sync("a")

    collided = one_pair.stops(RowsCollide, "b")

    assert 10 < len(collided.values) <= 30  # how many are written by then depends on two connections


def test_rows_that_wait_are_not_forgotten_with_the_table_they_wait_for(one_source: Shops) -> None:
    """o_0 is left out of the task, so that o_1 alone feeds the target; its row still waits, and gets its place."""
    one_source.create(PLAIN, "a:o_0", "a:o_1")
    one_source.load()
    one_source.sync()
    one_source.write("a", "INSERT INTO o_0 VALUES (1, 'first')", "INSERT INTO o_1 VALUES (1, 'second')")
    one_source.stops(RowsCollide)
    one_source.task = {"block-allow-list": {"a": {"do-tables": [{"db-name": one_source.schema, "tbl-name": "o_1"}]}}}
    one_source.target.sql("DELETE FROM o", database=one_source.schema)

    one_source.sync()

    assert one_source.rows() == [(1, "second")]
    assert one_source.meta_rows("dm_contested_row") == 0


def test_task_mode_full_has_no_log_to_wait_for(one_pair: Shops) -> None:
    one_pair.task = {"task-mode": "full"}
    one_pair.create(PLAIN, "a:o_0", "b:o_1")
    one_pair.write("a", "INSERT INTO o_0 VALUES (1, 'a'), (2, 'a')")
    one_pair.write("b", "INSERT INTO o_1 VALUES (0, 'b'), (3, 'b')")

    with pytest.MonkeyPatch.context() as patch:
        begun = iter(range(2))

        def moved(gathering: Gathering, *arguments: Any, **named: Any) -> Any:
            """The row moves when the snapshot of `a` is open and that of `b` is not."""
            with turn:
                found = real(gathering, *arguments, **named)
                if next(begun) == 0:
                    gone, came = ("a", "b") if gathering.source.name == "a" else ("b", "a")
                    number, shard = {"a": (1, 0), "b": (3, 1)}[gone]
                    one_pair.write(gone, f"DELETE FROM o_{shard} WHERE id = {number}")
                    one_pair.write(came, f"INSERT INTO o_{1 - shard} VALUES ({number}, '{came}')")
                return found

        real, turn = Gathering.gather, threading.Lock()
        patch.setattr(Gathering, "gather", moved)
        one_pair.migration().stops(WrittenDuringCopy)


def test_shards_with_replace_overwrite_each_other_in_the_sync_too(one_pair: Shops) -> None:
    one_pair.create(PLAIN, "a:o_0", "b:o_1")
    for name in one_pair.sources:
        one_pair.write(name, f"INSERT INTO o_{int(name == 'b')} VALUES (1, '{name}')")
    migration = one_pair.migration()
    migration.instance = {**migration.instance, "loader": {"on-duplicate-logical": "replace"}}
    one_pair.relay()
    migration.finish()

    assert len(one_pair.rows()) == 1

    one_pair.instance = {"loader": {"on-duplicate-logical": "replace"}, "syncer": {"safe-mode": True}}
    one_pair.write("a", "INSERT INTO o_0 VALUES (5, 'a')", "UPDATE o_0 SET v = 'last' WHERE id = 1")
    one_pair.write("b", "INSERT INTO o_1 VALUES (5, 'b')")
    one_pair.sync("b", "a")
    assert one_pair.rows() == [(1, "last"), (5, "a")]
    one_pair.write("b", "UPDATE o_1 SET v = 'last' WHERE id = 5; DELETE FROM o_1 WHERE id = 1")
    one_pair.sync("b")
    assert one_pair.rows() == [(5, "last")]


def test_epochs_of_several_tasks_write_a_merged_table(one_pair: Shops) -> None:
    """Large epochs: fold, exchange, both waves by groups of buckets."""
    exact(one_pair, UNIQUE)
    one_pair.write("a", *(f"INSERT INTO o_0 VALUES ({number}, {number}, 'a')" for number in range(100)))
    one_pair.sync("a")
    one_pair.write("a", "DELETE FROM o_0 WHERE id % 2 = 0")
    one_pair.write("a", "UPDATE o_0 SET u = u + 1000 WHERE id % 3 = 0")
    one_pair.write("b", *(f"INSERT INTO o_1 VALUES ({number}, {number}, 'b')" for number in range(0, 100, 2)))
    large = EpochSize(limit=1 << 20, one_task=1, smallest=1)
    for name in ("b", "a", "b"):
        one_pair.sync(name, size=large)

    assert one_pair.compared().equal, one_pair.compared()
