"""Tables are altered while a copy may overwrite rows (`on-duplicate-logical: replace`): none is begun again."""

from __future__ import annotations

import pytest

from airflow_provider_dm.engine.reading.source_session import SchemaChangedDuringCopy
from tests.integration.copy.altering import Kit
from tests.integration.sync.conftest import rows_of
from tests.integration.sync.test_follows_ddl import definition


@pytest.fixture
def overwriting(one_kit: Kit) -> Kit:
    one_kit.migration.task = {"task-mode": "all", "loaders": {"over": {"on-duplicate-logical": "replace"}}}
    one_kit.migration.instance = {"loader-config-name": "over"}
    return one_kit


def test_a_copy_that_may_overwrite_rows_goes_on_by_the_columns_that_are_left(overwriting: Kit) -> None:
    """Nobody knows whose rows are in the target, so that nothing is removed: the sync follows what the log tells."""
    target, schema = overwriting.migration.target, overwriting.schema
    overwriting.write(
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
        overwriting.copy("between pages", lambda: overwriting.write(altered))
    overwriting.write(["ALTER TABLE b DROP COLUMN x", "UPDATE a SET v = 'late' WHERE id = 3"])
    target.sql("INSERT INTO a (id) VALUES (-7)", database=schema)
    overwriting.migration.finish()
    overwriting.sync()
    ours, theirs = (rows_of(server, schema, "a") for server in (overwriting.source, target))
    assert [row[1] for row in theirs if row not in ours] == [-7]
    assert [row for row in ours if row not in theirs] == []
    for table in "b", "c":
        assert rows_of(target, schema, table) == rows_of(overwriting.source, schema, table)
    assert definition(target, schema) == definition(overwriting.source, schema)


def test_a_copy_that_may_overwrite_rows_stops_where_nobody_knows_what_is_left(overwriting: Kit) -> None:
    """The table looks as before, but for the places of two columns."""
    overwriting.write(["ALTER TABLE b ADD x varchar(40)", "UPDATE b SET x = REVERSE(v)"])
    swap = "ALTER TABLE b CHANGE v x varchar(40), CHANGE x v varchar(40)"
    with pytest.raises(SchemaChangedDuringCopy, match="renamed to"):
        overwriting.copy("between pages", lambda: overwriting.write([swap]))


def test_a_copy_that_may_overwrite_rows_stops_where_columns_come_before_its_log(overwriting: Kit) -> None:
    with pytest.raises(SchemaChangedDuringCopy, match=f"{overwriting.schema}.a was changed while it was copied"):
        overwriting.copy("before P0", lambda: overwriting.write(("ALTER TABLE a ADD w int NOT NULL DEFAULT 9",)))
