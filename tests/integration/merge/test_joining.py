"""Sources that begin at different times, and tasks that begin in a past that is not ours."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from airflow_provider_dm.engine.merge.joining import OwnerNotReady, PastNotOurs
from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.sync.progress import SyncProgress
from tests.integration.merge.conftest import Shops

PLAIN = "id int NOT NULL PRIMARY KEY, v varchar(20)"


def test_a_source_waits_for_one_that_began_alone(one_pair: Shops) -> None:
    one_pair.create(PLAIN, "a:o_0", "b:o_1")
    one_pair.write("a", "INSERT INTO o_0 VALUES (1, 'a'), (2, 'a')")
    one_pair.write("b", "INSERT INTO o_1 VALUES (11, 'b')")
    one_pair.load(["a"], copied=lambda: one_pair.write("a", "DELETE FROM o_0 WHERE id = 2"))
    one_pair.write("b", "INSERT INTO o_1 VALUES (2, 'b')")

    with pytest.raises(OwnerNotReady) as refused:
        one_pair.load(["b"])
    assert {"a", "b"} == {refused.value.source, refused.value.other_source}
    assert f"{one_pair.schema}.o" in str(refused.value)

    one_pair.sync("a", only=True)
    one_pair.load(["b"])
    one_pair.sync()

    assert one_pair.compared().equal, one_pair.compared()


def test_an_exact_sync_notices_that_another_source_joins(one_pair: Shops) -> None:
    """Its table was its own, so it took a duplicate for a stranger's row (DM-6005)."""
    one_pair.create(PLAIN, "a:o_0", "b:o_1")
    one_pair.write("a", "INSERT INTO o_0 VALUES (1, 'a'), (2, 'a')")
    one_pair.load(["a"])
    one_pair.sync("a", only=True)
    stop, shown, errors = threading.Event(), SyncProgress(), list[BaseException]()
    forever = one_pair.migration(["a"]).spec.model_copy(update={"until": "forever"})

    def sync() -> None:
        try:
            one_pair.sync_one("a", spec=forever, stop=stop, progress=shown)
        except BaseException as error:  # noqa: BLE001 (shown below)
            errors.append(error)

    thread = threading.Thread(target=sync)
    thread.start()
    while shown.location is None:
        time.sleep(0.05)
    one_pair.write("b", "INSERT INTO o_1 VALUES (5, 'b'), (6, 'b')")

    def goes_to_a() -> None:
        one_pair.write("b", "DELETE FROM o_1 WHERE id = 5")
        one_pair.write("a", "INSERT INTO o_0 VALUES (5, 'a')")
        deadline = time.monotonic() + 30
        while not shown.changes and not errors and time.monotonic() < deadline:
            time.sleep(0.05)

    one_pair.load(["b"], copied=goes_to_a)
    one_pair.sync("b")
    stop.set()
    thread.join()

    assert not errors, errors
    one_pair.sync()
    assert one_pair.compared().equal, one_pair.compared()
    assert (5, "a") in one_pair.rows()


def test_a_source_whose_fellow_did_not_begin_goes_on_by_its_records(one_pair: Shops) -> None:
    """It catches up alone; then the fellow begins, and what was written meanwhile is still known to be the first's."""
    one_pair.create(PLAIN, "a:o_0", "b:o_1")
    one_pair.write("a", "INSERT INTO o_0 VALUES (1, 'a'), (2, 'a')")
    one_pair.write("b", "INSERT INTO o_1 VALUES (11, 'b')")
    one_pair.relay()

    def b_fails(source: str, _start: Location) -> None:
        if source == "b":
            raise RuntimeError("b fails")

    with pytest.raises(RuntimeError, match="b fails"):
        one_pair.migration().go(begun=b_fails)
    places: list[Location] = []

    def meanwhile() -> None:
        one_pair.write("a", "INSERT INTO o_0 VALUES (3, 'a')")
        places.append(one_pair.place("a"))
        one_pair.write("a", "DELETE FROM o_0 WHERE id = 3", "DELETE FROM o_0 WHERE id = 2")

    one_pair.load(["a"], copied=meanwhile)
    one_pair.sync_one("a", spec=one_pair.migration(["a"]).spec.model_copy(update={"until": str(places[0])}))
    one_pair.write("b", "INSERT INTO o_1 VALUES (2, 'b')")
    one_pair.load(["b"])
    one_pair.sync("b", "a", "b", "a")

    assert one_pair.compared().equal, one_pair.compared()
    assert one_pair.rows() == [(1, "a"), (2, "b"), (11, "b")]


def test_a_source_may_join_a_full_copy_that_is_done(one_pair: Shops) -> None:
    """There is no sync to wait for, whatever is written to the first source."""
    one_pair.task = {"task-mode": "full"}
    one_pair.create(PLAIN, "a:o_0", "b:o_1")
    one_pair.write("a", "INSERT INTO o_0 VALUES (1, 'a')")
    one_pair.write("b", "INSERT INTO o_1 VALUES (2, 'b')")
    one_pair.load(["a"], copied=lambda: one_pair.write("a", "UPDATE o_0 SET v = 'later' WHERE id = 1"))

    one_pair.load(["b"])

    assert one_pair.rows() == [(1, "a"), (2, "b")]
    assert one_pair.meta_rows("dm_row_owner") == 0


def instances(shops: Shops, **starts: Any) -> list[dict[str, Any]]:
    """Task entries, each source started at its location."""
    return [
        {
            "source-id": name,
            "block-allow-list": name,
            "route-rules": ["merge"],
            "meta": {"binlog-name": start.file, "binlog-pos": start.position},
        }
        for name, start in starts.items()
    ]


def test_a_past_that_is_not_ours(shops: Shops, first: str) -> None:
    """The target was filled by hand after the start locations; rows moved before and after that."""
    shops.create(PLAIN, "a:o_0", "b:o_1")
    shops.target.sql(f"CREATE DATABASE {shops.schema}")
    shops.target.sql(f"CREATE TABLE o ({PLAIN})", database=shops.schema)
    shops.write("a", *(f"INSERT INTO o_0 VALUES ({number}, 'was')" for number in range(6)))
    starts = {name: shops.place(name) for name in shops.sources}

    def move(number: int) -> None:
        shops.write("a", f"DELETE FROM o_0 WHERE id = {number}")
        shops.write("b", f"INSERT INTO o_1 VALUES ({number}, 'is')")

    move(0)
    move(1)
    for server, table in ((shops.sources["a"], "o_0"), (shops.sources["b"], "o_1")):
        for row in server.sql(f"SELECT * FROM {table}", database=shops.schema):
            shops.target.sql("INSERT INTO o VALUES (%s, %s)", row, database=shops.schema)
    move(2)
    spec = shops.begin(instances(shops, **starts))
    move(3)
    shops.write("b", "INSERT INTO o_1 VALUES (4, 'is')")
    shops.write("a", "DELETE FROM o_0 WHERE id = 4")
    for name in ("a", "b") if first == "a" else ("b", "a"):
        shops.sync(name, spec=spec)
    shops.sync(spec=spec)
    shops.sync(spec=spec)

    assert shops.compared().equal, shops.compared()
    assert shops.meta_rows("dm_contested_row") == shops.meta_rows("dm_row_owner") == 0


def test_a_past_that_is_not_ours_where_somebody_writes_already_is_refused(one_pair: Shops) -> None:
    one_pair.create(PLAIN, "a:o_0", "b:o_1")
    one_pair.target.sql(f"CREATE DATABASE {one_pair.schema}")
    one_pair.target.sql(f"CREATE TABLE o ({PLAIN})", database=one_pair.schema)
    start = one_pair.place("b")
    one_pair.write("b", "INSERT INTO o_1 VALUES (1, 'b')")
    now = one_pair.place("a")
    spec = one_pair.begin(instances(one_pair, a=now), ["a"])
    one_pair.sync("a", spec=spec)

    with pytest.raises(PastNotOurs):
        one_pair.begin(instances(one_pair, a=now, b=start))
