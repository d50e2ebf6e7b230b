"""Merged tables of tasks that begin in a past that is not exact: written over until a location, then exact."""

from typing import Any

import pytest

from airflow_provider_dm.engine.merge.errors import RowsCollide
from airflow_provider_dm.engine.sync.progress import SyncProgress
from tests.integration.merge.conftest import PLAIN, Shops, instances
from tests.integration.merge.sharding import columns


def filled(shops: Shops, *tables: str) -> None:
    """Create the target's table, and fill it with the rows of these source tables, as a dump would."""
    shops.target.sql(f"CREATE DATABASE IF NOT EXISTS {shops.schema}")
    shops.target.sql(f"CREATE TABLE IF NOT EXISTS o ({PLAIN})", database=shops.schema)
    for name in tables:
        source, _, table = name.partition(":")
        for row in shops.sources[source].sql(f"SELECT id, v FROM {table}", database=shops.schema):
            shops.target.sql("INSERT INTO o VALUES (%s, %s)", row, database=shops.schema)


@pytest.mark.parametrize("syncer", [{}, {"safe-mode-duration": "0s"}], ids=["meta", "an exact start"])
def test_shards_make_ddl_directly_after_the_start(pair: Shops, syncer: dict[str, Any]) -> None:
    """It stopped with DM-6032 for ever: records of rows ended only at the ends of all logs, after the DDL."""
    pair.create(PLAIN, "a:o_0", "a:o_2", "b:o_1")
    pair.write("a", "INSERT INTO o_0 VALUES (1, 'a')", "INSERT INTO o_2 VALUES (2, 'a')")
    pair.write("b", "INSERT INTO o_1 VALUES (3, 'b')")
    filled(pair, "a:o_0", "a:o_2", "b:o_1")
    starts = {name: pair.place(name) for name in pair.sources}
    for source, table in (("a", "o_0"), ("b", "o_1"), ("a", "o_2")):
        pair.write(source, f"ALTER TABLE {table} ADD COLUMN c int NOT NULL DEFAULT 7", f"UPDATE {table} SET c = 8")
        pair.write(source, f"INSERT INTO {table} VALUES (1{table[-1]}, 'new', 9)")
    spec = pair.begin([{**one, "syncer": syncer} for one in instances(pair, **starts)])

    for name in "abab":
        pair.sync(name, spec=spec)

    assert columns(pair) == ["id", "v", "c"]
    assert pair.compared().equal, pair.compared()


def test_rows_move_before_and_after_the_start(shops: Shops, first: str) -> None:
    """The target was filled after the start locations; rows moved before, and after that, in the order of the logs."""
    shops.create(PLAIN, "a:o_0", "a:o_2", "b:o_1")
    shops.write("a", *(f"INSERT INTO o_0 VALUES ({number}, 'was')" for number in range(10)))
    starts = {name: shops.place(name) for name in shops.sources}

    def move(number: int) -> None:
        shops.write("a", f"DELETE FROM o_0 WHERE id = {number}")
        shops.write("b", f"INSERT INTO o_1 VALUES ({number}, 'is')")
        shops.write("a", f"DELETE FROM o_0 WHERE id = {number + 5}; INSERT INTO o_2 VALUES ({number + 5}, 'is')")

    move(0)
    move(1)
    filled(shops, "a:o_0", "a:o_2", "b:o_1")
    move(2)
    spec = shops.begin(instances(shops, **starts))
    move(3)
    shops.write("b", "INSERT INTO o_1 VALUES (4, 'is')")
    shops.write("a", "DELETE FROM o_0 WHERE id = 4")
    collisions = 0
    for name in ("a", "b") if first == "a" else ("b", "a"):
        progress = SyncProgress()
        shops.sync_one(name, spec=spec, progress=progress)
        counts = progress.to_json()["safe_mode"]["collisions"].get(f"{shops.schema}.o", {"present": 0, "missing": 0})
        collisions += counts["present"] + counts["missing"]
    shops.sync(spec=spec)
    shops.sync(spec=spec)

    assert shops.meta_rows("dm_contested_row") == 0
    assert collisions == (0 if first == "a" else 5)  # of what a DELETE finds it is not known whose it is
    everything = [*((number, "is") for number in range(9)), (9, "was")]
    # Between two sources a row can be lost, as in DM, whose DELETE is applied after its INSERT.
    lost = [row for row in everything if row not in shops.rows()]
    assert lost == ([] if first == "a" else [(number, "is") for number in range(5)])
    assert set(shops.rows()) <= set(everything)


def test_a_source_begins_where_another_has_been_writing(one_pair: Shops) -> None:
    """A start in the past goes by no records of rows, so none of the sources has to wait for another."""
    one_pair.create(PLAIN, "a:o_0", "b:o_1")
    filled(one_pair)
    start = one_pair.place("b")
    one_pair.write("b", "INSERT INTO o_1 VALUES (1, 'b')")
    now = one_pair.place("a")
    spec = one_pair.begin(instances(one_pair, a=now), ["a"])
    one_pair.write("a", "INSERT INTO o_0 VALUES (2, 'a')")
    one_pair.sync("a", spec=spec)

    spec = one_pair.begin(instances(one_pair, a=now, b=start))
    one_pair.sync("b", "a", spec=spec)
    assert one_pair.compared().equal, one_pair.compared()


def test_a_row_that_collides_after_safe_mode_waits(one_pair: Shops) -> None:
    """Merged tables are exact from the location on: nothing is written over there."""
    one_pair.create(PLAIN, "a:o_0", "a:o_2", "b:o_1")
    one_pair.write("a", "INSERT INTO o_0 VALUES (1, 'a')")
    filled(one_pair, "a:o_0")
    starts = {name: one_pair.place(name) for name in one_pair.sources}
    one_pair.write("b", "INSERT INTO o_1 VALUES (1, 'b')")
    spec = one_pair.begin([{**one, "syncer": {"safe-mode-duration": "0s"}} for one in instances(one_pair, **starts)])
    one_pair.stops(RowsCollide, "b", spec=spec)
    assert (one_pair.rows(), one_pair.meta_rows("dm_contested_row")) == ([(1, "a")], 1)
    one_pair.write("a", "DELETE FROM o_0")
    one_pair.sync("a", "b", spec=spec)
    assert one_pair.rows() == [(1, "b")]
