"""Syncs between servers with unusual global settings."""

import pytest

from tests.integration.mysql.test_session import hostile_tidb
from tests.integration.sync.conftest import SyncKit, random_transactions
from tests.integration.sync.test_special_columns import (  # noqa: F401 (run again, on other servers)
    test_special_columns_follow_inserts_updates_and_deletes,
)
from tests.integration.sync.test_sync import (  # noqa: F401
    test_a_random_workload_is_applied,
    test_half_written_epochs_are_completed_by_the_next_run,
    test_rows_are_found_by_their_bits,
    test_values_swap_between_rows_in_one_transaction,
)

pytestmark = pytest.mark.hostile


def test_no_global_of_tidb_changes_or_stops_a_sync(tidb_kit: SyncKit) -> None:
    """Under some of them TiDB warns of its plans, as when it deletes from a table with partitions."""
    kit = tidb_kit
    kit.create()
    kit.both("CREATE TABLE parts (id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 3")
    with hostile_tidb(kit.target):
        kit.close()
        kit.begin()
        random_transactions(kit, 3, 60)
        kit.write("INSERT INTO parts VALUES (1, 1), (2, 2), (3, 3)")
        kit.sync()
        kit.write("DELETE FROM parts WHERE id < 3", "UPDATE parts SET v = 4")
        random_transactions(kit, 4, 60)
        kit.sync()
    kit.tables = (*kit.tables, "parts")
    assert kit.differences() == []


def test_no_plan_that_tidb_has_captured_stops_a_sync(tidb_kit: SyncKit) -> None:
    """As by `tidb_capture_plan_baselines`: its hint does not fit the plan of a second change in a transaction, and TiDB
    warns of it."""
    kit = tidb_kit
    kit.create("loose")
    kit.begin()
    kit.write("INSERT INTO loose VALUES (1, 1), (NULL, 1), (NULL, 2)")
    kit.sync()
    delete = "DELETE {} FROM loose WHERE u IS NULL AND v <=> 1 LIMIT 1"
    captured = delete.format("/*+ use_index(loose u), limit_to_cop() */")
    kit.target.sql(f"CREATE GLOBAL BINDING FOR {delete.format('')} USING {captured}", database=kit.schema)
    try:
        kit.write("DELETE FROM loose WHERE v = 1", "DELETE FROM loose WHERE v = 2")
        kit.sync_and_compare()
    finally:
        kit.target.sql(f"DROP GLOBAL BINDING FOR {delete.format('')}", database=kit.schema)
