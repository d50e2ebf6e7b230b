"""Columns that the target generates: their values equal the logged ones, or the sync stops and names them."""

import pytest

from airflow_provider_dm.engine.downstream.errors import ComputedDiffers
from airflow_provider_dm.engine.sync.runner import LocalRunner
from testbed import Server
from tests.integration.sync.conftest import SyncKit, rows_of
from tests.integration.sync.test_sync import SMALL

COLUMNS = "id INT {}, a INT, s VARCHAR(20), g VARCHAR(60) AS (CONCAT(a * 7, '')) {}, b TINYINT AS (a) STORED"
QUOTIENT = "CAST(a / 7 AS DECIMAL(30,20))"
"""Of multiples of 7 the same on all servers; of others each has another number of digits inside of an expression."""


def create(kit: SyncKit, columns: str) -> None:
    _ = kit.first_file
    kit.both(f"CREATE TABLE t ({columns})")
    kit.tables = ("t",)
    kit.begin()


def precisely(kit: SyncKit, statement: str) -> None:
    """Written by a client with another div_precision_increment, the first one to open the table."""
    kit.source.sql(f"FLUSH TABLES; SET SESSION div_precision_increment = 10; {statement}", database=kit.schema)
    kit.source.sql("FLUSH TABLES")


def rows(server: Server, kit: SyncKit) -> list[tuple[object, ...]]:
    return rows_of(server, kit.schema, "t")


@pytest.mark.parametrize("kind", ["STORED", "VIRTUAL"])
@pytest.mark.parametrize("change", ["INSERT INTO t (id, a) VALUES (3, 5)", "UPDATE t SET a = 6 WHERE id = 1"])
def test_different_computed_values_stop(kit: SyncKit, kind: str, change: str) -> None:
    create(kit, COLUMNS.replace("CONCAT(a * 7, '')", QUOTIENT).format("PRIMARY KEY", kind))
    kit.write("INSERT INTO t (id, a) VALUES (1, 7), (2, NULL)")
    kit.sync()
    before = rows(kit.target, kit)
    precisely(kit, change)
    for _ in range(2):  # and again, as nothing was passed over
        kit.stops(ComputedDiffers, match=f"other values than the source for g of {kit.schema}.t")
    assert rows(kit.target, kit) == before
    kit.target.sql("ALTER TABLE t DROP COLUMN g; ALTER TABLE t ADD COLUMN g VARCHAR(60) AFTER s", database=kit.schema)
    kit.target.sql(f"UPDATE {kit.schema}.t SET g = '1.{'0' * 20}' WHERE id = 1")
    kit.sync()
    if kind == "STORED":
        assert rows(kit.target, kit) == rows(kit.source, kit)


def test_equal_computed_values_arrive_also_in_large_epochs(kit: SyncKit) -> None:
    create(kit, COLUMNS.format("PRIMARY KEY", "STORED"))
    for start in range(0, 400, 100):
        values = ", ".join(f"({n}, {n % 100}, 's{n}')" for n in range(start, start + 100))
        kit.write(f"INSERT INTO t (id, a, s) VALUES {values}")
    kit.write("UPDATE t SET a = a + 1 WHERE id % 3 = 0 AND a < 99", "DELETE FROM t WHERE id % 5 = 0")
    kit.write("UPDATE t SET id = id + 1000 WHERE id % 7 = 0")
    kit.sync_and_compare(LocalRunner(2), size=SMALL)


def test_a_value_that_the_source_clipped_stops(kit: SyncKit) -> None:
    create(kit, COLUMNS.format("PRIMARY KEY", "VIRTUAL"))
    kit.write("SET SESSION sql_mode = ''", "INSERT IGNORE INTO t (id, a, s) VALUES (1, 1, 's'), (2, 500, 's')")
    kit.stops(ComputedDiffers, match="DM-6007.*ordinary columns in the target")
    assert rows(kit.target, kit) == []
    kit.target.sql("ALTER TABLE t DROP COLUMN b; ALTER TABLE t ADD COLUMN b TINYINT", database=kit.schema)
    kit.sync_and_compare()


def test_logged_generated_values_of_mariadb_11_are_compared(mariadb11_kit: SyncKit) -> None:
    """It has no values for updates."""
    create(mariadb11_kit, f"id INT PRIMARY KEY, a INT, g VARCHAR(60) AS ({QUOTIENT}) STORED")
    mariadb11_kit.write("INSERT INTO t (id, a) VALUES (1, 7), (2, NULL)")
    mariadb11_kit.sync()
    mariadb11_kit.write("UPDATE t SET a = 21 WHERE id = 2", "UPDATE t SET a = NULL WHERE id = 1")
    mariadb11_kit.sync()
    assert mariadb11_kit.target.sql(f"SELECT id, a, g FROM {mariadb11_kit.schema}.t ORDER BY id") == [
        (1, None, None),
        (2, 21, f"3.{'0' * 20}"),
    ]
    precisely(mariadb11_kit, "INSERT INTO t (id, a) VALUES (3, 5)")
    mariadb11_kit.stops(ComputedDiffers)
