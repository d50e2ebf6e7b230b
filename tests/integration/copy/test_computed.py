"""Columns that the target computes by itself: their values are the source's, or the copy stops and names them."""

import re

import pytest

from airflow_provider_dm.engine.copy import design
from airflow_provider_dm.engine.downstream.errors import ComputedDiffers
from airflow_provider_dm.engine.errors import NotSupportedYet
from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.copy.migrations import Migration, assert_same
from tests.integration.verify.test_verification import verified

PRECISE = "SET SESSION div_precision_increment = 10;"
"""The session that was the first to open the table decides of its expressions, for all: hence FLUSH TABLES below."""
NOT_STRICT = "SET SESSION sql_mode = '';"


def both(source: Server, target: Server, schema: str, columns: str, theirs: str = "") -> None:
    """The table on both sides: made by hand, as between flavours computed columns have to be."""
    for server, described in ((source, columns), (target, theirs or columns)):
        server.sql(f"CREATE TABLE {schema}.t ({described})")


def copying(source: Server, target: Server, schema: str, **session: str) -> Migration:
    return Migration.of(target, source, schema, session=session)


def values(server: Server, schema: str) -> list[tuple[object, ...]]:
    return server.sql(f"SELECT * FROM {schema}.t ORDER BY id")


@pytest.mark.parametrize("kind", ["STORED", "VIRTUAL"])
@pytest.mark.parametrize("expression", ["a / b", "CONCAT(a / b, '')", "CAST(a / b AS DECIMAL(30,20))"])
def test_different_computed_values_stop(
    source: Server, target: Server, fresh_schema: FreshSchema, kind: str, expression: str
) -> None:
    """Written at the source under another div_precision_increment (STORED), or with another expression there."""
    schema = fresh_schema(source, target)
    other = expression if kind == "STORED" else expression.replace("a / b", "a / b + 1")
    columns = "id INT PRIMARY KEY, a INT, b INT, g VARCHAR(60) AS ({}) " + kind
    both(source, target, schema, columns.format(expression), columns.format(other))
    source.sql(f"{PRECISE} INSERT INTO t (id, a, b) VALUES (1, 4, 2), (2, 1, 3), (3, 5, 1)", database=schema)
    same = values(source, schema)[1][3] == target.sql(f"SELECT {other} FROM (SELECT 1 AS a, 3 AS b) AS t")[0][0]
    assert not same
    caught = copying(source, target, schema).stops(
        ComputedDiffers, match=rf"other values than the source for g of {schema}.t"
    )
    assert "div_precision_increment" in caught.hint
    assert values(target, schema) == []


@pytest.mark.every_pair
def test_the_same_session_for_the_target_helps(source: Server, target: Server, fresh_schema: FreshSchema) -> None:
    schema = fresh_schema(source, target)
    both(source, target, schema, "id INT PRIMARY KEY, a INT, g DECIMAL(30,20) AS (a / 7) STORED")
    source.sql(f"{PRECISE} INSERT INTO t (id, a) VALUES (1, 4), (2, 1)", database=schema)
    migration = copying(source, target, schema, div_precision_increment="10")
    if source.flavour == target.flavour or (source.flavour, target.flavour) == ("mariadb", "tidb"):
        migration.finish()
        assert values(target, schema) == values(source, schema)
    else:  # MariaDB and TiDB keep more digits inside of an expression than MySQL
        migration.stops(ComputedDiffers)


def test_an_ordinary_column_takes_the_source_s_values(
    source: Server, target: Server, fresh_schema: FreshSchema
) -> None:
    schema = fresh_schema(source, target)
    both(
        *(source, target, schema),
        "id INT PRIMARY KEY, a INT, g VARCHAR(60) AS (a / 7) STORED",
        "id INT PRIMARY KEY, a INT, g VARCHAR(60)",
    )
    source.sql(f"{PRECISE} INSERT INTO t (id, a) VALUES (1, 4), (2, 1)", database=schema)
    copying(source, target, schema).finish()
    assert values(target, schema) == values(source, schema)


MANY = """
    id INT, k VARCHAR(20) CHARACTER SET latin1, a INT, b DECIMAL(10,4), s VARCHAR(60), d DATETIME(3), j LONGTEXT,
    t DECIMAL(10,2) AS (a * b) STORED, v DECIMAL(20,1) AS (a * b) VIRTUAL, i BIGINT AS (a + id * 2) STORED,
    u VARCHAR(80) AS (UPPER(s)) STORED, l VARCHAR(80) CHARACTER SET utf16 AS (CONCAT(s, k)) VIRTUAL,
    y INT AS (YEAR(d)) STORED, f DOUBLE AS (a / 3e0) STORED, h BINARY(4) AS (LEFT(HEX(a), 4)) STORED,
    n VARCHAR(40) AS (JSON_UNQUOTE(JSON_EXTRACT(j, '$.n'))) STORED, q INT AS (a) STORED INVISIBLE,
    e ENUM('no','yes') AS (IF(a > 20, 'yes', 'no')) STORED, PRIMARY KEY (k, id)
"""


def test_equal_computed_values_are_copied(source: Server, target: Server, fresh_schema: FreshSchema) -> None:
    """A decimal that is rounded is only a note, and no reason to stop."""
    schema = fresh_schema(source, target)
    in_tidb = MANY.replace("utf16", "utf8mb4").replace(" INVISIBLE", "") if target.flavour == "tidb" else ""
    both(source, target, schema, MANY, in_tidb)
    rows = ", ".join(
        f"({n}, 'k{n % 7}ß', {n}, {n}.1235, 'aä{n}', '2020-01-02 03:04:05.{n:03}', '{{\"n\": \"{n}\"}}')"
        for n in range(260)
    )
    source.sql(
        f"INSERT INTO t (id, k, a, b, s, d, j) VALUES {rows}, (900, '', NULL, NULL, NULL, NULL, NULL)", database=schema
    )
    migration = copying(source, target, schema)
    assert migration.finish()["rows"] == 261
    assert_same(source, target, schema, "t")
    verification = verified(migration)
    assert verification["verified"], verification


@pytest.mark.parametrize("key", ["PRIMARY KEY", "NULL"])
def test_a_value_that_the_source_clipped_stops(
    source: Server, target: Server, fresh_schema: FreshSchema, key: str
) -> None:
    schema = fresh_schema(source, target)
    both(source, target, schema, f"id INT {key}, a INT, b TINYINT AS (a) STORED")
    source.sql(f"{NOT_STRICT} INSERT IGNORE INTO t (id, a) VALUES (1, 3), (2, 500)", database=schema)
    copying(source, target, schema).stops(ComputedDiffers, match="ordinary columns in the target")
    assert values(target, schema) == []


@pytest.mark.every_pair
def test_without_a_key_rows_are_found_by_their_values(
    source: Server, target: Server, fresh_schema: FreshSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = fresh_schema(source, target)
    both(source, target, schema, "id INT, a INT, g VARCHAR(60) AS (CONCAT(a / 7, '')) STORED")
    source.sql("INSERT INTO t (id, a) VALUES (1, 7), (1, 7), (2, NULL), (3, 15)", database=schema)
    migration = copying(source, target, schema)
    monkeypatch.setattr(design, "MOST_SCANNED", 0)
    migration.stops(NotSupportedYet, match=re.escape("whose columns g the target generates"))
    monkeypatch.undo()
    source.sql(f"FLUSH TABLES; {PRECISE} INSERT INTO {schema}.t (id, a) VALUES (4, 1)")
    migration.stops(ComputedDiffers)
    source.sql(f"DELETE FROM {schema}.t WHERE id = 4")
    if source.flavour == target.flavour:
        migration.finish()
        assert values(target, schema) == values(source, schema)


def test_a_generated_primary_key_is_copied(
    mysql_source: Server, mysql_target: Server, fresh_schema: FreshSchema
) -> None:
    schema = fresh_schema(mysql_source, mysql_target)
    columns = "id INT NOT NULL, g DECIMAL(30,20) AS (id / 7) STORED PRIMARY KEY"
    both(mysql_source, mysql_target, schema, columns)
    mysql_source.sql(f"{PRECISE} INSERT INTO {schema}.t (id) VALUES (0), (7), (21)")
    migration = copying(mysql_source, mysql_target, schema)
    migration.finish()
    assert values(mysql_target, schema) == values(mysql_source, schema)
    assert verified(migration)["verified"]
    # The session that opens the table first decides, and a server with many tables closes it again.
    mysql_source.sql(f"FLUSH TABLES {schema}.t; {PRECISE} INSERT INTO {schema}.t (id) VALUES (1)")
    mysql_target.sql(f"DROP DATABASE {schema}_meta; DELETE FROM {schema}.t")
    copying(mysql_source, mysql_target, schema).stops(ComputedDiffers)
