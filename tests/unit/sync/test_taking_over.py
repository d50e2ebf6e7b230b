"""A row that takes the place of another one, in the model of a target: once, named, and not before it may."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pymysql
import pytest

from airflow_provider_dm.engine.merge.collision import Collides, find_holders
from airflow_provider_dm.engine.rules.mapping import TableMapping
from airflow_provider_dm.engine.sync.safe_mode import taking_over
from airflow_provider_dm.engine.sync.safe_mode.named_collisions import NamedCollision
from airflow_provider_dm.engine.sync.safe_mode.overwriting import Collision
from airflow_provider_dm.engine.sync.safe_mode.taking_over import TakingOver
from airflow_provider_dm.engine.target import standstill
from airflow_provider_dm.engine.target.contested_row import lost_rows, oldest_rows, waiting
from airflow_provider_dm.engine.target.identity import SubtaskRef
from airflow_provider_dm.engine.target.standstill import Patience
from airflow_provider_dm.engine.target.table_schema import load_feeders
from tests.unit.sync.sqlite_target import META
from tests.unit.sync.test_last_wins import FENCE, UNIQUE, Known, World, image
from tests.unit.sync.test_last_wins import waiting as let_wait

HELD = [("one", "shop_0"), ("one", "shop_1"), ("two", "shop_0")]


class Fed(World):
    """A target that three shards of two sources feed. A row of the first of them waits for the place of two others."""

    def __init__(self) -> None:
        super().__init__(random.Random(1))
        for source, schema in HELD:
            self.database.sqlite.execute(
                f"INSERT INTO {META}.dm_table_schema (task, source, table_schema, table_name, target_schema, "
                "target_name) VALUES ('task', ?, ?, 'o', 'shop', 'unique')",
                [source, schema],
            )
        self.database.sqlite.execute("INSERT INTO shop.'unique' VALUES (1, 1, 0), (2, 2, 0), (3, 3, 0)")
        let_wait(self.database, FENCE, "shop_0", image(1, 2, 10))
        self.around = Known(self.database)
        self.taking = TakingOver(FENCE, self.around)

    def collision(self) -> Collides:
        connection = self.database.connection()
        (row,) = oldest_rows(connection, FENCE.ref, seconds=0, behind=0, most=9)
        mapping = self.around.mapped(row.source, row.table, row.target)
        holders = find_holders(row, mapping, connection, self.database.access().select)
        return Collides(row, load_feeders(connection, FENCE.ref)[2], holders[0], tuple(holders))

    def known(self) -> tuple[int, int]:
        """How many rows wait, and what is lost."""
        connection = self.database.connection()
        return sum(one.rows for one in waiting(connection, FENCE.ref)), lost_rows(connection, FENCE.ref, UNIQUE.name)


def test_it_is_named_once_also_where_the_answer_to_the_commit_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    fed = Fed()
    transactions = fed.around.transactions

    def twice(body: Callable[[Any], Any], /) -> Any:
        transactions(body)
        return transactions(body)

    monkeypatch.setattr(fed.around, "transactions", twice)
    assert fed.taking.take(fed.collision())

    named = (
        NamedCollision("PRIMARY", ("k",), ("1",), other="two:shop_0.o"),
        NamedCollision("u", ("u",), ("2",), other="two:shop_0.o"),
    )
    assert fed.taking.taken() == [Collision("shop.unique", 0, 2, "shop_0.o", named)]
    assert fed.taking.taken() == []
    assert fed.rows() == {image(1, 2, 10), image(3, 3, 0)}
    # What the other two had at 1, and all three at 2, where the row was that had its `u`.
    assert fed.known() == (0, 5)


@pytest.mark.parametrize("why", ["is recorded", "catches up", "a key of its own", "nobody sees by what it is held"])
def test_it_waits_or_stops_the_task_where_nobody_can_tell(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fed, later = Fed(), True
    match why:
        case "is recorded":
            fed.database.sqlite.execute(f"INSERT INTO {META}.dm_owner VALUES ('task', 'two', 'shop_0', 'o', 7)")
        case "catches up":
            fed.database.sqlite.execute(f"UPDATE {META}.dm_subtask SET unit = 'load' WHERE source = 'two'")
        case "a key of its own":
            later = False
            monkeypatch.setattr(taking_over, "can_be_written_over", _never)
        case _:
            later = False
            monkeypatch.setattr(taking_over, "find_holders", lambda *_: [])
    before = fed.rows()
    assert fed.taking.take(fed.collision()) == later
    assert (fed.taking.taken(), fed.rows(), fed.known()) == ([], before, (1, 0))


def _never(_mapping: TableMapping) -> bool:
    return False


def test_a_place_that_is_free_by_now_is_taken_from_nobody() -> None:
    fed = Fed()
    found = fed.collision()
    fed.database.sqlite.execute("DELETE FROM shop.'unique' WHERE k < 3")
    assert fed.taking.take(found)
    assert (fed.taking.taken(), fed.rows(), fed.known()) == ([], {image(1, 2, 10), image(3, 3, 0)}, (0, 0))


def test_nobody_is_held_up_again_soon_where_it_was_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that hangs in a transaction costs the others a tenth of the time at most, and seconds at a stretch."""
    fed, clock, waited = Fed(), [100.0], list[tuple[float, int]]()
    found, before = fed.collision(), fed.rows()

    def hold_up(_connection: object, _ref: SubtaskRef) -> None:
        seconds = fed.taking._patience.seconds
        waited.append((clock[0], seconds))
        clock[0] += seconds
        raise pymysql.err.OperationalError(1205, "Lock wait timeout exceeded")

    with monkeypatch.context() as patched:
        patched.setattr(standstill, "_hold_up_all", hold_up)
        patched.setattr(fed.around, "now", lambda: clock[0])
        while clock[0] < 500:
            assert fed.taking.take(found)
            clock[0] += 1
        assert [seconds for _, seconds in waited][:5] == [1, 2, 4, 8, 8]
        assert all(then - now >= 11 * seconds for (now, seconds), (then, _) in pairwise(waited))
        assert (fed.taking.taken(), fed.rows(), fed.known()) == ([], before, (1, 0))
        patched.setattr(standstill, "_hold_up_all", lambda *_: None)
        clock[0] += 80
        assert fed.taking.take(found)
    assert fed.taking._patience == Patience()
    assert fed.known()[0] == 0
