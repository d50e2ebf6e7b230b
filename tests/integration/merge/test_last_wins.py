"""`safe-mode: true` for merged tables, on real servers: the last to write a row wins, and collisions are counted."""

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
from tests.integration.merge.conftest import EACH_TRANSACTION, PESSIMISTIC, PLAIN, UNIQUE, Shops

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


def test_sources_of_a_merged_table_need_the_same_mode(one_pair: Shops) -> None:
    """Two sources are refused whose keys go into it in different ways, or of which only one has safe mode."""
    text = "id varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_{} NOT NULL PRIMARY KEY, v int"
    one_pair.create(text.format("bin"), "a:o_1")
    one_pair.create(text.format("general_ci"), "b:o_2")
    one_pair.target.sql(f"CREATE DATABASE IF NOT EXISTS {one_pair.schema}")
    one_pair.target.sql(f"CREATE TABLE o ({text.format('general_ci')})", database=one_pair.schema)
    one_pair.instance = SAFE
    with pytest.raises(NotSupportedYet, match="for some of its sources only"):
        one_pair.load()
    one_of_two = {"mysql-instances": [{"source-id": name, "route-rules": ["merge"]} for name in "ab"]}
    one_of_two["mysql-instances"][0] |= SAFE
    one_pair.task = one_of_two
    with pytest.raises(NotSupportedYet, match=r"some of (its|the) sources"):
        one_pair.load()


def test_waiting_rows_are_overwritten_in_safe_mode(one_pair: Shops, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are, before the rest of an epoch, which is half written by the law of owners."""
    one_pair.create(PLAIN, "a:o_0", "a:o_2", "b:o_1")
    one_pair.load()
    one_pair.sync("a", "b", "a")
    one_pair.write("a", f"INSERT INTO o_0 VALUES {', '.join(f'({number}, 0)' for number in range(1, 32))}")
    one_pair.write("b", f"INSERT INTO o_1 VALUES {', '.join(f'({number}, 0)' for number in range(1, 31))}")
    one_pair.sync("a")
    one_pair.stops(RowsCollide, "b")
    one_pair.write("b", "UPDATE o_1 SET v = 'b'; INSERT INTO o_1 VALUES (31, 'b')")
    with failing_halfway(monkeypatch, lambda: MissingRow("o", "UPDATE", 1, 0)), pytest.raises(MissingRow):
        one_pair.sync("b")

    one_of_two = {"mysql-instances": [{"source-id": name, "route-rules": ["merge"]} for name in "ab"]}
    one_of_two["mysql-instances"][0] |= SAFE
    one_pair.task = one_of_two
    one_pair.stops(NotSupportedYet, "a", match="some of the sources of a merged table")
    one_pair.task, one_pair.instance = {}, SAFE
    assert sync(one_pair, "b") == {"b:o_1": (0, 31)}
    assert one_pair.rows() == [(number, "b") for number in range(1, 32)]
    assert one_pair.meta_rows("dm_contested_row") == 0

    one_pair.write("a", "DELETE FROM o_0 WHERE id = 2", "UPDATE o_0 SET v = 'a' WHERE id = 3")
    assert sync(one_pair, "a") == {}
    one_pair.instance = {}
    one_pair.write("b", "DELETE FROM o_1 WHERE id = 1")
    one_pair.sync("b")
    assert one_pair.rows()[0] == (3, "a")
    one_pair.write("b", "UPDATE o_1 SET v = 'c' WHERE id = 2")
    one_pair.stops(MissingRow, "b")


def test_half_an_epoch_is_completed_after_others_overwrite_its_rows(
    one_pair: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_pair.instance = SAFE
    one_pair.create(PLAIN, "a:o_0", "a:o_2", "b:o_1")
    numbers = ", ".join(f"({number}, 0)" for number in range(10, 40))
    one_pair.write("a", f"INSERT INTO o_0 VALUES {numbers}")
    one_pair.load(copied=lambda: one_pair.write("b", "INSERT INTO o_1 VALUES (9, 'b')"))
    one_pair.sync("a")
    one_pair.write("a", "UPDATE o_0 SET v = 'a'")
    halfway = failing_halfway(monkeypatch, lambda: MissingRow("o", "UPDATE", 1, 0))
    with halfway, pytest.raises(MissingRow):
        one_pair.sync("a")
    one_pair.sync("b")
    one_pair.write("b", f"INSERT INTO o_1 VALUES {numbers}", "DELETE FROM o_1 WHERE id >= 10")
    counted = sync(one_pair, "b", size=EACH_TRANSACTION)
    assert counted == {"b:o_1": (0, 30)}
    assert one_pair.rows() == [(9, "b")]

    counted = sync(one_pair, "a")

    assert counted == {"a:o_0": (len(one_pair.rows()) - 1, 0)}
    assert 1 < len(one_pair.rows()) < 31
    assert {value for _, value in one_pair.rows()} == {"a", "b"}


def test_merged_tables_without_a_key_are_exact_nevertheless(one_source: Shops) -> None:
    one_source.instance = {**SAFE, "loader": {"on-duplicate-logical": "replace"}}
    one_source.create("v int, w int", "a:o_0", "a:o_2")
    one_source.write("a", "INSERT INTO o_0 VALUES (1, 1), (1, 1)", "INSERT INTO o_2 VALUES (1, 1)")
    one_source.load()
    one_source.write("a", "DELETE FROM o_2; INSERT INTO o_2 VALUES (1, 1), (2, 2)", "DELETE FROM o_0 LIMIT 1")
    assert sync(one_source, "a") == {}
    assert one_source.compared().equal, one_source.compared()
    one_source.target.sql("DELETE FROM o WHERE v = 2", database=one_source.schema)
    one_source.write("a", "DELETE FROM o_2 WHERE v = 2")
    one_source.stops(MissingRow, "a")


def test_rows_that_a_shard_holds_back_count_as_written_in_the_re_sync(one_pair: Shops) -> None:
    """Before a DDL, while it waits, in the re-sync, and after it."""
    one_pair.task, one_pair.instance = PESSIMISTIC, SAFE
    one_pair.create(UNIQUE, "a:o_0", "a:o_2", "b:o_1")
    one_pair.write("a", "INSERT INTO o_0 VALUES (1, 1, 'a'), (2, 2, 'moves'), (3, 3, 'a'), (4, 4, 'a'), (5, 5, 'a')")
    one_pair.write("b", "INSERT INTO o_1 VALUES (1, 101, 'b'), (21, 21, 'b')")
    one_pair.load()
    sync(one_pair, "a", "b", "a")
    one_pair.write("a", "DELETE FROM o_0 WHERE id = 1")
    one_pair.write("b", "UPDATE o_1 SET v = 'alone' WHERE id = 1")
    assert sync(one_pair, "a", "b") in ({"b:o_1": (1, 0)}, {})
    assert one_pair.rows()[0] == (1, 101, "alone")

    one_pair.write("a", "ALTER TABLE o_0 ADD COLUMN c int NOT NULL DEFAULT 7", "UPDATE o_0 SET c = 8 WHERE id = 4")
    one_pair.write("a", "DELETE FROM o_0 WHERE id IN (2, 5); INSERT INTO o_2 VALUES (2, 2, 'moved')")
    one_pair.write("b", "INSERT INTO o_1 VALUES (3, 33, 'b'), (24, 4, 'b'), (5, 55, 'moved')")
    assert sync(one_pair, "a", "b") == {"a:o_2": (0, 1), "b:o_1": (0, 3)}
    moved = [(2, 2, "moved"), (3, 33, "b"), (5, 55, "moved")]
    assert one_pair.rows() == [(1, 101, "alone"), *moved, (21, 21, "b"), (24, 4, "b")]

    one_pair.write("a", "UPDATE o_0 SET v = 'late' WHERE id = 3", "ALTER TABLE o_2 ADD c int NOT NULL DEFAULT 7")
    one_pair.write("b", "ALTER TABLE o_1 ADD c int NOT NULL DEFAULT 7", "UPDATE o_1 SET c = 9 WHERE id = 24")
    assert sync(one_pair, *"baba") == {"a:o_0": (1, 1)}
    # The held DELETEs have removed the rows 2 and 5, which other tables had written since: docs/how-to/safe-mode.md.
    assert one_pair.rows() == [(1, 101, "alone", 7), (3, 3, "late", 7), (4, 4, "a", 8), (21, 21, "b", 7)]
    one_pair.write("a", "UPDATE o_2 SET c = 1 WHERE id = 2")
    one_pair.write("b", "UPDATE o_1 SET c = 1 WHERE id = 5; DELETE FROM o_1 WHERE id IN (3, 24)")
    one_pair.write("a", "DELETE FROM o_0 WHERE id = 3; INSERT INTO o_2 VALUES (3, 3, 'anew', 1)")
    sync(one_pair, "b", "a")
    assert one_pair.meta_rows("dm_contested_row") == 0
    assert one_pair.compared().equal, one_pair.compared()

    for name, table in (("a", "o_0"), ("a", "o_2"), ("b", "o_1")):
        one_pair.write(name, f"ALTER TABLE {table} MODIFY COLUMN id varchar(20) NOT NULL")
    sync(one_pair, *"abab")
    assert one_pair.compared().equal, one_pair.compared()


def test_a_row_that_waits_during_a_ddl_when_the_rules_change(one_source: Shops) -> None:
    """Where rows overwrite each other, it would remove the row in its place, whose next value is held back; or, without
    an image, not be found by the log that was held back, which deletes it in safe mode."""
    rule = {"schema-pattern": one_source.schema, "table-pattern": "o_3", "events": ["update"], "action": "Ignore"}
    one_source.task = {**PESSIMISTIC, "filters": {"sale": rule}}
    usual, overwriting = (
        one_source.instance,
        ({"filter-rules": ["sale"]}, {"loader": {"on-duplicate-logical": "replace"}}),
    )

    def refused() -> None:
        for one_source.instance in overwriting:
            with pytest.raises(RulesChanged, match="Remove the filter or the setting"):
                sync(one_source, "a")
        one_source.instance = usual

    one_source.create(UNIQUE, "a:o_0", "a:o_2", "a:o_3")
    one_source.write("a", "INSERT INTO o_0 VALUES (1, 1, 'a')")
    one_source.load()
    one_source.write("a", "ALTER TABLE o_0 ADD c int NOT NULL DEFAULT 7", "UPDATE o_0 SET u = 7")
    one_source.write("a", "INSERT INTO o_2 VALUES (2, 1, 'b')", "ALTER TABLE o_2 ADD c int NOT NULL DEFAULT 7")
    with pytest.raises(RowWaitsForHeldRow):
        sync(one_source, "a")
    refused()
    one_source.write("a", "DELETE FROM o_2")
    sync(one_source, "a")
    assert one_source.target.sql("SELECT image FROM dm_contested_row", database=one_source.meta) == [(b"",)]
    refused()
    one_source.instance = SAFE
    one_source.write("a", "ALTER TABLE o_3 ADD c int NOT NULL DEFAULT 7")
    sync(one_source, "a")
    for one_source.instance in overwriting:  # now that nothing waits
        one_source.write("a", "INSERT INTO o_2 VALUES (2, 1, 'b', 7)", "DELETE FROM o_2")
        sync(one_source, "a")
    assert one_source.compared().equal, one_source.compared()
    assert one_source.meta_rows("dm_contested_row") == 0


def test_rows_that_are_missing_at_the_end_were_counted(one_pair: Shops) -> None:
    """`docker/local chaos collisions` plays far more."""
    assert play(one_pair, random.Random(7), transactions=30)["missing"]
