"""Sync of columns that are not just a value: what the log has of them becomes the target's row again."""

from collections.abc import Sequence
from random import Random
from typing import Final

import pytest

from airflow_provider_dm.engine.binlog.errors import PartialRowImage
from airflow_provider_dm.engine.downstream.errors import TargetWarned
from airflow_provider_dm.engine.downstream.row_statements import SqlStatement, Verb
from airflow_provider_dm.engine.downstream.session import execute, run_transaction
from airflow_provider_dm.engine.mysql.connection import Connection, query
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.rules.errors import TargetTableMismatch
from testbed import Server
from tests.conftest import FreshSchema
from tests.exactness import oracle, tables
from tests.exactness.documents import JSON
from tests.exactness.numbers import NUMBERS
from tests.exactness.others import ADDRESSES, COMPRESSED, COMPUTED, GEOMETRY, HIDDEN, VECTOR
from tests.exactness.samples import SAMPLES
from tests.exactness.sorts import Sample
from tests.exactness.strings import MEMBERS
from tests.integration.sync.conftest import SyncKit
from tests.jobs import endpoint

SJIS: Final = [sample for sample in SAMPLES if any("sjis" in sort.ddl for sort in sample.sorts)]
SPECIAL: Final = (NUMBERS, MEMBERS, JSON, GEOMETRY, VECTOR, ADDRESSES, COMPRESSED, COMPUTED, HIDDEN, *SJIS)
ROWS: Final = 20


def unequal(kit: SyncKit, sample: Sample) -> list[tuple[object, object]]:
    documents = frozenset(f"c{number}" for number, _ in enumerate(sample.sorts)) if sample is JSON else frozenset()
    as_utf8 = kit.target.flavour == "tidb"
    ours, theirs = (
        oracle.cells(server, kit.schema, sample.name, documents=documents, as_utf8=as_utf8)
        for server in (kit.source, kit.target)
    )
    if kit.target.flavour != "mysql":
        ours = oracle.without_minus_zero(ours)
    if len(ours) != len(theirs):
        return [(len(ours), len(theirs))]
    pairs = [
        (f"c{number - 1} of row {row[0]!r}", *cells)
        for row, there in zip(ours, theirs, strict=True)
        for number, cells in enumerate(zip(row, there, strict=True))
    ]
    return [(where, f"{cell!r} here, {cell_there!r} there") for where, cell, cell_there in pairs if cell != cell_there]


def test_special_columns_follow_inserts_updates_and_deletes(kit: SyncKit) -> None:
    follow(kit, SPECIAL)


def test_columns_that_the_log_omits_are_not_needed(mariadb11_kit: SyncKit) -> None:
    """MariaDB 11.8 logs no generated column, and no hash of a UNIQUE over long values, of updates and deletes."""
    follow(mariadb11_kit, (COMPUTED, HIDDEN))


@pytest.mark.parametrize("definition", ["n INT AS (v + 1) STORED UNIQUE", "n INT AS (v + 1) VIRTUAL"])
def test_a_needed_column_that_the_log_omits_stops(mariadb11_kit: SyncKit, definition: str) -> None:
    """It is needed in a key, or as a value where the target does not compute it."""
    kit, (name, kind, *_) = mariadb11_kit, definition.split()
    theirs = definition if "UNIQUE" in definition else f"{name} {kind}"
    _ = kit.first_file
    for server, computed in ((kit.source, definition), (kit.target, theirs)):
        server.sql(f"CREATE TABLE t (id INT PRIMARY KEY, v INT, {computed})", database=kit.schema)
    kit.begin()
    kit.write("INSERT INTO t (id, v) VALUES (1, 1), (2, 2)")
    kit.sync()
    kit.write("UPDATE t SET v = 5 WHERE id = 2")
    kit.stops(PartialRowImage, match="lack columns: n")
    assert kit.target.sql("SELECT id, v, n FROM t", database=kit.schema) == [(1, 1, 2), (2, 2, 3)]


def test_without_a_key_and_without_computed_columns_rows_are_found(mariadb11_kit: SyncKit) -> None:
    _ = mariadb11_kit.first_file
    for server in (mariadb11_kit.source, mariadb11_kit.target):
        server.sql(
            "CREATE TABLE t (a INT, n INT AS (a + 1) VIRTUAL, m INT AS (a * 2) STORED)", database=mariadb11_kit.schema
        )
    mariadb11_kit.begin()
    mariadb11_kit.write("INSERT INTO t (a) VALUES (1), (1), (2), (NULL), (4)", "UPDATE t SET a = 7 WHERE a = 4")
    mariadb11_kit.sync()
    mariadb11_kit.write("DELETE FROM t WHERE a = 1 LIMIT 1", "UPDATE t SET a = 3 WHERE a IS NULL")
    mariadb11_kit.sync()
    shown = "SELECT a, n, m FROM t ORDER BY a"
    assert mariadb11_kit.target.sql(shown, database=mariadb11_kit.schema) == [
        (1, 2, 2),
        (2, 3, 4),
        (3, 4, 6),
        (7, 8, 14),
    ]


def follow(kit: SyncKit, special: Sequence[Sample]) -> None:
    """Rows of these samples are inserted, changed, moved and deleted; then each cell has the same text on both."""
    samples = [sample for sample in special if sample.fits(kit.source.flavour, kit.target.flavour)]
    assert samples
    _ = kit.first_file
    for sample in samples:
        tables.create(kit.source, kit.schema, sample)
        tables.create(kit.target, kit.schema, sample, there=kit.source.flavour != kit.target.flavour)
    kit.begin()
    dice = Random(7)
    for sample in samples:
        tables.fill(kit.source, kit.schema, sample, dice, ROWS)
    kit.sync()
    assert {sample.name: unequal(kit, sample) for sample in samples} == {sample.name: [] for sample in samples}

    for sample in samples:
        tables.change(kit.source, kit.schema, sample, dice, range(1, 6))
        tables.run(kit.source, kit.schema, [f"DELETE FROM `{sample.name}` WHERE id BETWEEN 5 AND 8"])
        tables.run(kit.source, kit.schema, [f"UPDATE `{sample.name}` SET id = id + 100 WHERE id BETWEEN 9 AND 11"])
    kit.sync()
    assert {sample.name: unequal(kit, sample) for sample in samples} == {sample.name: [] for sample in samples}


def test_without_a_key_rows_are_found_by_their_image(kit: SyncKit) -> None:
    """Documents and shapes that are equal by value, and differ in their bytes, are not taken for each other."""
    mysql = kit.source.flavour == "mysql"
    tidb = kit.target.flavour == "tidb"  # it has neither these character sets nor shapes
    _ = kit.first_file
    for server in (kit.source, kit.target):
        document = "JSON" if mysql and server.flavour == "mysql" else "LONGTEXT"
        enum, text = ("utf8mb4", "utf8mb4") if server.flavour == "tidb" else ("ucs2", "sjis")
        server.sql(
            f"CREATE TABLE t (j {document}, e ENUM('a','') CHARACTER SET {enum}, g {'TEXT' if tidb else 'GEOMETRY'}, "
            f"t VARCHAR(9) CHARACTER SET {text}, n INT AS (char_length(t)) VIRTUAL)",
            database=kit.schema,
        )
    kit.begin()
    exact = "cast(1.50 as json)" if mysql else "'1.50'"
    shape = "'{}'" if tidb else "st_geomfromtext('POINT(1 2)', {})"
    insert = "INSERT INTO t (j, e, g, t) VALUES "
    rows = [f"({exact}, {enum}, {shape.format(srid)}, {text})" for enum in (0, 1, 2, "NULL") for srid in (0, 4326)
            for text in ("'a'", "'A'", "repeat(_sjis x'835c', 9)")]  # fmt: skip
    tables.run(kit.source, kit.schema, [insert + ", ".join([*rows, *rows, "('1.5', 1, NULL, NULL)"])])
    kit.sync()
    tables.run(
        kit.source,
        kit.schema,
        [
            "DELETE FROM t WHERE e + 0 = 0 AND t = 'a' LIMIT 3",
            "DELETE FROM t WHERE e + 0 = 0 AND char_length(t) = 9 LIMIT 1",
            "DELETE FROM t WHERE e + 0 = 2 AND char_length(t) = 1",
            "UPDATE t SET e = 0 WHERE e = 'a' AND char_length(t) = 9 LIMIT 1",
            f"UPDATE t SET e = 0 WHERE e = 'a' AND {'g' if tidb else 'st_srid(g)'} = 4326 LIMIT 1",
            "UPDATE t SET j = '1.5' WHERE e IS NULL LIMIT 3",
            "DELETE FROM t WHERE g IS NULL",
        ],
    )
    kit.sync()

    cells = f"convert(j using utf8mb4), e + 0, hex(g), hex({'convert(t using utf8mb4)' if tidb else 't'}), n"
    shown = f"SELECT {cells}, count(*) FROM t GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4"
    ours, theirs = (
        [tuple(str(cell) for cell in row) for row in server.sql(shown, database=kit.schema)]
        for server in (kit.source, kit.target)
    )
    numbers = {"0.0": "0", "1.0": "1", "2.0": "2"}  # MySQL computes with an ENUM's index as a DOUBLE
    assert [tuple(numbers.get(cell, cell) for cell in row) for row in ours] == [
        tuple(numbers.get(cell, cell) for cell in row) for row in theirs
    ]


REPLACED = "the target would replace a NULL"


@pytest.mark.parametrize(
    ("here", "there", "why"),
    [
        ("INT", "INT AS (id + 1) VIRTUAL", "the target generates it"),
        ("INT NULL", "INT AUTO_INCREMENT UNIQUE", REPLACED),
        ("TIMESTAMP NULL", "TIMESTAMP NOT NULL DEFAULT '2020-01-01'", REPLACED),
    ],
)
def test_a_column_whose_values_the_target_chooses_is_refused(one_kit: SyncKit, here: str, there: str, why: str) -> None:
    """MariaDB writes the current time for a NULL, whatever explicit_defaults_for_timestamp says."""
    _ = one_kit.first_file
    one_kit.source.sql(f"CREATE TABLE t (id INT PRIMARY KEY, n {here})", database=one_kit.schema)
    one_kit.target.sql(f"CREATE TABLE t (id INT PRIMARY KEY, n {there})", database=one_kit.schema)
    one_kit.pull()

    with pytest.raises(TargetTableMismatch, match=why):
        one_kit.begin()


def test_a_column_that_only_the_source_computes_is_a_value(one_kit: SyncKit) -> None:
    _ = one_kit.first_file
    one_kit.source.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT AS (id + 1) VIRTUAL)", database=one_kit.schema)
    one_kit.target.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)", database=one_kit.schema)
    one_kit.begin()
    one_kit.write("INSERT INTO t (id) VALUES (1), (2)", "UPDATE t SET id = 5 WHERE id = 2")
    one_kit.sync()
    assert one_kit.target.sql("SELECT id, n FROM t ORDER BY id", database=one_kit.schema) == [(1, 2), (5, 6)]


@pytest.mark.parametrize(("members", "stops"), [((0,), False), ((0, 0), True), ((1,), True)])
def test_a_mode_of_one_statement_ends_with_it(
    target: Server, fresh_schema: FreshSchema, members: tuple[int, ...], stops: bool
) -> None:
    """A row may have an ENUM's index 0, of which the target warns; a warning more or less stops."""
    schema = fresh_schema(target)
    target.sql("CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a') NOT NULL)", database=schema)
    rows = ", ".join(f"({number}, {member})" for number, member in enumerate(members))
    text = f"INSERT INTO `{schema}`.t VALUES {rows}".encode()
    expected = frozenset({("e", 1)})
    statement = SqlStatement(
        text, len(members), TableName(schema, "t"), Verb.INSERT, expected, session_mode="NO_ZERO_DATE"
    )
    modes = list[object]()

    def write(connection: Connection) -> None:
        modes.extend(query(connection, "SELECT @@sql_mode"))
        try:
            execute(connection, statement)
        finally:
            modes.extend(query(connection, "SELECT @@sql_mode"))

    if stops:
        with pytest.raises(TargetWarned):
            run_transaction(endpoint("target", target), write)
    else:
        run_transaction(endpoint("target", target), write)
    assert modes[0] == modes[1]
    assert target.sql("SELECT id, e + 0 FROM t", database=schema) == ([] if stops else [(0, 0)])
