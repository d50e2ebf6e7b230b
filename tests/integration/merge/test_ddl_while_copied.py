"""Shards that make DDL while they are copied: their target is copied again as a whole, when all of them are alike.

Statements come in stages: the first one between two pages, each other when the copy has nothing to do but to wait.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partialmethod
from typing import Any

import pytest

from airflow_provider_dm.engine.copy import again, copier, migration, page, visiting
from airflow_provider_dm.engine.copy import begin as start
from airflow_provider_dm.engine.copy.again import ShardsUnlike, Watches
from airflow_provider_dm.engine.copy.creation import create
from airflow_provider_dm.engine.copy.keyless import copy_whole_table
from airflow_provider_dm.engine.copy.sharing import Sharing
from airflow_provider_dm.engine.copy.watch import OthersToCopyAgain, Watch
from airflow_provider_dm.engine.copy.watermark import low_watermark
from airflow_provider_dm.engine.merge import departure
from airflow_provider_dm.engine.merge.joining import OwnerCopiedAgain
from airflow_provider_dm.engine.merge.recorded_key import RecordedKeyChanged
from airflow_provider_dm.engine.mysql.endpoint import Endpoint
from airflow_provider_dm.engine.reading.source_session import SchemaChangedDuringCopy
from airflow_provider_dm.engine.shard.lock import Action
from airflow_provider_dm.launch.ddl_locks import locks_of, unlock
from tests.integration.merge.conftest import Shops
from tests.integration.merge.sharding import PESSIMISTIC, columns

COLUMNS = "id int NOT NULL PRIMARY KEY, v varchar(20), u int DEFAULT NULL, UNIQUE KEY u (u)"
SHARDS = {"o_1": "a", "o_2": "a", "o_3": "b"}
Stage = Sequence[tuple[str, str]]


def begin(shops: Shops) -> None:
    shops.create(COLUMNS, "a:o_1", "a:o_2", "b:o_3")
    for number, (table, source) in enumerate(SHARDS.items(), 1):
        rows = ", ".join(f"({number * 100 + one}, 'v{one}', {number * 100 + one})" for one in range(8))
        shops.write(source, f"INSERT INTO {table} VALUES {rows}")


def alter(change: str, *tables: str) -> Stage:
    return [(SHARDS[table], f"ALTER TABLE {table} {change}") for table in tables]


def load(
    shops: Shops, stages: Sequence[Stage], patch: pytest.MonkeyPatch, names: Sequence[str] | None = None, at: int = 5
) -> dict[str, Any]:
    """Copy while the stages happen, each once."""
    left, reads, calls = iter(stages), page.PageReader.page, iter(range(1_000_000))

    def happen() -> None:
        for source, statement in next(left):
            shops.write(source, statement)

    def reading(*arguments: Any) -> Any:
        if stages and next(calls) == at:
            happen()
        return reads(*arguments)

    patch.setattr(page, "FIRST_ROWS", 2)
    patch.setattr(page, "MOST_ROWS", 2)
    patch.setattr(page.PageReader, "page", reading)
    patch.setattr(Watches, "wait", lambda watches: happen() if watches.waits else None)
    result = shops.load(names)
    assert next(left, None) is None
    return {name: one.get("copied_again", {}) for name, one in result["sources"].items()}


def finish(shops: Shops) -> None:
    """Sync, and let all shards make one more DDL behind the load."""
    tables = {
        str(name): source
        for source, server in shops.sources.items()
        for (name,) in server.sql("SHOW TABLES LIKE 'o\\_%%'", database=shops.schema)
    }
    for table, source in tables.items():
        shops.write(
            source, f"ALTER TABLE {table} ADD COLUMN z int NOT NULL DEFAULT 3", f"UPDATE {table} SET z = LENGTH(id)"
        )
    shops.sync("a", "b", "a", "b")
    assert columns(shops)[-1] == "z"
    assert shops.compared().equal, shops.compared()
    assert shops.meta_rows("dm_contested_row") == shops.meta_rows("dm_row_owner") == shops.meta_rows("dm_owner") == 0


COLUMN = "ADD COLUMN w int NOT NULL DEFAULT 7 FIRST, DROP COLUMN v, ADD KEY k (w)"
KEYS = "DROP KEY u, DROP PRIMARY KEY, ADD PRIMARY KEY (v, id), MODIFY v varchar(40) NOT NULL"
CHANGES: dict[str, Sequence[Stage]] = {
    "columns, shard by shard": (
        [*alter(COLUMN, "o_2"), ("a", "INSERT INTO o_2 (id, w) VALUES (280, 2)")],
        [*alter(COLUMN, "o_3"), ("b", "DELETE FROM o_3 WHERE id = 301")],
        [("a", "DELETE FROM o_1 WHERE id = 101; UPDATE o_2 SET w = 9"), *alter(COLUMN, "o_1")],
    ),
    "keys": (
        alter(KEYS, "o_3"),
        [*alter(KEYS, "o_1", "o_2"), ("a", "INSERT INTO o_1 VALUES (300, 'mine', 1)")],
    ),
    "no key any more": (
        [
            *alter("DROP PRIMARY KEY, DROP KEY u", *SHARDS),
            ("a", "INSERT INTO o_1 VALUES (1, 'x', 1), (1, 'x', 1)"),
            ("b", "INSERT INTO o_3 VALUES (1, 'x', 1)"),
        ],
    ),
    "there and back": (
        [
            ("a", "ALTER TABLE o_1 DROP KEY u"),
            ("a", "INSERT INTO o_1 VALUES (180, 'u', 105)"),
            ("a", "DELETE FROM o_1 WHERE id = 180"),
            ("a", "ALTER TABLE o_1 ADD UNIQUE KEY u (u)"),
        ],
    ),
    "one more, and nothing else": (
        [
            ("b", "CREATE TABLE o_9 LIKE o_3"),
            ("b", "INSERT INTO o_9 VALUES (900, 'new', 900)"),
            ("b", "UPDATE o_9 SET id = 901"),
        ],
    ),
    "gone, new and renamed": (
        [
            ("a", "CREATE TABLE o_4 LIKE o_1"),
            ("a", "INSERT INTO o_4 VALUES (400, 'new', 400)"),
            ("a", "RENAME TABLE o_1 TO o_5"),
            ("a", "DROP TABLE o_2"),
            ("b", "INSERT INTO o_3 VALUES (201, 'moved', 201)"),
        ],
    ),
}  # fmt: skip


JOINS: dict[str, Sequence[Stage]] = {
    "in turns with those it joins": (
        [
            *alter(COLUMN, "o_1", "o_2"),
            ("a", "INSERT INTO o_1 (id, w) VALUES (180, 1); INSERT INTO o_2 (id, w) VALUES (301, 9)"),
            *alter("ADD KEY l (u)", "o_3"),
        ],
        [*alter(COLUMN, "o_3"), ("b", "DELETE FROM o_3 WHERE id = 301; INSERT INTO o_3 (id, w) VALUES (380, 2)")],
        [*alter("ADD KEY l (u)", "o_1", "o_2"), ("b", "UPDATE o_3 SET id = 390 WHERE id = 304")],
    ),
    "its own while it joins": (
        [
            *alter("DROP KEY u", "o_3"),
            ("b", "INSERT INTO o_3 VALUES (390, 'u', 305)"),
            ("b", "DELETE FROM o_3 WHERE id = 390"),
            *alter("ADD UNIQUE KEY u (u)", "o_3"),
            ("b", "CREATE TABLE o_4 LIKE o_3"),
            ("b", "INSERT INTO o_4 SELECT id + 1000, v, u + 1000 FROM o_3"),
            ("b", "RENAME TABLE o_3 TO o_5, o_4 TO o_3"),
            ("b", "DROP TABLE o_5"),
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", [*CHANGES, *JOINS])
def test_a_merged_table_is_copied_again_when_its_shards_are_alike(
    one_pair: Shops, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a source joins others, only its own part of the table is."""
    one_pair.task = PESSIMISTIC
    begin(one_pair)
    if what in JOINS:
        one_pair.load(["a"])
        one_pair.sync("a", only=True)
    copied_again = load(one_pair, {**CHANGES, **JOINS}[what], monkeypatch, at=2 if what in JOINS else 5)
    assert copied_again["b"].pop(f"{one_pair.schema}.o_3") == 1
    assert set(copied_again["b"]) <= {f"{one_pair.schema}.o_9"}
    finish(one_pair)


STEPS = [
    ("_doubt", "behind"), ("_renewals", "before"), ("_execute", "behind"), ("_expect", "before"), ("_expect", "behind"),
    ("_design", "behind"), ("_forget_records", "behind"), ("_begin", "before"), ("_begin", "behind"),
]  # fmt: skip


def dies(patch: pytest.MonkeyPatch, step: str, when: str) -> None:
    real = getattr(Watches, step)

    def dying(*arguments: Any, **named: Any) -> None:
        if when == "behind":
            real(*arguments, **named)
        raise ZeroDivisionError

    patch.setattr(Watches, step, dying)


def test_a_run_that_dies_at_any_step_goes_on(one_pair: Shops, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run after the other dies; the shards are altered once more on the way."""
    one_pair.task = PESSIMISTIC
    begin(one_pair)
    stages: list[Stage] = [alter("ADD COLUMN w int DEFAULT 4, ADD UNIQUE KEY w (w, id)", *SHARDS)]
    for number, step in enumerate(STEPS):
        with monkeypatch.context() as patch:
            dies(patch, *step)
            with pytest.raises(ZeroDivisionError):
                load(one_pair, stages, patch)
        stages = []
        if number == 0:
            with pytest.raises(OthersToCopyAgain):
                one_pair.load(["b"])
        if number == len(STEPS) // 2:
            for source, statement in alter("DROP COLUMN v", *SHARDS):
                one_pair.write(source, statement)
    with monkeypatch.context() as patch:
        ends, once = Watch.end, iter([alter("ADD COLUMN y int DEFAULT 2", *SHARDS)])

        def altered(watch: Any) -> Any:
            """Alter between Pend and the hand-over: no log that the sync follows would have it."""
            found = ends(watch)
            for source, statement in next(once, ()):
                one_pair.write(source, statement)
            return found

        patch.setattr(Watch, "end", altered)
        assert load(one_pair, [], patch)["b"] == {f"{one_pair.schema}.o_3": 1}
    finish(one_pair)


def test_no_other_run_joins_while_it_is_removed(one_pair: Shops, monkeypatch: pytest.MonkeyPatch) -> None:
    one_pair.task = PESSIMISTIC
    begin(one_pair)
    with monkeypatch.context() as patch:
        dies(patch, "_doubt", "behind")
        with pytest.raises(ZeroDivisionError):
            load(one_pair, [alter("ADD COLUMN w int", "o_1", "o_2")], patch, ["a"])
    one_pair.target.sql("DROP TABLE o", database=one_pair.schema)  # as that run does next
    with pytest.raises(OwnerCopiedAgain):
        one_pair.load(["b"])
    assert not one_pair.target.sql("SHOW TABLES", database=one_pair.schema)
    # In one run with those it may begin.
    once = iter(["ALTER TABLE o_3 ADD COLUMN w int"])
    monkeypatch.setattr(Watches, "wait", lambda watches: one_pair.write("b", *once) if watches.waits else None)
    one_pair.load()
    assert next(once, None) is None
    finish(one_pair)


@pytest.mark.parametrize(
    "way_out",
    [[*alter("ADD KEY k (v)", "o_1", "o_3")], alter("DROP KEY k", "o_2")],
    ids=["made in the others", "undone"],
)
def test_shards_that_stay_unlike_end_the_run_for_now(
    one_pair: Shops, way_out: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`shard-mode` does not matter."""
    begin(one_pair)
    wait = Watches.wait
    monkeypatch.setattr(again, "WAIT_SECONDS", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(Shops, "load", partialmethod(Shops.load, copied=lambda: patch.setattr(Watches, "wait", wait)))
        with pytest.raises(ShardsUnlike, match=r"o_1 \(a\) and .*o_2 \(a\) were the same"):
            load(one_pair, [alter("ADD KEY k (v)", "o_2")], patch)
    for source, statement in way_out:
        one_pair.write(source, statement)
    one_pair.load()
    one_pair.sync()
    assert one_pair.compared().equal


def test_a_visitor_whose_rows_are_recorded_by_another_key_removes_none(
    one_pair: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The values of its former key would find the rows of others. So the DDL waits for who has recorded by it,
    also where a person wants it run without that one; and where the target was altered by hand, the visitor stops.
    """
    one_pair.task = PESSIMISTIC
    one_pair.create("id int NOT NULL PRIMARY KEY, code int NOT NULL, UNIQUE KEY code (code)", "a:o_1", "b:o_3")
    one_pair.write("a", "INSERT INTO o_1 VALUES (1, 301), (2, 302), (3, 13)")
    one_pair.write("b", "INSERT INTO o_3 VALUES (301, 901), (302, 902), (303, 903)")
    one_pair.load(["a"])
    one_pair.sync("a", only=True)
    with monkeypatch.context() as patch:
        patch.setattr(migration, "ROUND_SECONDS", 0.0)
        patch.setattr(page, "FIRST_ROWS", 2)
        patch.setattr(Sharing, "look", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            one_pair.load(["b"])
    before = one_pair.rows()
    for source, table in ("a", "o_1"), ("b", "o_3"):
        one_pair.write(source, f"ALTER TABLE {table} DROP PRIMARY KEY, ADD PRIMARY KEY (code)")
    one_pair.sync("a")
    ((lock, _),) = locks_of(one_pair.store)
    unlock(one_pair.store, lock.id, owner=None, action=Action.EXEC, force=True)
    ((group,),) = [one.unresolved_groups for one in one_pair.sync("a")]
    assert group["waits"] == f"for {one_pair.schema}.o_3 of b, whose rows are recorded by the key as it is"
    monkeypatch.setattr(again, "WAIT_SECONDS", 0.0)
    for key in "code", "code, id":
        one_pair.target.sql(f"ALTER TABLE o DROP PRIMARY KEY, ADD PRIMARY KEY ({key})", database=one_pair.schema)
        with pytest.raises(RecordedKeyChanged):
            one_pair.load(["b"])
        assert one_pair.rows() == before
    one_pair.target.sql("ALTER TABLE o DROP PRIMARY KEY, ADD PRIMARY KEY (id)", database=one_pair.schema)
    with pytest.raises(ShardsUnlike):
        one_pair.load(["b"])
    one_pair.sync("a")
    one_pair.load(["b"])
    one_pair.sync("a", "b", "a", "b")
    assert one_pair.compared().equal, one_pair.compared()
    assert one_pair.meta_rows("dm_owner") == one_pair.meta_rows("dm_owner_key") == 0


VISITS = [("_forget_records", "before"), ("_begin", "behind")]


def test_a_run_that_dies_while_it_leaves_or_comes_back_goes_on(
    one_pair: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of the keys are too long to be kept whole."""
    one_pair.task = PESSIMISTIC
    one_pair.create("id varchar(99) NOT NULL PRIMARY KEY, v int", "a:o_1", "b:o_3")
    for number, table, source in ((1, "o_1", "a"), (3, "o_3", "b")):
        one_pair.write(source, *(f"INSERT INTO {table} VALUES ('{number}{one:0{20 * one}}', 1)" for one in range(5)))
    one_pair.load(["a"])
    one_pair.sync("a", only=True)
    stages: list[Stage] = [alter("ADD COLUMN w int DEFAULT 4, ADD UNIQUE KEY w (w, id)", "o_1", "o_3")]
    removed = departure._delete

    def dies_half_way(*arguments: Any) -> None:
        removed(*arguments)
        if len(arguments[4]) == 1:  # a key by which rows are looked for
            raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(departure, "ROWS_OF_A_TRANSACTION", 1)
        patch.setattr(departure, "_delete", dies_half_way)
        with pytest.raises(ZeroDivisionError):
            load(one_pair, stages, patch, at=2)
    for step in VISITS:
        with monkeypatch.context() as patch:
            dies(patch, *step)
            with pytest.raises(ZeroDivisionError):
                load(one_pair, [], patch)
    assert load(one_pair, [], monkeypatch) == {"a": {}, "b": {}}
    finish(one_pair)


def test_two_runs_that_copy_one_table_may_both_leave_it(one_pair: Shops, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then there is nobody to alter it for them, and the first to look makes it anew."""
    one_pair.task = PESSIMISTIC
    begin(one_pair)
    with monkeypatch.context() as patch:
        patch.setattr(migration, "ROUND_SECONDS", 0.0)
        patch.setattr(page, "FIRST_ROWS", 2)
        patch.setattr(Sharing, "look", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            one_pair.load()
    assert one_pair.rows()
    for source, statement in alter(COLUMN, *SHARDS):
        one_pair.write(source, statement)
    real, fellows = departure.remove_rows, iter(["b"])

    def beside(*arguments: Any) -> None:
        for name in fellows:
            with pytest.raises(ShardsUnlike, match="does not take the rows"):
                one_pair.load([name])
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(again, "WAIT_SECONDS", 0.0)
        patch.setattr(visiting, "remove_rows", beside)
        one_pair.load(["a"])
    one_pair.load(["b"])
    finish(one_pair)


@pytest.mark.parametrize("alone", [False, True])
def test_a_shard_that_is_created_as_the_copy_begins_is_copied(
    one_pair: Shops, alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes before P0 is in no log. `o_7`: before either source begins; `o_8`: between the two. `alone`: by a run
    of its own, which has no table that goes there."""
    one_pair.task = PESSIMISTIC
    one_pair.create("id int PRIMARY KEY", "a:o_1", "b:other")
    seventh, eighth = (
        iter([f"CREATE TABLE o_{one} (id int PRIMARY KEY)", f"INSERT INTO o_{one} VALUES ({one})"]) for one in (7, 8)
    )

    def created(*arguments: Any) -> Any:
        one_pair.write("b", *seventh)
        return create(*arguments)

    def marked(of: Endpoint, *tables: Any) -> Any:
        one_pair.write("b", *(eighth if of.name == "b" else ()))
        return low_watermark(of, *tables)

    if alone:
        one_pair.load(["a"])
        one_pair.sync("a", only=True)
    monkeypatch.setattr(start, "create", created)
    monkeypatch.setattr(start, "low_watermark", marked)
    one_pair.load(["b"] if alone else None)
    one_pair.sync()
    assert one_pair.rows() == [(7,), (8,)]


KEYLESS: dict[str, Stage] = {
    "in front of its rows": [
        ("b", "INSERT INTO o_3 VALUES (1, 'x'), (7, 'x')"),
        *alter("ADD COLUMN w int DEFAULT 7 FIRST, ADD KEY k (w)", "o_1", "o_3"),
        ("b", "INSERT INTO o_3 VALUES (1, 1, 'x')"),
        ("b", "CREATE TABLE o_5 LIKE o_3"),
        ("b", "INSERT INTO o_5 SELECT * FROM o_3"),
        ("b", "RENAME TABLE o_3 TO o_4"),
    ],
    "behind its rows": [
        ("b", "DELETE FROM o_3 WHERE id = 1 LIMIT 1"),
        ("b", "RENAME TABLE o_3 TO o_4"),
        ("b", "ALTER TABLE o_4 ADD COLUMN w int DEFAULT 7 FIRST, ADD KEY k (w)"),
        ("b", "INSERT INTO o_4 VALUES (1, 1, 'x')"),
        ("b", "ALTER TABLE o_4 MODIFY v varchar(40)"),
        ("b", "UPDATE o_4 SET v = REPEAT('v', 40)"),
        *alter("ADD COLUMN w int DEFAULT 7 FIRST, ADD KEY k (w)", "o_1"),
        *alter("MODIFY v varchar(40)", "o_1"),
    ],
    "gets a key behind its rows": [
        *((source, f"DELETE FROM {table}") for source, table in (("a", "o_1"), ("b", "o_3"))),
        ("b", "INSERT INTO o_3 VALUES (3, 'b'), (4, 'b')"),
        *alter("MODIFY id int NOT NULL, ADD PRIMARY KEY (id)", "o_3"),
        ("b", "UPDATE o_3 SET id = 5, v = 'B' WHERE id = 3; DELETE FROM o_3 WHERE id = 4"),
        ("a", "INSERT INTO o_1 VALUES (7, 'a')"),
        *alter("MODIFY id int NOT NULL, ADD PRIMARY KEY (id)", "o_1"),
        ("a", "UPDATE o_1 SET id = 4"),
    ],
}
"""What happens to tables without keys behind P0, or behind the last page; who syncs goes on beside it."""


@pytest.mark.parametrize("what", KEYLESS)
def test_a_table_without_a_key_that_others_fill_follows_ddl(
    one_pair: Shops, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_pair.task = PESSIMISTIC
    one_pair.create("id int, v varchar(20)", "a:o_1", "b:o_3")
    for source, table in ("a", "o_1"), ("b", "o_3"):
        one_pair.write(source, f"INSERT INTO {table} VALUES (1, 'x'), (1, 'x'), (2, 'x')")
    one_pair.load(["a"])
    one_pair.sync("a", only=True)
    once = iter([KEYLESS[what]])

    def happen() -> Any:
        for source, statement in next(once, ()):
            one_pair.write(source, statement)

    monkeypatch.setattr(Watches, "wait", lambda watches: one_pair.sync("a", only=True) if watches.waits else None)
    behind = what.endswith("behind its rows")
    if not behind:
        monkeypatch.setattr(copier, "copy_whole_table", lambda *job: happen() or copy_whole_table(*job))
    result = one_pair.load(["b"], copied=happen if behind else None)["sources"]["b"]
    assert next(once, None) is None
    assert sum(result["copied_again"].values()) == (0 if behind else 2)
    rounds = range(6)  # as held rows wait for several DDL
    assert any(not any(one.unresolved_groups for one in one_pair.sync("b", "a")) for _ in rounds)
    finish(one_pair)


NEWCOMERS = {
    "made anew": (
        "CREATE TABLE o_9 (id int PRIMARY KEY, v int)",
        "CREATE TABLE o_7 LIKE o_9",
        "RENAME TABLE o_7 TO o_8",
    ),
    "renamed": ("RENAME TABLE p TO o_9", "CREATE TABLE p (id int PRIMARY KEY, v int)"),
}


@pytest.mark.parametrize("how", NEWCOMERS)
def test_a_new_shard_of_a_table_that_others_fill_comes_by_the_log(
    one_pair: Shops, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while another table is copied again, unless it is that one, renamed."""
    one_pair.task = PESSIMISTIC
    one_pair.create("id int PRIMARY KEY, v int", "a:o_1", "b:p")
    one_pair.write("a", "INSERT INTO o_1 VALUES (1, 1)")
    one_pair.write("b", "INSERT INTO p VALUES (1, 1), (2, 2), (3, 3)")
    one_pair.load(["a"])
    one_pair.sync("a", only=True)
    stage: Stage = [("b", one) for one in (*NEWCOMERS[how], "INSERT INTO o_9 VALUES (9, 9)", "ALTER TABLE p ADD w int")]
    if how == "renamed":
        with pytest.raises(SchemaChangedDuringCopy, match="o_9"):
            load(one_pair, [stage], monkeypatch, ["b"], at=1)
        return
    assert load(one_pair, [stage], monkeypatch, ["b"], at=1)["b"] == {f"{one_pair.schema}.p": 1}
    one_pair.sync("b", "a")
    assert one_pair.compared().equal, one_pair.compared()
    ours = one_pair.sources["b"].sql("SELECT * FROM p", database=one_pair.schema)
    assert one_pair.target.sql("SELECT * FROM p", database=one_pair.schema) == ours


BEHIND = {
    "all": ("RENAME TABLE o_3 TO o_4", "INSERT INTO o_4 VALUES (7, 'x')", "DROP TABLE o_5"),
    "full": ("ALTER TABLE o_3 ADD id2 int AUTO_INCREMENT PRIMARY KEY, DROP COLUMN v", "DROP TABLE o_5"),
}


@pytest.mark.parametrize("mode", BEHIND)
def test_what_comes_behind_a_whole_copy_needs_no_other_copy(one_pair: Shops, mode: str) -> None:
    """Without a key, and without `shard-mode`: the sync follows what it can, and task-mode full has copied it."""
    one_pair.task = {"task-mode": mode}
    one_pair.create("id int, v varchar(20)", "a:o_1", "b:o_3", "b:o_5")
    for source, table in ("a", "o_1"), ("b", "o_3"):
        one_pair.write(source, f"INSERT INTO {table} VALUES (1, 'x'), (1, 'x'), (2, 'x')")
    one_pair.load(["a"])
    one_pair.load(["b"], copied=lambda: one_pair.write("b", *BEHIND[mode]))
    if mode == "all":
        one_pair.sync("b", "a")
    assert len(one_pair.rows()) == (7 if mode == "all" else 6)


@pytest.mark.parametrize("mode", ["all", "full"])
def test_a_shard_comes_back_where_nobody_agrees_when_its_rows_fit_or_can_be_made_to(
    one_pair: Shops, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others never make its DDL: what the target lacks, it gets; their rows have the default."""
    one_pair.task = {"task-mode": mode}
    begin(one_pair)
    one_pair.load(["a"])
    if mode == "all":
        one_pair.sync("a", only=True)
    monkeypatch.setattr(again, "WAIT_SECONDS", 0.0)
    change = "ADD KEY k (v), MODIFY v varchar(9), ADD w int NOT NULL DEFAULT 7 FIRST, ADD COLUMN x varchar(9) NOT NULL"
    stage = [*alter(change, "o_3"), ("b", "INSERT INTO o_3 VALUES (9, 390, 'x', 390, 'X')")]
    assert load(one_pair, [stage], monkeypatch, ["b"], at=2)["b"] == {f"{one_pair.schema}.o_3": 1}
    if mode == "all":
        one_pair.sync("b", "a")
    found = one_pair.target.sql("SELECT id, v, u, w, x FROM o ORDER BY id", database=one_pair.schema)
    ours = one_pair.sources["b"].sql("SELECT id, v, u, w, x FROM o_3 ORDER BY id", database=one_pair.schema)
    others = [
        (*row, 7, None)
        for table in ("o_1", "o_2")
        for row in one_pair.sources["a"].sql(f"SELECT id, v, u FROM {table} ORDER BY id", database=one_pair.schema)
    ]
    assert found == [*others, *ours]


def test_one_of_two_tables_without_a_key_is_altered_in_front_of_its_copy(
    one_pair: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one's rows are there, and cannot be told from those of others: task-mode full leaves them alone."""
    one_pair.task = {"task-mode": "full"}
    one_pair.create("id int, v varchar(20)", "a:o_1", "b:o_3", "b:o_5")
    for source, table in ("a", "o_1"), ("b", "o_3"), ("b", "o_5"):
        one_pair.write(source, f"INSERT INTO {table} VALUES (1, 'x'), (1, 'x'), (2, 'x')")
    one_pair.load(["a"])
    once = iter(f"ALTER TABLE {table} DROP COLUMN v" for table in ("o_5", "o_3"))

    def copying(job: Any, *rest: Any) -> Any:
        if job.mapping.source.name.table == "o_5":
            while one_pair.meta_rows("dm_copy_chunk WHERE done AND source_table = 'o_3'") == 0:
                time.sleep(0.01)
            one_pair.write("b", *once)
        return copy_whole_table(job, *rest)

    monkeypatch.setattr(copier, "copy_whole_table", copying)
    assert one_pair.load(["b"])["sources"]["b"]["copied_again"] == {f"{one_pair.schema}.o_5": 1}
    found = one_pair.target.sql("SELECT id, COUNT(v) FROM o GROUP BY id ORDER BY id", database=one_pair.schema)
    assert found == [(1, 4), (2, 2)]
    assert len(one_pair.target.sql("SELECT id FROM o", database=one_pair.schema)) == 9


def test_ghosts_from_before_the_load_and_alters_behind_it_are_one_ddl_of_the_shards(one_pair: Shops) -> None:
    one_pair.task = PESSIMISTIC
    begin(one_pair)
    change = "ADD COLUMN w int NOT NULL DEFAULT 0 AFTER v, ADD COLUMN x varchar(9), DROP KEY u, ADD KEY k (x)"
    for table in ("o_1", "o_3"):
        ghost = f"CREATE TABLE _{table}_gho LIKE {table}", f"ALTER TABLE _{table}_gho {change}"
        one_pair.write(SHARDS[table], *ghost)
    one_pair.load()
    for source, statement in alter(change, "o_2"):
        one_pair.write(source, statement)
    for table in ("o_1", "o_3"):
        one_pair.write(
            SHARDS[table],
            f"INSERT INTO _{table}_gho (id, v, u) SELECT id, v, u FROM {table}",
            f"RENAME TABLE {table} TO _{table}_del, _{table}_gho TO {table}",
            f"DROP TABLE _{table}_del",
            f"UPDATE {table} SET w = id, x = v",
        )
    one_pair.sync("a", "b", "a", "b")
    assert columns(one_pair) == ["id", "v", "w", "u", "x"]
    finish(one_pair)
