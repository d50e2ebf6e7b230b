"""Tables are altered while they are loaded: the sync follows between two rounds, and both sides end the same."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from airflow_provider_dm.engine.copy import source_load
from airflow_provider_dm.engine.copy.errors import TablesWait
from airflow_provider_dm.engine.downstream import ddl_execution
from airflow_provider_dm.engine.downstream.session import run_transaction
from airflow_provider_dm.engine.downstream.table_definitions import Definition, save_definitions
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.meta.records import Operator, OperatorKind, SqlPattern
from airflow_provider_dm.engine.mysql.connection import connected
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.reading.chunks import TableSize
from airflow_provider_dm.engine.reading.errors import SchemaChangedDuringCopy
from airflow_provider_dm.engine.reading.survey import measure
from airflow_provider_dm.engine.schema.catalogue import read_tables
from airflow_provider_dm.engine.sync.errors import DdlNotSupported
from airflow_provider_dm.engine.sync.following import Following
from airflow_provider_dm.engine.sync.runner import LocalRunner
from testbed import Server
from tests.before import before
from tests.conftest import FreshSchema
from tests.integration.copy.altering import MOMENTS, SETUP, Kit
from tests.integration.copy.migrations import differences
from tests.integration.sync.conftest import rows_of
from tests.integration.sync.test_follows_ddl import definition, keys
from tests.jobs import endpoint

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
    "modify": ("ALTER TABLE a MODIFY v varchar(90)", "INSERT INTO a (v) VALUES (REPEAT('v', 88))"),
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
}
"""What happens to the tables at one moment."""
MANY = """CREATE TABLE m (
    id bigint unsigned NOT NULL AUTO_INCREMENT, e enum('p', 'q') NOT NULL DEFAULT 'q', s set('x', 'y'),
    d decimal(20,5) DEFAULT 1.5, at timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
    dt datetime DEFAULT '2020-01-01', t text, b blob, n tinyint(1) DEFAULT 1, y year, f float DEFAULT 0,
    c char(3) CHARACTER SET latin1 DEFAULT 'c', bits bit(9) DEFAULT b'101', vb varbinary(9),
    PRIMARY KEY (id), KEY k (e, d), UNIQUE KEY u (c, id)) COMMENT='many'"""


@pytest.mark.parametrize("moment", MOMENTS)
def test_columns_change_at_any_moment(kit: Kit, moment: str) -> None:
    """A column is added, one is dropped and comes back with the same name, and two swap their names: a snapshot from
    before shows the defaults of the new column, or those of swapped columns, without an error."""
    kit.write(("CREATE TABLE s (id int PRIMARY KEY, x int, y int)", "INSERT INTO s SELECT id, id, -id FROM a"))
    back = (
        "ALTER TABLE s DROP COLUMN x, ADD COLUMN x int DEFAULT 5 AFTER id",
        "ALTER TABLE b CHANGE v w varchar(40), CHANGE u v int",
        "INSERT INTO s (id) VALUES (77)",
    )
    kit.copy(moment, lambda: kit.write((*CHANGES["add"], *WRITES, *back)))
    kit.write(("ALTER TABLE a ADD COLUMN z int DEFAULT 5", "INSERT INTO a (id, v) VALUES (900, 'z')"))
    kit.sync()
    kit.check()


@pytest.mark.parametrize(("moment", "first"), [("between pages", 0), ("between rounds", 1), ("on resume", 2)])
def test_after_any_change_both_sides_are_equal(
    one_kit: Kit, fresh_schema: FreshSchema, moment: str, first: int
) -> None:
    """Each change has tables of its own, in a schema that it names, and all of them are copied at once."""
    source, target = one_kit.source, one_kit.migration.target
    kits = {
        what: replace(one_kit, schema=fresh_schema(source, target, suffix=f"_{what.replace(' ', '_')}"))
        for what in list(CHANGES)[first::3]
    }
    for kit in kits.values():
        kit.write(SETUP)
    one_kit.migration.schemas = {"one": [kit.schema for kit in kits.values()]}
    one_kit.migration.runner = LocalRunner(3 * len(kits))  # a reader for each table

    def happen() -> None:
        for what, kit in kits.items():
            kit.write((*WRITES, *CHANGES[what]))

    one_kit.copy(moment, happen, schemas=len(kits))
    for kit in kits.values():
        kit.write(("INSERT INTO b (id, v, u) VALUES (901, 'end', 901)",))
    one_kit.sync()
    for kit in kits.values():
        kit.check()


KEY = "ALTER TABLE a MODIFY id int NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY (v, id)"


def _dies(*_arguments: object) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("kind", "dies_at"), [(OperatorKind.SKIP, "the commit"), (OperatorKind.REPLACE, "the TRUNCATE")]
)
def test_an_emptied_table_whose_key_changes_needs_a_user(
    one_kit: Kit, kind: OperatorKind, dies_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is done in the place of the statement, the table is copied anew."""

    def happen() -> None:
        one_kit.write((*WRITES, KEY, "INSERT INTO a VALUES (4, 'n')"))
        with monkeypatch.context() as patch:
            if dies_at == "the commit":
                patch.setattr(Following, "_commit", _dies)
            else:
                before(patch, ddl_execution, "_send", lambda _, sql: _dies() if "TRUNCATE" in sql else None)
            one_kit.migration.stops(ZeroDivisionError)
        ((rows,),) = one_kit.migration.target.sql("SELECT COUNT(*) FROM a", database=one_kit.schema)
        assert (rows == 0) == (dies_at == "the commit")
        instead = [f"ALTER TABLE `{one_kit.schema}`.a COMMENT 'by hand'"] if kind is OperatorKind.REPLACE else []
        wanted = Operator("test", "one", kind, SqlPattern("DROP PRIMARY KEY"), tuple(instead))
        one_kit.store.put_operators([wanted])

    one_kit.write(["INSERT INTO a SELECT 1000 + id, v FROM a"])
    one_kit.copy("on resume", happen)
    one_kit.sync()
    assert rows_of(one_kit.migration.target, one_kit.schema, "a") == rows_of(one_kit.source, one_kit.schema, "a")


def test_a_definition_by_hand_with_another_key_waits_for_its_ddl(one_kit: Kit) -> None:
    """Else the table would be covered in the order of a key that it does not have. The remedy is its old definition."""
    name = TableName(one_kit.schema, "a")

    def give() -> str:
        ((_, shown),) = one_kit.source.sql("SHOW CREATE TABLE a", database=one_kit.schema)
        return str(shown)

    def take(shown: str) -> None:
        ref, given = one_kit.migration.claim()["one"].ref, {name: Definition(shown, by_hand=True)}
        run_transaction(one_kit.migration.spec.target.resolve(), lambda tx: save_definitions(tx, ref, given))

    def happen() -> None:
        before = give()
        one_kit.write((*WRITES, KEY, "INSERT INTO a VALUES (4, 'n')"))
        take(give())
        one_kit.migration.stops(InvalidInput, match="by another key")
        take(before)

    one_kit.write(["INSERT INTO a SELECT 1000 + id, v FROM a"])
    one_kit.copy("on resume", happen)
    one_kit.sync()
    one_kit.check()


def test_inserts_are_filtered_after_a_load_of_a_table_with_two_unique_keys(one_kit: Kit) -> None:
    """The load is exact, so a row that a change does not find was left out."""
    rule = {"schema-pattern": one_kit.schema, "table-pattern": "b", "events": ["insert"], "action": "Ignore"}
    one_kit.migration.task = {**one_kit.migration.task, "filters": {"rows": rule}}
    one_kit.migration.instance = {"filter-rules": ["rows"]}
    during = (
        "UPDATE b SET u = u + 100 WHERE id % 2 = 0",
        "DELETE FROM b WHERE id = 3",
        "UPDATE b SET u = 3 WHERE id = 4",
    )

    one_kit.copy("between pages", lambda: one_kit.write(during))
    one_kit.write(("INSERT INTO b VALUES (50, 'never', 50), (60, 'never', 60)", "UPDATE b SET u = 51 WHERE id = 50"))
    one_kit.write(
        ("UPDATE b SET u = 50 WHERE id = 1", "DELETE FROM b WHERE id = 50", "UPDATE b SET u = 1 WHERE id = 5")
    )
    one_kit.sync()

    left = [row for row in rows_of(one_kit.source, one_kit.schema, "b") if row[0] != 60]
    assert rows_of(one_kit.migration.target, one_kit.schema, "b") == left


def test_a_ghost_from_before_the_load_stops_the_sync_at_its_rename(one_kit: Kit) -> None:
    one_kit.write(("CREATE TABLE _a_gho LIKE a", "ALTER TABLE _a_gho ADD COLUMN w int"))
    one_kit.migration.finish()
    one_kit.write(("ALTER TABLE _a_gho ADD COLUMN x int", "RENAME TABLE a TO _a_del, _a_gho TO a"))
    with pytest.raises(DdlNotSupported, match=r"DM-6032.*its CREATE TABLE is unknown.*binlog-schema update"):
        one_kit.sync()


def test_tables_are_swapped_in_two_renames_during_the_load(one_kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """A load that waits for the second one too long continues after it."""
    ghost = ("CREATE TABLE _a_gho LIKE a", "ALTER TABLE _a_gho ADD w int DEFAULT 3")
    first = (*ghost, "INSERT INTO _a_gho (id, v) SELECT id, v FROM a", "RENAME TABLE a TO _a_del")
    with monkeypatch.context() as patch:
        patch.setattr(source_load, "WAITS_SECONDS", 1.5)
        patch.setattr(source_load, "ROUND_FAILURES", 1)
        with pytest.raises(TablesWait, match=r"\.a cannot be copied yet.*let the tool finish"):
            one_kit.copy("between pages", lambda: one_kit.write(first))
    one_kit.write(("RENAME TABLE _a_gho TO a", "INSERT INTO a (v) VALUES ('end')"))
    one_kit.migration.finish()
    one_kit.sync()
    one_kit.check()


def test_a_table_is_dropped_before_a_round_has_read_its_definition(
    one_kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    drops = iter(("DROP TABLE b",))
    before(monkeypatch, source_load, "read_tables", lambda *_: one_kit.write(tuple(drops)))
    one_kit.migration.finish()
    assert next(drops, None) is None
    one_kit.sync()
    one_kit.check()


def test_without_a_log_a_table_that_is_altered_stops_the_load(one_kit: Kit) -> None:
    one_kit.migration.task = {"task-mode": "full"}
    with pytest.raises(SchemaChangedDuringCopy):
        one_kit.copy("between rounds", lambda: one_kit.write(CHANGES["add"]))


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE a",
        "ALTER TABLE a CHANGE id i int",
        "ALTER TABLE a MODIFY id varchar(9); UPDATE a SET id = 'x' WHERE id = 3",
    ],
    ids=["gone", "renamed", "retyped"],
)
def test_a_table_that_was_altered_before_the_measurement_has_no_span(source: Server, schema: str, change: str) -> None:
    """The load begins; its log has the change of the table."""
    source.sql("CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (3), (9)", database=schema)
    at, name = endpoint("source", source), TableName(schema, "a")
    with connected(at) as connection:
        table = read_tables(connection, [name])[name]
    assert measure(at, [(table, 7)]) == [TableSize(name, 7, (3, 9))]
    source.sql(change, database=schema)
    assert measure(at, [(table, 7)]) == [TableSize(name, 7, None)]


def test_a_table_that_is_created_after_the_load_does_not_stop_its_next_run(one_kit: Kit) -> None:
    one_kit.migration.finish()
    one_kit.write(("CREATE TABLE c LIKE a", "INSERT INTO c SELECT * FROM a"))
    one_kit.migration.finish()
    one_kit.sync()
    one_kit.check()


def test_a_table_of_many_types_is_altered_between_rounds(kit: Kit) -> None:
    kit.write((MANY, "INSERT INTO m (id, t) VALUES (1, 'one'), (2, 'two'), (3, 'three'), (4, 'four'), (5, 'five')"))
    changes = ("ALTER TABLE m ADD w int NOT NULL DEFAULT 4 FIRST", "ALTER TABLE m MODIFY t varchar(50), DROP KEY k")
    kit.copy("between rounds", lambda: kit.write(changes))
    kit.sync()
    assert definition(kit.migration.target, kit.schema) == kit.wanted()
    assert keys(kit.migration.target, kit.schema) == keys(kit.source, kit.schema)
    report = differences(kit.migration.target, {f"{kit.schema}.m": [(kit.source, f"{kit.schema}.m")]})
    assert report.equal, report


def test_a_schema_without_a_table_gets_its_tables_by_the_log(kit: Kit) -> None:
    kit.write(["DROP TABLE a, b, nokey"])
    kit.copy(
        "before F0", lambda: kit.write(["CREATE TABLE early (id int PRIMARY KEY)", "INSERT INTO early VALUES (1)"])
    )
    kit.write(["CREATE TABLE late (id int PRIMARY KEY)", "INSERT INTO late VALUES (2)", "INSERT INTO early VALUES (2)"])
    kit.sync()
    kit.check()
    assert {str(one[0]) for one in definition(kit.migration.target, kit.schema)} == {"early", "late"}
