"""DDL that all shards of a merged table make: `shard-mode: pessimistic`, as in DM's documentation."""

from typing import Any

import pytest

from airflow_provider_dm.engine.errors import NotSupportedYet
from airflow_provider_dm.engine.merge import contests
from airflow_provider_dm.engine.merge.errors import RowsCollide, RowWaitsForHeldRow
from airflow_provider_dm.engine.meta.records import Operator, OperatorKind, SqlPattern
from airflow_provider_dm.engine.sync.errors import ShardDdlRefused
from airflow_provider_dm.engine.sync.runner import LocalRunner
from airflow_provider_dm.engine.verify import verification
from airflow_provider_dm.engine.verify.errors import DataDiffers, RowsHeldBack
from airflow_provider_dm.engine.verify.verification import failure, verify
from tests.integration.merge.conftest import EACH_TRANSACTION, PESSIMISTIC, PLAIN, Shops
from tests.integration.merge.sharding import Died, columns, locks, waiting_for


def test_the_seeds_example_of_one_source_with_two_tables(shards: Shops, monkeypatch: pytest.MonkeyPatch) -> None:
    """t1 … t5 of seed 002: rows of table_1 after its DDL come when table_2 has made it, once and with their form."""
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
        "INSERT INTO other VALUES (1, 'continues')",
    )
    (first,) = shards.sync()
    assert "o_2" in waiting_for(first)[0]
    assert columns(shards) == ["id", "v"]
    assert shards.rows() == [(1, "V1"), (2, "b"), (3, "c"), (11, "V1"), (13, "V1")]
    assert shards.target.sql("SELECT * FROM other", database=shards.schema) == [(1, "continues")]
    real = verification._sum_up
    with monkeypatch.context() as patch:

        def resolved(*what: Any) -> Any:  # while it is compared
            patch.setattr(verification, "read_held_back", lambda *_: {})
            return real(*what)

        patch.setattr(verification, "_sum_up", resolved)
        compared = verify(shards.migration().spec, LocalRunner(2))
    (held,) = (table for table in compared["tables"] if not table["equal"])
    assert (held["held_back"]["lock"], held["differing"]) == (f"test-`{shards.schema}`.`o`", [])
    assert isinstance(failure(compared), RowsHeldBack)
    shards.target.sql("DELETE FROM other", database=shards.schema)
    different = failure(verify(shards.migration().spec, LocalRunner(2)))
    assert isinstance(different, DataDiffers)
    assert different.tables == (f"{shards.schema}.other (1 / 0 rows)",)
    shards.target.sql("INSERT INTO other VALUES (1, 'continues')", database=shards.schema)

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
    assert [one for one in shops.prechecked().failures if one.name.startswith("table_")] == []
    shops.write(second, f"INSERT INTO {table[second]} VALUES (12, 'V1')")
    (result,) = shops.sync(second)
    assert result.unresolved_groups == ()
    assert columns(shops) == ["id", "v"]
    shops.write(second, f"ALTER TABLE {table[second]} ADD C INTEGER NULL DEFAULT 7")
    shops.write(second, f"INSERT INTO {table[second]} VALUES (13, 'V2', 2)")
    (waits,) = shops.sync(second)
    assert waiting_for(waits) == [f"for {first}, which executes it"]
    (result,) = shops.sync(first)
    assert result.unresolved_groups == ()
    assert columns(shops) == ["id", "v", "c"]
    assert locks(shops) == [(first, 0, [first, second])]
    (result,) = shops.sync(second)
    assert result.unresolved_groups == ()
    assert locks(shops) == []
    assert shops.compared().equal, shops.compared()


def test_statements_that_shards_may_execute_during_a_ddl(single: Shops) -> None:
    """One by gh-ost, one that is emptied, one that is dropped, one that begins with the form from before, and one with
    the newest; an equivalent statement with another text."""
    single.create(PLAIN, "a:o_1", "a:o_2", "a:o_3", "a:o_4")
    for number in (1, 2, 3, 4):
        single.write("a", f"INSERT INTO o_{number} VALUES ({number}0, 'V1'), ({number}1, 'V1'), ({number}2, 'V1')")
    single.load()
    for statement in (
        "CREATE TABLE _o_1_gho LIKE o_1",
        "ALTER TABLE _o_1_gho ADD COLUMN c int NOT NULL DEFAULT 3, MODIFY v varchar(40)",
        "INSERT INTO _o_1_gho (id, v) SELECT id, v FROM o_1",
        "INSERT INTO o_1 VALUES (13, 'V1')",
        "INSERT INTO _o_1_gho (id, v) VALUES (13, 'V1')",
        "RENAME TABLE o_1 TO _o_1_del, _o_1_gho TO o_1",
        "UPDATE o_1 SET c = 4, v = 'V2' WHERE id = 13",
        "DELETE FROM o_1 WHERE id = 10",
        "TRUNCATE TABLE o_3",
        "DROP TABLE o_4",
        f"CREATE TABLE o_5 ({PLAIN}) COLLATE utf8mb4_bin",
        "INSERT INTO o_5 VALUES (50, 'V1'), (51, 'V1')",
        "CREATE TABLE o_6 (id int NOT NULL PRIMARY KEY, v varchar(40), c int NOT NULL DEFAULT 3) COLLATE utf8mb4_bin",
        "INSERT INTO o_6 VALUES (60, 'V2', 6)",
        "INSERT INTO o_2 VALUES (23, 'V1')",
        "ALTER TABLE o_2 ADD c INTEGER(11) NOT NULL DEFAULT 3, CHANGE v v VARCHAR(40)",
        "UPDATE o_2 SET c = 5 WHERE id = 23",
        "ALTER TABLE o_3 ADD c int NOT NULL DEFAULT 3, MODIFY v varchar(40)",
        "INSERT INTO o_3 VALUES (33, 'V2', 1)",
    ):
        single.write("a", statement)
    (waits,) = single.sync()
    assert waiting_for(waits) == [f"for {single.schema}.o_5 of this source"]
    single.write(
        "a",
        "UPDATE o_6 SET c = 7; DELETE FROM o_5 WHERE id = 50",
        "ALTER TABLE o_5 ADD c int NOT NULL DEFAULT 3, MODIFY v varchar(40)",
    )
    (result,) = single.sync()
    assert result.unresolved_groups == ()
    left = [(31, "V1", 3), (30, "V1", 3), (32, "V1", 3), *((number, "V1", 3) for number in (40, 41, 42))]
    of_sources = [
        row
        for number in (1, 2, 3, 5, 6)
        for row in single.sources["a"].sql(f"SELECT id, v, c FROM o_{number}", database=single.schema)
    ]
    assert sorted(single.target.sql("SELECT id, v, c FROM o", database=single.schema)) == sorted([*of_sources, *left])


def test_a_key_of_two_shards_is_a_collision_also_when_one_of_them_was_held(single: Shops) -> None:
    single.create(PLAIN, "a:o_1", "a:o_2")
    single.load()
    single.write(
        "a", "ALTER TABLE o_1 ADD c int", "INSERT INTO o_1 VALUES (1, 'held', 2)", "INSERT INTO o_2 VALUES (1, 'V1')"
    )
    single.write("a", "ALTER TABLE o_2 ADD c int")
    single.stops(RowsCollide, match=r"o_1.*o_2|o_2.*o_1")
    assert single.rows() == [(1, "V1", None)]


UNIQUE = "id int NOT NULL PRIMARY KEY, v varchar(20), u int UNIQUE"


def dies_once(monkeypatch: pytest.MonkeyPatch, where: object, name: str) -> list[str]:
    """Kill a process at its first call of a function. Return a list that is filled at that time."""
    real, died = getattr(where, name), list[str]()

    def die(*args: object, **named: object) -> object:
        if died:
            return real(*args, **named)
        died.append(name)
        raise Died

    monkeypatch.setattr(where, name, die)
    return died


C = "ADD COLUMN c int NOT NULL DEFAULT 7"


@pytest.mark.parametrize("has_made_it", [False, True], ids=["behind its DDL", "in front of its DDL"])
def test_rows_that_move_from_a_held_shard_wait_for_a_user(pair: Shops, *, has_made_it: bool) -> None:
    """Their places become free after the DDL, which waits for them. The remedy of DM-6057 is walked."""
    pair.create(UNIQUE, "a:o_1", "a:o_2", "b:o_3")
    pair.write("a", "INSERT INTO o_1 VALUES (1, 'moves', 1), (2, 'u moves', 2)", "INSERT INTO o_2 VALUES (11, 'a', 11)")
    pair.load()
    pair.write("a", f"ALTER TABLE o_1 {C}", "UPDATE o_1 SET v = 'changed', c = 8", "DELETE FROM o_1 WHERE id = 1")
    pair.write("a", "UPDATE o_1 SET u = 102 WHERE id = 2")
    pair.write("b", "INSERT INTO o_3 VALUES (1, 'moved', 1), (22, 'has u', 2)")
    if has_made_it:
        pair.write("b", f"ALTER TABLE o_3 {C}")
    pair.sync("a")
    named = r"2 rows of b wait.* of .*o_3, .* the row \((id: 1\)|id: 2, u: 2\)) .*o_1 \(a\)"
    pair.stops(RowWaitsForHeldRow, "b", match=named)

    pair.write("b", "DELETE FROM o_3 WHERE id IN (1, 22)")
    for source, name in (("a", "o_2"), *(() if has_made_it else (("b", "o_3"),))):
        pair.write(source, f"ALTER TABLE {name} {C}")
    resolved(pair)
    pair.write("b", "INSERT INTO o_3 VALUES (1, 'moved', 1, 7), (22, 'has u', 2, 7)")
    pair.sync("b", "a")
    assert pair.compared().equal, pair.compared()
    assert (pair.meta_rows("dm_contested_row"), locks(pair)) == (0, [])


@pytest.mark.parametrize("has_made_it", [False, True], ids=["behind its DDL", "in front of its DDL"])
def test_a_ddl_that_drops_the_key_of_a_collision_waits_for_a_user(pair: Shops, *, has_made_it: bool) -> None:
    """The source that has made it has no such key by which it could be asked for the row that holds the place."""
    pair.create(UNIQUE, "a:o_1", "b:o_3")
    pair.write("a", "INSERT INTO o_1 VALUES (2, 'u', 2)")
    pair.load()
    pair.write("a", "ALTER TABLE o_1 DROP COLUMN u")
    pair.write("b", "INSERT INTO o_3 VALUES (22, 'has u', 2)")
    if has_made_it:
        pair.write("b", "ALTER TABLE o_3 DROP COLUMN u")
    pair.sync("a")
    pair.stops(RowWaitsForHeldRow, "b", match=r"1 rows of b wait.* the row \(id: 2, u: 2\)")
    if has_made_it:
        pair.target.sql("DROP TABLE o", database=pair.schema)
        pair.task = {**PESSIMISTIC, "name": "again"}
        pair.load()
        pair.write("b", "INSERT INTO o_3 VALUES (23, 'later')")
        pair.sync("b", "a")
        assert pair.rows() == [(2, "u"), (22, "has u"), (23, "later")]
        return
    pair.write("b", "DELETE FROM o_3", "ALTER TABLE o_3 DROP COLUMN u")
    resolved(pair)
    pair.write("b", "INSERT INTO o_3 VALUES (22, 'has u')")
    pair.sync("b")
    assert pair.rows() == [(2, "u"), (22, "has u")]


@pytest.mark.parametrize("safe", [False, True])
def test_rows_that_shards_delete_or_change_meanwhile_do_not_block_ddl(
    pair: Shops, monkeypatch: pytest.MonkeyPatch, *, safe: bool
) -> None:
    """`safe`: in safe mode, with a column of the target's own because of which no row is overwritten."""
    monkeypatch.setattr(contests, "FINISH_SECONDS", 1.0)
    pair.create(UNIQUE, "a:o_1", "b:o_3")
    if safe:
        pair.instance = {"syncer": {"safe-mode": True}}
        pair.target.sql(f"CREATE DATABASE `{pair.schema}`")
        pair.target.sql(f"CREATE TABLE o ({UNIQUE}, own int, UNIQUE KEY v (v(12)))", database=pair.schema)
    pair.create("id int", "b:alone")
    pair.write("a", "INSERT INTO o_1 VALUES (1, 'for a moment', 1), (2, 'u', 2), (3, 'and back', 3)")
    pair.load()
    pair.write("a", f"ALTER TABLE o_1 {C}", "DELETE FROM o_1 WHERE id IN (1, 3)", "UPDATE o_1 SET u = 102 WHERE id = 2")
    pair.write("b", "INSERT INTO o_3 VALUES (1, 'moved', 1), (22, 'has u', 2), (3, 'away', 3)", f"ALTER TABLE o_3 {C}")
    pair.write("b", "DELETE FROM o_3 WHERE id IN (1, 3)", "UPDATE o_3 SET u = 202 WHERE id = 22")
    pair.write("a", "INSERT INTO o_1 VALUES (3, 'is back', 3, 9)")
    pair.sync("a")
    assert dies_once(monkeypatch, contests, "forget_image") == []
    pair.stops(Died, "b")
    resolved(pair)
    if safe:
        pair.target.sql("ALTER TABLE o DROP COLUMN own", database=pair.schema)
    assert pair.compared().equal, pair.compared()
    assert pair.meta_rows("dm_contested_row") == 0


def resolved(shops: Shops) -> None:
    """Sync until nothing is held back."""
    waits = [shops.sync(name)[0].unresolved_groups for name in "ababab"]
    assert (waits[-2:], locks(shops)) == ([(), ()], [])


def test_a_column_kept_by_a_filter_is_not_the_new_column(one_pair: Shops) -> None:
    rule = {"schema-pattern": one_pair.schema, "events": ["drop column"], "action": "Ignore"}
    common = {"route-rules": ["merge"], "filter-rules": ["keeps"]}
    instances = [{"source-id": name, "block-allow-list": name, **common} for name in one_pair.sources]
    one_pair.task = {**PESSIMISTIC, "filters": {"keeps": rule}, "mysql-instances": instances}
    one_pair.create(PLAIN, "a:o_1", "b:o_2")
    one_pair.write("a", "INSERT INTO o_1 VALUES (1, 'old')")
    one_pair.load()
    for source, name in (("a", "o_1"), ("b", "o_2")):
        one_pair.write(source, *(f"ALTER TABLE {name} {ddl}" for ddl in ("DROP COLUMN v", "ADD COLUMN v varchar(30)")))
    one_pair.sync()
    one_pair.stops(ShardDdlRefused, "a", match="already exists: column v of")
    one_pair.target.sql("ALTER TABLE o DROP COLUMN v", database=one_pair.schema)
    one_pair.sync("a", "b")
    assert one_pair.rows() == [(1, None)]


@pytest.mark.parametrize("mode", [{}, {"shard-mode": "pessimistic"}], ids=["alone", "agreeing"])
def test_the_last_of_the_shards_leaves_its_rows_as_the_others_did(one_source: Shops, mode: dict[str, str]) -> None:
    one_source.task = {"task-mode": "all", **mode}
    one_source.create(PLAIN, "a:o_1", "a:p_1")
    one_source.write("a", "INSERT INTO o_1 VALUES (1, 'first')", "INSERT INTO p_1 VALUES (9, 'alone')")
    one_source.load()
    one_source.sync()
    one_source.create(PLAIN, "a:o_2")  # from here on it is merged
    one_source.write("a", "INSERT INTO o_2 VALUES (2, 'second')", "DROP TABLE o_1", "DROP TABLE p_1", "TRUNCATE o_2")
    if mode:
        one_source.sync()
    else:
        one_source.stops(NotSupportedYet, match="rows of other tables that were dropped")
        one_source.store.put_operators([Operator("test", "a", OperatorKind.SKIP, SqlPattern("TRUNCATE"))])
    one_source.write("a", "DROP TABLE o_2")
    one_source.sync()
    assert one_source.rows() == [(1, "first"), (2, "second")]
    assert one_source.target.sql("SHOW TABLES LIKE 'p%'", database=one_source.schema) == []
