"""Rows that move between sources and shards of one merged table, in every order, are in the target in the end."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pymysql
import pytest

from airflow_provider_dm.engine.copy import page
from testbed import Server
from tests.before import before
from tests.beside import beside
from tests.integration.copy.migrations import differences, set_page_rows
from tests.integration.merge.conftest import EACH_TRANSACTION, PLAIN, UNIQUE, Shops


def test_a_row_moves_from_one_source_to_another_during_the_copy(shops: Shops, first: str) -> None:
    """Issue 9, item 1: `a: DELETE id=2`, then `b: INSERT id=2`; b syncs first, then a deletes b's row."""
    shops.create(PLAIN, "a:o_0", "b:o_1")
    shops.write("a", "INSERT INTO o_0 VALUES (1, 'a'), (2, 'a'), (3, 'a'), (4, 'a')")
    shops.write("b", "INSERT INTO o_1 VALUES (11, 'b')")

    def move(number: int) -> None:
        shops.write("a", f"DELETE FROM o_0 WHERE id = {number}")
        shops.write("b", f"INSERT INTO o_1 VALUES ({number}, 'b')")

    shops.load(begun=lambda: move(2), copied=lambda: move(3))
    shops.sync(*(("a", "b") if first == "a" else ("b", "a")))
    shops.sync()

    assert shops.compared().equal, shops.compared()
    assert {(2, "b"), (3, "b")} <= set(shops.rows())
    assert shops.meta_rows("dm_contested_row") == 0


def test_a_unique_value_is_handed_over_during_the_copy(shops: Shops, first: str) -> None:
    """Issue 9, item 1: a changes its row with u=2 and deletes it in another epoch, b inserts (22, u=2)."""
    shops.create(UNIQUE, "a:o_0", "b:o_1")
    shops.write("a", "INSERT INTO o_0 VALUES (1, 1, 'a'), (2, 2, 'a')")
    shops.write("b", "INSERT INTO o_1 VALUES (21, 21, 'b')")

    def hand_over() -> None:
        shops.write("a", "UPDATE o_0 SET v = 'changed' WHERE id = 2", "DELETE FROM o_0 WHERE id = 2")
        shops.write("b", "INSERT INTO o_1 VALUES (22, 2, 'b')")

    shops.load(copied=hand_over)
    for name in ("a", "b") if first == "a" else ("b", "a"):
        shops.sync(name, size=EACH_TRANSACTION)

    assert shops.compared().equal, shops.compared()
    assert (22, 2, "b") in shops.rows()


MOVES = ["{insert}; {delete}", "{delete}; {insert}"]
TWO_TRANSACTIONS = [["{insert}", "{delete}"], ["{delete}", "{insert}"]]


def moves(first_id: int) -> Iterator[list[str]]:
    """Each order, in one transaction and in two, as it was and with another value; of rows from `first_id` on."""
    number = first_id
    for transactions in [*([one] for one in MOVES), *TWO_TRANSACTIONS]:
        for value in ("v", "'changed'"):
            # The row itself may be gone, so what it was is written out.
            insert = f"INSERT INTO o_1 VALUES ({number}, {number}, {value if value != 'v' else repr('was')})"
            delete = f"DELETE FROM o_0 WHERE id = {number}"
            yield [one.format(insert=insert, delete=delete) for one in transactions]
            number += 1


def test_rows_move_between_shards_of_one_source(shards: Shops, first: str) -> None:
    """Issue 9, item 2: the row vanished in catch-up, and in exact mode the log was called broken (DM-6020)."""
    size = EACH_TRANSACTION if first == "a" else None
    shards.create(UNIQUE, "a:o_0", "a:o_1")
    shards.write("a", *(f"INSERT INTO o_0 VALUES ({number}, {number}, 'was')" for number in range(40)))

    def during_the_copy() -> None:
        shards.write("a", "INSERT INTO o_1 SELECT * FROM o_0 WHERE id = 2; DELETE FROM o_0 WHERE id = 2")
        for transactions in moves(10):
            shards.write("a", *transactions)

    shards.load(begun=during_the_copy)
    shards.sync(size=size)
    assert shards.compared().equal, shards.compared()

    shards.write("a", "INSERT INTO o_1 SELECT id, u, 'changed' FROM o_0 WHERE id = 3; DELETE FROM o_0 WHERE id = 3")
    for transactions in moves(20):
        shards.write("a", *transactions)
    shards.sync(size=size)

    assert shards.compared().equal, shards.compared()
    assert (3, 3, "changed") in shards.rows()
    assert len(shards.rows()) == 40


def test_rows_move_between_sources_that_are_exact(shops: Shops, first: str) -> None:
    shops.create(UNIQUE, "a:o_0", "b:o_1")
    shops.write("a", *(f"INSERT INTO o_0 VALUES ({number}, {number}, 'was')" for number in range(20)))
    shops.load()
    shops.sync()

    for number in range(8):
        delete, insert = f"DELETE FROM o_0 WHERE id = {number}", f"INSERT INTO o_1 VALUES ({number}, {number}, 'is')"
        for source, statement in (("a", delete), ("b", insert))[:: -1 if number % 2 else 1]:
            shops.write(source, statement)
    shops.write("a", "UPDATE o_0 SET u = 1000 WHERE id = 10")
    shops.write("b", "INSERT INTO o_1 VALUES (110, 10, 'took it')")
    for name in ("a", "b") if first == "a" else ("b", "a"):
        shops.sync(name, size=EACH_TRANSACTION)

    assert shops.compared().equal, shops.compared()
    assert shops.meta_rows("dm_contested_row") == 0


def test_a_value_that_moves_within_one_source_is_no_collision(
    one_source: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row takes the value of the one before it between two pages: far more than may wait."""
    set_page_rows(monkeypatch, 500)
    one_source.create(UNIQUE, "a:o_0", "a:o_1")
    rows = ", ".join(f"({number}, {number}, 'x')" for number in range(6000))
    one_source.write("a", f"INSERT INTO o_0 VALUES {rows}", "INSERT INTO o_1 VALUES (9000, 9000, 'y')")
    waited: list[int] = []

    def shift() -> None:
        one_source.write("a", "UPDATE o_0 SET u = u - 3000 ORDER BY u LIMIT 6000")
        waited.append(one_source.meta_rows("dm_contested_row"))

    pages = iter(range(100))

    def shifted(reader: page.PageReader, *_: object) -> None:
        if reader.table.name.table == "o_0" and next(pages) == 6:
            shift()

    before(monkeypatch, page.PageReader, "page", shifted)
    one_source.load()
    waited.append(one_source.meta_rows("dm_contested_row"))
    one_source.sync()

    assert one_source.compared().equal, one_source.compared()
    assert max(waited) == 0


KINDS = {
    "unique": UNIQUE,
    "pair": "a int NOT NULL, b varchar(200) COLLATE utf8mb4_bin NOT NULL, v varchar(20), PRIMARY KEY (a, b)",
    "collation": "c varchar(20) COLLATE utf8mb4_general_ci NOT NULL PRIMARY KEY, v varchar(20)",
    "binary": "k binary(6) NOT NULL PRIMARY KEY, v varchar(20)",
    "decimal": "k decimal(10,2) NOT NULL PRIMARY KEY, v varchar(20)",
    "time": "k datetime(3) NOT NULL PRIMARY KEY, v varchar(20)",
    "unsigned": "k bigint unsigned NOT NULL PRIMARY KEY, v varchar(20)",
    "only_unique": "u varbinary(100) NOT NULL, v varchar(20), UNIQUE KEY u (u)",
    "bits": "k bit(64) NOT NULL PRIMARY KEY, u bit(57) NOT NULL, v varchar(20), UNIQUE KEY u (u)",
    "enum": "e enum('x','y','z') NOT NULL, n smallint NOT NULL, v varchar(20), PRIMARY KEY (e, n)",
}


SHARDS = (("a", 0), ("a", 1), ("b", 2))
"""The source and number of each shard of a kind."""


def key_of(kind: str, number: int) -> str:
    """The key columns of row `number` as SQL."""
    match kind:
        case "unique":
            return f"{number}, {number}"
        case "pair":
            return f"{number % 3}, CONCAT('{number}', REPEAT('long', 40))"
        case "collation":
            return f"'Key {number}'"
        case "binary":
            return f"CONCAT('k{number:02d}', REPEAT(CHAR(0), 3))"
        case "decimal":
            return f"{number}.50"
        case "time":
            return f"'2020-01-01 00:00:00.{number:03d}'"
        case "unsigned":
            return f"{2**64 - 1 - number}"
        case "bits":
            return f"{number * 0x0102030405060708}, {number * 0x01020304050607}"
        case "only_unique":
            return f"REPEAT('{number}', 30)"
        case _:
            return f"'{'xyz'[number % 3]}', {number}"


def where(kind: str, number: int) -> str:
    columns = {"pair": "(a, b)", "collation": "c", "only_unique": "u", "enum": "(e, n)", "unique": "id"}
    key = key_of(kind, number)
    if kind in ("unique", "bits"):
        key = key.partition(",")[0]
    return f"{columns.get(kind, 'k')} = ({key})"


def create_kinds(shops: Shops, *kinds: str) -> None:
    """Create three shards of each kind, whose rows go into a table with the name of the kind."""
    there = {"schema-pattern": shops.schema, "target-schema": shops.schema}
    routes = {kind: {**there, "table-pattern": f"{kind}_*", "target-table": kind} for kind in kinds}
    shops.task, shops.instance = {"routes": routes}, {"route-rules": list(kinds)}
    for kind in kinds:
        shops.create(KINDS[kind], *(f"{source}:{kind}_{shard}" for source, shard in SHARDS))


@contextmanager
def moving(shops: Shops, *kinds: str, seed: int) -> Iterator[None]:
    """Rows are moved between all shards, in both orders, until the block ends; then none is on the way."""
    chance = random.Random(seed)
    held = {(kind, number): chance.choice(SHARDS) for kind in kinds for number in range(18)}

    def execute(source: str, *statements: str) -> None:
        for _ in range(400):
            try:
                shops.write(source, "; ".join(statements))
            except pymysql.err.OperationalError:  # a deadlock with the copy's snapshots
                time.sleep(0.05)
            else:
                return

    def run(ended: threading.Event) -> None:
        while not ended.is_set():
            kind, number = chance.choice(list(held))
            (source, shard), (to, into) = held[kind, number], chance.choice(SHARDS)
            delete = f"DELETE FROM {kind}_{shard} WHERE {where(kind, number)}"
            insert = f"INSERT INTO {kind}_{into} VALUES ({key_of(kind, number)}, 'v{chance.randrange(9)}')"
            if shard == into:
                execute(source, f"UPDATE {kind}_{shard} SET v = 'v{chance.randrange(9)}' WHERE {where(kind, number)}")
            elif source == to and chance.random() < 0.5:
                execute(source, *((insert, delete) if chance.random() < 0.5 else (delete, insert)))
            else:
                for where_to, statement in ((to, insert), (source, delete))[:: chance.choice([1, -1])]:
                    execute(where_to, statement)
            held[kind, number] = (to, into)
            time.sleep(0.01)

    for (kind, number), (source, shard) in held.items():
        shops.write(source, f"INSERT INTO {kind}_{shard} VALUES ({key_of(kind, number)}, 'first')")
    with beside(run):
        yield


def are_equal(shops: Shops, *kinds: str) -> None:
    """Sync all sources; then all rows are in the target, and none waits."""
    for _ in range(2):
        shops.sync()
    report = differences(
        shops.target,
        {
            f"{shops.schema}.{kind}": [(shops.sources[source], f"{shops.schema}.{kind}_{n}") for source, n in SHARDS]
            for kind in kinds
        },
    )
    assert report.equal, report
    assert shops.meta_rows("dm_contested_row") == 0


def test_every_kind_of_key_is_distinguished(one_pair: Shops, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy and log must see the same key, whatever its type."""
    _distinguished(one_pair, monkeypatch, *(kind for kind in KINDS if kind != "bits"))


def _distinguished(shops: Shops, monkeypatch: pytest.MonkeyPatch, *kinds: str) -> None:
    set_page_rows(monkeypatch, 3)
    create_kinds(shops, *kinds)
    with moving(shops, *sorted(kinds), seed=7):
        shops.load()
        shops.sync()
        time.sleep(0.3)
    are_equal(shops, *kinds)


def test_wide_bits_move_in_tidb(
    mariadb_source: Server,
    mysql_source: Server,
    tidb_target: Server,
    shops_of: Callable[..., Shops],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """TiDB reverses the bytes of a BIT of 57 or more bits in ON DUPLICATE KEY UPDATE."""
    shops = shops_of(tidb_target, a=mariadb_source, b=mysql_source)
    _distinguished(shops, monkeypatch, "bits")


def test_rows_change_after_the_snapshot_of_a_table_whose_key_cannot_be_paged(one_pair: Shops) -> None:
    """One table of each source: it is exact for itself, but others' rows are there as well, and some wait for them."""
    one_pair.create(KINDS["enum"], "a:o_0", "b:o_1")
    one_pair.write("a", "INSERT INTO o_0 VALUES ('x', 1, 'a'), ('y', 1, 'a')")
    one_pair.write("b", "INSERT INTO o_1 VALUES ('x', 1, 'b'), ('y', 2, 'b'), ('y', 3, 'b'), ('z', 4, 'b')")

    def change() -> None:
        one_pair.write("a", "DELETE FROM o_0 WHERE n = 1 AND e = 'x'", "UPDATE o_0 SET v = 'changed'")
        one_pair.write("b", "UPDATE o_1 SET v = 'changed' WHERE n < 3", "DELETE FROM o_1 WHERE n = 4")
        one_pair.write("b", "DELETE FROM o_1 WHERE n = 3; INSERT INTO o_1 VALUES ('y', 3, 'again')")

    one_pair.load(copied=change)
    one_pair.sync()

    assert one_pair.compared().equal, one_pair.compared()
    assert [v for _, _, v in one_pair.rows()] == ["changed", "changed", "changed", "again"]
    assert one_pair.meta_rows("dm_contested_row") == 0


def test_two_syncs_at_once_while_rows_move(one_pair: Shops) -> None:
    create_kinds(one_pair, "unique")
    one_pair.load()
    with one_pair.syncing("a") as a, one_pair.syncing("b") as b, moving(one_pair, "unique", seed=11):
        a.wait_until(lambda: a.shown.changes >= 20)
        b.wait_until(lambda: b.shown.changes >= 20)
    assert not a.running.result().finished
    assert not b.running.result().finished
    are_equal(one_pair, "unique")


def test_the_servers_have_the_stated_settings(shops: Shops, source: Server, target: Server) -> None:
    assert {server.flavour for server in shops.sources.values()} == {"mariadb", "mysql"}
    assert shops.sources["a"] is source
    assert shops.target is target
