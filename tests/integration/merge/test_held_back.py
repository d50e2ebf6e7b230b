"""The status of a source whose rows are held back: it has not caught up."""

from typing import Any

import pytest

from airflow_provider_dm.engine.sync.progress import SyncProgress, progress_line
from airflow_provider_dm.engine.sync.shard_ddl import resync
from tests.integration.merge.conftest import PLAIN, Shops
from tests.integration.merge.sharding import Died
from tests.integration.merge.test_shard_ddl import dies_once


def test_the_lag_counts_from_the_ddl_until_the_rows_after_it_are_applied(
    single: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a later run, and in one that continues in the middle of applying the rows."""
    single.create(PLAIN, "a:o_1", "a:o_2")
    single.write("a", "INSERT INTO o_1 VALUES (1, 'a')", "INSERT INTO o_2 VALUES (11, 'a')")
    single.load()
    single.write("a", "ALTER TABLE o_1 ADD COLUMN c int")
    single.write("a", "INSERT INTO o_1 VALUES (2, 'held back', 1)", "INSERT INTO o_2 VALUES (12, 'b')")
    group, _ = [_held_back_in_a_run(single) for _ in range(2)]
    assert (group["synced"], group["unsynced"]) == ([f"`{single.schema}`.`o_1`"], [f"`{single.schema}`.`o_2`"])
    assert group["firstLocation"].startswith("position: (")

    single.write("a", "ALTER TABLE o_2 ADD COLUMN c int")
    single.relay()
    spec, began, shown = single.migration().spec, group["since"], SyncProgress()
    for _ in range(2):
        dies_once(monkeypatch, resync._Lane, "_epoch")
        shown = SyncProgress()
        with pytest.raises(Died):
            single.sync_one("a", spec=spec, progress=shown)
        assert shown.lag_seconds(began + 7200) == 7200
    single.sync_one("a", spec=spec, progress=shown)
    assert (shown.unresolved_groups, shown.held_back_seconds(), shown.held_back_bytes) == ([], None, 0)
    assert single.compared().equal, single.compared()


def _held_back_in_a_run(shops: Shops) -> dict[str, Any]:
    """Return what a run holds back that has reached the end of the log."""
    with shops.syncing("a") as syncing:
        shown = syncing.shown
        syncing.wait_until(lambda: shown.caught_up and shown.at_end and shown.held_back_bytes)
        assert shown.unresolved_groups
        (group,) = shown.unresolved_groups
        assert shown.lag_seconds(group["since"] + 3600) == 3600
        assert shown.to_json()["caught_up"] is False
        assert "held back for" in (line := progress_line(shown.to_json()))
        assert f"waits for {shops.schema}.o_2 of this source" in line
    return group


def test_the_lag_counts_from_a_row_that_waits_for_its_place(one_pair: Shops) -> None:
    one_pair.task = {"task-mode": "all"}
    one_pair.create("id int NOT NULL PRIMARY KEY, v varchar(20), u int UNIQUE", "a:o_1", "b:o_2")
    one_pair.write("a", "INSERT INTO o_1 VALUES (1, 'a', 7)")
    one_pair.load()
    one_pair.write("a", "DELETE FROM o_1 WHERE id = 1")
    one_pair.write("b", "INSERT INTO o_2 VALUES (2, 'b', 7)")
    with one_pair.syncing("b") as syncing:
        shown = syncing.shown
        syncing.wait_until(lambda: shown.caught_up and shown.at_end and shown.contested_rows)
        assert shown.contested_since is not None
        assert (shown.lag_seconds(shown.contested_since + 3600) or 0) >= 3600
        assert "1 rows wait for their places" in progress_line(shown.to_json())
        with one_pair.syncing("a"):
            syncing.wait_until(lambda: not shown.contested_rows)
        assert shown.held_back_seconds() is None
    assert one_pair.compared().equal, one_pair.compared()
