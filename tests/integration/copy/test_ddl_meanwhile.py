"""Tables are altered while they are copied: each is copied again, or the sync follows, and both sides end the same.

The moments: before the survey's tables have a place in the log, in front of the first page, between two pages, between
the last page and the hand-over, and while no run is there. Behind the copy the sync replays the whole log.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dm.engine.copy import begin, page
from airflow_provider_dm.engine.copy.again import Watches
from airflow_provider_dm.engine.copy.design import TargetNotEmpty
from airflow_provider_dm.engine.copy.migration import Finished, Stopped
from airflow_provider_dm.engine.copy.watermark import low_watermark
from airflow_provider_dm.engine.meta.migrate import migrate
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.chunks import TableSize
from airflow_provider_dm.engine.reading.source_session import SchemaChangedDuringCopy
from airflow_provider_dm.engine.reading.survey import measure
from airflow_provider_dm.engine.rules.mapping import TargetTableMismatch
from airflow_provider_dm.engine.schema.catalogue import read_tables
from airflow_provider_dm.engine.sync.begin import SyncSource
from airflow_provider_dm.engine.sync.run import SyncResult, run_sync
from airflow_provider_dm.engine.sync.runner import LocalRunner
from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.copy.migrations import Migration, differences, endpoint
from tests.integration.copy.test_purge_while_beginning import META_VARIABLE, relay_of
from tests.integration.sync.conftest import rows_of
from tests.integration.sync.test_follows_ddl import definition, keys

SETUP = (
    "CREATE TABLE a (id int PRIMARY KEY AUTO_INCREMENT, v varchar(40))",
    "INSERT INTO a (v) VALUES ('one'), ('two'), ('three'), ('4'), ('5'), ('6'), ('7'), ('8'), ('9'), ('10')",
    "CREATE TABLE b (id int PRIMARY KEY, v varchar(40), u int, UNIQUE KEY u (u))",
    "INSERT INTO b SELECT id, v, id FROM a",
    "CREATE TABLE nokey (v varchar(40))",
    "INSERT INTO nokey SELECT v FROM a",
)
WRITES = (
    "UPDATE a SET v = CONCAT(v, 'x') WHERE id % 2 = 0",
    "DELETE FROM a WHERE id = 3",
    "INSERT INTO a (id, v) VALUES (100, '100')",
    "INSERT INTO nokey VALUES ('8'), ('new')",
    "DELETE FROM nokey WHERE v = '9'",
)

CHANGES: dict[str, Sequence[str]] = {
    "add": ("ALTER TABLE a ADD COLUMN w int NOT NULL DEFAULT 7 FIRST", "UPDATE a SET w = id"),
    "drop": ("ALTER TABLE a DROP COLUMN v",),
    "modify": ("UPDATE a SET v = id", "ALTER TABLE a MODIFY v bigint", "INSERT INTO a (v) VALUES (12345678901)"),
    "rename column": ("ALTER TABLE a CHANGE v w varchar(60)", "INSERT INTO a (w) VALUES ('w')"),
    "back and forth": (
        "ALTER TABLE b DROP KEY u",
        "INSERT INTO b VALUES (77, 'x', 3)",
        "DELETE FROM b WHERE id = 77",
        "ALTER TABLE b ADD UNIQUE KEY u (u)",
    ),
    "key": (
        "ALTER TABLE a MODIFY id int NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY (v, id)",
        "INSERT INTO a VALUES (4, 'n')",
    ),
    "no key any more": (
        "ALTER TABLE a MODIFY id int NOT NULL, DROP PRIMARY KEY",
        "INSERT INTO a VALUES (4, 'n'), (4, 'n')",
    ),
    "key of the keyless": (
        "ALTER TABLE nokey ADD id bigint AUTO_INCREMENT PRIMARY KEY",
        "INSERT INTO nokey (v) VALUES ('k')",
    ),
    "keyless": (
        "ALTER TABLE nokey ADD w int DEFAULT 4",
        "INSERT INTO nokey VALUES ('k', 5), ('k', 5)",
        "DELETE FROM nokey WHERE v = '8'",
    ),
    "truncate": (
        "TRUNCATE TABLE a",
        "INSERT INTO a VALUES (1, 'again')",
        "TRUNCATE TABLE nokey",
        "INSERT INTO nokey VALUES ('x')",
    ),
    "drop and create": ("DROP TABLE a", "CREATE TABLE a (k varchar(9) PRIMARY KEY)", "INSERT INTO a VALUES ('k')"),
    "gone": ("DROP TABLE a, nokey",),
    "renamed": ("RENAME TABLE a TO c, nokey TO d", "INSERT INTO c VALUES (55, 'c')", "INSERT INTO d VALUES ('c')"),
    "altered and renamed": ("ALTER TABLE a ADD x int, RENAME TO c", "INSERT INTO c VALUES (55, 'c', 6)"),
    "swapped": (
        "CREATE TABLE c LIKE a",
        "INSERT INTO c VALUES (5, 'c')",
        "RENAME TABLE a TO tmp, c TO a, tmp TO c",
        "INSERT INTO a VALUES (6, 'a')",
        "INSERT INTO c VALUES (66, 'c')",
    ),
    "rotated and gone": (
        "CREATE TABLE c LIKE a",
        "RENAME TABLE a TO old, c TO a",
        "INSERT INTO a VALUES (6, 'a')",
        "UPDATE old SET v = 1",
        "CREATE TABLE like_it LIKE a",
        "INSERT INTO like_it VALUES (1, 'x')",
        "DROP TABLE like_it",
        "DROP TABLE old",
    ),
    "new": (
        "CREATE TABLE c LIKE b",
        "INSERT INTO c VALUES (1, 'one', 1)",
        "CREATE TABLE d (k int PRIMARY KEY)",
        "INSERT INTO d VALUES (1)",
        "DROP TABLE d",
    ),
    "index": ("CREATE INDEX i ON a (v)", "ALTER TABLE b COMMENT 'b'"),
    "gh-ost": (
        "CREATE TABLE _a_gho LIKE a",
        "ALTER TABLE _a_gho ADD COLUMN w int NOT NULL DEFAULT 3",
        "CREATE TABLE _a_ghc (id bigint AUTO_INCREMENT PRIMARY KEY, hint varchar(64))",
        "INSERT INTO _a_gho (id, v) SELECT id, v FROM a",
        "CREATE TABLE _a_del (id int PRIMARY KEY)",
        "DROP TABLE _a_del",
        "RENAME TABLE a TO _a_del, _a_gho TO a",
        "DROP TABLE _a_del, _a_ghc",
        "INSERT INTO a VALUES (500, 'five', 5)",
    ),
    "gh-ost from before": (
        "ALTER TABLE _b_gho ADD COLUMN w int",
        "INSERT INTO _b_gho (id, v, u) SELECT id, v, u FROM b",
        "RENAME TABLE b TO _b_del, _b_gho TO b",
        "INSERT INTO b VALUES (500, 'five', 500, 5)",
    ),
}
"""What happens to the tables at one moment. The second one of gh-ost has its ghost from before the task began."""
MANY = """CREATE TABLE m (
    id bigint unsigned NOT NULL AUTO_INCREMENT, e enum('p', 'q') NOT NULL DEFAULT 'q', s set('x', 'y'),
    d decimal(20,5) DEFAULT 1.5, at timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
    dt datetime DEFAULT '2020-01-01', t text, b blob, n tinyint(1) DEFAULT 1, y year, f float DEFAULT 0,
    c char(3) CHARACTER SET latin1 DEFAULT 'c', bits bit(9) DEFAULT b'101', vb varbinary(9),
    PRIMARY KEY (id), KEY k (e, d), UNIQUE KEY u (c, id)) COMMENT='many'"""
MOMENTS = ("before P0", "before the first page", "between pages", "behind the last page", "on resume")


@dataclass
class Kit:
    """One task of mode all, with a relay, from its copy to the end of its sync."""

    migration: Migration
    store: MetaStore
    schema: str
    slow: pytest.MonkeyPatch
    results: list[dict[str, Any]] = field(default_factory=list)

    @property
    def source(self) -> Server:
        return self.migration.sources["one"]

    def write(self, statements: Sequence[str]) -> None:
        for statement in statements:
            self.source.sql(statement, database=self.schema)

    def copy(self, at: str, what: Callable[[], None]) -> dict[str, Any]:
        """Copy, and let `what` happen once at a moment."""
        once = iter([what])

        def happen() -> None:
            next(once, lambda: None)()

        run, hooks = LocalRunner(2).run, dict[str, Any]()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(page, "FIRST_ROWS", 2)
            patch.setattr(page, "MOST_ROWS", 2)
            match at:
                case "before P0":
                    patch.setattr(begin, "low_watermark", _first(low_watermark, happen))
                case "before the first page":
                    patch.setattr(self.migration, "run", _first(run, happen))
                case "between pages":
                    reads = page.PageReader.page
                    patch.setattr(page.PageReader, "page", _at_second(reads, happen))
                case "behind the last page":
                    patch.setattr(self.migration, "run", _then(run, happen))
                case "on resume":
                    patch.setattr("airflow_provider_dm.engine.copy.migration.ROUND_SECONDS", 0.0)
                    rounds = iter([False, True])
                    assert isinstance(self.migration.go(stop=lambda: next(rounds)), Stopped)
                    happen()
            outcome = self.migration.go(**hooks)
        assert isinstance(outcome, Finished)
        assert next(once, None) is None, f"nothing happened {at}"
        result: dict[str, Any] = outcome.result["sources"]["one"]
        return result

    def sync(self) -> SyncResult:
        fence = self.migration.claim()["one"]
        spec = self.migration.spec.model_copy(update={"app": "incremental_sync", "until": "caught-up"})
        return run_sync(SyncSource.of(spec, fence), LocalRunner(2), self.store, threading.Event())

    def check(self) -> None:
        """Every table, column, key and row is the same on both sides."""
        source, target, schema = self.source, self.migration.target, self.schema
        ours = [one for one in definition(source, schema) if not str(one[0]).startswith("_")]
        assert definition(target, schema) == ours
        assert keys(target, schema) == [one for one in keys(source, schema) if not str(one[0]).startswith("_")]
        for table in sorted({str(one[0]) for one in ours}):
            assert rows_of(target, schema, table) == rows_of(source, schema, table), table


def _first(step: Callable[..., Any], happen: Callable[[], None]) -> Callable[..., Any]:
    def stepped(*arguments: Any, **named: Any) -> Any:
        happen()
        return step(*arguments, **named)

    return stepped


def _then(step: Callable[..., Any], happen: Callable[[], None]) -> Callable[..., Any]:
    def stepped(*arguments: Any, **named: Any) -> Any:
        found = step(*arguments, **named)
        happen()
        return found

    return stepped


def _at_second(step: Callable[..., Any], happen: Callable[[], None]) -> Callable[..., Any]:
    calls, lock = iter(range(1_000_000)), threading.Lock()

    def stepped(*arguments: Any, **named: Any) -> Any:
        with lock:
            if next(calls) == 3:
                happen()
        return step(*arguments, **named)

    return stepped


def kit_of(
    source: Server, target: Server, fresh_schema: FreshSchema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Kit]:
    schema = fresh_schema(source, target)
    url = f"sqlite:///{tmp_path}/meta.db"
    migrate(url)
    monkeypatch.setenv(META_VARIABLE, url)
    source.sql("FLUSH BINARY LOGS")
    migration = Migration(
        target,
        {"one": source},
        {"one": [schema]},
        f"{schema}_meta",
        task={"task-mode": "all"},
        relay_dir=str(tmp_path / "relay"),
    )
    with MetaStore.open(url) as store, relay_of(migration.spec.sources[0], url, tmp_path):
        kit = Kit(migration, store, schema, monkeypatch)
        kit.write(SETUP)
        yield kit


@pytest.fixture
def kit(
    source: Server, target: Server, fresh_schema: FreshSchema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Kit]:
    yield from kit_of(source, target, fresh_schema, tmp_path, monkeypatch)


@pytest.fixture
def one_kit(
    mysql_source: Server,
    mariadb_target: Server,
    fresh_schema: FreshSchema,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Kit]:
    yield from kit_of(mysql_source, mariadb_target, fresh_schema, tmp_path, monkeypatch)


@pytest.mark.by_turns
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_column_comes_at_any_moment(kit: Kit, moment: str) -> None:
    result = kit.copy(moment, lambda: kit.write((*CHANGES["add"], *WRITES)))
    assert result["copied_again"] == {f"{kit.schema}.a": 1}
    kit.write(("ALTER TABLE a ADD COLUMN z int DEFAULT 5", "INSERT INTO a (id, v) VALUES (900, 'z')"))
    kit.sync()
    kit.check()


@pytest.mark.parametrize(
    ("what", "moment"), list(zip(CHANGES, itertools.cycle(["between pages", "on resume"]), strict=False))
)
def test_whatever_is_changed_both_sides_end_the_same(one_kit: Kit, what: str, moment: str) -> None:
    one_kit.write(("CREATE TABLE _b_gho LIKE b",))
    one_kit.copy(moment, lambda: one_kit.write((*WRITES, *CHANGES[what])))
    one_kit.write(("INSERT INTO b (id, v, u) VALUES (901, 'end', 901)",))
    one_kit.sync()
    one_kit.check()


def test_a_table_that_is_altered_again_and_again_is_copied_as_often(one_kit: Kit) -> None:
    numbers = iter(range(3))
    run = LocalRunner(2).run

    def altering(*arguments: Any) -> Any:
        found = run(*arguments)
        number = next(numbers, None)
        if number is not None:
            one_kit.write(
                (f"ALTER TABLE a ADD c{number} int DEFAULT {number}", f"INSERT INTO a (v) VALUES ('{number}')")
            )
        return found

    one_kit.migration.run = altering
    result = one_kit.migration.finish()["sources"]["one"]
    assert result["copied_again"] == {f"{one_kit.schema}.a": 3}
    one_kit.sync()
    one_kit.check()


def test_what_is_altered_behind_its_last_page_comes_by_the_log(one_kit: Kit) -> None:
    """A table that was seen unchanged behind its last page is not copied again, whatever the others do."""
    looked = Watches.look

    def altered_behind(watches: Watches, **how: Any) -> bool:
        found = looked(watches, **how)
        if watches.each[0].sealed == frozenset({TableName(one_kit.schema, name) for name in ("a", "b", "nokey")}):
            one_kit.write(("ALTER TABLE a ADD w int NOT NULL DEFAULT 3", "TRUNCATE TABLE b", "DROP TABLE nokey"))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Watches, "look", altered_behind)
        result = one_kit.migration.finish()["sources"]["one"]
    assert result["copied_again"] == {}
    one_kit.sync()
    one_kit.check()


@pytest.mark.parametrize(
    ("when", "step"),
    [("before", "_doubt"), ("before", "_renew"), ("before", "_expect"), ("behind", "_expect"), ("before", "_begin"),
     ("behind", "_begin")],
)  # fmt: skip
def test_a_run_that_dies_while_it_begins_again_goes_on(one_kit: Kit, step: str, when: str) -> None:
    """Also if the tables are altered once more until then."""
    real = getattr(Watches, step)

    def dies(*arguments: Any) -> None:
        if when == "behind":
            real(*arguments)
        raise ZeroDivisionError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Watches, step, dies)
        with pytest.raises(ZeroDivisionError):
            one_kit.copy(
                "between pages", lambda: one_kit.write((*CHANGES["modify"], "DROP TABLE nokey", *CHANGES["new"]))
            )
    one_kit.migration.run = LocalRunner(2).run
    one_kit.write(("ALTER TABLE a ADD once_more int", "ALTER TABLE c ADD once_more int", "CREATE TABLE nokey (x int)"))
    one_kit.migration.finish()
    one_kit.sync()
    one_kit.check()


@pytest.mark.by_turns
def test_without_a_log_it_is_copied_again_as_well(kit: Kit) -> None:
    kit.migration.task = {"task-mode": "full"}
    result = kit.copy("behind the last page", lambda: kit.write((*WRITES, *CHANGES["add"], "DROP TABLE b")))
    assert result["copied_again"] == {f"{kit.schema}.a": 1}
    assert definition(kit.migration.target, kit.schema) == definition(kit.source, kit.schema)
    assert rows_of(kit.migration.target, kit.schema, "a") == rows_of(kit.source, kit.schema, "a")


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE a",
        "ALTER TABLE a CHANGE id i int",
        "ALTER TABLE a MODIFY id varchar(9); UPDATE a SET id = 'x' WHERE id = 3",
    ],
    ids=["gone", "renamed", "retyped"],
)
def test_what_is_altered_before_it_is_measured_is_not_measured(
    source: Server, fresh_schema: FreshSchema, change: str
) -> None:
    """As the copy begins, and as it begins again: its next look finds what has become of the table."""
    schema = fresh_schema(source)
    source.sql("CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (3), (9)", database=schema)
    at, name = endpoint("source", source), TableName(schema, "a")
    with connected(at) as connection:
        table = read_tables(connection, [name])[name]
    assert measure(at, [(table, 7)]) == [TableSize(name, 7, (3, 9))]
    source.sql(change, database=schema)
    assert measure(at, [(table, 7)]) == [TableSize(name, 7, None)]


def test_a_table_that_a_person_has_made_is_emptied_or_refused(one_kit: Kit) -> None:
    target, schema = one_kit.migration.target, one_kit.schema
    target.sql("CREATE TABLE a (id bigint PRIMARY KEY, v varchar(99), KEY mine (v))", database=schema)

    with pytest.raises(TargetTableMismatch) as refused:
        one_kit.copy("between pages", lambda: one_kit.write(("ALTER TABLE a ADD w int, MODIFY v varchar(50)",)))
    assert "ADD COLUMN `w` int" in refused.value.workaround()
    target.sql("ALTER TABLE a ADD COLUMN w int", database=schema)
    one_kit.migration.run = LocalRunner(2).run
    one_kit.migration.finish()
    assert ("a", "mine", 1, 1, "v") in keys(target, schema)
    one_kit.sync()
    assert rows_of(target, schema, "a") == rows_of(one_kit.source, schema, "a")


def test_a_copy_that_may_overwrite_rows_goes_on_by_the_columns_that_are_left(one_kit: Kit) -> None:
    """Nobody knows whose rows are in the target, so that nothing is removed: the sync follows what the log tells."""
    target, schema = one_kit.migration.target, one_kit.schema
    one_kit.migration.task = {"task-mode": "all", "loaders": {"over": {"on-duplicate-logical": "replace"}}}
    one_kit.migration.instance = {"loader-config-name": "over"}
    one_kit.write(
        [
            "CREATE TABLE c (id int PRIMARY KEY, lost varchar(40) NOT NULL, n int NOT NULL, again int NOT NULL)",
            "INSERT INTO c SELECT id, v, id, id FROM a",
        ]
    )
    altered = [
        "INSERT INTO a (id, v) VALUES (900, 'between')",
        "ALTER TABLE a ADD x int NOT NULL DEFAULT 4 FIRST, ADD KEY x (x), ADD y timestamp DEFAULT CURRENT_TIMESTAMP",
        "INSERT INTO a (id, x) VALUES (50, 1), (901, 2)",
        "UPDATE a SET x = 5 WHERE id IN (2, 900)",
        "DELETE FROM a WHERE id = 1",
        "ALTER TABLE a MODIFY v varchar(200), MODIFY id bigint AUTO_INCREMENT",
        "UPDATE a SET v = REPEAT('v', 99) WHERE id IN (3, 4, 9)",
        "INSERT INTO a (id) VALUES (3000000000)",
        "UPDATE c SET lost = 'last', n = -n WHERE id IN (2, 8)",
        "ALTER TABLE c DROP COLUMN lost, MODIFY n bigint",
        "UPDATE c SET n = n << 40 WHERE id IN (5, 7)",
        "UPDATE c SET n = NULL WHERE id = 6",
        "ALTER TABLE c DROP COLUMN again, ADD KEY n (n)",
        "ALTER TABLE c ADD COLUMN again int NOT NULL DEFAULT 7",
        "UPDATE c SET again = 1 WHERE id = 10",
        "ALTER TABLE b ADD x int UNIQUE",
    ]
    with pytest.raises(SchemaChangedDuringCopy, match=f"{schema}.b was changed while it was copied"):
        one_kit.copy("between pages", lambda: one_kit.write(altered))
    one_kit.write(["ALTER TABLE b DROP COLUMN x", "UPDATE a SET v = 'late' WHERE id = 3"])
    target.sql("INSERT INTO a (id) VALUES (-7)", database=schema)
    one_kit.migration.finish()
    one_kit.sync()
    ours, theirs = (rows_of(server, schema, "a") for server in (one_kit.source, target))
    assert [row[1] for row in theirs if row not in ours] == [-7]
    assert [row for row in ours if row not in theirs] == []
    for table in "b", "c":
        assert rows_of(target, schema, table) == rows_of(one_kit.source, schema, table)
    assert definition(target, schema) == definition(one_kit.source, schema)


def test_a_copy_that_may_overwrite_rows_stops_where_nobody_knows_what_is_left(one_kit: Kit) -> None:
    """The table looks as before, but for the places of two columns."""
    one_kit.migration.task = {"task-mode": "all", "loaders": {"over": {"on-duplicate-logical": "replace"}}}
    one_kit.migration.instance = {"loader-config-name": "over"}
    one_kit.write(["ALTER TABLE b ADD x varchar(40)", "UPDATE b SET x = REVERSE(v)"])
    swap = "ALTER TABLE b CHANGE v x varchar(40), CHANGE x v varchar(40)"
    with pytest.raises(SchemaChangedDuringCopy, match="renamed to"):
        one_kit.copy("between pages", lambda: one_kit.write([swap]))


def test_a_copy_that_may_overwrite_rows_stops_where_columns_come_before_its_log(one_kit: Kit) -> None:
    one_kit.migration.task = {"task-mode": "all", "loaders": {"over": {"on-duplicate-logical": "replace"}}}
    one_kit.migration.instance = {"loader-config-name": "over"}
    with pytest.raises(SchemaChangedDuringCopy, match=f"{one_kit.schema}.a was changed while it was copied"):
        one_kit.copy("before P0", lambda: one_kit.write(("ALTER TABLE a ADD w int NOT NULL DEFAULT 9",)))


def test_a_name_that_goes_to_the_same_target_is_copied_in_its_place(one_kit: Kit) -> None:
    """A plain table that becomes a shard, too: its rows are in no log."""
    route = {"schema-pattern": one_kit.schema, "target-schema": one_kit.schema, "target-table": "all"}
    one_kit.migration.task = {"task-mode": "all", "routes": {"r": route | {"table-pattern": "[ac]*"}}}
    one_kit.migration.instance = {"route-rules": ["r"]}
    one_kit.write(("CREATE TABLE plain LIKE a", "INSERT INTO plain VALUES (501, 'plain')"))
    moves = ("RENAME TABLE a TO c", "INSERT INTO c VALUES (77, 'c')", "RENAME TABLE plain TO c2", "UPDATE c2 SET v = 2")
    one_kit.copy("between pages", lambda: one_kit.write(moves))
    one_kit.write(("INSERT INTO c2 VALUES (502, 'c2')",))
    one_kit.sync()
    found = differences(
        one_kit.migration.target,
        {f"{one_kit.schema}.all": [(one_kit.source, f"{one_kit.schema}.{x}") for x in ("c", "c2")]},
    )
    assert found.equal, found


def test_rows_of_somebody_else_are_not_removed(one_kit: Kit) -> None:
    """The target has a table of the name of a new one; also where the run is begun again."""
    target, schema = one_kit.migration.target, one_kit.schema
    target.sql(
        "CREATE TABLE c (id int PRIMARY KEY, v varchar(40), u int); INSERT INTO c VALUES (5, 'mine', 5)",
        database=schema,
    )
    with pytest.raises(TargetNotEmpty, match=f"{schema}.c already has rows"):
        one_kit.copy("between pages", lambda: one_kit.write((*CHANGES["new"], "ALTER TABLE a ADD w int")))
    one_kit.migration.run = LocalRunner(2).run
    with pytest.raises(TargetNotEmpty):
        one_kit.migration.finish()
    assert target.sql("SELECT v FROM c", database=schema) == [("mine",)]
    target.sql("DROP TABLE c", database=schema)
    one_kit.migration.finish()
    one_kit.sync()
    one_kit.check()


def test_a_table_that_is_created_behind_the_load_does_not_stop_its_next_run(one_kit: Kit) -> None:
    one_kit.migration.finish()
    one_kit.write(("CREATE TABLE c LIKE a", "INSERT INTO c SELECT * FROM a"))
    one_kit.migration.finish()
    one_kit.sync()
    one_kit.check()


@pytest.mark.by_turns
def test_a_table_of_many_types_is_created_anew_as_often_as_it_is_altered(kit: Kit) -> None:
    """What the task has created it knows again, however the target's server writes it."""
    kit.write((MANY, "INSERT INTO m (id, t) VALUES (1, 'one'), (2, 'two'), (3, 'three'), (4, 'four'), (5, 'five')"))
    changes = iter(
        ("ALTER TABLE m ADD w int NOT NULL DEFAULT 4 FIRST", "ALTER TABLE m MODIFY t varchar(50), DROP KEY k")
    )
    run = LocalRunner(2).run

    def altering(*arguments: Any) -> Any:
        found = run(*arguments)
        kit.write(tuple(change for change in [next(changes, None)] if change))
        return found

    kit.migration.run = altering
    result = kit.migration.finish()["sources"]["one"]
    assert result["copied_again"] == {f"{kit.schema}.m": 2}
    kit.sync()
    assert definition(kit.migration.target, kit.schema) == definition(kit.source, kit.schema)
    assert keys(kit.migration.target, kit.schema) == keys(kit.source, kit.schema)
    report = differences(kit.migration.target, {f"{kit.schema}.m": [(kit.source, f"{kit.schema}.m")]})
    assert report.equal, report
