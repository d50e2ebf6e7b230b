"""Shards of two sources that write to the same keys, and make DDL, with `safe-mode: true`: what is in the target then.

Both sources are synced at once, and stop and begin again in between, while all shards of a merged table write to a
handful of keys and unique values, and make the same DDL at times of their own. In the end

    - each row of the target is one of a shard, as that has it, and in the newest form;
    - what a shard has and the target has not is known to be lost (dm_contested_row), and nothing else is;
    - no row waits.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

import pytest

from airflow_provider_dm.engine.merge import contests
from airflow_provider_dm.engine.sync.progress import SyncProgress
from airflow_provider_dm.engine.target.row_key import key_values
from testbed import Server
from tests.chaos.runs import Runs, a_task
from tests.integration.merge.conftest import Shops
from tests.integration.merge.sharding import PESSIMISTIC

TABLE = "id int NOT NULL PRIMARY KEY, v varchar(20), u int UNIQUE"
SHARDS = {"o_1": "a", "o_2": "a", "o_3": "b", "o_4": "b"}
VALUES = range(1, 6)
DDLS = 2
FEWEST_SYNCS, MOST_SYNCS = 2, 25
"""In the end: DDL of all shards takes some runs, and a row that was told to wait some more."""


@dataclass
class Writer:
    """The shards, as they are at their sources."""

    shops: Shops
    chance: random.Random
    rows: dict[str, dict[int, int]] = field(default_factory=lambda: {name: {} for name in SHARDS})
    altered: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)

    def write(self, *, alters: bool = True) -> None:
        """Write one transaction to a shard, or alter it."""
        table = self.chance.choice(list(SHARDS))
        if alters and self.altered[table] < DDLS and self.chance.random() < 0.05:
            self.alter(table)
        else:
            changes = [self._change(table) for _ in range(self.chance.randint(1, 2))]
            self.shops.write(SHARDS[table], "; ".join(changes))
            self.done["transactions"] += 1

    def alter(self, table: str) -> None:
        number = self.altered[table]
        self.shops.write(SHARDS[table], f"ALTER TABLE {table} ADD COLUMN c{number} int NOT NULL DEFAULT {number}")
        self.altered[table] += 1
        self.done["DDL"] += 1

    def alter_all(self) -> None:
        """Let all shards make what some have made."""
        for table in SHARDS:
            for _ in range(self.altered[table], DDLS):
                self.alter(table)

    def _change(self, table: str) -> str:
        mine, key, number = self.rows[table], self.chance.choice(VALUES), self.done.total()
        free = [value for value in VALUES if value not in mine.values()]
        if key not in mine:
            mine[key] = self.chance.choice(free)
            return f"INSERT INTO {table} (id, v, u) VALUES ({key}, '{table} {number}', {mine[key]})"
        if self.chance.random() < 0.45:
            del mine[key]
            return f"DELETE FROM {table} WHERE id = {key}"
        if free and self.chance.random() < 0.5:
            mine[key] = self.chance.choice(free)
        return f"UPDATE {table} SET u = {mine[key]}, v = '{table} {number}' WHERE id = {key}"


@contextmanager
def syncing(shops: Shops) -> Iterator[None]:
    """Sync both sources at once until the block ends. Raises what ends one before."""
    stop, forever = threading.Event(), shops.migration().spec.model_copy(update={"until": "forever"})
    with ThreadPoolExecutor(len(shops.sources)) as pool:
        running = [
            pool.submit(shops.sync_one, name, spec=forever, stop=stop, progress=SyncProgress())
            for name in shops.sources
        ]
        try:
            yield
        finally:
            stop.set()
        for one in running:
            one.result()


def play(shops: Shops, chance: random.Random, transactions: int) -> Counter[str]:
    """Play one history. Return what was done. Raises AssertionError where it is not as it has to be in the end."""
    shops.task = PESSIMISTIC
    shops.instance = {"syncer": {"safe-mode": True, "compact": chance.random() < 0.7}}
    writer = Writer(shops, chance)
    shops.create(TABLE, *(f"{source}:{table}" for table, source in SHARDS.items()))
    for _ in range(4):
        writer.write(alters=False)  # those that begin have to be alike
    with pytest.MonkeyPatch.context() as patience:
        for name, seconds in (("CONTEST_SECONDS", 0.0), ("CONFIRM_SECONDS", 0.1), ("FINISH_SECONDS", 1.0)):
            patience.setattr(contests, name, seconds)
        shops.load()
        while writer.done["transactions"] < transactions:
            with syncing(shops):
                for _ in range(chance.randint(10, 40)):
                    writer.write()
        writer.alter_all()
        for number in range(MOST_SYNCS):
            shops.sync()
            if number >= FEWEST_SYNCS and not waiting(shops):
                break
    check_end(shops, writer.done)
    return writer.done


def waiting(shops: Shops) -> int:
    """How many rows have yet to find a place, or to be lost."""
    counted = shops.target.sql("SELECT COUNT(*) FROM dm_contested_row WHERE LENGTH(image) <> 1", database=shops.meta)
    return int(counted[0][0])


def check_end(shops: Shops, done: Counter[str]) -> None:
    held = {
        (table, row[0]): row
        for table, source in SHARDS.items()
        for row in shops.sources[source].sql(f"SELECT * FROM {table}", database=shops.schema)
    }
    there = set(shops.rows())
    noted = shops.target.sql("SELECT table_name, row_key, LENGTH(image) FROM dm_contested_row", database=shops.meta)
    assert all(length == 1 for *_, length in noted), f"rows wait: {noted}"
    lost = {(str(table), int((key_values(key) or [b""])[0])) for table, key, _ in noted}
    assert there <= set(held.values()), f"nobody's: {there - set(held.values())}"
    missing = {place for place, row in held.items() if row not in there}
    assert missing == lost & held.keys(), f"missing {missing - lost}, lost and there {lost & held.keys() - missing}"
    done["rows in the target"] += len(there)
    done["lost"] += len(missing)


def play_round(target: Server, sources: Mapping[str, Server], *, schema: str, seed: int) -> Counter[str]:
    """One round in a schema of its own. Return what was done. Raises AssertionError; then its folder is kept."""
    chance = random.Random(seed)
    with a_task(target, sources, schema=schema, seed=seed) as shops, closing(Runs(shops, chance)):
        return play(shops, chance, transactions=200)
