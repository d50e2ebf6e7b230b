"""`safe-mode: true` with `shard-mode: pessimistic`, on real servers: the last to come takes the place, and is named."""

from __future__ import annotations

import random
from contextlib import closing, suppress
from typing import Any

import pymysql
import pytest

from airflow_provider_dm.engine.errors import NotSupportedYet
from airflow_provider_dm.engine.merge import contests
from airflow_provider_dm.engine.merge.collision import RowsCollide
from airflow_provider_dm.engine.mysql.connection import Connection, query
from airflow_provider_dm.engine.sync.progress import SyncProgress
from airflow_provider_dm.engine.sync.safe_mode import taking_over
from airflow_provider_dm.engine.sync.safe_mode.taking_over import LostByOldKey
from airflow_provider_dm.engine.target import standstill
from airflow_provider_dm.engine.target.contested_row import lose as really_lose
from airflow_provider_dm.engine.target.identity import SubtaskRef
from tests.chaos.colliding import play
from tests.integration.merge.conftest import Shops
from tests.integration.merge.sharding import PESSIMISTIC, Died, columns
from tests.integration.merge.test_shard_ddl import dies_once

UNIQUE = "id int NOT NULL PRIMARY KEY, v varchar(20), u int UNIQUE"
SAFE: dict[str, Any] = {"syncer": {"safe-mode": True}}


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contests, "CONFIRM_SECONDS", 0.1)


Named = tuple[str, tuple[str, ...], str, str]
"""Key, values, whose row has come, whose had to go."""


def sync(shops: Shops, *names: str) -> list[Named]:
    """Sync one source after the other; return what was written over."""
    shops.relay()
    found: list[Named] = []
    for name in names:
        progress = SyncProgress()
        shops.sync_one(name, spec=shops.migration().spec, progress=progress)
        shown = progress.to_json()["safe_mode"]["collisions"].get(f"{shops.schema}.o", {"present": 0, "last": []})
        assert shown["present"] == len(shown["last"])
        schema = f"{shops.schema}."
        found += [
            (one["key"], tuple(one["values"]), one["by"].replace(schema, ""), one["other"].replace(schema, ""))
            for one in shown["last"]
        ]
    return found


def test_shards_that_hold_rows_back_take_each_others_places(one_pair: Shops, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that collide, and rows that only move, in front of a DDL, while it waits, in the re-sync, and behind it."""
    shops = one_pair
    shops.task, shops.instance = PESSIMISTIC, SAFE
    shops.create(UNIQUE, "a:o_1", "a:o_2", "b:o_3")
    shops.write("a", "INSERT INTO o_1 VALUES (1, 'a', 1), (2, 'moves', 2), (3, 'a', 3), (4, 'a', 4), (5, 'a', 5)")
    shops.write("b", "INSERT INTO o_3 VALUES (1, 'b', 101), (21, 'b', 21)")
    shops.load()
    named = sync(shops, "a", "b", "a")
    assert named in ([("PRIMARY", ("1",), "b:o_3", "a:o_1")], [("PRIMARY", ("1",), "a:o_1", "b:o_3")])
    shops.write("a", "DELETE FROM o_1 WHERE id = 1")
    shops.write("b", "UPDATE o_3 SET v = 'alone' WHERE id = 1")
    assert sync(shops, "a", "b") == []
    assert shops.rows()[0] == (1, "alone", 101)

    shops.write("a", "ALTER TABLE o_1 ADD COLUMN c int NOT NULL DEFAULT 7", "UPDATE o_1 SET c = 8 WHERE id = 4")
    shops.write("a", "DELETE FROM o_1 WHERE id IN (2, 5); INSERT INTO o_2 VALUES (2, 'moved', 2)")
    shops.write("b", "INSERT INTO o_3 VALUES (3, 'b', 33), (24, 'b', 4), (5, 'moved', 55)")
    _held_up_while_it_is_taken(shops, monkeypatch)
    died = dies_once(monkeypatch, taking_over, "remove_rows")
    with suppress(Died):
        sync(shops, "b")
    assert died
    assert shops.rows()[2] == (3, "a", 3), "all of it or nothing"
    _beside_a_driver_that_hangs(shops, monkeypatch)
    assert shops.rows()[2] == (3, "a", 3)
    sync(shops, "a")  # the DDL waits for b alone; what moves is set aside
    assert sorted(sync(shops, "b")) == [("PRIMARY", ("3",), "b:o_3", "a:o_1"), ("u", ("4",), "b:o_3", "a:o_1")]
    moved = [(1, "alone", 101), (2, "moved", 2), (3, "b", 33), (5, "moved", 55), (21, "b", 21), (24, "b", 4)]
    assert shops.rows() == moved

    shops.write("a", "UPDATE o_1 SET v = 'late' WHERE id = 3", "ALTER TABLE o_2 ADD c int NOT NULL DEFAULT 7")
    shops.write("b", "ALTER TABLE o_3 ADD c int NOT NULL DEFAULT 7", "UPDATE o_3 SET c = 9 WHERE id = 24")
    named = [one for names in ("ba", "ba") for one in sync(shops, *names)]
    assert columns(shops) == ["id", "v", "u", "c"]
    assert sorted(named) == [("PRIMARY", ("3",), "a:o_1", "b:o_3"), ("u", ("4",), "a:o_1", "b:o_3")]
    assert shops.rows()[2:4] == [(3, "late", 3, 7), (4, "a", 4, 8)]

    shops.write("b", "DELETE FROM o_3 WHERE id IN (3, 24)")
    shops.write("a", "DELETE FROM o_1 WHERE id = 3; INSERT INTO o_2 VALUES (3, 'anew', 3, 1)")
    assert sync(shops, "b", "a") == []
    assert shops.compared().equal, shops.compared()

    for name, table in (("a", "o_1"), ("a", "o_2"), ("b", "o_3")):
        shops.write(name, f"ALTER TABLE {table} MODIFY COLUMN id varchar(20) NOT NULL")
    with pytest.raises(LostByOldKey):
        sync(shops, *"abab")
    shops.target.sql("DELETE FROM dm_contested_row WHERE image = '-'", database=shops.meta)
    sync(shops, *"abab")
    assert shops.compared().equal, shops.compared()


def test_what_is_not_in_the_target_in_the_end_is_known_to_be_lost(one_pair: Shops) -> None:
    """`docker/local chaos collisions` plays far more."""
    assert play(one_pair, random.Random(7), transactions=30)["lost"]


def _held_up_while_it_is_taken(shops: Shops, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a place be taken over only where a transaction of the other source would have to wait for that."""

    def lose(*what: Any) -> None:
        assert timeouts(what[0]) == (1, 1)
        with closing(shops.target.connect(database=shops.meta)) as connection, connection.cursor() as cursor:
            for table in ("dm_frontier", "dm_subtask"):
                with pytest.raises(pymysql.err.Error):
                    cursor.execute(f"SELECT 1 FROM {table} WHERE source = 'a' FOR UPDATE NOWAIT")
        really_lose(*what)

    monkeypatch.setattr(taking_over, "lose", lose)


def _beside_a_driver_that_hangs(shops: Shops, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a transaction of the other source stay open: all are held up for a second, and not again soon."""
    held_up, really_hold_up = list[tuple[int, ...]](), standstill._hold_up_all

    def hold_up(connection: Connection, ref: SubtaskRef) -> None:
        if not held_up:
            with hanging.cursor() as cursor:
                cursor.execute("BEGIN")
                cursor.execute("SELECT 1 FROM dm_frontier WHERE source = 'a' AND bucket = 7 FOR UPDATE")
        held_up.append(timeouts(connection))
        really_hold_up(connection, ref)

    with monkeypatch.context() as patched, closing(shops.target.connect(database=shops.meta)) as hanging:
        patched.setattr(standstill, "_hold_up_all", hold_up)
        patched.setattr(contests, "FINISH_SECONDS", 2.5)
        assert sync(shops, "b") == []
    assert held_up == [(1, 1)]


def timeouts(connection: Connection) -> tuple[int, ...]:
    (found,) = query(connection, "SELECT @@SESSION.innodb_lock_wait_timeout, @@SESSION.lock_wait_timeout")
    return tuple(map(int, found))


def test_what_is_not_settled_stops_as_ever(one_source: Shops) -> None:
    """Rows that may write over each other in a load; the other law while rows are held back; safe mode taken out."""
    shops = one_source
    shops.task, shops.instance = PESSIMISTIC, SAFE | {"loader": {"on-duplicate-logical": "replace"}}
    shops.create(UNIQUE, "a:o_1", "a:o_2")
    shops.load()
    with pytest.raises(NotSupportedYet, match="pessimistic and on-duplicate-logical"):
        shops.sync()
    shops.instance = SAFE
    shops.write("a", "INSERT INTO o_1 VALUES (1, 'a', 1); INSERT INTO o_2 VALUES (1, 'b', 1)")
    assert sync(shops, "a") == [("PRIMARY", ("1",), "a:o_2", "a:o_1")]
    shops.instance = {}
    shops.write("a", "UPDATE o_1 SET v = 'again'")
    with pytest.raises(RowsCollide):
        shops.sync()
    shops.write("a", "DELETE FROM o_2")
    shops.sync()
    assert shops.compared().equal, shops.compared()
    shops.task, shops.instance = PESSIMISTIC, SAFE
    shops.write("a", "INSERT INTO o_2 VALUES (1, 'b', 1)")
    assert sync(shops, "a") == [("PRIMARY", ("1",), "a:o_2", "a:o_1")]
    shops.task = {}
    shops.write("a", "DELETE FROM o_1")
    shops.sync()
    assert shops.rows() == [], "the law of those that write over each other at once"
    assert shops.meta_rows("dm_contested_row") == 0

    shops.task, shops.instance = PESSIMISTIC, {}
    shops.write("a", "ALTER TABLE o_1 ADD c int")
    shops.sync()
    shops.task, shops.instance = {}, SAFE
    with pytest.raises(NotSupportedYet, match="without shard-mode: pessimistic while rows"):
        shops.sync()


def test_only_rows_that_collide_have_to_go(one_source: Shops) -> None:
    """A row of a held shard waits as it was, and its source has it otherwise: who has what it had stays."""
    shops = one_source
    shops.task, shops.instance = PESSIMISTIC, SAFE
    shops.create(UNIQUE, "a:o_1", "a:o_2")
    shops.write("a", "INSERT INTO o_1 VALUES (1, 'a', 1)")
    shops.load()
    shops.write("a", "INSERT INTO o_2 VALUES (1, 'b', 5)", "ALTER TABLE o_2 ADD c int NOT NULL DEFAULT 7")
    shops.write("a", "UPDATE o_2 SET u = 7", "INSERT INTO o_1 VALUES (2, 'stays', 5)")
    assert sync(shops, "a") == []
    assert shops.rows() == [(1, "a", 1), (2, "stays", 5)]
    shops.write("a", "ALTER TABLE o_1 ADD c int NOT NULL DEFAULT 7")
    assert sync(shops, "a") == [("PRIMARY", ("1",), "a:o_2", "a:o_1")]
    assert shops.rows() == [(1, "b", 7, 7), (2, "stays", 5, 7)]
