"""DDL that all shards of a merged table make: `shard-mode: pessimistic`, as the seeds tell it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from airflow_provider_dm.engine.shard.group import ShardDdlOutOfSequence
from airflow_provider_dm.engine.shard.lock import ShardDdlConflict
from airflow_provider_dm.engine.sync import following, resync, shards
from airflow_provider_dm.engine.sync.loop import SyncResult
from tests.integration.merge.conftest import EACH_TRANSACTION, Shops

PLAIN = "id int NOT NULL PRIMARY KEY, v varchar(20)"
PESSIMISTIC = {"task-mode": "all", "shard-mode": "pessimistic"}


class Died(Exception):
    """The process was killed."""


def columns(shops: Shops) -> list[str]:
    found = shops.target.sql(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = 'o' "
        "ORDER BY ordinal_position",
        [shops.schema],
    )
    return [name for (name,) in found]


def locks(shops: Shops) -> list[tuple[str, int, list[str]]]:
    return [
        (one["owner"], one["number"], [info["source"] for info in one["infos"]]) for one, _ in shops.store.ddl_locks()
    ]


def waiting_for(result: SyncResult) -> list[str]:
    return [str(one["waits"]) for one in result.unresolved_groups]


def test_the_seeds_example_of_one_source_with_two_tables(shards: Shops) -> None:
    """t1 … t5 of seed 002: rows of table_1 behind its DDL come when table_2 has made it, once and with their form."""
    shards.task = PESSIMISTIC
    shards.create(PLAIN, "a:o_1", "a:o_2", "a:other")
    shards.write(
        "a", "INSERT INTO o_1 VALUES (1, 'a'), (2, 'b'), (3, 'c')", "INSERT INTO o_2 VALUES (11, 'a'), (12, 'b')"
    )
    shards.load()
    shards.write("a", "UPDATE o_1 SET v = 'V1' WHERE id = 1", "UPDATE o_2 SET v = 'V1' WHERE id = 11")
    shards.write("a", "ALTER TABLE o_1 ADD COLUMN c int NOT NULL DEFAULT 7 AFTER id")  # t1
    shards.write(  # t2: rows of both forms
        "a",
        "INSERT INTO o_1 VALUES (4, 40, 'V2'); INSERT INTO o_2 VALUES (13, 'V1')",
        "UPDATE o_1 SET c = 10 WHERE id = 1; DELETE FROM o_2 WHERE id = 12; DELETE FROM o_1 WHERE id = 2",
        "INSERT INTO other VALUES (1, 'goes on')",
    )
    (first,) = shards.sync()
    assert "o_2" in waiting_for(first)[0]
    assert columns(shards) == ["id", "v"]
    assert shards.rows() == [(1, "V1"), (2, "b"), (3, "c"), (11, "V1"), (13, "V1")]
    assert shards.target.sql("SELECT * FROM other", database=shards.schema) == [(1, "goes on")]

    shards.write("a", "UPDATE o_1 SET c = 11 WHERE id = 1; INSERT INTO o_2 VALUES (14, 'V1')")
    shards.write("a", "ALTER TABLE o_2 ADD COLUMN c int NOT NULL DEFAULT 7 AFTER id")  # t3
    shards.write("a", "INSERT INTO o_2 VALUES (15, 50, 'V2'); UPDATE o_1 SET v = 'V2' WHERE id = 3")  # t4
    (second,) = shards.sync(size=EACH_TRANSACTION)
    assert second.unresolved_groups == ()
    assert shards.compared().equal, shards.compared()
    assert columns(shards) == ["id", "c", "v"]
    assert locks(shards) == []
    assert shards.meta_rows("dm_shard_member") == 0


DDLS = [
    "ADD COLUMN c int NOT NULL DEFAULT 7",
    "MODIFY COLUMN v varchar(60), ADD KEY k (c)",
    "DROP COLUMN c",
    "ADD COLUMN c varchar(10) DEFAULT 'x' FIRST",
]


def test_one_shard_makes_all_of_a_sequence_before_the_other_begins(shards: Shops) -> None:
    shards.task = PESSIMISTIC
    shards.create(PLAIN, "a:o_1", "a:o_2")
    shards.write("a", "INSERT INTO o_1 VALUES (1, 'a'), (2, 'b')", "INSERT INTO o_2 VALUES (11, 'a'), (12, 'b')")
    shards.load()
    for table, base in (("o_1", 100), ("o_2", 200)):
        for number, alter in enumerate(DDLS):
            shards.write("a", f"ALTER TABLE {table} {alter}")
            shards.write("a", f"INSERT INTO {table} (id, v) VALUES ({base + number}, 'after {number}')")
            shards.write("a", f"UPDATE {table} SET v = 'n{number}' WHERE id IN (1, 12, {base + number - 1})")
            if number % 2:
                shards.sync(size=EACH_TRANSACTION)
    (last,) = shards.sync()
    assert last.unresolved_groups == ()
    assert shards.compared().equal, shards.compared()


def test_the_seeds_example_of_two_sources_with_one_table_each(shops: Shops, first: str) -> None:
    second = "b" if first == "a" else "a"
    shops.task = PESSIMISTIC
    shops.create(PLAIN, "a:o_1", "b:o_2")
    shops.write("a", "INSERT INTO o_1 VALUES (1, 'a')")
    shops.write("b", "INSERT INTO o_2 VALUES (11, 'b')")
    shops.load()
    table = {"a": "o_1", "b": "o_2"}
    shops.write(first, f"ALTER TABLE {table[first]} ADD COLUMN c int DEFAULT 7")
    shops.write(first, f"INSERT INTO {table[first]} VALUES (2, 'V2', 1)")
    (waits,) = shops.sync(first)
    assert waiting_for(waits) == [f"for {second}"]
    assert locks(shops) == [(first, 0, [first])]
    shops.write(second, f"INSERT INTO {table[second]} VALUES (12, 'V1')")
    (result,) = shops.sync(second)
    assert result.unresolved_groups == ()
    assert columns(shops) == ["id", "v"]
    shops.write(second, f"ALTER TABLE {table[second]} ADD c INTEGER NULL DEFAULT 7")
    shops.write(second, f"INSERT INTO {table[second]} VALUES (13, 'V2', 2)")
    (waits,) = shops.sync(second)
    assert waiting_for(waits) == [f"for {first}, which runs it"]
    (result,) = shops.sync(first)
    assert result.unresolved_groups == ()
    assert columns(shops) == ["id", "v", "c"]
    assert locks(shops) == [(first, 0, [first, second])]
    (result,) = shops.sync(second)
    assert result.unresolved_groups == ()
    assert locks(shops) == []
    assert shops.compared().equal, shops.compared()


STEPS = [
    (following, "fenced_transaction"),
    (shards.Shards, "_report"),
    (shards, "execute_ddl"),
    (shards, "note_executed"),
    (shards.Shards, "_tell"),
    (shards.Shards, "_resolve"),
    (resync, "apply_epoch"),
    (shards.Shards, "finish"),
]


def test_a_run_dies_at_every_step_and_the_next_goes_on(one_pair: Shops, monkeypatch: pytest.MonkeyPatch) -> None:
    """In front of each step and behind it: in the end every DDL has been run once, and all rows are there once."""
    shops = one_pair
    shops.task = PESSIMISTIC
    shops.create(f"{PLAIN}, u int, UNIQUE KEY u (u)", "a:o_1", "a:o_2", "b:o_3", "b:o_4")
    shops.load()
    for number, (owner, name) in enumerate(STEPS):
        for place, table in (("a", "o_1"), ("b", "o_3"), ("a", "o_2"), ("b", "o_4")):
            row = 1000 * number + 10 * int(table[-1])
            shops.write(
                place, f"INSERT INTO {table} (id, v, u) VALUES ({row}, 'V1', {row}), ({row + 1}, 'V1', {row + 1})"
            )
            shops.write(place, f"ALTER TABLE {table} ADD COLUMN c{number} int NOT NULL DEFAULT {number}")
            shops.write(
                place,
                f"UPDATE {table} SET u = u + 100, c{number} = 5 WHERE id = {row}; "
                f"DELETE FROM {table} WHERE id = {row + 1}",
            )
            shops.write(place, f"INSERT INTO {table} (id, v, u, c{number}) VALUES ({row + 2}, 'V2', {row + 1}, 6)")
        dies = partial(_dies, shops, monkeypatch=monkeypatch, owner=owner, name=name)
        told = [dies(source, before=before) for source, before in zip("abaabb", (True, False) * 3, strict=True)]
        assert any(told[::2]), name
        assert any(told[1::2]), name
        shops.sync("a", "b", "a", "b")
    assert shops.compared().equal, shops.compared()
    assert columns(shops) == ["id", "v", "u", *(f"c{number}" for number in range(len(STEPS)))]
    assert locks(shops) == []


def _dies(
    shops: Shops, source: str, *, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, before: bool
) -> bool:
    real: Callable[..., object] = getattr(owner, name)

    def dying(*arguments: object, **named: object) -> object:
        if before:
            raise Died
        real(*arguments, **named)
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, dying)
        try:
            shops.sync(source)
        except Died:
            return True
    return False


def test_different_ddl_is_refused_with_both_sides_shown(one_pair: Shops) -> None:
    shops = one_pair
    shops.task = PESSIMISTIC
    shops.create(PLAIN, "a:o_1", "a:o_2", "b:o_3")
    shops.load()
    shops.write("b", "ALTER TABLE o_3 ADD c int")
    shops.write("a", "ALTER TABLE o_1 ADD c bigint")
    shops.sync()
    shops.write("a", "ALTER TABLE o_2 ADD c bigint unsigned")
    with pytest.raises(ShardDdlOutOfSequence, match=r"(?s)o_2 has made: .*bigint unsigned.*o_1 has made.*bigint"):
        shops.sync("a")
    assert columns(shops) == ["id", "v"]


def test_sources_that_differ_are_in_conflict_until_a_person_decides(one_pair: Shops) -> None:
    shops = one_pair
    shops.task = PESSIMISTIC
    shops.create(PLAIN, "a:o_1", "b:o_3")
    shops.load()
    shops.write("b", "ALTER TABLE o_3 ADD c bigint")
    shops.write("a", "ALTER TABLE o_1 ADD c int")
    shops.sync("a")
    with pytest.raises(ShardDdlConflict, match=r"b has made .*bigint.*; a has made .*int"):
        shops.sync("b")
    with pytest.raises(ShardDdlConflict):
        shops.sync("a")
    assert columns(shops) == ["id", "v"]
