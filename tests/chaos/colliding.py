"""Shards of two sources that write to the same keys, and make DDL, with `safe-mode: true`: what is in the target then.

Both sources are synced at once, and stop and begin again in between, while all shards of a merged table write to a
handful of keys and unique values, and make the same DDL at times of their own. In the end

    - each row of the target is one of a shard, as that has it, and in the newest form;
    - no more rows are missing than the collisions that were counted;
    - no row waits.
"""

import random
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from airflow_provider_dm.engine.sync.progress import SyncProgress
from testbed import Server
from tests.chaos.runs import Runs, a_task
from tests.integration.merge.conftest import PESSIMISTIC, Shops

TABLE = "id int NOT NULL PRIMARY KEY, v varchar(20), u int UNIQUE"
SHARDS = {"o_1": "a", "o_2": "a", "o_3": "b", "o_4": "b"}
VALUES = range(1, 6)
DDLS = 2
SYNCS = 2 + 2 * DDLS
"""Runs of all sources in the end: DDL of all shards takes some."""


@dataclass
class Writer:
    """The shards, as they are at their sources."""

    shops: Shops
    chance: random.Random
    rows: dict[str, dict[int, int]] = field(default_factory=lambda: {name: {} for name in SHARDS})
    altered: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    collisions: int = 0

    def count(self, progress: SyncProgress) -> None:
        """Count the collisions of a run."""
        counts = progress.to_json()["safe_mode"]["collisions"].values()
        self.collisions += sum(one["missing"] + one["present"] for one in counts)

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
def syncing(shops: Shops, writer: Writer) -> Iterator[None]:
    """Sync both sources at once until the block ends. Raises what ends one before."""
    seen = {name: SyncProgress() for name in shops.sources}
    stop, forever = threading.Event(), shops.migration().spec.model_copy(update={"until": "forever"})
    with ThreadPoolExecutor(len(shops.sources)) as pool:
        running = [
            pool.submit(shops.sync_one, name, spec=forever, stop=stop, progress=progress)
            for name, progress in seen.items()
        ]
        try:
            yield
        finally:
            stop.set()
        for one in running:
            one.result()
    for progress in seen.values():
        writer.count(progress)


def play(shops: Shops, chance: random.Random, transactions: int) -> Counter[str]:
    """Play one history. Return what was done. Raises AssertionError where it is not as it has to be in the end."""
    shops.task = PESSIMISTIC
    shops.instance = {"syncer": {"safe-mode": True, "compact": chance.random() < 0.7}}
    writer = Writer(shops, chance)
    shops.create(TABLE, *(f"{source}:{table}" for table, source in SHARDS.items()))
    for _ in range(4):
        writer.write(alters=False)  # those that begin have to be alike
    shops.load()
    while writer.done["transactions"] < transactions:
        with syncing(shops, writer):
            for _ in range(chance.randint(10, 40)):
                writer.write()
    writer.alter_all()
    for number in range(SYNCS * len(shops.sources)):
        progress = SyncProgress()
        shops.sync_one(list(shops.sources)[number % len(shops.sources)], spec=shops.migration().spec, progress=progress)
        writer.count(progress)
    check_end(shops, writer)
    return writer.done


def check_end(shops: Shops, writer: Writer) -> None:
    held = {
        (table, row[0]): row
        for table, source in SHARDS.items()
        for row in shops.sources[source].sql(f"SELECT * FROM {table}", database=shops.schema)
    }
    there = set(shops.rows())
    waiting = shops.target.sql("SELECT table_name, row_key, LENGTH(image) FROM dm_contested_row", database=shops.meta)
    assert not waiting, f"rows wait: {waiting}"
    assert there <= set(held.values()), f"rows without an owner: {there - set(held.values())}"
    missing = {place for place, row in held.items() if row not in there}
    assert len(missing) <= writer.collisions, f"{missing} are missing, and {writer.collisions} collisions were counted"
    writer.done["rows in the target"] += len(there)
    writer.done["missing"] += len(missing)
    writer.done["collisions"] += writer.collisions


def play_round(target: Server, sources: Mapping[str, Server], *, schema: str, seed: int) -> Counter[str]:
    """One round in a schema of its own. Return what was done. Raises AssertionError; then its folder is kept."""
    chance = random.Random(seed)
    with a_task(target, sources, schema=schema, seed=seed) as shops, closing(Runs(shops, chance)):
        return play(shops, chance, transactions=200)
