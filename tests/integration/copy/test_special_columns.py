"""Columns that are not just a value (computed, hidden, compressed, one flavour's) are copied and verified."""

from random import Random
from typing import Any, Final

import pytest

from airflow_provider_dm.engine.copy import page
from airflow_provider_dm.engine.ddl.errors import CannotCreateTarget
from airflow_provider_dm.engine.sync.runner import LocalRunner
from airflow_provider_dm.engine.verify.verification import verify
from testbed import Server
from tests.conftest import FreshSchema
from tests.exactness import oracle, tables
from tests.exactness.documents import JSON
from tests.exactness.others import ADDRESSES, COMPRESSED, COMPUTED, GEOMETRY, HIDDEN, VECTOR
from tests.exactness.samples import SAMPLES
from tests.exactness.sorts import Sample
from tests.exactness.strings import MEMBERS
from tests.integration.copy.migrations import Migration, set_page_rows

CHARSETS: Final = tuple(sample for sample in SAMPLES if sample.name.startswith("charsets"))
SPECIAL: Final = (MEMBERS, JSON, GEOMETRY, VECTOR, ADDRESSES, COMPRESSED, COMPUTED, HIDDEN, *CHARSETS)
BY_HAND: Final = (COMPUTED, HIDDEN)
"""Whose tables are not made at a target of the other flavour."""
ROWS: Final = 25


def documents(sample: Sample) -> frozenset[str]:
    return frozenset(f"c{number}" for number, _ in enumerate(sample.sorts)) if sample is JSON else frozenset()


def unequal(source: Server, target: Server, schema: str, samples: list[Sample]) -> list[str]:
    as_utf8 = target.flavour == "tidb"
    return [
        sample.name
        for sample in samples
        if oracle.cells(source, schema, sample.name, documents=documents(sample), as_utf8=as_utf8)
        != oracle.cells(target, schema, sample.name, documents=documents(sample), as_utf8=as_utf8)
    ]


def verified(migration: Migration) -> dict[str, Any]:
    return verify(migration.spec, LocalRunner(2))


@pytest.mark.every_pair
def test_special_columns_are_copied_and_verified(
    source: Server, target: Server, fresh_schema: FreshSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = fresh_schema(source, target)
    samples = [sample for sample in SPECIAL if sample.fits(source.flavour, target.flavour)]
    for sample in samples:
        tables.create(source, schema, sample)
        tables.fill(source, schema, sample, Random(sample.name), ROWS)
    if source.flavour != target.flavour:
        for sample in filter(BY_HAND.__contains__, samples):
            tables.create(target, schema, sample, there=True)
    monkeypatch.setattr(page, "FIRST_ROWS", 7)
    migration = Migration.of(target, source, schema)

    migration.finish()

    assert unequal(source, target, schema, samples) == []
    verification = verified(migration)
    assert verification["verified"], verification


DAMAGE: Final = (
    (JSON, ("c0 = '[1, 2]'",)),
    (GEOMETRY, ("c0 = st_geomfromtext('POINT(7 7)', st_srid(c0))",)),
    (MEMBERS, ("c2 = 'é'",)),
    (COMPUTED, ("c0 = c0 DIV 2 + 1", "c5 = -1000")),
)


def test_damage_is_found(mysql_source: Server, mysql_target: Server, schema: str) -> None:
    for sample, _ in DAMAGE:
        tables.create(mysql_source, schema, sample)
        tables.fill(mysql_source, schema, sample, Random(1), ROWS)
    migration = Migration.of(mysql_target, mysql_source, schema)
    migration.finish()
    assert verified(migration)["verified"]

    for sample, damages in DAMAGE:
        damaged = (f"UPDATE `{sample.name}` SET {damage} WHERE id = {key}" for key, damage in enumerate(damages, 1))
        tables.run(mysql_target, schema, list(damaged))

    found = {one["target"]: [row["key"] for row in one["differing"]] for one in verified(migration)["tables"]}
    assert found == {
        f"{schema}.{sample.name}": [{"id": str(key)} for key, _ in enumerate(damages, 1)] for sample, damages in DAMAGE
    }


def test_a_generated_primary_key_pages_and_stays_invisible(
    mysql_source: Server, target: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.run(
        mysql_source,
        schema,
        [
            "SET SESSION sql_generate_invisible_primary_key = ON",
            "CREATE TABLE t (v INT)",
            f"INSERT INTO t VALUES {', '.join(f'({n})' for n in range(50))}",
        ],
    )
    mysql_source.sql("SET GLOBAL show_gipk_in_create_table_and_information_schema = OFF")
    monkeypatch.setattr(page, "FIRST_ROWS", 7)
    try:
        Migration.of(target, mysql_source, schema).finish()
    finally:
        mysql_source.sql("SET GLOBAL show_gipk_in_create_table_and_information_schema = ON")
    seen = [(n + 1, n) if target.flavour == "tidb" else (n,) for n in range(50)]  # TiDB has no invisible columns
    assert target.sql("SELECT * FROM t ORDER BY my_row_id", database=schema) == seen
    assert target.sql("SELECT MIN(my_row_id), MAX(my_row_id) FROM t", database=schema) == [(1, 50)]


def test_rows_are_paged_by_addresses(
    mariadb_source: Server, mariadb_target: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, sort in (("uuid", ADDRESSES.sorts[0]), ("inet4", ADDRESSES.sorts[3]), ("inet6", ADDRESSES.sorts[5])):
        dice = Random(kind)
        values = ", ".join(f"({sort.draw(dice)}, {number})" for number in range(60))
        mariadb_source.sql(
            f"CREATE TABLE by_{kind} (k {kind} PRIMARY KEY, v INT); INSERT IGNORE INTO by_{kind} VALUES {values}",
            database=schema,
        )
    set_page_rows(monkeypatch, 3, 5)

    Migration.of(mariadb_target, mariadb_source, schema).finish()

    for kind in ("uuid", "inet4", "inet6"):
        ours, theirs = (
            server.sql(f"SELECT k, v FROM `{schema}`.by_{kind} ORDER BY v")
            for server in (mariadb_source, mariadb_target)
        )
        assert ours == theirs
        assert len(ours) > 40


@pytest.mark.parametrize("column", ["u UUID", "i INET6", "b BLOB, UNIQUE (b)", "g INT AS (id + 1) VIRTUAL"])
def test_types_that_mysql_lacks_are_refused(
    mariadb_source: Server, mysql_target: Server, schema: str, column: str
) -> None:
    mariadb_source.sql(f"CREATE TABLE t (id INT PRIMARY KEY, {column})", database=schema)
    Migration.of(mysql_target, mariadb_source, schema).stops(CannotCreateTarget)


def test_floats_without_decimals_are_copied(source: Server, target: Server, schema: str) -> None:
    """FLOAT(M,0): a limit of no digits after the point is not no limit."""
    source.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, f FLOAT(5,0), d DOUBLE(12,0) UNSIGNED, z FLOAT(6,2) ZEROFILL);"
        "INSERT INTO t VALUES (1, 99999, 999999999999, 1.25), (2, -1.6, 0.4, 0), (3, NULL, NULL, NULL)",
        database=schema,
    )
    migration = Migration.of(target, source, schema)
    migration.finish()
    shown = "SELECT id, f, d, z FROM t ORDER BY id"
    assert target.sql(shown, database=schema) == source.sql(shown, database=schema)
    assert verified(migration)["verified"]
