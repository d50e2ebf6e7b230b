"""Paging by key: every row once, in order, whatever the key. SQLite plays the server for the order of integers."""

import sqlite3

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.reading.keyset import KeyOrder, read_key, write_key
from tests.unit.ddl.tracked import table_of

THREE = table_of("a int, b int, c int, PRIMARY KEY (a, b, c)")
keys = st.sets(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=40)


@given(rows=keys, limit=st.integers(1, 7), low=st.none() | st.integers(0, 4), high=st.none() | st.integers(0, 4))
def test_pages_of_a_composite_key_give_every_row_once_in_order(
    rows: set[tuple[int, int, int]], limit: int, low: int | None, high: int | None
) -> None:
    order = KeyOrder.of(THREE)
    assert order is not None
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE t (a, b, c)")
    database.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    found: list[tuple[int, int, int]] = []

    while True:
        after = None if not found else tuple(b"%d" % value for value in found[-1])
        page: list[tuple[int, int, int]] = []
        for step in order.steps(after, low, high):
            room = limit - len(page)
            page += database.execute(
                f"SELECT a, b, c FROM t WHERE {step.decode()} ORDER BY {order.order_by()} LIMIT {room}"
            ).fetchall()
            if len(page) >= limit:
                break
        if not page:
            break
        found += page

    expected = (row for row in rows if (low is None or row[0] >= low) and (high is None or row[0] <= high))
    assert found == sorted(expected)


def test_the_steps_of_a_two_column_key() -> None:
    order = KeyOrder.of(table_of("a int, b int, PRIMARY KEY (a, b)"))
    assert order is not None

    assert list(order.steps(None, 1, 9)) == [b"`a` >= 1 AND `a` <= 9"]
    assert list(order.steps((b"3", b"4"), 1, 9)) == [b"`a` = 3 AND `b` > 4 AND `a` <= 9", b"`a` > 3 AND `a` <= 9"]


def test_keys_that_the_server_orders_otherwise_than_it_compares_do_not_page() -> None:
    text = "t varchar(99) NOT NULL"
    assert KeyOrder.of(table_of("e enum('b','a') PRIMARY KEY")) is None
    assert KeyOrder.of(table_of("f double PRIMARY KEY")) is None
    assert KeyOrder.of(table_of(f"{text}, PRIMARY KEY (t(10))")) is None
    assert KeyOrder.of(table_of(text)) is None
    order = KeyOrder.of(table_of(f"{text}, PRIMARY KEY (t)"))
    assert order is not None
    assert not order.splittable


@given(st.lists(st.binary()))
def test_a_written_key_reads_back(values: list[bytes]) -> None:
    key = tuple(values)

    assert read_key(write_key(key)) == key
    assert write_key(key).isascii()
