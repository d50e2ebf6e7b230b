"""`safe-mode: true` for merged tables, on real servers: the last to write a row wins, and collisions are counted."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

from airflow_provider_dm.engine.downstream.frontier import FrontierMove
from airflow_provider_dm.engine.errors import DmError, NotSupportedYet
from airflow_provider_dm.engine.merge.errors import RowsCollide, RowWaitsForHeldRow
from airflow_provider_dm.engine.rules.errors import RulesChanged
from airflow_provider_dm.engine.sync.errors import MissingRow
from airflow_provider_dm.engine.sync.progress import SyncProgress
from airflow_provider_dm.engine.sync.write import apply
from airflow_provider_dm.engine.sync.write.apply import WaveWriter
from airflow_provider_dm.engine.sync.write.causality import Wave
from tests.chaos.colliding import play
from tests.integration.merge.conftest import EACH_TRANSACTION, Shops
from tests.integration.merge.sharding import PESSIMISTIC

PLAIN = "id int NOT NULL PRIMARY KEY, v varchar(20)"
UNIQUE = "id int NOT NULL PRIMARY KEY, u int, v varchar(20), UNIQUE KEY u (u)"
SAFE: dict[str, Any] = {"syncer": {"safe-mode": True}}
Counts = dict[str, tuple[int, int]]


def sync(shops: Shops, *names: str, **options: Any) -> Counts:
    """Sync one source after the other; return (missing, present) by source table."""
    shops.relay()
    found: Counts = {}
    for name in names:
        progress = SyncProgress()
        shops.sync_one(name, spec=shops.migration().spec, progress=progress, **options)
        shown = progress.to_json()["safe_mode"]["collisions"].get(f"{shops.schema}.o", {"by": {}})
        for table, counts in shown["by"].items():
            table = table.replace(f"{shops.schema}.", "")
            missing, present = found.get(table, (0, 0))
            found[table] = missing + counts["missing"], present + counts["present"]
        if shown["by"]:
            assert sum(counts["present"] for counts in shown["by"].values()) == shown["present"]
            assert {f"a:{shops.schema}.o_0", f"a:{shops.schema}.o_2"} <= {*shown["fed_by"]}
    return found


@contextmanager
def failing_halfway(monkeypatch: pytest.MonkeyPatch, fail: Callable[[], DmError]) -> Iterator[None]:
    """Let an epoch fail once in its last wave, when one batch of buckets is written."""
    real, number = WaveWriter._write_batch, count()

    def write(self: WaveWriter, waves: Sequence[Wave], batch: Sequence[int], act: FrontierMove) -> int:
        if act is FrontierMove.ADVANCE and any(waves) and next(number) == 1:
            raise fail()
        return real(self, waves, batch, act)

    with monkeypatch.context() as patched:
        patched.setattr(apply, "BATCH_ROWS", 1)
        patched.setattr(WaveWriter, "_write_batch", write)
        yield


def test_the_last_one_to_write_a_row_wins(shops: Shops) -> None:
    """Two shards of one source and one of another, from the load on."""
    shops.instance = SAFE
    shops.create(UNIQUE, "a:o_0", "a:o_2", "b:o_1")
    shops.write("a", "INSERT INTO o_0 VALUES (1, 1, 'a0')", "INSERT INTO o_2 VALUES (2, 2, 'a2')")
    shops.write("b", "INSERT INTO o_1 VALUES (1, 11, 'b'), (3, 2, 'b')")
    moved = "DELETE FROM o_0 WHERE id = 20; INSERT INTO o_2 VALUES (20, 20, 'moved')"
    shops.load(begun=lambda: shops.write("a", "INSERT INTO o_0 VALUES (20, 20, 'x')", moved))

    sync(shops, "a", "b", "a", "b")
    assert shops.meta_rows("dm_contested_row") == 0
    assert [row[0] for row in shops.rows()] in ([1, 2, 20], [1, 3, 20])
    shops.write("a", "DELETE FROM o_2 WHERE id = 20")

    shops.write("a", "INSERT INTO o_0 VALUES (5, 50, 'first')", "INSERT INTO o_2 VALUES (5, 51, 'second')")
    shops.write("a", "UPDATE o_0 SET u = 52 WHERE id = 5; INSERT INTO o_2 VALUES (6, 60, 'gone')")
    shops.write("a", "INSERT INTO o_0 VALUES (7, 60, 'taken'); DELETE FROM o_2 WHERE id = 6")
    assert sync(shops, "a") == {"a:o_0": (0, 1), "a:o_2": (1, 1)}
    assert shops.rows()[-2:] == [(5, 52, "first"), (7, 60, "taken")]

    shops.write("b", "INSERT INTO o_1 VALUES (5, 53, 'b')", "INSERT INTO o_1 VALUES (9, 60, 'b')")
    assert sync(shops, "b", size=EACH_TRANSACTION) == {"b:o_1": (0, 2)}
    assert shops.rows()[-2:] == [(5, 53, "b"), (9, 60, "b")]
    shops.write("b", "DELETE FROM o_1 WHERE id = 5")
    shops.write("a", "UPDATE o_2 SET v = 'back' WHERE id = 5")
    assert sync(shops, "b", "a") == {"a:o_2": (1, 0)}
    assert shops.rows()[-2:] == [(5, 51, "back"), (9, 60, "b")]


def test_one_table_has_one_law(one_pair: Shops) -> None:
    """Two sources are refused whose keys go into it in different ways, or of which only one has safe mode."""
    shops = one_pair
    text = "id varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_{} NOT NULL PRIMARY KEY, v int"
    shops.create(text.format("bin"), "a:o_1")
    shops.create(text.format("general_ci"), "b:o_2")
    shops.target.sql(f"CREATE DATABASE IF NOT EXISTS {shops.schema}")
    shops.target.sql(f"CREATE TABLE o ({text.format('general_ci')})", database=shops.schema)
    shops.instance = SAFE
    with pytest.raises(NotSupportedYet, match="for some of its sources only"):
        shops.load()
    one_of_two = {"mysql-instances": [{"source-id": name, "route-rules": ["merge"]} for name in "ab"]}
    one_of_two["mysql-instances"][0] |= SAFE
    shops.task = one_of_two
    with pytest.raises(NotSupportedYet, match=r"some of (its|the) sources"):
        shops.load()


def test_rows_that_wait_are_written_over_once_safe_mode_is_there(
    one_pair: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are, in front of the rest of an epoch, which is half written by the law of owners."""
    shops = one_pair
    shops.create(PLAIN, "a:o_0", "a:o_2", "b:o_1")
    shops.load()
    shops.sync("a", "b", "a")
    shops.write("a", f"INSERT INTO o_0 VALUES {', '.join(f'({number}, 0)' for number in range(1, 32))}")
    shops.write("b", f"INSERT INTO o_1 VALUES {', '.join(f'({number}, 0)' for number in range(1, 31))}")
    shops.sync("a")
    with pytest.raises(RowsCollide):
        shops.sync("b")
    shops.write("b", "UPDATE o_1 SET v = 'b'; INSERT INTO o_1 VALUES (31, 'b')")
    with failing_halfway(monkeypatch, lambda: MissingRow("o", "UPDATE", 1, 0)), pytest.raises(MissingRow):
        shops.sync("b")

    one_of_two = {"mysql-instances": [{"source-id": name, "route-rules": ["merge"]} for name in "ab"]}
    one_of_two["mysql-instances"][0] |= SAFE
    shops.task = one_of_two
    with pytest.raises(NotSupportedYet, match="some of the sources of a merged table"):
        shops.sync("a")
    shops.task, shops.instance = {}, SAFE
    assert sync(shops, "b") == {"b:o_1": (0, 31)}
    assert shops.rows() == [(number, "b") for number in range(1, 32)]
    assert shops.meta_rows("dm_contested_row") == 0

    shops.write("a", "DELETE FROM o_0 WHERE id = 2", "UPDATE o_0 SET v = 'a' WHERE id = 3")
    assert sync(shops, "a") == {}
    shops.instance = {}
    shops.write("b", "DELETE FROM o_1 WHERE id = 1")
    shops.sync("b")
    assert shops.rows()[0] == (3, "a")
    shops.write("b", "UPDATE o_1 SET v = 'c' WHERE id = 2")
    with pytest.raises(MissingRow):
        shops.sync("b")


def test_half_an_epoch_is_completed_after_others_overwrite_its_rows(
    one_pair: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    shops = one_pair
    shops.instance = SAFE
    shops.create(PLAIN, "a:o_0", "a:o_2", "b:o_1")
    numbers = ", ".join(f"({number}, 0)" for number in range(10, 40))
    shops.write("a", f"INSERT INTO o_0 VALUES {numbers}")
    shops.load(copied=lambda: shops.write("b", "INSERT INTO o_1 VALUES (9, 'b')"))
    shops.sync("a")
    shops.write("a", "UPDATE o_0 SET v = 'a'")
    halfway = failing_halfway(monkeypatch, lambda: MissingRow("o", "UPDATE", 1, 0))
    with halfway, pytest.raises(MissingRow):
        shops.sync("a")
    shops.sync("b")
    shops.write("b", f"INSERT INTO o_1 VALUES {numbers}", "DELETE FROM o_1 WHERE id >= 10")
    counted = sync(shops, "b", size=EACH_TRANSACTION)
    assert counted == {"b:o_1": (0, 30)}
    assert shops.rows() == [(9, "b")]

    counted = sync(shops, "a")

    assert counted == {"a:o_0": (len(shops.rows()) - 1, 0)}
    assert 1 < len(shops.rows()) < 31
    assert {value for _, value in shops.rows()} == {"a", "b"}


def test_merged_tables_without_a_key_are_exact_all_the_same(one_source: Shops) -> None:
    shops = one_source
    shops.instance = {**SAFE, "loader": {"on-duplicate-logical": "replace"}}
    shops.create("v int, w int", "a:o_0", "a:o_2")
    shops.write("a", "INSERT INTO o_0 VALUES (1, 1), (1, 1)", "INSERT INTO o_2 VALUES (1, 1)")
    shops.load()
    shops.write("a", "DELETE FROM o_2; INSERT INTO o_2 VALUES (1, 1), (2, 2)", "DELETE FROM o_0 LIMIT 1")
    assert sync(shops, "a") == {}
    assert shops.compared().equal, shops.compared()
    shops.target.sql("DELETE FROM o WHERE v = 2", database=shops.schema)
    shops.write("a", "DELETE FROM o_2 WHERE v = 2")
    with pytest.raises(MissingRow):
        shops.sync("a")


def test_rows_that_a_shard_holds_back_count_as_written_in_the_re_sync(one_pair: Shops) -> None:
    """In front of a DDL, while it waits, in the re-sync, and behind it."""
    shops = one_pair
    shops.task, shops.instance = PESSIMISTIC, SAFE
    shops.create(UNIQUE, "a:o_0", "a:o_2", "b:o_1")
    shops.write("a", "INSERT INTO o_0 VALUES (1, 1, 'a'), (2, 2, 'moves'), (3, 3, 'a'), (4, 4, 'a'), (5, 5, 'a')")
    shops.write("b", "INSERT INTO o_1 VALUES (1, 101, 'b'), (21, 21, 'b')")
    shops.load()
    sync(shops, "a", "b", "a")
    shops.write("a", "DELETE FROM o_0 WHERE id = 1")
    shops.write("b", "UPDATE o_1 SET v = 'alone' WHERE id = 1")
    assert sync(shops, "a", "b") in ({"b:o_1": (1, 0)}, {})
    assert shops.rows()[0] == (1, 101, "alone")

    shops.write("a", "ALTER TABLE o_0 ADD COLUMN c int NOT NULL DEFAULT 7", "UPDATE o_0 SET c = 8 WHERE id = 4")
    shops.write("a", "DELETE FROM o_0 WHERE id IN (2, 5); INSERT INTO o_2 VALUES (2, 2, 'moved')")
    shops.write("b", "INSERT INTO o_1 VALUES (3, 33, 'b'), (24, 4, 'b'), (5, 55, 'moved')")
    assert sync(shops, "a", "b") == {"a:o_2": (0, 1), "b:o_1": (0, 3)}
    moved = [(2, 2, "moved"), (3, 33, "b"), (5, 55, "moved")]
    assert shops.rows() == [(1, 101, "alone"), *moved, (21, 21, "b"), (24, 4, "b")]

    shops.write("a", "UPDATE o_0 SET v = 'late' WHERE id = 3", "ALTER TABLE o_2 ADD c int NOT NULL DEFAULT 7")
    shops.write("b", "ALTER TABLE o_1 ADD c int NOT NULL DEFAULT 7", "UPDATE o_1 SET c = 9 WHERE id = 24")
    assert sync(shops, *"baba") == {"a:o_0": (1, 1)}
    # The held DELETEs have removed the rows 2 and 5, which other tables had written since: docs/how-to/safe-mode.md.
    assert shops.rows() == [(1, 101, "alone", 7), (3, 3, "late", 7), (4, 4, "a", 8), (21, 21, "b", 7)]
    shops.write("a", "UPDATE o_2 SET c = 1 WHERE id = 2")
    shops.write("b", "UPDATE o_1 SET c = 1 WHERE id = 5; DELETE FROM o_1 WHERE id IN (3, 24)")
    shops.write("a", "DELETE FROM o_0 WHERE id = 3; INSERT INTO o_2 VALUES (3, 3, 'anew', 1)")
    sync(shops, "b", "a")
    assert shops.meta_rows("dm_contested_row") == 0
    assert shops.compared().equal, shops.compared()

    for name, table in (("a", "o_0"), ("a", "o_2"), ("b", "o_1")):
        shops.write(name, f"ALTER TABLE {table} MODIFY COLUMN id varchar(20) NOT NULL")
    sync(shops, *"abab")
    assert shops.compared().equal, shops.compared()


def test_a_row_that_waits_during_a_ddl_when_the_rules_change(one_source: Shops) -> None:
    """Where rows overwrite each other, it would remove the row in its place, whose next value is held back; or, without
    an image, not be found by the log that was held back, which deletes it in safe mode."""
    shops = one_source
    rule = {"schema-pattern": shops.schema, "table-pattern": "o_3", "events": ["update"], "action": "Ignore"}
    shops.task = {**PESSIMISTIC, "filters": {"sale": rule}}
    usual, overwriting = shops.instance, ({"filter-rules": ["sale"]}, {"loader": {"on-duplicate-logical": "replace"}})

    def refused() -> None:
        for shops.instance in overwriting:
            with pytest.raises(RulesChanged, match="Take the filter or the setting back"):
                sync(shops, "a")
        shops.instance = usual

    shops.create(UNIQUE, "a:o_0", "a:o_2", "a:o_3")
    shops.write("a", "INSERT INTO o_0 VALUES (1, 1, 'a')")
    shops.load()
    shops.write("a", "ALTER TABLE o_0 ADD c int NOT NULL DEFAULT 7", "UPDATE o_0 SET u = 7")
    shops.write("a", "INSERT INTO o_2 VALUES (2, 1, 'b')", "ALTER TABLE o_2 ADD c int NOT NULL DEFAULT 7")
    with pytest.raises(RowWaitsForHeldRow):
        sync(shops, "a")
    refused()
    shops.write("a", "DELETE FROM o_2")
    sync(shops, "a")
    assert shops.target.sql("SELECT image FROM dm_contested_row", database=shops.meta) == [(b"",)]
    refused()
    shops.instance = SAFE
    shops.write("a", "ALTER TABLE o_3 ADD c int NOT NULL DEFAULT 7")
    sync(shops, "a")
    for shops.instance in overwriting:  # now that nothing waits
        shops.write("a", "INSERT INTO o_2 VALUES (2, 1, 'b', 7)", "DELETE FROM o_2")
        sync(shops, "a")
    assert shops.compared().equal, shops.compared()
    assert shops.meta_rows("dm_contested_row") == 0


def test_what_is_not_in_the_target_in_the_end_was_counted(one_pair: Shops) -> None:
    """`docker/local chaos collisions` plays far more."""
    assert play(one_pair, random.Random(7), transactions=30)["missing"]
