"""Every cell arrives as it was: all types, all charsets, from both flavours to all targets (see `tests.exactness`).

Here are the rounds of the test command, and what does not fit a round: logs with more or less metadata, and columns
that the catalogue may hide."""

from random import Random
from typing import Final

import pytest

from airflow_provider_dm.engine.binlog.errors import SchemaMismatch
from airflow_provider_dm.engine.mysql.connection import query, text
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.strings import CHARSETS as SUPPORTED
from testbed import Server
from tests.exactness.characters import CHARSETS
from tests.exactness.journey import Journey
from tests.exactness.others import VECTOR
from tests.exactness.samples import SAMPLES
from tests.integration.binlog.reading import FreshSchema, definition, here, logged, raw_rows, session

SEED: Final = 20_261
ROWS: Final = 60
CELLS_OF_A_PAIR: Final = 13_000
"""At least."""


@pytest.mark.every_pair
def test_every_cell_is_replicated_unchanged(source: Server, target: Server, fresh_schema: FreshSchema) -> None:
    schema = fresh_schema(source, target)
    journey = Journey(source, target, schema)
    dice = Random(SEED)
    differences: list[str] = []
    cells = 0
    for sample in SAMPLES:
        if sample.fits(source.flavour, target.flavour):
            outcome = journey.of(sample, dice, round(ROWS * sample.weight))
            differences += outcome.differences
            cells += outcome.cells
    assert differences == []
    assert cells > CELLS_OF_A_PAIR


@pytest.mark.parametrize("seed", range(2))
def test_mariadb_11_has_vectors_too(mysql_source: Server, mariadb11_source: Server, schema: str, seed: int) -> None:
    for ends in ((mysql_source, mariadb11_source), (mariadb11_source, mysql_source)):
        outcome = Journey(*ends, schema).of(VECTOR, Random(seed), 20)
        assert outcome.differences == ()


def test_no_charset_is_left_out(source: Server) -> None:
    listed = {str(name) for (name,) in source.sql("SELECT character_set_name FROM information_schema.character_sets")}
    ours = set(CHARSETS) if source.flavour == "mysql" else set(CHARSETS) - {"gb18030"}
    assert listed - {"binary"} == ours
    assert ours <= SUPPORTED


NEW_TYPES: Final = {
    "mysql": ("j JSON, v VECTOR(2), g POINT", "'{\"a\": 1.5}', x'0000803f0000803f', point(1, 2)"),
    "mariadb": ("u UUID, i INET6, g POINT", "'123e4567-e89b-12d3-a456-426655440000', '::1', point(1, 2)"),
}


def test_rows_do_not_depend_on_what_metadata_the_map_carries(source: Server, fresh_schema: FreshSchema) -> None:
    connection = session(source)
    name = TableName(fresh_schema(source), "meta")
    columns, values = NEW_TYPES[source.flavour]
    with connection.cursor() as cursor:
        cursor.execute(
            f"CREATE TABLE {name.quoted()} (id INT UNSIGNED PRIMARY KEY, y YEAR, d DECIMAL(5,2) UNSIGNED, f FLOAT, "
            "t TINYINT, e ENUM('a','b') CHARACTER SET ucs2, c CHAR(3) CHARACTER SET latin1, s SET('x','é'), "
            f"w VARCHAR(9) CHARACTER SET gbk INVISIBLE, z INT AS (t + 1) VIRTUAL INVISIBLE, b BLOB, {columns})"
        )
        if source.flavour == "mariadb":
            cursor.execute(f"ALTER TABLE {name.quoted()} ADD UNIQUE (b)")
        table = definition(connection, name)
        names = ", ".join(column.name for column in table.columns if not column.generated)
        before = text(query(connection, "SELECT @@global.binlog_row_metadata")[0][0])
        try:
            for number, amount in enumerate(["FULL", "MINIMAL", *(["NO_LOG"] if source.flavour == "mariadb" else [])]):
                cursor.execute(f"SET GLOBAL binlog_row_metadata = {amount}")
                lo = here(connection)
                cursor.execute(
                    f"INSERT INTO {name.quoted()} ({names}) VALUES ({2**32 - 1 - number}, 2000, 1.5, 0.1, -1, 'b', "
                    f"'x', 'x,é', '漢', x'0{number}', {values})"
                )
                (change,) = logged(source, table, lo, here(connection))
                assert change.after in raw_rows(connection, table)
        finally:
            cursor.execute(f"SET GLOBAL binlog_row_metadata = {before}")


def test_texts_with_another_charset_in_the_map_are_not_read(source: Server, fresh_schema: FreshSchema) -> None:
    """The definition is not the one of this place: a charset and members that were changed after it."""
    connection = session(source)
    name = TableName(fresh_schema(source), "texts")
    before = text(query(connection, "SELECT @@global.binlog_row_metadata")[0][0])
    query(connection, f"CREATE TABLE {name.quoted()} (v VARCHAR(9) CHARACTER SET latin1, e ENUM('a','b'))")
    then = definition(connection, name)
    query(connection, "SET GLOBAL binlog_row_metadata = FULL")
    try:
        lo = here(connection)
        query(connection, f"INSERT INTO {name.quoted()} VALUES ('x', 'b')")
        hi = here(connection)
    finally:
        query(connection, f"SET GLOBAL binlog_row_metadata = {before}")
    assert [change.after for change in logged(source, then, lo, hi)] == raw_rows(connection, then)
    for change, message in (
        ("MODIFY v VARBINARY(9)", "v with CHARACTER SET latin1"),
        ("MODIFY v VARCHAR(9) CHARACTER SET latin1, MODIFY e ENUM('b','a')", "e with the members a, b"),
    ):
        query(connection, f"ALTER TABLE {name.quoted()} {change}")
        with pytest.raises(SchemaMismatch, match=message):
            logged(source, definition(connection, name), lo, hi)


def test_a_generated_primary_key_is_a_column_also_where_it_is_hidden(
    mysql_source: Server, fresh_schema: FreshSchema
) -> None:
    name = TableName(fresh_schema(mysql_source), "keyless")
    mysql_source.sql("SET GLOBAL show_gipk_in_create_table_and_information_schema = OFF")
    try:
        connection = session(mysql_source)
    finally:
        mysql_source.sql("SET GLOBAL show_gipk_in_create_table_and_information_schema = ON")
    query(connection, "SET SESSION sql_generate_invisible_primary_key = ON")
    query(connection, f"CREATE TABLE {name.quoted()} (a INT)")

    table = definition(connection, name)
    lo = here(connection)
    query(connection, f"INSERT INTO {name.quoted()} VALUES (5), (6)")

    assert [(column.name, column.invisible) for column in table.columns] == [("my_row_id", True), ("a", False)]
    assert table.identity is not None
    assert table.identity.columns == ("my_row_id",)
    rows = [change.after for change in logged(mysql_source, table, lo, here(connection))]
    assert rows == [(b"1", b"5"), (b"2", b"6")] == raw_rows(connection, table)


def test_hidden_columns_of_indexes_are_decoded(source: Server, fresh_schema: FreshSchema) -> None:
    """MySQL's for expressions and arrays are in no row image; MariaDB's hashes are, after all others."""
    connection = session(source)
    name = TableName(fresh_schema(source), "hidden")
    keys, hidden = {
        "mysql": ("UNIQUE a ((n * 2)), KEY b ((upper(c))), KEY m ((CAST(j->'$' AS UNSIGNED ARRAY)))", 0),
        "mariadb": ("UNIQUE a (t), UNIQUE b (n) USING HASH, UNIQUE c (c, t), UNIQUE d (t(9)), KEY e (n)", 3),
    }[source.flavour]
    query(connection, f"CREATE TABLE {name.quoted()} (n INT, c VARCHAR(9), j JSON, t TEXT, {keys})")
    table = definition(connection, name)
    assert table.hidden == hidden

    for change in ("ADD COLUMN first INT FIRST", "ADD UNIQUE z (n, c)", "DROP KEY a"):
        lo = here(connection)
        query(connection, f"INSERT INTO {name.quoted()} (n, c, t) VALUES (1, 'a', 'b'), (2, NULL, NULL)")
        query(connection, f"UPDATE {name.quoted()} SET c = 'é' WHERE n = 1")
        query(connection, f"DELETE FROM {name.quoted()} WHERE n = 2")
        *_, updated, deleted = logged(source, table, lo, here(connection))
        assert [updated.after] == raw_rows(connection, table)
        assert deleted.before is not None
        query(connection, f"DELETE FROM {name.quoted()}")
        query(connection, f"ALTER TABLE {name.quoted()} {change}")
        table = definition(connection, name)
